package accumulator

import (
	"context"
	"errors"
	"log/slog"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"time"

	"github.com/kafka-reservoir/producer/bufferpool"
	"github.com/kafka-reservoir/producer/internal/backoff"
	"github.com/kafka-reservoir/producer/metadata"
	"github.com/kafka-reservoir/producer/partitioner"
	"github.com/kafka-reservoir/producer/protocol"
)

// ErrClosed is what an append meets after Close.
var ErrClosed = errors.New("producer is closed: cannot send any more records")

// Config is the accumulator's part of the producer's configuration.
type Config struct {
	BatchSize       int           // bytes, compressed, header included; a lone larger record is still a batch (batch.size)
	Linger          time.Duration // how long an open batch waits for company; 0: not at all (linger.ms)
	DeliveryTimeout time.Duration // from the first record of a batch to its verdict (delivery.timeout.ms)
	RetryBackoff    time.Duration
	RetryBackoffMax time.Duration

	// Codec and NewCompressor compress batches; NewCompressor is called once per goroutine that does.
	Codec         protocol.Codec
	NewCompressor func() (protocol.Compressor, error)
	// Decompress undoes it, for a batch that has to be split; the result has at most maxSize bytes.
	Decompress func(codec protocol.Codec, src []byte, maxSize int) ([]byte, error)
	// Sealers is how many goroutines may compress beside those that append. 0: none.
	Sealers int

	Pool *bufferpool.BufferPool

	StickyThreshold int  // bytes after which unkeyed records move on to another partition
	Stripes         int  // how many partitions unkeyed records may go to at a time, where goroutines would wait for each other; 0: one
	Adaptive        bool // weigh partitions by their queues (partitioner.adaptive.partitioning.enable)
	// LeastPipe is how many bytes may be on their way to a node before another request goes, however near it is, once it is known how near. 0: 1 MiB.
	LeastPipe int64
	// AvailabilityTimeout excludes partitions of nodes that could take nothing for so long from the
	// choice of unkeyed records; 0: never (partitioner.availability.timeout.ms).
	AvailabilityTimeout time.Duration

	Rand   func(n int) int      // nil: math/rand
	Now    func() time.Time     // read at most once a record, mostly once in 16
	Wake   func()               // ends the sender's sleep
	Assist func()               // does so, or, on the goroutine of an append or of one that waits for a record, what the sender would then; nil: Wake
	Logger *slog.Logger         // nil: silent
	Done   func(*ProducerBatch) // a batch whose callbacks are due: must lead to its Run, once, in order

	// OnSplit is told of each batch that was split. May be nil.
	OnSplit func(b *ProducerBatch, parts int)
}

// Record is one serialized record. Key, Value and Headers are copied by Append.
type Record struct {
	Partition  int32 // partitioner.Any: sticky
	Timestamp  int64 // ms since 1970; -1: now
	Key, Value []byte
	Headers    []protocol.Header
}

// RecordAccumulator collects records into batches, a queue of them per partition, until the sender
// takes them (Java's class of the same name).
type RecordAccumulator struct {
	cfg      Config
	pool     *bufferpool.BufferPool
	lingers  bool
	precise  bool // every record reads the clock
	backoff  backoff.Exponential
	rawLimit int // most uncompressed bytes in a batch that is compressed
	epoch    time.Time

	closed   atomic.Bool
	flushing atomic.Int32
	// sleep is when the sender will wake by itself, in ns since epoch; 0: it is awake.
	sleep atomic.Int64
	// look keeps the sender from sleeping: there is something that it must act on. Cleared when it does.
	look atomic.Bool
	// short says that an append went away without the memory it needed, since the sender looked; hoards that something lingered when
	// it last did.
	short, hoards atomic.Bool

	topics struct {
		mu     sync.Mutex                        // guards all but byName's target, and replacing byName and a Topic's deques
		byName atomic.Pointer[map[string]*Topic] // what look-ups see without the lock; never changed, replaced when it falls behind
		latest map[string]*Topic                 // all there are
		misses int                               // look-ups that had to go to latest since byName was replaced
		all    []*Topic
	}
	signals struct {
		mu   sync.Mutex // a leaf
		list []*deque   // deques that changed since the sender looked
	}
	results struct {
		mu    sync.Mutex // a leaf
		chunk []batchResult
	}
	incomplete incompleteSet
	seal       sealers
	batches    sync.Pool
	// waits keeps Wait from making a waiter and its channel for each call. It is no global: a channel made in a testing/synctest bubble
	// must not turn up in another one.
	waits sync.Pool
	// timers are for share.wait, where a goroutine that sends faster than a broker takes it comes a thousand times a second. No global either.
	timers sync.Pool

	// Owned by the sender goroutine.
	s senderState
}

