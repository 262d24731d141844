package compress

import (
	"bytes"
	stdgzip "compress/gzip"
	"encoding/binary"
	"fmt"
	"io"
	"math/rand/v2"
	"runtime"
	"strconv"
	"testing"

	"github.com/golang/snappy"
	"github.com/klauspost/compress/zstd"
	"github.com/pierrec/lz4/v4"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/kafka-reservoir/producer/protocol"
)

var codecsWithData = []protocol.Codec{protocol.CodecGzip, protocol.CodecSnappy, protocol.CodecLZ4, protocol.CodecZstd}

func newCompressor(t testing.TB, codec protocol.Codec, level int) protocol.Compressor {
	t.Helper()
	c, err := New(codec, level)
	require.NoError(t, err)
	require.Equal(t, codec, c.Codec())
	return c
}

func compressed(t testing.TB, c protocol.Compressor, src [][]byte) []byte {
	t.Helper()
	out, err := c.Compress(nil, src)
	require.NoError(t, err)
	return out
}

// jsonRecords is n bytes of records as applications send them: repeated structure, varied values.
func jsonRecords(n int) []byte {
	r := rand.New(rand.NewPCG(1, 2))
	users := []string{"alice", "bob", "carol", "dave", "erin", "frank", "grace", "heidi", "ivan", "judy", "mallory", "niaj"}
	events := []string{"page_view", "add_to_cart", "checkout", "login", "logout", "search", "purchase", "refund"}
	b := make([]byte, 0, n+256)
	for len(b) < n {
		b = append(b, `{"id":"`...)
		b = strconv.AppendUint(b, r.Uint64(), 16)
		b = append(b, `","ts":17`...)
		b = strconv.AppendUint(b, 10_000_000_000+r.Uint64N(100_000_000), 10)
		b = append(b, `,"user":"`...)
		b = append(b, users[r.IntN(len(users))]...)
		b = append(b, `","event":"`...)
		b = append(b, events[r.IntN(len(events))]...)
		b = append(b, `","amount":`...)
		b = strconv.AppendFloat(b, float64(r.IntN(1_000_000))/100, 'f', 2, 64)
		b = append(b, `,"agent":"Mozilla/5.0 (X11; Linux x86_64)","ok":true,"session":"`...)
		b = strconv.AppendUint(b, r.Uint64(), 16)
		b = append(b, `","tags":["web","eu-west","v2"]}`...)
	}
	return b[:n]
}

func randomBytes(n int) []byte {
	b := make([]byte, n)
	r := rand.NewChaCha8([32]byte{7})
	_, _ = r.Read(b)
	return b
}

// slabs cuts b as a batch does: a first piece, then slabs of 16 KiB.
func slabs(b []byte, first int) (cut [][]byte) {
	for n := first; len(b) > 0; n = 16 << 10 {
		n = min(n, len(b))
		cut = append(cut, b[:n])
		b = b[n:]
	}
	return cut
}

// decoders are those of other libraries where there is one.
var decoders = map[protocol.Codec]func(src []byte) ([]byte, error){
	protocol.CodecGzip: func(src []byte) ([]byte, error) {
		r, err := stdgzip.NewReader(bytes.NewReader(src))
		if err != nil {
			return nil, err
		}
		return io.ReadAll(r)
	},
	protocol.CodecSnappy: func(src []byte) ([]byte, error) {
		if len(src) < 16 {
			return nil, io.ErrUnexpectedEOF
		}
		var out []byte
		for src = src[16:]; len(src) > 0; {
			n := binary.BigEndian.Uint32(src)
			block, err := snappy.Decode(nil, src[4:4+n])
			if err != nil {
				return nil, err
			}
			out = append(out, block...)
			src = src[4+n:]
		}
		return out, nil
	},
	protocol.CodecLZ4: func(src []byte) ([]byte, error) { return io.ReadAll(lz4.NewReader(bytes.NewReader(src))) },
	protocol.CodecZstd: func(src []byte) ([]byte, error) {
		d, err := zstd.NewReader(nil, zstd.WithDecoderMaxWindow(8<<20), zstd.WithDecoderConcurrency(1))
		if err != nil {
			return nil, err
		}
		defer d.Close()
		return d.DecodeAll(src, nil)
	},
}

var sizes = []int{0, 1, 13, 100, 2048, 16 << 10, 32<<10 - 1, 32 << 10, 32<<10 + 1, 64<<10 - 1, 64 << 10, 64<<10 + 1, 300_000}

