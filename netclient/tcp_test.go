package netclient_test

import (
	"context"
	"io"
	"net"
	"strconv"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/kafka-reservoir/producer/internal/invariants"
	"github.com/kafka-reservoir/producer/internal/metrics"
	"github.com/kafka-reservoir/producer/internal/simnet"
	"github.com/kafka-reservoir/producer/netclient"
	"github.com/kafka-reservoir/producer/protocol"
)

// poll polls once and returns the kinds of the events.
func (b *bed) poll(timeout time.Duration) (kinds []netclient.EventKind) {
	b.t.Helper()
	now, events := b.sel.Poll(b.now, timeout)
	b.now = now
	for _, e := range events {
		kinds = append(kinds, e.Kind)
	}
	return kinds
}

// ready returns a bed with a connected broker, which does what the script says from now on.
func ready(t *testing.T, cfg netclient.TCPConfig, link simnet.Link, script func(c *simnet.Conn)) *bed {
	t.Helper()
	b := newBed(t, cfg)
	b.net.SetHost("broker1", "10.0.0.1")
	b.net.SetLink("10.0.0.1:9092", link)
	seen := make(chan struct{})
	b.serve("10.0.0.1:9092", func(_ int, c net.Conn) {
		if greet(c) {
			<-seen
			script(c.(*simnet.Conn))
		}
	})
	b.connected(node1)
	close(seen)
	return b
}

func idle(c *simnet.Conn) { io.Copy(io.Discard, c) }

const (
	Connected    = netclient.Connected
	Sent         = netclient.Sent
	Received     = netclient.Received
	Dropped      = netclient.Dropped
	Disconnected = netclient.Disconnected
)

// The news that a request was sent does not wake the loop, unless the request asks for it: acks=0 has no other
// news (S-90, FC-108).
func TestSentWakesOnlyOnRequest(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := ready(t, netclient.TCPConfig{}, simnet.Link{}, idle)
		start := b.now
		b.sel.Send(1, 1, frame("x"))
		assert.Equal(t, []netclient.EventKind{Sent}, b.poll(time.Second))
		assert.Equal(t, time.Second, b.now.Sub(start))

		f := frame("y")
		f.NotifySent = true
		b.sel.Send(1, 2, frame("x"))
		b.sel.Send(1, 3, f)
		assert.Equal(t, []netclient.EventKind{Sent, Sent}, b.poll(time.Second))
		assert.Equal(t, time.Second, b.now.Sub(start))
	})
}

// heldWrite is a connection whose writes, once it is armed, return late, although the bytes are on their way at once.
type heldWrite struct {
	net.Conn
	armed *atomic.Bool
	hold  chan struct{}
}

func (h heldWrite) Write(b []byte) (int, error) {
	n, err := h.Conn.Write(b)
	if h.armed.Load() {
		<-h.hold
	}
	return n, err
}

// The news that a request was sent wakes the loop when its response has come before it: nothing else will, and the
// request's memory would stay with the connection for as long as the loop sleeps, while a Send waits for it.
func TestSentAfterItsResponseWakes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var b *bed
		armed, hold := new(atomic.Bool), make(chan struct{})
		b = newBed(t, netclient.TCPConfig{Dial: func(ctx context.Context, network, addr string) (net.Conn, error) {
			c, err := b.net.Dial(ctx, network, addr)
			return heldWrite{c, armed, hold}, err
		}})
		b.serve("10.0.0.1:9092", func(_ int, c net.Conn) {
			for greet(c); ; {
				if _, err := readFrame(c); err != nil {
					return
				}
				c.Write(appendFrame(nil, []byte("answer")))
			}
		})
		b.connected(protocol.Node{ID: 1, Host: "10.0.0.1", Port: 9092})
		armed.Store(true)
		for id := range int32(3) {
			start := b.now
			b.sel.Send(1, id, frame("x"))
			assert.Equal(t, []netclient.EventKind{Received}, b.poll(time.Hour))
			time.AfterFunc(time.Second, func() { hold <- struct{}{} })
			assert.Equal(t, []netclient.EventKind{Sent}, b.poll(time.Hour))
			assert.Equal(t, time.Second, b.now.Sub(start))
		}
	})
}

