package accumulator

import (
	"time"

	"github.com/kafka-reservoir/producer/internal/prefetch"
	"github.com/kafka-reservoir/producer/metadata"
	"github.com/kafka-reservoir/producer/partitioner"
)

// node is the sender's view of a broker that leads partitions with batches.
type node struct {
	id    int32
	share *share

	ready  dequeList // something is to be sent now
	linger dequeList // an open batch that may still wait, by the time its wait ends

	canSend  bool // a request could go now, as far as client and sender know
	wasFull  bool // its share was, for those that may not wait, when open batches were looked at last
	inFlight int
	flight   int64 // memory of the batches that were drained for it and have not come back
	wire     int64 // and their bytes in requests
	cut      bool  // what the last drain left would fill another request, going by the mean size of what it took
	pipe     int64 // see SetPipe; 0: not known
	grown    int64 // so many bytes of filled slabs make its open batches sendable before linger: the request is large enough

	// For the availability time-out: when it last had data and could take it, or only had data (SND-10).
	readyAt, drainedAt time.Time
}

// senderState is all that only the sender touches: where each partition with batches stands. Every
// partition with work is in exactly one list, so that an iteration costs what is to be done, not the number
// of partitions. (Walking all deques was O(partitions) a loop.)
type senderState struct {
	nodes    map[int32]*node
	ordered  []*node // as in nodes, in order of first use: nothing is decided by map order
	snapshot *metadata.Snapshot

	// parked is the share of all partitions that nothing can be sent for: they have no leader, or back off. They must not
	// hold up the other partitions of a node, nor take the whole buffer.
	parked   *share
	noLeader dequeList // their partition has no leader that is known
	backoff  dequeList // their first batch waits to be retried
	gated    dequeList // idempotence does not let their first batch go yet
	retries  retryHeap

	flight    int64      // of all nodes together
	spare     spareSlots // for results
	told      int        // how many who waited for a record were woken; see TakeTold
	closing   bool
	pass      uint64    // counts calls of Ready, to name each topic once
	taken     []*deque  // scratch for the signals taken
	unknown   []string  // topics in noLeader, for the result
	readyIDs  []int32   // for the result
	nodeIDs   []int32   // for Nodes
	choosable []int32   // scratch for load: the partitions that may be chosen
	lengths   []int     // and how long their queues are
	drains    uint64    // how many there were, to know what the present one has taken from
	loadedAt  time.Time // when the sticky partitioners were told the loads last
	exhausts  int       // where to go on with the oldest partitions when memory is short
}

func (s *senderState) init(a *RecordAccumulator) {
	s.nodes = map[int32]*node{}
	s.parked = newShare(-1)
	// Nothing is drained from there, so half of the buffer is the bound for everybody.
	s.parked.setLimits(a.pool.Total()/2, a.pool.Total()/2)
	s.parked.wakeGrown.Store(never)
}

func (s *senderState) node(id int32) *node {
	n := s.nodes[id]
	if n == nil {
		n = &node{id: id, share: newShare(id), grown: shareFloor / 2}
		s.nodes[id] = n
		s.ordered = append(s.ordered, n)
	}
	return n
}

// ReadyResult says what there is to send.
type ReadyResult struct {
	// Nodes have something sendable, whether or not they can take it. Valid until the next Ready.
	Nodes []int32
	// Next is when to look again if nothing else happens; zero: not by time alone.
	Next time.Time
	// Busy: something was appended since the last Ready, so that more will follow.
	Busy bool
	// UnknownLeader are topics with batches for partitions without a leader (S-73, S-75).
	UnknownLeader []string
}

// SetNode tells of a node whether a request could go to it now, if there is one to be made (false: an answer or time comes first), and how many are
// in flight. To be called before Ready for each of Nodes. The sender's.
func (a *RecordAccumulator) SetNode(id int32, canSend bool, inFlight int) {
	n := a.s.node(id)
	n.canSend, n.inFlight = canSend, inFlight
}

// Nodes lists the nodes that ever had batches, in order of first use. The sender's.
func (a *RecordAccumulator) Nodes() []int32 {
	a.s.nodeIDs = a.s.nodeIDs[:0]
	for _, n := range a.s.ordered {
		a.s.nodeIDs = append(a.s.nodeIDs, n.id)
	}
	return a.s.nodeIDs
}