// EXT-09: what one compressor writes, batch after batch, other libraries read; however the stream is cut.
func TestRoundTrip(t *testing.T) {
	for _, codec := range codecsWithData {
		t.Run(codec.String(), func(t *testing.T) {
			c := newCompressor(t, codec, DefaultLevel)
			var d Decoder
			var out, back []byte
			for name, data := range map[string][]byte{
				"json":   jsonRecords(300_000),
				"random": randomBytes(300_000),
				"zeros":  make([]byte, 300_000),
				"java":   javaText(300_000),
			} {
				for _, n := range sizes {
					var first []byte
					for _, cut := range [][][]byte{{data[:n]}, slabs(data[:n], 1987), slabs(data[:n], 16<<10-61), append([][]byte{{}}, append(slabs(data[:n], 1), nil)...)} {
						var err error
						out, err = c.Compress(out, cut)
						require.NoError(t, err)
						got, err := decoders[codec](out)
						require.NoError(t, err, "%s %d", name, n)
						require.True(t, bytes.Equal(data[:n], got), "%s %d", name, n)
						back, err = d.Decompress(codec, back, out, n)
						require.NoError(t, err, "%s %d", name, n)
						require.True(t, bytes.Equal(data[:n], back), "%s %d", name, n)
						if n > 0 {
							_, err = d.Decompress(codec, nil, out, n-1)
							require.ErrorIs(t, err, ErrTooLarge, "%s %d", name, n)
						}
						if first == nil {
							first = bytes.Clone(out)
						}
						if codec != protocol.CodecGzip { // gzip's blocks may depend on how it was fed
							require.True(t, bytes.Equal(first, out), "%s %d: the cut changed the result", name, n)
						}
					}
				}
			}
		})
	}
}

// FC-044: what a broker reads: magic, version 1, independent blocks, block size code 4, the header's checksum, no other
// one, no block above 64 KiB, the end mark and nothing behind it.
func TestFC044LZ4Frame(t *testing.T) {
	for _, data := range [][]byte{jsonRecords(1 << 20), randomBytes(1 << 20)} {
		for _, n := range []int{1, 64<<10 - 1, 64 << 10, 64<<10 + 1, 1 << 20} {
			out := compressed(t, newCompressor(t, protocol.CodecLZ4, DefaultLevel), slabs(data[:n], 2000))
			assert.Equal(t, []byte{0x04, 0x22, 0x4d, 0x18, 0x60, 0x40, 0x82}, out[:7])
			assert.Equal(t, byte(xxh32(out[4:6])>>8), out[6])
			blocks := 0
			for b := out[7:]; ; blocks++ {
				length := binary.LittleEndian.Uint32(b)
				b = b[4:]
				if length == 0 {
					assert.Empty(t, b)
					break
				}
				size := int(length &^ (1 << 31))
				if length&(1<<31) == 0 {
					got, err := lz4.UncompressBlock(b[:size], make([]byte, 64<<10))
					require.NoError(t, err)
					assert.Equal(t, min(64<<10, n-blocks<<16), got)
					assert.Less(t, size, got, "a block that does not shrink is stored")
				} else {
					assert.Equal(t, min(64<<10, n-blocks<<16), size)
				}
				b = b[size:]
			}
			assert.Equal(t, (n+64<<10-1)>>16, blocks)
			back, err := decoders[protocol.CodecLZ4](out)
			require.NoError(t, err)
			assert.True(t, bytes.Equal(data[:n], back))
		}
	}
}

// FC-045: the 16 bytes of Java's header, big-endian block lengths, no block above 32 KiB of input.
func TestFC045SnappyFraming(t *testing.T) {
	data := jsonRecords(1_000_000)
	for _, n := range []int{0, 1, 32767, 32768, 32769, 1_000_000} {
		out := compressed(t, newCompressor(t, protocol.CodecSnappy, DefaultLevel), slabs(data[:n], 2000))
		assert.Equal(t, []byte("\x82SNAPPY\x00\x00\x00\x00\x01\x00\x00\x00\x01"), out[:16])
		left := n
		for b := out[16:]; len(b) > 0; {
			size := binary.BigEndian.Uint32(b)
			got, err := snappy.DecodedLen(b[4 : 4+size])
			require.NoError(t, err)
			assert.Equal(t, min(left, 32<<10), got)
			left -= got
			b = b[4+size:]
		}
		assert.Zero(t, left)
		back, err := decoders[protocol.CodecSnappy](out)
		require.NoError(t, err)
		assert.True(t, bytes.Equal(data[:n], back))
	}
}

