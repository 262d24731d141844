//go:build (amd64 || arm64) && race

package netclient

import "syscall"

// sysReceive tells the race detector that what was done before the write of what is read was done before the read: the tests of users with brokers in their own
// process may rely on it. (No writev tells it anything, neither net's nor ours.) As any ordinary call it waits where the socket is in blocking mode.
func sysReceive(fd uintptr, b []byte, _ bool) (int, syscall.Errno) {
	n, err := syscall.Read(int(fd), b)
	errno, _ := err.(syscall.Errno)
	return n, errno
}
