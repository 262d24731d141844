package testbroker

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/kafka-reservoir/producer/protocol"
)

func appendTo(t *testing.T, l *partitionLog, raw []byte) int64 {
	t.Helper()
	h, err := protocol.ReadBatchHeader(raw)
	require.NoError(t, err)
	return l.append(raw, h, 4, -1)
}

func TestLogAppendAndRead(t *testing.T) {
	l := newPartitionLog(-1, false)
	assert.Equal(t, int64(0), appendTo(t, l, plain("a", "b", "c")))
	assert.Equal(t, int64(3), appendTo(t, l, plain("d")))
	assert.Equal(t, int64(4), l.end)

	// DRB-08: base offset and leader epoch were set and left the CRC alone.
	all := l.read(nil, 0, 1<<20, false)
	h, err := protocol.ReadBatchHeader(all)
	require.NoError(t, err)
	assert.NoError(t, protocol.VerifyCRC(all))
	assert.Equal(t, int32(4), h.PartitionLeaderEpoch)
	second := all[h.Size():]
	h2, err := protocol.ReadBatchHeader(second)
	require.NoError(t, err)
	assert.Equal(t, int64(3), h2.BaseOffset)
	assert.Len(t, second, h2.Size())

	assert.Len(t, l.read(nil, 2, 1<<20, false), len(all), "from the middle of a batch: the whole batch")
	assert.Len(t, l.read(nil, 3, 1<<20, false), h2.Size())
	assert.Empty(t, l.read(nil, 4, 1<<20, false))
	assert.Empty(t, l.read(nil, 0, 10, false), "no batch fits")
	assert.Len(t, l.read(nil, 0, 10, true), h.Size(), "but one is demanded")
	assert.Equal(t, len(all), l.sizeFrom(0, 1<<20))
	assert.Equal(t, h.Size(), l.sizeFrom(0, 1), "no need to count on")
}

func TestLogRetentionDropsOldest(t *testing.T) {
	b := plain("0123456789")
	l := newPartitionLog(int64(3*len(b)), false)
	for range 10 {
		appendTo(t, l, b)
	}
	assert.Equal(t, int64(10), l.end)
	assert.Equal(t, int64(7), l.start)
	assert.Len(t, l.batches, 3)
	assert.Equal(t, int64(3*len(b)), l.bytes)
	assert.Equal(t, int64(10), l.appendedRecords)

	// A batch larger than the whole bound is kept alone.
	small := newPartitionLog(1, false)
	appendTo(t, small, b)
	appendTo(t, small, b)
	assert.Equal(t, int64(1), small.start)
	assert.Len(t, small.batches, 1)
}

func TestLogDiscardKeepsCountsAndProducers(t *testing.T) {
	l := newPartitionLog(-1, true)
	appendTo(t, l, idempotent(5, 0, 0, "a", "b"))
	assert.Equal(t, int64(2), l.start)
	assert.Equal(t, int64(2), l.end)
	assert.Equal(t, int64(2), l.appendedRecords)
	assert.Empty(t, l.batches)
	assert.NotNil(t, l.producers.check(Strict, protocol.ProducerID{ID: 5}, 0, 2).duplicate)
}

func TestLogDeleteBefore(t *testing.T) {
	l := newPartitionLog(-1, false)
	appendTo(t, l, plain("a", "b"))
	appendTo(t, l, plain("c", "d"))
	l.deleteBefore(1)
	assert.Equal(t, int64(1), l.start)
	assert.Len(t, l.batches, 2, "a batch goes when all of it is deleted")
	l.deleteBefore(2)
	assert.Len(t, l.batches, 1)
	l.deleteBefore(1)
	assert.Equal(t, int64(2), l.start, "the start never moves back")
	l.deleteBefore(100)
	assert.Equal(t, int64(4), l.start)
	assert.Empty(t, l.batches)
}

func TestLogTruncateTakesProducerStateBack(t *testing.T) {
	l := newPartitionLog(-1, false)
	id := protocol.ProducerID{ID: 5}
	appendTo(t, l, idempotent(5, 0, 0, "a", "b"))
	appendTo(t, l, idempotent(5, 0, 2, "c"))
	appendTo(t, l, idempotent(5, 0, 3, "d", "e"))
	l.truncateTo(4) // within the last batch: all of it goes
	assert.Equal(t, int64(3), l.end)
	assert.Equal(t, protocol.None, l.producers.check(Strict, id, 3, 9).code)
	assert.NotNil(t, l.producers.check(Strict, id, 2, 1).duplicate)
	l.truncateTo(0)
	assert.Equal(t, int64(0), l.end)
	assert.Equal(t, protocol.OutOfOrderSequenceNumber, l.producers.check(Strict, id, 3, 1).code)
	assert.Equal(t, int64(0), appendTo(t, l, plain("x")))
}

func TestSeenBatchesIsBounded(t *testing.T) {
	s := newSeenBatches()
	key := func(i int) seenKey { return seenKey{protocol.ProducerID{ID: 1}, int32(i)} }
	for i := range 3 * seenLimit {
		s.add(key(i), seenValue{crc: uint32(i), count: 1})
		s.add(key(i), seenValue{crc: 1, count: 1}) // the first one stands
	}
	assert.Len(t, s.values, seenLimit)
	assert.True(t, s.differs(key(3*seenLimit-1), seenValue{crc: 1, count: 1}))
	assert.False(t, s.differs(key(3*seenLimit-1), seenValue{crc: uint32(3*seenLimit - 1), count: 1}))
	assert.False(t, s.differs(key(0), seenValue{crc: 99, count: 1}), "forgotten")
}
