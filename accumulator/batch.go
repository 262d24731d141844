package accumulator

import (
	"math"
	"sync/atomic"
	"time"

	"github.com/kafka-reservoir/producer/internal/invariants"
	"github.com/kafka-reservoir/producer/internal/prefetch"
	"github.com/kafka-reservoir/producer/protocol"
)

// state is where a batch is in its life. See doc.go for who may touch its bytes in each.
type state int32

const (
	stateOpen    state = iota // takes records; the tail of its deque
	stateClosed               // full, or drained open; waits for a sealer
	stateSealing              // one goroutine compresses it
	stateSealed               // bytes are final but for the stamp; in the deque, or in flight
	stateDone                 // its records know their fate
)

func (s state) String() string {
	return [...]string{"open", "closed", "sealing", "sealed", "done"}[s]
}

// ProducerBatch is a record batch being filled or sent, with the futures and callbacks of its records.
//
// Invariants (checked under the invariants build tag):
//  1. It is Done exactly once, and each callback runs exactly once.
//  2. Its slabs go back to the pool only when it is Done and sends == 0: KAFKA-19012 is this one missing.
//  3. Its header is rewritten only while sends == 0.
type ProducerBatch struct {
	// What an append looks at comes first, so that it is in few lines of the cache: with thousands of partitions each of them is missed.

	// The bytes. Owned as state says.
	slabs [][]byte // the batch, header first; all full but the last, extra empty ones behind while open
	slots []slot   // one a record
	at    int      // the slab being filled
	size  int      // bytes used in all slabs

	// state changes under d.mu until the batch is popped; afterwards only the sender changes it.
	// Sealing ends without the lock, hence atomic.
	state atomic.Int32

	// Guarded by d.mu while open, constant afterwards.
	codec     protocol.Codec
	precise   bool  // reads the clock for each record
	callbacks bool  // some slot has one
	isSplit   bool  // its memory is not the pool's
	limit     int   // bytes, compressed, at which it is full
	baseTS    int64 // ms
	maxTS     int64
	lastTS    int64 // the clock at its last reading, in ms
	maxRecord int   // the largest record's bytes
	res       *batchResult
	few       [2][]byte // where slabs begins
	estimate  float64
	rawSize   int       // size before compression
	created   time.Time // of its first record: delivery time counts from here
	share     *share
	counted   int // bytes of it that share.unsent holds

	// crc is the checksum of the records up to summedTo in slabs[summed], see sum. Compressed ones are summed when they are.
	crc              uint32
	summed, summedTo int

	a *RecordAccumulator
	d *deque

	// id orders batches by creation; sub orders the parts of a split one by the records they hold.
	id  uint64
	sub int32

	// Owned by the sender goroutine.
	attempts     int
	troubled     time.Time // when its first attempt had failed; zero: none has
	forgiven     int       // attempts that the back-off does not count any more, see StartBackoffAnew
	retryAt      time.Time
	drained      time.Time
	leaderEpoch  int32 // known when last sent; -1
	stamped      bool  // has a producer id
	dirty        bool  // the header is yet to be written, or to be written anew
	producer     protocol.ProducerID
	sequence     int32
	inFlight     bool
	ahead        bool // drained although another one stood before it
	lastError    error
	lastMessage  string
	lostAt       time.Time
	unanswered   bool    // an attempt under the present stamp went out and was not answered: it may be on its way still
	tainted      bool    // an attempt's fate was unknown once: it, or the batch that this is a part of
	Mark         uint64  // scratch for matching an answer, see sender/produce.go
	mayBeWritten bool    // an attempt's fate is unknown
	sends        int     // frames that may still be read by a writer
	sentTo       *node   // whose flight holds its memory; nil: none's
	lent         int64   // how much that is
	lentWire     int64   // and how many bytes in a request
	out          outcome // its verdict; immutable once Done

	// Incomplete list; guarded by incomplete.mu.
	prev, next *ProducerBatch
	listed     bool

	older, newer *ProducerBatch // in the deque's untold list

	// refs: one of the sender (until Done and sends == 0), one of each request whose answer is due, one of
	// the dispatcher while callbacks are.
	refs atomic.Int32
}

func (b *ProducerBatch) is(s state) bool { return state(b.state.Load()) == s }

// TopicPartition is where the batch goes.
func (b *ProducerBatch) TopicPartition() protocol.TopicPartition { return b.d.tp }

// Topic is the entry of the batch's topic.
func (b *ProducerBatch) Topic() *Topic { return b.d.topic }

// Partition is the batch's partition.
func (b *ProducerBatch) Partition() int32 { return b.d.tp.Partition }

// Count is the number of records.
func (b *ProducerBatch) Count() int32 { return int32(len(b.slots)) }

// Size is the number of bytes on the wire, once sealed.
func (b *ProducerBatch) Size() int { return b.size }

