//go:build race

package netclient

import (
	"syscall"
	"unsafe"
)

// The race detector knows of ordinary system calls that what was done before a write was done before the read of it, which the tests of users with brokers of
// their own may rely on.

func sysRead(fd uintptr, b []byte) (int, syscall.Errno) {
	n, err := syscall.Read(int(fd), b)
	errno, _ := err.(syscall.Errno)
	return n, errno
}

func sysWritev(fd uintptr, vecs unsafe.Pointer, n int) (int, syscall.Errno) {
	w, _, errno := syscall.Syscall(syscall.SYS_WRITEV, fd, uintptr(vecs), uintptr(n))
	return int(w), errno
}
