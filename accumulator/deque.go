package accumulator

import (
	"maps"
	"sync"
	"sync/atomic"
	"time"

	"github.com/kafka-reservoir/producer/internal/mutants"
	"github.com/kafka-reservoir/producer/internal/prefetch"
	"github.com/kafka-reservoir/producer/metadata"
	"github.com/kafka-reservoir/producer/partitioner"
	"github.com/kafka-reservoir/producer/protocol"
)

// Topic is what the accumulator keeps of a topic that was appended to: its partitions' deques, the
// sticky partitioner, and how well it compresses. It lives as long as the accumulator.
type Topic struct {
	Name   string
	sticky stripes
	ratio  ratio
	fits   fits
	// deques, by partition, are nil where nothing was appended yet. The slice is replaced, under topics.mu,
	// only when the topic has grown: making room for one more each time cost O(n²) at 10,000 partitions.
	deques atomic.Pointer[[]atomic.Pointer[deque]]

	// View is the facade's: what it last looked the topic up as.
	View atomic.Pointer[View]

	incomplete atomic.Int32 // its batches that are not Done

	// Owned by the sender goroutine: scratch for building a request, see sender/produce.go.
	asked        uint64 // the pass in which it was named as one without a leader
	RequestMark  uint64
	RequestIndex int
}

// View is a topic as it stands in one metadata snapshot. Immutable.
//
// It has the snapshot's version and not the snapshot: that would be kept, with all topics in it, until this one is used again.
type View struct {
	Version  int
	Metadata *metadata.Topic
	Topic    *Topic
}

// deque is one partition's queue of batches, oldest first.
//
// Only the sender removes from the front or puts back there; applications append at the tail.
// So the front stays the same between a peek and a pop, with the lock free in between.
type deque struct {
	// What an append looks at is in one line of the cache.

	mu    sync.Mutex            // guards what is marked so; incomplete.mu, signals.mu and pool.mu may be taken while held
	last  *ProducerBatch        // the tail, nil: there is none; guarded by mu
	share atomic.Pointer[share] // of the node that leads the partition; nil while unknown; set by the sender
	topic *Topic
	tp    protocol.TopicPartition

	q         []*ProducerBatch // guarded by mu
	head      int              // q[head:] are the batches; guarded by mu
	lastSize  int              // of the last batch closed: its successor's first slab follows it; guarded by mu
	untold    untold           // guarded by mu
	signalled bool             // guarded by mu
	muted     bool             // the sender's; here, where there is room

	// queued is len(), for who has not the lock.
	queued atomic.Int32

	// openCounted: the open batch has filled slabs. Written under mu, peeked at by the sender without.
	openCounted atomic.Bool

	// Owned by the sender goroutine.
	in         *dequeList // the list it stands in, or nil
	prev, next *deque
	node       *node // of the leader as of the last classify; nil: none
	expected   expected
	gateState  any       // see ProducerBatch.PartitionState
	lingerEnds time.Time // while in a linger list
	drained    uint64    // the drain that took a batch last
	// aheadUntil is when the back-off of the batch ends that was sent last, if that was ahead of others and failed; aheadEpoch is the
	// leader epoch that it was sent under.
	aheadUntil time.Time
	aheadEpoch int32
	retryGen   uint32 // of its entry in the retry heap; older entries are dead
}

// expected is what a partition will be looked at for next, to ask for its memory ahead of that, and for nothing else.
type expected struct {
	batch *ProducerBatch
	bytes *byte // where its slabs begin
}

// expect notes that b will be looked at next. It is open, and d.mu held, or the sender's: a sealer changes its slabs.
func (d *deque) expect(b *ProducerBatch) {
	if len(b.slabs) > 0 && len(b.slabs[0]) > 0 {
		d.expected = expected{b, &b.slabs[0][0]}
	}
}

// prefetch asks for what taking the first batch of d will look at.
func (d *deque) prefetch() {
	if d.expected.batch != nil {
		prefetch.Value(d.expected.batch)
		prefetch.Bytes(d.expected.bytes, smallBatch)
	}
}