// RawSize is the number of bytes before compression.
func (b *ProducerBatch) RawSize() int { return b.rawSize }

// MaxRecordSize is the size of the largest record.
func (b *ProducerBatch) MaxRecordSize() int { return b.maxRecord }

// MaxTimestamp is the latest time of its records, in ms.
func (b *ProducerBatch) MaxTimestamp() int64 { return b.maxTS }

// Codec is what it is compressed with, once sealed.
func (b *ProducerBatch) Codec() protocol.Codec { return b.codec }

// Created is when the first record was appended.
func (b *ProducerBatch) Created() time.Time { return b.created }

// Drained is when the batch was last taken to be sent.
func (b *ProducerBatch) Drained() time.Time { return b.drained }

// Attempts is how often the batch was sent.
func (b *ProducerBatch) Attempts() int { return b.attempts }

// Done reports whether its records know their fate.
func (b *ProducerBatch) Done() bool { return b.is(stateDone) }

// Stamped reports whether a producer id and a sequence were given to it.
func (b *ProducerBatch) Stamped() bool { return b.stamped }

// Producer is the producer id and epoch it is stamped with.
func (b *ProducerBatch) Producer() protocol.ProducerID { return b.producer }

// Sequence is the sequence number of its first record, if stamped.
func (b *ProducerBatch) Sequence() int32 { return b.sequence }

// Order compares batches of one partition by the order of their records.
func (b *ProducerBatch) Order(c *ProducerBatch) int {
	switch {
	case b.id < c.id || b.id == c.id && b.sub < c.sub:
		return -1
	case b.id == c.id && b.sub == c.sub:
		return 0
	}
	return 1
}

// Slabs are the bytes to send. They stay the batch's: whoever sends them holds the batch by Hold.
func (b *ProducerBatch) Slabs() [][]byte { return b.slabs[:b.at+1] }

// Hold notes that a frame with the batch's bytes was handed to a connection, and that a request refers
// to the batch: Unhold ends the one, Forget the other.
func (b *ProducerBatch) Hold() {
	b.sends++
	b.refs.Add(1)
	b.inFlight = true
}

// InFlight reports whether the batch was sent and its answer is due.
func (b *ProducerBatch) InFlight() bool { return b.inFlight }

// Landed notes that the answer has come, or never will.
func (b *ProducerBatch) Landed() { b.inFlight = false }

// MayBeWritten reports whether an attempt was made whose fate is unknown: the batch may be in the log.
func (b *ProducerBatch) MayBeWritten() bool { return b.mayBeWritten }

// SetMayBeWritten notes what an answer, or the lack of one, tells of the batch's fate. A doubt that is taken back is gone for
// the choice of the next step only: a lost attempt can be on its way still, and be appended after all.
func (b *ProducerBatch) SetMayBeWritten(v bool) {
	b.tainted = b.tainted || b.mayBeWritten
	b.mayBeWritten = v
}

// Unanswered reports whether an attempt under the present stamp went out and was lost without an answer. It may be on its way
// still, whatever brokers say of the batch meanwhile; one that was answered has done what it did.
func (b *ProducerBatch) Unanswered() bool { return b.unanswered }

// SetUnanswered notes that an attempt was lost without an answer, or that the batch has another stamp.
func (b *ProducerBatch) SetUnanswered(v bool) { b.unanswered = v }

// LostAt is when the last attempt was lost without an answer.
func (b *ProducerBatch) LostAt() time.Time { return b.lostAt }

// SetLostAt notes when an attempt was lost without an answer.
func (b *ProducerBatch) SetLostAt(now time.Time) { b.lostAt = now }

// LastError is what the last attempt met, or nil.
func (b *ProducerBatch) LastError() error { return b.lastError }

// LastMessage is what the broker said with it, if anything.
func (b *ProducerBatch) LastMessage() string { return b.lastMessage }

// SetLastError notes what an attempt met, and what the broker said with it.
func (b *ProducerBatch) SetLastError(err error, message string) {
	b.lastError, b.lastMessage = err, message
}

// RetryAt is when the batch may be sent again, after Reenqueue.
func (b *ProducerBatch) RetryAt() time.Time { return b.retryAt }

// Tainted reports whether an attempt's fate was unknown at some time, of the batch or of one that it is a part of. If it
// fails, it may be in the log.
func (b *ProducerBatch) Tainted() bool { return b.tainted }

// StartBackoffAnew has the back-off after the coming Reenqueue be the first one again: under another stamp the batch is another question, which
// no broker has refused yet. It does that once in the batch's life, not counting where that back-off is the first one anyway, lest brokers
// that refuse every stamp be asked ever and again at that pace. The sender's.
func (b *ProducerBatch) StartBackoffAnew() {
	if b.forgiven == 0 {
		b.forgiven = b.attempts - 1
	}
}

