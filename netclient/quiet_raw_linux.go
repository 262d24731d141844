//go:build !race

package netclient

import (
	"syscall"
	"unsafe"
)

func sysRead(fd uintptr, b []byte) (int, syscall.Errno) {
	n, _, errno := syscall.RawSyscall(syscall.SYS_READ, fd, uintptr(unsafe.Pointer(&b[0])), uintptr(len(b)))
	return int(n), errno
}

func sysWritev(fd uintptr, vecs unsafe.Pointer, n int) (int, syscall.Errno) {
	w, _, errno := syscall.RawSyscall(syscall.SYS_WRITEV, fd, uintptr(vecs), uintptr(n))
	return int(w), errno
}
