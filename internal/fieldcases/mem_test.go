package fieldcases

import (
	"context"
	"fmt"
	"net"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/kafka-reservoir/producer"
	"github.com/kafka-reservoir/producer/internal/leak"
	"github.com/kafka-reservoir/producer/internal/testbroker"
	"github.com/kafka-reservoir/producer/protocol"
)

// Memory: what is held, for how long, and what is left of producers that were closed.

// heap is what is live.
func heap() int64 {
	var m runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}

// FC-033: whatever waits, wherever it waits, is within BufferMemory; when that is used up, Send fails after MaxBlock. Once the
// broker is well, what was accepted arrives in order, and what comes next at once.
func TestFC033RetriesAreInTheBuffer(t *testing.T) {
	const buffer = 8 << 20
	play(t, testbroker.Config{JournalLimit: -1}, func(w *world) {
		p := w.producer(func(c *producer.Config) {
			c.BufferMemory, c.MaxBlock, c.DeliveryTimeout = buffer, 200*time.Millisecond, time.Minute
		})
		w.warm(p, 0)
		w.Cluster().SetFault(func(r *testbroker.Request) testbroker.Verdict {
			if r.API == protocol.KeyProduce {
				return testbroker.Answer(protocol.RequestTimedOut)
			}
			return testbroker.Verdict{}
		})
		base := heap()
		began := time.Now()
		// The book would be as large as what it watches: it is written afterwards.
		type result struct {
			n    int
			meta producer.RecordMetadata
			err  error
		}
		results := make([][]result, 32)
		var wg sync.WaitGroup
		value := func(g, n int) []byte { return fmt.Appendf(nil, "%d-%d-%01000d", g, n, 0) }
		for g := range results {
			wg.Go(func() {
				var mu sync.Mutex
				for n := 0; time.Since(began) < 10*time.Second; n++ {
					p.SendFunc(context.Background(), record{Topic: T, Value: value(g, n)}, func(m producer.RecordMetadata, err error) {
						mu.Lock()
						defer mu.Unlock()
						results[g] = append(results[g], result{n, m, err})
					})
				}
			})
		}
		var most int64
		for time.Since(began) < 10*time.Second {
			most = max(most, heap()-base)
			time.Sleep(500 * time.Millisecond)
		}
		assert.LessOrEqual(t, most, int64(2*buffer))
		assert.Less(t, p.Metrics().BufferAvailableBytes, int64(buffer/2), "the buffer was in use")
		wg.Wait()
		w.Cluster().SetFault(nil)
		require.NoError(t, p.Flush(context.Background()))
		assert.Less(t, time.Since(began), 11*time.Second)
		accepted := 0
		for g, all := range results {
			slices.SortStableFunc(all, func(a, b result) int { return a.n - b.n })
			for i, r := range all {
				require.Equal(t, i, r.n)
				w.note(record{Topic: T, Value: value(g, r.n)}, fmt.Sprint(g), r.meta, r.err)
				if r.err == nil {
					accepted++
					continue
				}
				assert.ErrorIs(t, r.err, producer.ErrBufferExhausted)
				assert.True(t, producer.IsRetriable(r.err))
			}
		}
		assert.Greater(t, accepted, 3000)
		assert.Greater(t, len(w.book)-accepted, 1000)
		w.within(5*time.Millisecond, "a record afterwards, which lingers,", func() { w.acked(w.send(p, to(0, "afterwards"))) })
	})
}

// neverTooMuch watches that the pool never has more than it began with.
func (w *world) neverTooMuch(p kafka, every time.Duration) (stop func()) {
	done, stopped := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(stopped)
		for {
			select {
			case <-done:
				return
			case <-time.After(every):
			}
			if m := p.Metrics(); m.BufferAvailableBytes > m.BufferTotalBytes {
				w.t.Errorf("%d bytes of %d are free", m.BufferAvailableBytes, m.BufferTotalBytes)
			}
		}
	}()
	return func() { close(done); <-stopped }
}

