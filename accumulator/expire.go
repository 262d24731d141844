package accumulator

import (
	"time"

	"github.com/kafka-reservoir/producer/internal/mutants"
	"github.com/kafka-reservoir/producer/protocol"
)

// sealGrace is when to look again at a batch whose time is over while it is being compressed: it cannot be
// ended then. The end of sealing wakes the sender, so this is only a backstop.
const sealGrace = 10 * time.Millisecond

// Expired takes the batches whose delivery timeout is over, oldest first: those that wait in a queue are
// taken out of it, of those in flight only the verdict is due. The caller ends each of them. The sender's.
//
// The oldest incomplete batch is the next to expire, wherever it is, so this looks at no queue.
func (a *RecordAccumulator) Expired(now time.Time) []*ProducerBatch {
	var out []*ProducerBatch
	a.incomplete.mu.Lock()
	for b := a.incomplete.head; b != nil && a.expiry(b) <= now.Sub(b.created); b = b.next {
		out = append(out, b)
	}
	a.incomplete.mu.Unlock()
	kept := out[:0]
	for _, b := range out {
		if a.Withdraw(b, now) {
			kept = append(kept, b)
		}
	}
	return kept
}

// expiry is the age at which b ends. A clock that jumped back makes ages negative: those count as none.
func (a *RecordAccumulator) expiry(b *ProducerBatch) time.Duration {
	if mutants.On(mutants.TimeFromFirstSend) && b.attempts == 0 {
		return time.Hour
	}
	return max(a.cfg.DeliveryTimeout, 1)
}

// NextExpiry is when the next batch's delivery timeout ends; zero: there is none. The sender's.
func (a *RecordAccumulator) NextExpiry(now time.Time) time.Time {
	b := a.incomplete.oldest()
	if b == nil {
		return time.Time{}
	}
	at := b.created.Add(a.cfg.DeliveryTimeout)
	if !at.After(now) {
		return now.Add(sealGrace)
	}
	return at
}

// Withdraw takes b out of its queue, if it is in one, with its bytes final. False: it is being compressed. The caller ends it.
// The sender's.
func (a *RecordAccumulator) Withdraw(b *ProducerBatch, now time.Time) bool {
	d := b.d
	d.mu.Lock()
	if b.is(stateOpen) {
		a.closeLocked(d, b)
	}
	if b.is(stateClosed) {
		// As it is: it will never be sent.
		if !b.state.CompareAndSwap(int32(stateClosed), int32(stateSealed)) {
			d.mu.Unlock()
			return false
		}
		b.codec = protocol.CodecNone
	}
	if !b.is(stateSealed) {
		d.mu.Unlock()
		return false
	}
	queued := d.remove(b)
	if queued {
		b.count(0)
	}
	if b.ahead {
		d.aheadUntil = time.Time{}
	}
	more := d.len() > 0
	d.mu.Unlock()
	if queued {
		if sh := d.share.Load(); sh != nil {
			sh.release()
		}
		if !d.muted {
			a.classify(d, now)
			if more {
				a.look.Store(true) // what stands behind it may be ready now, after Ready in this iteration
			}
		}
	}
	return true
}

// StartClosing makes every batch sendable at once and refuses new records. The sender's.
func (a *RecordAccumulator) StartClosing() { a.s.closing = true }

// Close makes Append fail from now on, waiting ones included. What was appended stays. Any goroutine.
func (a *RecordAccumulator) Close() {
	a.closed.Store(true)
	a.pool.Close()
	for _, t := range a.allTopics() {
		ds := t.deques.Load()
		if ds == nil {
			continue
		}
		for i := range *ds {
			if d := (*ds)[i].Load(); d != nil {
				// An append that was under way has entered its batch once its lock has been had; the next
				// one sees closed (S-56).
				d.mu.Lock()
				//lint:ignore SA2001 the empty section is the point
				d.mu.Unlock()
				if sh := d.share.Load(); sh != nil {
					sh.wakeAll()
				}
			}
		}
	}
	a.cfg.Wake()
}

// Closed reports whether Close was called.
func (a *RecordAccumulator) Closed() bool { return a.closed.Load() }

// Incomplete takes every batch that is not Done out of its queue, for a forced close: those drained
// too. The caller ends each. The sender's, after Close.
func (a *RecordAccumulator) Incomplete(now time.Time) []*ProducerBatch {
	a.seal.close() // whatever is being compressed ends first
	out := a.incomplete.all()
	kept := out[:0]
	for _, b := range out {
		if a.Withdraw(b, now) {
			kept = append(kept, b)
		}
	}
	return kept
}

// Undrained takes every batch that waits in a queue out of it; those in flight stay (ACC-14). A topic's name restricts it
// to that topic, "" means all. The caller ends each batch. The sender's.
func (a *RecordAccumulator) Undrained(topic string, now time.Time) []*ProducerBatch {
	var out []*ProducerBatch
	for _, b := range a.incomplete.all() {
		if topic != "" && b.d.tp.Topic != topic {
			continue
		}
		b.d.mu.Lock()
		queued := false
		for _, q := range b.d.q[b.d.head:] {
			queued = queued || q == b
		}
		b.d.mu.Unlock()
		if queued && a.Withdraw(b, now) {
			out = append(out, b)
		}
	}
	return out
}

// Shutdown ends the goroutines that compress.
func (a *RecordAccumulator) Shutdown() { a.seal.close() }