// Ready takes in what happened since the last call and says which nodes have something to be sent.
// The sender's, once an iteration.
func (a *RecordAccumulator) Ready(snapshot *metadata.Snapshot, now time.Time) ReadyResult {
	s := &a.s
	moved := s.snapshot != snapshot
	s.snapshot = snapshot
	busy := a.takeSignals(now)
	if moved {
		a.rehome(now)
	}
	for {
		d, ok := s.retries.due(now)
		if !ok {
			break
		}
		if d.in == &s.backoff {
			a.classify(d, now)
		}
	}
	all := s.closing || a.flushing.Load() > 0
	for _, n := range s.ordered {
		for d := n.linger.head; d != nil && (all || !d.lingerEnds.After(now)); d = n.linger.head {
			a.classify(d, now)
			if d.in == &n.linger { // an urgent look ahead was wrong: not again in this call
				break
			}
		}
		a.readyWhenGrown(n)
	}
	if a.short.Swap(false) || a.pool.Waiting() > 0 {
		a.readyOldest()
	}
	res := ReadyResult{Nodes: s.readyIDs[:0], Busy: busy}
	for _, n := range s.ordered {
		if n.ready.n > 0 {
			res.Nodes = append(res.Nodes, n.id)
			if n.canSend && a.mayFly(n) || n.readyAt.IsZero() { // the first time, it may be that it is only being connected
				n.drainedAt = now
			}
			n.readyAt = now
		}
		if d := n.linger.head; d != nil && (res.Next.IsZero() || d.lingerEnds.Before(res.Next)) {
			res.Next = d.lingerEnds
		}
	}
	s.readyIDs = res.Nodes
	if at, ok := s.retries.next(); ok && (res.Next.IsZero() || at.Before(res.Next)) {
		res.Next = at
	}
	s.unknown = s.unknown[:0]
	s.pass++
	for d := s.noLeader.head; d != nil; d = d.next {
		if d.topic.asked != s.pass {
			d.topic.asked = s.pass
			s.unknown = append(s.unknown, d.tp.Topic)
		}
	}
	res.UnknownLeader = s.unknown
	if moved || now.Sub(s.loadedAt) >= loadEvery || now.Before(s.loadedAt) {
		s.loadedAt = now
		if a.cfg.Stripes > 1 {
			for _, t := range a.allTopics() {
				t.sticky.review(a, t)
			}
		}
		if a.cfg.Adaptive {
			a.refreshLoad() // of new stripes too
		}
	}
	if moved {
		a.leaveLeaderless()
	}
	return res
}

// takeSignals looks at every deque that changed.
func (a *RecordAccumulator) takeSignals(now time.Time) (any bool) {
	a.look.Store(false)
	a.signals.mu.Lock()
	taken := a.signals.list
	a.signals.list = a.s.taken[:0]
	a.signals.mu.Unlock()
	for i, d := range taken {
		if far := i + prefetch.Ahead; far < len(taken) {
			prefetch.Value(taken[far])
		}
		d.mu.Lock()
		d.signalled = false
		d.mu.Unlock()
		a.classify(d, now)
	}
	any = len(taken) > 0
	clear(taken)
	a.s.taken = taken
	return any
}

