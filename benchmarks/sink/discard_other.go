//go:build !(linux && (amd64 || arm64))

package sink

import (
	"bufio"
	"syscall"
)

// discard drops the next n bytes of a connection by reading them.
func discard(_ syscall.RawConn, r *bufio.Reader, n int) error {
	_, err := r.Discard(n)
	return err
}
