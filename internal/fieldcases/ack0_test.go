package fieldcases

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/kafka-reservoir/producer"
	"github.com/kafka-reservoir/producer/internal/simnet"
	"github.com/kafka-reservoir/producer/internal/testbroker"
	"github.com/kafka-reservoir/producer/protocol"
)

// Records that nobody acknowledges.

// FC-108: a record without acknowledgement is done once it is written: no offset, its own time, no request that waits; answers
// to other requests of the connection find theirs. (Idempotence asked for with acks=0 is refused: TestConfigIdempotence.)
func TestFC108NothingWaitsForAnAnswer(t *testing.T) {
	play(t, testbroker.Config{}, func(w *world) {
		p := w.producer(func(c *producer.Config) { c.Acks, c.MetadataMaxAge = producer.AcksNone, 50*time.Millisecond })
		at := time.Now().Add(-time.Hour)
		var all []*sent
		for i := range 10_000 {
			r := to(0, "%d", i)
			r.Timestamp = at.Add(time.Duration(i) * time.Millisecond)
			all = append(all, w.send(p, r))
			if i%20 == 0 {
				time.Sleep(time.Millisecond)
			}
		}
		w.acked(all...)
		for i, s := range all {
			assert.False(t, s.meta.HasOffset())
			assert.EqualValues(t, -1, s.meta.Offset)
			assert.Equal(t, at.Add(time.Duration(i)*time.Millisecond).UnixMilli(), s.meta.Timestamp.UnixMilli())
		}
		time.Sleep(2 * time.Second) // four times the request timeout
		assert.Len(t, w.values(0), 10_000)
		m := p.Metrics()
		assert.Zero(t, m.RequestsInFlight)
		assert.Zero(t, m.RecordRetry.Total)
		assert.EqualValues(t, 2, w.Cluster().Stats().Connections, "the bootstrap server's and the broker's")
		assert.Greater(t, len(w.requests(protocol.KeyMetadata)), 10)
		assert.Empty(t, w.requests(protocol.KeyInitProducerID))
	})
}

// FC-109: with acks=0 a broker tells that it does not lead a partition by closing the connection. Metadata is asked for then, and
// only what was written before is lost.
func TestFC109CloseIsTheAnswer(t *testing.T) {
	link := simnet.New(simnet.Link{Latency: time.Millisecond})
	listen := func(node int32) (net.Listener, error) { return link.Listen(fmt.Sprintf("broker-%d:9092", node)) }
	play(t, testbroker.Config{Nodes: 2, Listen: listen}, func(w *world) {
		w.network, w.mayLose, w.mayBreach = link, true, true
		p := w.producer(func(c *producer.Config) { c.Acks = producer.AcksNone })
		w.warm(p, 0)
		time.Sleep(time.Second)
		moved := time.Now()
		require.NoError(t, w.MoveLeader(T, 0, 2))
		var all []*sent
		for i := range 200 {
			all = append(all, w.send(p, to(0, "%d", i)))
			time.Sleep(10 * time.Millisecond)
		}
		w.acked(all...)
		var closed, asked time.Time
		for _, e := range w.Cluster().Journal(0) {
			switch {
			case e.Kind == testbroker.EntryDrop && closed.IsZero():
				closed = e.At
			case e.Kind == testbroker.EntryRequest && e.Request.API == protocol.KeyMetadata && len(e.Request.Topics) > 0 && e.At.After(moved) && asked.IsZero():
				asked = e.At
			}
		}
		require.False(t, closed.IsZero())
		require.False(t, asked.IsZero(), "metadata is asked for")
		assert.LessOrEqual(t, asked.Sub(closed), 100*time.Millisecond)
		stored := w.values(0)
		assert.GreaterOrEqual(t, len(stored), 1+200-3)
		assert.Equal(t, "199", stored[len(stored)-1])
		tries := 0
		for _, at := range w.dialled(w.Addr(1)) {
			if at.After(moved) {
				tries++
			}
		}
		assert.LessOrEqual(t, tries, 2)
	})
}

// FC-110: Flush and Close after a burst without acknowledgements: the slow broker gets all of it, and an orderly end. A Close that
// has no time for that ends in time, and each record that was cut off says so.
func TestFC110BurstAndClose(t *testing.T) {
	for _, patient := range []bool{true, false} {
		t.Run(fmt.Sprint("patient: ", patient), func(t *testing.T) {
			const bandwidth, buffer = 64 << 10, 16 << 10
			network := simnet.New(simnet.Link{Bandwidth: bandwidth, Buffer: buffer})
			ends := new(ends)
			listen := func(node int32) (net.Listener, error) {
				l, err := network.Listen(fmt.Sprintf("broker-%d:9092", node))
				return endsListener{l, ends}, err
			}
			play(t, testbroker.Config{Listen: listen}, func(w *world) {
				w.network = network
				p := w.producer(func(c *producer.Config) {
					c.Acks, c.RequestTimeout, c.DeliveryTimeout = producer.AcksNone, time.Minute, 10*time.Minute
				})
				w.warm(p, 0)
				const n, size = 5000, 1000
				began := time.Now()
				var all []*sent
				for i := range n {
					all = append(all, w.send(p, to(0, "%0*d", size, i)))
				}
				if patient {
					require.NoError(t, p.Flush(context.Background()))
					assert.GreaterOrEqual(t, time.Since(began), (n*size-2*buffer)/bandwidth*time.Second, "Flush waits for the bytes")
					require.NoError(t, w.close(p, 5*time.Second))
					w.acked(all...)
					time.Sleep(5 * time.Second) // the rest of the buffer arrives
					synctest.Wait()
					assert.Len(t, w.values(0), n+1)
					for _, err := range ends.all() {
						assert.ErrorIs(t, err, io.EOF, "FIN, no reset")
					}
					return
				}
				time.Sleep(time.Second)
				took := w.within(300*time.Millisecond, "Close", func() {
					assert.ErrorIs(t, w.close(p, 200*time.Millisecond), context.DeadlineExceeded)
				})
				assert.GreaterOrEqual(t, took, 200*time.Millisecond)
				done, cut := 0, 0
				for _, s := range all {
					if _, err := s.wait(); err == nil {
						done++
					} else if assert.ErrorIs(t, err, producer.ErrForceClosed) {
						cut++
					}
				}
				time.Sleep(5 * time.Second)
				synctest.Wait()
				assert.Equal(t, n, done+cut)
				assert.Positive(t, done)
				assert.GreaterOrEqual(t, len(w.values(0)), done+1, "what was done arrives")
			})
		})
	}
}

// ends notes how connections ended, as the broker's reads saw it.
type ends struct {
	mu   sync.Mutex
	errs []error
}

func (e *ends) all() []error {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.errs
}

type endsListener struct {
	net.Listener
	ends *ends
}

func (l endsListener) Accept() (net.Conn, error) {
	c, err := l.Listener.Accept()
	if err != nil {
		return nil, err
	}
	return endsConn{c, l.ends}, nil
}

type endsConn struct {
	net.Conn
	ends *ends
}

func (c endsConn) Read(b []byte) (int, error) {
	n, err := c.Conn.Read(b)
	if err != nil && !errors.Is(err, net.ErrClosed) {
		c.ends.mu.Lock()
		defer c.ends.mu.Unlock()
		c.ends.errs = append(c.ends.errs, err)
	}
	return n, err
}
