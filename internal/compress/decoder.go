package compress

import (
	stdgzip "compress/gzip"
	"fmt"
	"io"
	"math"
	"slices"

	"github.com/klauspost/compress/zstd"

	"github.com/kafka-reservoir/producer/protocol"
)

// Decompress appends to dst[:0] the decompressed form of src, which must be all of a batch's records section,
// and returns the extended slice. src may be anything: the result is at most maxSize bytes, or an error
// (ErrTooLarge), and memory follows what src really holds. CodecNone copies.
func Decompress(codec protocol.Codec, dst, src []byte, maxSize int) ([]byte, error) {
	var d Decoder
	return d.Decompress(codec, dst, src, maxSize)
}

// Decoder decompresses one batch after the other with decoders that stay warm. The zero value is ready. It
// belongs to one goroutine at a time.
type Decoder struct {
	gzipReader *stdgzip.Reader
	zstdReader *zstd.Decoder // without goroutines: nothing to close
}

// Decompress is the function of that name.
func (d *Decoder) Decompress(codec protocol.Codec, dst, src []byte, maxSize int) ([]byte, error) {
	dst = dst[:0]
	maxSize = max(0, min(maxSize, math.MaxInt-1))
	var err error
	switch codec {
	case protocol.CodecNone:
		if len(src) > maxSize {
			err = ErrTooLarge
		} else {
			dst = append(dst, src...)
		}
	case protocol.CodecGzip:
		dst, err = d.gzip(dst, src, maxSize)
	case protocol.CodecSnappy:
		dst, err = d.snappy(dst, src, maxSize)
	case protocol.CodecLZ4:
		dst, err = d.lz4(dst, src, maxSize)
	case protocol.CodecZstd:
		dst, err = d.zstd(dst, src, maxSize)
	default:
		return dst, fmt.Errorf("decompress: codec %d is unknown", int8(codec))
	}
	if err != nil {
		return dst[:0], fmt.Errorf("decompress %v: %w", codec, err)
	}
	return dst, nil
}

// readAll appends what r holds to dst, at most maxSize bytes in all. Room grows by what came, at least by half.
func readAll(r io.Reader, dst []byte, maxSize int) ([]byte, error) {
	for {
		if len(dst) == cap(dst) {
			dst = slices.Grow(dst, min(max(512, len(dst)/2), maxSize-len(dst)+1))
		}
		// One byte more than allowed tells a stream that is too long from one that ends here.
		n, err := r.Read(dst[len(dst):min(cap(dst), maxSize+1)])
		dst = dst[:len(dst)+n]
		switch {
		case len(dst) > maxSize:
			return dst, ErrTooLarge
		case err == io.EOF:
			return dst, nil
		case err != nil:
			return dst, err
		}
	}
}