// SEL-10: a node that has a connection is not connected again.
func TestConnectTwice(t *testing.T) {
	if invariants.Enabled {
		t.Skip("panics under the invariants tag")
	}
	synctest.Test(t, func(t *testing.T) {
		b := ready(t, netclient.TCPConfig{}, simnet.Link{}, idle)
		b.sel.Connect(node1, setupTimeout)
		assert.Empty(t, b.poll(time.Second))
		assert.Len(t, b.net.Conns("10.0.0.1:9092"), 1)
		b.sel.Close(1)
		b.sel.Connect(node1, setupTimeout) // its Disconnected was not seen yet
		assert.Equal(t, []netclient.EventKind{Disconnected}, b.poll(time.Second))
		assert.Empty(t, b.poll(time.Second))
	})
}

// A frame for a node that is being connected is not kept.
func TestSendWhileConnecting(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBed(t, netclient.TCPConfig{})
		b.net.SetHost("broker1", "10.0.0.1")
		b.net.BlackHole("10.0.0.1:9092", true)
		b.sel.Connect(node1, setupTimeout)
		b.sel.Send(1, 1, frame("x"))
		assert.Equal(t, Dropped, b.next().Kind)
		assert.Equal(t, Disconnected, b.next().Kind)
	})
}

// Rule 2: the answer to a frame that came too late stands before the Disconnected that is not seen yet.
func TestSendBetweenTheEndAndItsNews(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := ready(t, netclient.TCPConfig{}, simnet.Link{}, func(*simnet.Conn) {})
		synctest.Wait() // the end is in the queue
		b.sel.Send(1, 1, frame("x"))
		b.sel.Send(1, 2, frame("y"))
		assert.Equal(t, []netclient.EventKind{Dropped, Dropped, Disconnected}, b.poll(time.Second))
	})
}

// FC-092: a close by the broker is seen at once, without a write. Its reason is io.EOF.
func TestCloseByTheBroker(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := ready(t, netclient.TCPConfig{}, simnet.Link{}, func(*simnet.Conn) { time.Sleep(time.Minute) })
		start := b.now
		e := b.next()
		assert.Equal(t, Disconnected, e.Kind)
		assert.ErrorIs(t, e.Err, io.EOF)
		assert.Equal(t, time.Minute, b.now.Sub(start))
	})
}

// S-97, FC-073, FC-129, SEL-15: nonsense in the place of a response ends the connection; whole responses before it
// are delivered, half ones are not.
func TestNonsenseEndsTheConnection(t *testing.T) {
	for _, tt := range []struct{ bytes, text string }{
		{"\xff\xff\xff\xff", "negative size"},
		{"\x7f\xff\xff\xff", "2147483647 bytes"},
		{"\x15\x03\x03\x00\x02\x02\x50", "TLS"},
		{"\x00\x00\x00\x05abc", "3 of 5 bytes"},
		{"\x00\x00", "2 of 4 bytes"},
	} {
		synctest.Test(t, func(t *testing.T) {
			b := ready(t, netclient.TCPConfig{}, simnet.Link{}, func(c *simnet.Conn) {
				c.Write(append(appendFrame(nil, []byte("good")), tt.bytes...))
			})
			synctest.Wait()
			now, events := b.sel.Poll(b.now, time.Second)
			b.now = now
			require.Len(t, events, 2)
			assert.Equal(t, "good", string(events[0].Payload))
			assert.ErrorContains(t, events[1].Err, tt.text)
		})
	}
}

// FC-092: an answer that was on its way when the connection broke is delivered, although it was a write that
// noticed the break: without it the request would be repeated in vain.
func TestAnswersAreReadAfterAWriteFailed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := ready(t, netclient.TCPConfig{}, simnet.Link{Latency: 10 * time.Millisecond}, func(c *simnet.Conn) {
			readFrame(c)
			c.Write(appendFrame(nil, []byte("answer")))
		}) // closes: writes fail at once, the answer takes 10ms
		b.sel.Send(1, 1, frame("question"))
		time.Sleep(15 * time.Millisecond)
		b.sel.Send(1, 2, frame("too late"))
		synctest.Wait()
		var kinds []netclient.EventKind
		var err error
		for err == nil {
			now, events := b.sel.Poll(b.now, time.Second)
			b.now = now
			for _, e := range events {
				kinds, err = append(kinds, e.Kind), e.Err
			}
		}
		assert.Equal(t, []netclient.EventKind{Sent, Received, Dropped, Disconnected}, kinds)
		assert.ErrorIs(t, err, syscall.EPIPE)
	})
}

