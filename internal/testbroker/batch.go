package testbroker

import (
	"errors"
	"fmt"
	"io"
	"math"
	"sync"

	"github.com/kafka-reservoir/producer/internal/compress"
	"github.com/kafka-reservoir/producer/protocol"
)

// maxDecompressed bounds what the records of one batch may unfold to.
const maxDecompressed = 256 << 20

// batchCheck is the outcome of checking one batch, before anything that depends on the log.
type batchCheck struct {
	header       protocol.BatchHeader
	code         protocol.ErrorCode // None for a proper batch
	closes       bool               // a broker of this generation closes the connection
	recordErrors []protocol.BatchIndexAndErrorMessage
	odd          error // the first breach that Kafka would let pass
}

// badBatch is what is wrong with a batch.
type badBatch struct {
	code protocol.ErrorCode
	text string
}

func (e *badBatch) Error() string { return e.text }

// let notes a breach that does not have the batch refused.
func (c *batchCheck) let(format string, args ...any) {
	if c.odd == nil {
		c.odd = bad(protocol.None, format, args...)
	}
}

func bad(code protocol.ErrorCode, format string, args ...any) error {
	return &badBatch{code: code, text: fmt.Sprintf(format, args...)}
}

// batchRules are the circumstances of a check.
type batchRules struct {
	version    int16
	generation *Generation
	// maxTimestamp is the latest timestamp allowed, in milliseconds; negative means no limit.
	maxTimestamp int64
	decodings    *sync.Pool // of *decoding
}

// decoding is what checking a batch needs; pooled, since decoders are dear to make. Each cluster has a pool of its own:
// zstd's have channels, which one testing/synctest bubble must not pass on to the next.
type decoding struct {
	decoder compress.Decoder
	buf     []byte
}

// checkBatch is the strict look at what a Produce request has for one partition: all of it, record by record. The
// error is what is wrong with it; whether the batch is refused is for the code to say, since Kafka lets some
// things pass that no client should send.
func checkBatch(raw []byte, r batchRules) (batchCheck, error) {
	var c batchCheck
	err := c.checkHeader(raw, r)
	if err == nil {
		err = c.checkRecords(raw, r)
	}
	if err == nil {
		return c, c.odd
	}
	if e := (*badBatch)(nil); errors.As(err, &e) {
		c.code = e.code
	}
	return c, err
}

func (c *batchCheck) checkHeader(raw []byte, r batchRules) error {
	// PRQ-01: exactly one batch, of format 2.
	if len(raw) == 0 {
		return bad(protocol.InvalidRecord, "no record batch")
	}
	const magicAt = 16
	if len(raw) > magicAt && raw[magicAt] < 2 {
		c.closes = r.generation.BadMagicCode == protocol.None
		return bad(r.generation.BadMagicCode, "message format %d in Produce v%d", raw[magicAt], r.version)
	}
	if len(raw) > magicAt && raw[magicAt] > 2 {
		return bad(protocol.CorruptMessage, "message format %d", raw[magicAt])
	}
	h, err := protocol.ReadBatchHeader(raw)
	if err != nil {
		code := protocol.CorruptMessage
		errors.As(err, &code)
		return bad(code, "%v", err)
	}
	c.header = h
	// DRB-05, PRQ-01.
	if h.Size() > len(raw) {
		return bad(protocol.CorruptMessage, "a batch of %d bytes in %d", h.Size(), len(raw))
	} else if h.Size() < len(raw) {
		return bad(protocol.InvalidRecord, "%d bytes behind the batch: one batch per partition is allowed", len(raw)-h.Size())
	}
	if err := protocol.VerifyCRC(raw); err != nil {
		return bad(protocol.CorruptMessage, "%v", err)
	}
	// PRQ-02: zstd came with v7.
	switch codec := h.Codec(); {
	case codec > protocol.CodecZstd:
		return bad(protocol.UnknownServerError, "unknown compression codec %d", codec)
	case codec == protocol.CodecZstd && r.version < 7:
		return bad(protocol.UnsupportedCompressionType, "zstd in Produce v%d", r.version)
	}
	const known = 7 | protocol.AttributeTimestampType | protocol.AttributeTransactional | protocol.AttributeControl
	if h.Attributes&^known != 0 {
		c.let("unknown attributes %#x", h.Attributes)
	}
	switch {
	case h.IsControl():
		return bad(protocol.InvalidRecord, "a control batch from a client")
	case h.Attributes&protocol.AttributeTimestampType != 0:
		return bad(protocol.InvalidTimestamp, "timestamp type log append time from a client")
	case h.BaseOffset != 0:
		return bad(protocol.InvalidRecord, "base offset %d, not 0", h.BaseOffset)
	case h.Count <= 0:
		return bad(protocol.InvalidRecord, "record count %d", h.Count)
	case h.LastOffsetDelta != h.Count-1:
		return bad(protocol.InvalidRecord, "last offset delta %d with %d records", h.LastOffsetDelta, h.Count)
	}
	switch {
	case h.ProducerID < -1:
		return bad(protocol.InvalidRecord, "producer id %d", h.ProducerID)
	case h.ProducerID >= 0 && (h.ProducerEpoch < 0 || h.BaseSequence < 0):
		return bad(protocol.InvalidRecord, "producer id %d with epoch %d and base sequence %d", h.ProducerID, h.ProducerEpoch, h.BaseSequence)
	case h.ProducerID == -1 && h.IsTransactional():
		return bad(protocol.InvalidRecord, "a transactional batch without a producer id")
	case h.ProducerID == -1 && (h.ProducerEpoch != -1 || h.BaseSequence != -1): // DRC-06
		c.let("no producer id, but epoch %d and base sequence %d", h.ProducerEpoch, h.BaseSequence)
	}
	return nil
}

