package protocol

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math"

	"github.com/kafka-reservoir/producer/internal/crc32c"
	"github.com/kafka-reservoir/producer/protocol/internal/wire"
)

// batchOverhead is what stands before the bytes that a batch's own length counts.
const batchOverhead = 12

// BatchHeader is the header of a record batch v2.
type BatchHeader struct {
	BaseOffset           int64
	BatchLength          int32 // bytes after this field: the batch's size less 12
	PartitionLeaderEpoch int32
	Magic                int8
	CRC                  uint32
	Attributes           int16
	LastOffsetDelta      int32
	BaseTimestamp        int64
	MaxTimestamp         int64
	ProducerID           int64
	ProducerEpoch        int16
	BaseSequence         int32
	Count                int32
}

// ReadBatchHeader reads the header of the batch that b begins with. The batch may be cut off behind it,
// and more may follow: see [BatchHeader.Size]. The error is a CorruptMessage when the bytes cannot be a
// batch, and an InvalidRecord for a format other than v2.
func ReadBatchHeader(b []byte) (BatchHeader, error) {
	if len(b) < BatchHeaderSize {
		return BatchHeader{}, fmt.Errorf("record batch: %d bytes, a header has %d: %w", len(b), BatchHeaderSize, CorruptMessage)
	}
	be := binary.BigEndian
	h := BatchHeader{
		BaseOffset:           int64(be.Uint64(b)),
		BatchLength:          int32(be.Uint32(b[offBatchLength:])),
		PartitionLeaderEpoch: int32(be.Uint32(b[offLeaderEpoch:])),
		Magic:                int8(b[offMagic]),
		CRC:                  be.Uint32(b[offCRC:]),
		Attributes:           int16(be.Uint16(b[offAttributes:])),
		LastOffsetDelta:      int32(be.Uint32(b[offLastDelta:])),
		BaseTimestamp:        int64(be.Uint64(b[offBaseTimestamp:])),
		MaxTimestamp:         int64(be.Uint64(b[offMaxTimestamp:])),
		ProducerID:           int64(be.Uint64(b[offProducerID:])),
		ProducerEpoch:        int16(be.Uint16(b[offProducerEpoch:])),
		BaseSequence:         int32(be.Uint32(b[offBaseSequence:])),
		Count:                int32(be.Uint32(b[offCount:])),
	}
	// The magic stands at the same place in every format there is, so it is asked first.
	if h.Magic != 2 {
		return BatchHeader{}, fmt.Errorf("record batch: magic %d instead of 2: %w", h.Magic, InvalidRecord)
	}
	// The upper limit lets Size be an int on every machine.
	if h.BatchLength < BatchHeaderSize-batchOverhead || h.BatchLength > math.MaxInt32-batchOverhead {
		return BatchHeader{}, fmt.Errorf("record batch: length %d, a header alone has %d: %w",
			h.BatchLength, BatchHeaderSize-batchOverhead, CorruptMessage)
	}
	return h, nil
}

// Size is how many bytes the whole batch takes.
func (h BatchHeader) Size() int { return int(h.BatchLength) + batchOverhead }

// Codec is how the records are compressed. Kafka has no codecs 5 to 7, but the bits can say them.
func (h BatchHeader) Codec() Codec { return Codec(h.Attributes & 7) }

// IsLogAppendTime reports whether the broker's clock made the timestamps, not the producer's.
func (h BatchHeader) IsLogAppendTime() bool { return h.Attributes&AttributeTimestampType != 0 }

// IsTransactional reports whether the batch belongs to a transaction.
func (h BatchHeader) IsTransactional() bool { return h.Attributes&AttributeTransactional != 0 }

// IsControl reports whether the batch holds a broker's marker instead of records.
func (h BatchHeader) IsControl() bool { return h.Attributes&AttributeControl != 0 }

// LastOffset is the offset of the last record.
func (h BatchHeader) LastOffset() int64 { return h.BaseOffset + int64(h.LastOffsetDelta) }

// LastSequence is the sequence number of the last record, -1 when the batch has none.
func (h BatchHeader) LastSequence() int32 { return h.sequence(h.LastOffsetDelta) }

// Offset is the offset of a record of the batch.
func (h BatchHeader) Offset(r RecordView) int64 { return h.BaseOffset + int64(r.OffsetDelta) }

// Sequence is the sequence number of a record of the batch, -1 when the batch has none.
func (h BatchHeader) Sequence(r RecordView) int32 { return h.sequence(r.OffsetDelta) }

// Timestamp is the timestamp of a record of the batch, in ms since 1970.
func (h BatchHeader) Timestamp(r RecordView) int64 {
	if h.IsLogAppendTime() {
		return h.MaxTimestamp
	}
	return h.BaseTimestamp + r.TimestampDelta
}

func (h BatchHeader) sequence(offsetDelta int32) int32 {
	if h.BaseSequence < 0 {
		return -1
	}
	return AddSequence(h.BaseSequence, offsetDelta)
}

