package partitioner

import (
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// sequence is a random source that counts: 0, 1, 2, ... mod n.
func sequence() func(n int) int {
	next := 0
	return func(n int) int {
		next++
		return (next - 1) % n
	}
}

func batch(s *Sticky, p Partitions, records, bytes int, open bool) (partitions []int32) {
	for range records {
		c := s.Peek(p)
		partitions = append(partitions, c.Partition)
		s.Advance(c, bytes, open, p)
	}
	return partitions
}

// BIP-01: the choice holds for the threshold; a topic of one partition stays with it.
func TestStickyHoldsForThreshold(t *testing.T) {
	s := NewSticky(StickyConfig{Threshold: 3, Rand: sequence()})
	assert.Equal(t, []int32{0, 0, 0, 1, 1, 1, 2, 2, 2, 0, 0, 0}, batch(s, all(3), 12, 1, false))
	s = NewSticky(StickyConfig{Threshold: 3, Rand: sequence()})
	assert.Equal(t, []int32{0, 0, 0, 0, 0, 0, 0}, batch(s, all(1), 7, 1, false))
}

// The pointer is the token, also when the choice falls on the same partition again.
func TestStickyChoiceIsAToken(t *testing.T) {
	s := NewSticky(StickyConfig{Threshold: 10, Rand: sequence()})
	p := all(1)
	c := s.Peek(p)
	assert.Same(t, c, s.Peek(p))
	assert.False(t, s.Changed(c))
	s.Advance(c, 9, false, p)
	assert.False(t, s.Changed(c))
	s.Advance(c, 1, false, p)
	assert.True(t, s.Changed(c))
	assert.NotSame(t, c, s.Peek(p))
	s.Advance(c, 100, false, p) // a stale choice moves nothing
	s.SwitchFrom(c, p)
	assert.False(t, s.Changed(s.Peek(p)))
	assert.Zero(t, s.Peek(p).bytes)
}

// KIP-794, ACC-24: no switch while a batch of the partition is half full, a switch as soon as none is, and in any
// case at twice the threshold.
func TestStickyWaitsForHalfFullBatch(t *testing.T) {
	p := all(3)
	rnd := sequence()
	rnd(1) // the first partition is 1
	s := NewSticky(StickyConfig{Threshold: 100, Rand: rnd})

	c := s.Peek(p)
	assert.Equal(t, int32(1), c.Partition)
	s.Advance(c, 99, false, p)
	assert.False(t, s.Changed(c), "below the threshold")
	s.Advance(c, 1, true, p)
	assert.False(t, s.Changed(c), "half full")
	s.Advance(c, 50, true, p)
	assert.False(t, s.Changed(c), "half full")
	s.Advance(c, 0, false, p)
	assert.True(t, s.Changed(c), "the batch is full now")

	c = s.Peek(p)
	assert.Equal(t, int32(2), c.Partition)
	s.Advance(c, 199, true, p)
	assert.False(t, s.Changed(c))
	s.Advance(c, 1, true, p)
	assert.True(t, s.Changed(c), "twice the threshold")

	c = s.Peek(p)
	assert.Equal(t, int32(0), c.Partition)
	s.Advance(c, 5000, true, p)
	c = s.Peek(p)
	assert.Equal(t, int32(1), c.Partition)
}

// BIP-04: a threshold that is not positive is refused.
func TestStickyThresholdMustBePositive(t *testing.T) {
	for _, n := range []int{0, -1} {
		assert.Panics(t, func() { NewSticky(StickyConfig{Threshold: n}) })
	}
	assert.NotPanics(t, func() { NewSticky(StickyConfig{Threshold: 1}).Peek(all(2)) })
}

// BIP-02, S-35, S-36, FC-057: partitions without a leader are not chosen while another has one; if none has, any.
func TestStickyPrefersAvailable(t *testing.T) {
	s := NewSticky(StickyConfig{Threshold: 1, Rand: rand.IntN})
	seen := map[int32]int{}
	for _, n := range batch(s, topic{6, []int32{1, 4}}, 200, 1, false)[1:] {
		seen[n]++
	}
	assert.Len(t, seen, 2)
	assert.NotZero(t, seen[1])
	assert.NotZero(t, seen[4])

	batch(s, topic{6, []int32{3}}, 1, 1, false)
	assert.Equal(t, []int32{3, 3, 3}, batch(s, topic{6, []int32{3}}, 3, 1, false))

	seen = map[int32]int{}
	for _, n := range batch(s, topic{3, nil}, 200, 1, false)[1:] {
		seen[n]++
	}
	assert.Len(t, seen, 3)
}

// FC-057: a partition that lost its leader is left at once, and for another one.
func TestStickySwitchFrom(t *testing.T) {
	for name, p := range map[string]Partitions{
		"available":       topic{6, []int32{2, 4, 5}},
		"none available":  topic{n: 3},
		"local":           racked{all(6), []int32{0, 3}},
		"none of the old": topic{6, []int32{1}},
	} {
		s := NewSticky(StickyConfig{Threshold: 1 << 20, Rand: rand.IntN})
		c := s.Peek(all(6))
		for range 50 {
			old := c
			s.SwitchFrom(c, p)
			require.True(t, s.Changed(old), name)
			c = s.Peek(all(6))
			if old.Partition != 1 || name != "none of the old" {
				require.NotEqual(t, old.Partition, c.Partition, name)
			}
			s.SwitchFrom(old, p) // too late
			require.Same(t, c, s.Peek(all(6)), name)
		}
	}

	s := NewSticky(StickyConfig{Threshold: 1, Adaptive: true, Rand: rand.IntN})
	s.SetLoad(NewLoad([]int32{1, 2}, []int{50, 0}, 3))
	c := s.Peek(all(3))
	for range 50 {
		s.SwitchFrom(c, all(3))
		require.NotEqual(t, c.Partition, s.Peek(all(3)).Partition)
		c = s.Peek(all(3))
		require.Contains(t, []int32{1, 2}, c.Partition, "what the load leaves out stays out")
	}
}

// FC-057: the current partition is left when it has no leader and another has, not else.
func TestFC057StickyRecheck(t *testing.T) {
	s := NewSticky(StickyConfig{Threshold: 1 << 20, Rand: rand.IntN})
	s.Recheck(all(6))
	c := s.Peek(all(6))
	for _, p := range []Partitions{all(6), topic{6, []int32{c.Partition}}, topic{n: 6}} {
		s.Recheck(p)
		assert.False(t, s.Changed(c))
	}
	other := (c.Partition + 1) % 6
	s.Recheck(topic{6, []int32{other}})
	assert.Equal(t, other, s.Peek(all(6)).Partition)
}

// A topic that was deleted and created again may have fewer partitions than the choice or the load knows.
func TestStickyPartitionsTakenAway(t *testing.T) {
	s := NewSticky(StickyConfig{Threshold: 1, Adaptive: true, Rand: sequence()})
	s.SetLoad(NewLoad([]int32{7, 8}, []int{0, 1}, 9))
	c := s.Peek(all(9))
	assert.Equal(t, int32(7), c.Partition)
	for range 10 {
		c = s.Peek(all(2))
		assert.Less(t, c.Partition, int32(2))
		s.Advance(c, 1, false, all(2))
	}
}

func frequencies(s *Sticky, p Partitions, draws, n int) []int {
	counts := make([]int, n)
	for range draws {
		c := s.Peek(p)
		counts[c.Partition]++
		s.Advance(c, 1, false, p)
	}
	return counts
}

// BIP-03, ACC-25: the frequencies over one cycle are the weights, longest queue + 1 - own queue.
func TestStickyFollowsLoad(t *testing.T) {
	for _, tt := range []struct {
		name       string
		partitions []int32
		queues     []int
		count      int
		cycle      int
		want       []int
	}{
		{"BIP-03", []int32{0, 1, 2, 3, 4}, []int{5, 0, 3, 0, 1}, 5, 21, []int{1, 6, 3, 6, 5}},
		{"ACC-25", []int32{0, 1, 2}, []int{1, 7, 2}, 3, 14, []int{7, 1, 6}},
		{"one left out", []int32{0, 2}, []int{4, 4}, 3, 2, []int{1, 0, 1}},
		{"only one left", []int32{2}, []int{9}, 3, 5, []int{0, 0, 5}},
		{"any order", []int32{4, 1}, []int{0, 2}, 5, 4, []int{0, 1, 0, 0, 3}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			s := NewSticky(StickyConfig{Threshold: 1, Adaptive: true, Rand: sequence()})
			l := NewLoad(tt.partitions, tt.queues, tt.count)
			require.NotNil(t, l)
			clear(tt.partitions) // they were copied
			clear(tt.queues)
			s.SetLoad(l)
			assert.Equal(t, tt.want, frequencies(s, all(tt.count), tt.cycle, tt.count))
			var twice []int
			for _, n := range tt.want {
				twice = append(twice, 2*n)
			}
			assert.Equal(t, twice, frequencies(s, all(tt.count), 2*tt.cycle, tt.count))

			s.SetLoad(nil)
			s.Advance(s.Peek(all(tt.count)), 1, false, all(tt.count))
			for _, n := range frequencies(s, all(tt.count), 100*tt.count, tt.count) {
				assert.InDelta(t, 100, n, 1, "uniform again")
			}
		})
	}
}