// FC-034: a batch that was split, or ended while in flight, gives its memory back once, whatever is answered later.
func TestFC034MemoryIsReleasedOnce(t *testing.T) {
	t.Run("split", func(t *testing.T) {
		play(t, testbroker.Config{Topics: []testbroker.Topic{{Name: T, Partitions: 4, MaxMessageBytes: 1000}}, JournalLimit: -1}, func(w *world) {
			p := w.producer(func(c *producer.Config) { c.BatchSize = 4 << 10 })
			stop := w.neverTooMuch(p, time.Millisecond)
			var wg sync.WaitGroup
			for g := range int32(4) {
				wg.Go(func() {
					for i := range 1000 {
						w.sendFrom(fmt.Sprint(g), context.Background(), p, to(g, "%d-%d-%0200d", g, i, 0), nil)
						if i%20 == 0 {
							time.Sleep(time.Millisecond)
						}
					}
				})
			}
			wg.Wait()
			w.acked(w.book...)
			assert.Greater(t, p.Metrics().BatchSplit.Total, int64(200))
			stop()
			w.whole(p)
			w.acked(w.send(p, to(0, "alive")))
		})
	})
	for name, aborted := range map[string]bool{"expired": false, "aborted": true} {
		t.Run(name, func(t *testing.T) {
			const partitions = 50
			play(t, testbroker.Config{Partitions: partitions, JournalLimit: -1}, func(w *world) {
				p := w.producer(func(c *producer.Config) { c.RequestTimeout, c.MaxInFlight = 2900*time.Millisecond, 1 })
				for i := range int32(partitions) {
					w.warm(p, i)
				}
				stop := w.neverTooMuch(p, 100*time.Millisecond)
				w.Cluster().SetFault(func(r *testbroker.Request) testbroker.Verdict {
					if r.API == protocol.KeyProduce {
						return testbroker.Verdict{Delay: 2 * time.Second}
					}
					return testbroker.Verdict{}
				})
				for round := range 20 {
					// The first request is answered after two seconds, in time; the next, sent then, holds batches that end by their
					// delivery timeout after three, and is answered after four.
					for range 2 {
						for i := range int32(partitions) {
							w.send(p, to(i, "%d-%d", round, len(w.book)))
						}
						time.Sleep(10 * time.Millisecond)
					}
					time.Sleep(5 * time.Second)
				}
				late := 0
				for _, s := range w.book {
					if _, err := s.wait(); producer.MayHaveBeenWritten(err) {
						late++
						assert.ErrorIs(t, err, producer.ErrDeliveryTimeout)
					}
				}
				assert.Equal(t, 20*partitions, late)
				if aborted {
					for i := range int32(partitions) {
						w.send(p, to(i, "aborted-%d", i))
					}
					time.Sleep(time.Second)
					assert.Error(t, w.close(p, time.Millisecond))
					time.Sleep(10 * time.Second)
				} else {
					w.Cluster().SetFault(nil)
					w.acked(w.send(p, to(0, "alive")))
				}
				stop()
				w.whole(p)
			})
		})
	}
}

// FC-035: a producer that was closed, or never came to be, leaves nothing behind, however many there were. (Those whose login
// fails come with SASL; here it is those whose connections do.)
func TestFC035ProducersThatComeAndGo(t *testing.T) {
	for name, fault := range map[string]func(r *testbroker.Request) testbroker.Verdict{
		"one record each": nil,
		"no connection": func(r *testbroker.Request) testbroker.Verdict {
			return testbroker.DropBefore()
		},
	} {
		t.Run(name, func(t *testing.T) {
			play(t, testbroker.Config{JournalLimit: -1, DiscardRecords: true, Fault: fault}, func(w *world) {
				cycle := func() {
					p, err := producer.New(w.t0(nil), producer.Bytes(), producer.Bytes())
					require.NoError(t, err)
					ctx, cancel := context.WithTimeout(context.Background(), 50*time.Millisecond)
					_, err = p.Send(ctx, to(0, "v")).Wait(context.Background())
					cancel()
					assert.Equal(t, fault == nil, err == nil)
					require.NoError(t, p.Close(context.Background()))
					_, err = producer.New(w.t0(func(c *producer.Config) { c.RequestTimeout = time.Hour }), producer.Bytes(), producer.Bytes())
					assert.Error(t, err)
				}
				some := func() (goroutines int, bytes int64) {
					for range 250 {
						cycle()
					}
					synctest.Wait()
					return runtime.NumGoroutine(), heap()
				}
				some()
				goroutines, bytes := some()
				again, more := some()
				assert.LessOrEqual(t, again, goroutines+2, "the runtime has some of its own")
				assert.Empty(t, leak.Goroutines())
				assert.InDelta(t, bytes, more, 2<<20)
			})
		})
	}
}

