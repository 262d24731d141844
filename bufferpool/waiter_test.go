package bufferpool

import (
	"context"
	"errors"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

type result struct {
	slabs [][]byte
	err   error
	took  time.Duration
}

// allocate runs Allocate in a goroutine of its own, which must have begun to wait or ended when it returns:
// callers queue in the order of their calls.
func allocate(ctx context.Context, p *BufferPool, n int, maxWait time.Duration) <-chan result {
	c := make(chan result, 1)
	go func() {
		start := time.Now()
		slabs, err := p.Allocate(ctx, nil, n, false, maxWait)
		c <- result{slabs, err, time.Since(start)}
	}()
	synctest.Wait()
	return c
}

func done(c <-chan result) bool {
	synctest.Wait()
	return len(c) == 1
}

// BP-03, S-58, S-72: without memory the caller waits, is seen to wait, and a release wakes it.
func TestReleaseWakesWaiter(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var waits int
		var waited time.Duration
		var p *BufferPool
		p = newPool(t, Config{
			Total: 32 * kib,
			OnWait: func() {
				waits++
				assert.Equal(t, 1, p.Waiting(), "the sender, woken by this, must see who waits")
				p.Available() // no lock is held
			},
			OnWaited: func(d time.Duration) { waited += d },
		})
		held := mustTake(t, p, 32*kib, false)
		c := allocate(t.Context(), p, 100, time.Minute)
		assert.False(t, done(c))
		assert.Equal(t, 1, p.Waiting())
		time.Sleep(time.Second)
		p.Release(held[:1])
		r := <-c
		require.NoError(t, r.err)
		assert.Equal(t, []int{SlabSize}, caps(r.slabs))
		assert.Equal(t, time.Second, waited)
		assert.Equal(t, 1, waits)
		assert.Zero(t, p.Waiting())
		p.Release(held[1:])
		p.Release(r.slabs)
	})
}

// BP-04, BP-05, S-69: what comes back is kept for the waiter; when it is not enough in time the error says
// so after exactly that time, and all of it is free again.
func TestPartialReleasesAccumulate(t *testing.T) {
	for _, tt := range []struct {
		maxWait time.Duration
		ok      bool
	}{{10 * time.Second, true}, {2500 * time.Millisecond, false}} {
		synctest.Test(t, func(t *testing.T) {
			exhausted := 0
			p := newPool(t, Config{Total: 64 * kib, OnExhausted: func() { exhausted++ }})
			held := mustTake(t, p, 64*kib, false)
			c := allocate(t.Context(), p, 40*kib, tt.maxWait)
			for range 2 {
				time.Sleep(time.Second)
				p.Release(held[:1])
				held = held[1:]
				assert.False(t, done(c))
				_, ok := p.TryAllocate(nil, 1, true)
				assert.False(t, ok, "nobody may take what is kept for the first in line")
			}
			assert.Equal(t, int64(32*kib), p.Available())
			time.Sleep(time.Second)
			if tt.ok {
				p.Release(held[:1])
				held = held[1:]
			}
			r := <-c
			if tt.ok {
				require.NoError(t, r.err)
				assert.Equal(t, 3*time.Second, r.took)
				assert.Equal(t, 48*kib, sum(r.slabs))
				assert.Zero(t, exhausted)
				p.Release(r.slabs)
			} else {
				assert.ErrorIs(t, r.err, ErrExhausted)
				assert.ErrorContains(t, r.err, "40960 bytes within 2.5s (32768 of 65536 bytes free, 0 others wait)")
				assert.Equal(t, tt.maxWait, r.took)
				assert.Empty(t, r.slabs)
				assert.Equal(t, 1, exhausted)
				assert.Equal(t, int64(32*kib), p.Available())
			}
			p.Release(held)
		})
	}
}