// KIP-794: when weights would change nothing there is no Load.
func TestLoadThatChangesNothing(t *testing.T) {
	assert.Nil(t, NewLoad(nil, nil, 3), "everything left out: uniform over what is available")
	assert.Nil(t, NewLoad([]int32{0}, []int{3}, 1), "one partition")
	assert.Nil(t, NewLoad([]int32{0, 1, 2}, []int{3, 3, 3}, 3), "equal")
	assert.NotNil(t, NewLoad([]int32{0, 1}, []int{3, 3}, 3), "equal, but one left out")
	assert.NotNil(t, NewLoad([]int32{0, 1, 2}, []int{3, 3, 4}, 3))
}

// FC-053: without adaptive partitioning a load counts for nothing.
func TestStickyNotAdaptive(t *testing.T) {
	s := NewSticky(StickyConfig{Threshold: 1, Rand: sequence()})
	s.SetLoad(NewLoad([]int32{0, 1}, []int{0, 99}, 3))
	s.SetLocalLoad(NewLoad([]int32{0, 1}, []int{0, 99}, 3))
	assert.Equal(t, []int{10, 10, 10}, frequencies(s, all(3), 30, 3))
}

// FC-053: with random choice the bytes are shared evenly; with one queue that stands, its partition gets less.
func TestStickyShares(t *testing.T) {
	rnd := rand.New(rand.NewPCG(7, 7))
	s := NewSticky(StickyConfig{Threshold: 1, Adaptive: true, Rand: rnd.IntN})
	for i, n := range frequencies(s, all(3), 30_000, 3) {
		assert.InDelta(t, 10_000, n, 500, "partition %d", i)
	}
	s.SetLoad(NewLoad([]int32{0, 1, 2}, []int{0, 0, 9}, 3))
	got := frequencies(s, all(3), 21_000, 3)
	assert.InDelta(t, 10_000, got[0], 500)
	assert.InDelta(t, 10_000, got[1], 500)
	assert.InDelta(t, 1_000, got[2], 150)
	s.SetLoad(NewLoad([]int32{0, 1}, []int{0, 0}, 3)) // beyond the availability time-out
	s.Advance(s.Peek(all(3)), 1, false, all(3))
	got = frequencies(s, all(3), 1000, 3)
	assert.Zero(t, got[2])
}

