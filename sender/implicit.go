//go:build mutants

package sender

import (
	"slices"
	"time"

	"github.com/kafka-reservoir/producer/accumulator"
)

func init() {
	implicitAck = func(s *Sender, b *accumulator.ProducerBatch, base int64, now time.Time) {
		for _, e := range slices.Backward(s.acc.Earlier(b, now)) {
			base -= int64(e.Count())
			s.acknowledged(e, base, -1, now)
		}
	}
}
