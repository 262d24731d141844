package accumulator

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// noJitter makes back-offs exact: the middle of the range.
func noJitter(c *Config) { c.Rand = func(n int) int { return n / 2 } }

// ACC-08, S-73, PB-07: a batch that was put back is not sent before its back-off is over, counted from then, and it holds
// up its partition; others go on. It is not younger for that.
func TestReenqueuedBatchBacksOff(t *testing.T) {
	r := newRig(t, noJitter)
	r.lead(orders, 1, 1)
	created := r.peek()
	r.put(0, 1)
	r.put(1, 1)
	batches := r.drain(1)
	require.Len(t, batches, 2)
	r.clock.advance(10 * ms)
	r.requeue(batches[0])
	r.put(0, 1)
	r.put(1, 1)
	res := r.ready()
	assert.Equal(t, []int32{1}, res.Nodes)
	assert.Equal(t, r.peek().Add(100*ms), res.Next, "S-74")
	assert.Equal(t, r.peek().Add(100*ms), batches[0].RetryAt())
	assert.Equal(t, []int32{1}, partitionsOf(r.drain(1)))
	r.clock.advance(100*ms - 1)
	assert.Empty(t, r.readyNodes())
	assert.Empty(t, r.drainUpTo(1, 1<<20))
	r.clock.advance(1)
	assert.Equal(t, []int32{1}, r.readyNodes())
	assert.Same(t, batches[0], r.drainOne(1), "before what came later")
	assert.Equal(t, created, batches[0].Created())
	assert.Equal(t, 2, batches[0].Attempts())
	r.drainOne(1)
}

// ACC-09: back-off doubles with each attempt up to its bound, give or take a fifth; the first attempt has none. Attempts take ten
// seconds each here, see TestBackoffOfAYoungTrouble.
func TestBackoffGrows(t *testing.T) {
	for _, tt := range []struct {
		name        string
		jitter      func(n int) int
		base, limit time.Duration
		want        []time.Duration
	}{
		{"middle", func(n int) int { return n / 2 }, 100 * ms, time.Second, []time.Duration{100 * ms, 200 * ms, 400 * ms, 800 * ms, time.Second, time.Second}},
		{"least", func(int) int { return 0 }, 100 * ms, time.Second, []time.Duration{80 * ms, 160 * ms, 320 * ms, 640 * ms, 800 * ms, 800 * ms}},
		{"most", func(n int) int { return n - 1 }, 100 * ms, time.Second, []time.Duration{120 * ms, 240 * ms, 480 * ms, 960 * ms, 800 * ms}}, // at the bound the spread goes below it
		{"bound below base", func(n int) int { return n / 2 }, time.Second, 100 * ms, []time.Duration{100 * ms, 100 * ms}},
		{"none", func(n int) int { return n / 2 }, 0, time.Second, []time.Duration{0, 0, 0}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			r := newRig(t, func(c *Config) {
				c.Rand, c.RetryBackoff, c.RetryBackoffMax, c.DeliveryTimeout = tt.jitter, tt.base, tt.limit, time.Hour
			})
			r.lead(orders, 1)
			r.put(0, 1)
			b := r.drainOne(1)
			for i, want := range tt.want {
				r.clock.advance(10 * time.Second)
				r.requeue(b)
				assert.Equal(t, want, b.RetryAt().Sub(r.peek()), "attempt %d", i+1)
				if want > 0 {
					r.clock.advance(want - 1)
					require.Empty(t, r.readyNodes())
					r.clock.advance(1)
				}
				require.Same(t, b, r.drainOne(1))
			}
		})
	}
	r := newRig(t, func(c *Config) { c.RetryBackoffMax = time.Hour })
	assert.LessOrEqual(t, r.a.backoff.Delay(1_000_000), time.Hour, "no overflow")
	assert.GreaterOrEqual(t, r.a.backoff.Delay(1_000_000), 48*time.Minute)
}