type racked struct {
	topic
	local []int32
}

func (r racked) Local() []int32 { return r.local }

// BIP-05: only leaders in the own rack while there is one; all when there is none; back when they return.
func TestStickyPrefersLocal(t *testing.T) {
	s := NewSticky(StickyConfig{Threshold: 1, Rand: sequence()})
	p := racked{all(4), []int32{1, 3}}
	s.Advance(s.Peek(p), 1, false, p)
	assert.Equal(t, []int{0, 10, 0, 10}, frequencies(s, p, 20, 4))
	p.local = nil
	s.Advance(s.Peek(p), 1, false, p)
	assert.Equal(t, []int{5, 5, 5, 5}, frequencies(s, p, 20, 4))
	p.local = []int32{2}
	s.Advance(s.Peek(p), 1, false, p)
	assert.Equal(t, []int{0, 0, 20, 0}, frequencies(s, p, 20, 4))
}

// BIP-06: the weights among local partitions count their own longest queue; the fallback uses all.
func TestStickyLocalLoad(t *testing.T) {
	s := NewSticky(StickyConfig{Threshold: 1, Adaptive: true, Rand: sequence()})
	s.SetLoad(NewLoad([]int32{0, 1, 2, 3}, []int{9, 1, 0, 3}, 4))
	s.SetLocalLoad(NewLoad([]int32{1, 3}, []int{1, 3}, 4))
	p := racked{all(4), []int32{1, 3}}
	s.Advance(s.Peek(p), 1, false, p)
	assert.Equal(t, []int{0, 30, 0, 10}, frequencies(s, p, 40, 4))
	p.local = nil
	s.Advance(s.Peek(p), 1, false, p)
	assert.Equal(t, []int{1, 9, 10, 7}, frequencies(s, p, 27, 4))
}

