package accumulator

import (
	"time"

	"github.com/kafka-reservoir/producer/internal/invariants"
	"github.com/kafka-reservoir/producer/internal/mutants"
	"github.com/kafka-reservoir/producer/internal/prefetch"
	"github.com/kafka-reservoir/producer/protocol"
)

// Gate is what idempotence needs when a batch is drained. Its methods are called by the sender, with no lock held.
type Gate interface {
	// Next is the batch of a partition, whose first one is first, that may be sent to node now: first, one behind it that was sent
	// before, or nil.
	Next(first *ProducerBatch, node int32) *ProducerBatch
	// Stamp gives a batch that has none its producer id, epoch and sequence, by SetProducer.
	Stamp(b *ProducerBatch)
	// Prefetch asks for the memory of what it keeps of a partition, see PartitionState: Next will be asked soon.
	Prefetch(state any)
}

// Drain takes batches for one request to a node: the first of each partition that is ready there, in turn,
// up to maxBytes (a lone larger batch still goes, S-79) and to what the way to the node holds, and appends them to dst. g may be nil. The
// sender's.
//
// A partition that was passed over for want of room keeps its turn; one that was served goes to the end
// (ACC-01). One that may not go yet only holds up itself (EXT-01).
func (a *RecordAccumulator) Drain(dst []*ProducerBatch, nodeID int32, maxBytes int, now time.Time, g Gate) []*ProducerBatch {
	n := a.s.nodes[nodeID]
	if n == nil {
		return dst
	}
	a.s.drains++
	n.cut = n.cut && !a.mayFly(n)
	maxBytes = int(min(int64(maxBytes), a.requestLimit(n)))
	total, first := 0, len(dst)
	far := n.ready.at(prefetch.Ahead) // stays ahead of the first, which alone is taken out meanwhile
	for k := n.ready.n; k > 0 && a.mayFly(n); k-- {
		d := n.ready.head
		if far != nil {
			far.prefetch()
			if g != nil {
				g.Prefetch(far.gateState)
			}
			if far = far.next; far != nil {
				prefetch.Value(far)
			}
		}
		b, v := a.take(d, n, maxBytes-total, len(dst) == first, now, g)
		switch v {
		case taken:
			total += b.size
			dst = append(dst, b)
			d.place(nil)
			a.classify(d, now)
		case noRoom:
			k = 0
		case held:
			d.place(&a.s.gated)
		case nothing:
			a.classify(d, now)
			if d.in == &n.ready { // never here with nothing to take: it would spin
				d.place(nil)
			}
		}
	}
	if got := len(dst) - first; got > 0 {
		n.cut = int64(n.ready.n)*int64(total/got) >= int64(maxBytes)
		dst = a.piggyback(dst, n, maxBytes-total, now, g)
		n.share.release()
	}
	return dst
}

// mayFly reports whether more memory may be on its way to n: as much as is on its way to nobody. A broker that falls silent then keeps at most
// half of the buffer, the next one a quarter, and so on; with a buffer many times as large as a request it is no bound at all.
func (a *RecordAccumulator) mayFly(n *node) bool {
	return n.flight == 0 || n.flight < a.pool.Total()-a.s.flight || a.s.snapshot == nil || len(a.s.snapshot.Nodes()) < 2
}

// takesOff notes that b's memory is on its way to n, lands that it is not, or no longer.
func (a *RecordAccumulator) takesOff(b *ProducerBatch, n *node) {
	if b.isSplit {
		return
	}
	b.sentTo, b.lent = n, 0
	for _, s := range b.slabs {
		b.lent += int64(cap(s))
	}
	b.lentWire = int64(b.size)
	n.wire += b.lentWire
	n.flight += b.lent
	a.s.flight += b.lent
}

func (a *RecordAccumulator) landed(b *ProducerBatch) {
	if n := b.sentTo; n != nil {
		n.flight -= b.lent
		n.wire -= b.lentWire
		a.s.flight -= b.lent
		b.sentTo, b.lent, b.lentWire = nil, 0, 0
	}
}

// Flight is how much memory is on its way to a node. The sender's.
func (a *RecordAccumulator) Flight(id int32) int64 { return a.s.node(id).flight }

// piggyback adds open batches whose linger is more than half over: there is a request under way to
// their node, and one of their own would follow soon.
func (a *RecordAccumulator) piggyback(dst []*ProducerBatch, n *node, room int, now time.Time, g Gate) []*ProducerBatch {
	var next *deque
	for d := n.linger.head; d != nil && d.lingerEnds.Sub(now) <= a.cfg.Linger/2 && a.mayFly(n); d = next {
		next = d.next
		if d.drained == a.s.drains {
			continue // a request takes one batch of a partition (S-77)
		}
		b, v := a.take(d, n, room, false, now, g)
		switch v {
		case taken:
			room -= b.size
			dst = append(dst, b)
			d.place(nil)
			a.classify(d, now)
		case noRoom:
			return dst
		case held:
			d.place(&a.s.gated)
		case nothing:
			d.place(nil)
			a.classify(d, now)
		}
	}
	return dst
}

type takeResult int

const (
	taken   takeResult = iota
	noRoom             // the request is full
	held               // idempotence says not yet
	nothing            // nothing sendable: being compressed, or gone
)

