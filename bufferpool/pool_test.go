package bufferpool

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/kafka-reservoir/producer/internal/invariants"
)

// newPool returns a pool that must be whole again at the end of the test.
func newPool(t *testing.T, cfg Config) *BufferPool {
	t.Helper()
	p := New(cfg)
	t.Cleanup(func() {
		assert.Equal(t, cfg.Total, p.Available(), "memory is missing at the end")
		assert.Zero(t, p.Waiting())
	})
	return p
}

func mustTake(t *testing.T, p *BufferPool, n int, small bool) [][]byte {
	t.Helper()
	slabs, ok := p.TryAllocate(nil, n, small)
	require.True(t, ok, "TryAllocate(%d)", n)
	return slabs
}

func caps(slabs [][]byte) []int {
	var c []int
	for _, s := range slabs {
		c = append(c, cap(s))
	}
	return c
}

func sum(slabs [][]byte) (n int) {
	for _, s := range slabs {
		n += cap(s)
	}
	return n
}

const kib = 1 << 10

// BP-13: requests are rounded up to slabs and met whole. S-06: up to the total, in pools of any size.
func TestShapeOfGrants(t *testing.T) {
	for _, tt := range []struct {
		name  string
		total int64
		n     int
		small bool
		want  []int
	}{
		{"nothing", 64 * kib, 0, false, nil},
		{"negative is nothing", 64 * kib, -5, false, nil},
		{"one byte", 64 * kib, 1, false, []int{SlabSize}},
		{"one slab", 64 * kib, SlabSize, false, []int{SlabSize}},
		{"a byte more", 64 * kib, SlabSize + 1, false, []int{SlabSize, SlabSize}},
		{"small", 64 * kib, 100, true, []int{SmallSlabSize}},
		{"small, full", 64 * kib, SmallSlabSize, true, []int{SmallSlabSize}},
		{"too large for small", 64 * kib, SmallSlabSize + 1, true, []int{SlabSize}},
		{"the whole pool", 64 * kib, 64 * kib, false, []int{SlabSize, SlabSize, SlabSize, SlabSize}},
		{"odd total, whole slabs", 40*kib + 1, 32 * kib, false, []int{SlabSize, SlabSize}},
		{"odd total, rounding to 48 KiB does not fit", 40*kib + 1, 34 * kib, false, []int{SlabSize, SlabSize, SmallSlabSize}},
		{"odd total, last slab of several small ones", 40*kib + 1, 35 * kib, false, []int{SlabSize, SlabSize, 2 * SmallSlabSize}},
		{"odd total, all of it", 40*kib + 1, 40*kib + 1, false, []int{SlabSize, SlabSize, 8*kib + 1}},
		{"pool below a slab", 10000, 100, false, []int{SmallSlabSize}},
		{"pool below a small slab", 1000, 100, true, []int{100}},
		{"pool below a small slab, all of it", 1000, 1000, false, []int{1000}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			p := newPool(t, Config{Total: tt.total})
			for range 2 { // made, then from the free lists
				slabs := mustTake(t, p, tt.n, tt.small)
				assert.Equal(t, tt.want, caps(slabs))
				for _, s := range slabs {
					assert.Empty(t, s)
				}
				assert.Equal(t, tt.total-int64(sum(slabs)), p.Available())
				p.Release(slabs)
			}
		})
	}
}

// BP-01: slabs are used again, odd sizes are not kept, and memory that lies in the free list of one size serves
// requests of the other.
func TestReleasedSlabsAreUsedAgain(t *testing.T) {
	p := newPool(t, Config{Total: 40*kib + 100})
	first := mustTake(t, p, 32*kib, false)
	a, b := &first[0][:1][0], &first[1][:1][0]
	p.Release(first)
	assert.Equal(t, p.Total(), p.Available())

	second := mustTake(t, p, 20*kib, false)
	assert.ElementsMatch(t, []*byte{a, b}, []*byte{&second[0][:1][0], &second[1][:1][0]})
	p.Release(second)

	odd := mustTake(t, p, 40*kib+100, false)
	assert.Equal(t, []int{SlabSize, SlabSize, 8*kib + 100}, caps(odd))
	p.Release(odd)
	assert.Len(t, p.slabs, 2)
	assert.Empty(t, p.smallSlabs)

	// 20 small slabs need memory that lies in the list of ordinary ones.
	var small [][]byte
	for range 20 {
		s, ok := p.TryAllocate(small, 1, true)
		require.True(t, ok)
		small = s
	}
	assert.Empty(t, p.slabs, "free slabs of the other size come on top of the bound")
	_, ok := p.TryAllocate(nil, 1, true)
	assert.False(t, ok)
	p.Release(small)
	assert.Len(t, p.smallSlabs, 20)

	p.Release(mustTake(t, p, 16*kib, false))
	assert.Len(t, p.smallSlabs, 12, "8 small slabs made room for an ordinary one")
	assert.Len(t, p.slabs, 1)
}

func TestMemoryIsMadeWhenLent(t *testing.T) {
	p := newPool(t, Config{Total: 32 << 20})
	for range 10 {
		p.Release(mustTake(t, p, 100, false))
		p.Release(mustTake(t, p, 100, true))
	}
	assert.Len(t, p.slabs, 1)
	assert.Len(t, p.smallSlabs, 1)
}