// HoldUpNobody has the back-off after the coming Reenqueue be the batch's own: what stands elsewhere in its partition need not wait for it. For
// one that was sent ahead of others and will not be sent again as it is: the next one to be asked for is another question. The sender's.
func (b *ProducerBatch) HoldUpNobody() { b.ahead = false }

// NotSent takes back that the batch was about to be sent: it was drained only to be failed. The sender's.
func (b *ProducerBatch) NotSent() { b.attempts-- }

// PartitionState is a place for what the Gate keeps of the batch's partition; nil at first. The sender's.
func (b *ProducerBatch) PartitionState() *any { return &b.d.gateState }

// Forget ends a request's reference to the batch, which may be another batch from now on.
func (b *ProducerBatch) Forget() { b.unref() }

// SetProducer gives the batch a producer id, epoch and base sequence. The header follows when it is
// next drained. The sender's.
func (b *ProducerBatch) SetProducer(p protocol.ProducerID, sequence int32) {
	b.stamped = p.Valid()
	b.producer, b.sequence = p, sequence
	b.dirty = true
}

// writeHeader writes header and CRC. The sender's, with no writer at the bytes.
func (b *ProducerBatch) writeHeader() {
	invariants.Check(b.sends == 0, "header of %v written with %d sends", b.d.tp, b.sends)
	invariants.Check(b.is(stateSealed), "header of a batch written that is %v", state(b.state.Load()))
	b.dirty = false
	p, sequence := b.producer, b.sequence
	if !b.stamped {
		p, sequence = protocol.NoProducerID, -1
	}
	b.sum()
	protocol.StampHeader(b.slabs[0], b.size, b.crc, protocol.BatchStamp{
		Codec: b.codec, Count: b.Count(),
		BaseTimestamp: b.baseTS, MaxTimestamp: b.maxTS,
		Producer: p, BaseSequence: sequence,
	})
}

// sum brings the checksum up to the records that are in the batch.
func (b *ProducerBatch) sum() {
	b.sumFilled()
	slab := b.slabs[b.at]
	b.crc = protocol.RecordsCRC(b.crc, slab[b.summedTo:])
	b.summedTo = len(slab)
}

// sumFilled brings it up to the slabs that are filled. Whoever fills one does it, while the bytes are in the cache of the processor that has just written them; for
// the sender, which mostly runs on another one, they are twice as dear. What is in the next slab already waits for the rest of it: the checksum of short pieces is
// dearer too.
func (b *ProducerBatch) sumFilled() {
	if b.summed == 0 && b.summedTo == 0 {
		b.summedTo = protocol.BatchHeaderSize
	}
	for ; b.summed < b.at; b.summed++ {
		b.crc = protocol.RecordsCRC(b.crc, b.slabs[b.summed][b.summedTo:])
		b.summedTo = 0
	}
}

// fits reports whether a record of n bytes may still go in, by the estimated compressed size.
// The first record always may (java-producer 4.3).
func (b *ProducerBatch) fits(n int) bool {
	if len(b.slots) == 0 {
		return true
	}
	if b.codec == protocol.CodecNone {
		return b.size+n <= b.limit
	}
	if b.size+n > b.a.rawLimit {
		return false
	}
	return b.estimated()+n <= b.limit
}

// full reports whether nothing more will fit: such a batch need not linger.
func (b *ProducerBatch) full() bool {
	if b.codec == protocol.CodecNone {
		return b.size >= b.limit
	}
	return b.size >= b.a.rawLimit || b.estimated() >= b.limit
}

// estimated is the size of the batch once it is compressed, by how well its topic did before.
func (b *ProducerBatch) estimated() int {
	return protocol.BatchHeaderSize + int(float64(b.size-protocol.BatchHeaderSize)*b.estimate)
}

// room is what is left in the slabs it has.
func (b *ProducerBatch) room() int {
	n := 0
	for i := b.at; i < len(b.slabs); i++ {
		n += cap(b.slabs[i]) - len(b.slabs[i])
	}
	return n
}

// appendRecord encodes r, of body bytes (RecordBodySize), and its slot. The slabs have room. timestamp is r's own or the clock's.
func (b *ProducerBatch) appendRecord(body, size int, timestamp int64, r *Record, cb Callback) {
	slab := &b.slabs[b.at]
	offsetDelta := int32(len(b.slots))
	if n := len(*slab); size <= cap(*slab)-n {
		*slab = (*slab)[:n+size]
		protocol.PutRecord((*slab)[n:], body, timestamp-b.baseTS, offsetDelta, r.Key, r.Value, r.Headers)
	} else {
		b.appendAcross(body, timestamp-b.baseTS, offsetDelta, r.Key, r.Value, r.Headers)
	}
	b.size += size
	if size > b.maxRecord {
		b.maxRecord = size
	}
	if timestamp > b.maxTS {
		b.maxTS = timestamp
	}
	// In place: a literal would be made elsewhere and copied.
	n := len(b.slots)
	if n == cap(b.slots) {
		b.slots = append(b.slots, slot{})
	}
	b.slots = b.slots[:n+1]
	s := &b.slots[n]
	s.cb, s.timestamp = cb, timestamp
	s.keySize, s.valueSize = int32(len(r.Key)), int32(len(r.Value))
	if r.Key == nil {
		s.keySize = -1
	}
	if r.Value == nil {
		s.valueSize = -1
	}
	if cb != nil {
		b.callbacks = true
	}
}

