package compress

import (
	"errors"
	"fmt"

	"github.com/kafka-reservoir/producer/protocol"
)

// DefaultLevel stands for the codec's default. No codec has 0 as a level of its own: gzip and lz4 in Java's producer
// begin at 1, and zstd defines 0 as its default.
const DefaultLevel = 0

// New returns a compressor for codec, which must be one of the four, at a level in Java's numbers.
func New(codec protocol.Codec, level int) (protocol.Compressor, error) {
	if err := CheckLevel(codec, level); err != nil {
		return nil, err
	}
	if level == DefaultLevel {
		_, _, level = Levels(codec)
	}
	switch codec {
	case protocol.CodecGzip:
		return newGzip(level)
	case protocol.CodecSnappy:
		return new(snappyCompressor), nil
	case protocol.CodecLZ4:
		return newLZ4(level), nil
	case protocol.CodecZstd:
		return newZstd(level)
	}
	return nil, fmt.Errorf("no compressor for codec %d (%v)", int8(codec), codec)
}

// Levels returns the range of codec's levels and its default, as in Java. gzip also has -1, which is below the
// range proper (0 is not a level) and its default. Codecs without levels have 0, 0, 0.
func Levels(codec protocol.Codec) (min, max, def int) {
	switch codec {
	case protocol.CodecGzip:
		return -1, 9, -1
	case protocol.CodecLZ4:
		return 1, 17, lz4Fast
	case protocol.CodecZstd:
		return -131072, 22, 3
	}
	return 0, 0, 0
}

// CheckLevel says what is wrong with level, in a sentence that names the range. DefaultLevel is always right.
func CheckLevel(codec protocol.Codec, level int) error {
	if level == DefaultLevel {
		return nil
	}
	low, high, _ := Levels(codec)
	switch {
	case low == high:
		return fmt.Errorf("%v has no compression levels, got %d", codec, level)
	case level >= low && level <= high:
		return nil
	case codec == protocol.CodecGzip:
		return fmt.Errorf("gzip compression level must be -1 or 1 to 9, got %d", level)
	default:
		return fmt.Errorf("%v compression level must be %d to %d, got %d", codec, low, high, level)
	}
}

// Footprint is about the memory, in bytes, that a warm compressor holds apart from what its user gave it. It differs by
// a factor of 70 (FC-038: one encoder per core of another client's best zstd level was gigabytes), so it is for
// the user to decide how many there may be.
func Footprint(codec protocol.Codec, level int) int64 {
	if level == DefaultLevel {
		_, _, level = Levels(codec)
	}
	switch codec {
	case protocol.CodecGzip:
		return gzipFootprint
	case protocol.CodecSnappy:
		return snappyFootprint
	case protocol.CodecLZ4:
		return lz4Footprint(level)
	case protocol.CodecZstd:
		return zstdFootprint(level)
	}
	return 0
}

// maxScratch is the largest scratch buffer that is kept for the next batch. Batches are at most 1 MiB unless
// max.request.size was raised.
const maxScratch = 2 << 20

// cursor reads a stream that is cut into slabs.
type cursor struct {
	slabs [][]byte
	rest  []byte // of the slab before slabs
}

// next returns the next n bytes of the stream, fewer at its end, none after it. Bytes that lie in one slab are
// not copied; others are gathered in buf, which has room for n and is used again by the next call.
func (c *cursor) next(n int, buf []byte) []byte {
	for len(c.rest) == 0 {
		if len(c.slabs) == 0 {
			return nil
		}
		c.rest, c.slabs = c.slabs[0], c.slabs[1:]
	}
	if len(c.rest) >= n || len(c.slabs) == 0 {
		n = min(n, len(c.rest))
		block := c.rest[:n]
		c.rest = c.rest[n:]
		return block
	}
	buf = buf[:0]
	for {
		k := min(n-len(buf), len(c.rest))
		buf = append(buf, c.rest[:k]...)
		c.rest = c.rest[k:]
		if len(buf) == n || len(c.slabs) == 0 {
			return buf
		}
		c.rest, c.slabs = c.slabs[0], c.slabs[1:]
	}
}

// read fills buf with the next bytes of the stream and returns how many, fewer than buf has only at the stream's end.
func (c *cursor) read(buf []byte) (n int) {
	for {
		k := copy(buf[n:], c.rest)
		c.rest = c.rest[k:]
		n += k
		if n == len(buf) || len(c.slabs) == 0 {
			return n
		}
		c.rest, c.slabs = c.slabs[0], c.slabs[1:]
	}
}

func size(slabs [][]byte) (n int) {
	for _, s := range slabs {
		n += len(s)
	}
	return n
}

// sink is the end of a stream encoder: it collects what it writes.
type sink struct{ b []byte }

func (s *sink) Write(p []byte) (int, error) {
	s.b = append(s.b, p...)
	return len(p), nil
}

// ErrTooLarge is the cause when data would exceed the limit given to a decoder.
var ErrTooLarge = errors.New("decompressed data exceeds the limit")
