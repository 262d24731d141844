package compress

import (
	"bytes"
	"encoding/binary"
	"math/rand/v2"
	"testing"

	"github.com/pierrec/lz4/v4"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// blockInputs are inputs of many sizes and kinds.
func blockInputs(sizes []int, each func(kind string, data []byte)) {
	r := rand.New(rand.NewPCG(3, 4))
	json, random := jsonRecords(lz4Block), randomBytes(lz4Block)
	for _, n := range sizes {
		each("json", json[:n])
		each("random", random[:n])
		each("zeros", make([]byte, n))
		few := make([]byte, n)
		for i := range few {
			few[i] = byte(r.IntN(3))
		}
		each("few letters", few)
		// Short matches between literal runs of about the lengths at which their encoding changes.
		mixed := make([]byte, 0, n+1024)
		for len(mixed) < n {
			mixed = append(mixed, random[r.IntN(1<<15):][:r.IntN(40)]...)
			mixed = append(mixed, json[r.IntN(100):][:4+r.IntN(24)]...)
			if r.IntN(50) == 0 {
				mixed = append(mixed, bytes.Repeat([]byte{7}, 200+r.IntN(400))...)
				mixed = append(mixed, random[r.IntN(1<<15):][:200+r.IntN(400)]...)
			}
		}
		each("mixed", mixed[:n])
		// The second half is the first: far matches.
		twice := bytes.Clone(random[:n])
		copy(twice[(n+1)/2:], twice[:n/2])
		each("twice", twice)
	}
}

// checkLZ4Block holds a block against the rules of the format, which decoders rely on where they copy in steps of eight bytes,
// and returns what it decodes to.
func checkLZ4Block(t *testing.T, block []byte, size int) []byte {
	t.Helper()
	length := func(n int) int {
		if n == 15 {
			for {
				b := block[0]
				block = block[1:]
				n += int(b)
				if b < 255 {
					break
				}
			}
		}
		return n
	}
	var out []byte
	for {
		token := block[0]
		block = block[1:]
		literals := length(int(token >> 4))
		out = append(out, block[:literals]...)
		block = block[literals:]
		if len(block) == 0 {
			require.Zero(t, token&15, "the last sequence has no match")
			if len(out) > literals {
				require.GreaterOrEqual(t, literals, 5, "a block ends in five literals")
			}
			return out
		}
		offset := int(binary.LittleEndian.Uint16(block))
		block = block[2:]
		require.Positive(t, offset)
		require.LessOrEqual(t, offset, len(out))
		require.LessOrEqual(t, len(out), size-12, "the last match begins twelve bytes before the end")
		for range length(int(token&15)) + 4 {
			out = append(out, out[len(out)-offset])
		}
	}
}

// EXT-09, FC-044: blocks keep the rules of the format, decode to what went in, fit into their bound, and do not depend on what the encoder
// did before.
func TestLZ4Block(t *testing.T) {
	var sizes []int
	for n := range 80 {
		sizes = append(sizes, n)
	}
	sizes = append(sizes, 270, 271, 285, 286, 1000, 4096, 16<<10-61, 16<<10, 40_000, lz4Block-1, lz4Block)
	used := new(lz4Encoder)
	blockInputs(sizes, func(kind string, data []byte) {
		fresh := new(lz4Encoder)
		want := make([]byte, lz4Bound(len(data)))
		want = want[:fresh.encode(want, copy(fresh.in[:], data))]
		require.LessOrEqual(t, len(want), len(data)+len(data)/255+16, "%s %d", kind, len(data))
		require.True(t, bytes.Equal(data, checkLZ4Block(t, want, len(data))), "%s %d", kind, len(data))
		if len(data) > 0 {
			out := make([]byte, len(data))
			n, err := lz4.UncompressBlock(want, out)
			require.NoError(t, err, "%s %d", kind, len(data))
			require.True(t, bytes.Equal(data, out[:n]), "%s %d", kind, len(data))
		}
		got := make([]byte, lz4Bound(len(data)))
		got = got[:used.encode(got, copy(used.in[:], data))]
		require.True(t, bytes.Equal(want, got), "%s %d", kind, len(data))
	})
}

// It compresses no worse than pierrec's, which wire sizes and other clients' are measured by.
func TestLZ4BlockSize(t *testing.T) {
	own := new(lz4Encoder)
	var other lz4.Compressor
	dst := make([]byte, lz4Bound(lz4Block))
	for _, n := range []int{2 << 10, 16 << 10, lz4Block} {
		data := jsonRecords(1 << 20)
		ours, theirs := 0, 0
		for ; len(data) >= n; data = data[n:] {
			ours += own.encode(dst, copy(own.in[:], data[:n]))
			k, err := other.CompressBlock(data[:n], dst)
			require.NoError(t, err)
			theirs += k
		}
		assert.LessOrEqual(t, ours, theirs, "%d", n)
	}
}

func FuzzLZ4Block(f *testing.F) {
	blockInputs([]int{20, 300, 3000}, func(_ string, data []byte) { f.Add(data) })
	c := new(lz4Encoder)
	f.Fuzz(func(t *testing.T, data []byte) {
		data = data[:min(len(data), lz4Block)]
		dst := make([]byte, lz4Bound(len(data)))
		dst = dst[:c.encode(dst, copy(c.in[:], data))]
		require.True(t, bytes.Equal(data, checkLZ4Block(t, dst, len(data))))
	})
}