// BP-13: first come, first served, small requests behind large ones included.
func TestWaitersAreServedInOrder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newPool(t, Config{Total: 64 * kib})
		held := mustTake(t, p, 64*kib, false)
		sizes := []int{48 * kib, 100, 20 * kib, 64 * kib, 1}
		var order []<-chan result
		for i, n := range sizes {
			order = append(order, allocate(t.Context(), p, n, time.Hour))
			assert.Equal(t, i+1, p.Waiting())
		}
		for served := range sizes {
			// The memory comes back slab by slab. Nobody is served out of turn.
			for !done(order[served]) {
				require.NotEmpty(t, held, "everything came back and number %d still waits", served)
				p.Release(held[:1])
				held = held[1:]
				for later := served + 1; later < len(sizes); later++ {
					if done(order[later]) {
						require.True(t, done(order[later-1]), "number %d before number %d", later, later-1)
					}
				}
			}
			r := <-order[served]
			require.NoError(t, r.err)
			assert.GreaterOrEqual(t, sum(r.slabs), sizes[served])
			held = append(held, r.slabs...)
		}
		p.Release(held)
	})
}

// BP-06, EXT-05: who gives up leaves the queue wherever it stands there, and the next is served at once with what
// was kept for it.
func TestGivingUpLeavesTheQueue(t *testing.T) {
	for _, tt := range []struct {
		name  string
		leave func(cancel context.CancelFunc)
		want  error
	}{
		{"time", func(context.CancelFunc) { time.Sleep(time.Minute) }, ErrExhausted},
		{"context", func(cancel context.CancelFunc) { cancel() }, context.Canceled},
	} {
		for at := range 3 {
			t.Run(tt.name, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					p := newPool(t, Config{Total: 64 * kib})
					held := mustTake(t, p, 64*kib, false)
					var waiters []<-chan result
					ctx, cancel := context.WithCancel(t.Context())
					for i := range 3 {
						if i == at { // wants more than will come back
							waiters = append(waiters, allocate(ctx, p, 64*kib, time.Minute))
						} else {
							waiters = append(waiters, allocate(t.Context(), p, SlabSize, time.Hour))
						}
					}
					p.Release(held[:2])
					held = held[2:]
					tt.leave(cancel)
					r := <-waiters[at]
					assert.ErrorIs(t, r.err, tt.want)
					assert.Empty(t, r.slabs)
					synctest.Wait()
					assert.Zero(t, p.Waiting())
					for i, c := range waiters {
						if i != at {
							r := <-c
							require.NoError(t, r.err)
							held = append(held, r.slabs...)
						}
					}
					p.Release(held)
				})
			})
		}
	}
}

// EXT-05: the context's deadline and cause; and a context that has ended does not matter while memory is free.
func TestContextBoundsTheWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newPool(t, Config{Total: SlabSize})
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		held, err := p.Allocate(ctx, nil, 1, false, time.Hour)
		require.NoError(t, err)
		start := time.Now()
		_, err = p.Allocate(ctx, nil, 1, false, time.Hour)
		assert.ErrorIs(t, err, context.DeadlineExceeded)
		assert.EqualError(t, err, "waiting for buffer memory: context deadline exceeded")
		assert.Equal(t, time.Second, time.Since(start))
		_, err = p.Allocate(ctx, nil, 1, false, time.Hour)
		assert.ErrorIs(t, err, context.DeadlineExceeded)
		p.Release(held)
		held, err = p.Allocate(ctx, nil, 1, false, 0)
		require.NoError(t, err)
		p.Release(held)
	})
}

// A grant and the end of the waiter's patience in the same instant: one of them counts, and no byte is lost.
func TestGrantMeetsTimeout(t *testing.T) {
	var granted, timedOut int
	for range 300 {
		synctest.Test(t, func(t *testing.T) {
			p := newPool(t, Config{Total: SlabSize})
			held := mustTake(t, p, 1, false)
			c := allocate(t.Context(), p, 1, time.Second)
			go func() {
				time.Sleep(time.Second)
				p.Release(held)
			}()
			if r := <-c; r.err == nil {
				granted++
				p.Release(r.slabs)
			} else {
				require.ErrorIs(t, r.err, ErrExhausted)
				timedOut++
			}
			synctest.Wait()
			// The waiter is used again: a leftover signal would serve nobody.
			held = mustTake(t, p, 1, false)
			c = allocate(t.Context(), p, 1, time.Minute)
			require.False(t, done(c))
			p.Release(held)
			r := <-c
			require.NoError(t, r.err)
			p.Release(r.slabs)
		})
	}
	t.Logf("granted %d, timed out %d", granted, timedOut)
}