func (c *batchCheck) checkRecords(raw []byte, r batchRules) error {
	h := c.header
	records := raw[protocol.BatchHeaderSize:]
	if codec := h.Codec(); codec != protocol.CodecNone {
		d, ok := r.decodings.Get().(*decoding)
		if !ok {
			d = new(decoding)
		}
		defer r.decodings.Put(d)
		buf, err := d.decoder.Decompress(codec, d.buf[:0], records, maxDecompressed)
		if err != nil {
			return bad(protocol.CorruptMessage, "%v: %v", codec, err)
		}
		d.buf, records = buf, buf
	}
	maxSeen := int64(math.MinInt64)
	rr := protocol.NewRecordReader(records, h.Count)
	for i := int32(0); ; i++ {
		v, err := rr.Next()
		if err == io.EOF {
			break
		}
		if err != nil {
			return bad(protocol.InvalidRecord, "record %d of %d: %v", i, h.Count, err)
		}
		timestamp := h.BaseTimestamp + v.TimestampDelta
		if v.OffsetDelta != i {
			return bad(protocol.InvalidRecord, "record %d has offset delta %d", i, v.OffsetDelta)
		}
		switch {
		case v.Attributes != 0:
			c.let("record %d has attributes %#x", i, v.Attributes)
		case timestamp < 0:
			c.let("record %d has timestamp %d", i, timestamp)
		case r.maxTimestamp >= 0 && timestamp > r.maxTimestamp:
			text := fmt.Sprintf("Timestamp %d of message with offset %d is out of range.", timestamp, i)
			c.recordErrors = append(c.recordErrors, protocol.BatchIndexAndErrorMessage{BatchIndex: i, BatchIndexErrorMessage: &text})
		}
		maxSeen = max(maxSeen, timestamp)
	}
	if maxSeen != h.MaxTimestamp {
		c.let("max timestamp %d in the header, %d in the records", h.MaxTimestamp, maxSeen)
	}
	if len(c.recordErrors) > 0 {
		c.code = protocol.InvalidTimestamp // refused, but an honest mistake: no breach of the protocol
	}
	return nil
}

// decodeBatch is the records of a stored batch; raw was checked when it came.
func decodeBatch(dst []Record, b *storedBatch, from int64) ([]Record, error) {
	h, err := protocol.ReadBatchHeader(b.raw)
	if err != nil {
		return dst, err
	}
	records := b.raw[protocol.BatchHeaderSize:]
	if codec := h.Codec(); codec != protocol.CodecNone {
		if records, err = compress.Decompress(codec, nil, records, maxDecompressed); err != nil {
			return dst, err
		}
	}
	rr := protocol.NewRecordReader(records, h.Count)
	for {
		v, err := rr.Next()
		if err == io.EOF {
			return dst, nil
		}
		if err != nil {
			return dst, err
		}
		r := Record{
			Offset:        h.Offset(v),
			Timestamp:     h.Timestamp(v),
			Key:           v.Key,
			Value:         v.Value,
			Headers:       v.Headers,
			ProducerID:    h.ProducerID,
			ProducerEpoch: h.ProducerEpoch,
			Sequence:      h.Sequence(v),
			Codec:         h.Codec(),
			LeaderEpoch:   h.PartitionLeaderEpoch,
		}
		if r.Offset >= from {
			dst = append(dst, r)
		}
	}
}