// FC-110: closing a connection with acks=0 requests on their way must not reset it, although the broker's last
// words were not read; a broker that does not close in turn is waited for only so long.
func TestFC110CloseLetsUnansweredRequestsArrive(t *testing.T) {
	const size = 100_000
	for _, tt := range []struct {
		name   string
		oneWay bool
		hangs  bool
		wait   time.Duration
		arrive bool
	}{
		{name: "acks=0", oneWay: true, arrive: true, wait: 20 * time.Millisecond},
		{name: "acks=0, broker hangs", oneWay: true, hangs: true, wait: 50 * time.Millisecond, arrive: true},
		{name: "with answers", arrive: false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				type result struct {
					n   int64
					err error
				}
				results := make(chan result, 1)
				link := simnet.Link{Latency: 10 * time.Millisecond}
				b := ready(t, netclient.TCPConfig{MaxResponseSize: 10_000}, link, func(c *simnet.Conn) {
					// Not read by the client at once: it is a whole maximal response ahead of the loop.
					for range 10 {
						c.Write(appendFrame(nil, make([]byte, 10_000)))
					}
					n, err := io.Copy(io.Discard, c)
					results <- result{n, err}
					if tt.hangs {
						time.Sleep(time.Hour)
					}
				})
				time.Sleep(15 * time.Millisecond)
				f := frame(string(make([]byte, size)))
				f.NotifySent = tt.oneWay
				b.sel.Send(1, 1, f)
				synctest.Wait()
				start := time.Now()
				b.sel.Close(1)
				for {
					now, events := b.sel.Poll(b.now, time.Second)
					b.now = now
					if events[len(events)-1].Kind == Disconnected {
						break
					}
				}
				assert.Equal(t, tt.wait, time.Since(start))
				b.sel.Shutdown()
				if end := <-results; tt.arrive {
					assert.NoError(t, end.err)
					assert.EqualValues(t, size+4, end.n)
				} else {
					assert.ErrorIs(t, end.err, syscall.ECONNRESET, "the client has no use for an answer any more")
				}
			})
		})
	}
}

// FC-110: requests that were sent arrive also when the connection is closed in the middle of the next one, which
// does not fit; that one is dropped.
func TestCloseInTheMiddleOfAnUnansweredRequest(t *testing.T) {
	for _, wrap := range []func(net.Conn) net.Conn{
		func(c net.Conn) net.Conn { return c },
		func(c net.Conn) net.Conn { return deafToDeadlines{c.(*simnet.Conn)} },
	} {
		synctest.Test(t, func(t *testing.T) {
			results := make(chan string, 1)
			read := make(chan struct{})
			var b *bed
			b = newBed(t, netclient.TCPConfig{Dial: func(ctx context.Context, network, address string) (net.Conn, error) {
				c, err := b.net.Dial(ctx, network, address)
				return wrap(c), err
			}})
			b.net.SetLink("10.0.0.1:9092", simnet.Link{Buffer: 1000})
			b.serve("10.0.0.1:9092", func(_ int, c net.Conn) {
				greet(c)
				<-read
				got, _ := io.ReadAll(c)
				results <- string(got)
			})
			b.connected(protocol.Node{ID: 1, Host: "10.0.0.1", Port: 9092})
			first, second := frame("first"), frame(string(make([]byte, 5000)))
			first.NotifySent, second.NotifySent = true, true
			b.sel.Send(1, 1, first)
			assert.Equal(t, Sent, b.next().Kind)
			b.sel.Send(1, 2, second)
			synctest.Wait()
			start := time.Now()
			b.sel.Close(1)
			assert.Equal(t, []netclient.EventKind{Dropped, Disconnected}, b.poll(time.Hour))
			assert.Equal(t, 50*time.Millisecond, time.Since(start), "the broker does not close")
			close(read)
			assert.Contains(t, <-results, "first")
		})
	}
}

// deafToDeadlines accepts deadlines and does nothing about them.
type deafToDeadlines struct{ *simnet.Conn }

func (deafToDeadlines) SetDeadline(time.Time) error      { return nil }
func (deafToDeadlines) SetReadDeadline(time.Time) error  { return nil }
func (deafToDeadlines) SetWriteDeadline(time.Time) error { return nil }

