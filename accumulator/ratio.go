package accumulator

import (
	"math"
	"sync/atomic"
)

// ratio estimates how well a topic's records compress, so that a batch can be filled by its
// compressed size before it is compressed (Java's CompressionRatioEstimator; java-producer 4.3).
// It starts at 1, rises at once when a batch compressed worse and falls slowly when it did better.
type ratio struct {
	bits atomic.Uint64
}

const (
	ratioWorse  = 0.05  // least step up
	ratioBetter = 0.005 // step down
	ratioSafety = 1.05  // the estimate that a batch is filled by is this much higher
)

func (r *ratio) get() float64 {
	if b := r.bits.Load(); b != 0 {
		return math.Float64frombits(b)
	}
	return 1
}

// observe takes one batch's ratio into the estimate.
func (r *ratio) observe(seen float64) {
	now := r.get()
	if seen > now {
		now = max(now+ratioWorse, seen)
	} else {
		now = max(now-ratioBetter, seen)
	}
	r.bits.Store(math.Float64bits(now))
}

// reset is for a batch that the broker found too large: the estimate was that wrong.
func (r *ratio) reset(seen float64) { r.bits.Store(math.Float64bits(max(1, seen))) }
