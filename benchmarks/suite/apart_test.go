package suite

import (
	"context"
	"runtime"
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/kafka-reservoir/producer/benchmarks/report"
)

func TestProcessorsApart(t *testing.T) {
	apart := processorsApart()
	t.Logf("%.0f ns there and back", apart*1e9)
	assert.Less(t, apart, apartLimit.Seconds())
	if runtime.NumCPU() < 2 || runtime.GOMAXPROCS(0) < 2 {
		assert.Zero(t, apart)
	} else if apart > 0 { // else others keep the processors busy
		assert.Greater(t, apart, 1e-9, "nothing is as near as that")
	}
}

// A run that is to be made with near processors is made again where they were apart before or after it, but not for ever.
func TestNearRun(t *testing.T) {
	for _, tt := range []struct {
		name    string
		near    float64
		apart   []float64 // what is measured, one after the other; the last for ever
		runs    int
		pauses  int
		problem bool
	}{
		{"nobody asks", 0, []float64{9}, 1, 0, false},
		{"near", 1, []float64{0.5}, 1, 0, false},
		{"not known", 1, []float64{0}, 1, 0, false},
		{"near after a while", 1, []float64{9, 9, 0.5}, 1, 2, false},
		{"apart in one run", 1, []float64{0.5, 9, 9, 0.5}, 2, 1, false},
		{"always apart afterwards", 1, []float64{0.5, 9, 0.5, 9, 0.5, 9}, nearTries, 0, true},
		{"never near", 1, []float64{9}, nearTries, nearTries * (nearLooks - 1), true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			looks, runs, pauses := 0, 0, 0
			run := nearRun(t.Context(), tt.near, func() float64 {
				looks++
				return tt.apart[min(looks, len(tt.apart))-1]
			}, func(context.Context) { pauses++ }, func() report.Run {
				runs++
				return report.Run{Repeat: runs}
			})
			assert.Equal(t, tt.runs, runs)
			assert.Equal(t, tt.runs, run.Repeat, "the last run is what is told")
			assert.Equal(t, tt.pauses, pauses)
			assert.Equal(t, tt.problem, run.Problem != "", run.Problem)
		})
	}
}
