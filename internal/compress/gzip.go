package compress

import (
	"bytes"
	stdgzip "compress/gzip"

	"github.com/klauspost/compress/gzip"

	"github.com/kafka-reservoir/producer/protocol"
)

// gzipDefault stands for -1, the default. It is klauspost's level 2 where Java has zlib's 6: less than half the CPU of klauspost's own
// default, 5, for 5 to 11 % more bytes on JSON, logs and code and 18 % on binary records of the same batch. As batches are
// filled by their compressed size and so hold more records than other Go clients' do, JSON, logs and code
// come out at the size that those clients make with level 5.
//
//	KiB batch, level   JSON ns/KiB, size   logs           code           binary
//	16, 5 (-1)         6,100, 0.232        6,600, 0.240   9,800, 0.311   4,500, 0.266
//	48, 5              6,500, 0.219        7,200, 0.232   9,100, 0.285   5,100, 0.260
//	48, 3              4,800, 0.232        4,500, 0.242   5,900, 0.310   4,200, 0.305
//	48, 2              3,500, 0.236        4,100, 0.246   5,500, 0.316   4,100, 0.306
//
// (go1.26, Xeon, klauspost/compress 1.20.4; The standard library's 6, which searches as
// zlib's does, makes 0.209, 0.221, 0.275 and 0.260 of 48 KiB, at three times the CPU of 5.)
// The levels 1 to 9 are passed on as they are.
const gzipDefault = 2

// gzipCompressor is klauspost's encoder.
type gzipCompressor struct {
	w   *gzip.Writer
	out sink
}

func newGzip(level int) (*gzipCompressor, error) {
	if level == -1 {
		level = gzipDefault
	}
	c := new(gzipCompressor)
	w, err := gzip.NewWriterLevel(&c.out, level)
	c.w = w
	return c, err
}

const gzipFootprint = 1536 << 10

// Codec implements protocol.Compressor.
func (c *gzipCompressor) Codec() protocol.Codec { return protocol.CodecGzip }

// Compress implements protocol.Compressor.
func (c *gzipCompressor) Compress(dst []byte, src [][]byte) ([]byte, error) {
	c.out.b = dst[:0]
	c.w.Reset(&c.out)
	var err error
	for _, s := range src {
		if _, err = c.w.Write(s); err != nil {
			break
		}
	}
	if err == nil {
		err = c.w.Close()
	}
	dst, c.out.b = c.out.b, nil
	return dst, err
}

// gzip decodes a gzip stream.
func (d *Decoder) gzip(dst, src []byte, maxSize int) ([]byte, error) {
	r := bytes.NewReader(src)
	if d.gzipReader == nil {
		d.gzipReader = new(stdgzip.Reader)
	}
	if err := d.gzipReader.Reset(r); err != nil {
		return dst, err
	}
	return readAll(d.gzipReader, dst, maxSize)
}
