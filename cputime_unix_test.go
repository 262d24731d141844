//go:build unix

package producer_test

import (
	"syscall"
	"time"
)

// cpuTime is what the process has spent on all cores so far, in its own code and in the kernel's.
func cpuTime() time.Duration {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		panic(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
