package simnet

import (
	"bytes"
	"context"
	"crypto/rand"
	"errors"
	"io"
	"net"
	"os"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// dial returns both ends of a connection to address, on which somebody listens already.
func dial(t *testing.T, n *Network, l *Listener) (client, server *Conn) {
	t.Helper()
	c, err := n.Dial(t.Context(), "tcp", l.Addr().String())
	require.NoError(t, err)
	s, err := l.Accept()
	require.NoError(t, err)
	return c.(*Conn), s.(*Conn)
}

func listen(t *testing.T, n *Network, address string) *Listener {
	t.Helper()
	l, err := n.Listen(address)
	require.NoError(t, err)
	return l
}

func TestBytesArriveInOrderWhateverTheLink(t *testing.T) {
	for name, link := range map[string]Link{
		"instant":         {},
		"one byte a read": {Segment: 1},
		"tiny buffer":     {Buffer: 1},
		"odd sizes":       {Buffer: 777, Segment: 333},
		"far and slow":    {Latency: 40 * time.Millisecond, Bandwidth: 100_000, Buffer: 5000},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				c, s := Pipe(link)
				sent := make([]byte, 20_000)
				rand.Read(sent)
				go func() {
					for b := sent; len(b) > 0; {
						k := min(len(b), 3000)
						if n, err := c.Write(b[:k]); n != k || err != nil {
							t.Errorf("write: %d, %v", n, err)
						}
						b = b[k:]
					}
					c.Close()
				}()
				got, err := io.ReadAll(s)
				require.NoError(t, err)
				assert.True(t, bytes.Equal(sent, got))
			})
		})
	}
}

func TestLinkTakesItsTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := New(Link{Latency: 30 * time.Millisecond, Bandwidth: 1000})
		l := listen(t, n, "a:1")
		start := time.Now()
		c, s := dial(t, n, l)
		assert.Equal(t, 60*time.Millisecond, time.Since(start), "connecting takes a round trip")

		start = time.Now()
		c.Write(make([]byte, 500))
		c.Write(make([]byte, 250))
		assert.Zero(t, time.Since(start), "a write does not wait for the peer")
		_, err := io.ReadFull(s, make([]byte, 500))
		require.NoError(t, err)
		assert.Equal(t, 530*time.Millisecond, time.Since(start))
		_, err = io.ReadFull(s, make([]byte, 250))
		require.NoError(t, err)
		assert.Equal(t, 780*time.Millisecond, time.Since(start))

		c.Close()
		_, err = s.Read(make([]byte, 1))
		assert.Equal(t, io.EOF, err)
		assert.Equal(t, 810*time.Millisecond, time.Since(start), "the close takes its time too")
	})
}

func TestNobodyListens(t *testing.T) {
	n := New(Link{})
	_, err := n.Dial(t.Context(), "tcp", "a:1")
	assert.ErrorIs(t, err, syscall.ECONNREFUSED)
	l := listen(t, n, "a:1")
	_, err = n.Listen("a:1")
	assert.ErrorIs(t, err, syscall.EADDRINUSE)
	waiting, err := n.Dial(t.Context(), "tcp", "a:1")
	require.NoError(t, err)
	require.NoError(t, l.Close())
	require.NoError(t, l.Close())
	_, err = l.Accept()
	assert.ErrorIs(t, err, net.ErrClosed)
	_, err = waiting.Read(make([]byte, 1))
	assert.ErrorIs(t, err, syscall.ECONNRESET, "never accepted")
	_, err = n.Dial(t.Context(), "tcp", "a:1")
	assert.ErrorIs(t, err, syscall.ECONNREFUSED)
	assert.NotEqual(t, listen(t, n, "a:0").Addr(), listen(t, n, "a").Addr())
}

func TestDeadlines(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, s := Pipe(Link{Buffer: 10})
		start := time.Now()
		c.SetReadDeadline(start.Add(time.Second))
		_, err := c.Read(make([]byte, 1))
		assert.ErrorIs(t, err, os.ErrDeadlineExceeded)
		assert.Equal(t, time.Second, time.Since(start))
		var ne net.Error
		require.ErrorAs(t, err, &ne)
		assert.True(t, ne.Timeout())

		c.SetWriteDeadline(start.Add(3 * time.Second))
		k, err := c.Write(make([]byte, 25))
		assert.ErrorIs(t, err, os.ErrDeadlineExceeded)
		assert.Equal(t, 10, k)
		assert.Equal(t, 3*time.Second, time.Since(start))

		// A deadline may move while somebody waits, and be taken away.
		c.SetDeadline(time.Time{})
		go func() {
			time.Sleep(time.Second)
			c.SetReadDeadline(time.Now())
		}()
		_, err = c.Read(make([]byte, 1))
		assert.ErrorIs(t, err, os.ErrDeadlineExceeded)
		assert.Equal(t, 4*time.Second, time.Since(start))
		c.SetReadDeadline(time.Time{})
		s.Write([]byte("x"))
		k, err = c.Read(make([]byte, 1))
		assert.Equal(t, 1, k)
		assert.NoError(t, err)
	})
}

func TestHalfClose(t *testing.T) {
	c, s := Pipe(Link{})
	c.Write([]byte("request"))
	require.NoError(t, c.CloseWrite())
	_, err := c.Write([]byte("x"))
	assert.ErrorIs(t, err, syscall.EPIPE)
	got, err := io.ReadAll(s)
	require.NoError(t, err)
	assert.Equal(t, "request", string(got))
	s.Write([]byte("answer"))
	s.Close()
	got, err = io.ReadAll(c)
	require.NoError(t, err)
	assert.Equal(t, "answer", string(got))
}