// FC-110: Shutdown gives unanswered requests the same moment, for all connections at once.
func TestShutdownLingersOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBed(t, netclient.TCPConfig{})
		for id := range int32(5) {
			n := protocol.Node{ID: id, Host: "10.0.0." + strconv.Itoa(int(id)), Port: 1}
			b.serve(n.Addr(), func(_ int, c net.Conn) { greet(c); io.Copy(io.Discard, c); time.Sleep(time.Hour) })
			b.connected(n)
			f := frame("x")
			f.NotifySent = true
			b.sel.Send(id, 1, f)
			b.next()
		}
		start := time.Now()
		b.sel.Shutdown()
		assert.Equal(t, 50*time.Millisecond, time.Since(start))
		requireQuiet(t)
	})
}

// Shutdown takes no time when nobody is owed anything, and none with brokers that are silent.
func TestShutdownIsPrompt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := ready(t, netclient.TCPConfig{}, simnet.Link{Buffer: 1000}, func(c *simnet.Conn) {
			time.Sleep(time.Hour) // does not read
		})
		b.sel.Send(1, 1, frame(string(make([]byte, 5000))))
		b.net.SetHost("silent", "10.0.0.2")
		b.net.BlackHole("10.0.0.2:9092", true)
		b.sel.Connect(protocol.Node{ID: 2, Host: "silent", Port: 9092}, time.Hour)
		synctest.Wait()
		start := time.Now()
		b.sel.Shutdown()
		assert.Zero(t, time.Since(start))
		requireQuiet(t)
		assert.Empty(t, b.poll(time.Hour))
		assert.Zero(t, time.Since(start), "a Poll after Shutdown does not wait")
	})
}

// FC-129, SEL-18: a broker that sends without end is not read further than about one maximal response ahead of the
// loop, and reading goes on as the loop does.
func TestReaderWaitsForTheLoop(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const limit, window = 10_000, 5000
		b := ready(t, netclient.TCPConfig{MaxResponseSize: limit}, simnet.Link{Buffer: window}, func(c *simnet.Conn) {
			for {
				if _, err := c.Write(appendFrame(nil, make([]byte, 1000))); err != nil {
					return
				}
			}
		})
		for range 20 {
			synctest.Wait()
			now, events := b.sel.Poll(b.now, time.Second)
			b.now = now
			n := 0
			for _, e := range events {
				n += len(e.Payload)
			}
			assert.Positive(t, n)
			assert.LessOrEqual(t, n, limit+2000)
		}
		b.sel.Close(1)
		synctest.Wait()
		kinds := b.poll(time.Second)
		assert.Equal(t, Disconnected, kinds[len(kinds)-1])
	})
}

// SEL-11 in our words: a connection whose reader waits does not hold up the others, nor Shutdown.
func TestWaitingReaderEndsWithTheConnection(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := ready(t, netclient.TCPConfig{MaxResponseSize: 100}, simnet.Link{}, func(c *simnet.Conn) {
			c.Write(appendFrame(appendFrame(nil, make([]byte, 100)), make([]byte, 100)))
			idle(c)
		})
		synctest.Wait()
		b.sel.Shutdown()
		requireQuiet(t)
	})
}

// SEL-08, SEL-12, SEL-20: connections are counted, and bytes as they pass, in total and per node.
func TestNetworkMetrics(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := metrics.New(0, 0, time.Now())
		b := ready(t, netclient.TCPConfig{Metrics: m}, simnet.Link{}, func(c *simnet.Conn) {
			readFrame(c)
			c.Write([]byte{0, 0, 0, 9, 1, 2, 3})
			time.Sleep(time.Second)
			c.Write([]byte{4, 5, 6, 7, 8, 9})
			idle(c)
		})
		out, in := m.OutgoingByteTotal.Load(), m.IncomingByteTotal.Load()
		assert.Positive(t, out, "ApiVersions counts")
		assert.EqualValues(t, 1, m.ConnectionCreationTotal.Load())
		assert.EqualValues(t, 1, m.ConnectionCount.Load())

		b.sel.Send(1, 1, frame("hello"))
		synctest.Wait()
		assert.EqualValues(t, 9, m.OutgoingByteTotal.Load()-out)
		assert.EqualValues(t, 7, m.IncomingByteTotal.Load()-in, "the response is not complete")
		b.poll(time.Hour)
		assert.EqualValues(t, 13, m.IncomingByteTotal.Load()-in)
		assert.Equal(t, m.OutgoingByteTotal.Load(), m.Node(1).OutgoingByteTotal.Load())
		assert.Equal(t, m.IncomingByteTotal.Load(), m.Node(1).IncomingByteTotal.Load())

		b.sel.Close(1)
		b.next()
		assert.EqualValues(t, 0, m.ConnectionCount.Load())
		assert.EqualValues(t, 1, m.ConnectionCloseTotal.Load())
		b.net.BlackHole("10.0.0.1:9092", true)
		b.failed(node1)
		b.net.BlackHole("10.0.0.1:9092", false)
		assert.EqualValues(t, 1, m.ConnectionCreationTotal.Load(), "an attempt is no connection")
		assert.EqualValues(t, 0, m.ConnectionCount.Load())
	})
}

