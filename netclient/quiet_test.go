package netclient

import (
	"bytes"
	"fmt"
	"io"
	"net"
	"regexp"
	"syscall"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/kafka-reservoir/producer/protocol"
)

// sockets returns the two ends of a connection.
func sockets(t *testing.T) (here, there *net.TCPConn) {
	if !canBeQuiet {
		t.Skip("not on this system")
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer l.Close()
	a, err := net.Dial("tcp", l.Addr().String())
	require.NoError(t, err)
	b, err := l.Accept()
	require.NoError(t, err)
	t.Cleanup(func() { a.Close(); b.Close() })
	return a.(*net.TCPConn), b.(*net.TCPConn)
}

// What goes out quietly comes in quietly, however many slices it is, empty ones among them, and however much more than the socket takes at once.
func TestQuietly(t *testing.T) {
	here, there := sockets(t)
	r, w := newQuietReader(there), newQuietWriter(here)
	r.busy = true
	for _, tt := range []struct{ slices, size int }{{0, 0}, {1, 0}, {1, 1}, {3, 10}, {maxVectors, 3}, {3*maxVectors + 1, 7}, {40, 1 << 20}} {
		var bufs [][]byte
		for i := range tt.slices {
			b := bytes.Repeat([]byte{byte(i), byte(i >> 8), 'x'}, tt.size/3+1)[:tt.size]
			bufs = append(bufs, b[:tt.size/2], nil, b[tt.size/2:])
		}
		want := bytes.Join(bufs, nil)
		wrote := make(chan error, 1)
		go func() { // ends when all is written: what is below reads it
			n, err := w.write(bufs)
			if err == nil && n != int64(len(want)) {
				err = fmt.Errorf("%d bytes instead of %d", n, len(want))
			}
			wrote <- err
		}()
		got := make([]byte, len(want))
		_, err := io.ReadFull(r, got)
		require.NoError(t, err)
		require.NoError(t, <-wrote)
		assert.True(t, bytes.Equal(want, got), "%d slices of %d", tt.slices, tt.size)
	}
	require.NoError(t, here.CloseWrite())
	n, err := r.Read(make([]byte, 1))
	assert.Zero(t, n)
	assert.Equal(t, io.EOF, err)
}

// A connection that is lost while it is used quietly is lost with the error that it would have otherwise.
func TestQuietErrors(t *testing.T) {
	lost := func(quietly bool) (read, write error) {
		here, there := sockets(t)
		require.NoError(t, there.SetLinger(0)) // a reset
		require.NoError(t, there.Close())
		r := newQuietReader(here)
		r.busy = quietly
		_, read = r.Read(make([]byte, 1))
		bufs := net.Buffers{[]byte("x"), []byte("y")}
		if quietly {
			_, write = newQuietWriter(here).write(bufs)
		} else {
			_, write = bufs.WriteTo(here)
		}
		return read, write
	}
	read, write := lost(false)
	quietRead, quietWrite := lost(true)
	require.ErrorIs(t, read, syscall.ECONNRESET)
	require.ErrorIs(t, quietRead, syscall.ECONNRESET)
	require.ErrorIs(t, write, syscall.EPIPE)
	require.ErrorIs(t, quietWrite, syscall.EPIPE)
	ports := regexp.MustCompile(`:\d+`)
	for _, errs := range [][2]error{{read, quietRead}, {write, quietWrite}} {
		assert.Equal(t, ports.ReplaceAllString(errs[0].Error(), ""), ports.ReplaceAllString(errs[1].Error(), ""))
	}
}

// A quiet read or write that waits ends when the connection is closed, and says what went out before.
func TestQuietlyWaitingEnds(t *testing.T) {
	here, there := sockets(t)
	r, w := newQuietReader(here), newQuietWriter(here)
	r.busy = true
	const much = 64 << 20
	read, wrote := make(chan error, 1), make(chan error, 1)
	var n int64
	go func() { _, err := r.Read(make([]byte, 1)); read <- err }() // ends with the connection
	go func() {                                                    // ends with the connection
		var err error
		n, err = w.write([][]byte{make([]byte, much)})
		wrote <- err
	}()
	_, err := io.ReadFull(there, make([]byte, 1<<20)) // it is being written
	require.NoError(t, err)
	require.NoError(t, here.Close())
	require.ErrorIs(t, <-read, net.ErrClosed)
	require.ErrorIs(t, <-wrote, net.ErrClosed)
	assert.GreaterOrEqual(t, n, int64(1<<20))
	assert.Less(t, n, int64(much))
}

// A connection is used quietly while requests are under way besides the one that is written, and the one that is answered, on this connection or another. The
// selector counts them, whatever becomes of their connections.
func TestWhenQuiet(t *testing.T) {
	here, there := sockets(t)
	s := NewTCPSelector(TCPConfig{})
	connOf := func(node int32, sock net.Conn) *conn {
		c := &conn{sel: s, node: protocol.Node{ID: node}, state: up, wake: make(chan struct{}, 1)}
		c.in, c.out = newFrameReader(newQuietReader(sock), 100, byteCount{}), newFrameWriter(sock, byteCount{})
		return c
	}
	c, other := connOf(1, here), connOf(2, there)
	write := func(c *conn) bool { // the writer takes a frame, writes it and reports it
		c.queue = append(c.queue, frameOf("x"))
		require.True(t, c.takeNext(0))
		quietly := c.out.busy
		s.mu.Lock()
		c.reportSentLocked(1)
		s.mu.Unlock()
		return quietly
	}
	answer := func(c *conn) bool { // the reader reports an answer, and is about to read the next
		c.received(nil)
		return c.in.quiet.busy
	}
	assert.False(t, c.in.quiet.busy)
	assert.False(t, write(c), "the only one")
	assert.False(t, answer(c), "none is expected")
	assert.False(t, write(c))
	assert.True(t, write(c), "another was not answered")
	assert.True(t, write(other), "on another connection")
	assert.True(t, answer(other))
	assert.True(t, write(other))
	assert.True(t, answer(c))
	assert.True(t, answer(c))
	assert.False(t, answer(other), "the last")
	assert.False(t, write(c))
	assert.True(t, write(other))

	other.becomeGone()
	assert.False(t, answer(c), "the other's will not come")
	assert.Zero(t, s.underWay)
	s.mu.Lock()
	s.sentLocked(other, &queuedFrame{id: 7}) // written by the owner while the connection ended
	s.mu.Unlock()
	assert.Zero(t, s.underWay)
	assert.False(t, write(c))

	assert.Nil(t, newQuietWriter(&recordingConn{}))
	plain := newQuietReader(&recordingConn{})
	assert.Nil(t, plain.raw, "no socket of the system's")
}

func TestQuietAllocations(t *testing.T) {
	here, there := sockets(t)
	r, w := newQuietReader(there), newQuietWriter(here)
	r.busy = true
	bufs, b := make([][]byte, 2), make([]byte, 10)
	n := testing.AllocsPerRun(100, func() {
		bufs[0], bufs[1] = b[:5], b[5:]
		if _, err := w.write(bufs); err != nil {
			t.Fatal(err)
		}
		if _, err := r.Read(b); err != nil {
			t.Fatal(err)
		}
	})
	assert.Zero(t, n)
}

func TestSkip(t *testing.T) {
	for n := range 7 {
		bufs := [][]byte{nil, []byte("ab"), nil, []byte("cde"), nil, []byte("f"), nil}
		left := skip(bufs, n)
		assert.Equal(t, "abcdef"[n:], string(bytes.Join(left, nil)), "%d", n)
		if n < 6 {
			assert.NotEmpty(t, left[0])
		} else {
			assert.Empty(t, left)
		}
	}
}
