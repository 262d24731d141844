package sim

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/kafka-reservoir/producer/accumulator"
	"github.com/kafka-reservoir/producer/internal/testbroker"
	"github.com/kafka-reservoir/producer/protocol"
	"github.com/kafka-reservoir/producer/sender"
)

// Book knows every record that the application sent, what the producer said of it, and what the brokers stored. It
// complains as soon as the three do not agree.
type Book struct {
	w      *World
	p      *Plan
	topics []string
	parts  [][]*partitionBook
	all    []*record
	open   int       // accepted, and their callbacks still to come
	taken  int       // records accepted so far
	oldest []*record // those accepted, in this order, from the first one whose callback is still to come
	bytes  int64     // of keys and values of the open ones

	// Limits, set by the run as it goes.
	closed        bool          // nothing may be called back any more
	forced        bool          // the producer was closed by force
	calm          time.Duration // records accepted from here on meet no trouble; 0: not yet
	patience      time.Duration // a calm record is settled after so much at the latest
	flushPatience time.Duration // and a calm flush, which does not linger
	slack         time.Duration // the most that a delivery timeout may be late
	violations    []string
	wellAt        time.Duration // when the cluster became well; 0: not yet
	short         bool          // not a slab of memory was free then
	allowed       time.Duration // how long it may take then until all partitions go on: see mayTake
	recovery      time.Duration // how long it took then until all partitions went on
	digest        digest
	acked         int
	failed        int
	byAck         func(*record) // told of every record that is called back
}

// partitionBook is what is known of one partition.
type partitionBook struct {
	topic     string
	partition int32
	sent      int       // records accepted
	called    int       // number of the last record called back
	log       []*record // what the log holds, by offset
	last      int       // the highest number among first copies in it
	probe     *record   // the last one
	phantom   bool      // there is no such partition: metadata was damaged
	open      []*record // accepted, and their callbacks still to come
	// What the client believes of its leader.
	epoch    int32
	topicID  protocol.UUID
	news     int           // metadata answers when it began to
	forgot   []span        // whose records may be there twice, or out of order: the brokers had forgotten their producer
	progress time.Duration // when the newest record that was acknowledged was accepted
	recovery time.Duration // how long it took to go on, once all was well
	untold   time.Duration // of that, how long probes that had failed waited for their callbacks: the next one is sent after these
	gapAt    time.Duration // when a leader last said that a sequence is missing, or that it does not know the producer
	// What is seen of its batches on the wire.
	stamp   protocol.ProducerID // of the newest one
	onWire  int                 // they wait for their answers
	settled int                 // number of the last record whose fate is decided, if its callback has not run yet
	tail    struct {            // the stamp of the last record in the log
		id       protocol.ProducerID
		sequence int32
	}
}

// span is a time in which records were accepted.
type span struct{ from, to time.Duration }

// record is one that the application wants to send.
type record struct {
	book      *Book
	id        uint32
	part      *partitionBook // nil until accepted
	number    int            // in its partition, from 1
	seq       int            // among all that were accepted, from 1
	keySize   int            // -1: null
	valueSize int            // -1: null
	by        identity
	accepted  time.Duration
	settled   time.Duration // 0: not yet
	calls     int
	offset    int64
	err       error
	copies    int  // in the log as it is
	stored    bool // at any time
	lost      bool // was in a log, or a part of one, that is no more
	refused   bool // never accepted
	then      bool // its callback sends another one

	// Of a record that somebody waits for, who goes on when it is settled.
	told   func()
	future accumulator.Handle
	done   <-chan struct{}
}

// identity is where a record carries its number.
type identity int8

const (
	inValue identity = iota
	inHeader
	inTimestamp
)

func newBook(w *World, p *Plan) *Book {
	b := &Book{w: w, p: p, slack: 250 * time.Millisecond, digest: newDigest()}
	w.Settled = func(tp protocol.TopicPartition, records int32) {
		if part := b.find(tp.Topic, tp.Partition); part != nil {
			part.settled += int(records)
		}
	}
	return b
}

func (b *Book) addTopic(name string, partitions int) {
	b.topics = append(b.topics, name)
	parts := make([]*partitionBook, partitions)
	for i := range parts {
		parts[i] = &partitionBook{topic: name, partition: int32(i), stamp: protocol.NoProducerID}
	}
	b.parts = append(b.parts, parts)
}

