package accumulator

import (
	"sync"
	"sync/atomic"

	"github.com/kafka-reservoir/producer/metadata"
	"github.com/kafka-reservoir/producer/partitioner"
)

// stripes are a topic's sticky partitioners. Records without a key go by the first alone, so that batches fill one after the other, unless goroutines
// wait for each other at its partition: with two processors that cost three times the CPU a record. Then each processor has a stripe,
// for as long as several are busy.
type stripes struct {
	all       []*partitioner.Sticky
	spread    atomic.Bool  // each processor has its own
	contended atomic.Int32 // how often somebody found a partition taken since the last look
	given     atomic.Int32
	tokens    sync.Pool // *int, an index of all: the pool keeps what a processor put back for that processor

	// The sender's.
	seen []*partitioner.Choice // what was current at the last look
}

func (s *stripes) init(n int, cfg partitioner.StickyConfig) {
	for range n {
		s.all = append(s.all, partitioner.NewSticky(cfg))
	}
	s.seen = make([]*partitioner.Choice, n)
	s.tokens.New = func() any {
		i := int(s.given.Add(1)) % n
		return &i
	}
}

// muchContended is how often goroutines get into each other's way between two looks where that is worth spreading them. One that is alone meets the sender, a
// few hundred times at full speed; two meet each other a hundred times as often.
const muchContended = 4096

// choose takes a sticky partition and locks its deque.
func (s *stripes) choose(a *RecordAccumulator, t *Topic, md *metadata.Topic) (*deque, *partitioner.Choice) {
	mine := s.all[0]
	if s.spread.Load() {
		token := s.tokens.Get().(*int)
		mine = s.all[*token]
		s.tokens.Put(token)
	}
	for {
		choice := mine.Peek(md)
		d := a.deque(t, choice.Partition, md.Count())
		if !d.mu.TryLock() {
			s.contended.Add(1)
			d.mu.Lock()
		}
		if !mine.Changed(choice) {
			return d, choice
		}
		d.mu.Unlock()
	}
}

// review decides if each processor is to have a stripe: since somebody had to wait, or as long as several are busy. The sender's, now and then.
func (s *stripes) review() {
	busy := 0
	for i, sticky := range s.all {
		if c := sticky.Current(); c != s.seen[i] {
			s.seen[i] = c
			busy++
		}
	}
	was, wanted := s.spread.Load(), s.contended.Swap(0) > muchContended
	if now := wanted || was && busy > 1; now != was {
		s.spread.Store(now)
	}
}
