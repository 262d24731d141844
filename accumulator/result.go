package accumulator

import (
	"context"
	"sync"
	"sync/atomic"
	"time"

	"github.com/kafka-reservoir/producer/bufferpool"
	"github.com/kafka-reservoir/producer/protocol"
)

// Result is what became of a record that was written.
type Result = protocol.RecordMetadata

// Callback is told what became of one record: nil for nobody.
type Callback func(Result, error)

// slot is what a batch keeps of each record beside its bytes.
type slot struct {
	cb        Callback // nil: nobody asked
	keySize   int32    // -1 for null
	valueSize int32
	timestamp int64 // ms
}

// outcome is the verdict on a batch. Immutable once the batch is done.
type outcome struct {
	base      int64 // offset of the first record, -1 unknown
	logAppend int64 // ms, -1: the records keep their own time
	err       error
	perRecord func(i int) error // KIP-467: errors that differ within the batch; nil: err is everybody's
}

func (o *outcome) of(topic string, partition int32, i int, s *slot) (Result, error) {
	err := o.err
	if err != nil {
		if o.perRecord != nil {
			err = o.perRecord(i)
		}
		return Result{Topic: topic, Partition: partition, Offset: -1, KeySize: -1, ValueSize: -1}, err
	}
	return Result{
		Topic: topic, Partition: partition, Offset: o.offset(i),
		Timestamp: time.UnixMilli(o.time(s)), KeySize: int(s.keySize), ValueSize: int(s.valueSize),
	}, nil
}

// offset is that of record i of a batch that was written; -1: unknown.
func (o *outcome) offset(i int) int64 {
	if o.base < 0 {
		return -1
	}
	return o.base + int64(i)
}

// time is when the record in s was written, as the broker has it, in ms.
func (o *outcome) time(s *slot) int64 {
	if o.logAppend >= 0 {
		return o.logAppend
	}
	return s.timestamp
}

// batchResult outlives its batch: it is what futures hold on to. One serves all futures of a batch,
// with one wake-up each for those who really wait.
type batchResult struct {
	a *RecordAccumulator
	d *deque // to hurry the batch when somebody waits; nil for a record that never got that far

	settled atomic.Bool // set last: what follows up to mu is then immutable
	out     outcome
	topic   string
	part    int32
	one     slot   // the only record's
	many    []slot // all records', where there are several
	split   []splitPart

	urgent atomic.Bool // somebody waits: do not linger

	mu      sync.Mutex // guards waiters, and settled going true
	waiters waiterList
}

// splitPart says which result took over the records from first on, after a split.
type splitPart struct {
	first int32
	r     *batchResult
}

// waiter is one goroutine in Wait, or one channel that Done handed out. It is linked into its result's list, and Wait's are used
// again: callers who wait allocate nothing, however many share a batch.
type waiter struct {
	ch    chan struct{}
	next  *waiter
	index int32
	done  bool // close ch rather than send to it
}

// waiterList is in the order in which they came.
type waiterList struct{ first, last *waiter }

func (l *waiterList) push(w *waiter) {
	w.next = nil
	if l.last == nil {
		l.first = w
	} else {
		l.last.next = w
	}
	l.last = w
}

// remove takes w out; false: it is not there.
func (l *waiterList) remove(w *waiter) bool {
	var before *waiter
	for at := l.first; at != nil; before, at = at, at.next {
		if at != w {
			continue
		}
		if before == nil {
			l.first = w.next
		} else {
			before.next = w.next
		}
		if l.last == w {
			l.last = before
		}
		w.next = nil
		return true
	}
	return false
}

// take empties the list and returns its first.
func (l *waiterList) take() *waiter {
	first := l.first
	*l = waiterList{}
	return first
}

// Handle is one record's place in a batchResult: a future, as a value. The zero Handle stands for no record.
type Handle struct {
	r *batchResult
	i int32
}

// Failed is the handle of a record that never got into a batch.
func Failed(topic string, partition int32, err error) Handle {
	r := &batchResult{topic: topic, part: partition, out: outcome{base: -1, logAppend: -1, err: err}}
	r.settled.Store(true)
	return Handle{r: r}
}

// Valid reports whether the handle stands for a record.
func (h Handle) Valid() bool { return h.r != nil }

// follow goes on to the result that holds the record now, which after a split is another one.
func (h Handle) follow() Handle {
	for h.r.settled.Load() && h.r.split != nil {
		k := len(h.r.split) - 1
		for h.r.split[k].first > h.i {
			k--
		}
		h = Handle{h.r.split[k].r, h.i - h.r.split[k].first}
	}
	return h
}

func (h Handle) get() (Result, error) {
	s := &h.r.one
	if h.r.many != nil {
		s = &h.r.many[h.i]
	}
	return h.r.out.of(h.r.topic, h.r.part, int(h.i), s)
}

// unknown is what is told of a record whose fate is not known: no offset, and least of all offset 0.
func (r *batchResult) unknown() Result {
	return Result{Topic: r.topic, Partition: r.part, Offset: -1, KeySize: -1, ValueSize: -1}
}

