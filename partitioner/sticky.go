package partitioner

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"sync/atomic"
)

// StickyConfig is what NewSticky needs.
type StickyConfig struct {
	// Threshold is the number of bytes after which to move on to another partition (batch.size in Java). It must be
	// positive.
	Threshold int
	// Adaptive makes SetLoad count (partitioner.adaptive.partitioning.enable).
	Adaptive bool
	// Queued is how much waits for a partition; nil: unknown. An adaptive Sticky then takes the partition it has drawn only if nothing waits for
	// that, and else the one, of some, for which the least does: what is sent to a broker at once, a batch of each partition at most, is then more. It is called from many goroutines at
	// once.
	Queued func(partition int32) int
	// Rand returns a number in [0, n). It is called from many goroutines at once. Nil means rand.IntN.
	Rand func(n int) int
}

// Choice is the partition that records without one currently go to. The pointer is the token: when Sticky comes
// back to a partition later, that is another Choice.
type Choice struct {
	// Partition never changes.
	Partition int32

	of *Sticky

	// Bytes appended since the choice was made. Guarded by the lock of Partition's deque, so it is
	// a plain int: Java pays for an atomic addition per record.
	bytes int
}

// choices are Choices made together, so that moving on does not cost an allocation for each batch. None is used twice: the pointer is the token.
type choices struct {
	given atomic.Int32
	all   []Choice
}

// maxChoices is how many are made at a time; the first few of a topic, which may have few records, are made singly.
const maxChoices = 64

// choice makes the token for having chosen a partition.
func (s *Sticky) choice(partition int32) *Choice {
	for {
		c, size := s.choices.Load(), 1
		if c != nil {
			if i := int(c.given.Add(1)) - 1; i < len(c.all) {
				c.all[i] = Choice{Partition: partition, of: s}
				return &c.all[i]
			}
			size = min(2*len(c.all), maxChoices)
		}
		s.choices.CompareAndSwap(c, &choices{all: make([]Choice, size)})
	}
}

// Sticky is whose choice it is.
func (c *Choice) Sticky() *Sticky { return c.of }

// Sticky chooses the partition of records that have neither partition nor key, and stays with it until
// enough bytes went there (KIP-794). Batches fill one after the other instead of all at once, which at low rates
// is the difference between one record a batch and many. One per topic. Any goroutine may call it.
//
// An append goes like this, so that the choice is checked under the same lock that appending needs:
//
//	c := s.Peek(p)
//	lock the deque of c.Partition
//	if s.Changed(c) { unlock; start again }
//	append; s.Advance(c, bytes, whether the last batch has room for more, p)
//	unlock
type Sticky struct {
	cfg       StickyConfig
	current   atomic.Pointer[Choice]
	choices   atomic.Pointer[choices]
	load      atomic.Pointer[Load]
	localLoad atomic.Pointer[Load]
}

// NewSticky returns a Sticky that has not chosen yet. It panics when cfg.Threshold is not positive.
func NewSticky(cfg StickyConfig) *Sticky {
	if cfg.Threshold <= 0 {
		panic(fmt.Sprintf("partitioner: sticky threshold must be positive, got %d", cfg.Threshold))
	}
	if cfg.Rand == nil {
		cfg.Rand = rand.IntN
	}
	return &Sticky{cfg: cfg}
}

// Peek returns the current choice. It makes one when there is none yet, or when the topic no longer has that
// partition (deleted and created again with fewer).
func (s *Sticky) Peek(p Partitions) *Choice {
	c := s.current.Load()
	if c != nil && int(c.Partition) < p.Count() {
		return c
	}
	s.SwitchFrom(c, p)
	return s.current.Load()
}

// Current is the present choice, or nil.
func (s *Sticky) Current() *Choice { return s.current.Load() }

// Changed reports whether somebody moved on from c.
func (s *Sticky) Changed(c *Choice) bool { return s.current.Load() != c }

