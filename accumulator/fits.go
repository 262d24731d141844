package accumulator

import (
	"math"
	"sync/atomic"
	"time"
)

// fits is how large batches of a topic may be, as far as its brokers have refused larger ones (max.message.bytes). Without it every
// batch of a batch.size far above that is refused, halved, and refused again.
type fits struct {
	size  atomic.Int64 // bytes, compressed, header included; 0: nothing was refused
	until atomic.Int64 // when that is forgotten, in ns since the accumulator's epoch
}

const (
	// leastFit bounds what is remembered: splitting so small a batch costs little, and a broker that refuses in error must not leave
	// batches of one record behind.
	leastFit = 16 << 10
	// fitsMemory is how long it is remembered. The limit can be raised, and then nothing would be refused that could tell.
	fitsMemory = 10 * time.Minute
)

// refused notes that a batch of size bytes was too large, and returns what to try instead, half of it or less.
func (f *fits) refused(size int, now time.Duration) int {
	half := int64(size+1) / 2
	fit := f.limit(math.MaxInt, now)
	if int64(fit) > half {
		fit = int(half)
		if half >= leastFit {
			f.until.Store(int64(now + fitsMemory))
			f.size.Store(half)
		}
	}
	return fit
}

// limit is how large a batch may be, at most size. Any goroutine.
func (f *fits) limit(size int, now time.Duration) int {
	fit := f.size.Load()
	if fit == 0 || fit >= int64(size) {
		return size
	}
	if int64(now) >= f.until.Load() {
		f.size.CompareAndSwap(fit, 0)
		return size
	}
	return int(fit)
}
