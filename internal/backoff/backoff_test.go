package backoff

import (
	"math"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
)

const ms = time.Millisecond

// EXP-01: initial 100, times 2, at most 2000, jitter 20 %: within ±20 % of 100·2^n, never above the cap, and the
// same beyond it.
func TestDelayGrowsWithJitter(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	e := Exponential{Initial: 100 * ms, Max: 2000 * ms, Rand: r.IntN}
	for attempt := range 40 {
		want := min(100*math.Exp2(float64(attempt)), 2000) * float64(ms)
		lowest, highest := time.Duration(math.MaxInt64), time.Duration(0)
		for range 2000 {
			d := e.Delay(attempt)
			lowest, highest = min(lowest, d), max(highest, d)
		}
		assert.GreaterOrEqual(t, float64(lowest), 0.8*want, "attempt %d", attempt)
		assert.LessOrEqual(t, float64(highest), 1.2*want, "attempt %d", attempt)
		assert.LessOrEqual(t, highest, 2000*ms, "attempt %d", attempt)
		// And the whole of it is used, at the cap too: otherwise clients would come back in step.
		assert.Less(t, float64(lowest), 0.82*want, "attempt %d", attempt)
		assert.Greater(t, float64(highest), 0.98*want, "attempt %d", attempt)
	}
}

// EXP-02: without jitter the delays are exact.
func TestDelayWithoutJitter(t *testing.T) {
	e := Exponential{Initial: 100 * ms, Max: 2000 * ms}
	var got []time.Duration
	for attempt := range 8 {
		got = append(got, e.Delay(attempt))
	}
	assert.Equal(t, []time.Duration{100 * ms, 200 * ms, 400 * ms, 800 * ms, 1600 * ms, 2000 * ms, 2000 * ms, 2000 * ms}, got)
}

// NC-19: with equal bounds, and with a maximum below the base, the maximum is a constant.
func TestDelayIsConstant(t *testing.T) {
	for _, e := range []Exponential{
		{Initial: 50 * ms, Max: 50 * ms, Rand: rand.IntN},
		{Initial: 80 * ms, Max: 50 * ms, Rand: rand.IntN},
	} {
		for attempt := range 20 {
			assert.Equal(t, 50*ms, e.Delay(attempt))
		}
	}
	assert.Zero(t, Exponential{}.Delay(3))
}

// FC-106: nothing overflows, whatever the bounds and the count.
func TestDelaySaturates(t *testing.T) {
	highest := func(n int) int { return n - 1 }
	for _, initial := range []time.Duration{1, time.Hour, math.MaxInt64 / 2, math.MaxInt64 - 1} {
		for _, attempt := range []int{-1, 0, 1, 30, 61, 62, 63, 64, 1000, math.MaxInt} {
			for _, r := range []func(int) int{nil, highest, func(int) int { return 0 }} {
				d := Exponential{Initial: initial, Max: math.MaxInt64, Rand: r}.Delay(attempt)
				assert.GreaterOrEqual(t, d, time.Duration(0), "%v attempt %d", initial, attempt)
			}
		}
	}
	assert.Equal(t, time.Duration(math.MaxInt64), Exponential{Initial: 1, Max: math.MaxInt64}.Delay(100))
}