// Wait returns what became of the record, once that is known, or ctx's error.
func (h Handle) Wait(ctx context.Context) (Result, error) {
	for {
		h = h.follow()
		r := h.r
		if r.settled.Load() {
			return h.get()
		}
		if err := ctx.Err(); err != nil {
			return r.unknown(), context.Cause(ctx)
		}
		pool := &r.a.waits
		w := pool.Get().(*waiter)
		w.index = h.i
		if !r.add(w) {
			pool.Put(w)
			continue
		}
		r.hurry()
		if done := ctx.Done(); done == nil {
			<-w.ch
		} else {
			select {
			case <-w.ch:
			case <-done:
				if !h.remove(w) {
					<-w.ch // it was told already, or will be in a moment
					pool.Put(w)
					continue
				}
				pool.Put(w)
				return r.unknown(), context.Cause(ctx)
			}
		}
		pool.Put(w)
	}
}

// Done is closed once the record's fate is known. Each call makes a channel, and who waits at it: Wait is cheaper.
func (h Handle) Done() <-chan struct{} {
	w := &waiter{ch: make(chan struct{}), done: true}
	for {
		h = h.follow()
		if h.r.settled.Load() {
			close(w.ch)
			return w.ch
		}
		w.index = h.i
		if h.r.add(w) {
			h.r.hurry()
			return w.ch
		}
	}
}

// Settled reports whether the fate is known already.
func (h Handle) Settled() bool { return h.follow().r.settled.Load() }

// add registers w, unless the result is settled.
func (r *batchResult) add(w *waiter) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.settled.Load() {
		return false
	}
	r.waiters.push(w)
	return true
}

// remove takes w out again, wherever a split has moved it to. False: its signal is under way.
func (h Handle) remove(w *waiter) bool {
	for {
		r := h.r
		r.mu.Lock()
		removed := r.waiters.remove(w)
		r.mu.Unlock()
		if removed {
			return true
		}
		next := h.follow()
		if next.r == r {
			return false
		}
		h = next
	}
}

// hurry makes the batch sendable without linger, since somebody waits for it.
func (r *batchResult) hurry() {
	if r.a == nil || !r.a.lingers || r.urgent.Load() || !r.urgent.CompareAndSwap(false, true) {
		return
	}
	r.a.hurry(r.d)
}

// settle publishes the verdict, wakes who waits and says how many these are. slots is copied: the batch keeps it.
func (r *batchResult) settle(out outcome, slots []slot, spare *spareSlots) (told int) {
	r.out = out
	if len(slots) == 1 {
		r.one = slots[0]
		r.one.cb = nil
	} else {
		r.many = spare.take(len(slots))
		copy(r.many, slots)
		for i := range r.many {
			r.many[i].cb = nil // the callbacks are not for the futures to keep alive
		}
	}
	r.mu.Lock()
	r.settled.Store(true)
	w := r.waiters.take()
	r.mu.Unlock()
	for w != nil {
		next := w.next
		w.next = nil
		w.wake() // and is somebody else's
		w = next
		told++
	}
	return told
}

// become hands the records, and who waits for them, over to the results of the parts.
func (r *batchResult) become(parts []splitPart) {
	r.mu.Lock()
	r.split = parts
	for w := r.waiters.take(); w != nil; {
		next := w.next
		k := len(parts) - 1
		for parts[k].first > w.index {
			k--
		}
		w.index -= parts[k].first
		// The parts are new and nobody can have settled them.
		parts[k].r.waiters.push(w)
		parts[k].r.urgent.Store(true)
		w = next
	}
	r.settled.Store(true)
	r.mu.Unlock()
}

func (w *waiter) wake() {
	if w.done {
		close(w.ch)
	} else {
		w.ch <- struct{}{} // has room for one
	}
}

// spareSlots makes the slots of results, many at a time where they are few: callers who each wait for their record share batches of a few
// records, and do not pay an allocation for each of these either. A chunk lives as long as any future of its results.
type spareSlots struct{ chunk []slot }

const (
	slotChunk = 128
	fewSlots  = slotChunk / 8
)

func (s *spareSlots) take(n int) []slot {
	if n > fewSlots {
		return make([]slot, n)
	}
	if len(s.chunk) < n {
		s.chunk = make([]slot, slotChunk)
	}
	taken := s.chunk[:n:n]
	s.chunk = s.chunk[n:]
	return taken
}

// resultChunk is how many results are made at a time, so that a synchronous caller, who needs one a
// record, does not pay an allocation for each.
const resultChunk = 32

// newResult makes a result for a batch of d of about size bytes: from the current chunk where batches are small. A chunk lives
// as long as any future of its results, and large batches' results are large.
func (a *RecordAccumulator) newResult(d *deque, size int) *batchResult {
	if size > bufferpool.SmallSlabSize {
		return &batchResult{a: a, d: d, topic: d.tp.Topic, part: d.tp.Partition}
	}
	a.results.mu.Lock()
	if len(a.results.chunk) == 0 {
		a.results.chunk = make([]batchResult, resultChunk)
	}
	r := &a.results.chunk[0]
	a.results.chunk = a.results.chunk[1:]
	a.results.mu.Unlock()
	r.a, r.d, r.topic, r.part = a, d, d.tp.Topic, d.tp.Partition
	return r
}
