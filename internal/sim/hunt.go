package sim

import "github.com/kafka-reservoir/producer/internal/mutants"

// Catch is what became of the hunt for a planted bug.
type Catch struct {
	Bug       mutants.ID
	Seed      uint64 // that showed it
	Seeds     int    // that were played
	Violation string // empty: it got away
}

// Hunt plants a bug and plays seeds, from first on, until one of them shows it. It needs the build tag mutants.
func Hunt(bug mutants.ID, first uint64, seeds int) Catch {
	mutants.Plant(bug)
	defer mutants.Plant(mutants.None)
	c := Catch{Bug: bug}
	Swarm{First: first, Seeds: seeds, Each: func(r *Result) bool {
		c.Seeds++
		if len(r.Violations) > 0 {
			c.Seed, c.Violation = r.Seed, r.Violations[0]
			return false
		}
		return true
	}}.Run()
	return c
}
