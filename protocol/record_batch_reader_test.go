package protocol

import (
	"bytes"
	"encoding/binary"
	"encoding/hex"
	"io"
	"math"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

type testRecord struct {
	timestamp  int64
	key, value []byte
	headers    []Header
}

// makeBatch writes a batch as the producer does, uncompressed and in one slab.
func makeBatch(s BatchStamp, records ...testRecord) []byte {
	b := make([]byte, BatchHeaderSize)
	for i, r := range records {
		if i == 0 {
			s.BaseTimestamp, s.MaxTimestamp = r.timestamp, r.timestamp
		}
		s.MaxTimestamp = max(s.MaxTimestamp, r.timestamp)
		body := RecordBodySize(r.timestamp-s.BaseTimestamp, int32(i), r.key, r.value, r.headers)
		b = AppendRecord(b, body, r.timestamp-s.BaseTimestamp, int32(i), r.key, r.value, r.headers)
	}
	s.Count = int32(len(records))
	StampBatch([][]byte{b}, len(b), s)
	return b
}

func readAll(t *testing.T, b []byte) (BatchHeader, []RecordView) {
	t.Helper()
	h, err := ReadBatchHeader(b)
	require.NoError(t, err)
	require.NoError(t, VerifyCRC(b))
	require.Equal(t, len(b), h.Size())
	r := NewRecordReader(b[BatchHeaderSize:h.Size()], h.Count)
	var records []RecordView
	for {
		v, err := r.Next()
		if err == io.EOF {
			_, err = r.Next()
			require.ErrorIs(t, err, io.EOF, "the end stays the end")
			return h, records
		}
		require.NoError(t, err)
		records = append(records, v)
	}
}

var idempotent = BatchStamp{Producer: ProducerID{77, 3}, BaseSequence: 10}
var plain = BatchStamp{Producer: NoProducerID, BaseSequence: -1}

// goldenRecords are the records of the golden batches, see testdata/Golden.java.
var goldenRecords = []testRecord{
	{1700000000000, []byte("key"), []byte("value"), []Header{{"trace", []byte{1, 2, 3}}, {"trace", nil}, {"", []byte{}}}},
	{1700000000005, nil, nil, nil},
	{1699999999000, []byte{}, make([]byte, 200), nil},
}

// S-68, DRB-02, DRC-01, MRB-08: a batch that Kafka's own builder wrote is read back, and ours is the same bytes:
// keys, values and header values that are null, empty and neither; a header twice; a timestamp older than
// the first one's; sequences that wrap.
func TestRecordBatchIsKafkas(t *testing.T) {
	want := golden(t)
	b := want["RecordBatch/transactional"][2]
	ours := makeBatch(BatchStamp{Transactional: true, Producer: ProducerID{77, 3}, BaseSequence: math.MaxInt32}, goldenRecords...)
	assert.Equal(t, hex.EncodeToString(b), hex.EncodeToString(ours))
	ours = makeBatch(plain, testRecord{timestamp: 1700000000000, key: []byte("key"), value: []byte("value")})
	assert.Equal(t, hex.EncodeToString(want["RecordBatch/plain"][2]), hex.EncodeToString(ours))

	h, records := readAll(t, b)
	assert.Equal(t, BatchHeader{
		BatchLength: int32(len(b) - 12), PartitionLeaderEpoch: -1, Magic: 2, CRC: binary.BigEndian.Uint32(b[17:]),
		Attributes: AttributeTransactional, LastOffsetDelta: 2, BaseTimestamp: 1700000000000, MaxTimestamp: 1700000000005,
		ProducerID: 77, ProducerEpoch: 3, BaseSequence: math.MaxInt32, Count: 3,
	}, h)
	assert.True(t, h.IsTransactional())
	assert.False(t, h.IsControl())
	assert.False(t, h.IsLogAppendTime())
	require.Len(t, records, 3)
	for i, r := range records {
		w := goldenRecords[i]
		assert.Equal(t, RecordView{0, w.timestamp - h.BaseTimestamp, int32(i), w.key, w.value, w.headers}, r)
		assert.Equal(t, w.timestamp, h.Timestamp(r))
		assert.Equal(t, int64(i), h.Offset(r))
	}

	// MRB-07: with the broker's time all records have that of the batch.
	h, records = readAll(t, want["RecordBatch/logAppendTime"][2])
	assert.True(t, h.IsLogAppendTime())
	for _, r := range records {
		assert.Equal(t, int64(1700000000005), h.Timestamp(r))
	}
}

// DRB-03, DRB-11: sequences go from MaxInt32 to 0, forwards and backwards.
func TestSequencesWrap(t *testing.T) {
	h, records := readAll(t, makeBatch(BatchStamp{Producer: ProducerID{1, 0}, BaseSequence: math.MaxInt32 - 1}, make([]testRecord, 4)...))
	var got []int32
	for _, r := range records {
		got = append(got, h.Sequence(r))
	}
	assert.Equal(t, []int32{math.MaxInt32 - 1, math.MaxInt32, 0, 1}, got)
	assert.Equal(t, int32(1), h.LastSequence())

	assert.Equal(t, int32(4), AddSequence(math.MaxInt32-5, 10))
	assert.Equal(t, int32(math.MaxInt32), AddSequence(0, -1))
	assert.Equal(t, int32(math.MaxInt32-5), AddSequence(4, -10))
}

// MRB-14: a closed batch that gets another producer id, epoch and sequence has them in its header, its
// checksum is right again, and its records are the same bytes.
func TestStampAgain(t *testing.T) {
	b := makeBatch(idempotent, goldenRecords...)
	before := append([]byte(nil), b...)
	want, records := readAll(t, b)
	StampBatch([][]byte{b[:100], b[100:]}, len(b), BatchStamp{
		Count: want.Count, BaseTimestamp: want.BaseTimestamp, MaxTimestamp: want.MaxTimestamp, Producer: ProducerID{78, 0}, BaseSequence: 0,
	})
	got, again := readAll(t, b)
	assert.NotEqual(t, want.CRC, got.CRC)
	want.ProducerID, want.ProducerEpoch, want.BaseSequence, want.CRC = 78, 0, 0, got.CRC
	assert.Equal(t, want, got)
	assert.Equal(t, records, again)
	assert.Equal(t, before[BatchHeaderSize:], b[BatchHeaderSize:])
}

// DRC-06: without a base sequence no record has one.
func TestNoSequences(t *testing.T) {
	h, records := readAll(t, makeBatch(plain, make([]testRecord, 2)...))
	assert.Equal(t, int32(-1), h.LastSequence())
	assert.Equal(t, int32(-1), h.Sequence(records[1]))
}

// DRB-01: a batch without records, such as compaction leaves behind, has all its fields.
func TestEmptyBatch(t *testing.T) {
	b := makeBatch(idempotent)
	binary.BigEndian.PutUint32(b[23:], 6)
	SetBaseOffset(b, 1000)
	SetPartitionLeaderEpoch(b, 5)
	SetLogAppendTime(b, 1700000000000)
	h, records := readAll(t, b)
	assert.Empty(t, records)
	assert.Equal(t, BatchHeader{
		BaseOffset: 1000, BatchLength: 49, PartitionLeaderEpoch: 5, Magic: 2, CRC: h.CRC, Attributes: AttributeTimestampType,
		LastOffsetDelta: 6, MaxTimestamp: 1700000000000, ProducerID: 77, ProducerEpoch: 3, BaseSequence: 10,
	}, h)
	assert.Equal(t, int64(1006), h.LastOffset())
	assert.Equal(t, int32(16), h.LastSequence())
	assert.Equal(t, CodecNone, h.Codec())
}

// DRB-04: sizes computed up front are the sizes written.
func TestRecordSizesAreExact(t *testing.T) {
	for _, key := range [][]byte{nil, {}, []byte("k"), make([]byte, 63), make([]byte, 64), make([]byte, 10000)} {
		for _, value := range [][]byte{nil, {}, []byte("v"), make([]byte, 8191), make([]byte, 8192)} {
			for _, headers := range [][]Header{nil, {{"", nil}}, {{"a", []byte{}}, {"b", make([]byte, 64)}}} {
				for _, delta := range []int64{0, -1, 64, math.MaxInt64, math.MinInt64} {
					for _, offset := range []int32{0, 63, 64, math.MaxInt32} {
						body := RecordBodySize(delta, offset, key, value, headers)
						dirty := bytes.Repeat([]byte{0xa5}, RecordSize(body)) // as memory is that was used before
						b := AppendRecord(dirty[:0], body, delta, offset, key, value, headers)
						require.Len(t, b, RecordSize(body))
						if delta == 0 && offset == 0 { // alone in its batch
							require.LessOrEqual(t, BatchHeaderSize+len(b), MaxRecordSize(key, value, headers))
						}
						r, err := NewRecordReader(b, 1).Next()
						require.NoError(t, err)
						require.Equal(t, RecordView{0, delta, offset, key, value, headers}, r)
					}
				}
			}
		}
	}
}

// DRB-05: bytes that cannot be a batch are corrupt; a format that is not v2 is an invalid record.
func TestReadBatchHeaderRefuses(t *testing.T) {
	good := makeBatch(idempotent, goldenRecords...)
	for n := range BatchHeaderSize {
		_, err := ReadBatchHeader(good[:n])
		require.ErrorIs(t, err, CorruptMessage, "%d bytes", n)
		require.ErrorIs(t, VerifyCRC(good[:n]), CorruptMessage)
	}
	require.ErrorIs(t, VerifyCRC(good[:len(good)-1]), CorruptMessage, "last byte missing")
	for _, length := range []int32{-1, 0, 48, math.MinInt32} {
		b := append([]byte(nil), good...)
		binary.BigEndian.PutUint32(b[8:], uint32(length))
		_, err := ReadBatchHeader(b)
		require.ErrorIs(t, err, CorruptMessage, "length %d", length)
	}
	b := append([]byte(nil), good...)
	binary.BigEndian.PutUint32(b[8:], math.MaxInt32)
	require.ErrorIs(t, VerifyCRC(b), CorruptMessage)
	for _, magic := range []byte{0, 1, 3, 0xff} {
		b := append([]byte(nil), good...)
		b[16] = magic
		_, err := ReadBatchHeader(b)
		require.ErrorIs(t, err, InvalidRecord, "magic %d", magic)
	}
}

// DRB-07, MRB-09: the checksum finds any change behind it, and says what it found; the leader epoch and the
// base offset stand before it and are the broker's to set.
func TestVerifyCRC(t *testing.T) {
	good := makeBatch(idempotent, goldenRecords...)
	require.NoError(t, VerifyCRC(good))
	require.NoError(t, VerifyCRC(append(good[:len(good):len(good)], "the next batch"...)))
	for i := offAttributes; i < len(good); i++ {
		b := append([]byte(nil), good...)
		b[i] ^= 0x10
		require.ErrorIs(t, VerifyCRC(b), CorruptMessage, "byte %d", i)
	}
	b := append([]byte(nil), good...)
	copy(b[offCRC:], []byte{0, 0, 0xab, 0xcd})
	assert.ErrorContains(t, VerifyCRC(b), "crc 0x0000abcd stored, 0x")

	b = append([]byte(nil), good...)
	SetPartitionLeaderEpoch(b, 1<<20)
	SetBaseOffset(b, 1<<40)
	require.NoError(t, VerifyCRC(b))
}

// DRB-08: base offset, leader epoch and timestamps are set in place, the checksum stays right and nothing
// else changes. DRB-09 does not arise: there is no call to set timestamps of no type.
func TestSetInPlace(t *testing.T) {
	b := makeBatch(idempotent, goldenRecords...)
	want, _ := readAll(t, b)
	SetBaseOffset(b, 500)
	SetPartitionLeaderEpoch(b, 8)
	SetLogAppendTime(b, 1800000000000)
	got, records := readAll(t, b)
	want.BaseOffset, want.PartitionLeaderEpoch, want.MaxTimestamp = 500, 8, 1800000000000
	want.Attributes |= AttributeTimestampType
	want.CRC = got.CRC
	assert.Equal(t, want, got)
	assert.Len(t, records, 3)
	assert.Equal(t, int64(502), got.LastOffset())
}

// DRB-06: a count larger or smaller than the records that are there is an invalid record.
func TestRecordCountMustMatch(t *testing.T) {
	b := makeBatch(idempotent, goldenRecords...)[BatchHeaderSize:]
	for _, count := range []int32{0, 1, 2, 4, math.MaxInt32, -1, math.MinInt32} {
		r := NewRecordReader(b, count)
		var err error
		for n := 0; err == nil; n++ {
			require.LessOrEqual(t, n, 3)
			_, err = r.Next()
		}
		require.ErrorIs(t, err, InvalidRecord, "count %d", count)
		_, again := r.Next()
		require.Equal(t, err, again)
	}
	_, err := NewRecordReader(nil, 0).Next()
	require.ErrorIs(t, err, io.EOF)
}

// DRC-02, DRC-03, DRC-04, DRC-05, DRC-07: what a record says about its own parts must be true.
func TestMalformedRecords(t *testing.T) {
	varint := func(v int64) []byte { return binary.AppendVarint(nil, v) }
	record := func(parts ...[]byte) []byte {
		var body []byte
		for _, p := range parts {
			body = append(body, p...)
		}
		return append(varint(int64(len(body))), body...)
	}
	start := []byte{0, 0, 0} // attributes, timestamp delta, offset delta
	null := varint(-1)
	bytes := func(s string) []byte { return append(varint(int64(len(s))), s...) }

	good := record(start, bytes("k"), bytes("v"), varint(1), bytes("h"), bytes("x"))
	v, err := NewRecordReader(good, 1).Next()
	require.NoError(t, err)
	require.Equal(t, RecordView{Key: []byte("k"), Value: []byte("v"), Headers: []Header{{"h", []byte("x")}}}, v)

	for _, tt := range []struct {
		name string
		src  []byte
	}{
		{"no bytes", nil},
		{"header count negative", record(start, null, null, varint(-1))},
		{"header count beyond the record", record(start, null, null, varint(10), bytes("h"), null)},
		{"header count larger than present", record(start, null, null, varint(2), bytes("h"), bytes("some length"))},
		{"header count huge", record(start, null, null, varint(math.MaxInt32))},
		{"header count missing", record(start, null, null)},
		{"header count too small", record(start, null, null, varint(0), bytes("h"), null)},
		{"key too long", record(start, varint(100), []byte("k"), null, varint(0))},
		{"key length -2", record(start, varint(-2), null, varint(0))},
		{"key length smallest", record(start, varint(math.MinInt32), null, varint(0))},
		{"value too long", record(start, null, varint(100), []byte("v"), varint(0))},
		{"value length largest", record(start, null, varint(math.MaxInt32))},
		{"header key too long", record(start, null, null, varint(1), varint(100), []byte("h"))},
		{"header value too long", record(start, null, null, varint(1), bytes("h"), varint(100), []byte("x"))},
		{"header value missing", record(start, null, null, varint(1), bytes("h"))},
		{"header key null", record(start, null, null, varint(1), null, null)},
		{"timestamp of eleven bytes", record([]byte{0, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0}, null, null, varint(0))},
		{"offset of six bytes", record([]byte{0, 0, 0x80, 0x80, 0x80, 0x80, 0x80, 0}, null, null, varint(0))},
		{"varint cut off", record([]byte{0, 0x80})},
		{"length of six bytes", []byte{0x80, 0x80, 0x80, 0x80, 0x80, 0x01}},
		{"body longer than declared", append(varint(int64(len(good)-2)), good[1:]...)},
		{"body shorter than declared", append(varint(int64(len(good))), good[1:]...)},
		{"bytes left over in the body", record(good[1:], []byte{0})},
		{"length negative", varint(-1)},
		{"length -2", varint(-2)},
		{"length zero", varint(0)},
		{"length huge", varint(math.MaxInt32)},
	} {
		t.Run(tt.name, func(t *testing.T) {
			r := NewRecordReader(tt.src, 1)
			_, err := r.Next()
			require.ErrorIs(t, err, InvalidRecord)
			assert.ErrorContains(t, err, "record 0 of 1: ")
			_, again := r.Next()
			assert.Equal(t, err, again)
		})
	}
	for n := range good {
		_, err := NewRecordReader(good[:n:n], 1).Next()
		require.ErrorIs(t, err, InvalidRecord, "%d bytes of %d", n, len(good))
	}
}