// New makes an accumulator. It starts no goroutine before there is something to compress.
func New(cfg Config) *RecordAccumulator {
	if cfg.Rand == nil {
		cfg.Rand = rand.IntN
	}
	if cfg.Logger == nil {
		cfg.Logger = slog.New(slog.DiscardHandler)
	}
	cfg.BatchSize = max(cfg.BatchSize, 1)
	cfg.Stripes = max(cfg.Stripes, 1)
	if cfg.LeastPipe <= 0 {
		cfg.LeastPipe = leastPipe
	}
	if cfg.StickyThreshold <= 0 {
		cfg.StickyThreshold = cfg.BatchSize
	}
	a := &RecordAccumulator{
		cfg: cfg, pool: cfg.Pool, epoch: cfg.Now(),
		lingers: cfg.Linger > 0,
		// A stale clock is at most as old as the batch it fills, which linger bounds: beyond 10 ms
		// that is no longer nothing.
		precise: cfg.Linger > 10*time.Millisecond,
		// A batch is filled by its compressed size; what does not compress away must still leave room for others.
		rawLimit: int(max(min(int64(cfg.BatchSize)*16, cfg.Pool.Total()/4), int64(cfg.BatchSize))),
	}
	a.backoff = backoff.Exponential{Initial: cfg.RetryBackoff, Max: cfg.RetryBackoffMax, Rand: cfg.Rand}
	a.batches.New = func() any {
		b := &ProducerBatch{a: a}
		b.slabs = b.few[:0]
		return b
	}
	a.waits.New = func() any { return &waiter{ch: make(chan struct{}, 1)} }
	a.s.init(a)
	a.seal.init(a)
	return a
}

// clockEvery is how many records share one reading of the clock while a batch fills.
const clockEvery = 16

// verdict is how an attempt to append ended.
type verdict int

const (
	appended  verdict = iota
	refused           // closed
	switched          // the sticky partition has changed: choose again
	shareFull         // the node's share of the buffer is used up
	noMemory          // the pool has nothing free
)

// attempt carries what one Append needs across its attempts.
type attempt struct {
	cb      Callback
	future  bool
	mayWait bool
	now     time.Time // the clock, if it was read for this record and nothing was waited for since
	waited  bool
	granted [][]byte // slabs that a wait brought
	need    int      // bytes to allocate (noMemory)
	// switches counts how often the partition was given up because its node's share was full, since the last wait.
	switches int
	h        Handle
	wake     bool // the sender should look
	// toSeal were closed by this append, to be compressed: the batch that was too full for the record, and
	// the record's own if it fills that.
	toSeal [2]*ProducerBatch
}

// Append puts r into a batch of its partition. It waits for the node's share of the buffer and for
// memory, at most maxWait and while ctx lasts; with maxWait <= 0 it fails at once instead. future asks for a
// valid Handle; cb may be nil. md is the topic's metadata, and must know the partition if r names one.
//
// It returns the partition that the record went to, also when it failed after one was chosen.
func (a *RecordAccumulator) Append(ctx context.Context, t *Topic, md *metadata.Topic, r *Record, cb Callback, future bool, maxWait time.Duration) (Handle, int32, error) {
	d, choice := a.choose(t, md, r)
	h, now, ok := a.appendOpen(d, t, md, choice, r, cb, future)
	if ok {
		d.mu.Unlock()
		return h, d.tp.Partition, nil
	}
	return a.appendSlow(ctx, d, t, md, choice, r, cb, future, maxWait, now)
}