func (b *Book) find(topic string, partition int32) *partitionBook {
	for i, name := range b.topics {
		if name == topic && partition >= 0 && int(partition) < len(b.parts[i]) {
			return b.parts[i][partition]
		}
	}
	return nil
}

const maxViolations = 20

// violate notes that something is wrong.
func (b *Book) violate(format string, args ...any) {
	if len(b.violations) < maxViolations {
		b.violations = append(b.violations, fmt.Sprintf("%v: ", b.w.Selector.Since())+fmt.Sprintf(format, args...))
	}
}

// Bytes that records are made of. No two records with the same size have the same, mostly.
var noise, text = func() ([]byte, []byte) {
	d := stream(1, 1)
	a, b := make([]byte, 1<<20), make([]byte, 1<<20)
	for i := range a {
		a[i] = byte(d.Uint32())
		b[i] = "abcdefgh"[d.IntN(8)]
		if i%64 < 48 {
			b[i] = byte('0' + i%10)
		}
	}
	return a, b
}()

// filler is n bytes that depend on the record.
func (r *record) filler(n int) []byte {
	from := noise
	if r.book.p.Text {
		from = text
	}
	at := int(r.id) * 7919 % (len(from) - n)
	return from[at : at+n]
}

// value and key put together what the record carries, in scratch space.
func (r *record) value(scratch []byte) []byte {
	if r.valueSize < 0 {
		return nil
	}
	if r.by != inValue {
		return r.filler(r.valueSize)
	}
	scratch = binary.BigEndian.AppendUint64(scratch[:0], uint64(r.id)|tag)
	return append(scratch, r.filler(r.valueSize-8)...)
}

func (r *record) key() []byte {
	if r.keySize < 0 {
		return nil
	}
	return r.filler(r.keySize)
}

func (r *record) headers() []protocol.Header {
	if r.by != inHeader {
		return nil
	}
	return []protocol.Header{{Key: "id", Value: binary.BigEndian.AppendUint64(nil, uint64(r.id)|tag)}, {Key: "", Value: nil}}
}

func (r *record) timestamp() int64 {
	if r.by == inTimestamp {
		return int64(r.id) + 1
	}
	return -1
}

// tag makes a record's number look like nothing else.
const tag = 0x5EED << 48

// identify finds the record that a stored one is. nil: nobody sent it.
func (b *Book) identify(s *testbroker.Record) *record {
	var id uint64
	switch {
	case len(s.Headers) > 0 && len(s.Headers[0].Value) == 8:
		id = binary.BigEndian.Uint64(s.Headers[0].Value) ^ tag
	case s.Timestamp < 1<<32:
		id = uint64(s.Timestamp) - 1
	case len(s.Value) >= 8:
		id = binary.BigEndian.Uint64(s.Value) ^ tag
	default:
		return nil
	}
	if id >= uint64(len(b.all)) {
		return nil
	}
	return b.all[id]
}

// is compares what was stored with what was sent.
func (r *record) is(s *testbroker.Record) bool {
	if r.by == inHeader && (len(s.Headers) != 2 || s.Headers[0].Key != "id" || s.Headers[1].Key != "" || s.Headers[1].Value != nil) {
		return false
	}
	if r.by != inHeader && len(s.Headers) != 0 || r.by == inTimestamp && s.Timestamp != r.timestamp() {
		return false
	}
	return same(s.Key, r.key(), r.keySize) && same(s.Value, r.value(make([]byte, 0, 64)), r.valueSize)
}

func same(got, want []byte, size int) bool {
	return (got == nil) == (size < 0) && bytes.Equal(got, want)
}

// newRecord makes a record that is about to be sent.
func (b *Book) newRecord() *record {
	r := &record{book: b, id: uint32(len(b.all)), offset: -1}
	b.all = append(b.all, r)
	return r
}

// accept notes that the producer took the record, for this partition.
func (b *Book) accept(r *record, p *partitionBook) {
	p.sent++
	b.taken++
	r.part, r.number, r.seq, r.accepted = p, p.sent, b.taken, b.w.Selector.Since()
	b.open++
	b.bytes += r.bytes()
	p.open = append(p.open, r)
	b.oldest = append(b.oldest, r)
}