// smallBatch is how many bytes are asked for of what a batch has many of, its slabs and its slots: all of one of a few records. What follows in a larger one the processor guesses.
const smallBatch = 512

// unavailable is longer than any queue that takes more.
const unavailable = 1 << 20

// queued is how many batches wait for a partition, of a node that can take more: else nothing waits at a node that is full, and everything would go there. Any
// goroutine, with or without locks.
func (t *Topic) queued(partition int32) int {
	d := t.deque(partition)
	if d == nil {
		return 0
	}
	n := int(d.queued.Load())
	if d.share.Load().full(true) {
		n += unavailable
	}
	return n
}

func (d *deque) len() int { return len(d.q) - d.head }

func (d *deque) front() *ProducerBatch {
	if d.head == len(d.q) {
		return nil
	}
	return d.q[d.head]
}

func (d *deque) tail() *ProducerBatch { return d.last }

// changed is called after each change of q.
func (d *deque) changed() {
	d.last = nil
	if d.head < len(d.q) {
		d.last = d.q[len(d.q)-1]
	}
	d.queued.Store(int32(d.len()))
}

func (d *deque) pushBack(b *ProducerBatch) {
	if d.head > 0 && len(d.q) == cap(d.q) {
		n := copy(d.q, d.q[d.head:])
		clear(d.q[n:])
		d.q, d.head = d.q[:n], 0
	}
	d.q = append(d.q, b)
	d.changed()
	d.untold.push(b)
}

func (d *deque) popFront() *ProducerBatch {
	b := d.q[d.head]
	d.q[d.head] = nil
	d.head++
	if d.head == len(d.q) {
		d.q, d.head = d.q[:0], 0
	}
	d.changed()
	return b
}

// insert puts b back where its records belong: before every batch created later.
func (d *deque) insert(b *ProducerBatch) {
	k := d.head
	for k < len(d.q) && (d.q[k].Order(b) < 0 || mutants.On(mutants.RetryOvertaken)) {
		k++
	}
	if k == d.head && d.head > 0 {
		d.head--
		d.q[d.head] = b
	} else {
		d.q = append(d.q, nil)
		copy(d.q[k+1:], d.q[k:])
		d.q[k] = b
	}
	d.changed()
}

// remove takes b out, wherever it stands.
func (d *deque) remove(b *ProducerBatch) bool {
	d.expected = expected{} // only the sender removes
	for k := d.head; k < len(d.q); k++ {
		if d.q[k] == b {
			if k == d.head {
				d.popFront()
				return true
			}
			copy(d.q[k:], d.q[k+1:])
			d.q[len(d.q)-1] = nil
			d.q = d.q[:len(d.q)-1]
			d.changed()
			return true
		}
	}
	return false
}

// deque finds the queue of a partition, or nil. It takes no lock (S-55).
func (t *Topic) deque(partition int32) *deque {
	if ds := t.deques.Load(); ds != nil && uint(partition) < uint(len(*ds)) {
		return (*ds)[partition].Load()
	}
	return nil
}

// newDeque makes the queue of a partition, of count, unless somebody else just has.
func (a *RecordAccumulator) newDeque(t *Topic, partition int32, count int) *deque {
	a.topics.mu.Lock()
	defer a.topics.mu.Unlock()
	ds := t.deques.Load()
	if ds == nil || int(partition) >= len(*ds) {
		next := make([]atomic.Pointer[deque], max(count, int(partition)+1))
		if ds != nil {
			for i := range *ds {
				next[i].Store((*ds)[i].Load())
			}
		}
		ds = &next
		t.deques.Store(ds)
	}
	slot := &(*ds)[partition]
	if d := slot.Load(); d != nil {
		return d
	}
	d := &deque{tp: protocol.TopicPartition{Topic: t.Name, Partition: partition}, topic: t}
	slot.Store(d)
	return d
}

