package netclient

import (
	"io"
	"net"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/kafka-reservoir/producer/protocol"
)

// A small frame is written by whoever sends it while the writer is idle, as far as the socket takes it at once; the writer has the rest. Whatever
// becomes of the connection meanwhile, the frame has one last word, and nothing follows the Disconnected.
func TestDirectWrites(t *testing.T) {
	if !canWriteDirectly {
		t.Skip("not on this system")
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer l.Close()
	sock, err := net.Dial("tcp", l.Addr().String())
	require.NoError(t, err)
	defer sock.Close()
	peer, err := l.Accept()
	require.NoError(t, err)
	defer peer.Close()

	const text = "one, two and three"
	f := frameOf("one", "", ", two", " and three").frame
	send := func(takes int, meanwhile func(*conn)) (*TCPSelector, *conn) {
		s := NewTCPSelector(TCPConfig{})
		c := &conn{sel: s, node: protocol.Node{ID: 1}, state: up, idle: true, wake: make(chan struct{}, 1)}
		c.out, c.direct = newFrameWriter(sock, &calm{}, byteCount{}), newDirectWriter(sock.(*net.TCPConn))
		c.direct.try = func(fd uintptr) bool {
			c.direct.n = writeFD(fd, c.direct.buf[:takes])
			meanwhile(c)
			return true
		}
		s.conns[1] = c
		s.Send(1, 7, f)
		return s, c
	}
	arrives := func(n int) string {
		b := make([]byte, n)
		_, err := io.ReadFull(peer, b)
		require.NoError(t, err)
		return string(b)
	}
	last := func(s *TCPSelector) (kinds []EventKind) {
		for _, e := range s.events {
			kinds = append(kinds, e.Kind)
		}
		return kinds
	}
	nothing := func(*conn) {}
	ends := func(c *conn) {
		c.state = gone
		c.sel.events = append(c.sel.events, Event{Kind: Disconnected, Node: 1})
	}

	for takes := range len(text) {
		s, c := send(takes, nothing)
		assert.Empty(t, s.events)
		require.Len(t, c.queue, 1)
		assert.Len(t, c.wake, 1, "the writer has something to do")
		if takes > 0 { // some of it is a frame of no use, and the next not touched
			assert.Equal(t, 0, wholeFrames([]queuedFrame{c.queue[0], frameOf("next")}, int64(len(text)-takes-1)))
		}
		n, err := c.out.write(append(c.queue, frameOf("!")))
		require.NoError(t, err)
		assert.Equal(t, 2, n)
		assert.Equal(t, text+"!", arrives(len(text)+1), "%d bytes at once", takes)

		s, _ = send(takes, ends)
		assert.Equal(t, []EventKind{Dropped, Disconnected}, last(s))
		assert.Equal(t, text[:takes], arrives(takes))
	}

	s, c := send(len(text), nothing)
	assert.Equal(t, []EventKind{Sent}, last(s))
	assert.Empty(t, c.queue)
	assert.True(t, c.idle, "the writer sleeps on")
	s, _ = send(len(text), ends)
	assert.Equal(t, []EventKind{Sent, Disconnected}, last(s))
	assert.Equal(t, text+text, arrives(2*len(text)))

	// The real thing, and a socket that is closed.
	d := newDirectWriter(sock.(*net.TCPConn))
	assert.Equal(t, len(text), d.write(f))
	assert.Equal(t, text, arrives(len(text)))
	require.NoError(t, sock.Close())
	assert.Zero(t, d.write(f))
}