// appendAcross encodes a record that goes over the end of a slab.
func (b *ProducerBatch) appendAcross(body int, timestampDelta int64, offsetDelta int32, key, value []byte, headers []protocol.Header) {
	var scratch [32]byte
	b.write(protocol.AppendRecordPrefix(scratch[:0], body, timestampDelta, offsetDelta))
	b.writeBytes(key)
	b.writeBytes(value)
	b.write(appendUvarint(scratch[:0], uint64(len(headers))<<1))
	for i := range headers {
		b.write(appendUvarint(scratch[:0], uint64(len(headers[i].Key))<<1))
		b.writeString(headers[i].Key)
		b.writeBytes(headers[i].Value)
	}
}

func (b *ProducerBatch) writeBytes(p []byte) {
	var scratch [8]byte
	b.write(protocol.AppendVarintLen(scratch[:0], p))
	b.write(p)
}

// write copies p to the end of the batch, from slab to slab.
func (b *ProducerBatch) write(p []byte) {
	for len(p) > 0 {
		slab := b.nextRoom()
		n := min(len(p), cap(slab)-len(slab))
		b.slabs[b.at] = append(slab, p[:n]...)
		p = p[n:]
	}
}

func (b *ProducerBatch) writeString(p string) {
	for len(p) > 0 {
		slab := b.nextRoom()
		n := min(len(p), cap(slab)-len(slab))
		b.slabs[b.at] = append(slab, p[:n]...)
		p = p[n:]
	}
}

// nextRoom is the slab being filled, after moving on from a full one.
func (b *ProducerBatch) nextRoom() []byte {
	for len(b.slabs[b.at]) == cap(b.slabs[b.at]) {
		b.at++
	}
	return b.slabs[b.at]
}

func appendUvarint(dst []byte, v uint64) []byte {
	for v >= 0x80 {
		dst = append(dst, byte(v)|0x80)
		v >>= 7
	}
	return append(dst, byte(v))
}

// count brings share.unsent up to date: filled slabs while open, everything when closed.
func (b *ProducerBatch) count(bytes int) {
	if b.share != nil && bytes != b.counted {
		b.share.unsent.Add(int64(bytes - b.counted))
	}
	b.counted = bytes
}

// moveShare counts the batch for another node. d.mu held, or the batch popped.
func (b *ProducerBatch) moveShare(s *share) {
	if b.share == s {
		return
	}
	n := b.counted
	b.count(0)
	b.share = s
	b.count(n)
}

// Prefetch asks for the batch's own memory. For whoever goes through many batches.
func (b *ProducerBatch) Prefetch() { prefetch.Value(b) }

// PrefetchQueue asks for its partition's. It looks at the batch.
func (b *ProducerBatch) PrefetchQueue() { prefetch.Value(b.d) }

// PrefetchRecords asks for what it has of each record. It looks at the batch, which must be one that nothing is appended to any more.
func (b *ProducerBatch) PrefetchRecords() {
	prefetch.Slice(b.slots, smallBatch)
}

// Run tells every record's callback what became of it, in order. The dispatcher's, once, for a batch
// that Config.Done was given.
func (b *ProducerBatch) Run() {
	// One Result is changed from record to record: to make a new one for each cost a third of the loop.
	res := Result{Topic: b.d.tp.Topic, Partition: b.d.tp.Partition}
	last := int64(math.MinInt64) // res.Timestamp, in ms
	for i := range b.slots {
		s := &b.slots[i]
		if s.cb == nil {
			continue
		}
		if b.out.err != nil {
			s.cb(b.out.of(res.Topic, res.Partition, i, s))
			continue
		}
		if ms := b.out.time(s); ms != last {
			res.Timestamp, last = time.UnixMilli(ms), ms
		}
		res.Offset, res.KeySize, res.ValueSize = b.out.offset(i), int(s.keySize), int(s.valueSize)
		s.cb(res, nil)
	}
	b.unref()
}

// unref lets the struct be used again once the sender and the dispatcher are through with it.
func (b *ProducerBatch) unref() {
	n := b.refs.Add(-1)
	invariants.Check(n >= 0, "a batch was let go of too often") // b is not ours any more
	if n == 0 {
		b.a.recycle(b)
	}
}
