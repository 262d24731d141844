package netclient

import (
	"io"
	"net"
	"os"
	"sync/atomic"
	"syscall"
	"time"
)

// Quiet system calls. An ordinary one is announced to Go's scheduler, in case that it takes long; if all processors were idle before, this wakes the
// runtime's monitor, a thread that looks around from then on, every 20 µs at first, until all are idle again. Where the brokers are what a producer waits for, that is so
// at nearly every answer and every request: nearly half of all changes of threads were the monitor's, and a fifth of the CPU time. A call on a socket that does not
// wait takes microseconds, and is made here without telling.
//
// The monitor is also who takes the processor from a goroutine that computes for more than 10 ms, such as one that an answer has woken, so it must not be left asleep for
// long: while several answers are expected the selector's owner sleeps for at most monitorNap at a time, and the monitor sleeps no longer than until the next timer.
//
// Not quiet are calls while no other request is under way, on whatever connection, and what the owner writes itself (direct.go), for callers who wait mostly: an awake
// monitor does some good there. It keeps a virtual machine's processor from being put to sleep, without which the answer would be told 10 to 15 % later. Nor are calls for more than
// maxAtOnce, which may take the better part of a millisecond: the scheduler does well to have others run meanwhile.

// monitorNap is the longest sleep of the owner while calls may be quiet: as long as the scheduler lets a goroutine compute.
const monitorNap = 10 * time.Millisecond

// calm says whether system calls may be quiet.
type calm struct {
	expected atomic.Int64 // responses to requests on connections that can be used quietly; changed with TCPSelector.mu
	watched  atomic.Bool  // the owner, should it sleep, does so for at most monitorNap
}

// quiet is asked before each call. The request that is written or answered is among those expected.
func (c *calm) quiet() bool { return c.watched.Load() && c.expected.Load() > 1 }

// watch decides, for an owner about to sleep, whether calls may be quiet until it decides again.
func (c *calm) watch() bool {
	watched := c.expected.Load() > 1
	c.watched.Store(watched)
	return watched
}

// quietConn returns nil if conn can be used in the ordinary way only: it is no plain socket, or not on a system where that can be done.
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

// A quietReader is a plain socket that is read quietly when that may be.
type quietReader struct {
	conn net.Conn
	raw  syscall.RawConn
	calm *calm

	b   []byte
	n   int
	err error
	try func(fd uintptr) bool // readOnce, once: a method value allocates
}

// newQuietReader returns conn itself if it cannot be read quietly.
func newQuietReader(conn net.Conn, calm *calm) io.Reader {
	raw := quietConn(conn)
	if raw == nil {
		return conn
	}
	r := &quietReader{conn: conn, raw: raw, calm: calm}
	r.try = r.readOnce
	return r
}

// Read implements [io.Reader].
func (r *quietReader) Read(b []byte) (int, error) {
	if len(b) == 0 {
		return 0, nil
	}
	r.b = b
	err := r.raw.Read(r.try)
	r.b = nil
	switch {
	case err != nil:
		return 0, named(err, "read")
	case r.err != nil:
		return 0, socketError(r.conn, "read", r.err)
	case r.n == 0:
		return 0, io.EOF
	}
	return r.n, nil
}

// readOnce implements the callback of RawConn.Read; false: there is nothing yet.
func (r *quietReader) readOnce(fd uintptr) (done bool) {
	r.n, done, r.err = receive(fd, r.b, r.quietly())
	return done
}

func (r *quietReader) quietly() bool { return len(r.b) <= maxAtOnce && r.calm.quiet() }

// maxVectors is how many slices one system call takes (IOV_MAX).
const maxVectors = 1024

// A quietWriter writes slices to a plain socket, quietly when that may be.
type quietWriter struct {
	conn net.Conn
	raw  syscall.RawConn
	calm *calm

	left  [][]byte
	short bool // not more than maxAtOnce
	vecs  vectors
	n     int64
	err   error
	try   func(fd uintptr) bool // writeAll, once
}

// newQuietWriter returns nil if conn cannot be written to quietly.
func newQuietWriter(conn net.Conn, calm *calm) *quietWriter {
	raw := quietConn(conn)
	if raw == nil {
		return nil
	}
	w := &quietWriter{conn: conn, raw: raw, calm: calm}
	w.try = w.writeAll
	return w
}

// write writes all of bufs, of which it changes the elements, or says how much of it and why no more. short says that it is not more than maxAtOnce.
func (w *quietWriter) write(bufs [][]byte, short bool) (int64, error) {
	w.left, w.short, w.n, w.err = bufs, short, 0, nil
	err := w.raw.Write(w.try)
	w.left = nil
	switch {
	case err != nil:
		err = named(err, "writev")
	case w.err != nil:
		err = socketError(w.conn, "writev", w.err)
	}
	return w.n, err
}

func (w *quietWriter) quietly() bool { return w.short && w.calm.quiet() }

// writeAll implements the callback of RawConn.Write; false: the socket takes no more for the time being.
func (w *quietWriter) writeAll(fd uintptr) bool {
	for {
		w.left = skip(w.left, 0)
		if len(w.left) == 0 {
			return true
		}
		n, done, err := w.vecs.send(fd, w.left, w.quietly())
		if err == nil && done && n == 0 {
			err = io.ErrUnexpectedEOF
		}
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

// socketError is the error that net would have made of a system call's.
func socketError(conn net.Conn, op string, err error) error {
	if _, ok := err.(syscall.Errno); ok {
		err = os.NewSyscallError(op, err)
	}
	return &net.OpError{Op: op, Net: conn.LocalAddr().Network(), Source: conn.LocalAddr(), Addr: conn.RemoteAddr(), Err: err}
}

// named gives an error of a RawConn, which is of a connection that was closed or ran out of time, the name that it would have otherwise.
func named(err error, op string) error {
	if e, ok := err.(*net.OpError); ok {
		e.Op = op
	}
	return err
}
