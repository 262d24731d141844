package fieldcases

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"math/rand/v2"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/kafka-reservoir/producer"
	"github.com/kafka-reservoir/producer/internal/leak"
	"github.com/kafka-reservoir/producer/internal/simnet"
	"github.com/kafka-reservoir/producer/internal/testbroker"
	"github.com/kafka-reservoir/producer/protocol"
)

// What hung for ever: Close, Flush, Send, and producers that never began.

// FC-022: a connection that breaks with five requests on it takes nobody with it: all are sent again on the next one, also the one whose
// success was told under another request's id.
func TestFC022BrokenAnswerEndsNothingElse(t *testing.T) {
	const hold = 50 * time.Millisecond // until all five have come
	for name, first := range map[string]testbroker.Verdict{
		"wrong correlation id": {Skip: true, Hold: hold, Rewrite: func(b []byte) []byte {
			binary.BigEndian.PutUint32(b[4:], binary.BigEndian.Uint32(b[4:])+1000)
			return b
		}},
		"cut": {Hold: hold, Cut: 10},
		"rst": {Hold: hold, Drop: testbroker.DropRST},
	} {
		t.Run(name, func(t *testing.T) {
			play(t, testbroker.Config{Partitions: 5}, func(w *world) {
				for round := range 30 { // of 200: the moment is exact
					p := w.producer(nil)
					w.warm(p, 0, 1, 2, 3, 4)
					w.Cluster().SetFault(testbroker.Script(protocol.KeyProduce, first,
						testbroker.MuteAfter(), testbroker.MuteBefore(), testbroker.MuteAfter(), testbroker.MuteBefore()))
					var all []*sent
					for partition := range int32(5) {
						all = append(all, w.send(p, to(partition, "%d-%d", round, partition)))
						time.Sleep(6 * time.Millisecond)
					}
					assert.Equal(t, 5, p.Metrics().RequestsInFlight)
					w.within(time.Second, "sending again", func() { w.acked(all...) })
					w.within(50*time.Millisecond, "Close", func() { require.NoError(t, w.close(p, time.Second)) })
					synctest.Wait()
					require.Empty(t, leak.Goroutines())
				}
			})
		})
	}
}

// FC-023: whatever can end a wait of the sender wakes it: with idle connections that the brokers close, metadata that is refreshed, and one
// request in flight, each round goes through.
func TestFC023IdleConnectionsLoseNoRound(t *testing.T) {
	play(t, testbroker.Config{Nodes: 2, Partitions: 2}, func(w *world) {
		p := w.producer(func(c *producer.Config) {
			c.DisableIdempotence, c.MaxInFlight, c.MetadataMaxAge = true, 1, 250*time.Millisecond
		})
		for round := range 50 {
			began := time.Now()
			a, b := w.send(p, to(0, "%d-0", round)), w.send(p, to(1, "%d-1", round))
			w.within(300*time.Millisecond, fmt.Sprintf("round %d", round), func() { w.acked(a, b) })
			time.Sleep(100 * time.Millisecond)
			w.CloseConns(0, testbroker.DropFIN) // idle
			time.Sleep(time.Until(began.Add(300 * time.Millisecond)))
		}
	})
}

// FC-024: a batch that fails fails for all of its records. The topic may not be written to any more, by the time it is sent again.
func TestFC024WholeBatchFails(t *testing.T) {
	play(t, testbroker.Config{}, func(w *world) {
		w.Cluster().SetFault(testbroker.Script(protocol.KeyProduce, testbroker.Verdict{Code: protocol.NotLeaderOrFollower, After: func() {
			w.Cluster().SetTopicError(T, protocol.TopicAuthorizationFailed)
		}}))
		p := w.producer(nil)
		var all []*sent
		for i := range 50 {
			all = append(all, w.send(p, to(0, "%d", i)))
		}
		w.within(time.Second, "Flush", func() { require.NoError(t, p.Flush(context.Background())) })
		for _, s := range all {
			require.True(t, s.known())
			assert.ErrorIs(t, s.err, protocol.TopicAuthorizationFailed)
		}
		assert.Equal(t, int32(50), w.batches(0)[0].Count)
		w.whole(p)
	})
}

