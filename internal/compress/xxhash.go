package compress

import (
	"encoding/binary"
	"math/bits"
)

// xxh32 is the 32-bit xxHash with seed 0, the checksum of the LZ4 frame format.
func xxh32(b []byte) uint32 {
	const (
		p1 uint32 = 2654435761
		p2 uint32 = 2246822519
		p3 uint32 = 3266489917
		p4 uint32 = 668265263
		p5 uint32 = 374761393
	)
	var seed uint32
	total := uint32(len(b))
	h := seed + p5
	if len(b) >= 16 {
		lanes := [4]uint32{seed + p1 + p2, seed + p2, seed, seed - p1}
		for ; len(b) >= 16; b = b[16:] {
			for i := range lanes {
				lanes[i] = bits.RotateLeft32(lanes[i]+binary.LittleEndian.Uint32(b[4*i:])*p2, 13) * p1
			}
		}
		h = bits.RotateLeft32(lanes[0], 1) + bits.RotateLeft32(lanes[1], 7) +
			bits.RotateLeft32(lanes[2], 12) + bits.RotateLeft32(lanes[3], 18)
	}
	h += total
	for ; len(b) >= 4; b = b[4:] {
		h = bits.RotateLeft32(h+binary.LittleEndian.Uint32(b)*p3, 17) * p4
	}
	for _, c := range b {
		h = bits.RotateLeft32(h+uint32(c)*p5, 11) * p1
	}
	h = (h ^ h>>15) * p2
	h = (h ^ h>>13) * p3
	return h ^ h>>16
}
