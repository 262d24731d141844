//go:build mutants

package sim

import (
	"testing"
	"time"

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

// A failure is made smaller as long as it stays the same one. In what ways it can be depends on the seed, so several are looked at together.
func TestShrink(t *testing.T) {
	mutants.Plant(mutants.TwoBeforeFirstAck)
	defer mutants.Plant(mutants.None)
	type size struct {
		partitions int
		faults     time.Duration
	}
	var before, after size
	for seed, seen := uint64(1), 0; seen < 5; seed++ {
		plan := Draw(seed, Options{})
		res := Run(plan)
		if len(res.Violations) == 0 || len(plan.On()) < 3 || plan.Partitions < 4 {
			continue
		}
		seen++
		class := Class(res.Violations[0])
		small := Shrink(seed, Options{}, class, 100)
		less := Draw(seed, small)
		again := Run(less)
		assert.True(t, again.Fails(class), "seed %d: %v fails no longer", seed, small)
		for _, it := range []struct {
			of *size
			p  Plan
		}{{&before, plan}, {&after, less}} {
			it.of.partitions += it.p.Partitions
			it.of.faults += it.p.Faults
		}
		assert.Less(t, len(less.On()), len(plan.On()), "seed %d", seed)
		assert.LessOrEqual(t, less.Partitions, plan.Partitions, "seed %d", seed)
		t.Logf("seed %d%s", seed, small.Flags())
	}
	assert.Less(t, after.partitions, before.partitions)
	assert.Less(t, after.faults, before.faults/2)
}