// take pops the first batch of d, closed and stamped.
func (a *RecordAccumulator) take(d *deque, n *node, room int, only bool, now time.Time, g Gate) (*ProducerBatch, takeResult) {
	d.mu.Lock()
	b := d.front()
	if b != nil && g != nil {
		// The front stays the front without the lock: only this goroutine takes from there. An open batch is not closed
		// before it may go: until then it can as well collect more.
		d.mu.Unlock()
		if b = g.Next(b, n.id); b == nil {
			return nil, held
		}
		d.mu.Lock()
	}
	if b == nil {
		d.mu.Unlock()
		return nil, nothing
	}
	if b.is(stateOpen) {
		if b.codec == protocol.CodecNone && b.size > room && !only {
			d.mu.Unlock()
			return nil, noRoom
		}
		a.closeLocked(d, b)
	}
	if b.is(stateClosed) {
		d.mu.Unlock()
		a.seal.submit(b)
		d.mu.Lock()
	}
	if !b.is(stateSealed) {
		d.mu.Unlock()
		return nil, nothing
	}
	if b.size > room && !only {
		d.mu.Unlock()
		return nil, noRoom
	}
	if b.dirty && b.sends > 0 {
		// Its header has to change, and a writer still reads it: when that lets go, the partition is looked at again.
		d.mu.Unlock()
		return nil, held
	}
	b.ahead = b != d.front()
	d.aheadUntil = time.Time{}
	found := d.remove(b)
	d.mu.Unlock()
	invariants.Check(found, "the queue of %v changed under the sender", d.tp)
	b.count(0)
	a.takesOff(b, n)
	if g != nil && !b.stamped {
		g.Stamp(b)
	}
	if b.dirty {
		b.writeHeader()
	}
	d.drained = a.s.drains
	b.drained = now
	b.leaderEpoch = a.leaderEpoch(d)
	if mutants.On(mutants.TimeFromFirstSend) && b.attempts == 0 {
		b.created = now
	}
	b.attempts++
	return b, taken
}

// harmless bounds how far the back-off of a batch grows as long as it has not been tried for ten times as long: with its jitter, a linger and some round
// trips it is well within the quarter of a second in which a partition that is well again should be written to. 180 ms were just so.
const harmless = 150 * time.Millisecond

// Reenqueue puts a batch back to be sent again, where its records belong, not before the back-off is
// over. The sender's.
func (a *RecordAccumulator) Reenqueue(b *ProducerBatch, now time.Time) {
	if b.troubled.IsZero() {
		b.troubled = now
	}
	b.retryAt = now.Add(a.backoff.DelayIn(b.attempts-1-b.forgiven, now.Sub(b.troubled), harmless))
	a.landed(b)
	d := b.d
	d.mu.Lock()
	if !b.isSplit {
		b.moveShare(d.share.Load())
		b.count(b.size) // it waits again
	}
	if b.ahead {
		d.aheadUntil, d.aheadEpoch = b.retryAt, b.leaderEpoch
	}
	d.insert(b)
	d.mu.Unlock()
	if !d.muted {
		a.classify(d, now)
	}
}

// Unhold notes that a writer let go of the batch's bytes. The sender's.
func (a *RecordAccumulator) Unhold(b *ProducerBatch, now time.Time) {
	b.sends--
	invariants.Check(b.sends >= 0, "more writers let go of a batch than held it")
	if b.sends > 0 {
		return
	}
	if b.is(stateDone) {
		a.release(b)
		return
	}
	if b.dirty && b.d.in == &a.s.gated {
		a.classify(b.d, now)
	}
}

// Complete ends a batch that was written: base is the first record's offset, -1 if unknown; logAppend
// the broker's time, -1 if the records keep theirs. The sender's.
func (a *RecordAccumulator) Complete(b *ProducerBatch, base, logAppend int64) {
	a.finish(b, outcome{base: base, logAppend: logAppend})
}

// Fail ends a batch with err. perRecord, if not nil, gives each record's own. The sender's.
func (a *RecordAccumulator) Fail(b *ProducerBatch, err error, perRecord func(i int) error) {
	a.finish(b, outcome{base: -1, logAppend: -1, err: err, perRecord: perRecord})
}

// finish is the one place where a batch becomes Done.
func (a *RecordAccumulator) finish(b *ProducerBatch, out outcome) {
	invariants.Check(b.is(stateSealed), "a batch of %v ends while %v", b.d.tp, state(b.state.Load()))
	if b.is(stateDone) {
		return // the callers ask first; a second verdict would be told, and would tear the incomplete set
	}
	b.state.Store(int32(stateDone))
	b.out = out
	if b.res != nil {
		a.s.told += b.res.settle(out, b.slots, &a.s.spare)
	}
	if b.callbacks {
		b.refs.Add(1)
	}
	// Before the set forgets the batch, so that who waits for the set finds the callbacks queued.
	a.tell(b)
	a.incomplete.remove(b)
	if mutants.On(mutants.FreedInFlight) && b.sends > 0 && !b.isSplit {
		a.pool.Release(b.slabs)
		b.slabs = nil
	}
	if b.sends == 0 {
		a.release(b)
	}
}
