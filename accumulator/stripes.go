package accumulator

import (
	"sync"
	"sync/atomic"

	"github.com/kafka-reservoir/producer/partitioner"
)

// stripes are a topic's sticky partitioners. Records without a key go by the first alone, so that batches fill one after the other, unless goroutines
// wait for each other at its partition: with two processors that cost three times the CPU a record. Then each processor has a stripe,
// for as long as several are busy.
type stripes struct {
	first     *partitioner.Sticky
	spread    atomic.Pointer[spread] // nil: all go by the first
	contended atomic.Int32           // how often somebody found a partition taken since the last look

	// The sender's.
	all  []*partitioner.Sticky // the first, and the others once they were needed: most topics never do
	seen []*partitioner.Choice // what was current at the last look
}

// spread gives each processor a stripe of its own.
type spread struct {
	stripes []*partitioner.Sticky
	given   atomic.Int32
	tokens  sync.Pool // *int, an index of stripes: the pool keeps what a processor put back for that processor
}

func (s *spread) mine() *partitioner.Sticky {
	token, _ := s.tokens.Get().(*int)
	if token == nil {
		token = new(int)
		*token = int(s.given.Add(1)) % len(s.stripes)
	}
	s.tokens.Put(token)
	return s.stripes[*token]
}

func (s *stripes) init(first *partitioner.Sticky) {
	s.first = first
	s.all = []*partitioner.Sticky{first}
}

// muchContended is how often goroutines get into each other's way between two looks where that is worth spreading them. One that is alone meets the sender, a
// few hundred times at full speed; two meet each other a hundred times as often.
const muchContended = 4096

// review decides if each processor is to have a stripe: since somebody had to wait, or as long as several are busy. The sender's, now and then.
func (s *stripes) review(a *RecordAccumulator, t *Topic) {
	wanted := s.contended.Swap(0) > muchContended
	if wanted && s.seen == nil {
		for len(s.all) < a.cfg.Stripes {
			s.all = append(s.all, a.newSticky(t))
		}
		s.seen = make([]*partitioner.Choice, len(s.all))
	}
	busy := 0
	for i := range s.seen {
		if c := s.all[i].Current(); c != s.seen[i] {
			s.seen[i] = c
			busy++
		}
	}
	switch now := s.spread.Load(); {
	case now == nil && wanted:
		s.spread.Store(&spread{stripes: s.all})
	case now != nil && !wanted && busy < 2:
		s.spread.Store(nil)
	}
}