// FC-038: one frame, and a reader needs to hold no more than the batch, or the window if that is less.
func TestFC038ZstdFrame(t *testing.T) {
	data := jsonRecords(1 << 20)
	for _, level := range []int{3, 5, 22} {
		for _, n := range []int{1, 100, 16 << 10, 512 << 10, 1 << 20} {
			out := compressed(t, newCompressor(t, protocol.CodecZstd, level), [][]byte{data[:n]})
			var h zstd.Header
			require.NoError(t, h.Decode(out))
			if n > 1024 {
				assert.True(t, h.HasFCS)
				assert.Equal(t, uint64(n), h.FrameContentSize)
			}
			assert.False(t, h.HasCheckSum)
			assert.LessOrEqual(t, h.WindowSize, uint64(max(1024, min(n, zstdWindow))))
		}
	}
}

// levelsBetween are the levels from low to high; 0 is none of them.
func levelsBetween(low, high int) (all []int) {
	for level := low; level <= high; level++ {
		if level != DefaultLevel {
			all = append(all, level)
		}
	}
	return all
}

// FC-046: every level works, the highest makes less than the lowest, the default is what it is documented to be.
func TestFC046Levels(t *testing.T) {
	text := jsonRecords(200_000)
	for _, tt := range []struct {
		codec  protocol.Codec
		levels []int
		def    int
	}{
		{protocol.CodecGzip, []int{1, 2, 3, 4, 5, 6, 7, 8, 9}, -1},
		{protocol.CodecLZ4, []int{1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17}, 9},
		{protocol.CodecZstd, append([]int{-131072}, levelsBetween(-7, 22)...), 3},
	} {
		bySize := map[int]int{}
		for _, level := range append(tt.levels, DefaultLevel, tt.def) {
			require.NoError(t, CheckLevel(tt.codec, level))
			out := compressed(t, newCompressor(t, tt.codec, level), slabs(text, 2000))
			got, err := decoders[tt.codec](out)
			require.NoError(t, err)
			require.True(t, bytes.Equal(text, got), "%v %d", tt.codec, level)
			bySize[level] = len(out)
		}
		assert.Less(t, bySize[tt.levels[len(tt.levels)-1]], bySize[tt.levels[0]], "%v", tt.codec)
		assert.Equal(t, bySize[tt.def], bySize[DefaultLevel], "%v", tt.codec)
		t.Logf("%v: %v", tt.codec, bySize)
	}
}

// FC-046: a level out of range is refused when the compressor is made, with the range.
func TestFC046LevelsOutOfRange(t *testing.T) {
	for _, tt := range []struct {
		codec protocol.Codec
		level int
		want  string
	}{
		{protocol.CodecGzip, 10, "gzip compression level must be -1 or 1 to 9, got 10"},
		{protocol.CodecGzip, -2, "gzip compression level must be -1 or 1 to 9, got -2"},
		{protocol.CodecLZ4, 18, "lz4 compression level must be 1 to 17, got 18"},
		{protocol.CodecLZ4, -1, "lz4 compression level must be 1 to 17, got -1"},
		{protocol.CodecZstd, 99, "zstd compression level must be -131072 to 22, got 99"},
		{protocol.CodecZstd, -131073, "zstd compression level must be -131072 to 22, got -131073"},
		{protocol.CodecSnappy, 1, "snappy has no compression levels, got 1"},
		{protocol.CodecNone, 1, "none has no compression levels, got 1"},
		{protocol.CodecNone, DefaultLevel, "no compressor for codec 0 (none)"},
		{protocol.Codec(5), DefaultLevel, "no compressor for codec 5 (unknown)"},
	} {
		c, err := New(tt.codec, tt.level)
		assert.EqualError(t, err, tt.want)
		assert.Nil(t, c)
	}
}

// FC-038: a compressor holds what Footprint says, starts no goroutine, and makes nothing new per batch.
func TestFC038Footprint(t *testing.T) {
	if raceEnabled {
		t.Skip("the race detector counts differently")
	}
	small, large := slabs(jsonRecords(16<<10), 2000), slabs(jsonRecords(1<<20), 2000)
	dst := make([]byte, 0, 2<<20)
	for _, tt := range []struct {
		codec protocol.Codec
		level int
	}{
		{protocol.CodecGzip, -1}, {protocol.CodecGzip, 1}, {protocol.CodecGzip, 4}, {protocol.CodecGzip, 6}, {protocol.CodecGzip, 7}, {protocol.CodecGzip, 9},
		{protocol.CodecSnappy, 0}, {protocol.CodecLZ4, 9}, {protocol.CodecLZ4, 17},
		{protocol.CodecZstd, 1}, {protocol.CodecZstd, 4}, {protocol.CodecZstd, 7}, {protocol.CodecZstd, 22},
	} {
		before := heap()
		goroutines := runtime.NumGoroutine()
		c := newCompressor(t, tt.codec, tt.level)
		for range 3 {
			_, err := c.Compress(dst, small)
			require.NoError(t, err)
			_, err = c.Compress(dst, large)
			require.NoError(t, err)
		}
		held := heap() - before
		assert.LessOrEqual(t, held, Footprint(tt.codec, tt.level), "%v %d", tt.codec, tt.level)
		t.Logf("%v %d: %d KiB of %d KiB", tt.codec, tt.level, held>>10, Footprint(tt.codec, tt.level)>>10)
		assert.Equal(t, goroutines, runtime.NumGoroutine())
		runtime.KeepAlive(c)
	}
	assert.Zero(t, Footprint(protocol.CodecNone, 0))
}