// OnCompletion is its accumulator.Callback.
func (r *record) OnCompletion(res accumulator.Result, err error) {
	b := r.book
	r.calls++
	b.open--
	b.bytes -= r.bytes()
	now := b.w.Selector.Since()
	b.digest.add(uint64(now), uint64(r.id), uint64(res.Offset))
	if r.calls > 1 {
		b.violate("record %d: %d callbacks", r.id, r.calls)
		return
	}
	if b.closed {
		b.violate("record %d: callback after Close had returned", r.id)
	}
	if r.part == nil {
		// Within Append: settled before it returned. The engine never does that in a simulation.
		b.violate("record %d: callback before it was accepted", r.id)
		return
	}
	r.settled, r.offset, r.err = max(b.w.SettledAt, 1), res.Offset, err
	b.inTime(r)
	if r.number <= r.part.called {
		b.violate("record %d of %v: callback %d after %d", r.id, r.part, r.number, r.part.called)
	}
	r.part.called = r.number
	if open := r.part.open; len(open) > 0 && open[0] == r {
		r.part.open = open[1:]
	}
	if err == nil {
		b.acked++
		if b.wellAt > 0 && r.accepted >= b.wellAt && r.part.progress < b.wellAt {
			r.part.recovery = r.settled - b.wellAt - r.part.untold
			b.recovery = max(b.recovery, r.part.recovery)
		}
		r.part.progress = max(r.part.progress, r.accepted)
		b.checkResult(r, res)
	} else {
		b.failed++
		if r == r.part.probe {
			r.part.untold += now - r.settled
		}
		b.checkError(r)
	}
	if r.done != nil {
		b.checkFuture(r, res, err)
	}
	if b.byAck != nil {
		b.byAck(r)
	}
}

// checkFuture checks that who waits for a record was told, and hears what its callback hears.
func (b *Book) checkFuture(r *record, res accumulator.Result, err error) {
	select {
	case <-r.done:
		if said, failed := r.future.Wait(context.Background()); said != res || failed != err {
			b.violate("record %d: the future says %v, %v, and the callback %v, %v", r.id, said, failed, res, err)
		}
	default:
		b.violate("record %d: its callback runs, and its future is not done", r.id)
	}
}

func (p *partitionBook) String() string { return fmt.Sprintf("%s-%d", p.topic, p.partition) }

// inTime checks that a record is settled when it has to be.
func (b *Book) inTime(r *record) {
	if age := r.settled - r.accepted; age > b.p.Config.DeliveryTimeout+b.slack {
		b.violate("record %d: settled after %v, which is beyond the delivery timeout (%v): %v", r.id, age, b.p.Config.DeliveryTimeout, r.err)
	}
	if b.calm > 0 && !r.part.phantom && r.accepted >= b.calm && !b.forced {
		if age := r.settled - r.accepted; age > b.patience {
			b.violate("record %d of %v: settled after %v in a calm world, where %v would do", r.id, r.part, age, b.patience)
		}
	}
}

// checkResult holds an acknowledgement against the log.
func (b *Book) checkResult(r *record, res accumulator.Result) {
	if res.Topic != r.part.topic || res.Partition != r.part.partition {
		b.violate("record %d: acknowledged for %s-%d, sent to %v", r.id, res.Topic, res.Partition, r.part)
	}
	if res.KeySize != r.keySize || res.ValueSize != r.valueSize {
		b.violate("record %d: acknowledged with sizes %d and %d instead of %d and %d", r.id, res.KeySize, res.ValueSize, r.keySize, r.valueSize)
	}
	if b.p.Config.AcksNone {
		return // a promise of nothing
	}
	if res.Offset < 0 && b.p.Levels[DuplicateCode] == Off {
		b.violate("record %d: acknowledged without an offset", r.id)
	}
	if res.Offset >= int64(len(r.part.log)) || r.copies == 0 {
		b.scan(r.part)
	}
	switch {
	case r.lost:
	case r.copies == 0:
		b.violate("record %d of %v: acknowledged at offset %d and not stored", r.id, r.part, res.Offset)
	case res.Offset < 0:
	case res.Offset >= int64(len(r.part.log)) || r.part.log[res.Offset] != r:
		b.violate("record %d of %v: acknowledged at offset %d, where another one is", r.id, r.part, res.Offset)
	}
}

