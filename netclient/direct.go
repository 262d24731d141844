package netclient

import (
	"syscall"

	"github.com/kafka-reservoir/producer/protocol"
)

// maxDirect is the largest frame that the owner of the selector writes itself while the writer is idle. To hand a small frame over means to wake the
// writer, and by that perhaps a processor: 2 % of a synchronous send where the sender's goroutine is the owner, and one of the two goroutines to be woken where
// an assistant is. What is larger, and what comes while the writer is busy, is the writer's: the owner has better things to do then.
const maxDirect = 8 << 10

// A directWriter writes small frames to a plain socket if that takes no waiting.
type directWriter struct {
	raw syscall.RawConn
	buf []byte
	n   int
	try func(fd uintptr) bool // writeOnce, once: a method value allocates
}

// newDirectWriter returns nil where it cannot be done.
func newDirectWriter(c syscall.Conn) *directWriter {
	if !canWriteDirectly {
		return nil
	}
	raw, err := c.SyscallConn()
	if err != nil {
		return nil
	}
	d := &directWriter{raw: raw}
	d.try = d.writeOnce
	return d
}

// write returns how many bytes of the frame the socket has taken: all, some or, also when it failed, none.
func (d *directWriter) write(f protocol.Frame) int {
	d.buf = d.buf[:0]
	for _, b := range f.Buffers {
		d.buf = append(d.buf, b...)
	}
	d.n = 0
	if err := d.raw.Write(d.try); err != nil {
		return 0 // closed: whoever closed it sees to the frame
	}
	return d.n
}

// writeOnce implements the callback of RawConn.Write; true: do not wait until more can be written.
func (d *directWriter) writeOnce(fd uintptr) bool {
	d.n = max(writeFD(fd, d.buf), 0)
	return true
}