// Recovery, delivery 4: where attempts fail at once the back-off grows to 150 ms, and from there to a tenth of the time since the first
// failure, so that the end of a short trouble is not slept through.
func TestBackoffOfAYoungTrouble(t *testing.T) {
	r := newRig(t, func(c *Config) {
		c.Rand, c.RetryBackoff, c.RetryBackoffMax, c.DeliveryTimeout = func(n int) int { return n / 2 }, 100*ms, time.Second, time.Hour
	})
	r.lead(orders, 1)
	r.put(0, 1)
	b := r.drainOne(1)
	began, last := r.peek(), time.Duration(0)
	for last < time.Second {
		r.requeue(b)
		lasted, wait := r.peek().Sub(began), b.RetryAt().Sub(r.peek())
		require.LessOrEqual(t, wait, max(150*ms, lasted/10))
		require.GreaterOrEqual(t, wait, last, "it never becomes less")
		last = wait
		r.clock.advance(wait)
		require.Same(t, b, r.drainOne(1))
	}
	assert.InDelta(t, 10*time.Second, r.peek().Sub(began), float64(2*time.Second), "ten seconds for a wait of one")
	assert.InDelta(t, 30, b.Attempts(), 3)
}

// ACC-28, ACC-10, PB-10, KIP-951: the first attempt after the partition has a leader of a newer epoch is made at once; if it
// fails too, back-off counts again. An epoch that is the same, older or not known changes nothing, nor does another node alone.
func TestNewLeaderEndsBackoffOnce(t *testing.T) {
	r := newRig(t, noJitter)
	r.lead(orders, 1)
	r.put(0, 1)
	b := r.drainOne(1)
	r.requeue(b)
	assert.Empty(t, r.readyNodes())
	r.move(orders, 0, 2, 1) // another node, but no newer epoch
	assert.Empty(t, r.readyNodes())
	r.move(orders, 0, 2, 2)
	assert.Equal(t, []int32{2}, r.readyNodes())
	assert.Same(t, b, r.drainOne(2))
	assert.Equal(t, 2, b.Attempts())
	r.requeue(b)
	assert.Empty(t, r.readyNodes(), "that was once")
	r.clock.advance(200 * ms)
	assert.Same(t, b, r.drainOne(2))
	r.requeue(b)
	r.move(orders, 0, 2, 3) // the same node with a newer epoch is a new leader too
	assert.Equal(t, []int32{2}, r.readyNodes())
	assert.Same(t, b, r.drainOne(2))

	r.requeue(b)
	r.move(orders, 0, 3, 2) // metadata does not take it back
	assert.Empty(t, r.readyNodes())
	r.clock.advance(time.Second)
	r.drainOne(2)

	// Known only after the attempt: that tells nothing of a change.
	r = newRig(t, noJitter)
	r.lead("unreliable", 1)
	r.move("unreliable", 0, 1, -1)
	r.record("unreliable", Record{Timestamp: -1}, nil)
	r.ready()
	b = r.drainOne(1)
	b.leaderEpoch = -1
	r.requeue(b)
	r.move("unreliable", 0, 2, 7)
	assert.Empty(t, r.readyNodes())
}

// S-60, ACC-19: whatever comes back, a partition's batches stand in the order of their records.
func TestReenqueueKeepsTheOrder(t *testing.T) {
	r := newRig(t, withBatch(1), noJitter)
	r.lead(orders, 1)
	for i := range 5 {
		r.record(orders, Record{Timestamp: int64(i)}, nil)
	}
	var batches []*ProducerBatch
	for range 4 {
		batches = append(batches, r.drainOne(1))
	}
	for _, i := range []int{2, 0, 3, 1} {
		r.requeue(batches[i])
	}
	r.clock.advance(time.Second)
	for i := range 5 {
		h, _ := r.read(r.drainOne(1))
		assert.EqualValues(t, i, h.BaseTimestamp)
	}
}