// appendOpen is the path of nearly all records: into the open batch, and into the slab it is at. It
// leaves everything else to appendSlow, with the time if it has read the clock. d.mu is held.
//
// One function for both, with what a wait needs in a struct, cost 40 ns of 220 at 100 B, mostly for clearing and copying
// the struct (BenchmarkAppend, go1.26).
func (a *RecordAccumulator) appendOpen(d *deque, t *Topic, md *metadata.Topic, choice *partitioner.Choice, r *Record, cb Callback, future bool) (h Handle, now time.Time, ok bool) {
	b := d.tail()
	if b == nil || !b.is(stateOpen) || a.closed.Load() {
		return
	}
	n := len(b.slots)
	timestamp := r.Timestamp
	if timestamp < 0 {
		if n%clockEvery == 0 || b.precise {
			now = a.cfg.Now()
			b.lastTS = now.UnixMilli()
			md.Touch(now)
		}
		timestamp = b.lastTS
	}
	body := protocol.RecordBodySize(timestamp-b.baseTS, int32(n), r.Key, r.Value, r.Headers)
	size := protocol.RecordSize(body)
	slab := b.slabs[b.at]
	if size > cap(slab)-len(slab) || !b.fits(size+1) { // one that fills the batch closes it
		return
	}
	if future {
		if b.res == nil {
			b.res = a.newResult(d, d.lastSize)
		}
		h = Handle{b.res, int32(n)}
	}
	b.appendRecord(body, size, timestamp, r, cb)
	if choice != nil {
		choice.Sticky().Advance(choice, size, b.limit <= a.cfg.StickyThreshold, md)
	}
	return h, now, true
}

// appendSlow is Append where a batch, memory or the node's share is wanting. d.mu is held when it begins.
func (a *RecordAccumulator) appendSlow(ctx context.Context, d *deque, t *Topic, md *metadata.Topic, choice *partitioner.Choice, r *Record, cb Callback, future bool, maxWait time.Duration, now time.Time) (Handle, int32, error) {
	at := attempt{cb: cb, future: future, mayWait: maxWait > 0, now: now}
	for {
		v := a.tryAppend(d, t, md, choice, r, &at)
		d.mu.Unlock()
		if at.wake {
			at.wake = false
			a.assist() // before compressing, which may take its time: nobody else wakes the sender meanwhile
		}
		for i, b := range at.toSeal {
			if b != nil {
				a.seal.submit(b)
				at.toSeal[i] = nil
			}
		}
		var err error
		if v != appended && v != switched {
			err = a.admit(ctx, t, md, d, choice, v, &at, &maxWait) // may wait: no lock is held (S-58)
		}
		if v == appended || err != nil {
			if at.granted != nil {
				a.pool.Release(at.granted)
			}
			return at.h, d.tp.Partition, err
		}
		d, choice = a.choose(t, md, r)
	}
}

// choose finds r's partition, a sticky one if it names none, and locks its deque. It does so by itself for both, since each further call costs 1 ns of 50
// (BenchmarkAppend, go1.26).
func (a *RecordAccumulator) choose(t *Topic, md *metadata.Topic, r *Record) (*deque, *partitioner.Choice) {
	if r.Partition >= 0 {
		d := t.deque(r.Partition)
		if d == nil {
			d = a.newDeque(t, r.Partition, md.Count())
		}
		d.mu.Lock()
		return d, nil
	}
	s := &t.sticky
	mine := s.first
	if several := s.spread.Load(); several != nil {
		mine = several.mine()
	}
	for {
		choice := mine.Current()
		if choice == nil || int(choice.Partition) >= md.Count() {
			choice = mine.Peek(md) // which looks at the same; but through an interface that is 3 ns of 55 (BenchmarkAppend, go1.26)
		}
		d := t.deque(choice.Partition)
		if d == nil {
			d = a.newDeque(t, choice.Partition, md.Count())
		}
		if !d.mu.TryLock() {
			s.contended.Add(1)
			d.mu.Lock()
		}
		if !mine.Changed(choice) {
			return d, choice
		}
		d.mu.Unlock()
	}
}

