package fieldcases

import (
	"context"
	"fmt"
	"math"
	"net"
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

// Time-outs, back-offs, clocks.

// FC-101: a frozen broker costs a connection every request timeout, and its records end by their delivery timeout, with both
// causes; the other broker's are not concerned. Once it is well again, so is its partition, under a new epoch.
func TestFC101FrozenBroker(t *testing.T) {
	for _, tt := range []struct {
		name   string
		frozen func(r *testbroker.Request) bool
	}{
		{"answers no Produce", func(r *testbroker.Request) bool { return r.API == protocol.KeyProduce }},
		{"answers nothing", func(*testbroker.Request) bool { return true }},
	} {
		t.Run(tt.name, func(t *testing.T) {
			play(t, testbroker.Config{Nodes: 2, Partitions: 2}, func(w *world) {
				p := w.producer(func(c *producer.Config) {
					c.BootstrapServers = c.BootstrapServers[1:]
					c.RequestTimeout, c.DeliveryTimeout = 300*time.Millisecond, 1500*time.Millisecond
					c.ConnectionSetupTimeoutMax = 300 * time.Millisecond
				})
				w.warm(p, 0, 1)
				w.Cluster().SetFault(func(r *testbroker.Request) testbroker.Verdict {
					if r.Node == 1 && tt.frozen(r) {
						return testbroker.MuteBefore()
					}
					return testbroker.Verdict{}
				})
				sends, dials := len(w.batches(0)), len(w.dialled(w.Addr(1)))
				began := time.Now()
				lost := w.send(p, to(0, "lost"))
				for i := range 70 {
					at := time.Now()
					w.acked(w.send(p, to(1, "%d", i)))
					assert.Less(t, time.Since(at), 10*time.Millisecond)
					time.Sleep(20*time.Millisecond - time.Since(at))
				}
				_, err := lost.wait()
				assert.Equal(t, 1500*time.Millisecond, lost.at.Sub(began))
				assert.ErrorIs(t, err, producer.ErrDeliveryTimeout)
				assert.ErrorIs(t, err, producer.ErrRequestTimeout)
				assert.True(t, producer.MayHaveBeenWritten(err))
				attempts := max(len(w.batches(0))-sends, 1+len(w.dialled(w.Addr(1)))-dials)
				assert.GreaterOrEqual(t, attempts, 4)
				assert.LessOrEqual(t, attempts, 6)

				w.Cluster().SetFault(nil)
				w.acked(w.send(p, to(0, "well again")))
				all := w.batches(0)
				assert.Greater(t, all[len(all)-1].ProducerEpoch, all[0].ProducerEpoch)
			})
		})
	}
}

// FC-102: what accepts connections and never says a word is given up after the setup timeout; another bootstrap server is asked
// then, and a leader is tried again and again, with pauses, until its records' time is over or it answers.
func TestFC102SilentListener(t *testing.T) {
	var deaf atomic.Bool // node 1
	open := func(node int32, _ testbroker.ConnID) testbroker.ConnVerdict {
		return testbroker.ConnVerdict{Stall: node == 1 && deaf.Load()}
	}
	play(t, testbroker.Config{Nodes: 2, Partitions: 2, FaultOpen: open}, func(w *world) {
		silent, err := w.network.Listen("silent:9092")
		require.NoError(t, err)
		defer silent.Close()
		boot := func(c *producer.Config) {
			c.BootstrapServers = []string{"silent:9092", w.Addr(2)}
			c.ConnectionSetupTimeoutMax = 300 * time.Millisecond
		}
		for i := range 10 { // which server is asked first is left to chance
			w.within(time.Second, "the first record", func() { w.acked(w.send(w.producer(boot), to(1, "%d", i))) })
		}
		assert.NotEmpty(t, w.dialled("silent:9092"))

		p := w.producer(boot)
		w.warm(p, 0, 1)
		deaf.Store(true)
		w.CloseConns(1, testbroker.DropFIN)
		synctest.Wait()
		before := len(w.dialled(w.Addr(1)))
		began := time.Now()
		_, err = w.send(p, to(0, "lost")).wait()
		assert.ErrorIs(t, err, producer.ErrDeliveryTimeout)
		assert.ErrorContains(t, err, "no answer to ApiVersions within")
		assert.False(t, producer.MayHaveBeenWritten(err))
		assert.Equal(t, 3*time.Second, time.Since(began))
		tries := w.dialled(w.Addr(1))[before:]
		require.GreaterOrEqual(t, len(tries), 6)
		for i := 1; i < len(tries); i++ { // 300 ms and at least 20 ms, less a fifth of each
			assert.GreaterOrEqual(t, tries[i].Sub(tries[i-1]), 256*time.Millisecond)
		}
		later := w.send(p, to(0, "later"))
		time.Sleep(500 * time.Millisecond)
		deaf.Store(false)
		w.acked(later)
	})
}

// FC-103: each way of failing has its pauses between attempts, which grow, so that ten retries span an outage of 600 ms.
func TestFC103EveryRetryBacksOff(t *testing.T) {
	for name, during := range map[string]testbroker.Verdict{
		"refused":  testbroker.Answer(protocol.NotLeaderOrFollower),
		"dropped":  testbroker.DropBefore(),
		"not open": {},
	} {
		t.Run(name, func(t *testing.T) {
			play(t, testbroker.Config{Nodes: 2}, func(w *world) {
				p := w.producer(func(c *producer.Config) {
					c.BootstrapServers = c.BootstrapServers[1:] // so that only the leader is dialled at its address
					c.Retries = 10
					c.RetryBackoff, c.RetryBackoffMax = 80*time.Millisecond, 200*time.Millisecond
					c.ReconnectBackoff, c.ReconnectBackoffMax = 80*time.Millisecond, 200*time.Millisecond
				})
				w.warm(p, 0)
				sends, dials := len(w.batches(0)), len(w.dialled(w.Addr(1)))
				if name == "not open" {
					require.NoError(t, w.Refuse(1))
					w.CloseConns(1, testbroker.DropFIN)
				} else {
					w.Cluster().SetFault(func(r *testbroker.Request) testbroker.Verdict {
						if r.API == protocol.KeyProduce {
							return during
						}
						return testbroker.Verdict{}
					})
				}
				s := w.send(p, to(0, "a"))
				time.Sleep(600 * time.Millisecond)
				w.Cluster().SetFault(nil)
				if name == "not open" {
					require.NoError(t, w.Accept(1))
				}
				w.acked(s)
				var tries []time.Time
				if name == "not open" {
					tries = w.dialled(w.Addr(1))[dials:]
				} else {
					for _, r := range w.requests(protocol.KeyProduce)[sends:] {
						tries = append(tries, r.At)
					}
				}
				require.GreaterOrEqual(t, len(tries), 3)
				assert.LessOrEqual(t, len(tries), 10)
				for i := 1; i < len(tries); i++ {
					assert.GreaterOrEqual(t, tries[i].Sub(tries[i-1]), 60*time.Millisecond)
				}
			})
		})
	}
}

// FC-104: brokers that are down one after the other, each for longer than its partitions: connections that are refused fail no
// record, and no partition stands still for long once it has a leader.
func TestFC104RollingRestart(t *testing.T) {
	play(t, testbroker.Config{Nodes: 3, Partitions: 3}, func(w *world) {
		p := w.producer(func(c *producer.Config) { c.DeliveryTimeout = 10 * time.Second })
		w.warm(p, 0, 1, 2)
		type moment struct {
			partition int32
			from, to  time.Time
		}
		var away []moment // when partitions had no leader that could be reached
		stop := make(chan struct{})
		go func() {
			defer close(stop)
			for node := int32(1); node <= 3; node++ {
				began := time.Now()
				assert.NoError(t, w.Refuse(node))
				w.CloseConns(node, testbroker.DropRST)
				time.Sleep(700 * time.Millisecond)
				for partition := range int32(3) {
					if leader, _ := w.Cluster().Leader(T, partition); leader == node {
						assert.NoError(t, w.MoveLeader(T, partition, node%3+1))
						away = append(away, moment{partition, began, time.Now()})
					}
				}
				time.Sleep(800 * time.Millisecond)
				assert.NoError(t, w.Accept(node))
			}
		}()
		var all []*sent
		var at []time.Time
		for running := true; running; {
			select {
			case <-stop:
				running = false
			case <-time.After(2 * time.Millisecond):
				all, at = append(all, w.send(p, to(int32(len(all)%3), "%d", len(all)))), append(at, time.Now())
			}
		}
		w.acked(all...)
		for i, s := range all {
			since := at[i] // or since its partition had a leader again
			for _, m := range away {
				if m.partition == int32(i%3) && !since.Before(m.from) && since.Before(m.to) {
					since = m.to
				}
			}
			if took := s.at.Sub(since); took > time.Second {
				t.Errorf("record %d took %v from when it could be sent", i, took)
			}
		}
	})
}

// FC-106: the longest times that can be set are no limits, and overflow nowhere: nothing ends early, no deadline lies in the
// past. (What is refused is TestFC106HugeTimes of the root package.)
func TestFC106HugeTimes(t *testing.T) {
	const longest = math.MaxInt32 * time.Millisecond
	play(t, testbroker.Config{Fault: testbroker.Script(protocol.KeyProduce, testbroker.Hold(time.Hour))}, func(w *world) {
		p := w.producer(func(c *producer.Config) {
			c.DeliveryTimeout, c.RequestTimeout, c.Linger = longest, longest/2, longest/2
			c.MaxBlock, c.PartitionerAvailabilityTimeout = math.MaxInt64, math.MaxInt64
			c.RetryBackoffMax, c.ReconnectBackoffMax = math.MaxInt64, math.MaxInt64
			c.ConnectionSetupTimeout, c.ConnectionSetupTimeoutMax, c.ConnectionsMaxIdle = math.MaxInt64, math.MaxInt64, math.MaxInt64
			c.MetadataMaxAge, c.MetadataMaxIdle, c.MetadataRecoveryRebootstrapTrigger = math.MaxInt64, math.MaxInt64, math.MaxInt64
			c.MetricsSampleWindow = math.MaxInt64
			c.Dial = func(ctx context.Context, network, address string) (net.Conn, error) {
				c, err := w.dial(ctx, network, address)
				return deadlines{c, t}, err
			}
		})
		ctx, cancel := context.WithTimeout(context.Background(), math.MaxInt64)
		defer cancel()
		s := w.sendFrom("", ctx, p, to(0, "a"), nil)
		time.Sleep(24 * time.Hour)
		synctest.Wait()
		assert.False(t, s.known(), "it lingers")
		assert.Empty(t, w.batches(0))
		over, cancel := context.WithTimeout(context.Background(), -1)
		defer cancel()
		assert.ErrorIs(t, p.Flush(over), context.DeadlineExceeded)
		w.within(time.Hour+time.Millisecond, "Flush", func() { require.NoError(t, p.Flush(ctx)) }) // the broker takes an hour
		w.acked(s)
		assert.Len(t, w.batches(0), 1)
		b := w.send(p, to(0, "b"))
		w.within(time.Millisecond, "Close", func() { require.NoError(t, p.Close(ctx)) })
		w.acked(b)
		w.closed[p] = true
		require.NoError(t, p.Close(over), "it is closed")
	})
}

// deadlines is a connection that refuses deadlines in the past.
type deadlines struct {
	net.Conn
	t *testing.T
}

func (d deadlines) see(at time.Time) {
	if !at.IsZero() && at.Before(time.Now()) {
		d.t.Errorf("a deadline %v ago", time.Since(at))
	}
}

func (d deadlines) SetDeadline(at time.Time) error     { d.see(at); return d.Conn.SetDeadline(at) }
func (d deadlines) SetReadDeadline(at time.Time) error { d.see(at); return d.Conn.SetReadDeadline(at) }
func (d deadlines) SetWriteDeadline(at time.Time) error {
	d.see(at)
	return d.Conn.SetWriteDeadline(at)
}

// FC-107: in every state in which nothing can be done, the sender sleeps until something can: fewer than 50 iterations a second.
func TestFC107NothingSpins(t *testing.T) {
	produce := func(v testbroker.Verdict) func(*testbroker.Request) testbroker.Verdict {
		return func(r *testbroker.Request) testbroker.Verdict {
			if r.API == protocol.KeyProduce {
				return v
			}
			return testbroker.Verdict{}
		}
	}
	for _, tt := range []struct {
		name   string
		change func(c *producer.Config)
		reach  func(w *world, p kafka)
	}{
		{"idle", nil, func(*world, kafka) {}},
		// Each attempt takes two iterations: three brokers at T0's 100 ms would make 60 a second of them.
		{"all nodes back off", func(c *producer.Config) { c.ReconnectBackoffMax = 200 * time.Millisecond }, func(w *world, p kafka) {
			for node := range int32(3) {
				require.NoError(w.t, w.Refuse(node+1))
			}
			w.CloseConns(0, testbroker.DropFIN)
			w.send(p, to(0, "a"))
			w.send(p, to(1, "b"))
		}},
		{"expired, and in flight still", func(c *producer.Config) { c.RequestTimeout, c.DeliveryTimeout = 10*time.Second, 12*time.Second },
			func(w *world, p kafka) {
				w.Cluster().SetFault(produce(testbroker.MuteBefore()))
				a := w.send(p, to(0, "a"))
				_, err := a.wait()
				require.ErrorIs(w.t, err, producer.ErrDeliveryTimeout)
				require.NotZero(w.t, p.Metrics().RequestsInFlight)
				w.send(p, to(0, "b"))
			}},
		{"leaderless", func(c *producer.Config) { c.DeliveryTimeout = time.Minute }, func(w *world, p kafka) {
			require.NoError(w.t, w.MoveLeader(T, 0, testbroker.NoLeader))
			w.send(p, to(0, "a"))
		}},
		{"throttled", nil, func(w *world, p kafka) {
			w.Cluster().SetFault(testbroker.Script(protocol.KeyProduce, testbroker.Verdict{Throttle: 10 * time.Second}))
			w.acked(w.send(p, to(0, "a")))
			w.send(p, to(0, "b"))
		}},
		{"buffer full", func(c *producer.Config) {
			c.BufferMemory, c.MaxBlock, c.RequestTimeout, c.DeliveryTimeout = 32<<10, time.Minute, time.Minute, 2*time.Minute
		}, func(w *world, p kafka) {
			w.Cluster().SetFault(produce(testbroker.Hold(30 * time.Second)))
			for i := range 4 { // each a partition's worth, and one that waits
				r := record{Topic: T, Partition: producer.OnPartition(int32(i % 3)), Value: fmt.Appendf(make([]byte, 12_000), "%d", i)}
				go w.sendFrom(fmt.Sprint(i), context.Background(), p, r, nil)
			}
			time.Sleep(time.Second)
			require.NotZero(w.t, p.Metrics().WaitingThreads)
		}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			play(t, testbroker.Config{Nodes: 3, Partitions: 3}, func(w *world) {
				p := w.producer(tt.change)
				w.warm(p, 0, 1, 2)
				tt.reach(w, p)
				synctest.Wait()
				w.calm(p, 3*time.Second)
				w.Cluster().SetFault(nil)
			})
		})
	}
}
