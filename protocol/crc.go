package protocol

import (
	"hash/crc32"
	"math/bits"

	"github.com/kafka-reservoir/producer/internal/crc32c"
)

// RecordsCRC is the CRC-32C of bytes whose first part has crc; 0 to begin with. Of a batch's records it can be taken while they
// are still in the cache of whoever wrote them, long before the header in front of them is known: see [StampHeader].
func RecordsCRC(crc uint32, p []byte) uint32 { return crc32c.Update(crc, p) }

// combineCRC is the CRC of two byte strings one after the other, b being n bytes long. To go on with n zeros is a linear map of the 32
// bits of a; there is one for each power of two (the idea of zlib's crc32_combine).
func combineCRC(a, b uint32, n int) uint32 {
	for n > 0 {
		i := bits.TrailingZeros(uint(n))
		a = zeros[i].apply(a)
		n &= n - 1
	}
	return a ^ b
}

// crcMap is a linear map of a CRC's bits, by the value of each of its eight nibbles.
type crcMap [8][16]uint32

func (m *crcMap) apply(v uint32) uint32 {
	return m[0][v&15] ^ m[1][v>>4&15] ^ m[2][v>>8&15] ^ m[3][v>>12&15] ^
		m[4][v>>16&15] ^ m[5][v>>20&15] ^ m[6][v>>24&15] ^ m[7][v>>28]
}

// zeros[i] goes on with 1<<i zeros.
var zeros = func() (maps [31]crcMap) {
	castagnoli := crc32.MakeTable(crc32c.Polynomial)
	var bit [32]uint32   // what becomes of each bit
	for i := range bit { // by one zero byte: the lowest eight go through the table, the others move down
		if i < 8 {
			bit[i] = castagnoli[1<<i]
		} else {
			bit[i] = 1 << (i - 8)
		}
	}
	for i := range maps {
		m := &maps[i]
		for nibble := range m {
			for v := range m[nibble] {
				for k := range 4 {
					if v>>k&1 != 0 {
						m[nibble][v] ^= bit[4*nibble+k]
					}
				}
			}
		}
		for k := range bit {
			bit[k] = m.apply(bit[k]) // twice as many
		}
	}
	return maps
}()