// checkError looks at why a record failed.
func (b *Book) checkError(r *record) {
	c := &b.p.Config
	var e *sender.DeliveryError
	if !errors.As(r.err, &e) {
		b.violate("record %d: failed with %T, which says nothing of its fate: %v", r.id, r.err, r.err)
		return
	}
	if text := r.err.Error(); strings.Contains(text, "never sent") != (e.Attempts == 0 && !e.Written) ||
		strings.Contains(text, "may have been written") != e.Written {
		b.violate("record %d: its error says other than what is known of its fate: %v", r.id, r.err)
	}
	var code protocol.ErrorCode
	coded := errors.As(e.Cause, &code)
	switch {
	case errors.Is(e.Cause, sender.ErrForceClosed):
		if !b.forced {
			b.violate("record %d: failed by a close, but nobody forced one: %v", r.id, r.err)
		}
	case errors.Is(e.Cause, sender.ErrDeliveryTimeout):
		if e.Age < c.DeliveryTimeout {
			b.violate("record %d: its time was up after %v of %v: %v", r.id, e.Age, c.DeliveryTimeout, r.err)
		}
		if b.wellAt > 0 && !r.part.phantom && r.settled > b.wellAt+b.mayTake(r.part) && b.p.timeToConnect() && b.p.timeToSplit() {
			b.violate("record %d of %v: given up at %v, though the cluster was well since %v: %v", r.id, r.part, r.settled, b.wellAt, r.err)
		}
	case c.Retries != 0 && e.Attempts > max(c.Retries, 0) && (!coded || code.Retriable()):
		// Few retries were asked for.
	case coded && code == protocol.MessageTooLarge:
		if limit := b.p.maxMessage(); r.size() < limit && b.p.Levels[TooLarge] == Off {
			b.violate("record %d: too large with %d bytes, where %d are allowed: %v", r.id, r.size(), limit, r.err)
		}
	case coded && (code == protocol.UnknownProducerID || code == protocol.OutOfOrderSequenceNumber) && b.forgetful():
		// In doubt, or refused and overtaken by a later record that a log without memory took for the first. Which of the two it says is held
		// against the log in the end.
	case coded && code == protocol.UnknownServerError && (b.p.Levels[DoubtCode] != Off || b.p.Levels[PartialCode] != Off):
		if !e.Written {
			b.violate("record %d: nobody knows whether it was written, and it does not say so: %v", r.id, r.err)
		}
	default:
		b.violate("record %d: failed for a reason that a patient client need not fail for: %v", r.id, r.err)
	}
}

// forgetful reports whether brokers may forget producers in this world.
func (b *Book) forgetful() bool {
	l := &b.p.Levels
	return b.p.Config.Cluster.Model != testbroker.Strict || l[ExpireProducer] != Off || l[ExpireAndFlap] != Off ||
		l[RecreateTopic] != Off || l[Unclean] != Off
}

// size is about what the record takes in a log.
func (r *record) size() int {
	return max(r.keySize, 0) + max(r.valueSize, 0) + protocol.BatchHeaderSize + 32
}

func (r *record) bytes() int64 { return int64(max(r.keySize, 0) + max(r.valueSize, 0)) }

// checkLogs takes in what the logs have got since it was called last.
func (b *Book) checkLogs() {
	for _, parts := range b.parts {
		for _, p := range parts {
			if _, end := b.w.Cluster.Offsets(p.topic, p.partition); end > int64(len(p.log)) {
				b.scan(p)
			}
		}
	}
}

// checkOpen holds the records that are still open to their time, and to the memory that they may take.
func (b *Book) checkOpen() {
	for len(b.oldest) > 0 && b.oldest[0].calls > 0 {
		b.oldest = b.oldest[1:]
	}
	c := &b.p.Config
	if len(b.oldest) > 0 && b.p.Callback == 0 {
		if r := b.oldest[0]; b.w.Selector.Since()-r.accepted > c.DeliveryTimeout+b.slack {
			b.violate("record %d of %v: no callback %v after it was accepted, which is beyond the delivery timeout (%v)",
				r.id, r.part, b.w.Selector.Since()-r.accepted, c.DeliveryTimeout)
			b.oldest = b.oldest[1:]
		}
	}
	// What waits to be sent or answered is in the pool, and as much may wait for callbacks. Compression makes room for more.
	if limit := 2*c.BufferMemory + int64(c.MaxRequestSize); b.bytes > limit && c.Codec == protocol.CodecNone && b.p.Levels[SendFromCallback] == Off {
		b.violate("%d bytes of records are open, %d are allowed", b.bytes, limit)
	}
}

