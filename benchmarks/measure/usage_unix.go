//go:build unix

package measure

import (
	"bytes"
	"os"
	"runtime"
	"strconv"
	"syscall"
	"time"
)

func processUsage() usage {
	u := rusage()
	return usage{time.Duration(u.Utime.Nano()), time.Duration(u.Stime.Nano())}
}

func rusage() (u syscall.Rusage) {
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		panic(err) // it has no way to fail
	}
	return u
}

// peakRSS is the most memory that was resident. Linux counts in getrusage's maxrss what the parent had before the exec, so
// the kernel is asked for the address space's own peak there.
func peakRSS() int64 {
	if runtime.GOOS != "linux" {
		return MaxRSS(rusage())
	}
	status, err := os.ReadFile("/proc/self/status")
	if err != nil {
		return 0
	}
	for line := range bytes.Lines(status) {
		if rest, ok := bytes.CutPrefix(line, []byte("VmHWM:")); ok {
			kib, _ := strconv.ParseInt(string(bytes.TrimSpace(bytes.TrimSuffix(bytes.TrimSpace(rest), []byte("kB")))), 10, 64)
			return kib << 10
		}
	}
	return 0
}

// MaxRSS is the peak in a process's usage, in bytes: macOS counts in bytes, the others in KiB.
func MaxRSS(u syscall.Rusage) int64 {
	if runtime.GOOS == "darwin" {
		return int64(u.Maxrss)
	}
	return int64(u.Maxrss) << 10
}
