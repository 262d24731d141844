package metrics

import (
	"sync/atomic"
	"time"
)

// Counter counts events: a total and, over the sample windows, a rate. The zero value counts but has no rate.
type Counter struct {
	total atomic.Int64

	// starts are the totals at the beginning of each window, newest first. Guarded by windows.mu.
	starts []int64
}

// Add counts n events.
func (c *Counter) Add(n int) { c.total.Add(int64(n)) }

// Load is the total.
func (c *Counter) Load() int64 { return c.total.Load() }

func (c *Counter) init(samples int) { c.starts = make([]int64, samples) }

func (c *Counter) shift(by int) { shift(c.starts, by, c.total.Load()) }

// Gauge is a value that goes up and down.
type Gauge struct{ v atomic.Int64 }

// Set replaces the value.
func (g *Gauge) Set(n int64) { g.v.Store(n) }

// Add changes the value.
func (g *Gauge) Add(n int) { g.v.Add(int64(n)) }

// Load is the value.
func (g *Gauge) Load() int64 { return g.v.Load() }

// Stat has the average and the maximum of a value over the sample windows, and its sum since the beginning.
// Values are not negative; smaller ones count as zero.
type Stat struct {
	count, sum Counter
	max        atomic.Int64 // of the current window

	maxima []int64 // of the windows before, newest first. Guarded by windows.mu.
}

// Observe takes one value.
func (s *Stat) Observe(v int64) {
	v = max(v, 0)
	s.count.total.Add(1)
	s.sum.total.Add(v)
	for old := s.max.Load(); v > old && !s.max.CompareAndSwap(old, v); {
		old = s.max.Load()
	}
}

// ObserveDuration takes one duration, in nanoseconds. A negative one, which two clocks can make, counts as zero.
func (s *Stat) ObserveDuration(d time.Duration) { s.Observe(int64(d)) }

// RatioUnit is what ObserveRatio multiplies by, because a Stat holds whole numbers.
const RatioUnit = 1_000_000

// ObserveRatio takes the fraction part / whole; a whole of zero is ignored.
func (s *Stat) ObserveRatio(part, whole int) {
	if whole > 0 {
		s.Observe(int64(part) * RatioUnit / int64(whole))
	}
}

// Sum is the sum of all values since the beginning.
func (s *Stat) Sum() int64 { return s.sum.Load() }

func (s *Stat) init(samples int) {
	s.count.init(samples)
	s.sum.init(samples)
	s.maxima = make([]int64, samples-1)
}

func (s *Stat) shift(by int) {
	s.count.shift(by)
	s.sum.shift(by)
	// Only the window just ended can have seen anything; those skipped over are empty.
	shift(s.maxima, 1, s.max.Swap(0))
	shift(s.maxima, by-1, 0)
}

// shift moves a by positions towards the end and fills the front with v.
func shift(a []int64, by int, v int64) {
	by = min(by, len(a))
	if by <= 0 {
		return
	}
	copy(a[by:], a)
	for i := range by {
		a[i] = v
	}
}