// FC-036: after Close there is no request, no connection and no attempt at one, whatever the producer had done or was about
// to do.
func TestFC036NothingAfterClose(t *testing.T) {
	for name, before := range map[string]func(w *world, p kafka){
		"a record was sent": func(w *world, p kafka) { w.warm(p, 0, 1) },
		"nothing was sent":  func(*world, kafka) {},
		"some time later":   func(*world, kafka) { time.Sleep(time.Second) },
		"in the first dial": func(w *world, p kafka) {
			for _, addr := range w.Addrs() {
				w.network.BlackHole(addr, true)
			}
			go w.send(p, to(0, "v"))
			time.Sleep(10 * time.Millisecond)
		},
		"topic that is not there": func(w *world, p kafka) {
			go w.send(p, record{Topic: "missing", Value: []byte("v")})
			time.Sleep(100 * time.Millisecond)
		},
	} {
		t.Run(name, func(t *testing.T) {
			play(t, testbroker.Config{Nodes: 2, Partitions: 2, AutoCreate: testbroker.AutoCreateOff}, func(w *world) {
				var dials atomic.Int64
				p := w.producer(func(c *producer.Config) {
					c.MetadataMaxAge, c.ConnectionsMaxIdle = 200*time.Millisecond, 300*time.Millisecond
					c.Dial = func(ctx context.Context, network, addr string) (net.Conn, error) {
						dials.Add(1)
						return w.network.Dial(ctx, network, addr)
					}
				})
				before(w, p)
				w.within(200*time.Millisecond, "Close", func() { require.NoError(t, w.close(p, time.Minute)) })
				synctest.Wait()
				assert.Empty(t, leak.Goroutines())
				stats, dialled := w.Cluster().Stats(), dials.Load()
				for _, addr := range w.Addrs() {
					w.network.BlackHole(addr, false)
				}
				time.Sleep(5 * time.Second)
				assert.Equal(t, stats.Requests, w.Cluster().Stats().Requests)
				assert.Equal(t, dialled, dials.Load())
			})
		})
	}
}

// FC-037: leaders that move hundreds of times leave nothing behind: goroutines, connections and memory are as after the
// first move.
func TestFC037LeadersThatMove(t *testing.T) {
	play(t, testbroker.Config{Nodes: 2, JournalLimit: -1, DiscardRecords: true}, func(w *world) {
		p := w.producer(nil)
		var failed atomic.Int64
		n := 0
		bounce := func() {
			n++
			require.NoError(t, w.MoveLeader(T, 0, int32(1+n%2)))
			if n%10 == 0 {
				w.CloseConns(int32(2-n%2), testbroker.DropFIN)
			}
			for range 5 {
				p.SendFunc(context.Background(), to(0, "v"), func(_ producer.RecordMetadata, err error) {
					if err != nil {
						failed.Add(1)
					}
				})
				time.Sleep(10 * time.Millisecond)
			}
			require.NoError(t, p.Flush(context.Background()))
			synctest.Wait()
		}
		for range 20 {
			bounce()
		}
		goroutines, bytes := leak.Goroutines(), heap()
		for range 500 {
			bounce()
		}
		time.Sleep(time.Second)
		after := leak.Goroutines()
		assert.InDelta(t, len(goroutines), len(after), 2, strings.Join(after, "\n\n"))
		assert.LessOrEqual(t, p.Metrics().ConnectionCount, 2*2)
		assert.Less(t, heap()-bytes, int64(1<<20))
		assert.Zero(t, failed.Load())
	})
}