// BP-11: Close wakes all who wait.
func TestCloseWakesWaiters(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newPool(t, Config{Total: 64 * kib})
		held := mustTake(t, p, 64*kib, false)
		var waiters []<-chan result
		for range 5 {
			waiters = append(waiters, allocate(t.Context(), p, 1, time.Hour))
		}
		p.Close()
		for _, c := range waiters {
			r := <-c
			assert.ErrorIs(t, r.err, ErrClosed)
			assert.Empty(t, r.slabs)
			assert.Zero(t, r.took)
		}
		p.Release(held)
	})
}

// BP-07: a hook that panics leaves the queue and the accounts as they should be.
func TestPanickingHooks(t *testing.T) {
	boom := errors.New("boom")
	synctest.Test(t, func(t *testing.T) {
		var p *BufferPool
		var held [][]byte
		panics := false
		p = newPool(t, Config{Total: 64 * kib, OnWait: func() {
			if panics {
				panic(boom)
			}
		}})
		held = mustTake(t, p, 64*kib, false)
		panics = true
		assert.PanicsWithValue(t, boom, func() { _, _ = p.Allocate(t.Context(), nil, 1, false, time.Hour) })
		assert.Zero(t, p.Waiting())
		panics = false
		c := allocate(t.Context(), p, 1, time.Hour)
		p.Release(held)
		p.Release((<-c).slabs)
	})
	t.Run("granted meanwhile", func(t *testing.T) {
		var p *BufferPool
		var held [][]byte
		p = newPool(t, Config{Total: 64 * kib, OnWait: func() { p.Release(held); panic(boom) }})
		held = mustTake(t, p, 64*kib, false)
		assert.PanicsWithValue(t, boom, func() { _, _ = p.Allocate(t.Context(), nil, 1, false, time.Hour) })
	})
	t.Run("closed meanwhile", func(t *testing.T) {
		var p *BufferPool
		p = newPool(t, Config{Total: 64 * kib, OnWait: func() { p.Close(); panic(boom) }})
		held := mustTake(t, p, 64*kib, false)
		assert.PanicsWithValue(t, boom, func() { _, _ = p.Allocate(t.Context(), nil, 1, false, time.Hour) })
		p.Release(held)
	})
	t.Run("after the wait", func(t *testing.T) {
		var p *BufferPool
		var held [][]byte
		p = newPool(t, Config{Total: 64 * kib,
			OnWait:   func() { p.Release(held) },
			OnWaited: func(time.Duration) { panic(boom) }})
		held = mustTake(t, p, 64*kib, false)
		assert.PanicsWithValue(t, boom, func() { _, _ = p.Allocate(t.Context(), nil, 1, false, time.Hour) })
	})
	t.Run("on exhaustion", func(t *testing.T) {
		p := newPool(t, Config{Total: 64 * kib, OnExhausted: func() { panic(boom) }})
		held := mustTake(t, p, 64*kib, false)
		assert.PanicsWithValue(t, boom, func() { _, _ = p.Allocate(t.Context(), nil, 1, false, 0) })
		p.Release(held)
	})
}

// A large record gets all its slabs in one grant. If two of them each took what is free they would hold half of
// what the other needs, for ever.
func TestLargeRequestsDoNotLock(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newPool(t, Config{Total: 64 * kib})
		held := mustTake(t, p, 64*kib, false)
		a := allocate(t.Context(), p, 40*kib, time.Hour)
		b := allocate(t.Context(), p, 40*kib, time.Hour)
		for _, s := range held {
			p.Release([][]byte{s})
		}
		assert.True(t, done(a))
		assert.False(t, done(b))
		p.Release((<-a).slabs)
		p.Release((<-b).slabs)
	})
}