// FC-025: memory that comes free goes to those who wait, in their order: to as many as there is room for, and to a large one before the small
// ones behind it. Sizes are 16 times those of the report, since slabs are 16 KiB.
func TestFC025FreedMemoryGoesToTheFirst(t *testing.T) {
	const unit = 16 << 10
	sized := func(partition int32, name string, units int) record {
		return to(partition, "%s%s", name, strings.Repeat("x", units*unit-300))
	}
	play(t, testbroker.Config{Partitions: 8}, func(w *world) {
		p := w.producer(func(c *producer.Config) { c.BufferMemory = 10 * unit })
		w.warm(p, 0, 1, 2, 3, 4, 5, 6, 7)
		// blocked sends from a goroutine of its own, which has begun to wait, and tells when Send returned.
		blocked := func(r record) <-chan time.Time {
			c := make(chan time.Time, 1)
			go func() {
				w.sendFrom(string(r.Value[:1]), context.Background(), p, r, nil)
				c <- time.Now()
			}()
			synctest.Wait()
			assert.Empty(t, c, "%s does not wait", r.Value[:1])
			return c
		}
		w.Cluster().SetFault(testbroker.Script(protocol.KeyProduce, testbroker.Hold(300*time.Millisecond)))
		w.send(p, sized(0, "A", 8))
		time.Sleep(6 * time.Millisecond)
		b, c := blocked(sized(1, "B", 4)), blocked(sized(2, "C", 4))
		assert.Equal(t, 2, p.Metrics().WaitingThreads)
		w.acked(w.book[len(w.book)-3])
		freed := time.Now()
		assert.LessOrEqual(t, (<-b).Sub(freed), 200*time.Millisecond)
		assert.LessOrEqual(t, (<-c).Sub(freed), 200*time.Millisecond)
		w.acked(w.book...)

		// Five requests of two units, answered one after the other.
		w.Cluster().SetFault(produces(func(n int, _ *testbroker.Request) testbroker.Verdict { return testbroker.Hold(50 * time.Millisecond) }))
		for i := range 5 {
			w.send(p, sized(int32(i), fmt.Sprintf("F%d", i), 2))
			time.Sleep(10 * time.Millisecond)
		}
		d, e := blocked(sized(5, "D", 9)), blocked(sized(6, "E", 1))
		atD, atE := <-d, <-e
		assert.False(t, atE.Before(atD), "the small one went first")
		w.acked(w.book...)
	})
	t.Run("random", func(t *testing.T) {
		play(t, testbroker.Config{Partitions: 8}, func(w *world) {
			const unit = 6 << 10
			p := w.producer(func(c *producer.Config) { c.BufferMemory = 10 * unit })
			w.Cluster().SetFault(produces(func(int, *testbroker.Request) testbroker.Verdict { return testbroker.Hold(time.Millisecond) }))
			var wg sync.WaitGroup
			var mu sync.Mutex
			var longest time.Duration
			for g := range 32 { // 1,280 rounds of 10,000
				wg.Go(func() {
					rnd := rand.New(rand.NewPCG(25, uint64(g)))
					for i := range 40 {
						r := to(rnd.Int32N(8), "%d-%d %s", g, i, strings.Repeat("x", unit*(1+rnd.IntN(9))-300))
						began := time.Now()
						w.sendFrom(fmt.Sprint(g), context.Background(), p, r, func(_ producer.RecordMetadata, err error) { assert.NoError(t, err) })
						mu.Lock()
						longest = max(longest, time.Since(began))
						mu.Unlock()
					}
				})
			}
			wg.Wait()
			assert.LessOrEqual(t, longest, time.Second)
			t.Logf("the longest Send took %v", longest)
		})
	})
}

