package accumulator

// untold is one partition's batches whose callbacks are still to come, in the order of their records. Guarded by the
// deque's mu.
//
// Callbacks of a partition come in that order. A batch that ends before an earlier one (it was refused for good while that
// one is sent again, or acknowledged while it is, without idempotence) keeps its callbacks until that one has ended, which
// the delivery timeout sees to: the earlier one's is over first.
type untold struct{ head, tail *ProducerBatch }

func (l *untold) push(b *ProducerBatch) { l.insertAfter(l.tail, b) }

// insertAfter links b behind at; nil means at the front.
func (l *untold) insertAfter(at, b *ProducerBatch) {
	b.older = at
	if at == nil {
		b.newer, l.head = l.head, b
	} else {
		b.newer, at.newer = at.newer, b
	}
	if b.newer == nil {
		l.tail = b
	} else {
		b.newer.older = b
	}
}

func (l *untold) unlink(b *ProducerBatch) {
	if b.older == nil {
		l.head = b.newer
	} else {
		b.older.newer = b.newer
	}
	if b.newer == nil {
		l.tail = b.older
	} else {
		b.newer.older = b.older
	}
	b.older, b.newer = nil, nil
}

// replace puts the parts of a split batch in its place.
func (l *untold) replace(b *ProducerBatch, parts []*ProducerBatch) {
	at := b.older
	l.unlink(b)
	for _, p := range parts {
		l.insertAfter(at, p)
		at = p
	}
}

// tell has the callbacks of b run, which has just ended, and of those that waited for it. The sender's.
func (a *RecordAccumulator) tell(b *ProducerBatch) {
	l := &b.d.untold
	b.d.mu.Lock()
	if !b.callbacks {
		l.unlink(b)
	}
	// The run of batches at the front that have ended is taken off; newer links what was taken.
	first := l.head
	var last *ProducerBatch
	for h := l.head; h != nil && h.is(stateDone); h = h.newer {
		last = h
	}
	if last == nil {
		b.d.mu.Unlock()
		return
	}
	l.head = last.newer
	if l.head == nil {
		l.tail = nil
	} else {
		l.head.older = nil
	}
	last.newer = nil
	b.d.mu.Unlock()
	for t := first; t != nil; {
		next := t.newer
		t.older, t.newer = nil, nil
		a.cfg.Done(t) // may make another batch of it
		t = next
	}
}
