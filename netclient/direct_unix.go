//go:build unix

package netclient

import "syscall"

const canWriteDirectly = true

// writeFD writes to a non-blocking socket. An error is left to the next write, which meets it too.
func writeFD(fd uintptr, b []byte) int {
	n, err := syscall.Write(int(fd), b)
	if err != nil {
		return 0
	}
	return n
}
