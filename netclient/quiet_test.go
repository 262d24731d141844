package netclient

import (
	"bytes"
	"context"
	"encoding/binary"
	"fmt"
	"io"
	"net"
	"os"
	"regexp"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

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

// calmly makes a calm in which calls are quiet, or not.
func calmly(quiet bool) *calm {
	c := &calm{}
	if quiet {
		c.expected.Store(2)
		c.watch()
	}
	return c
}

// What goes out comes in, quietly or not, however many slices it is, empty ones among them, and however much more than the socket takes at once.
func TestQuietly(t *testing.T) {
	for _, quiet := range []bool{true, false} {
		here, there := sockets(t)
		calm := calmly(quiet)
		require.Equal(t, quiet, calm.quiet())
		r, w := newQuietReader(there, calm), newQuietWriter(here, calm)
		for _, tt := range []struct{ slices, size int }{{0, 0}, {1, 0}, {1, 1}, {3, 10}, {maxVectors, 3}, {3*maxVectors + 1, 7}, {40, 1 << 20}} {
			var bufs [][]byte
			for i := range tt.slices {
				b := bytes.Repeat([]byte{byte(i), byte(i >> 8), 'x'}, tt.size/3+1)[:tt.size]
				bufs = append(bufs, b[:tt.size/2], nil, b[tt.size/2:])
			}
			want := bytes.Join(bufs, nil)
			wrote := make(chan error, 1)
			go func() { // ends when all is written: what is below reads it
				n, err := w.write(bufs, true)
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
			assert.Nil(t, w.left)
		}
		require.NoError(t, here.CloseWrite())
		n, err := r.Read(make([]byte, 1))
		assert.Zero(t, n)
		assert.Equal(t, io.EOF, err)
		n, err = r.Read(nil)
		assert.Zero(t, n)
		assert.NoError(t, err)
	}
}

// withoutPorts is the text of an error.
func withoutPorts(err error) string {
	return regexp.MustCompile(`:\d+`).ReplaceAllString(err.Error(), "")
}

// A connection that is lost is lost with the error that net would have given.
func TestQuietErrors(t *testing.T) {
	for _, quiet := range []bool{true, false} {
		errs := func(end func(here, there *net.TCPConn)) (read, write, netRead, netWrite error) {
			here, there := sockets(t)
			end(here, there)
			_, read = newQuietReader(here, calmly(quiet)).Read(make([]byte, 1))
			_, write = newQuietWriter(here, calmly(quiet)).write([][]byte{[]byte("x"), []byte("y")}, true)
			here, there = sockets(t)
			end(here, there)
			_, netRead = here.Read(make([]byte, 1))
			bufs := net.Buffers{[]byte("x"), []byte("y")}
			_, netWrite = bufs.WriteTo(here)
			return read, write, netRead, netWrite
		}
		for _, tt := range []struct {
			name        string
			end         func(here, there *net.TCPConn)
			read, write error
		}{
			{"reset", func(_, there *net.TCPConn) { _ = there.SetLinger(0); there.Close() }, syscall.ECONNRESET, syscall.EPIPE},
			{"closed", func(here, _ *net.TCPConn) { here.Close() }, net.ErrClosed, net.ErrClosed},
			{"late", func(here, _ *net.TCPConn) { _ = here.SetDeadline(longAgo) }, os.ErrDeadlineExceeded, os.ErrDeadlineExceeded},
		} {
			read, write, netRead, netWrite := errs(tt.end)
			require.ErrorIs(t, read, tt.read, tt.name)
			require.ErrorIs(t, write, tt.write, tt.name)
			assert.Equal(t, withoutPorts(netRead), withoutPorts(read), tt.name)
			assert.Equal(t, withoutPorts(netWrite), withoutPorts(write), tt.name)
		}
	}
}

// A read or write that waits ends when the connection is closed or its time is up, and says what went out before.
func TestQuietlyWaitingEnds(t *testing.T) {
	for name, end := range map[string]struct {
		by  func(*net.TCPConn) error
		err error
	}{
		"closed": {func(c *net.TCPConn) error { return c.Close() }, net.ErrClosed},
		"late":   {func(c *net.TCPConn) error { return c.SetDeadline(longAgo) }, os.ErrDeadlineExceeded},
	} {
		here, there := sockets(t)
		r, w := newQuietReader(here, calmly(true)), newQuietWriter(here, calmly(true))
		const much = 64 << 20
		read, wrote := make(chan error, 1), make(chan error, 1)
		var n int64
		go func() { _, err := r.Read(make([]byte, 1)); read <- err }() // ends with the connection
		go func() {                                                    // ends with the connection
			var err error
			n, err = w.write([][]byte{make([]byte, much)}, true)
			wrote <- err
		}()
		_, err := io.ReadFull(there, make([]byte, 1<<20)) // it is being written
		require.NoError(t, err)
		require.NoError(t, end.by(here))
		require.ErrorIs(t, <-read, end.err, name)
		require.ErrorIs(t, <-wrote, end.err, name)
		assert.GreaterOrEqual(t, n, int64(1<<20))
		assert.Less(t, n, int64(much))
	}
}

// Calls are quiet while the owner knows of answers that are expected, more than one of them, on whatever connections. The selector counts them,
// whatever becomes of the connections.
func TestWhenQuiet(t *testing.T) {
	here, there := sockets(t)
	s := NewTCPSelector(TCPConfig{})
	connOf := func(node int32, sock net.Conn) *conn {
		c := &conn{sel: s, node: protocol.Node{ID: node}, state: up, quiet: true, wake: make(chan struct{}, 1)}
		c.out = newFrameWriter(sock, &s.calm, byteCount{})
		s.conns[node] = c
		return c
	}
	a, b := connOf(1, here), connOf(2, there)
	send := func(c *conn, f protocol.Frame) bool { s.Send(c.node.ID, 7, f); return s.calm.quiet() }
	answer := func(c *conn) bool { c.received(nil); return s.calm.quiet() }
	x := frameOf("x").frame

	assert.False(t, send(a, x))
	assert.False(t, send(b, x), "the owner has not decided yet")
	assert.True(t, s.calm.watch())
	assert.True(t, s.calm.quiet())
	assert.False(t, answer(a), "one is left")
	assert.True(t, send(a, x))
	assert.True(t, send(a, x))
	assert.True(t, answer(b))
	assert.False(t, answer(a))
	assert.False(t, s.calm.watch(), "nor will there be one")
	assert.False(t, answer(a))
	assert.Zero(t, s.calm.expected.Load())
	assert.False(t, answer(a), "one too many")
	assert.Zero(t, s.calm.expected.Load())
	assert.False(t, s.calm.watch())

	oneWay := x
	oneWay.NotifySent = true
	assert.False(t, send(a, oneWay))
	assert.Zero(t, s.calm.expected.Load(), "it has no answer")
	b.quiet = false
	assert.False(t, send(b, x))
	assert.Zero(t, s.calm.expected.Load(), "of no connection that can be quiet")

	send(a, x)
	send(a, x)
	assert.True(t, s.calm.watch())
	assert.True(t, s.calm.quiet())
	a.becomeGone()
	assert.False(t, s.calm.quiet())
	assert.False(t, send(a, x), "refused")
	assert.Zero(t, s.calm.expected.Load())

	assert.Nil(t, newQuietWriter(&recordingConn{}, &s.calm))
	plain := &recordingConn{}
	assert.Same(t, plain, newQuietReader(plain, &s.calm), "no socket of the system's")
}

// A frame of no more than maxAtOnce may be written quietly, a larger one may not; both are written whole, the first in spite of what was written of it before.
func TestWhatIsWrittenQuietly(t *testing.T) {
	here, there := sockets(t)
	w := newFrameWriter(here, calmly(true), byteCount{})
	for _, size := range []int{1, 100, maxAtOnce - 1, maxAtOnce, maxAtOnce + 1, 3 * maxAtOnce} {
		f := frameOf("one and ", string(make([]byte, size-min(size, len("one and ")))))
		if size < len("one and ") {
			f = frameOf("x")
		}
		f.done = size / 2
		go func() { _, _ = io.CopyN(io.Discard, there, int64(size-f.done)) }() // ends when all has arrived
		n, err := w.write([]queuedFrame{f})
		require.NoError(t, err)
		assert.Equal(t, 1, n)
		assert.EqualValues(t, size-f.done, w.quiet.n, "%d", size)
		assert.Equal(t, size <= maxAtOnce, w.quiet.quietly(), "%d", size)

		r := newQuietReader(there, calmly(true)).(*quietReader)
		r.b = make([]byte, size)
		assert.Equal(t, size <= maxAtOnce, r.quietly(), "%d", size)
	}
	w.quiet.short = true
	w.quiet.calm.expected.Store(1)
	assert.False(t, w.quiet.quietly())
}

// A connection to a broker is used quietly from the beginning.
func TestQuietConnection(t *testing.T) {
	here, there := sockets(t)
	s := NewTCPSelector(TCPConfig{Dial: func(context.Context, string, string) (net.Conn, error) { return here, nil }})
	defer s.Shutdown()
	s.Connect(protocol.Node{ID: 1, Host: "broker", Port: 9092}, 0)
	answer := func(corr int32, body ...byte) {
		head := make([]byte, 4)
		_, err := io.ReadFull(there, head)
		require.NoError(t, err)
		_, err = io.ReadFull(there, make([]byte, binary.BigEndian.Uint32(head)))
		require.NoError(t, err)
		_, err = there.Write(prefixed(string(append(binary.BigEndian.AppendUint32(nil, uint32(corr)), body...))))
		require.NoError(t, err)
	}
	poll := func() EventKind {
		for {
			if _, events := s.Poll(time.Now(), -1); len(events) > 0 {
				if e := events[len(events)-1]; e.Err != nil {
					t.Log(e.Err)
				}
				return events[len(events)-1].Kind
			}
		}
	}
	offers := protocol.ApiVersionsResponse{ApiKeys: []protocol.ApiVersion{{ApiKey: protocol.KeyProduce, MaxVersion: 9}}}
	answer(0, offers.AppendTo(nil, FirstAPIVersions(0))...)
	require.Equal(t, Connected, poll())
	c := s.conns[1]
	assert.True(t, c.quiet)
	require.NotNil(t, c.out.quiet)
	assert.Same(t, &s.calm, c.out.quiet.calm)
	s.Send(1, 7, frameOf(string(prefixed("request"))).frame)
	assert.EqualValues(t, 1, s.calm.expected.Load())
	answer(7)
	require.Equal(t, Received, poll())
	assert.Zero(t, s.calm.expected.Load())
}

// While answers are expected the owner looks up every 10 ms, so that the runtime's monitor does; it sleeps on, to the end of its time, and otherwise does not look up at all.
func TestOwnerNaps(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := NewTCPSelector(TCPConfig{})
		begin := time.Now()
		polled := make(chan time.Duration)
		poll := func(timeout time.Duration) {
			go func() { s.Poll(begin, timeout); polled <- time.Since(begin) }() // ends when what is below has happened
			synctest.Wait()
		}
		after := func(d time.Duration) { time.Sleep(d); synctest.Wait() }

		s.calm.expected.Store(2)
		assert.False(t, s.calm.quiet())
		poll(25 * time.Millisecond)
		assert.True(t, s.calm.quiet())
		assert.Equal(t, 25*time.Millisecond, <-polled)

		poll(-1)
		after(15 * time.Millisecond)
		s.calm.expected.Store(0)
		assert.True(t, s.calm.watched.Load())
		after(5*time.Millisecond - 1)
		assert.True(t, s.calm.watched.Load())
		after(1)
		assert.False(t, s.calm.watched.Load())
		s.calm.expected.Store(2)
		after(time.Hour)
		assert.False(t, s.calm.quiet(), "the owner sleeps on")
		s.Wakeup()
		assert.Equal(t, 45*time.Millisecond+time.Hour, <-polled)

		poll(time.Minute)
		after(monitorNap)
		s.Wakeup()
		assert.Equal(t, 45*time.Millisecond+time.Hour+monitorNap, <-polled)
	})
}

func TestQuietAllocations(t *testing.T) {
	here, there := sockets(t)
	r, w := newQuietReader(there, calmly(true)), newQuietWriter(here, calmly(true))
	bufs, b := make([][]byte, 2), make([]byte, 10)
	n := testing.AllocsPerRun(100, func() {
		bufs[0], bufs[1] = b[:5], b[5:]
		if _, err := w.write(bufs, true); err != nil {
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
