package fieldcases

import (
	"context"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/kafka-reservoir/producer"
	"github.com/kafka-reservoir/producer/internal/simnet"
	"github.com/kafka-reservoir/producer/internal/testbroker"
	"github.com/kafka-reservoir/producer/protocol"
)

// Records lost, doubled or out of order in long runs with random trouble.

// FC-010: with one batch in flight, or idempotence, a partition is held until its batch is settled, whatever went wrong with it.
func TestFC010OrderWhateverFails(t *testing.T) {
	const n = 600 // batches; with two seeds
	for _, idempotent := range []bool{false, true} {
		for seed := range uint64(2) {
			t.Run(fmt.Sprintf("idempotent=%v/seed=%d", idempotent, seed), func(t *testing.T) {
				play(t, testbroker.Config{Nodes: 2}, func(w *world) {
					w.mayDouble = !idempotent
					p := w.producer(func(c *producer.Config) {
						oneEach(c)
						c.DeliveryTimeout = time.Hour
						if c.DisableIdempotence = !idempotent; !idempotent {
							c.MaxInFlight = 1
						}
					})
					rnd, app := rand.New(rand.NewPCG(seed, 10)), rand.New(rand.NewPCG(seed, 11))
					w.Cluster().SetFault(produces(func(_ int, r *testbroker.Request) testbroker.Verdict {
						switch rnd.IntN(12) {
						case 0:
							return testbroker.Answer(protocol.NotLeaderOrFollower)
						case 1:
							return testbroker.DropBefore()
						case 2:
							return testbroker.DropAfter()
						case 3:
							return testbroker.Verdict{After: func() { _ = w.Cluster().MoveLeader(T, 0, 3-r.Node) }}
						}
						return testbroker.Hold(time.Duration(rnd.IntN(4)) * time.Millisecond)
					}))
					var all []*sent
					for i := range n {
						all = append(all, w.send(p, to(0, "%d", i)))
						if app.IntN(4) == 0 {
							time.Sleep(time.Duration(app.IntN(5)) * time.Millisecond)
						}
					}
					w.acked(all...)
					w.Cluster().SetFault(nil)
					var log []string // without repeats; there are none where check has to find that
					seen := map[string]bool{}
					for _, v := range w.values(0) {
						if !seen[v] {
							log = append(log, v)
						}
						seen[v] = true
					}
					assert.Equal(t, numbers(n), log)
				})
			})
		}
	}
}

// FC-011: what the producer tells itself never becomes a record, and after each restart of the broker it goes on.
func TestFC011RestartsLeaveNothingStrange(t *testing.T) {
	play(t, testbroker.Config{Partitions: 8}, func(w *world) {
		w.network.SetLink(w.Addr(1), simnet.Link{Latency: 10 * time.Millisecond})
		p := w.producer(func(c *producer.Config) {
			c.Linger, c.BatchSize, c.DeliveryTimeout = time.Millisecond, 1<<10, time.Minute
		})
		w.warm(p, 0, 1, 2, 3, 4, 5, 6, 7)
		var all []*sent
		var over atomic.Bool
		var flow sync.WaitGroup
		flow.Go(func() {
			for i := 0; !over.Load(); i++ {
				all = append(all, w.send(p, to(int32(i%8), "%d", i)))
				if i%8 == 7 {
					time.Sleep(3 * time.Millisecond)
				}
			}
		})
		for cycle := range 30 {
			for p.Metrics().RequestsInFlight < 5 {
				time.Sleep(time.Millisecond)
			}
			w.outage(1, testbroker.DropRST)
			time.Sleep(20 * time.Millisecond)
			require.NoError(t, w.Accept(1))
			began, had := time.Now(), w.stored()
			for w.stored() == had {
				time.Sleep(time.Millisecond)
				require.Less(t, time.Since(began), time.Second, "no progress after cycle %d", cycle)
			}
		}
		over.Store(true)
		flow.Wait()
		w.acked(all...)
		assert.Equal(t, int64(len(all)+8), w.stored()) // and check finds that each is one that was sent
		t.Logf("%d records", len(all))
	})
}

// stored is how many records all partitions of T have taken.
func (w *world) stored() (n int64) {
	for i := range w.Cluster().Partitions(T) {
		_, end := w.Cluster().Offsets(T, int32(i))
		n += end
	}
	return n
}

