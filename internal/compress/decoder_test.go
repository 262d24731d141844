package compress

import (
	"bytes"
	stdgzip "compress/gzip"
	"encoding/binary"
	"io"
	"math"
	"math/rand/v2"
	"runtime"
	"testing"

	"github.com/golang/snappy"
	"github.com/klauspost/compress/zstd"
	"github.com/pierrec/lz4/v4"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/kafka-reservoir/producer/protocol"
)

func TestDecompressNone(t *testing.T) {
	dst := make([]byte, 3, 100)
	got, err := Decompress(protocol.CodecNone, dst, []byte("abc"), 3)
	require.NoError(t, err)
	assert.Equal(t, "abc", string(got))
	assert.Same(t, &dst[0], &got[0])
	_, err = Decompress(protocol.CodecNone, nil, []byte("abc"), 2)
	assert.ErrorIs(t, err, ErrTooLarge)
	assert.EqualError(t, err, "decompress none: decompressed data exceeds the limit")
	_, err = Decompress(protocol.Codec(7), nil, []byte("abc"), 2)
	assert.EqualError(t, err, "decompress: codec 7 is unknown")
	_, err = Decompress(protocol.CodecNone, nil, nil, -5)
	assert.NoError(t, err)
	for _, codec := range codecsWithData {
		src := compressed(t, newCompressor(t, codec, DefaultLevel), [][]byte{[]byte("text")})
		got, err := Decompress(codec, nil, src, math.MaxInt)
		require.NoError(t, err)
		assert.Equal(t, "text", string(got))
	}
}

// FC-045: raw snappy, and several streams in a row, are read too.
func TestFC045SnappyVariants(t *testing.T) {
	text := javaText(100_000)
	got, err := Decompress(protocol.CodecSnappy, nil, snappy.Encode(nil, text), len(text))
	require.NoError(t, err)
	assert.True(t, bytes.Equal(text, got))

	c := newCompressor(t, protocol.CodecSnappy, DefaultLevel)
	two := append(compressed(t, c, [][]byte{text[:40_000]}), compressed(t, c, [][]byte{text[40_000:]})...)
	got, err = Decompress(protocol.CodecSnappy, nil, two, len(text))
	require.NoError(t, err)
	assert.True(t, bytes.Equal(text, got))

	newer := bytes.Clone(two)
	newer[15] = 2
	_, err = Decompress(protocol.CodecSnappy, nil, newer, len(text))
	assert.EqualError(t, err, "decompress snappy: needs a reader of version 2")
}

// FC-044: the options of the LZ4 frame format that other writers use, with their checksums, are read and checked;
// what Kafka's reader refuses is refused.
func TestFC044LZ4Variants(t *testing.T) {
	text := javaText(150_000)
	for _, tt := range []struct {
		name    string
		options []lz4.Option
	}{
		{"defaults: 4 MiB blocks, content checksum", nil},
		{"block checksums", []lz4.Option{lz4.BlockChecksumOption(true), lz4.BlockSizeOption(lz4.Block64Kb)}},
		{"content size", []lz4.Option{lz4.SizeOption(uint64(len(text))), lz4.BlockSizeOption(lz4.Block256Kb)}},
		{"all", []lz4.Option{lz4.SizeOption(uint64(len(text))), lz4.BlockChecksumOption(true), lz4.BlockSizeOption(lz4.Block1Mb)}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			var b bytes.Buffer
			w := lz4.NewWriter(&b)
			require.NoError(t, w.Apply(append(tt.options, lz4.ConcurrencyOption(1))...))
			_, err := w.Write(text)
			require.NoError(t, err)
			require.NoError(t, w.Close())
			got, err := Decompress(protocol.CodecLZ4, nil, b.Bytes(), len(text))
			require.NoError(t, err)
			assert.True(t, bytes.Equal(text, got))
			_, err = Decompress(protocol.CodecLZ4, nil, b.Bytes(), len(text)-1)
			assert.ErrorIs(t, err, ErrTooLarge)
			for i := range b.Bytes() { // some check covers every byte
				if i > 20 && i < b.Len()-20 && i%997 != 0 {
					continue
				}
				bad := bytes.Clone(b.Bytes())
				bad[i] ^= 1
				got, err = Decompress(protocol.CodecLZ4, got, bad, len(text))
				// A match that is copied from elsewhere may be the same text.
				if err == nil && !bytes.Equal(text, got) {
					t.Errorf("byte %d is damaged, and nobody says so", i)
				}
			}
		})
	}

	ours := compressed(t, newCompressor(t, protocol.CodecLZ4, DefaultLevel), [][]byte{text})
	header := func(flags, bd byte) []byte {
		b := bytes.Clone(ours)
		b[4], b[5] = flags, bd
		b[6] = byte(xxh32(b[4:6]) >> 8)
		return b
	}
	for _, bad := range [][]byte{
		header(0x40, 0x40),            // blocks that depend on each other
		header(0x61, 0x40),            // dictionary
		header(0x62, 0x40),            // reserved bit
		header(0xa0, 0x40),            // version 2
		header(0x60, 0x30),            // block size that does not exist
		header(0x60, 0x41),            // reserved bits
		append(header(0x60, 0x40), 0), // a byte too many
		ours[:6],
		{},
	} {
		_, err := Decompress(protocol.CodecLZ4, nil, bad, len(text))
		assert.Error(t, err)
		assert.NotErrorIs(t, err, ErrTooLarge)
	}
	_, err := Decompress(protocol.CodecLZ4, nil, header(0x60, 0x70), len(text))
	assert.NoError(t, err)
}

