// Package readback reads topics back with consumers that are not ours and compares what they find with
// what was sent.
//
// Two consumers are used: franz-go's, and Kafka's own Java consumer in the version of the broker. Both
// give each record as one line of text, so that there is one way to compare and one to print:
//
//	PARTITION OFFSET TIMESTAMP KEY VALUE HEADERS
//
// The timestamp's first letter is its type (C for CreateTime, L for LogAppendTime, N for none). Bytes are
// written - when null, = and their hex up to 128 of them, # with length and SHA-256 beyond. Headers are
// key|value, joined by commas, or none.
//
// A test calls it from one goroutine.
package readback

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"strconv"
)

// hexUpTo is the length up to which bytes are written in full; Reader.java has the same.
const hexUpTo = 128

// Header is one record header; a nil Value is null.
type Header struct {
	Key   string
	Value []byte
}

// Record is a record as it must be found.
type Record struct {
	Partition  int32
	Offset     int64
	Timestamp  int64 // milliseconds, CreateTime
	Key, Value []byte
	Headers    []Header
}

// Line is the record's line.
func (r *Record) Line() string {
	b := appendHead(nil, r.Partition, r.Offset, 'C', r.Timestamp, r.Key, r.Value)
	for i, h := range r.Headers {
		b = appendHeader(b, i, h.Key, h.Value)
	}
	return string(appendEnd(b, len(r.Headers)))
}

func appendHead(b []byte, partition int32, offset int64, typ byte, timestamp int64, key, value []byte) []byte {
	b = strconv.AppendInt(b, int64(partition), 10)
	b = append(b, ' ')
	b = strconv.AppendInt(b, offset, 10)
	b = append(b, ' ', typ)
	b = strconv.AppendInt(b, timestamp, 10)
	b = append(b, ' ')
	b = appendBytes(b, key)
	b = append(b, ' ')
	b = appendBytes(b, value)
	return append(b, ' ')
}

func appendHeader(b []byte, i int, key string, value []byte) []byte {
	if i > 0 {
		b = append(b, ',')
	}
	b = appendBytes(b, []byte(key))
	b = append(b, '|')
	return appendBytes(b, value)
}

func appendEnd(b []byte, headers int) []byte {
	if headers == 0 {
		b = append(b, "none"...)
	}
	return b
}

func appendBytes(b, v []byte) []byte {
	switch {
	case v == nil:
		return append(b, '-')
	case len(v) <= hexUpTo:
		b = append(b, '=')
		return hex.AppendEncode(b, v)
	default:
		b = append(b, '#')
		b = strconv.AppendInt(b, int64(len(v)), 10)
		b = append(b, ':')
		sum := sha256.Sum256(v)
		return hex.AppendEncode(b, sum[:])
	}
}

// Found is a record as a reader found it.
type Found struct {
	Partition int32
	Offset    int64
	Line      string
	Batch     *Batch // what is known of the batch it came in; nil from the Java consumer
}

// Batch is what the record's batch says of itself.
type Batch struct {
	Codec      string // none, gzip, snappy, lz4, zstd
	ProducerID int64  // -1 without idempotence
}

// Reader reads topics back.
type Reader interface {
	// Name tells readers apart in reports.
	Name() string
	// Read calls each for every record of the topic, in order within a partition. It returns when it has
	// reached the end offsets seen at its beginning.
	Read(ctx context.Context, topic string, each func(Found)) error
}