// Advance counts bytes appended to c.Partition and moves on when it is time: after Threshold bytes when no
// batch of the partition is half full (batchOpen), so that moving on costs no batch its company; after twice
// Threshold in any case. Called with the lock of c.Partition's deque held and c unchanged since that lock was
// taken. With no bytes it moves on if that is due, because the batch that was half full is full now.
func (s *Sticky) Advance(c *Choice, bytes int, batchOpen bool, p Partitions) {
	c.bytes += bytes
	if c.bytes < s.cfg.Threshold || batchOpen && c.bytes/2 < s.cfg.Threshold {
		return
	}
	s.current.CompareAndSwap(c, s.choice(s.next(p, Any)))
}

// SwitchFrom moves on from c at once, to another partition if there is one to choose. It does nothing when somebody
// else has moved on from c already. No lock is needed.
func (s *Sticky) SwitchFrom(c *Choice, p Partitions) {
	if s.current.Load() != c {
		return
	}
	avoid := Any
	if c != nil {
		avoid = c.Partition
	}
	s.current.CompareAndSwap(c, s.choice(s.next(p, avoid)))
}

// Recheck moves on at once when the current partition has lost its leader and others have one. To be called when the
// metadata, or the load, has changed.
func (s *Sticky) Recheck(p Partitions) {
	c, available := s.current.Load(), p.Available()
	if c != nil && len(available) > 0 && !slices.Contains(available, c.Partition) {
		s.SwitchFrom(c, p)
	}
}

// SetLoad tells how the partitions should be favoured from now on; nil means uniformly over those available.
// It does nothing unless the Sticky is adaptive.
func (s *Sticky) SetLoad(l *Load) {
	if s.cfg.Adaptive {
		s.load.Store(l)
	}
}

// SetLocalLoad is SetLoad for the choice among local partitions only (see LocalPartitions), whose weights count
// the longest queue of these.
func (s *Sticky) SetLocalLoad(l *Load) {
	if s.cfg.Adaptive {
		s.localLoad.Store(l)
	}
}

// next draws the partition to go to. If that is the one to avoid, it takes the one behind it.
func (s *Sticky) next(p Partitions, avoid int32) int32 {
	load, candidates := s.load.Load(), p.Available()
	if near, ok := p.(LocalPartitions); ok {
		if local := near.Local(); len(local) > 0 {
			load, candidates = s.localLoad.Load(), local
		}
	}
	if load != nil {
		i := s.shortest(load.partitions, load.choose(s.cfg.Rand))
		if load.partitions[i] == avoid {
			i = (i + 1) % len(load.partitions)
		}
		// The load may be older than p, and the topic may have fewer partitions now.
		if n := load.partitions[i]; int(n) < p.Count() {
			return n
		}
	}
	if n := len(candidates); n > 0 {
		i := s.shortest(candidates, s.cfg.Rand(n))
		if candidates[i] == avoid {
			i = (i + 1) % n
		}
		return candidates[i]
	}
	n := int32(p.Count())
	if n <= 0 {
		return 0 // out of range: fails the record
	}
	i := int32(s.cfg.Rand(int(n)))
	if i == avoid {
		i = (i + 1) % n
	}
	return i
}

// lookedAt is how many partitions are looked at for the one with the shortest queue.
const lookedAt = 16

// shortest is i or, if something waits for that partition, one for which the least does, any of them.
func (s *Sticky) shortest(partitions []int32, i int) int {
	if s.cfg.Queued == nil || !s.cfg.Adaptive {
		return i
	}
	least := s.cfg.Queued(partitions[i])
	if least == 0 {
		return i
	}
	n, ties, drawn := len(partitions), 1, i
	start := s.cfg.Rand(n)
	for k := range min(n, lookedAt) {
		j := (start + k) % n
		if n > lookedAt { // neighbours would favour those at the edges of what others write to
			j = s.cfg.Rand(n)
		}
		// To count the one that was drawn, or the best so far, once more would favour it. Of many, others may come twice, which favours nobody.
		if j == drawn || j == i {
			continue
		}
		switch q := s.cfg.Queued(partitions[j]); {
		case q < least:
			i, least, ties = j, q, 1
		case q == least: // to take the first would favour whoever is next to a long queue
			if ties++; s.cfg.Rand(ties) == 0 {
				i = j
			}
		}
	}
	return i
}
