package txn

import (
	"log/slog"
	"math"
	"time"

	"github.com/kafka-reservoir/producer/accumulator"
	"github.com/kafka-reservoir/producer/internal/mutants"
	"github.com/kafka-reservoir/producer/internal/prefetch"
	"github.com/kafka-reservoir/producer/protocol"
)

// Manager holds the producer id and every partition's sequence state (the idempotent half of Java's
// TransactionManager).
type Manager struct {
	log         *slog.Logger
	maxInFlight int // batches of one partition

	id    protocol.ProducerID
	fatal error

	partitions map[protocol.TopicPartition]*partition
	// bumping are partitions that need a new epoch and wait for the answers that are still due.
	bumping []*partition
}

// partition is one partition's sequence state. It outlives metadata: a topic that vanishes and comes
// back must not begin at 0 again under the same epoch (FC-006).
type partition struct {
	tp      protocol.TopicPartition
	id      protocol.ProducerID // the id and epoch its sequences belong to
	next    int32               // of the next batch without one
	acked   bool                // some batch under id was acknowledged: the leader, ackedBy, has state for us
	ackedBy int32
	ackedAt time.Time // when the newest such batch was opened
	// last is the highest sequence acknowledged under id; -1: none.
	last       int32
	lastOffset int64 // of the last record acknowledged, -1

	inFlight []*accumulator.ProducerBatch // stamped and not Done, by sequence
	onWire   int                          // of those, how many have an answer due
	node     int32                        // which node owes the answers, while any are due
	bump     bool                         // sequences have to begin anew, under a new epoch
	// gap, where hasGap, is a sequence that was not written. It explains why the leader takes none behind it.
	gap    int32
	hasGap bool
	// absent is how many batches at the front of inFlight the node absentAt has refused under their present stamp for their
	// sequence: that log does not have them, and sending them again as they are is of no use. It is counted anew when another node
	// is sent to, so where absent is not 0, absentAt is node.
	absent   int
	absentAt int32
}

// New makes a manager without a producer id. maxInFlight bounds the unacknowledged batches of a partition: at most 5,
// which is how many the brokers remember.
func New(maxInFlight int, log *slog.Logger) *Manager {
	if log == nil {
		log = slog.New(slog.DiscardHandler)
	}
	return &Manager{
		log: log, maxInFlight: min(maxInFlight, 5), id: protocol.NoProducerID,
		partitions: map[protocol.TopicPartition]*partition{},
	}
}

// NeedsID reports whether a producer id has to be fetched before anything can be drained.
func (m *Manager) NeedsID() bool { return !m.id.Valid() && m.fatal == nil }

// ID is the current producer id and epoch.
func (m *Manager) ID() protocol.ProducerID { return m.id }

// SetID takes the producer id a broker gave.
func (m *Manager) SetID(id protocol.ProducerID) {
	m.id = id
	m.log.Info("producer id", "producer_id", id.ID, "epoch", id.Epoch)
	m.applyBumps()
}

// Fail puts the producer out of action for good.
func (m *Manager) Fail(err error) {
	if m.fatal == nil {
		m.fatal = err
	}
}

// Err is what put the producer out of action, or nil.
func (m *Manager) Err() error { return m.fatal }

// of is partition for a batch, which knows a shorter way: to look up a name five times a batch was 1 % of all.
func (m *Manager) of(b *accumulator.ProducerBatch) *partition {
	state := b.PartitionState()
	p, ok := (*state).(*partition)
	if !ok {
		p = m.partition(b.TopicPartition())
		*state = p
	}
	return p
}

// Prefetch implements accumulator.Gate.
func (m *Manager) Prefetch(state any) {
	if p, ok := state.(*partition); ok {
		prefetch.Value(p)
	}
}

func (m *Manager) partition(tp protocol.TopicPartition) *partition {
	p := m.partitions[tp]
	if p == nil {
		p = &partition{tp: tp, id: protocol.NoProducerID, last: -1, lastOffset: -1}
		m.partitions[tp] = p
	}
	return p
}

// SetNext makes next the sequence of a partition's next batch, for tests of what happens after two billion records.
func (m *Manager) SetNext(tp protocol.TopicPartition, next int32) {
	p := m.partition(tp)
	p.restart(m.id)
	p.next = next
}

// memory is how long a leader is taken to remember a producer that sends it nothing. Brokers keep one for a day by default
// (producer.id.expiration.ms); what a shorter time costs is a round trip after each pause.
const memory = time.Minute

