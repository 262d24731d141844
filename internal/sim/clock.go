package sim

import (
	"time"
	"unsafe"
)

// timeLayout is what time.Time looks like inside: the only way to a time whose wall clock and monotonic clock disagree is
// to write one. TestClock holds it against the standard library.
type timeLayout struct {
	wall uint64
	ext  int64
	loc  *time.Location
}

const (
	hasMonotonic = 1 << 63
	// wallEpoch is the year 1885, from which times with a monotonic reading count their seconds, as a Unix time.
	wallEpoch = -2682288000
)

// reading is what a computer's clock says: wall on the wall clock, and so much since the start of the process on the
// monotonic one, which alone decides how long something took.
func reading(wall time.Time, monotonic time.Duration) time.Time {
	t := timeLayout{
		wall: hasMonotonic | uint64(wall.Unix()-wallEpoch)<<30 | uint64(wall.Nanosecond()),
		ext:  int64(monotonic) + 1,
	}
	return *(*time.Time)(unsafe.Pointer(&t))
}