// scan takes in what a log holds now beyond what was known of it.
func (b *Book) scan(p *partitionBook) {
	for _, s := range b.w.Cluster.RecordsFrom(p.topic, p.partition, int64(len(p.log))) {
		if s.Offset != int64(len(p.log)) {
			b.violate("%v: offset %d where %d was to be expected", p, s.Offset, len(p.log))
			return
		}
		b.take(p, &s)
	}
}

// take takes in one stored record.
func (b *Book) take(p *partitionBook, s *testbroker.Record) {
	r := b.identify(s)
	p.log = append(p.log, r)
	p.tail.id, p.tail.sequence = protocol.ProducerID{ID: s.ProducerID, Epoch: s.ProducerEpoch}, s.Sequence
	b.digest.add(uint64(s.Offset), uint64(s.Sequence))
	switch {
	case r == nil:
		b.violate("%v: offset %d has something that nobody sent: %d bytes", p, s.Offset, len(s.Value))
		return
	case r.part == nil:
		b.violate("%v: offset %d has record %d, which was never accepted", p, s.Offset, r.id)
		return
	case r.part != p:
		b.violate("%v: offset %d has record %d, which was sent to %v", p, s.Offset, r.id, r.part)
		return
	case !r.is(s):
		b.violate("%v: offset %d has record %d with other bytes", p, s.Offset, r.id)
	}
	r.copies++
	r.stored = true
	if !b.p.idempotent() && b.p.Config.MaxInFlight > 1 || p.forgiven(r) {
		p.last = max(p.last, r.number)
		return
	}
	if r.copies > 1 {
		if b.p.idempotent() {
			b.violate("%v: record %d stands at offset %d for the second time (settled after %v, err %v)", p, r.id, s.Offset, r.settled, r.err)
		}
		return
	}
	if r.number < p.last && (b.p.idempotent() || r.settled == 0) {
		b.violate("%v: record %d, number %d, stands at offset %d behind number %d", p, r.id, r.number, s.Offset, p.last)
	}
	p.last = max(p.last, r.number)
}

// forgiven reports whether r was under way when the brokers forgot the producer. One that was settled before was not, unless an attempt
// of it can be late.
func (p *partitionBook) forgiven(r *record) bool {
	late := r.book.p.lateRequests()
	for _, f := range p.forgot {
		if r.accepted >= f.from && r.accepted <= f.to && (late || r.settled == 0 || r.settled >= f.to) {
			return true
		}
	}
	return false
}

// forget notes that a partition's producers are about to be forgotten: what is under way may be written twice.
func (b *Book) forget(p *partitionBook) {
	b.scan(p)
	now := b.w.Selector.Since()
	c := &b.p.Config
	p.forgot = append(p.forgot, span{now - c.DeliveryTimeout - c.RequestTimeout - 2*maxDelay, now})
}

// truncated notes that a log has lost its end.
func (b *Book) truncated(p *partitionBook, end int64) {
	for int64(len(p.log)) > end {
		r := p.log[len(p.log)-1]
		p.log = p.log[:len(p.log)-1]
		if r != nil {
			r.copies--
			r.lost = true
		}
	}
	p.last, p.tail.id = 0, protocol.NoProducerID
	for _, r := range p.log {
		if r != nil {
			p.last = max(p.last, r.number)
		}
	}
}

// finish looks at everything once more, when nothing will happen any more.
func (b *Book) finish() {
	for _, parts := range b.parts {
		for _, p := range parts {
			b.scan(p)
		}
	}
	for _, r := range b.all {
		switch {
		case r.refused:
			if r.calls > 0 {
				b.violate("record %d: refused, and called back", r.id)
			}
		case r.part == nil:
		case r.calls != 1:
			b.violate("record %d of %v: %d callbacks", r.id, r.part, r.calls)
		case r.err == nil:
			if r.copies == 0 && !r.lost && !b.p.Config.AcksNone {
				b.violate("record %d of %v: acknowledged at offset %d and not stored", r.id, r.part, r.offset)
			}
		default:
			var e *sender.DeliveryError
			if errors.As(r.err, &e) && !e.Written && r.stored {
				b.violate("record %d of %v: stored, though it was said not to have been written: %v", r.id, r.part, r.err)
			}
		}
	}
}
