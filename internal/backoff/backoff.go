// Package backoff computes how long to wait before trying again.
//
// It is pure arithmetic, used by whoever retries: netclient for connections, metadata for requests,
// accumulator for batches.
package backoff

import (
	"math"
	"time"
)

// Exponential doubles the delay with each attempt and spreads it, so that clients which failed
// together do not come back together. The zero value never delays.
type Exponential struct {
	Initial time.Duration
	// Max bounds every delay, jitter included. Where it is not above Initial it is the delay, always.
	Max time.Duration
	// Rand returns a number in [0, n). Nil means no jitter.
	Rand func(n int) int
}

// jitter is how far, in thousandths, a delay is moved up or down.
const jitter = 200

// Delay is the wait before try number attempt+1, attempts being counted from zero:
// Initial*2^attempt ±20 %, at most Max.
func (e Exponential) Delay(attempt int) time.Duration {
	return e.delay(attempt, e.Max)
}

// DelayIn is Delay for who has been trying for so long: beyond what is harmless it does not grow to more than a tenth of that, so that when all
// is well again the wait for the next try costs little on top of what the trouble has cost. It is never longer than Delay.
func (e Exponential) DelayIn(attempt int, trouble, harmless time.Duration) time.Duration {
	return e.delay(attempt, max(harmless, trouble/10))
}

// delay bounds the growth by most, but not what the jitter adds to it.
func (e Exponential) delay(attempt int, most time.Duration) time.Duration {
	if e.Max <= e.Initial {
		return max(e.Max, 0)
	}
	most = min(max(most, e.Initial), e.Max)
	d := most
	if attempt < 62 {
		if grown := float64(max(e.Initial, 0)) * math.Exp2(float64(max(attempt, 0))); grown < float64(most) {
			d = time.Duration(grown)
		}
	}
	if e.Rand == nil {
		return d
	}
	spread := time.Duration(float64(d) * float64(e.Rand(2*jitter+1)-jitter) / 1000)
	if d > e.Max-max(spread, 0) {
		spread = -spread // at the cap too the delays are spread, below it
	}
	return d + min(spread, e.Max-d)
}
