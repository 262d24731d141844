package compress

import (
	"bytes"
	stdgzip "compress/gzip"
	"fmt"
	"io"
	"testing"

	"github.com/golang/snappy"
	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/s2"
	"github.com/klauspost/compress/zstd"
	"github.com/pierrec/lz4/v4"
)

// The encoders that were to choose from. The comments of the codecs quote these.

func benchmarkEncoders(b *testing.B, encoders map[string]func(dst, src []byte) int) {
	data := jsonRecords(4 << 20)
	for name, encode := range encoders {
		for _, n := range benchmarkSizes {
			b.Run(fmt.Sprintf("encoder=%s/bytes=%d", name, n), func(b *testing.B) {
				dst := make([]byte, 2*n+1024)
				in, out, at := 0, 0, 0
				b.SetBytes(int64(n))
				b.ReportAllocs()
				for b.Loop() {
					// Another piece each time: the branch predictor learns a single one by heart.
					if at+n > len(data) {
						at = 0
					}
					out += encode(dst, data[at:at+n])
					in += n
					at += n
				}
				b.ReportMetric(float64(in)/float64(out), "ratio")
			})
		}
	}
}

// inBlocks encodes src block by block.
func inBlocks(size int, encode func(dst, src []byte) int) func(dst, src []byte) int {
	return func(dst, src []byte) (n int) {
		for len(src) > 0 {
			k := min(size, len(src))
			n += encode(dst[n:], src[:k])
			src = src[k:]
		}
		return n
	}
}

func BenchmarkSnappyEncoders(b *testing.B) {
	benchmarkEncoders(b, map[string]func(dst, src []byte) int{
		"golang":    inBlocks(snappyBlock, func(dst, src []byte) int { return len(snappy.Encode(dst, src)) }),
		"s2":        inBlocks(snappyBlock, func(dst, src []byte) int { return len(s2.EncodeSnappy(dst, src)) }),
		"s2-better": inBlocks(snappyBlock, func(dst, src []byte) int { return len(s2.EncodeSnappyBetter(dst, src)) }),
	})
}

func BenchmarkGzipEncoders(b *testing.B) {
	standard, fast := stdgzip.NewWriter(nil), gzip.NewWriter(nil)
	type writer interface {
		io.WriteCloser
		Reset(io.Writer)
	}
	encode := func(w writer) func(dst, src []byte) int {
		return func(dst, src []byte) int {
			buf := bytes.NewBuffer(dst[:0])
			w.Reset(buf)
			_, _ = w.Write(src)
			_ = w.Close()
			return buf.Len()
		}
	}
	benchmarkEncoders(b, map[string]func(dst, src []byte) int{"std": encode(standard), "klauspost": encode(fast)})
}

func BenchmarkLZ4Encoders(b *testing.B) {
	own := new(lz4Encoder)
	var fast lz4.Compressor
	var compat lz4.CompressorCCompat
	w := lz4.NewWriter(nil)
	if err := w.Apply(lz4.BlockSizeOption(lz4.Block64Kb), lz4.ChecksumOption(false), lz4.ConcurrencyOption(1)); err != nil {
		b.Fatal(err)
	}
	benchmarkEncoders(b, map[string]func(dst, src []byte) int{
		"own":     inBlocks(lz4Block, func(dst, src []byte) int { return own.encode(dst, copy(own.in[:lz4Block], src)) }),
		"block":   inBlocks(lz4Block, func(dst, src []byte) int { n, _ := fast.CompressBlock(src, dst); return n }),
		"ccompat": inBlocks(lz4Block, func(dst, src []byte) int { n, _ := compat.CompressBlock(src, dst); return n }),
		"frame": func(dst, src []byte) int {
			buf := bytes.NewBuffer(dst[:0])
			w.Reset(buf)
			_, _ = w.Write(src)
			_ = w.Close()
			return buf.Len()
		},
	})
}

func BenchmarkZstdEncoders(b *testing.B) {
	encoders := map[string]func(dst, src []byte) int{}
	for level := zstd.SpeedFastest; level <= zstd.SpeedBestCompression; level++ {
		e, err := zstd.NewWriter(nil, zstd.WithEncoderLevel(level), zstd.WithEncoderConcurrency(1), zstd.WithWindowSize(zstdWindow), zstd.WithEncoderCRC(false))
		if err != nil {
			b.Fatal(err)
		}
		encoders[level.String()] = func(dst, src []byte) int { return len(e.EncodeAll(src, dst[:0])) }
	}
	benchmarkEncoders(b, encoders)
}
