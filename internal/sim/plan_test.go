package sim

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// Every kind has a name, which finds it again, and some seed draws it.
func TestKinds(t *testing.T) {
	var drawn [kinds]int
	for seed := range uint64(2000) {
		plan := Draw(seed, Options{})
		for _, k := range plan.On() {
			drawn[k]++
		}
	}
	for k := range kinds {
		got, unknown := ParseKinds(k.String())
		assert.Empty(t, unknown)
		assert.Equal(t, []Kind{k}, got)
		assert.Greater(t, drawn[k], 20, "worlds with %v of 2000", k)
	}
	_, unknown := ParseKinds("leader-move,no-such-thing")
	assert.Equal(t, "no-such-thing", unknown)
}

// What options take away is gone, and all else stays as it was drawn.
func TestOptionsOnlyTakeAway(t *testing.T) {
	for seed := range uint64(200) {
		whole := Draw(seed, Options{})
		kinds := whole.On()
		if len(kinds) == 0 {
			continue
		}
		part := Draw(seed, Options{Without: kinds[:1], Faults: time.Second, Partitions: 1})
		assert.Equal(t, kinds[1:], append([]Kind{}, part.On()...))
		assert.Equal(t, 1, part.Partitions)
		assert.LessOrEqual(t, part.Faults, time.Second)
		part.Callback = whole.Callback
		part.Levels, part.Partitions, part.Topics, part.Faults, part.Spares = whole.Levels, whole.Partitions, whole.Topics, whole.Faults, whole.Spares
		part.Config.Cluster.Nodes, part.Config.WallClock = whole.Config.Cluster.Nodes, whole.Config.WallClock
		require.Equal(t, whole, part)
	}
}