// A deque does what a slice does that is kept in order.
func TestDequeAgainstASlice(t *testing.T) {
	for seed := range uint64(20) {
		rng := rand.New(rand.NewPCG(seed, 1))
		var d deque
		var want []*ProducerBatch
		var popped []*ProducerBatch
		id := uint64(0)
		for range 500 {
			switch rng.IntN(5) {
			case 0, 1:
				id++
				b := &ProducerBatch{id: id}
				d.pushBack(b)
				want = append(want, b)
			case 2:
				if len(want) > 0 {
					require.Same(t, want[0], d.front())
					b := d.popFront()
					require.Same(t, want[0], b)
					want, popped = want[1:], append(popped, b)
				}
			case 3:
				if len(popped) > 0 {
					k := rng.IntN(len(popped))
					b := popped[k]
					popped = slices.Delete(popped, k, k+1)
					d.insert(b)
					at, _ := slices.BinarySearchFunc(want, b, (*ProducerBatch).Order)
					want = slices.Insert(slices.Clone(want), at, b)
				}
			case 4:
				if len(want) > 0 {
					k := rng.IntN(len(want))
					require.True(t, d.remove(want[k]))
					require.False(t, d.remove(want[k]))
					want = slices.Delete(slices.Clone(want), k, k+1)
				}
			}
			require.Equal(t, len(want), d.len())
			require.True(t, slices.Equal(want, d.q[d.head:]))
			if len(want) > 0 {
				require.Same(t, want[0], d.front())
				require.Same(t, want[len(want)-1], d.tail())
			} else {
				require.Nil(t, d.front())
				require.Nil(t, d.tail())
			}
			for _, b := range d.q[:d.head] {
				require.Nil(t, b, "a batch that has left is held on to")
			}
		}
	}
}

// Order compares by age, and the parts of one batch by their place in it.
func TestOrder(t *testing.T) {
	b := func(id uint64, sub int32) *ProducerBatch { return &ProducerBatch{id: id, sub: sub} }
	assert.Equal(t, 0, b(1, 0).Order(b(1, 0)))
	assert.Equal(t, -1, b(1, 5).Order(b(2, 0)))
	assert.Equal(t, 1, b(2, 0).Order(b(1, 5)))
	assert.Equal(t, -1, b(2, 3).Order(b(2, 4)))
	assert.Equal(t, 1, b(2, 4).Order(b(2, 3)))
}

// The heap of back-offs gives out what is due in order of time, and forgets entries that are dead.
func TestRetryHeap(t *testing.T) {
	for seed := range uint64(20) {
		rng := rand.New(rand.NewPCG(seed, 2))
		var h retryHeap
		deques := make([]*deque, 50)
		ends := map[*deque]time.Time{}
		for i := range deques {
			deques[i] = &deque{}
		}
		for range 300 {
			d := deques[rng.IntN(len(deques))]
			at := t0.Add(time.Duration(rng.IntN(1000)) * ms)
			d.retryGen++
			h.push(retryEntry{at: at, d: d, gen: d.retryGen})
			ends[d] = at
		}
		for now := t0; now.Before(t0.Add(time.Second)); now = now.Add(7 * ms) {
			for {
				var next time.Time
				for _, at := range ends {
					if next.IsZero() || at.Before(next) {
						next = at
					}
				}
				at, ok := h.next()
				require.Equal(t, len(ends) > 0, ok)
				require.Equal(t, next, at)
				d, ok := h.due(now)
				if !ok {
					require.True(t, len(ends) == 0 || next.After(now))
					break
				}
				require.Equal(t, next, ends[d])
				require.False(t, next.After(now))
				delete(ends, d)
			}
		}
	}
}

// dequeList is a queue whose elements can leave it anywhere.
func TestDequeListAgainstASlice(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 3))
	var l, other dequeList
	var want []*deque
	deques := make([]*deque, 20)
	for i := range deques {
		deques[i] = &deque{}
	}
	for range 2000 {
		d := deques[rng.IntN(len(deques))]
		at := slices.Index(want, d)
		switch rng.IntN(4) {
		case 0:
			d.place(&l) // stays where it is if it is there
			if at < 0 {
				want = append(want, d)
			}
		case 1:
			d.place(nil)
		case 2:
			d.place(&other)
		case 3:
			d.place(nil)
			d.lingerEnds = t0.Add(time.Duration(rng.IntN(5)))
			if slices.IsSortedFunc(slices.DeleteFunc(slices.Clone(want), func(o *deque) bool { return o == d }), byLinger) {
				l.pushByLinger(d)
				want = slices.DeleteFunc(want, func(o *deque) bool { return o == d })
				at = len(want)
				for at > 0 && want[at-1].lingerEnds.After(d.lingerEnds) {
					at--
				}
				want = slices.Insert(want, at, d)
				at = -1
			}
		}
		if at >= 0 && d.in != &l {
			want = slices.Delete(want, at, at+1)
		}
		got := []*deque{}
		var prev *deque
		for d := l.head; d != nil; d = d.next {
			require.Same(t, &l, d.in)
			require.True(t, d.prev == prev)
			prev = d
			got = append(got, d)
		}
		require.True(t, l.tail == prev)
		require.Equal(t, len(got), l.n)
		require.True(t, slices.Equal(want, got), fmt.Sprint(len(want), len(got)))
	}
}

