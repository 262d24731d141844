//go:build linux && (amd64 || arm64)

package sink

import (
	"bufio"
	"io"
	"syscall"
)

// discard drops the next n bytes of a connection whose buffered reader is empty. Reading them would cost the sink, and the
// cores that it shares with the client, a copy of every byte: MSG_TRUNC lets the kernel throw them away where they are.
func discard(conn syscall.RawConn, _ *bufio.Reader, n int) error {
	for n > 0 {
		var got uintptr
		var errno syscall.Errno
		err := conn.Read(func(fd uintptr) (done bool) {
			got, _, errno = syscall.Syscall6(syscall.SYS_RECVFROM, fd, 0, uintptr(n), syscall.MSG_TRUNC, 0, 0)
			return errno != syscall.EAGAIN
		})
		switch {
		case err != nil:
			return err
		case errno == syscall.EINTR:
		case errno != 0:
			return errno
		case got == 0:
			return io.ErrUnexpectedEOF
		default:
			n -= int(got)
		}
	}
	return nil
}
