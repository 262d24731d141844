package fieldcases

import (
	"context"
	"errors"
	"net"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/kafka-reservoir/producer"
	"github.com/kafka-reservoir/producer/internal/testbroker"
	"github.com/kafka-reservoir/producer/protocol"
)

// Quotas: brokers that ask to be left alone, and that limit new connections.

// FC-078: what a broker does not answer because it throttles us is not late: no connection is given up, nothing is sent twice.
func TestFC078ThrottleIsNoTimeout(t *testing.T) {
	play(t, testbroker.Config{Generation: testbroker.Kafka28}, func(w *world) { // Produce v9
		const throttle = 600 * time.Millisecond // RequestTimeout is 500 ms
		p := w.producer(func(c *producer.Config) { c.DeliveryTimeout, c.BatchSize = 20*time.Second, 1 })
		w.warm(p, 0)
		connections := w.Cluster().Stats().Connections
		w.Cluster().SetFault(func(r *testbroker.Request) testbroker.Verdict {
			if r.API != protocol.KeyProduce {
				return testbroker.Verdict{}
			}
			return testbroker.Verdict{Throttle: throttle} // nor does it serve the connection meanwhile
		})
		began := time.Now()
		var all []*sent
		for i := range 20 {
			all = append(all, w.send(p, to(0, "%d", i)))
		}
		w.acked(all...)
		assert.GreaterOrEqual(t, time.Since(began), 20/5*throttle-throttle, "the first five go at once")
		assert.Equal(t, connections, w.Cluster().Stats().Connections)
		assert.Len(t, w.batches(0), 1+20)
		assert.Equal(t, 4, w.Cluster().Stats().MaxInFlight, "five, but for the one that was answered at once")
		assert.Zero(t, p.Metrics().RecordRetry.Total)
	})
}

// FC-079: a node that throttles is left alone for as long as it asked, and nothing else waits: neither other nodes, nor
// metadata, nor Flush and Close.
func TestFC079ThrottledNodeIsLeftAlone(t *testing.T) {
	cluster := testbroker.Config{Nodes: 2, Topics: []testbroker.Topic{{Name: T, Leaders: []int32{1, 2}}}}
	throttled := func(w *world, change func(c *producer.Config)) (kafka, *[]time.Duration) {
		told := &[]time.Duration{}
		p := w.producer(func(c *producer.Config) {
			c.MetadataMaxAge = 300 * time.Millisecond
			c.Trace = &producer.Trace{Throttled: func(node int32, d time.Duration) {
				assert.EqualValues(w.t, 1, node)
				*told = append(*told, d)
			}}
			if change != nil {
				change(c)
			}
		})
		w.warm(p, 0, 1)
		once := false
		w.Cluster().SetFault(func(r *testbroker.Request) testbroker.Verdict {
			if r.API != protocol.KeyProduce || r.Node != 1 || once {
				return testbroker.Verdict{}
			}
			once = true
			// The broker would serve it: it is the producer that waits.
			return testbroker.Verdict{Throttle: time.Second, ThrottleOnly: true}
		})
		return p, told
	}
	play(t, cluster, func(w *world) {
		p, told := throttled(w, nil)
		w.acked(w.send(p, to(0, "throttled")))
		from := time.Now()
		var slow []*sent
		for i := range 180 {
			slow = append(slow, w.send(p, to(0, "slow-%d", i)))
			w.within(30*time.Millisecond, "a record for the other node", func() { w.acked(w.send(p, to(1, "fast-%d", i))) })
		}
		assert.Less(t, time.Since(from), time.Second)
		assert.False(t, slow[0].known())
		ctx, cancel := context.WithTimeout(context.Background(), 20*time.Millisecond)
		defer cancel()
		w.within(20*time.Millisecond, "Flush with a ctx", func() { assert.ErrorIs(t, p.Flush(ctx), context.DeadlineExceeded) })
		w.acked(slow...)
		refreshes := 0
		for _, e := range w.Cluster().Requests() {
			if !e.At.After(from) || e.At.Sub(from) >= time.Second {
				continue
			}
			if len(e.Request.Topics) > 0 {
				refreshes++
			}
			assert.NotEqual(t, int32(1), e.Node, "%v after the answer: %v", e.At.Sub(from), e.Request)
		}
		assert.GreaterOrEqual(t, refreshes, 2)
		m := p.Metrics().ProduceThrottleTime
		assert.Equal(t, []time.Duration{time.Second}, *told)
		assert.Equal(t, time.Second, m.Max)
	})
	play(t, cluster, func(w *world) {
		p, _ := throttled(w, func(c *producer.Config) { c.Linger = producer.NoLinger })
		w.acked(w.send(p, to(0, "throttled")))
		w.send(p, to(0, "left"))
		w.within(200*time.Millisecond, "Close", func() { assert.ErrorIs(t, w.close(p, 150*time.Millisecond), context.DeadlineExceeded) })
		_, err := w.book[len(w.book)-1].wait()
		assert.ErrorIs(t, err, producer.ErrForceClosed)
	})
}