// FC-026: a Send that is cancelled in the moment in which memory comes free either has it or has left it to the next: none is lost.
func TestFC026CancelMeetsGrant(t *testing.T) {
	play(t, testbroker.Config{}, func(w *world) {
		const memory = 64 << 10
		p := w.producer(func(c *producer.Config) { c.BufferMemory = memory })
		w.warm(p, 0)
		fill := strings.Repeat("x", memory*3/4)
		accepted, cancelled := 0, 0
		for round := range 300 { // of 5000: each one hits the moment
			w.Cluster().SetFault(testbroker.Script(protocol.KeyProduce, testbroker.Hold(10*time.Millisecond)))
			held := w.send(p, to(0, "held %d %s", round, fill))
			synctest.Wait() // it is sent
			ctx, cancel := context.WithCancel(context.Background())
			var blocked *sent
			done := make(chan time.Time, 1)
			go func() {
				blocked = w.sendFrom("other", ctx, p, to(0, "blocked %d %s", round, fill), nil)
				done <- time.Now()
			}()
			synctest.Wait()
			require.Equal(t, 1, p.Metrics().WaitingThreads)
			time.Sleep(10 * time.Millisecond) // it is answered now, which takes some goroutines' turns
			at := time.Now()
			for range round % 30 {
				runtime.Gosched()
			}
			cancel()
			assert.LessOrEqual(t, (<-done).Sub(at), 100*time.Millisecond)
			switch _, err := blocked.wait(); {
			case err == nil:
				accepted++
			case assert.ErrorIs(t, err, context.Canceled):
				cancelled++
			}
			w.acked(held)
			w.whole(p)
			w.within(0, "the next Send", func() { held = w.send(p, to(0, "next %d %s", round, fill[:memory/2])) })
			w.acked(held)
		}
		t.Logf("%d accepted, %d cancelled", accepted, cancelled)
	})
}

// FC-027: Close is a barrier: what was accepted before it is settled when it returns, and everything else is refused, whatever stage the first
// Sends of all are at.
func TestFC027CloseAmongTheFirstSends(t *testing.T) {
	play(t, testbroker.Config{Partitions: 4}, func(w *world) {
		w.Cluster().SetFault(func(r *testbroker.Request) testbroker.Verdict {
			if r.API == protocol.KeyMetadata {
				return testbroker.Hold(time.Millisecond)
			}
			return testbroker.Verdict{}
		})
		delivered, refused := 0, 0
		for round := range 300 { // of 3000: all moments that differ occur
			p := w.producer(nil)
			all := make([]*sent, 8*3)
			var wg sync.WaitGroup
			for g := range 8 {
				wg.Go(func() {
					for i := range 3 {
						all[g*3+i] = w.sendFrom(fmt.Sprint(round, g), context.Background(), p, to(int32(g%4), "%d-%d-%d", round, g, i), nil)
						time.Sleep(time.Millisecond)
					}
				})
			}
			time.Sleep(time.Duration(round%9) * 250 * time.Microsecond)
			w.within(500*time.Millisecond, "Close", func() { require.NoError(t, w.close(p, 500*time.Millisecond)) })
			closed := time.Now()
			wg.Wait()
			synctest.Wait()
			for _, s := range all {
				require.True(t, s.known(), "%q", s.record.Value)
				if s.err != nil {
					require.ErrorIs(t, s.err, producer.ErrClosed)
					refused++
				} else {
					assert.False(t, s.at.After(closed))
					delivered++
				}
			}
			require.Empty(t, leak.Goroutines())
		}
		assert.Positive(t, delivered)
		assert.Positive(t, refused)
		assert.Equal(t, int64(delivered), w.stored())
	})
}

// FC-028: Close with a broker that takes nothing any more ends with its ctx: what is left fails, its connections are cut, and the error says
// how much it was.
func TestFC028CloseOfAFrozenCluster(t *testing.T) {
	for _, limit := range []time.Duration{500 * time.Millisecond, 0} {
		t.Run(limit.String(), func(t *testing.T) {
			play(t, testbroker.Config{Partitions: 10}, func(w *world) {
				w.network.SetLink(w.Addr(1), simnet.Link{Buffer: 1 << 10})
				p := w.producer(func(c *producer.Config) { c.RequestTimeout = 2 * time.Second })
				w.warm(p, 0, 1, 2, 3, 4, 5, 6, 7, 8, 9)
				conns := w.network.Conns(w.Addr(1))
				for _, c := range conns {
					c.Stall(true)
				}
				var all []*sent
				for i := range 1000 {
					all = append(all, w.send(p, to(int32(i%10), "%d %s", i, strings.Repeat("x", 100))))
					if i%100 == 0 {
						time.Sleep(6 * time.Millisecond)
					}
				}
				assert.Equal(t, 5, p.Metrics().RequestsInFlight)
				began := time.Now()
				err := w.close(p, limit)
				assert.Equal(t, limit, time.Since(began))
				require.ErrorIs(t, err, context.DeadlineExceeded)
				assert.ErrorContains(t, err, "1000 records")
				for _, s := range all {
					require.True(t, s.known())
					assert.ErrorIs(t, s.err, producer.ErrForceClosed)
				}
				for _, c := range conns {
					c.Stall(false)
				}
				time.Sleep(time.Millisecond)
				gone := 0
				for _, e := range w.Cluster().Journal(0) {
					if e.Kind == testbroker.EntryDisconnect {
						gone++
					}
				}
				assert.Equal(t, len(conns), gone, "the broker sees its connections closed")
			})
		})
	}
}

