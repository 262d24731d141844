// Package crc32c computes CRC-32C, the checksum of Kafka's record batches, twice as fast as the standard library where the processor multiplies polynomials 64 bytes
// at a time (AVX-512 with VPCLMULQDQ: AMD from Zen 4, Intel servers from Ice Lake). Everywhere else it is the standard library.
//
// On an AMD EPYC 16 KiB take 300 ns for 610 (BenchmarkUpdate, go1.26), which is 6 % of all the CPU that a record of 10 KiB takes, 2 % at 1 KiB and less. When hash/crc32 does it for
// Castagnoli's polynomial, the package goes.
package crc32c

import (
	"hash/crc32"
	"unsafe"
)

// Polynomial is Castagnoli's, reversed.
const Polynomial = crc32.Castagnoli

var table = crc32.MakeTable(Polynomial)

const (
	// least is the length from which folding is faster, and which it needs.
	least = 256
	// width is what it takes a multiple of.
	width = 64
)

// Update is the CRC of bytes whose first part has crc, 0 to begin with, and whose second is p.
func Update(crc uint32, p []byte) uint32 {
	if canFold && len(p) >= least {
		n := len(p) &^ (width - 1)
		crc = ^fold(^crc, unsafe.SliceData(p), n)
		p = p[n:]
	}
	return crc32.Update(crc, table, p)
}