func TestCloseEndsEverythingHere(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, s := Pipe(Link{Buffer: 1})
		errs := make(chan error, 2)
		go func() { _, err := c.Read(make([]byte, 1)); errs <- err }()
		go func() { _, err := c.Write(make([]byte, 100)); errs <- err }()
		synctest.Wait()
		require.NoError(t, c.Close())
		assert.ErrorIs(t, <-errs, net.ErrClosed)
		assert.ErrorIs(t, <-errs, net.ErrClosed)
		assert.Error(t, c.Close())
		_, err := s.Write([]byte("x"))
		assert.ErrorIs(t, err, syscall.EPIPE)
		got, err := io.ReadAll(s)
		assert.NoError(t, err)
		assert.Len(t, got, 1, "what was written before")
	})
}

func TestCloseWithUnreadInputResets(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, s := Pipe(Link{Latency: time.Second})
		s.Write([]byte("not read"))
		time.Sleep(2 * time.Second)
		c.Write([]byte("under way"))
		c.Close()
		_, err := s.Read(make([]byte, 100))
		assert.ErrorIs(t, err, syscall.ECONNRESET)
	})
}

func TestResetKeepsWhatHasArrived(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, s := Pipe(Link{Latency: time.Second})
		c.Write([]byte("arrived"))
		time.Sleep(time.Second)
		c.Write([]byte("lost"))
		c.Reset()
		got, err := io.ReadAll(s)
		assert.ErrorIs(t, err, syscall.ECONNRESET)
		assert.Equal(t, "arrived", string(got))
		_, err = s.Write([]byte("x"))
		assert.ErrorIs(t, err, syscall.ECONNRESET)
		_, err = c.Write([]byte("x"))
		assert.ErrorIs(t, err, syscall.ECONNRESET)
	})
}

func TestCutAfter(t *testing.T) {
	c, s := Pipe(Link{})
	c.CutAfter(5)
	n, err := c.Write([]byte("abc"))
	assert.Equal(t, 3, n)
	require.NoError(t, err)
	n, err = c.Write([]byte("defg"))
	assert.Equal(t, 2, n)
	assert.ErrorIs(t, err, syscall.ECONNRESET)
	got, err := io.ReadAll(s)
	assert.ErrorIs(t, err, syscall.ECONNRESET)
	assert.Equal(t, "abcde", string(got))
}

func TestBlackHole(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := New(Link{Buffer: 100})
		l := listen(t, n, "a:1")
		c, s := dial(t, n, l)
		n.BlackHole("a:1", true)
		n.BlackHole("a:1", true)

		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		_, err := n.Dial(ctx, "tcp", "a:1")
		assert.ErrorIs(t, err, context.DeadlineExceeded)

		k, err := c.Write([]byte("hello"))
		assert.Equal(t, 5, k)
		require.NoError(t, err, "it goes into the buffer")
		s.SetReadDeadline(time.Now().Add(time.Minute))
		_, err = s.Read(make([]byte, 10))
		assert.ErrorIs(t, err, os.ErrDeadlineExceeded)
		c.SetWriteDeadline(time.Now().Add(time.Minute))
		k, err = c.Write(make([]byte, 200))
		assert.Equal(t, 95, k)
		assert.ErrorIs(t, err, os.ErrDeadlineExceeded)
		assert.Equal(t, 100, c.Buffered())

		dialled := make(chan error)
		go func() {
			_, err := n.Dial(t.Context(), "tcp", "a:1")
			dialled <- err
		}()
		synctest.Wait()
		n.BlackHole("a:1", false)
		n.BlackHole("a:1", false)
		require.NoError(t, <-dialled)
		s.SetReadDeadline(time.Time{})
		got := make([]byte, 5)
		_, err = io.ReadFull(s, got)
		require.NoError(t, err)
		assert.Equal(t, "hello", string(got))
		assert.Len(t, n.Conns("a:1"), 2)
	})
}

func TestStallHidesACloseToo(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, s := Pipe(Link{})
		s.Stall(true)
		s.Close()
		c.SetReadDeadline(time.Now().Add(time.Hour))
		_, err := c.Read(make([]byte, 1))
		assert.ErrorIs(t, err, os.ErrDeadlineExceeded)
		_, err = c.Write([]byte("nobody tells"))
		assert.NoError(t, err)
		c.Stall(false)
		_, err = c.Write([]byte("x"))
		assert.ErrorIs(t, err, syscall.EPIPE)
	})
}

func TestLookupHost(t *testing.T) {
	n := New(Link{})
	n.SetHost("broker", "10.0.0.1", "10.0.0.2")
	got, err := n.LookupHost(t.Context(), "broker")
	require.NoError(t, err)
	assert.Equal(t, []string{"10.0.0.1", "10.0.0.2"}, got)
	n.SetHost("broker")
	_, err = n.LookupHost(t.Context(), "broker")
	var dns *net.DNSError
	require.True(t, errors.As(err, &dns))
	assert.True(t, dns.IsNotFound)
}

func TestLinkByAddress(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := New(Link{})
		n.SetLink("far:1", Link{Latency: time.Second})
		far, near := listen(t, n, "far:1"), listen(t, n, "near:1")
		start := time.Now()
		dial(t, n, near)
		assert.Zero(t, time.Since(start))
		dial(t, n, far)
		assert.Equal(t, 2*time.Second, time.Since(start))
	})
}