func byLinger(a, b *deque) int { return a.lingerEnds.Compare(b.lingerEnds) }

// ahead is an idempotence that wants a certain batch sent first.
type ahead struct{ b *ProducerBatch }

func (g ahead) Next(*ProducerBatch, int32) *ProducerBatch { return g.b }
func (ahead) Stamp(*ProducerBatch)                        {}
func (ahead) Prefetch(any)                                {}

// A batch that was sent ahead of others and comes back has its partition back off for it, whatever stands before it: parts of a split one,
// which were never sent, or a retry whose leader has changed. Unless the leader has changed since, or it has ended.
func TestBackoffOfABatchSentAhead(t *testing.T) {
	for name, front := range map[string]func(r *rig, b *ProducerBatch){
		"parts": func(r *rig, b *ProducerBatch) {
			_, err := r.a.SplitAndReenqueue(b, r.peek())
			require.NoError(t, err)
		},
		"a retry": func(r *rig, b *ProducerBatch) { r.requeue(b); r.clock.advance(time.Second) },
		"a retry for another leader": func(r *rig, b *ProducerBatch) {
			r.requeue(b)
			r.move(orders, 0, 1, 2)
		},
	} {
		for _, end := range []string{"time", "leader", "withdrawn"} {
			t.Run(name+", "+end, func(t *testing.T) {
				r := newRig(t, noJitter, withBatch(1))
				r.lead(orders, 1)
				r.put(0, 10)
				first := r.drainOne(1)
				r.put(0, 10)
				second := r.drainOne(1)
				front(r, first)
				r.requeue(second)
				r.clock.advance(time.Second)
				for range 2 {
					r.ready()
					require.Equal(t, []*ProducerBatch{second}, r.a.Drain(nil, 1, 1<<20, r.peek(), ahead{second}))
					r.requeue(second)
					wait := second.RetryAt().Sub(r.peek())
					require.Positive(t, wait)
					res := r.ready()
					assert.Empty(t, res.Nodes)
					assert.Equal(t, second.RetryAt(), res.Next)
					if end != "time" {
						break
					}
					r.clock.advance(wait - 1)
					assert.Empty(t, r.readyNodes())
					r.clock.advance(1)
					assert.Equal(t, []int32{1}, r.readyNodes())
				}
				switch end {
				case "leader":
					r.move(orders, 0, 2, 3)
					assert.Equal(t, []int32{2}, r.readyNodes())
				case "withdrawn":
					require.True(t, r.a.Withdraw(second, r.peek()))
					assert.Equal(t, []int32{1}, r.readyNodes())
				}
			})
		}
	}
}

// One that will not be sent again as it is has the others wait for their own back-off only.
func TestNoBackoffOfABatchThatHoldsUpNobody(t *testing.T) {
	r := newRig(t, noJitter, withBatch(1))
	r.lead(orders, 1)
	r.put(0, 10)
	first := r.drainOne(1)
	r.put(0, 10)
	second := r.drainOne(1)
	r.requeue(first)
	r.requeue(second)
	r.clock.advance(time.Second)
	r.ready()
	require.Equal(t, []*ProducerBatch{second}, r.a.Drain(nil, 1, 1<<20, r.peek(), ahead{second}))
	second.HoldUpNobody()
	r.requeue(second)
	assert.Positive(t, second.RetryAt().Sub(r.peek()))
	assert.Equal(t, []int32{1}, r.readyNodes())
}