// FC-019: a batch is never made anew: what is sent again under a sequence is the same bytes.
func TestFC019RetriesAreTheSameBytes(t *testing.T) {
	play(t, testbroker.Config{Partitions: 3, JournalLimit: 100_000}, func(w *world) {
		w.network.SetLink(w.Addr(1), simnet.Link{Latency: time.Millisecond})
		rnd := rand.New(rand.NewPCG(19, 19))
		w.Cluster().SetFault(produces(func(int, *testbroker.Request) testbroker.Verdict {
			switch rnd.IntN(20) {
			case 0, 1, 2:
				return testbroker.DropBefore()
			case 3, 4, 5:
				return testbroker.DropAfter()
			}
			return testbroker.Verdict{}
		}))
		p := w.producer(func(c *producer.Config) { c.BatchSize, c.DeliveryTimeout = 512, time.Hour })
		const goroutines, each = 10, 1000 // of 50,000 records: every one of the requests is of the interesting kind
		var all [goroutines][]*sent
		var senders sync.WaitGroup
		for g := range goroutines {
			senders.Go(func() {
				for i := range each {
					all[g] = append(all[g], w.sendFrom(fmt.Sprint(g), context.Background(), p, to(int32(i%3), "%d-%d", g, i), nil))
					if i%20 == 0 {
						time.Sleep(5 * time.Millisecond)
					}
				}
			})
		}
		senders.Wait()
		type key struct {
			id        int64
			epoch     int16
			partition int32
			sequence  int32
		}
		type content struct {
			crc   uint32
			count int32
		}
		for g := range all {
			w.acked(all[g]...)
		}
		seen, again := map[key]content{}, 0
		for partition := range int32(3) {
			for _, b := range w.batches(partition) {
				k, c := key{b.ProducerID, b.ProducerEpoch, partition, b.BaseSequence}, content{b.CRC, b.Count}
				if was, ok := seen[k]; ok {
					assert.Equal(t, was, c, "%v", k)
					again++
				}
				seen[k] = c
			}
		}
		assert.Greater(t, again, 100)
		assert.Equal(t, int64(goroutines*each), w.stored())
	})
}

// FC-020: batches that expire around the moment in which their request is made leave it whole: the broker, which is strict, reads all of it.
func TestFC020ExpiryLeavesRequestsWhole(t *testing.T) {
	for acks, pause := range map[producer.Acks]time.Duration{producer.AcksAll: 30 * time.Millisecond, producer.AcksNone: 60 * time.Millisecond} {
		t.Run(acks.String(), func(t *testing.T) {
			play(t, testbroker.Config{Partitions: 50}, func(w *world) {
				w.mayLose = acks == producer.AcksNone
				w.network.SetLink(w.Addr(1), simnet.Link{Latency: time.Millisecond, Bandwidth: 1_000_000, Buffer: 1 << 10})
				rnd, app := rand.New(rand.NewPCG(20, uint64(acks))), rand.New(rand.NewPCG(20, 20))
				p := w.producer(func(c *producer.Config) {
					c.Acks = acks
					c.Linger, c.RequestTimeout, c.DeliveryTimeout = 2*time.Millisecond, 40*time.Millisecond, 42*time.Millisecond
					c.RetryBackoff, c.RetryBackoffMax = 5*time.Millisecond, 10*time.Millisecond
					c.ReconnectBackoff, c.ReconnectBackoffMax = 2*time.Millisecond, 5*time.Millisecond
				})
				for partition := range int32(50) {
					_, _ = w.send(p, to(partition, "first of %d", partition)).wait()
				}
				w.Cluster().SetFault(produces(func(int, *testbroker.Request) testbroker.Verdict {
					if rnd.IntN(10) > 0 {
						return testbroker.Hold(time.Duration(rnd.IntN(5)) * time.Millisecond)
					}
					return testbroker.Hold(time.Duration(rnd.IntN(39)) * time.Millisecond)
				}))
				var all []*sent
				for i := range 200 { // 2 s of 20: what expires in between is what counts
					for range 20 {
						all = append(all, w.send(p, to(app.Int32N(50), "%d %s", len(all), strings.Repeat("x", app.IntN(150)))))
					}
					if conns := w.network.Conns(w.Addr(1)); i%20 == 0 {
						slow := conns[len(conns)-1]
						slow.Stall(true)
						time.AfterFunc(pause, func() { slow.Stall(false) })
					}
					time.Sleep(10 * time.Millisecond)
				}
				time.Sleep(100 * time.Millisecond) // what expired in flight holds its memory until the request ends
				expired := 0
				for _, s := range all {
					if _, err := s.wait(); err != nil {
						assert.ErrorIs(t, err, producer.ErrDeliveryTimeout)
						expired++
					}
				}
				t.Logf("%d of %d expired", expired, len(all))
				assert.Greater(t, expired, len(all)/20)
				assert.Less(t, expired, len(all)/2)
			})
		})
	}
}