func TestXXHash(t *testing.T) {
	assert.Equal(t, uint32(0x02cc5d05), xxh32(nil))
	assert.Equal(t, uint32(0x32d153ff), xxh32([]byte("abc")))
	assert.Equal(t, uint32(0xe2293b2f), xxh32([]byte("Nobody inspects the spammish repetition")))
}

func bomb(t *testing.T, codec protocol.Codec, size int) []byte {
	var b bytes.Buffer
	var w io.WriteCloser
	switch codec {
	case protocol.CodecGzip:
		w = stdgzip.NewWriter(&b)
	case protocol.CodecZstd:
		z, err := zstd.NewWriter(&b, zstd.WithEncoderConcurrency(1))
		require.NoError(t, err)
		w = z
	default:
		return compressed(t, newCompressor(t, codec, DefaultLevel), [][]byte{make([]byte, size)})
	}
	_, err := w.Write(make([]byte, size))
	require.NoError(t, err)
	require.NoError(t, w.Close())
	return b.Bytes()
}

// A few bytes that stand for very many end at the limit, and take memory for no more than that.
func TestBombs(t *testing.T) {
	const limit = 1 << 20
	for _, codec := range codecsWithData {
		src := bomb(t, codec, 8<<20)
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		out, err := Decompress(codec, nil, src, limit)
		runtime.ReadMemStats(&after)
		assert.ErrorIs(t, err, ErrTooLarge, "%v", codec)
		assert.Empty(t, out)
		// zstd's decoder holds the window that the frame asks for, up to 8 MiB.
		assert.Less(t, after.TotalAlloc-before.TotalAlloc, uint64(24<<20), "%v: %d bytes", codec, len(src))
	}
}

// Claims of lengths that the bytes cannot keep allocate nothing.
func TestClaimsAllocateNothing(t *testing.T) {
	lz4Claim := append(bytes.Clone(lz4Header[:4]), 0x68, 0x70)
	lz4Claim = binary.LittleEndian.AppendUint64(lz4Claim, 900<<20)
	lz4Claim = append(lz4Claim, byte(xxh32(lz4Claim[4:])>>8), 2, 0, 0, 0, 0x10, 'a', 0, 0, 0, 0)
	for name, tt := range map[string]struct {
		codec protocol.Codec
		src   []byte
	}{
		"snappy raw":    {protocol.CodecSnappy, binary.AppendUvarint(nil, 900<<20)},
		"snappy framed": {protocol.CodecSnappy, append(append(bytes.Clone(snappyHeader), 0, 0, 0, 5), binary.AppendUvarint(nil, 900<<20)...)},
		"lz4":           {protocol.CodecLZ4, lz4Claim},
		// One segment with a content size of 4 MiB, and nothing in it.
		"zstd": {protocol.CodecZstd, []byte{0x28, 0xb5, 0x2f, 0xfd, 0xa0, 0, 0, 0x40, 0, 0x01, 0, 0}},
	} {
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		_, err := Decompress(tt.codec, nil, tt.src, 1<<30)
		runtime.ReadMemStats(&after)
		assert.Error(t, err, name)
		assert.NotErrorIs(t, err, ErrTooLarge, name)
		assert.Less(t, after.TotalAlloc-before.TotalAlloc, uint64(10<<20), name)
	}
}