// TryAllocate leaves what dst already held alone, whether or not it succeeds.
func TestTryAllocateAppends(t *testing.T) {
	p := newPool(t, Config{Total: 32 * kib})
	chain := mustTake(t, p, 1, false)
	head := &chain[0][:1][0]
	chain, ok := p.TryAllocate(chain, 1, false)
	require.True(t, ok)
	chain, ok = p.TryAllocate(chain, 1, false)
	assert.False(t, ok)
	require.Len(t, chain, 2)
	assert.Same(t, head, &chain[0][:1][0])
	p.Release(chain)
	_, ok = p.TryAllocate(nil, 32*kib+1, false)
	assert.False(t, ok)
}

// BP-02, S-06: more than the pool can ever have fails at once, not after the wait.
func TestTooLargeFailsAtOnce(t *testing.T) {
	p := newPool(t, Config{Total: 40 * kib})
	_, err := p.Allocate(t.Context(), nil, 40*kib+1, false, time.Hour)
	var tooLarge *TooLargeError
	require.ErrorAs(t, err, &tooLarge)
	assert.Equal(t, TooLargeError{Size: 40*kib + 1, Total: 40 * kib}, *tooLarge)
	assert.EqualError(t, err, "40961 bytes exceed the buffer memory of 40960 bytes")

	slabs, err := p.Allocate(t.Context(), nil, 40*kib, false, 0)
	require.NoError(t, err)
	p.Release(slabs)
}

// BP-09: amounts above 2 GiB do not overflow. (BP-10, a failed allocation that returns its reservation, does not
// exist in Go: the process ends.)
func TestMoreThanTwoGiB(t *testing.T) {
	const total = 3 << 40
	p := newPool(t, Config{Total: total})
	slabs := mustTake(t, p, 1<<20, false)
	assert.Equal(t, int64(total-1<<20), p.Available())
	p.mu.Lock()
	p.free -= 3 << 32 // as if lent
	p.lent += 3 << 32
	p.mu.Unlock()
	assert.Equal(t, int64(total-1<<20-3<<32), p.Available())
	p.mu.Lock()
	p.free += 3 << 32
	p.lent -= 3 << 32
	p.mu.Unlock()
	p.Release(slabs)
}

// BP-11: after Close nothing is lent, and what is out may come back.
func TestClosedPoolTakesBackOnly(t *testing.T) {
	p := newPool(t, Config{Total: 64 * kib})
	slabs := mustTake(t, p, 20*kib, false)
	p.Release(mustTake(t, p, 1, true))
	p.Close()
	p.Close()
	_, ok := p.TryAllocate(nil, 1, false)
	assert.False(t, ok)
	_, err := p.Allocate(t.Context(), nil, 1, false, time.Hour)
	assert.ErrorIs(t, err, ErrClosed)
	p.Release(slabs)
	assert.Empty(t, p.slabs)
	assert.Empty(t, p.smallSlabs)
}

// S-69, BP-12: without time to wait an exhausted pool fails at once, and each failure is counted.
func TestExhaustedWithoutWaiting(t *testing.T) {
	exhausted := 0
	p := newPool(t, Config{Total: SlabSize, OnExhausted: func() { exhausted++ },
		OnWait:   func() { t.Error("it waits") },
		OnWaited: func(time.Duration) { t.Error("it waited") },
	})
	slabs := mustTake(t, p, 1, false)
	for _, maxWait := range []time.Duration{0, -1, -time.Hour} {
		_, err := p.Allocate(context.Background(), nil, 100, false, maxWait)
		assert.ErrorIs(t, err, ErrExhausted)
		assert.ErrorContains(t, err, "no room for 100 bytes within 0s (0 of 16384 bytes free, 0 others wait)")
	}
	assert.Equal(t, 3, exhausted)
	p.Release(slabs)
}

// FC-034: a slab that comes back twice, or was cut, is an owner's error that the build with checks reports.
func TestChecksOnRelease(t *testing.T) {
	if !invariants.Enabled {
		t.Skip("needs -tags invariants")
	}
	for _, tt := range []struct {
		name string
		do   func(p *BufferPool, s [][]byte)
	}{
		{"twice", func(p *BufferPool, s [][]byte) { p.Release(s); p.Release(s) }},
		{"twice in one call", func(p *BufferPool, s [][]byte) { p.Release([][]byte{s[0], s[0]}) }},
		{"cut at the front", func(p *BufferPool, s [][]byte) { p.Release([][]byte{s[0][:10][5:]}) }},
		{"cut at the end", func(p *BufferPool, s [][]byte) { p.Release([][]byte{s[0][:10:10]}) }},
		{"empty", func(p *BufferPool, s [][]byte) { p.Release([][]byte{nil}) }},
		{"foreign", func(p *BufferPool, s [][]byte) { p.Release([][]byte{make([]byte, SlabSize)}) }},
	} {
		t.Run(tt.name, func(t *testing.T) {
			p := New(Config{Total: 64 * kib})
			slabs := mustTake(t, p, SlabSize, false)
			assert.Panics(t, func() { tt.do(p, slabs) })
		})
	}
	t.Run("poison", func(t *testing.T) {
		p := New(Config{Total: 64 * kib})
		slabs := mustTake(t, p, 1, true)
		kept := append(slabs[0], "still here"...)
		p.Release(slabs)
		assert.NotContains(t, string(kept), "still", "what was released must not survive")
	})
}
