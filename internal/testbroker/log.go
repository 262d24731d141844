package testbroker

import (
	"sort"

	"github.com/kafka-reservoir/producer/protocol"
)

// partitionLog is one partition's batches and producer state. The cluster's lock guards it.
type partitionLog struct {
	start, end int64         // offsets: of the first record kept, and of the next one to come
	batches    []storedBatch // in offset order
	bytes      int64         // of all batches
	retention  int64         // negative: keep all
	discard    bool
	producers  producerStates

	// counters of everything ever appended, whatever became of it
	appendedBatches, appendedRecords, appendedBytes, duplicates int64
}

type storedBatch struct {
	base         int64
	count        int32
	raw          []byte // whole, with its base offset and leader epoch set; owned by the log, never changed
	producer     protocol.ProducerID
	sequence     int32
	maxTimestamp int64
	appendTime   int64 // -1 with create time
}

func (b *storedBatch) last() int64 { return b.base + int64(b.count) - 1 }

func newPartitionLog(retention int64, discard bool) *partitionLog {
	return &partitionLog{retention: retention, discard: discard}
}

// append puts a checked batch at the end and returns its base offset. It copies raw.
func (l *partitionLog) append(raw []byte, h protocol.BatchHeader, leaderEpoch int32, appendTime int64) int64 {
	base := l.end
	l.end += int64(h.Count)
	l.appendedBatches++
	l.appendedRecords += int64(h.Count)
	l.appendedBytes += int64(len(raw))
	producer := protocol.ProducerID{ID: h.ProducerID, Epoch: h.ProducerEpoch}
	if producer.Valid() {
		l.producers.record(producer, h.BaseSequence, h.Count, base, appendTime)
	}
	if l.discard {
		l.start = l.end
		return base
	}
	b := storedBatch{
		base:         base,
		count:        h.Count,
		raw:          append(make([]byte, 0, len(raw)), raw...),
		producer:     producer,
		sequence:     h.BaseSequence,
		maxTimestamp: h.MaxTimestamp,
		appendTime:   appendTime,
	}
	protocol.SetBaseOffset(b.raw, base)
	protocol.SetPartitionLeaderEpoch(b.raw, leaderEpoch)
	if appendTime >= 0 {
		protocol.SetLogAppendTime(b.raw, appendTime)
		b.maxTimestamp = appendTime
	}
	l.batches = append(l.batches, b)
	l.bytes += int64(len(raw))
	for l.retention >= 0 && l.bytes > l.retention && len(l.batches) > 1 {
		l.dropFirst()
		l.start = l.batches[0].base
	}
	return base
}

func (l *partitionLog) dropFirst() {
	l.bytes -= int64(len(l.batches[0].raw))
	l.batches[0] = storedBatch{} // lets go of raw now, not when the slice is grown next
	l.batches = l.batches[1:]
}

// deleteBefore moves the start to offset, as far as there are records.
func (l *partitionLog) deleteBefore(offset int64) {
	l.start = min(max(offset, l.start), l.end)
	for len(l.batches) > 0 && l.batches[0].last() < l.start {
		l.dropFirst()
	}
}

// truncateTo takes away the records from offset on, and with the first of them the rest of its batch; producer
// state becomes what the batches that are left make it.
func (l *partitionLog) truncateTo(offset int64) {
	for n := len(l.batches); n > 0 && l.batches[n-1].last() >= offset; n-- {
		l.end = l.batches[n-1].base
		l.bytes -= int64(len(l.batches[n-1].raw))
		l.batches = l.batches[:n-1]
	}
	l.start = min(l.start, l.end)
	l.producers.clear()
	for i := range l.batches {
		if b := &l.batches[i]; b.producer.Valid() {
			l.producers.record(b.producer, b.sequence, b.count, b.base, b.appendTime)
		}
	}
}

// from is the index of the first batch with records at or after offset.
func (l *partitionLog) from(offset int64) int {
	return sort.Search(len(l.batches), func(i int) bool { return l.batches[i].last() >= offset })
}

// sizeFrom is how many bytes of batches a fetch at offset could get, counted up to limit.
func (l *partitionLog) sizeFrom(offset int64, limit int) int {
	size := 0
	for i := l.from(offset); i < len(l.batches) && size < limit; i++ {
		size += len(l.batches[i].raw)
	}
	return size
}

// read appends to dst whole batches from offset on, as many as fit into limit, or one when atLeastOne is set.
func (l *partitionLog) read(dst []byte, offset int64, limit int, atLeastOne bool) []byte {
	for i := l.from(offset); i < len(l.batches); i++ {
		raw := l.batches[i].raw
		if len(raw) > limit && !atLeastOne {
			break
		}
		dst = append(dst, raw...)
		limit -= len(raw)
		atLeastOne = false
	}
	return dst
}

// seenKey is what must stand for the same bytes for ever.
type seenKey struct {
	producer protocol.ProducerID
	sequence int32
}

type seenValue struct {
	crc   uint32
	count int32
}

// seenLimit bounds what seenBatches remembers; sequences come round again after 2^31 records.
const seenLimit = 4096

// seenBatches remembers the batches of one partition that were written, or whose fate the client cannot know, to
// find out when it gives their sequence to other bytes.
type seenBatches struct {
	values map[seenKey]seenValue
	order  []seenKey // a ring once it is full
	next   int
}

func newSeenBatches() *seenBatches { return &seenBatches{values: make(map[seenKey]seenValue)} }

// differs reports whether the sequence stood for other bytes before.
func (s *seenBatches) differs(k seenKey, v seenValue) bool {
	old, ok := s.values[k]
	return ok && old != v
}

func (s *seenBatches) add(k seenKey, v seenValue) {
	if _, ok := s.values[k]; ok {
		return
	}
	if len(s.order) < seenLimit {
		s.order = append(s.order, k)
	} else {
		delete(s.values, s.order[s.next])
		s.order[s.next] = k
		s.next = (s.next + 1) % seenLimit
	}
	s.values[k] = v
}
