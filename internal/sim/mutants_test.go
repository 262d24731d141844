//go:build mutants

package sim

import (
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/kafka-reservoir/producer/internal/mutants"
)

// Delivery 5, G5: a bug that matters is seen by one of the first 200 seeds.
func TestPlantedBugsAreCaught(t *testing.T) {
	assert.Len(t, mutants.All(), 20)
	for _, bug := range mutants.All() {
		c := Hunt(bug, 1, 200)
		if c.Violation == "" {
			t.Errorf("%v got away", bug)
			continue
		}
		t.Logf("%v: seed %d: %.150s", bug, c.Seed, c.Violation)
	}
}

// A failure is made smaller as long as it stays the same one.
func TestShrink(t *testing.T) {
	mutants.Plant(mutants.TwoBeforeFirstAck)
	defer mutants.Plant(mutants.None)
	for seed := uint64(1); ; seed++ {
		plan := Draw(seed, Options{})
		res := Run(plan)
		if len(res.Violations) == 0 || len(plan.On()) < 3 || plan.Partitions < 4 {
			continue
		}
		class := Class(res.Violations[0])
		small := Shrink(seed, Options{}, class, 100)
		again := Run(Draw(seed, small))
		assert.True(t, again.Fails(class), "%v fails no longer", small)
		less := Draw(seed, small)
		assert.Less(t, len(less.On()), len(plan.On()))
		assert.Less(t, less.Partitions, plan.Partitions)
		assert.Less(t, less.Faults, plan.Faults)
		t.Logf("seed %d%s", seed, small.Flags())
		return
	}
}
