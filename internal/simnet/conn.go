package simnet

import (
	"errors"
	"io"
	"net"
	"sync"
	"time"
)

// Conn is one end of a connection. It is a net.Conn with a few more ways to go wrong.
type Conn struct {
	local, remote Addr
	in, out       *stream
	once          sync.Once
}

var _ net.Conn = (*Conn)(nil)

func pipe(a, b Addr, link Link) (*Conn, *Conn) {
	ab, ba := newStream(link), newStream(link)
	return &Conn{local: a, remote: b, in: ba, out: ab}, &Conn{local: b, remote: a, in: ab, out: ba}
}

// Pipe returns both ends of a connection that belongs to no network.
func Pipe(link Link) (*Conn, *Conn) { return pipe("a:1", "b:1", link) }

// Read implements net.Conn.
func (c *Conn) Read(b []byte) (int, error) {
	n, err := c.in.read(b)
	return n, c.wrap("read", err)
}

// Write implements net.Conn. It waits only for room in the link's buffer.
func (c *Conn) Write(b []byte) (int, error) {
	n, cut, err := c.out.write(b)
	if cut {
		c.Reset()
		_, _, err = c.out.write(b[n:])
	}
	return n, c.wrap("write", err)
}

func (c *Conn) wrap(op string, err error) error {
	if err == nil || errors.Is(err, io.EOF) {
		return err
	}
	return &net.OpError{Op: op, Net: "tcp", Source: c.local, Addr: c.remote, Err: err}
}

// Close implements net.Conn. As with TCP, the peer reads what was written and then io.EOF, unless this
// side had not read everything: then the connection is reset, and what is under way is lost.
func (c *Conn) Close() error {
	err := c.wrap("close", net.ErrClosed)
	c.once.Do(func() {
		err = nil
		if c.in.closeReader() {
			c.out.reset()
		} else {
			c.out.finish()
		}
		c.out.closeWriter()
	})
	return err
}

// CloseWrite ends the writing side: the peer reads what was written and then io.EOF.
func (c *Conn) CloseWrite() error {
	c.out.finish()
	return nil
}

// Reset breaks the connection. Both ends read what has arrived, and then ECONNRESET.
func (c *Conn) Reset() {
	c.in.reset()
	c.out.reset()
}

// Stall makes everything in both directions vanish, or lets it through again.
func (c *Conn) Stall(on bool) {
	for _, s := range []*stream{c.in, c.out} {
		s.set(func() { s.stalled = on })
	}
}

// CutAfter resets the connection when n more bytes were written by this end. They arrive if they are fast enough.
func (c *Conn) CutAfter(n int) {
	c.out.set(func() { c.out.cutAfter = n })
}

// Buffered is how many bytes this end wrote and the peer has not read.
func (c *Conn) Buffered() (n int) {
	c.out.set(func() { n = c.out.size })
	return n
}

// LocalAddr implements net.Conn.
func (c *Conn) LocalAddr() net.Addr { return c.local }

// RemoteAddr implements net.Conn.
func (c *Conn) RemoteAddr() net.Addr { return c.remote }

// SetDeadline implements net.Conn.
func (c *Conn) SetDeadline(t time.Time) error {
	return errors.Join(c.SetReadDeadline(t), c.SetWriteDeadline(t))
}

// SetReadDeadline implements net.Conn.
func (c *Conn) SetReadDeadline(t time.Time) error {
	c.in.set(func() { c.in.readTill = t })
	return nil
}

// SetWriteDeadline implements net.Conn.
func (c *Conn) SetWriteDeadline(t time.Time) error {
	c.out.set(func() { c.out.writeTill = t })
	return nil
}