// BP-08, BP-13, S-59, S-61, FC-033: many goroutines that allocate in every way, use the memory alone, give up and
// release, used or not, never hold more than the total, and leave a whole pool.
func TestManyGoroutines(t *testing.T) {
	const total = 300*kib + 77
	var exhausted, held, most atomic.Int64
	p := newPool(t, Config{Total: total, OnWait: func() {}, OnExhausted: func() { exhausted.Add(1) }})
	var failed atomic.Int64
	var wg sync.WaitGroup
	for g := range 24 {
		wg.Go(func() {
			rnd := rand.New(rand.NewPCG(1, uint64(g)))
			var chain [][]byte
			for range 400 {
				n := 1 + rnd.IntN(3*kib)
				if rnd.IntN(4) == 0 {
					n = 1 + rnd.IntN(total)
				}
				small := rnd.IntN(2) == 0
				ctx, cancel := context.Background(), context.CancelFunc(func() {})
				var ok bool
				var err error
				switch rnd.IntN(4) {
				case 0:
					chain, ok = p.TryAllocate(chain[:0], n, small)
				case 1:
					ctx, cancel = context.WithTimeout(ctx, time.Duration(rnd.IntN(200))*time.Microsecond)
					fallthrough
				default:
					chain, err = p.Allocate(ctx, chain[:0], n, small, time.Duration(rnd.IntN(2000))*time.Microsecond)
					if ok = err == nil; !ok {
						failed.Add(1)
					}
				}
				cancel()
				if !ok {
					if len(chain) != 0 {
						t.Errorf("a refused request got %d slabs", len(chain))
					}
					continue
				}
				got := sum(chain)
				if got < n {
					t.Errorf("%d bytes for a request of %d", got, n)
				}
				now := held.Add(int64(got))
				for m := most.Load(); now > m && !most.CompareAndSwap(m, now); m = most.Load() {
				}
				for i := range chain { // -race reports a slab with two owners
					s := chain[i][:cap(chain[i])]
					s[0], s[len(s)-1] = byte(g), byte(g)
				}
				for i := range chain {
					s := chain[i][:cap(chain[i])]
					if s[0] != byte(g) || s[len(s)-1] != byte(g) {
						t.Error("somebody else wrote into a slab")
					}
				}
				held.Add(-int64(got))
				for len(chain) > 0 { // in pieces, from both ends
					k := 1 + rnd.IntN(len(chain))
					p.Release(chain[len(chain)-k:])
					chain = chain[:len(chain)-k]
				}
			}
		})
	}
	wg.Wait()
	assert.LessOrEqual(t, most.Load(), int64(total))
	assert.LessOrEqual(t, exhausted.Load(), failed.Load())
	t.Logf("most held %d of %d, failed %d, exhausted %d", most.Load(), total, failed.Load(), exhausted.Load())
	assert.Zero(t, p.lent)
}

// FC-033, FC-037: a pool that is used up for long answers each caller after its own time, keeps no more timers than
// callers waited at once, and works as before when memory comes back.
func TestLongExhaustion(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var exhausted atomic.Int64
		p := newPool(t, Config{Total: 64 * kib, OnExhausted: func() { exhausted.Add(1) }})
		held := mustTake(t, p, 64*kib, false)
		for range 10 {
			var waiters []<-chan result
			for range 32 {
				waiters = append(waiters, allocate(t.Context(), p, kib, 200*time.Millisecond))
			}
			for _, c := range waiters {
				r := <-c
				assert.ErrorIs(t, r.err, ErrExhausted)
				assert.Equal(t, 200*time.Millisecond, r.took)
			}
		}
		assert.Equal(t, int64(320), exhausted.Load())
		idle := 0
		for w := p.idleWaiters; w != nil; w = w.next {
			idle++
		}
		assert.Equal(t, 32, idle, "waiters are used again")
		p.Release(held)
		p.Release(mustTake(t, p, 64*kib, false))
	})
}
