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