// FC-029, KAFKA-19397: an answer is held against what was sent, not against the metadata of now: the topic is created anew, under another id,
// while a request that names it by the old one is on its way.
func TestFC029TopicCreatedAnewUnderARequest(t *testing.T) {
	for name, verdict := range map[string]testbroker.Verdict{
		"success":          {},
		"unknown topic id": {Code: protocol.UnknownTopicID},
		"nothing":          {Skip: true, Edit: func(m protocol.Message) { m.(*protocol.ProduceResponse).Topics = nil }},
	} {
		t.Run(name, func(t *testing.T) {
			topic := testbroker.Topic{Name: T, Leaders: []int32{1, 2}} // node 2 is there to answer Metadata
			play(t, testbroker.Config{Nodes: 2, Topics: []testbroker.Topic{topic}}, func(w *world) {
				w.mayLose = true // what the old topic held
				p := w.producer(func(c *producer.Config) { c.MetadataMaxAge = 100 * time.Millisecond })
				w.warm(p, 1, 0)
				verdict.Hold = 300 * time.Millisecond
				w.Cluster().SetFault(testbroker.Script(protocol.KeyProduce, verdict))
				s := w.send(p, to(0, "v"))
				time.Sleep(50 * time.Millisecond)
				old := w.Cluster().TopicID(T)
				require.NoError(t, w.Cluster().RecreateTopic(topic))
				time.Sleep(200 * time.Millisecond) // the producer knows by now
				assert.False(t, s.known())
				w.within(time.Second, "Flush", func() { require.NoError(t, p.Flush(context.Background())) })
				w.acked(s)
				w.whole(p)
				sends := w.arrivals()[2:]
				assert.Equal(t, old, sends[0].Request.Batches[0].TopicID)
				if name == "success" {
					assert.Len(t, sends, 1)
					return
				}
				require.GreaterOrEqual(t, len(sends), 2)
				for _, e := range sends[1:] {
					assert.Equal(t, w.Cluster().TopicID(T), e.Request.Batches[0].TopicID)
				}
				assert.Equal(t, []string{"v"}, w.values(0))
			})
		})
	}
}

// FC-030: Close wakes who waits: for the producer's id, for metadata, for memory.
func TestFC030CloseWakesEveryWait(t *testing.T) {
	const limit = 300 * time.Millisecond
	for _, tt := range []struct {
		name  string
		mute  protocol.APIKey
		want  error         // what the record in question fails with
		close time.Duration // how long Close takes: as long as it may, if something was accepted
	}{
		{"producer id", protocol.KeyInitProducerID, producer.ErrForceClosed, limit}, // Send does not wait for it, the record does
		{"metadata", protocol.KeyMetadata, producer.ErrClosed, 0},
		{"memory", protocol.KeyProduce, producer.ErrClosed, limit},
	} {
		t.Run(tt.name, func(t *testing.T) {
			play(t, testbroker.Config{}, func(w *world) {
				w.Cluster().SetFault(func(r *testbroker.Request) testbroker.Verdict {
					if r.API == tt.mute && (r.API != protocol.KeyMetadata || slices.Contains(r.Topics, T)) {
						return testbroker.MuteBefore()
					}
					return testbroker.Verdict{}
				})
				p := w.producer(func(c *producer.Config) { c.MaxBlock, c.BufferMemory = time.Minute, 32<<10 })
				if tt.mute == protocol.KeyProduce {
					w.send(p, to(0, "%s", strings.Repeat("x", 24<<10)))
				}
				var s *sent
				returned := make(chan time.Time, 1)
				go func() {
					s = w.send(p, to(0, "%s", strings.Repeat("y", 24<<10)))
					returned <- time.Now()
				}()
				time.Sleep(100 * time.Millisecond)
				began := time.Now()
				err := w.close(p, limit)
				assert.Equal(t, tt.close, time.Since(began))
				if tt.close > 0 {
					require.ErrorIs(t, err, context.DeadlineExceeded)
				} else {
					require.NoError(t, err)
				}
				assert.False(t, (<-returned).After(began))
				_, err = s.wait()
				require.ErrorIs(t, err, tt.want)
				if errors.Is(tt.want, producer.ErrClosed) {
					assert.Equal(t, began, s.at)
				}
			})
		})
	}
}

