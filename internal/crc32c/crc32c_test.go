package crc32c

import (
	"encoding/binary"
	"fmt"
	"hash/crc32"
	"math/bits"
	"math/rand/v2"
	"os"
	"regexp"
	"strconv"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// The standard library is what this is held against.
func want(crc uint32, p []byte) uint32 {
	return crc32.Update(crc, crc32.MakeTable(crc32.Castagnoli), p)
}

// The value that RFC 3720, B.4 and everybody else gives for this.
func TestKnownValue(t *testing.T) {
	assert.Equal(t, uint32(0xe3069283), Update(0, []byte("123456789")))
	long := make([]byte, 256)
	assert.Equal(t, want(0, long), Update(0, long))
}

// Each length around those where something else begins, at each alignment, from each kind of beginning.
func TestUpdate(t *testing.T) {
	t.Logf("folded: %t", canFold)
	rnd := rand.NewChaCha8([32]byte{1})
	b := make([]byte, 5000)
	_, _ = rnd.Read(b)
	for n := range 4096 {
		p := b[n%67:][:n]
		for _, crc := range []uint32{0, 1, 0xffffffff, uint32(rnd.Uint64())} {
			require.Equal(t, want(crc, p), Update(crc, p), "%d bytes from %#x", n, crc)
		}
	}
}

// Parts are as good as the whole.
func TestParts(t *testing.T) {
	rnd := rand.New(rand.NewPCG(2, 0))
	b := make([]byte, 100_000)
	for i := range b {
		b[i] = byte(rnd.Uint32())
	}
	for range 200 {
		crc, at := uint32(0), 0
		for at < len(b) {
			n := min(1+rnd.IntN(9_000), len(b)-at)
			crc = Update(crc, b[at:at+n])
			at += n
		}
		require.Equal(t, want(0, b), crc)
	}
}

func FuzzUpdate(f *testing.F) {
	f.Add(uint32(0), make([]byte, 300))
	f.Add(uint32(0xffffffff), []byte("abc"))
	f.Fuzz(func(t *testing.T, crc uint32, p []byte) { assert.Equal(t, want(crc, p), Update(crc, p)) })
}

// The factors in the assembly are those that its comment describes.
func TestFactors(t *testing.T) {
	source, err := os.ReadFile("fold_amd64.s")
	require.NoError(t, err)
	power := func(n int) uint64 { // of x, modulo the polynomial
		r := uint32(1) << 31 // reversed, as the polynomial is
		for range n {
			r = r>>1 ^ r&1*Polynomial
		}
		return uint64(r) << 1
	}
	all := regexp.MustCompile(`DATA by(\d+)<>\+([08])\(SB\)/8, \$(0x[0-9a-f]+)`).FindAllStringSubmatch(string(source), -1)
	require.Len(t, all, 8)
	for _, m := range all {
		distance, _ := strconv.Atoi(m[1])
		value, err := strconv.ParseUint(m[3], 0, 64)
		require.NoError(t, err)
		n := distance + 32
		if m[2] == "8" {
			n = distance - 32
		}
		assert.Equal(t, power(n), value, m[0])
	}
}

func TestUpdateDoesNotAllocate(t *testing.T) {
	b := make([]byte, 1000)
	assert.Zero(t, testing.AllocsPerRun(100, func() { Update(0, b) }))
}

func BenchmarkUpdate(b *testing.B) {
	for _, n := range []int{100, 1 << 10, 16 << 10, 1 << 20} {
		p := make([]byte, n)
		for i := 0; i+8 <= n; i += 8 {
			binary.LittleEndian.PutUint64(p[i:], bits.RotateLeft64(uint64(i)*0x9e3779b97f4a7c15, i))
		}
		for name, f := range map[string]func(uint32, []byte) uint32{"this": Update, "std": func(crc uint32, p []byte) uint32 { return crc32.Update(crc, table, p) }} {
			b.Run(fmt.Sprintf("by=%s/bytes=%d", name, n), func(b *testing.B) {
				b.SetBytes(int64(n))
				for b.Loop() {
					f(0, p)
				}
			})
		}
	}
}