func heap() int64 {
	var m runtime.MemStats
	runtime.GC()
	runtime.GC()
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}

// A batch far above the usual size does not leave its memory behind.
func TestLargeBatchIsForgotten(t *testing.T) {
	c := newCompressor(t, protocol.CodecZstd, DefaultLevel).(*zstdCompressor)
	compressed(t, c, slabs(jsonRecords(1<<20), 2000))
	assert.GreaterOrEqual(t, cap(c.scratch), 1<<20)
	compressed(t, c, slabs(jsonRecords(5<<20), 2000))
	assert.Nil(t, c.scratch)
}

// Compressors keep neither what they read nor what they wrote.
func TestCompressKeepsNothing(t *testing.T) {
	for _, codec := range codecsWithData {
		c := newCompressor(t, codec, DefaultLevel)
		src := jsonRecords(100_000)
		out := compressed(t, c, slabs(src, 2000))
		kept := bytes.Clone(out)
		clear(src)
		_ = compressed(t, c, slabs(randomBytes(100_000), 2000))
		assert.Equal(t, kept, out, "%v", codec)
	}
}

func TestAllocationCeilings(t *testing.T) {
	if raceEnabled {
		t.Skip("the race detector allocates")
	}
	for _, codec := range codecsWithData {
		for _, n := range []int{2 << 10, 16 << 10, 200 << 10} {
			src := slabs(jsonRecords(n), 1987)
			c := newCompressor(t, codec, DefaultLevel)
			dst, err := c.Compress(nil, src)
			require.NoError(t, err)
			// s2 keeps its tables in a sync.Pool, which a collection may empty: hence not an exact zero.
			assert.Less(t, testing.AllocsPerRun(100, func() { dst, _ = c.Compress(dst, src) }), 0.5, "%v %d", codec, n)
		}
	}
}

func TestCursor(t *testing.T) {
	data := randomBytes(1000)
	r := rand.New(rand.NewPCG(5, 6))
	buf := make([]byte, 100)
	for range 2000 {
		var cut [][]byte
		for rest := data; len(rest) > 0; {
			n := min(r.IntN(60), len(rest))
			cut = append(cut, rest[:n])
			rest = rest[n:]
		}
		n := 1 + r.IntN(100)
		c := cursor{slabs: cut}
		var got []byte
		for {
			block := c.next(n, buf)
			if len(block) == 0 {
				break
			}
			if want := min(n, len(data)-len(got)); len(block) != want {
				t.Fatalf("block of %d, want %d", len(block), want)
			}
			got = append(got, block...)
		}
		require.Equal(t, data, got)
	}
}

var benchmarkSizes = []int{2 << 10, 16 << 10, 64 << 10, 1 << 20}

func BenchmarkCompress(b *testing.B) {
	for _, codec := range codecsWithData {
		for name, data := range map[string][]byte{"json": jsonRecords(1 << 20), "random": randomBytes(1 << 20)} {
			for _, n := range benchmarkSizes {
				b.Run(fmt.Sprintf("codec=%v/data=%s/bytes=%d", codec, name, n), func(b *testing.B) {
					c := newCompressor(b, codec, DefaultLevel)
					src := slabs(data[:n], 16<<10-61)
					var dst []byte
					b.SetBytes(int64(n))
					b.ReportAllocs()
					for b.Loop() {
						dst, _ = c.Compress(dst, src)
					}
					b.ReportMetric(float64(n)/float64(len(dst)), "ratio")
				})
			}
		}
	}
}

func BenchmarkDecompress(b *testing.B) {
	for _, codec := range codecsWithData {
		b.Run(fmt.Sprintf("codec=%v/data=json/bytes=%d", codec, 16<<10), func(b *testing.B) {
			src := compressed(b, newCompressor(b, codec, DefaultLevel), [][]byte{jsonRecords(16 << 10)})
			var d Decoder
			var dst []byte
			b.SetBytes(16 << 10)
			b.ReportAllocs()
			for b.Loop() {
				dst, _ = d.Decompress(codec, dst, src, 1<<20)
			}
		})
	}
}
