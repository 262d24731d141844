//go:build mutants

package accumulator

import "time"

// Earlier takes out of its queue what was sent before b to the same partition, and waits to be sent again. Nobody may conclude
// anything of it from what became of b: it is for the planted bug that does.
func (a *RecordAccumulator) Earlier(b *ProducerBatch, now time.Time) []*ProducerBatch {
	var out []*ProducerBatch
	for _, e := range a.incomplete.all() {
		if e.d == b.d && e.attempts > 0 && !e.inFlight && e.Order(b) < 0 && a.Withdraw(e, now) {
			out = append(out, e)
		}
	}
	return out
}