// The protocol of Peek, Changed and Advance under many goroutines: bytes are counted under the partition's lock,
// no choice gets more than its due, and nobody counts for a choice that is over. (-race guards Choice.bytes.)
func TestStickyFromManyGoroutines(t *testing.T) {
	const partitions, threshold = 5, 50
	p := all(partitions)
	s := NewSticky(StickyConfig{Threshold: threshold, Adaptive: true, Rand: rand.IntN})
	var locks [partitions]sync.Mutex
	var total atomic.Int64
	var wg sync.WaitGroup
	for g := range 8 {
		wg.Go(func() {
			for i := range 5000 {
				if i%500 == g {
					s.SetLoad(NewLoad([]int32{0, 1, 2}, []int{i % 7, 2, 3}, partitions))
					s.SwitchFrom(s.Peek(p), p)
				}
				for {
					c := s.Peek(p)
					mu := &locks[c.Partition]
					mu.Lock()
					if s.Changed(c) {
						mu.Unlock()
						continue
					}
					if c.bytes >= threshold {
						// Possible only if SwitchFrom came between: Advance never leaves a choice that is due.
						if !s.Changed(c) {
							t.Errorf("current choice has %d bytes", c.bytes)
						}
					}
					s.Advance(c, 1, false, p)
					total.Add(1)
					mu.Unlock()
					break
				}
			}
		})
	}
	wg.Wait()
	assert.Equal(t, int64(8*5000), total.Load())
}

func TestAllocationCeilings(t *testing.T) {
	var p Partitions = all(12)
	s := NewSticky(StickyConfig{Threshold: 1 << 30, Rand: rand.IntN})
	s.Peek(p)
	var r RoundRobin
	key := []byte("some key")
	r.Partition("topic", key, nil, p)
	var d Partitioner = Default{}
	for name, f := range map[string]func(){
		"sticky": func() {
			c := s.Peek(p)
			if !s.Changed(c) {
				s.Advance(c, 100, true, p)
			}
		},
		"round robin": func() { r.Partition("topic", key, nil, p) },
		"default":     func() { d.Partition("topic", key, nil, p) },
	} {
		assert.Zero(t, testing.AllocsPerRun(100, f), name)
	}
	s = NewSticky(StickyConfig{Threshold: 1, Rand: rand.IntN})
	for range 2 * maxChoices {
		s.Advance(s.Peek(p), 1, false, p)
	}
	assert.LessOrEqual(t, testing.AllocsPerRun(10*maxChoices, func() { s.Advance(s.Peek(p), 1, false, p) }), 2.0/maxChoices, "an allocation for many moves")
}

// An adaptive Sticky goes where the least waits, and to all such partitions alike; without being adaptive, where the draw says.
func TestStickyPrefersShortQueues(t *testing.T) {
	var queued []int
	draw := func(adaptive bool, seed uint64) int32 {
		s := NewSticky(StickyConfig{
			Threshold: 1, Adaptive: adaptive, Rand: rand.New(rand.NewPCG(seed, 1)).IntN, Queued: func(p int32) int { return queued[p] },
		})
		return s.Peek(topic{n: 4, available: []int32{0, 1, 2, 3}}).Partition
	}
	for _, tt := range []struct {
		queued []int
		goes   []float64
	}{
		{[]int{0, 0, 0, 0}, []float64{0.25, 0.25, 0.25, 0.25}},
		{[]int{3, 3, 3, 3}, []float64{0.25, 0.25, 0.25, 0.25}},
		{[]int{1, 7, 2, 5}, []float64{1, 0, 0, 0}},
		{[]int{1, 0, 3, 2}, []float64{0, 1, 0, 0}},
		{[]int{9, 1, 1, 1}, []float64{0, 1. / 3, 1. / 3, 1. / 3}},
		{[]int{1, 2, 3, 1}, []float64{0.5, 0, 0, 0.5}},
		{[]int{1, 1, 9, 9}, []float64{0.5, 0.5, 0, 0}},
	} {
		queued = tt.queued
		for _, adaptive := range []bool{true, false} {
			var goes, want [4]float64
			for seed := range uint64(20_000) {
				goes[draw(adaptive, seed)] += 1. / 20_000
			}
			copy(want[:], tt.goes)
			if !adaptive {
				want = [4]float64{0.25, 0.25, 0.25, 0.25}
			}
			for p := range want {
				assert.InDelta(t, want[p], goes[p], 0.012, "%v, adaptive %v: partition %d", tt.queued, adaptive, p)
			}
		}
	}
}

// Of many partitions some are looked at, any of them: those next to a block of long queues get no more than others.
func TestStickyLooksAnywhere(t *testing.T) {
	const n, long, draws = 100, 80, 40_000
	var all []int32
	for p := range int32(n) {
		all = append(all, p)
	}
	s := NewSticky(StickyConfig{Threshold: 1, Adaptive: true, Rand: rand.New(rand.NewPCG(1, 1)).IntN, Queued: func(p int32) int {
		if p < long {
			return 5
		}
		return 0
	}})
	goes := make([]int, n)
	partitions := topic{n: n, available: all}
	for range draws {
		s.Advance(s.Peek(partitions), 2, false, partitions)
		goes[s.Peek(partitions).Partition]++
	}
	for p := long; p < n; p++ {
		assert.InDelta(t, draws/(n-long), goes[p], draws/(n-long)/5, "partition %d", p)
	}
}