// FC-031: the delivery timeout runs for records of a partition without a leader too, and ends their flush.
func TestFC031NoLeaderEndsByTheDeliveryTimeout(t *testing.T) {
	play(t, testbroker.Config{Nodes: 2, Topics: []testbroker.Topic{{Name: T, Leaders: []int32{testbroker.NoLeader, 2}}}}, func(w *world) {
		p := w.producer(nil)
		w.warm(p, 1)
		before := len(w.requests(protocol.KeyMetadata))
		began := time.Now()
		var lost, fine []*sent
		for i := range 3 {
			lost = append(lost, w.send(p, to(0, "lost %d", i)))
		}
		for i := range 100 {
			fine = append(fine, w.send(p, to(1, "fine %d", i)))
		}
		require.NoError(t, p.Flush(context.Background()))
		assert.Equal(t, 3*time.Second, time.Since(began))
		for _, s := range fine {
			require.NoError(t, s.err)
			assert.LessOrEqual(t, s.at.Sub(began), 10*time.Millisecond)
		}
		for _, s := range lost {
			assert.ErrorIs(t, s.err, producer.ErrDeliveryTimeout)
			assert.ErrorIs(t, s.err, protocol.LeaderNotAvailable)
			assert.Equal(t, 3*time.Second, s.at.Sub(began))
		}
		// Back-offs of 20, 40, 80 and then 100 ms, each up to 20 % shorter.
		assert.LessOrEqual(t, len(w.requests(protocol.KeyMetadata))-before, 3000/80+3)
	})
}

// FC-032: records for topics that do not exist hold a Send up for MaxBlock and nothing else: no memory, and no other topic.
func TestFC032UnknownTopicsHoldUpNobody(t *testing.T) {
	play(t, testbroker.Config{AutoCreate: testbroker.AutoCreateOff}, func(w *world) {
		p := w.producer(func(c *producer.Config) { c.MaxBlock = 500 * time.Millisecond })
		w.warm(p, 0)
		heap := func() uint64 {
			var m runtime.MemStats
			runtime.ReadMemStats(&m)
			return m.HeapAlloc
		}
		runtime.GC()
		before, most := heap(), uint64(0)
		value := strings.Repeat("x", 1000)
		var wg sync.WaitGroup
		for g := range 200 {
			wg.Go(func() {
				for i := range 10 { // of 500, which would be the same again
					r := to(-1, "%d %d %s", g, i, value)
					r.Topic = fmt.Sprintf("unknown-%d", (g+i)%50)
					began := time.Now()
					s := w.sendFrom(fmt.Sprint(g), context.Background(), p, r, nil)
					assert.Equal(t, 500*time.Millisecond, time.Since(began))
					_, err := s.wait()
					assert.ErrorIs(t, err, producer.ErrMetadataTimeout)
					assert.ErrorIs(t, err, protocol.UnknownTopicOrPartition)
					assert.ErrorContains(t, err, r.Topic)
				}
			})
		}
		var over bool
		go func() { wg.Wait(); over = true }()
		var took []time.Duration
		for i := 0; !over; i++ {
			began := time.Now()
			w.acked(w.send(p, to(0, "healthy %d", i)))
			took = append(took, time.Since(began))
			time.Sleep(20 * time.Millisecond)
			if i%10 == 0 {
				most = max(most, heap())
			}
			synctest.Wait()
		}
		slices.Sort(took)
		assert.LessOrEqual(t, took[len(took)*99/100], 50*time.Millisecond)
		assert.Less(t, most, before+(32+16)<<20)
		assert.LessOrEqual(t, len(w.requests(protocol.KeyMetadata)), 20*5+10, "back-off is 20 to 100 ms, for 5 s")
		for _, name := range w.Cluster().TopicNames() {
			assert.Equal(t, T, name)
		}
	})
}