// door counts the connections of a node, as its listener sees them.
type door struct {
	dialling int
	recent   []time.Time // accepted
	refused  int
}

// gatekeeper is a Dial that lets each node accept so many connections a second and watches how they are made.
type gatekeeper struct {
	t     *testing.T
	dial  func(ctx context.Context, network, addr string) (net.Conn, error)
	limit int
	takes time.Duration // how long an attempt takes

	mu    sync.Mutex
	doors map[string]*door
}

func (g *gatekeeper) Dial(ctx context.Context, network, addr string) (net.Conn, error) {
	g.mu.Lock()
	d := g.doors[addr]
	if d == nil {
		d = &door{}
		g.doors[addr] = d
	}
	d.dialling++
	assert.Equal(g.t, 1, d.dialling, "attempts at once to connect to %s", addr)
	g.mu.Unlock()
	time.Sleep(g.takes)
	g.mu.Lock()
	defer g.mu.Unlock()
	d.dialling--
	now := time.Now()
	d.recent = slices.DeleteFunc(d.recent, func(t time.Time) bool { return now.Sub(t) >= time.Second })
	if len(d.recent) >= g.limit {
		d.refused++
		return nil, errors.New("too many connects")
	}
	d.recent = append(d.recent, now)
	return g.dial(ctx, network, addr)
}

// FC-080: there is one attempt at a time to connect to a node, shared by all who wait for it; each failure is followed by a
// back-off; what waits fails none of its records. (The logins of the case come with SASL; here it is connections that are
// refused. The pauses are the default ones, as those of the other cases are too short for two connections a second. A
// bootstrap address is a node of its own, as in Java, so that broker 1 is connected to twice.)
func TestFC080ConnectionsAreLimited(t *testing.T) {
	for _, takes := range []time.Duration{0, time.Second} { // KIP-612: a broker delays what it does not want yet
		play(t, testbroker.Config{Nodes: 3, Partitions: 6}, func(w *world) {
			g := &gatekeeper{t: t, dial: w.network.Dial, limit: 2, takes: takes, doors: map[string]*door{}}
			p := w.producer(func(c *producer.Config) {
				c.BootstrapServers, c.Dial = c.BootstrapServers[:1], g.Dial
				c.DeliveryTimeout, c.MaxBlock = 10*time.Second, 10*time.Second
				c.ReconnectBackoff, c.ReconnectBackoffMax, c.ConnectionSetupTimeout = 0, 0, 10*time.Second
			})
			var failed atomic.Int32
			var wg sync.WaitGroup
			rush := func(round int) {
				for i := range 64 {
					wg.Go(func() {
						w.sendFrom(string(rune('A'+i)), context.Background(), p, to(int32(i%6), "%d-%d", round, i), func(_ producer.RecordMetadata, err error) {
							if err != nil {
								failed.Add(1)
							}
						})
					})
				}
			}
			rush(1)
			wg.Wait()
			synctest.Wait()
			w.acked(w.book...)
			before := w.Cluster().Stats().Connections
			w.CloseConns(0, testbroker.DropFIN)
			rush(2)
			wg.Wait()
			w.acked(w.book...)
			assert.Zero(t, failed.Load())
			refused := 0
			for addr, d := range g.doors {
				assert.LessOrEqual(t, d.refused, 5, "%s: at 0, 50, 150, 350 and 750 ms", addr)
				refused += d.refused
			}
			assert.Equal(t, takes == 0, refused > 0)
			// Each node once again, and the bootstrap address, if for a moment there was nobody else to ask for metadata.
			assert.LessOrEqual(t, w.Cluster().Stats().Connections-before, int64(4))
			require.Len(t, g.doors, 3)
		})
	}
}
