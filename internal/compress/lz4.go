package compress

import (
	"encoding/binary"
	"errors"
	"fmt"
	"slices"

	"github.com/pierrec/lz4/v4"

	"github.com/kafka-reservoir/producer/protocol"
)

const (
	lz4Block = 64 << 10 // input per block
	lz4Magic = 0x184D2204
	lz4Raw   = 1 << 31 // in a block's length: the block is not compressed

	lz4Version     = 1 << 6
	lz4Independent = 1 << 5 // blocks do not refer to earlier ones
	lz4BlockSum    = 1 << 4
	lz4ContentSize = 1 << 3
	lz4ContentSum  = 1 << 2
	lz4Dictionary  = 1 << 0

	// lz4Fast is the level at which Java takes LZ4's fast compressor; all others are levels of the high compression
	// one.
	lz4Fast = 9
)

// lz4Header is the frame header that Java writes: magic, version 1 with independent blocks, blocks of up to 64 KiB, and
// the second byte of the xxHash of these two. A broker allocates the block size of each frame it reads: with
// the 4 MiB that libraries take by default that was 4 MiB per batch (FC-044).
var lz4Header = []byte{0x04, 0x22, 0x4d, 0x18, lz4Version | lz4Independent, 4 << 4, 0x82}

// lz4Compressor writes the frame itself, around the blocks of one of two encoders whose tables are used again. A frame writer would allocate, and
// checksum what the batch's CRC covers.
type lz4Compressor struct {
	fast  *lz4Encoder
	high  *lz4.CompressorHC // with the level as its depth
	block []byte            // a block's input in one piece; the array of fast
}

// newLZ4 makes a compressor for Java's level: 9 is fast; level n looks at up to 2^(n-1) earlier positions for each
// match, as in lz4-java.
func newLZ4(level int) *lz4Compressor {
	if level == lz4Fast {
		fast := new(lz4Encoder)
		return &lz4Compressor{fast: fast, block: fast.in[:lz4Block]}
	}
	return &lz4Compressor{high: &lz4.CompressorHC{Level: 1 << (level - 1)}, block: make([]byte, lz4Block)}
}

func lz4Footprint(level int) int64 {
	if level == lz4Fast {
		return lz4Block + 32<<10
	}
	return lz4Block + 272<<10
}

// Codec implements protocol.Compressor.
func (c *lz4Compressor) Codec() protocol.Codec { return protocol.CodecLZ4 }

// Compress implements protocol.Compressor.
func (c *lz4Compressor) Compress(dst []byte, src [][]byte) ([]byte, error) {
	dst = append(dst[:0], lz4Header...)
	in := cursor{slabs: src}
	for {
		block := c.block[:in.read(c.block)]
		if len(block) == 0 {
			return binary.LittleEndian.AppendUint32(dst, 0), nil // the end mark
		}
		dst = slices.Grow(dst, 4+lz4Bound(len(block)))
		at := len(dst)
		room := dst[at+4 : at+4+lz4Bound(len(block))]
		var n int
		var err error
		if c.fast != nil {
			n = c.fast.encode(room, len(block))
		} else if n, err = c.high.CompressBlock(block, room); err != nil {
			return dst, err
		}
		length := uint32(n)
		if n == 0 || n >= len(block) {
			n = copy(room, block)
			length = uint32(n) | lz4Raw
		}
		binary.LittleEndian.PutUint32(dst[at:at+4], length)
		dst = dst[:at+4+n]
	}
}

// lz4 decodes a frame as Kafka's own reader does: independent blocks, no dictionary, one frame.
func (d *Decoder) lz4(dst, src []byte, maxSize int) ([]byte, error) {
	if len(src) < 7 || binary.LittleEndian.Uint32(src) != lz4Magic {
		return dst, errors.New("not an lz4 frame")
	}
	flags, bd := src[4], src[5]
	if flags&(lz4Version|0x80) != lz4Version || flags&lz4Independent == 0 || flags&(lz4Dictionary|2) != 0 || bd&0x8f != 0 || bd < 4<<4 {
		return dst, fmt.Errorf("frame flags %#x %#x are not supported", flags, bd)
	}
	blockMax := 1 << (8 + 2*(bd>>4)) // 4: 64 KiB ... 7: 4 MiB
	header, claimed := 6, int64(-1)
	if flags&lz4ContentSize != 0 {
		header += 8
		if len(src) < header+1 {
			return dst, errors.New("frame header ends early")
		}
		claimed = int64(binary.LittleEndian.Uint64(src[6:]))
		if claimed < 0 || claimed > int64(maxSize-len(dst)) {
			return dst, ErrTooLarge
		}
	}
	if sum := byte(xxh32(src[4:header]) >> 8); sum != src[header] {
		return dst, fmt.Errorf("header checksum is %#x, want %#x", src[header], sum)
	}
	src = src[header+1:]
	start := len(dst)

	for {
		if len(src) < 4 {
			return dst, errors.New("block length ends early")
		}
		length := binary.LittleEndian.Uint32(src)
		src = src[4:]
		if length == 0 {
			break
		}
		n := int(length &^ lz4Raw)
		if n > blockMax || n > len(src) {
			return dst, fmt.Errorf("block of %d bytes where %d are left and %d allowed", n, len(src), blockMax)
		}
		block := src[:n]
		src = src[n:]
		if flags&lz4BlockSum != 0 {
			if len(src) < 4 || binary.LittleEndian.Uint32(src) != xxh32(block) {
				return dst, errors.New("block checksum is wrong")
			}
			src = src[4:]
		}
		var err error
		if dst, err = lz4Decode(dst, block, length&lz4Raw != 0, blockMax, maxSize); err != nil {
			return dst, err
		}
	}

	if claimed >= 0 && claimed != int64(len(dst)-start) {
		return dst, fmt.Errorf("%d bytes where the header says %d", len(dst)-start, claimed)
	}
	if flags&lz4ContentSum != 0 {
		if len(src) < 4 || binary.LittleEndian.Uint32(src) != xxh32(dst[start:]) {
			return dst, errors.New("content checksum is wrong")
		}
		src = src[4:]
	}
	if len(src) > 0 {
		return dst, fmt.Errorf("%d bytes behind the end mark", len(src))
	}
	return dst, nil
}

// lz4Decode appends one block.
func lz4Decode(dst, block []byte, raw bool, blockMax, maxSize int) ([]byte, error) {
	left := maxSize - len(dst)
	if raw {
		if len(block) > left {
			return dst, ErrTooLarge
		}
		return append(dst, block...), nil
	}
	// A byte makes at most 255, so no more is allocated than the block can fill.
	room := min(blockMax, 255*len(block), left)
	dst = slices.Grow(dst, room)
	at := len(dst)
	n, err := lz4.UncompressBlock(block, dst[at:at+room])
	if err != nil {
		if room == left && room < blockMax {
			return dst, ErrTooLarge // or corrupt; the decoder does not say which
		}
		return dst, err
	}
	return dst[:at+n], nil
}
