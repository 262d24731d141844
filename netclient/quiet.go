package netclient

import (
	"io"
	"net"
	"os"
	"syscall"
)

// Quiet system calls. An ordinary one is announced to Go's scheduler, in case that it takes long; if all processors were idle before, this wakes the
// runtime's monitor, a thread that then looks around every 20 µs until all are idle again. Where the broker is what a producer waits for, that is so
// at every answer and every request: half of all changes of threads were the monitor's, and a fifth of the CPU time. A socket that is not waited for takes
// microseconds, which nobody has to know of.
//
// They are for when other requests are under way, on whatever connection. Where each record is waited for, an awake monitor does some good: it
// keeps a virtual machine's processor from being put to sleep, and with that the answer from being a sixth later. And they are for writes of at most maxAtOnce: a megabyte
// takes the better part of a millisecond, in which the scheduler does well to have others run.

// A quietReader reads a connection: quietly while busy is set, if it is a plain socket of a system where that can be done.
type quietReader struct {
	conn net.Conn
	raw  syscall.RawConn // nil: never quietly
	busy bool

	b   []byte
	n   int
	err error
	try func(fd uintptr) bool // readOnce, once: a method value allocates
}

func newQuietReader(conn net.Conn) *quietReader {
	r := &quietReader{conn: conn, raw: quietConn(conn)}
	r.try = r.readOnce
	return r
}

// quietConn returns nil if conn has to be used the ordinary way.
func quietConn(conn net.Conn) syscall.RawConn {
	tcp, ok := conn.(*net.TCPConn)
	if !ok || !canBeQuiet {
		return nil
	}
	raw, err := tcp.SyscallConn()
	if err != nil {
		return nil
	}
	return raw
}

// Read implements [io.Reader].
func (r *quietReader) Read(b []byte) (int, error) {
	if !r.busy || r.raw == nil || len(b) == 0 {
		return r.conn.Read(b)
	}
	r.b = b
	err := r.raw.Read(r.try)
	r.b = nil
	switch {
	case err != nil:
		return 0, err
	case r.err != nil:
		return 0, socketError(r.conn, "read", r.err)
	case r.n == 0:
		return 0, io.EOF
	}
	return r.n, nil
}

// readOnce implements the callback of RawConn.Read; false: there is nothing yet.
func (r *quietReader) readOnce(fd uintptr) (done bool) {
	r.n, done, r.err = readQuietly(fd, r.b)
	return done
}

// maxVectors is how many slices one writev takes (IOV_MAX).
const maxVectors = 1024

// A quietWriter writes slices to a plain socket, quietly.
type quietWriter struct {
	conn net.Conn
	raw  syscall.RawConn

	left [][]byte
	vecs vectors
	n    int64
	err  error
	try  func(fd uintptr) bool // writeAll, once
}

// newQuietWriter returns nil if conn has to be used the ordinary way.
func newQuietWriter(conn net.Conn) *quietWriter {
	raw := quietConn(conn)
	if raw == nil {
		return nil
	}
	w := &quietWriter{conn: conn, raw: raw}
	w.try = w.writeAll
	return w
}

// write writes all of bufs, of which it changes the elements, or returns why it could not.
func (w *quietWriter) write(bufs [][]byte) (int64, error) {
	w.left, w.n, w.err = bufs, 0, nil
	err := w.raw.Write(w.try)
	w.left = nil
	if err == nil && w.err != nil {
		err = socketError(w.conn, "writev", w.err)
	}
	return w.n, err
}

// writeAll implements the callback of RawConn.Write; false: the socket takes no more for the time being.
func (w *quietWriter) writeAll(fd uintptr) bool {
	for {
		w.left = skip(w.left, 0)
		if len(w.left) == 0 {
			return true
		}
		n, done, err := w.vecs.writeQuietly(fd, w.left)
		if w.err = err; err != nil {
			return true
		}
		if !done {
			return false
		}
		w.n += int64(n)
		w.left = skip(w.left, n)
	}
}

// skip returns bufs without their first n bytes, and without empty slices at the front. It changes the element that begins in their midst.
func skip(bufs [][]byte, n int) [][]byte {
	for len(bufs) > 0 && n >= len(bufs[0]) {
		n -= len(bufs[0])
		bufs = bufs[1:]
	}
	if n > 0 {
		bufs[0] = bufs[0][n:]
	}
	return bufs
}

// socketError is the error that an ordinary operation would have returned.
func socketError(conn net.Conn, call string, err error) error {
	return &net.OpError{
		Op: call, Net: conn.LocalAddr().Network(), Source: conn.LocalAddr(), Addr: conn.RemoteAddr(),
		Err: os.NewSyscallError(call, err),
	}
}
