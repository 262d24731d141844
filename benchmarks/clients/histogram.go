package clients

import (
	"math"
	"math/bits"
	"sync/atomic"
)

// A value of n bits falls into one of 1<<fineBits buckets for its highest bits: no bucket is wider than 1/128 of its value.
const fineBits = 7

// Histogram counts durations in nanoseconds without keeping them. The zero value is ready. Add may be called by any
// goroutine, the rest when nobody adds.
type Histogram struct {
	buckets [(64 - fineBits) << fineBits]atomic.Int64
	max     atomic.Int64
}

// Add counts one duration. Less than 0 counts as 0.
func (h *Histogram) Add(ns int64) {
	ns = max(ns, 0)
	h.buckets[bucketOf(ns)].Add(1)
	for old := h.max.Load(); ns > old; old = h.max.Load() {
		if h.max.CompareAndSwap(old, ns) {
			return
		}
	}
}

// Count is how many were added.
func (h *Histogram) Count() (n int64) {
	for i := range h.buckets {
		n += h.buckets[i].Load()
	}
	return n
}

// Max is the longest, exactly.
func (h *Histogram) Max() int64 { return h.max.Load() }

// Quantile is the least duration that at least the share q of them does not exceed, to within 1/128; 0 when there are none.
func (h *Histogram) Quantile(q float64) int64 {
	rank := int64(math.Ceil(q * float64(h.Count())))
	var seen int64
	for i := range h.buckets {
		if seen += h.buckets[i].Load(); seen >= rank && seen > 0 {
			return min(lastOf(i), h.Max())
		}
	}
	return 0
}

// Reset forgets everything.
func (h *Histogram) Reset() {
	for i := range h.buckets {
		h.buckets[i].Store(0)
	}
	h.max.Store(0)
}

// bucketOf is the bucket of a duration: the first 1<<fineBits buckets have one value each, and from there on every
// power of two has as many.
func bucketOf(ns int64) int {
	shift := max(bits.Len64(uint64(ns))-fineBits-1, 0)
	return shift<<fineBits + int(ns>>shift)
}

// lastOf is the longest duration of a bucket.
func lastOf(bucket int) int64 {
	shift := max(bucket>>fineBits-1, 0)
	fine := int64(bucket - shift<<fineBits)
	return (fine+1)<<shift - 1
}