// tryAppend does everything that needs the deque's lock, which is held.
func (a *RecordAccumulator) tryAppend(d *deque, t *Topic, md *metadata.Topic, choice *partitioner.Choice, r *Record, at *attempt) verdict {
	if a.closed.Load() {
		return refused
	}
	b := d.tail()
	if b != nil && !b.is(stateOpen) {
		b = nil
	}
	readClock := func() {
		if at.now.IsZero() {
			at.now = a.cfg.Now()
			md.Touch(at.now)
		}
	}
	timestamp := r.Timestamp
	var body, size int
	if b != nil {
		if timestamp < 0 {
			if len(b.slots)%clockEvery == 0 || b.precise || at.waited {
				readClock()
				b.lastTS = at.now.UnixMilli()
			}
			timestamp = b.lastTS
		}
		body = protocol.RecordBodySize(timestamp-b.baseTS, int32(len(b.slots)), r.Key, r.Value, r.Headers)
		size = protocol.RecordSize(body)
		if !b.fits(size) {
			a.closeTail(d, b, at)
			b = nil
			timestamp = r.Timestamp
		}
	}
	opened := false
	if b == nil {
		if choice != nil {
			// No half-full batch stays behind, so this is the moment to move on (KIP-794).
			choice.Sticky().Advance(choice, 0, false, md)
			if choice.Sticky().Changed(choice) {
				return switched
			}
		}
		readClock()
		if timestamp < 0 {
			timestamp = at.now.UnixMilli()
		}
		body = protocol.RecordBodySize(0, 0, r.Key, r.Value, r.Headers)
		size = protocol.RecordSize(body)
		sh := d.share.Load()
		if sh.full(at.mayWait) {
			return shareFull
		}
		small := d.lastSize <= bufferpool.SmallSlabSize
		if b = a.newBatch(d, sh, size, small, at); b == nil {
			return noMemory
		}
		b.created, b.baseTS, b.maxTS, b.lastTS = at.now, timestamp, timestamp, at.now.UnixMilli()
		opened = true
	} else if lack := size - (cap(b.slabs[b.at]) - len(b.slabs[b.at])); lack > 0 {
		if lack -= b.room() - (cap(b.slabs[b.at]) - len(b.slabs[b.at])); lack > 0 {
			if b.share.full(at.mayWait) {
				return shareFull
			}
			if !a.grow(b, lack, at) {
				return noMemory
			}
		}
	}

	was := b.at
	if at.future {
		if b.res == nil {
			b.res = a.newResult(d, d.lastSize)
		}
		at.h = Handle{b.res, int32(len(b.slots))}
	}
	b.appendRecord(body, size, timestamp, r, at.cb)

	if opened {
		// Only now, with a record in it, may the sender see the batch.
		d.pushBack(b)
		a.incomplete.add(b)
		a.signal(d)
		a.wakeForOpened(b, at)
	}
	if b.at != was {
		if b.codec == protocol.CodecNone {
			b.sumFilled()
		}
		b.count(b.size - len(b.slabs[b.at]))
		d.openCounted.Store(true)
		if b.share != nil && b.share.unsent.Load() >= b.share.wakeGrown.Load() {
			a.claimWake(at)
		}
	}
	full := b.full()
	if full {
		a.closeTail(d, b, at)
	}
	if choice != nil {
		choice.Sticky().Advance(choice, size, !full && b.limit <= a.cfg.StickyThreshold, md)
	}
	return appended
}