// Topic finds the entry of a topic, making it the first time. Look-ups take no lock, but for a few of new topics: copying the
// map for each new one took seconds with 10,000.
func (a *RecordAccumulator) Topic(name string) *Topic {
	if m := a.topics.byName.Load(); m != nil {
		if t := (*m)[name]; t != nil {
			return t
		}
	}
	ts := &a.topics
	ts.mu.Lock()
	defer ts.mu.Unlock()
	t := ts.latest[name]
	if t == nil {
		t = &Topic{Name: name}
		t.sticky.init(a.newSticky(t))
		if ts.latest == nil {
			ts.latest = map[string]*Topic{}
		}
		ts.latest[name] = t
		ts.all = append(ts.all, t)
	}
	if ts.misses++; ts.misses >= len(ts.latest) {
		ts.misses = 0
		m := maps.Clone(ts.latest)
		ts.byName.Store(&m)
	}
	return t
}

func (a *RecordAccumulator) newSticky(t *Topic) *partitioner.Sticky {
	return partitioner.NewSticky(partitioner.StickyConfig{
		Threshold: a.cfg.StickyThreshold, Adaptive: a.cfg.Adaptive, Rand: a.cfg.Rand, Queued: t.queued,
	})
}

// InUse reports whether a topic has batches that are not Done. Any goroutine.
func (a *RecordAccumulator) InUse(name string) bool {
	a.topics.mu.Lock()
	t := a.topics.latest[name]
	a.topics.mu.Unlock()
	return t != nil && t.incomplete.Load() > 0
}

// Forget drops the view of a topic that nobody has used for long, and with it what metadata told of it. Its queues stay, and the
// order they keep. Any goroutine.
func (a *RecordAccumulator) Forget(name string) {
	a.topics.mu.Lock()
	t := a.topics.latest[name]
	a.topics.mu.Unlock()
	if t != nil {
		t.View.Store(nil)
	}
}

// allTopics lists the topics that were appended to. It must not be changed.
func (a *RecordAccumulator) allTopics() []*Topic {
	a.topics.mu.Lock()
	defer a.topics.mu.Unlock()
	return a.topics.all
}

// dequeList is an intrusive FIFO of deques: each stands in at most one. The sender's.
type dequeList struct {
	head, tail *deque
	n          int
}

// at is the one so far behind the first; nil: there are not so many.
func (l *dequeList) at(i int) *deque {
	d := l.head
	for ; i > 0 && d != nil; i-- {
		d = d.next
	}
	return d
}

func (l *dequeList) push(d *deque) {
	d.in, d.prev, d.next = l, l.tail, nil
	if l.tail != nil {
		l.tail.next = d
	} else {
		l.head = d
	}
	l.tail = d
	l.n++
}

// pushByLinger enters d where its linger ends: most end last. Those that come from elsewhere, a mute, another node or a
// sent batch behind which they were opened, may be older than others.
func (l *dequeList) pushByLinger(d *deque) {
	at := l.tail
	for at != nil && at.lingerEnds.After(d.lingerEnds) {
		at = at.prev
	}
	if at == l.tail {
		l.push(d)
		return
	}
	d.in, d.prev = l, at
	if at == nil {
		d.next, l.head = l.head, d
	} else {
		d.next, at.next = at.next, d
	}
	d.next.prev = d
	l.n++
}

func (l *dequeList) unlink(d *deque) {
	if d.prev != nil {
		d.prev.next = d.next
	} else {
		l.head = d.next
	}
	if d.next != nil {
		d.next.prev = d.prev
	} else {
		l.tail = d.prev
	}
	d.in, d.prev, d.next = nil, nil, nil
	l.n--
}

// place moves d to l; nil takes it out of every list.
func (d *deque) place(l *dequeList) {
	if d.in == l && l != nil {
		return
	}
	if d.in != nil {
		d.in.unlink(d)
	}
	if l != nil {
		l.push(d)
	}
}