// Next is the batch of a partition, whose first one is first, that may be sent to node now. nil: none.
func (m *Manager) Next(first *accumulator.ProducerBatch, node int32) *accumulator.ProducerBatch {
	if !m.id.Valid() || m.fatal != nil {
		return nil
	}
	p := m.of(first)
	if p.onWire > 0 && p.node != node {
		// The leader moved. While the old one still owes answers nothing goes to the new one: what it took would push
		// the batches in doubt out of the five that brokers remember, and their retry would look like a gap (FC-009).
		return nil
	}
	if p.bump {
		return p.probe(node)
	}
	if first.Stamped() {
		// A retry: after an error all answers are collected first, then the batches go out again one at a
		// time, in sequence order (SND-17, FC-001).
		if p.onWire == 0 && len(p.inFlight) > 0 && p.inFlight[0] == first {
			return first
		}
		return nil
	}
	if p.onWire > len(p.inFlight) {
		return nil // a batch has expired in flight: its answer comes first (FC-004)
	}
	if p.id != m.id && len(p.inFlight) > 0 && !mutants.On(mutants.BumpWithOthersUnresolved) {
		return nil // the epoch moved on elsewhere: adopted when the old one's batches are through (SND-21)
	}
	if len(p.inFlight) == 0 {
		return first
	}
	if p.onWire < len(p.inFlight) || p.inFlight[0].Attempts() > 1 {
		return nil // something is being retried
	}
	// One in flight until the leader has acknowledged one: before that it may have no state, and would take any sequence for the
	// first (KAFKA-15591, FC-001). That goes for each leader anew, some brokers forget producers when a leader moves, and after a pause.
	known := p.acked && p.ackedBy == node && first.Created().Sub(p.ackedAt) < memory
	if (known || mutants.On(mutants.TwoBeforeFirstAck)) && len(p.inFlight) < m.maxInFlight {
		return first
	}
	return nil
}

// probe is what is to be sent to node while a new epoch is wanted: what may have been written has to be resolved under the old one first,
// each batch by its own verdict, and what stands before it goes out again for that, in order, unless the node does not have it.
// Sending the same bytes again is always safe; all else waits for the new epoch.
//
// That a batch is missing does not say that those behind it are: a log that has forgotten the producer takes any sequence for the
// first, also that of the second of two in flight. (Simulation: inferring it doubled the second.)
func (p *partition) probe(node int32) *accumulator.ProducerBatch {
	if p.onWire > 0 || !p.anyUnknown() {
		return nil
	}
	if i := p.front(node); i < len(p.inFlight) {
		return p.inFlight[i]
	}
	return nil
}

// front is where the first batch stands whose fate node can still tell. Parts of a batch that was too large, which were never sent under
// its stamp, are passed over.
func (p *partition) front(node int32) int {
	if !p.bump {
		return 0
	}
	i := 0
	if p.absentAt == node {
		i = p.absent
	}
	for i < len(p.inFlight) && p.inFlight[i].Attempts() == 0 {
		i++
	}
	return i
}

// isFront reports whether b, which the partition's node has just answered, is that batch.
func (p *partition) isFront(b *accumulator.ProducerBatch) bool {
	i := p.front(p.node)
	return i < len(p.inFlight) && p.inFlight[i] == b
}

// notThere notes that the node does not have b, the first batch whose fate it could tell, and that the partition has to begin anew.
func (m *Manager) notThere(p *partition, b *accumulator.ProducerBatch) {
	b.SetMayBeWritten(false)
	p.missing(b.Sequence())
	p.absent, p.absentAt = p.front(p.node)+1, p.node
	b.StartBackoffAnew()
	b.HoldUpNobody()
	m.wantBump(p)
}

// overtaken reports whether a later batch than b was acknowledged. If b is not in the log then, it cannot be put there in
// its place any more.
func (p *partition) overtaken(b *accumulator.ProducerBatch) bool {
	return p.last >= 0 && b.Producer() == p.id && before(b.Sequence(), p.last)
}

// Stamp gives b its sequence. The one place where sequences are given out.
func (m *Manager) Stamp(b *accumulator.ProducerBatch) {
	p := m.of(b)
	if p.id != m.id {
		p.restart(m.id)
	}
	b.SetProducer(p.id, p.next)
	p.next = protocol.AddSequence(p.next, b.Count())
	p.inFlight = append(p.inFlight, b)
}

// restart begins at sequence 0 under id.
func (p *partition) restart(id protocol.ProducerID) {
	p.id, p.next, p.acked, p.last, p.lastOffset, p.hasGap, p.absent = id, 0, false, -1, -1, false, 0
}

// Sent notes that b was handed to node's connection.
func (m *Manager) Sent(b *accumulator.ProducerBatch, node int32) {
	p := m.of(b)
	p.onWire++
	p.node = node
	if p.absentAt != node {
		p.absent = 0
	}
}