// S-93, S-98, SEL-02: several frames are under way on one connection at once; the first answer does not have to come
// before the second request leaves.
func TestRequestsArePipelined(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := ready(t, netclient.TCPConfig{}, simnet.Link{Latency: 50 * time.Millisecond}, func(c *simnet.Conn) {
			for {
				r, err := readFrame(c)
				if err != nil {
					return
				}
				c.Write(appendFrame(nil, r))
			}
		})
		start := b.now
		for i := range int32(5) {
			b.sel.Send(1, i, frame("x"))
		}
		for received := 0; received < 5; {
			for _, k := range b.poll(time.Hour) {
				if k == Received {
					received++
				}
			}
		}
		assert.Equal(t, 100*time.Millisecond, b.now.Sub(start))
	})
}

// echoServer echoes frames over loopback, without allocating.
func echoServer(tb testing.TB) protocol.Node {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(tb, err)
	var wg sync.WaitGroup
	tb.Cleanup(func() { l.Close(); wg.Wait() })
	wg.Go(func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			wg.Go(func() {
				defer c.Close()
				greet(c)
				buf := make([]byte, 64<<10)
				for {
					n, err := c.Read(buf)
					if err != nil {
						return
					}
					c.Write(buf[:n])
				}
			})
		}
	})
	return nodeAt(1, l.Addr().String())
}

// loopback is a selector connected to an echo server.
func loopback(tb testing.TB) *netclient.TCPSelector {
	n := echoServer(tb)
	s := netclient.NewTCPSelector(netclient.TCPConfig{})
	tb.Cleanup(s.Shutdown)
	s.Connect(n, setupTimeout)
	_, events := s.Poll(time.Now(), setupTimeout)
	require.Len(tb, events, 1)
	require.Equal(tb, Connected, events[0].Kind)
	return s
}

// roundTrips sends the frames at once and waits for all of their events.
func roundTrips(s *netclient.TCPSelector, now time.Time, f protocol.Frame, frames int) time.Time {
	for i := range frames {
		s.Send(1, int32(i), f)
	}
	for sent, received := 0, 0; sent < frames || received < frames; {
		var events []netclient.Event
		timeout := time.Minute
		if received == frames {
			timeout = time.Millisecond // a Sent wakes nobody
		}
		now, events = s.Poll(now, timeout)
		for i := range events {
			switch events[i].Kind {
			case Sent:
				sent++
			case Received:
				received++
			default:
				panic(events[i].Err)
			}
		}
	}
	return now
}

// A request and its response cost no allocation, with any number in flight.
func TestSteadyStateDoesNotAllocate(t *testing.T) {
	if invariants.Enabled {
		t.Skip("the checks allocate")
	}
	s := loopback(t)
	f := frame(string(make([]byte, 1000)))
	now := roundTrips(s, time.Now(), f, 20)
	for _, frames := range []int{1, 5} {
		got := testing.AllocsPerRun(200, func() { now = roundTrips(s, now, f, frames) })
		assert.Zero(t, got, "%d frames", frames)
	}
}

func BenchmarkRoundTrip(b *testing.B) {
	for _, frames := range []int{1, 5} {
		for _, size := range []int{1 << 10, 16 << 10} {
			b.Run("frames="+strconv.Itoa(frames)+"/size="+strconv.Itoa(size), func(b *testing.B) {
				s := loopback(b)
				f := frame(string(make([]byte, size)))
				b.SetBytes(int64(frames * size))
				b.ReportAllocs()
				now := time.Now()
				for b.Loop() {
					now = roundTrips(s, now, f, frames)
				}
			})
		}
	}
}

func BenchmarkWakeup(b *testing.B) {
	s := netclient.NewTCPSelector(netclient.TCPConfig{})
	defer s.Shutdown()
	b.ReportAllocs()
	for b.Loop() {
		s.Wakeup()
	}
}