// newBatch makes a batch with slabs for its header and a first record of size bytes. nil: no memory.
func (a *RecordAccumulator) newBatch(d *deque, sh *share, size int, small bool, at *attempt) *ProducerBatch {
	b := a.batches.Get().(*ProducerBatch)
	need := protocol.BatchHeaderSize + size
	if !a.takeSlabs(b, need, small, at) {
		a.batches.Put(b)
		return nil
	}
	b.d, b.share, b.codec = d, sh, a.cfg.Codec
	b.limit, b.precise = d.topic.fits.limit(a.cfg.BatchSize, at.now.Sub(a.epoch)), a.precise
	b.estimate = d.topic.ratio.get() * ratioSafety
	b.slabs[0] = b.slabs[0][:protocol.BatchHeaderSize]
	b.size = protocol.BatchHeaderSize
	b.leaderEpoch, b.dirty = -1, true
	b.state.Store(int32(stateOpen))
	b.refs.Store(1)
	return b
}

// grow adds slabs to the open batch b. False: no memory.
func (a *RecordAccumulator) grow(b *ProducerBatch, lack int, at *attempt) bool {
	return a.takeSlabs(b, lack, false, at)
}

// takeSlabs appends slabs for n bytes to b: those that were waited for if they suffice, else from the pool.
func (a *RecordAccumulator) takeSlabs(b *ProducerBatch, n int, small bool, at *attempt) bool {
	if at.granted != nil {
		got := 0
		for _, s := range at.granted {
			got += cap(s)
		}
		if got >= n {
			b.slabs = append(b.slabs, at.granted...)
			at.granted = nil
			return true
		}
	}
	var ok bool
	b.slabs, ok = a.pool.TryAllocate(b.slabs, n, small)
	at.need = n
	return ok
}

// closeTail ends appends to the open batch b at the tail of d, whose lock is held.
func (a *RecordAccumulator) closeTail(d *deque, b *ProducerBatch, at *attempt) {
	if b.codec == protocol.CodecNone {
		b.sum()
	}
	a.closeLocked(d, b)
	if b.is(stateClosed) {
		if at.toSeal[0] == nil {
			at.toSeal[0] = b
		} else {
			at.toSeal[1] = b
		}
	}
	a.signal(d)
	if b.share == nil || b.share.unsent.Load() >= b.share.wakeClosed.Load() {
		a.claimWake(at)
	}
}

// closeLocked takes b from Open to Closed, or right on to Sealed where there is nothing to compress.
func (a *RecordAccumulator) closeLocked(d *deque, b *ProducerBatch) {
	if extra := b.slabs[b.at+1:]; len(extra) > 0 {
		a.pool.Release(extra)
		clear(extra)
		b.slabs = b.slabs[:b.at+1]
	}
	b.rawSize = b.size
	b.count(b.size)
	d.lastSize = b.size
	d.openCounted.Store(false)
	if b.codec == protocol.CodecNone {
		b.state.Store(int32(stateSealed))
	} else {
		b.state.Store(int32(stateClosed))
	}
}

// signal tells the sender that d is worth a look. d.mu is held.
func (a *RecordAccumulator) signal(d *deque) {
	if d.signalled {
		return
	}
	d.signalled = true
	a.signals.mu.Lock()
	a.signals.list = append(a.signals.list, d)
	a.signals.mu.Unlock()
	if sh := d.share.Load(); sh == nil || sh.node < 0 {
		// The sender does not know the partition yet, or its leader. Behind the list, which is emptied behind look.
		a.look.Store(true)
	}
}

// wakeForOpened decides whether a new batch is worth waking the sender: with a linger it only has to
// wake in time for the batch's end, without one only if the node could take the batch now.
func (a *RecordAccumulator) wakeForOpened(b *ProducerBatch, at *attempt) {
	if a.flushing.Load() > 0 {
		a.claimWake(at)
		return
	}
	if !a.lingers {
		if b.share == nil || b.share.unsent.Load()+1 >= b.share.wakeClosed.Load() {
			a.claimWake(at)
		}
		return
	}
	if until := a.sleep.Load(); until != 0 && until > int64(b.created.Sub(a.epoch)+a.cfg.Linger) {
		a.claimWake(at)
	}
}