// Landed notes that b's answer came, or never will. What it was is told next, by Succeeded,
// Failed, OutOfOrder, Lost or Splitting; where by none of them, b is sent again as it is.
func (m *Manager) Landed(b *accumulator.ProducerBatch) { m.of(b).onWire-- }

// Succeeded takes an acknowledged batch off the books. offset is its first record's, or -1. The caller
// ends the batch afterwards, and then calls Settle.
func (m *Manager) Succeeded(b *accumulator.ProducerBatch, offset int64) {
	p := m.of(b)
	p.drop(b)
	if b.Producer() == p.id {
		p.acked, p.ackedBy, p.ackedAt = true, p.node, b.Created()
		if p.hasGap && !before(b.Sequence(), p.gap) {
			p.hasGap = false // the leader has taken it, or something behind it
		}
		if last := protocol.AddSequence(b.Sequence(), b.Count()-1); p.last < 0 || before(p.last, last) {
			p.last = last
		}
		if offset >= 0 {
			p.lastOffset = max(p.lastOffset, offset+int64(b.Count())-1)
		}
	}
}

// Failed takes a batch that will never be acknowledged off the books: refused for good, or expired. Its
// sequence is burnt, whether or not it was written, so the partition needs a new epoch. The caller ends the
// batch afterwards, and then calls Settle.
func (m *Manager) Failed(b *accumulator.ProducerBatch) {
	p := m.of(b)
	if !p.drop(b) {
		return // never had a sequence
	}
	if b.Producer() == p.id {
		if !b.MayBeWritten() {
			p.missing(b.Sequence())
		}
		m.wantBump(p)
	}
}

// missing notes that the leader does not have sequence s. One behind which something was acknowledged is no gap: that log took what is
// behind it, and so may take more.
func (p *partition) missing(s int32) {
	if p.last >= 0 && before(s, p.last) {
		return
	}
	if !p.hasGap || before(s, p.gap) {
		p.gap, p.hasGap = s, true
	}
}

// before compares sequences, which wrap.
func before(a, b int32) bool { return a != b && (uint32(b)-uint32(a))&0x7fffffff < 1<<30 }

// OutOfOrder takes an answer OUT_OF_ORDER_SEQUENCE to b. True: it is to be sent again, after an unresolved earlier batch that explains the
// answer, or, where nothing does, under the next epoch, in which the partition begins anew. False: a log that had forgotten the producer took a later
// batch for the first, so that b cannot be put in its place any more.
//
// patience is for how long after its connection was lost an attempt may still be on its way in a slow broker. Until then b is sent again as it is:
// under another epoch it could come twice. (Once a batch of the next epoch is in the log, brokers refuse what comes late under the old
// one; the danger is only what comes before.) Behind a gap the log takes it neither now nor later.
func (m *Manager) OutOfOrder(b *accumulator.ProducerBatch, now time.Time, patience time.Duration) bool {
	p := m.of(b)
	if b.Producer() != p.id {
		return true
	}
	if p.overtaken(b) {
		return false
	}
	front := p.isFront(b)
	behindGap := front && p.hasGap && before(p.gap, b.Sequence())
	if b.Unanswered() && now.Sub(b.LostAt()) < patience && !behindGap {
		return true
	}
	// Attempts that were answered, or are long gone, have done what they did: they left nothing in the log.
	if front {
		m.notThere(p, b)
	} else {
		b.SetMayBeWritten(false)
		p.missing(b.Sequence())
	}
	return true
}

// Lost takes an answer UNKNOWN_PRODUCER_ID to b: the broker has forgotten the producer. False: whether an earlier attempt wrote b can no longer
// be found out, and sending it again could double it; or a later one was acknowledged, and b cannot be put in its place. True: send it
// again, as it is or, where it is certain not to be in the log, under the next epoch.
//
// logStart is where the partition's log begins; known says that the answer's version has it at all (Produce v5). Where it is -1
// although it could be known, the leader was not ready to tell (SND-35).
func (m *Manager) Lost(b *accumulator.ProducerBatch, logStart int64, known bool) bool {
	p := m.of(b)
	if b.Producer() != p.id || !p.isFront(b) || known && logStart < 0 {
		return true
	}
	if p.overtaken(b) {
		return false
	}
	// With everything acknowledged gone from the log, so is the state that came from it (retention, SND-33): that explains the
	// answer, and a batch written later would have left state. So does a gap: brokers that answer this take no sequence but 0 for the first.
	if b.MayBeWritten() && !(known && logStart > p.lastOffset) && !(p.hasGap && before(p.gap, b.Sequence())) {
		return false
	}
	m.notThere(p, b)
	return true
}

