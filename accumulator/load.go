package accumulator

import (
	"sync/atomic"

	"github.com/kafka-reservoir/producer/metadata"
	"github.com/kafka-reservoir/producer/partitioner"
)

// load is the lengths of a topic's queues, for those of the candidates that may be chosen. nil: choose evenly.
// As in Java only once every partition has a queue: before, the lengths say nothing. The sender's.
func (a *RecordAccumulator) load(md *metadata.Topic, candidates []int32, ds []atomic.Pointer[deque]) *partitioner.Load {
	if md.Count() < 2 {
		return nil
	}
	partitions, queues := a.s.choosable[:0], a.s.lengths[:0]
	defer func() { a.s.choosable, a.s.lengths = partitions, queues }()
	excluded, differ := false, false
	for _, p := range candidates {
		if int(p) >= len(ds) {
			return nil
		}
		d := ds[p].Load()
		if d == nil {
			return nil
		}
		if a.cfg.AvailabilityTimeout > 0 {
			if n := a.s.nodes[md.Leader(p)]; n != nil && n.readyAt.Sub(n.drainedAt) > a.cfg.AvailabilityTimeout {
				excluded = true
				continue
			}
		}
		d.mu.Lock()
		n := d.len()
		d.mu.Unlock()
		partitions = append(partitions, p)
		queues = append(queues, n)
		differ = differ || n != queues[0]
	}
	if len(partitions) == 0 || !excluded && !differ {
		return nil
	}
	return partitioner.NewLoad(partitions, queues, md.Count())
}