// claimWake makes the caller wake the sender, if it sleeps and nobody else does already.
func (a *RecordAccumulator) claimWake(at *attempt) {
	if until := a.sleep.Load(); until != 0 && a.sleep.CompareAndSwap(until, 0) {
		at.wake = true
	}
}

// noteShort tells the sender of an append that was refused for want of memory: what lingers is not to keep what others need, also
// those that may not wait for it. That an earlier refusal found nothing to free says nothing of now.
func (a *RecordAccumulator) noteShort() {
	if !a.lingers {
		return
	}
	a.short.Store(true)
	if a.sleep.Load() != 0 && a.mayFree() && a.sleep.Swap(0) != 0 {
		a.cfg.Wake()
	}
}

// mayFree reports whether the sender might find something that lingers.
func (a *RecordAccumulator) mayFree() bool {
	if a.hoards.Load() {
		return true
	}
	a.signals.mu.Lock()
	defer a.signals.mu.Unlock()
	return len(a.signals.list) > 0
}

// poke makes the sender look at the signals: it ends its sleep, or keeps it from going to sleep.
func (a *RecordAccumulator) poke() {
	a.look.Store(true)
	if a.sleep.Swap(0) != 0 {
		a.cfg.Wake()
	}
}

// assist is Wake, or better.
func (a *RecordAccumulator) assist() {
	if a.cfg.Assist != nil {
		a.cfg.Assist()
	} else {
		a.cfg.Wake()
	}
}

// hurry makes d's batches sendable without linger: somebody waits for one of them.
func (a *RecordAccumulator) hurry(d *deque) {
	d.mu.Lock()
	a.signal(d)
	d.mu.Unlock()
	a.look.Store(true)
	if sh := d.share.Load(); sh == nil || sh.wakeClosed.Load() != never {
		if a.sleep.Swap(0) != 0 {
			a.assist()
		}
		return
	}
	// It can take it meanwhile, perhaps, and the sender is about to sleep: it will look.
}

// release gives the batch's memory back. The sender's, when the batch is Done and no writer is at it.
func (a *RecordAccumulator) release(b *ProducerBatch) {
	a.landed(b)
	b.count(0)
	b.share = nil
	if !b.isSplit {
		a.pool.Release(b.slabs)
	}
	clear(b.slabs)
	clear(b.few[:]) // where they were before they became many
	b.slabs = b.slabs[:0]
	b.unref()
}

// recycle makes the struct ready to be another batch.
func (a *RecordAccumulator) recycle(b *ProducerBatch) {
	if b.isSplit {
		return // rare, and its slabs were not the pool's
	}
	clear(b.slots)
	slabs, slots := b.slabs[:0], b.slots[:0]
	if cap(slots) > 1<<14 {
		slots = nil // from a batch of very many small records: not worth keeping
	}
	b.reset()
	b.slabs, b.slots = slabs, slots
	a.batches.Put(b)
}

func (b *ProducerBatch) reset() {
	b.d, b.id, b.sub = nil, 0, 0
	b.at, b.size = 0, 0
	b.crc, b.summed, b.summedTo = 0, 0, 0
	b.limit, b.created, b.baseTS, b.maxTS, b.lastTS = 0, time.Time{}, 0, 0, 0
	b.estimate, b.codec, b.rawSize, b.maxRecord = 0, 0, 0, 0
	b.res, b.callbacks, b.share, b.counted, b.isSplit, b.precise = nil, false, nil, 0, false, false
	b.attempts, b.forgiven, b.troubled, b.retryAt, b.drained = 0, 0, time.Time{}, time.Time{}, time.Time{}
	b.leaderEpoch, b.dirty = 0, false
	b.stamped, b.producer, b.sequence, b.sends, b.inFlight, b.ahead, b.out = false, protocol.ProducerID{}, 0, 0, false, false, outcome{}
	b.lostAt, b.sentTo, b.lent, b.lentWire = time.Time{}, nil, 0, 0
	b.mayBeWritten, b.unanswered, b.tainted, b.Mark, b.lastError, b.lastMessage = false, false, false, 0, nil, ""
	b.prev, b.next, b.listed = nil, nil, false
}