// classify puts d into the list where its first batch belongs.
func (a *RecordAccumulator) classify(d *deque, now time.Time) {
	s := &a.s
	if d.muted {
		d.place(nil)
		return
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	b := d.front()
	d.expected = expected{}
	if b == nil || b.is(stateClosed) || b.is(stateSealing) {
		// Nothing there, or being compressed: whoever changes that signals.
		d.place(nil)
		if d.share.Load() == s.parked {
			a.home(d, false)
		}
		return
	}
	d.expect(b)
	until := a.backsOffUntil(d, b)
	n := a.home(d, until.After(now))
	switch {
	case n == nil:
		d.place(&s.noLeader)
		return
	case until.After(now):
		d.place(&s.backoff)
		d.retryGen++
		s.retries.push(retryEntry{at: until, d: d, gen: d.retryGen})
		return
	}
	if b.attempts > 0 || !b.is(stateOpen) || s.closing || a.flushing.Load() > 0 || b.res != nil && b.res.urgent.Load() {
		d.place(&n.ready)
		return
	}
	ends := b.created.Add(a.cfg.Linger)
	if !ends.After(now) {
		// It may stay open for long if the node cannot take it: a shared reading of the clock would then go stale.
		b.precise = b.precise || a.lingers || !n.canSend
		d.place(&n.ready)
		return
	}
	if d.in != &n.linger || !d.lingerEnds.Equal(ends) {
		d.place(nil)
		d.lingerEnds = ends
		n.linger.pushByLinger(d)
	}
}

// home finds the node of d's leader in the snapshot, and counts d's batches for it, unless d backs off. d.mu is held.
func (a *RecordAccumulator) home(d *deque, backsOff bool) *node {
	d.node = a.leader(d)
	if d.node == nil || backsOff {
		d.countFor(a.s.parked)
	} else {
		d.countFor(d.node.share)
	}
	return d.node
}

// leader finds the node of d's leader in the snapshot.
func (a *RecordAccumulator) leader(d *deque) *node {
	if a.s.snapshot == nil {
		return nil
	}
	t := a.s.snapshot.Topic(d.tp.Topic)
	if t == nil {
		return nil
	}
	id := t.Leader(d.tp.Partition)
	switch {
	case id < 0:
		return nil
	case d.node != nil && d.node.id == id:
		return d.node
	}
	return a.s.node(id)
}

// countFor makes d's batches, and those that will be appended, count for sh. d.mu is held.
func (d *deque) countFor(sh *share) {
	old := d.share.Load()
	if old == sh {
		return
	}
	d.share.Store(sh)
	for _, b := range d.q[d.head:] {
		b.moveShare(sh)
	}
	if old != nil && old.waiting.Load() > 0 {
		old.wakeAll() // who waits for this partition has something else to wait for now, or nothing
	}
}

// backsOffUntil is when d, whose first batch is b, may be sent from again: when the back-off of b is over, and of what was last sent
// ahead of it. Where the partition has a newer leader than at that attempt, which was the first since, the retry need not back off
// (KIP-951, ACC-28, S-73).
func (a *RecordAccumulator) backsOffUntil(d *deque, b *ProducerBatch) (until time.Time) {
	changed := func(epoch int32) bool { return epoch >= 0 && a.leaderEpoch(d) > epoch }
	if b.attempts > 0 && !changed(b.leaderEpoch) {
		until = b.retryAt
	}
	if d.aheadUntil.After(until) && !changed(d.aheadEpoch) {
		until = d.aheadUntil
	}
	return until
}

func (a *RecordAccumulator) leaderEpoch(d *deque) int32 {
	if t := a.s.snapshot.Topic(d.tp.Topic); t != nil {
		return t.LeaderEpoch(d.tp.Partition)
	}
	return -1
}

// rehome looks at every partition with work again, after the metadata changed. The others, whose queue is empty or
// waits for something else, need to know their leader too: what is appended next is counted for it, held
// against its bounds, and may have to wake the sender for it.
func (a *RecordAccumulator) rehome(now time.Time) {
	s := &a.s
	lists := []*dequeList{&s.noLeader, &s.backoff}
	for _, n := range s.ordered {
		lists = append(lists, &n.ready, &n.linger)
	}
	var all []*deque
	for _, l := range lists {
		for d := l.head; d != nil; d = d.next {
			all = append(all, d)
		}
	}
	for _, d := range all {
		a.classify(d, now)
	}
	for _, t := range a.allTopics() {
		ds := t.deques.Load()
		if ds == nil {
			continue
		}
		for i := range *ds {
			if d := (*ds)[i].Load(); d != nil && (d.in == nil || d.in == &s.gated) {
				d.mu.Lock()
				a.home(d, false)
				d.mu.Unlock()
			}
		}
	}
}

// readyWhenGrown makes open batches sendable before their time when enough has come together for a
// request, or when appends wait for the node's share or are refused for it: lingering would only make them wait. Behind a request in flight
// what lingers can wait for the answer, unless the way has room for more and the share is full: appends that can go elsewhere then do, and nobody waits.
func (a *RecordAccumulator) readyWhenGrown(n *node) {
	if n.linger.n == 0 || !n.canSend {
		return
	}
	waiting := n.share.waiting.Load() > 0
	if n.wasFull = n.share.full(false); !waiting && !n.wasFull && (n.share.unsent.Load() < n.grown || n.inFlight > 0 && (n.wire >= n.pipe || !n.share.full(true))) {
		return
	}
	// Those with filled slabs are what made up the bytes; the others go on collecting.
	before := n.ready.n
	for d := n.linger.head; d != nil; {
		next := d.next
		if d.openCounted.Load() {
			d.place(&n.ready)
		}
		d = next
	}
	if waiting && n.ready.n == before && n.ready.n == 0 {
		for d := n.linger.head; d != nil; d = n.linger.head {
			d.place(&n.ready)
		}
	}
}

// readyOldest makes the partitions that have waited longest sendable, up to a quarter of the memory:
// somebody waits for memory, or was refused for want of it (S-72). Sending everything made batches of one record at 10,000 partitions.
func (a *RecordAccumulator) readyOldest() {
	s := &a.s
	budget := a.pool.Total() / 4
	for range len(s.ordered) {
		if budget <= 0 {
			break // the next time goes on with the node after
		}
		n := s.ordered[s.exhausts%len(s.ordered)]
		s.exhausts++
		for d := n.linger.head; d != nil && budget > 0; d = n.linger.head {
			d.mu.Lock()
			for _, b := range d.q[d.head:] {
				if b.is(stateOpen) {
					budget -= int64(b.size)
				} else {
					budget -= int64(b.rawSize) // size is the sealer's until it is done
				}
			}
			d.mu.Unlock()
			d.place(&n.ready)
		}
	}
}

// loadEvery is how often the sticky partitioners are told how long the queues are. It costs a look at every partition:
// Java's, at every iteration, would be most of the work with 10,000 of them.
const loadEvery = 100 * time.Millisecond

// refreshLoad gives the sticky partitioners the lengths of the partitions' queues, as weights, and
// leaves out those of nodes that have taken nothing for longer than the availability time-out (KIP-794).
func (a *RecordAccumulator) refreshLoad() {
	if a.s.snapshot == nil {
		return
	}
	for _, t := range a.allTopics() {
		md, ds := a.s.snapshot.Topic(t.Name), t.deques.Load()
		if md == nil || ds == nil {
			continue
		}
		// Also nil is told: a load from before the topic grew would keep its new partitions out for ever.
		load, local := a.load(md, md.Available(), *ds), md.Local()
		for _, s := range t.sticky.all {
			s.SetLoad(load)
		}
		if len(local) > 0 {
			load = a.load(md, local, *ds)
			for _, s := range t.sticky.all {
				s.SetLocalLoad(load)
			}
		}
	}
}

// leaveLeaderless has the sticky partitioners leave partitions that lost their leader, now rather than when they have had
// their bytes: until then records that could go anywhere would wait there, or expire (FC-057).
func (a *RecordAccumulator) leaveLeaderless() {
	if a.s.snapshot == nil {
		return
	}
	for _, t := range a.allTopics() {
		if md := a.s.snapshot.Topic(t.Name); md != nil {
			for _, s := range t.sticky.all {
				s.Recheck(md)
			}
		}
	}
}

var _ partitioner.Partitions = (*metadata.Topic)(nil)

// Recheck looks at b's partition again: something that may have held it back changed. The sender's.
func (a *RecordAccumulator) Recheck(b *ProducerBatch, now time.Time) { a.recheck(b.d, now) }

func (a *RecordAccumulator) recheck(d *deque, now time.Time) {
	if d.in == &a.s.gated || d.in == nil {
		a.classify(d, now)
	}
}

// RecheckAll looks again at all partitions that idempotence held back. The sender's.
func (a *RecordAccumulator) RecheckAll(now time.Time) {
	if a.s.gated.n > 0 {
		a.look.Store(true) // it may be after Ready in this iteration
	}
	for n := a.s.gated.n; n > 0; n-- {
		a.classify(a.s.gated.head, now)
	}
}

// Mute keeps a partition from being drained until Unmute: one batch of it is in flight and order must
// hold (max.in.flight 1; S-83). The sender's.
func (a *RecordAccumulator) Mute(b *ProducerBatch) {
	b.d.muted = true
	b.d.place(nil)
}

// Unmute ends Mute.
func (a *RecordAccumulator) Unmute(b *ProducerBatch, now time.Time) {
	b.d.muted = false
	a.classify(b.d, now)
}

// HasUndrained reports whether any batch waits to be sent. The sender's.
func (a *RecordAccumulator) HasUndrained() bool {
	a.signals.mu.Lock()
	n := len(a.signals.list)
	a.signals.mu.Unlock()
	if n > 0 || a.s.noLeader.n+a.s.backoff.n+a.s.gated.n > 0 {
		return true
	}
	for _, n := range a.s.ordered {
		if n.ready.n+n.linger.n > 0 {
			return true
		}
	}
	return false
}

// Queued reports whether something is to be sent, or has just come in, and whether that is much: a whole slab at least. The sender's.
func (a *RecordAccumulator) Queued() (some, much bool) {
	a.signals.mu.Lock()
	some = len(a.signals.list) > 0
	a.signals.mu.Unlock()
	for _, n := range a.s.ordered {
		if n.share.unsent.Load() > 0 {
			return true, true
		}
		some = some || n.ready.n > 0
	}
	return some, false
}

// TakeTold is how many of those who wait for a record were woken since it was asked last. The sender's.
func (a *RecordAccumulator) TakeTold() int {
	told := a.s.told
	a.s.told = 0
	return told
}

// littleSignals is how many partitions that changed are little to look at.
const littleSignals = 64

// LittleToDo reports whether the next Ready is a matter of microseconds: nothing has changed in the metadata, and few partitions have. The
// sender's.
func (a *RecordAccumulator) LittleToDo(snapshot *metadata.Snapshot) bool {
	if a.s.snapshot != snapshot || a.pool.Waiting() > 0 || a.short.Load() {
		return false
	}
	a.signals.mu.Lock()
	defer a.signals.mu.Unlock()
	return len(a.signals.list) <= littleSignals
}

// PrepareSleep says when the sender will wake by itself. It is false, and the sender must not sleep,
// if something came in since Ready that it could act on. What is looked at here and what Append wakes the
// sender for must be the same, or the sender spins, or sleeps too long.
func (a *RecordAccumulator) PrepareSleep(now, until time.Time) bool {
	hoards := false
	for _, n := range a.s.ordered {
		hoards = hoards || n.linger.n > 0
		closed, grown := int64(never), int64(never)
		switch {
		case !n.canSend || !a.mayFly(n):
			// What is ready for the node has its next event already: an answer, its connection's, or the end of a back-off or a throttle. If
			// nothing is, the first batch has to say that there is a reason to connect.
			if n.inFlight == 0 && n.ready.n == 0 {
				closed = 0
			}
		case n.inFlight == 0:
			closed, grown = 0, min(n.grown, n.share.hard.Load())
		default:
			closed = wakeBytes
			if a.holds(n) {
				grown = wakeBytes
			} else if n.wire < n.pipe {
				grown = n.share.limit.Load()
			}
		}
		n.share.wakeClosed.Store(closed)
		n.share.wakeGrown.Store(grown)
	}
	// While something waits for a leader, metadata is asked for; the first batch to do so has to say that there is a reason.
	closed := int64(never)
	if a.s.noLeader.n == 0 {
		closed = 0
	}
	a.s.parked.wakeClosed.Store(closed)
	a.hoards.Store(hoards)
	a.sleep.Store(max(int64(until.Sub(a.epoch)), 1))
	if a.mustLook(now, until) {
		a.sleep.Store(0)
		return false
	}
	return true
}

func (a *RecordAccumulator) mustLook(now, until time.Time) bool {
	if a.look.Load() || a.short.Load() && a.mayFree() {
		return true
	}
	for _, n := range a.s.ordered {
		if n.canSend && n.linger.n > 0 && !n.wasFull && n.share.full(false) {
			return true
		}
		if n.canSend && n.inFlight > 0 && a.holds(n) && n.share.unsent.Load() >= wakeBytes && a.mayFly(n) {
			return true
		}
	}
	a.signals.mu.Lock()
	n := len(a.signals.list)
	a.signals.mu.Unlock()
	if n == 0 {
		return false
	}
	if a.flushing.Load() > 0 {
		return true
	}
	if a.lingers && until.Sub(now) > a.cfg.Linger {
		return true // a batch opened meanwhile may end earlier
	}
	for _, n := range a.s.ordered {
		if n.share.unsent.Load() >= n.share.wakeClosed.Load() {
			return true
		}
	}
	return false
}

// Awake ends what PrepareSleep began. The sender's, after its sleep.
func (a *RecordAccumulator) Awake() { a.sleep.Store(0) }
