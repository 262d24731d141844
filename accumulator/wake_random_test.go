package accumulator

import (
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// S-31, S-71, S-87: no wake-up is ever lost. Whatever applications append, at whatever moment of the sender's loop: a
// batch is sent in the very instant in which its linger is over, or its node can take it, if that is later. Time is the
// bubble's, which stands still while anybody can do something, so that a batch that was overlooked shows as one that is
// late; the goroutines are real.
func TestNoWakeUpIsLost(t *testing.T) {
	for _, linger := range []time.Duration{0, 5 * ms} {
		for _, maxInFlight := range []int{1, 3} {
			t.Run(fmt.Sprintf("linger=%v/in-flight=%d", linger, maxInFlight), func(t *testing.T) {
				for seed := range *seeds {
					synctest.Test(t, func(t *testing.T) { noWakeUpIsLost(t, seed, linger, maxInFlight, seed%2 == 1) })
					if t.Failed() {
						t.Fatalf("seed %d", seed)
					}
				}
			})
		}
	}
}

func noWakeUpIsLost(t *testing.T, seed uint64, linger time.Duration, maxInFlight int, drops bool) {
	l := newLoop(t, seed, linger, withBatch(8*kib), withPool(256<<20), func(c *Config) { c.StickyThreshold = 4 * kib })
	l.maxInFlight, l.drops = maxInFlight, drops
	l.latency = func() time.Duration { return time.Duration(l.rng.IntN(3)) * ms / 2 }
	l.r.lead(orders, 1, 1, 2, 3, 3, 3)
	var moved atomic.Int64 // when a leader moved last
	batches := 0
	l.onDrain = func(b *ProducerBatch, now, able time.Time) {
		batches++
		if able.IsZero() {
			return // its node is at something else: so much was ready that it was worth another request
		}
		due := b.Created().Add(linger)
		later := func(at time.Time) {
			if at.After(due) {
				due = at
			}
		}
		later(time.Unix(0, moved.Load()))
		if c := l.connection(b.d.node.id); drops {
			begun := due
			if c.dropped.After(begun) {
				begun = c.dropped
			}
			if c.began.After(begun) {
				t.Errorf("seed %d: a batch of %v was due at %v, and its node was connected to %v later",
					seed, b.TopicPartition(), begun.UnixNano(), c.began.Sub(begun))
			}
		}
		later(able)
		if now.After(due) {
			t.Errorf("seed %d: a batch of %v, opened at %v, was due at %v and sent %v later",
				seed, b.TopicPartition(), b.Created().UnixNano(), due.UnixNano(), now.Sub(due))
		}
	}
	l.start()
	var wg sync.WaitGroup
	for g := range uint64(3) {
		rng := rand.New(rand.NewPCG(seed, g))
		wg.Go(func() {
			for range 60 {
				rec := Record{Partition: int32(rng.IntN(7)) - 1, Timestamp: -1, Value: make([]byte, []int{0, 100, 3000, 9000, 70_000}[rng.IntN(5)])}
				_, _, err := l.r.a.Append(t.Context(), l.r.a.Topic(orders), l.snap.Load().Topic(orders), &rec, nil, false, time.Hour)
				assert.NoError(t, err)
				switch rng.IntN(10) {
				case 0, 1, 2:
					time.Sleep(time.Duration(rng.IntN(8)) * ms / 2)
				case 3:
					time.Sleep(20 * ms)
				}
			}
		})
	}
	wg.Go(func() {
		rng := rand.New(rand.NewPCG(seed, 77))
		for epoch := range int32(4) {
			time.Sleep(time.Duration(rng.IntN(60)) * ms)
			l.r.move(orders, int32(rng.IntN(6)), int32(rng.IntN(6)-1), epoch+2)
			moved.Store(time.Now().UnixNano())
			l.moved()
		}
	})
	wg.Wait()
	for p := range int32(6) { // those that have no leader get one
		l.r.move(orders, p, 1, 100)
	}
	moved.Store(time.Now().UnixNano())
	l.moved()
	time.Sleep(time.Second)
	assert.False(t, l.r.a.HasIncomplete(), "everything was sent without being asked for")
	l.end()
	require.Greater(t, batches, 20)
	l.r.empty()
}

// Somebody who waits for a record does not wait for linger: it is sent when its node can take it (FC-013 is what flush
// has to do with it), and a batch that is flushed neither.
func TestNobodyWaitsForLinger(t *testing.T) {
	for seed := range *seeds {
		synctest.Test(t, func(t *testing.T) {
			const linger = time.Minute
			l := newLoop(t, seed, linger, withBatch(8*kib))
			l.maxInFlight = 2
			l.r.lead(orders, 1, 1, 2)
			l.start()
			var wg sync.WaitGroup
			for g := range uint64(4) {
				rng := rand.New(rand.NewPCG(seed, g))
				wg.Go(func() {
					for range 30 {
						h, err := l.r.try(orders, Record{Partition: int32(rng.IntN(3)), Timestamp: -1, Value: make([]byte, rng.IntN(6000))}, nil, time.Hour)
						assert.NoError(t, err)
						began := time.Now()
						switch rng.IntN(4) {
						case 0:
							_, err = h.Wait(t.Context())
						case 1:
							<-h.Done()
						case 2:
							l.r.a.BeginFlush()
							err = l.r.a.AwaitFlush(t.Context())
							l.r.a.EndFlush()
						default:
							time.Sleep(time.Duration(rng.IntN(3)) * ms / 2)
						}
						assert.NoError(t, err)
						// A node is busy with two requests of 1 ms at most, and there may be three batches before.
						if waited := time.Since(began); waited > 5*ms {
							t.Errorf("seed %d: waited %v", seed, waited)
						}
					}
				})
			}
			wg.Wait()
			l.end()
			l.r.empty()
		})
	}
}

// S-87: a sender with nothing to do sleeps: it does not go round and round because of what others wait for.
func TestSenderDoesNotSpin(t *testing.T) {
	for _, linger := range []time.Duration{0, 5 * ms} {
		synctest.Test(t, func(t *testing.T) {
			l := newLoop(t, 1, linger)
			l.maxInFlight = 1
			l.r.lead(orders, 1, 2, -1)
			l.latency = func() time.Duration { return time.Second }
			l.start()
			for p := range int32(3) {
				for range 5 {
					_ = l.r.put(p, 5*kib)
				}
			}
			time.Sleep(900 * ms) // both nodes are at a request, the third partition has no leader
			l.r.put(0, 5*kib).Done()
			time.Sleep(50 * ms)
			looks := make(chan int)
			l.events <- func(time.Time) { looks <- l.looks }
			allowed := 30
			if linger > 0 {
				allowed += int(950 * ms / linger) // it wakes in time for batches that are opened meanwhile
			}
			assert.Less(t, <-looks, allowed)
			l.r.move(orders, 2, 1, 2)
			l.moved()
			l.end()
			l.r.empty()
		})
	}
}
