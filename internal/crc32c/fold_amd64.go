package crc32c

import "runtime"

var canFold = foldable(runtime.GOOS, cpuid, xgetbv)

// foldable is false where the processor lacks what fold is made of, or the system does not keep its registers. Systems are named because one that says
// that it does need not: NetBSD loses them on signals.
func foldable(system string, cpuid func(leaf, sub uint32) (a, b, c, d uint32), xgetbv func() uint32) bool {
	const (
		pclmulqdq, sse42, osxsave, avx = 1 << 1, 1 << 20, 1 << 27, 1 << 28 // leaf 1, ecx
		avx2, avx512f                  = 1 << 5, 1 << 16                   // leaf 7, ebx
		vpclmulqdq                     = 1 << 10                           // leaf 7, ecx
		registers                      = 0xe6                              // xmm, ymm, and the three parts of zmm
		all                            = pclmulqdq | sse42 | osxsave | avx
	)
	switch system {
	case "linux", "windows", "darwin", "freebsd":
	default:
		return false
	}
	if last, _, _, _ := cpuid(0, 0); last < 7 {
		return false
	}
	if _, _, c, _ := cpuid(1, 0); c&all != all || xgetbv()&registers != registers {
		return false
	}
	_, b, c, _ := cpuid(7, 0)
	return b&(avx2|avx512f) == avx2|avx512f && c&vpclmulqdq != 0
}

// fold goes on from crc, both it and what it returns being inverted, with the n bytes from p on: at least [least], and a multiple of [width].
//
//go:noescape
func fold(crc uint32, p *byte, n int) uint32

//go:noescape
func cpuid(leaf, sub uint32) (a, b, c, d uint32)

func xgetbv() uint32