// Splitting notes that b was refused as too large and will be sent in parts. The refusal says that nothing stands in the
// log for its sequence; the parts can then have its sequences. Where an earlier attempt's fate is
// unknown, other bytes must not come under the same sequences all the same: the epoch moves on first.
func (m *Manager) Splitting(b *accumulator.ProducerBatch) {
	p := m.of(b)
	if b.Producer() == p.id {
		p.missing(b.Sequence())
		if b.MayBeWritten() {
			m.wantBump(p)
		}
	}
}

// Split puts the parts of a batch in its place; they share its sequences.
func (m *Manager) Split(b *accumulator.ProducerBatch, parts []*accumulator.ProducerBatch) {
	p := m.of(b)
	for i := range p.inFlight {
		if p.inFlight[i] == b {
			rest := append([]*accumulator.ProducerBatch(nil), p.inFlight[i+1:]...)
			p.inFlight = append(append(p.inFlight[:i], parts...), rest...)
			return
		}
	}
}

// drop takes b out of inFlight. False: it was not there.
func (p *partition) drop(b *accumulator.ProducerBatch) bool {
	for i := range p.inFlight {
		if p.inFlight[i] == b {
			copy(p.inFlight[i:], p.inFlight[i+1:])
			p.inFlight[len(p.inFlight)-1] = nil
			p.inFlight = p.inFlight[:len(p.inFlight)-1]
			if i < p.absent {
				p.absent--
			}
			return true
		}
	}
	return false
}

func (m *Manager) wantBump(p *partition) {
	if p.bump {
		return
	}
	p.bump = true
	m.bumping = append(m.bumping, p)
}

// Settle moves the epoch on for the partitions that need it, as soon as no answer is due there and no
// batch's fate is unknown. To be called after the answers of a request, or an expiry, were told. True:
// partitions that were held back may go on.
func (m *Manager) Settle() bool {
	if len(m.bumping) == 0 || !m.id.Valid() {
		return false // without a producer id, SetID goes on
	}
	released, ready := false, false
	kept := m.bumping[:0]
	for _, p := range m.bumping {
		if len(p.inFlight) == 0 && p.last >= 0 && protocol.AddSequence(p.last, 1) == p.next {
			// A later batch was acknowledged, so what had been in doubt was written: nothing is missing (SND-25).
			p.bump, p.hasGap = false, false
			released = true
			continue
		}
		ready = ready || p.settled()
		kept = append(kept, p)
	}
	clear(m.bumping[len(kept):])
	m.bumping = kept
	if !ready {
		return released
	}
	if m.id.Epoch == math.MaxInt16 {
		m.log.Info("producer epoch exhausted: a new producer id is needed", "producer_id", m.id.ID)
		m.id = protocol.NoProducerID
		return true
	}
	m.id.Epoch++
	m.log.Info("producer epoch bumped", "producer_id", m.id.ID, "epoch", m.id.Epoch)
	m.applyBumps()
	return true
}

// Unplaceable is a batch that no log has, and that a later one has overtaken, so that it cannot be put in its place any more. nil: there
// is none. The caller fails it and asks again, before it calls Settle.
func (m *Manager) Unplaceable() *accumulator.ProducerBatch {
	for _, p := range m.bumping {
		if p.onWire > 0 {
			continue
		}
		for i, b := range p.inFlight {
			if p.overtaken(b) && (i < p.absent || b.Attempts() == 0) {
				return b
			}
		}
	}
	return nil
}

// settled reports whether the partition could begin anew: nothing is under way and nothing in doubt.
func (p *partition) settled() bool { return p.onWire == 0 && !p.anyUnknown() }

// anyUnknown reports whether a batch may have been written under its epoch: an attempt says so, or that the log has a later one.
func (p *partition) anyUnknown() bool {
	for _, b := range p.inFlight {
		if (b.MayBeWritten() || p.overtaken(b)) && !mutants.On(mutants.BumpWithOthersUnresolved) {
			return true
		}
	}
	return false
}

// applyBumps gives the batches of the partitions that can begin anew new sequences, from 0, under the new epoch.
func (m *Manager) applyBumps() {
	kept := m.bumping[:0]
	for _, p := range m.bumping {
		if !p.settled() {
			kept = append(kept, p)
			continue
		}
		p.bump = false
		p.restart(m.id)
		for _, b := range p.inFlight {
			b.SetMayBeWritten(false)
			b.SetUnanswered(false)
			if mutants.On(mutants.QueuedKeepsSequence) {
				p.next = b.Sequence()
			}
			b.SetProducer(p.id, p.next)
			p.next = protocol.AddSequence(p.next, b.Count())
		}
	}
	clear(m.bumping[len(kept):])
	m.bumping = kept
}
