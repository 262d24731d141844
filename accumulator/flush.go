package accumulator

import (
	"context"
	"sync"

	"github.com/kafka-reservoir/producer/internal/invariants"
	"github.com/kafka-reservoir/producer/internal/mutants"
)

// incompleteSet holds the batches that are not Done, in order of creation: what Flush waits for, what
// the delivery timeout looks at, and what a forced close fails.
type incompleteSet struct {
	mu         sync.Mutex // guards all of it, and the links in the batches; taken while a deque's lock may be held; a leaf itself
	head, tail *ProducerBatch
	lastID     uint64
	n          int
	waiters    []flushWaiter
}

// flushWaiter waits until no batch up to id is left.
type flushWaiter struct {
	id uint64
	ch chan struct{}
}

// add numbers a new batch and enters it.
func (s *incompleteSet) add(b *ProducerBatch) {
	s.mu.Lock()
	s.lastID++
	b.id = s.lastID
	s.insertAfter(s.tail, b)
	s.mu.Unlock()
}

// insertAfter links b behind at; nil means at the front. mu is held.
func (s *incompleteSet) insertAfter(at, b *ProducerBatch) {
	invariants.Check(!b.listed, "batch %d is in the incomplete set already", b.id)
	b.listed = true
	b.d.topic.incomplete.Add(1)
	b.prev = at
	if at == nil {
		b.next = s.head
		s.head = b
	} else {
		b.next = at.next
		at.next = b
	}
	if b.next == nil {
		s.tail = b
	} else {
		b.next.prev = b
	}
	s.n++
}

// unlink takes b out. mu is held.
func (s *incompleteSet) unlink(b *ProducerBatch) {
	invariants.Check(b.listed, "batch %d is not in the incomplete set", b.id)
	b.listed = false
	b.d.topic.incomplete.Add(-1)
	if b.prev == nil {
		s.head = b.next
	} else {
		b.prev.next = b.next
	}
	if b.next == nil {
		s.tail = b.prev
	} else {
		b.next.prev = b.prev
	}
	b.prev, b.next = nil, nil
	s.n--
}

// remove takes out a batch that is Done, and lets go who waited for it.
func (s *incompleteSet) remove(b *ProducerBatch) {
	s.mu.Lock()
	s.unlink(b)
	s.wake()
	s.mu.Unlock()
}

// replace puts the parts of a split batch in its place, under its number: whoever waits for the
// batch waits for them (KAFKA-19479).
func (s *incompleteSet) replace(b *ProducerBatch, parts []*ProducerBatch) {
	s.mu.Lock()
	at := b.prev
	s.unlink(b)
	for _, p := range parts {
		s.insertAfter(at, p)
		at = p
	}
	s.mu.Unlock()
}

// wake lets go the waiters whose batches are all gone. mu is held.
func (s *incompleteSet) wake() {
	kept := s.waiters[:0]
	for _, w := range s.waiters {
		if s.head == nil || s.head.id > w.id {
			close(w.ch)
		} else {
			kept = append(kept, w)
		}
	}
	clear(s.waiters[len(kept):])
	s.waiters = kept
}

// oldest is the batch created first among those not Done.
func (s *incompleteSet) oldest() *ProducerBatch {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.head
}

// all copies the set.
func (s *incompleteSet) all() []*ProducerBatch {
	s.mu.Lock()
	defer s.mu.Unlock()
	out := make([]*ProducerBatch, 0, s.n)
	for b := s.head; b != nil; b = b.next {
		out = append(out, b)
	}
	return out
}

// BeginFlush makes every batch sendable without linger until EndFlush. Any goroutine.
func (a *RecordAccumulator) BeginFlush() {
	a.flushing.Add(1)
	if !mutants.On(mutants.FlushDoesNotWake) {
		a.cfg.Wake()
	}
}

// EndFlush ends what BeginFlush began.
func (a *RecordAccumulator) EndFlush() { a.flushing.Add(-1) }

// Flushing reports whether a flush is in progress.
func (a *RecordAccumulator) Flushing() bool { return a.flushing.Load() > 0 }

// AwaitFlush waits until every batch that exists now is Done, parts of split ones included. Any goroutine.
func (a *RecordAccumulator) AwaitFlush(ctx context.Context) error {
	s := &a.incomplete
	s.mu.Lock()
	if s.head == nil {
		s.mu.Unlock()
		return nil
	}
	w := flushWaiter{id: s.lastID, ch: make(chan struct{})}
	s.waiters = append(s.waiters, w)
	s.mu.Unlock()
	select {
	case <-w.ch:
		return nil
	case <-ctx.Done():
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for i := range s.waiters {
		if s.waiters[i].ch == w.ch {
			s.waiters = append(s.waiters[:i], s.waiters[i+1:]...)
			break
		}
	}
	return context.Cause(ctx)
}

// HasIncomplete reports whether any batch is not Done. Any goroutine.
func (a *RecordAccumulator) HasIncomplete() bool {
	a.incomplete.mu.Lock()
	defer a.incomplete.mu.Unlock()
	return a.incomplete.head != nil
}
