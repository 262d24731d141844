package faultrun

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// The worst of a fault's runs stands in its row: what is beyond its bound before what the machine explains, and that before
// what holds. Only records decide whether a fault is clean.
func TestTableShowsTheWorst(t *testing.T) {
	f := Find("leader-moves")
	run := func(recovery, lag time.Duration) *Result {
		return &Result{
			Fault: f, Recovery: recovery, Recovered: true, Lag: lag, Memory: 1 << 20, Connects: 4, Metadata: 3, Oldest: 40 * ms, Delivery: patient,
			FlushLate: 0, CloseLate: unmeasured, CloseEmpty: ms, Tally: Tally{Acked: 10},
		}
	}
	var table Table
	row := func() string {
		var out strings.Builder
		require.NoError(t, table.Write(&out))
		return out.String()
	}
	table.Add(run(100*ms, 0))
	assert.Contains(t, row(), "| 100 (250) |")
	table.Add(run(400*ms, 200*ms))
	assert.Contains(t, row(), "| 400 ? (250) |")
	table.Add(run(300*ms, 10*ms))
	assert.Contains(t, row(), "| 300 **!** (250) |")
	assert.NotContains(t, row(), "not clean")
	assert.Equal(t, Totals{Faults: 1, Clean: 1, Runs: 3, Records: 30, Measured: 21, Within: 19, Lagging: 1}, table.Totals())

	forced := run(unmeasured, 0)
	forced.Forced, forced.Failed, forced.CloseLate, forced.Broken = true, 7, 20*ms, []string{"something"}
	table.Add(forced)
	table.Add(&Result{Fault: Calm, Recovery: unmeasured, Memory: unmeasured, FlushLate: unmeasured, CloseLate: unmeasured, CloseEmpty: unmeasured})
	assert.Contains(t, row(), "| leader moves **1 not clean** | 3+1 | none | 40 | 0+7 |")
	n := table.Totals()
	assert.Equal(t, 1, n.Faults, "calm is none of them")
	assert.Zero(t, n.Clean)
}
