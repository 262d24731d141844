//go:build (amd64 || arm64) && !race

package netclient

import (
	"syscall"
	"unsafe"
)

func sysReceive(fd uintptr, b []byte, quiet bool) (int, syscall.Errno) {
	var n uintptr
	var errno syscall.Errno
	if quiet {
		n, _, errno = syscall.RawSyscall6(syscall.SYS_RECVFROM, fd, uintptr(unsafe.Pointer(&b[0])), uintptr(len(b)), syscall.MSG_DONTWAIT, 0, 0)
	} else {
		n, _, errno = syscall.Syscall6(syscall.SYS_RECVFROM, fd, uintptr(unsafe.Pointer(&b[0])), uintptr(len(b)), syscall.MSG_DONTWAIT, 0, 0)
	}
	return int(n), errno
}
