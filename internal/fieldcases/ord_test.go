package fieldcases

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"

	"github.com/kafka-reservoir/producer/internal/testbroker"
	"github.com/kafka-reservoir/producer/protocol"
)

// Records lost, doubled or out of order; idempotence, sequences, retries.

// FC-002: one place gives out sequences, so that what was parked behind a retry goes through it as well.
func TestFC002ParkedBatchesAreNumbered(t *testing.T) {
	play(t, testbroker.Config{Fault: testbroker.Script(protocol.KeyProduce, testbroker.DropBefore())}, func(w *world) {
		p := w.producer(nil)
		all := []*sent{w.send(p, to(0, "0"))}
		time.Sleep(10 * time.Millisecond) // dropped by now, and backing off
		for i := 1; i <= 5; i++ {
			all = append(all, w.send(p, to(0, "%d", i)))
			time.Sleep(6 * time.Millisecond)
		}
		w.acked(all...)
		assert.Equal(t, []string{"0", "1", "2", "3", "4", "5"}, w.values(0))
		next := int32(0)
		for _, b := range w.batches(0)[1:] { // the first came twice
			assert.True(t, b.ProducerID >= 0 && b.ProducerEpoch >= 0)
			assert.Equal(t, next, b.BaseSequence)
			next += b.Count
		}
	})
}
