package partitioner

import (
	"maps"
	"strings"
	"sync"
	"sync/atomic"
)

// RoundRobin sends records to the available partitions in turn, whether they have keys or not, and counts per topic
// (Java's RoundRobinPartitioner). Without an available partition it takes all of them in turn. The zero
// value is ready; it must not be copied after its first use.
type RoundRobin struct {
	// counters is replaced, never changed, when a topic is met for the first time. A sync.Map would allocate
	// for each look-up by string.
	counters atomic.Pointer[map[string]*atomic.Uint32]
	mu       sync.Mutex // guards the replacement of counters
}

// Partition implements Partitioner.
func (r *RoundRobin) Partition(topic string, _, _ []byte, p Partitions) int32 {
	n := r.counter(topic).Add(1) - 1
	if available := p.Available(); len(available) > 0 {
		return available[n%uint32(len(available))]
	}
	if count := p.Count(); count > 0 {
		return int32(n % uint32(count))
	}
	return 0 // out of range: fails the record
}

func (r *RoundRobin) counter(topic string) *atomic.Uint32 {
	if m := r.counters.Load(); m != nil {
		if c := (*m)[topic]; c != nil {
			return c
		}
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	next := map[string]*atomic.Uint32{}
	if m := r.counters.Load(); m != nil {
		if c := (*m)[topic]; c != nil {
			return c
		}
		next = maps.Clone(*m)
	}
	c := new(atomic.Uint32)
	next[strings.Clone(topic)] = c // the caller's string may be a piece of a large one
	r.counters.Store(&next)
	return c
}