// Every cut of a stream is an error, every changed byte an error or data within the limit.
func TestDamagedStreams(t *testing.T) {
	const n = 70_000
	r := rand.New(rand.NewPCG(3, 4))
	for _, codec := range codecsWithData {
		src := compressed(t, newCompressor(t, codec, DefaultLevel), [][]byte{javaText(n)})
		var d Decoder
		var dst []byte
		var err error
		for i := 0; i < len(src); i += 1 + i/40 {
			dst, err = d.Decompress(codec, dst, src[:i], n)
			// Snappy's framing has no end mark: it may end between blocks.
			if err == nil && (codec != protocol.CodecSnappy || len(dst)%snappyBlock != 0) {
				t.Errorf("%v: cut at %d of %d was not noticed", codec, i, len(src))
			}
		}
		bad := make([]byte, len(src))
		for range 200 {
			copy(bad, src)
			for range 1 + r.IntN(3) {
				bad[r.IntN(len(bad))] = byte(r.IntN(256))
			}
			dst, err = d.Decompress(codec, dst, bad, n)
			if err == nil && len(dst) > n {
				t.Errorf("%v: %d bytes", codec, len(dst))
			}
		}
		dst, err = d.Decompress(codec, dst, src, n) // and the decoder still works
		require.NoError(t, err)
		assert.True(t, bytes.Equal(javaText(n), dst), "%v", codec)
	}
}

func FuzzDecompress(f *testing.F) {
	for _, codec := range codecsWithData {
		for _, n := range []int{0, 1, 100, 3000} {
			f.Add(int8(codec), compressed(f, newCompressor(f, codec, DefaultLevel), [][]byte{javaText(n)}), 1<<17)
		}
	}
	f.Add(int8(protocol.CodecNone), []byte("abc"), 2)
	f.Add(int8(protocol.CodecSnappy), snappy.Encode(nil, javaText(500)), 1<<17)
	var d Decoder
	var dst []byte
	f.Fuzz(func(t *testing.T, codec int8, src []byte, maxSize int) {
		maxSize %= 1 << 20
		got, err := d.Decompress(protocol.Codec(codec), dst, src, maxSize)
		if err != nil && len(got) > 0 {
			t.Fatal("data with an error")
		}
		if len(got) > max(maxSize, 0) {
			t.Fatalf("%d bytes, allowed %d", len(got), maxSize)
		}
		dst = got
	})
}

func FuzzRoundTrip(f *testing.F) {
	f.Add(int8(1), []byte("some text, some text"), 5)
	f.Add(int8(4), javaText(3000), 16<<10)
	compressors := map[protocol.Codec]protocol.Compressor{}
	for _, codec := range codecsWithData {
		compressors[codec] = newCompressor(f, codec, DefaultLevel)
	}
	var d Decoder
	f.Fuzz(func(t *testing.T, codec int8, data []byte, first int) {
		c := compressors[codecsWithData[uint8(codec)%4]]
		out, err := c.Compress(nil, slabs(data, 1+int(uint(first)%(16<<10))))
		if err != nil {
			t.Fatal(err)
		}
		back, err := d.Decompress(c.Codec(), nil, out, len(data))
		if err != nil {
			t.Fatal(err)
		}
		if !bytes.Equal(data, back) {
			t.Fatal("different")
		}
		other, err := decoders[c.Codec()](out)
		if err != nil {
			t.Fatal(err)
		}
		if !bytes.Equal(data, other) {
			t.Fatal("different for the other decoder")
		}
	})
}
