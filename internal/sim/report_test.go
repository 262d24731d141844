package sim

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// The report says the same however many seeds run at once, and names what failed with the command that repeats it.
func TestReport(t *testing.T) {
	n := 12
	if raceEnabled {
		n = 3
	}
	report := func(workers int) string {
		r := Report{Command: "the command", Commit: "abc"}
		Swarm{First: 1, Seeds: n, Workers: workers, Each: func(res *Result) bool {
			if res.Seed == 2 {
				res.Violations = []string{"1s: made up\nwith a second line"}
			}
			r.Add(Options{}, res)
			return true
		}}.Run()
		var s strings.Builder
		_, err := r.WriteTo(&s)
		require.NoError(t, err)
		return s.String()
	}
	text := report(1)
	require.Equal(t, text, report(3))
	assert.Contains(t, text, "What `the command` has shown at commit abc.")
	assert.Regexp(t, `(?m)^seeds \d+ hours \d+\.\d faults \d+ records \d+ violations 1 digest [0-9a-f]{16}$`, text)
	assert.Contains(t, text, "- `go run ./internal/sim/cmd/sim -seed 2 -trace`: 1s: made up\n")
	for k := range kinds {
		assert.Contains(t, text, "\n| "+k.String()+" | ")
	}
}
