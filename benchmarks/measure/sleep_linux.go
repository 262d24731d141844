package measure

import (
	"runtime"
	"syscall"
	"time"
)

// preciseSleep makes sleep as precise as the kernel can until what it returns is called: Go's timers wake an idle process
// to the millisecond, and the kernel puts wake-ups of a thread up to 50 µs together unless told otherwise.
func preciseSleep() (restore func()) {
	const prSetTimerSlack = 29
	runtime.LockOSThread()
	_, _, _ = syscall.RawSyscall(syscall.SYS_PRCTL, prSetTimerSlack, 1, 0)
	return func() {
		_, _, _ = syscall.RawSyscall(syscall.SYS_PRCTL, prSetTimerSlack, 0, 0) // 0: the thread's default
		runtime.UnlockOSThread()
	}
}

func sleep(d time.Duration) {
	ts := syscall.NsecToTimespec(int64(d))
	_ = syscall.Nanosleep(&ts, nil) // an interrupted one ends early, and the record is sent a little early
}