// VerifyCRC checks the batch that b begins with, which must be there whole, against its own checksum.
// The error is a CorruptMessage.
func VerifyCRC(b []byte) error {
	h, err := ReadBatchHeader(b)
	if err != nil {
		return err
	}
	if h.Size() > len(b) {
		return fmt.Errorf("record batch: %d bytes of %d: %w", len(b), h.Size(), CorruptMessage)
	}
	if crc := batchCRC(b, h.Size()); crc != h.CRC {
		return fmt.Errorf("record batch: crc %#08x stored, %#08x computed: %w", h.CRC, crc, CorruptMessage)
	}
	return nil
}

func batchCRC(b []byte, size int) uint32 { return crc32c.Update(0, b[offAttributes:size]) }

// SetBaseOffset gives the batch in b, whose header was read before, its place in a log. The checksum
// does not cover it.
func SetBaseOffset(b []byte, offset int64) { binary.BigEndian.PutUint64(b, uint64(offset)) }

// SetPartitionLeaderEpoch writes the epoch of the leader that appended the batch in b, whose header was
// read before. The checksum does not cover it.
func SetPartitionLeaderEpoch(b []byte, epoch int32) {
	binary.BigEndian.PutUint32(b[offLeaderEpoch:], uint32(epoch))
}

// SetLogAppendTime makes timestamp the time of every record of the batch in b, which must be there
// whole, and renews the checksum.
func SetLogAppendTime(b []byte, timestamp int64) {
	be := binary.BigEndian
	be.PutUint16(b[offAttributes:], be.Uint16(b[offAttributes:])|uint16(AttributeTimestampType))
	be.PutUint64(b[offMaxTimestamp:], uint64(timestamp))
	size := int(be.Uint32(b[offBatchLength:])) + batchOverhead
	be.PutUint32(b[offCRC:], batchCRC(b, size))
}

// RecordView is one record, lying in the bytes it was read from.
type RecordView struct {
	Attributes     int8
	TimestampDelta int64
	OffsetDelta    int32
	Key            []byte   // nil is a null
	Value          []byte   // nil is a null
	Headers        []Header // values alias the bytes read, keys do not
}

// RecordReader takes the records out of the records section of a batch, decompressed if need be.
// It is strict: count and lengths must match the bytes exactly.
type RecordReader struct {
	rest  wire.Reader
	count int32
	next  int32
	err   error
}

// NewRecordReader reads count records, the header's [BatchHeader.Count], that records is made of.
func NewRecordReader(records []byte, count int32) *RecordReader {
	r := &RecordReader{rest: wire.NewReader(records, 0), count: count}
	if count < 0 {
		r.err = fmt.Errorf("record batch: %d records: %w", count, InvalidRecord)
	}
	return r
}

// Next returns the next record, and io.EOF after the last one. Any other error is an InvalidRecord and
// ends the reading; it tells what was wrong with which record. Key, value and header values of a record
// alias the bytes read.
func (r *RecordReader) Next() (RecordView, error) {
	if r.err != nil {
		return RecordView{}, r.err
	}
	if r.next == r.count {
		r.err = io.EOF
		if n := r.rest.Len(); n > 0 {
			r.err = fmt.Errorf("record batch: %d bytes after the last of %d records: %w", n, r.count, InvalidRecord)
		}
		return RecordView{}, r.err
	}
	body := wire.NewReader(r.rest.VarintBytes(), 0)
	v := readRecord(&body)
	err := r.rest.Err()
	if err == nil {
		err = body.Close()
	}
	if err != nil {
		r.err = fmt.Errorf("record %d of %d: %w: %w", r.next, r.count, err, InvalidRecord)
		return RecordView{}, r.err
	}
	r.next++
	return v, nil
}

var errNullHeaderKey = errors.New("null header key")

func readRecord(r *wire.Reader) (v RecordView) {
	v.Attributes = r.Int8()
	v.TimestampDelta = r.Varlong()
	v.OffsetDelta = r.Varint()
	v.Key = r.VarintBytes()
	v.Value = r.VarintBytes()
	n := int(r.Varint())
	if n < 0 || n > r.Len()/2 { // a header takes two bytes at least
		r.Fail(fmt.Errorf("%d headers in %d bytes", n, r.Len()))
	}
	if n == 0 || r.Err() != nil {
		return v
	}
	// A header in memory is twenty times as large as the smallest on the wire, so room for a count that
	// may be a lie is made only as far as ordinary headers would need it.
	v.Headers = make([]Header, 0, min(n, 4+r.Len()/16))
	for range n {
		key := r.VarintBytes()
		if key == nil {
			r.Fail(errNullHeaderKey)
			break
		}
		v.Headers = append(v.Headers, Header{Key: string(key), Value: r.VarintBytes()})
	}
	return v
}
