#include "textflag.h"

// A CRC is the remainder of a polynomial, and what is 16 bytes of it may be replaced by anything with the same remainder further on. Folding multiplies each half of
// 16 bytes by what x to the power of the distance leaves, and adds the product to the 16 bytes at that distance; four registers of four times 16 bytes go
// over the whole so. What is left at the end is 16 bytes, of which the processor's CRC instruction knows the remainder.
// (Gopal, Ozturk and others, "Fast CRC Computation for Generic Polynomials Using PCLMULQDQ Instruction", Intel 2009.)
//
// The factors are for distances in bits: x^(distance+32) and x^(distance-32) modulo the polynomial, bits reversed, shifted by one. TestFactors computes them.
DATA by2048<>+0(SB)/8, $0xdcb17aa4
DATA by2048<>+8(SB)/8, $0xb9e02b86
GLOBL by2048<>(SB), RODATA|NOPTR, $16

DATA by512<>+0(SB)/8, $0x740eef02
DATA by512<>+8(SB)/8, $0x9e4addf8
GLOBL by512<>(SB), RODATA|NOPTR, $16

DATA by256<>+0(SB)/8, $0x1384aa63a
DATA by256<>+8(SB)/8, $0xba4fc28e
GLOBL by256<>(SB), RODATA|NOPTR, $16

DATA by128<>+0(SB)/8, $0xf20c0dfe
DATA by128<>+8(SB)/8, $0x14cd00bd6
GLOBL by128<>(SB), RODATA|NOPTR, $16

// func fold(crc uint32, p *byte, n int) uint32
TEXT ·fold(SB), NOSPLIT, $0-28
	MOVL crc+0(FP), AX
	MOVQ p+8(FP), SI
	MOVQ n+16(FP), CX

	VMOVD     AX, X4
	VPXORQ    0(SI), Z4, Z0
	VMOVDQU64 64(SI), Z1
	VMOVDQU64 128(SI), Z2
	VMOVDQU64 192(SI), Z3
	ADDQ      $256, SI
	SUBQ      $512, CX
	JL        join

	VBROADCASTI32X4 by2048<>(SB), Z8

four:
	VPCLMULQDQ $0x00, Z8, Z0, Z4
	VPCLMULQDQ $0x11, Z8, Z0, Z0
	VPCLMULQDQ $0x00, Z8, Z1, Z5
	VPCLMULQDQ $0x11, Z8, Z1, Z1
	VPCLMULQDQ $0x00, Z8, Z2, Z6
	VPCLMULQDQ $0x11, Z8, Z2, Z2
	VPCLMULQDQ $0x00, Z8, Z3, Z7
	VPCLMULQDQ $0x11, Z8, Z3, Z3
	VPTERNLOGQ $0x96, 0(SI), Z4, Z0
	VPTERNLOGQ $0x96, 64(SI), Z5, Z1
	VPTERNLOGQ $0x96, 128(SI), Z6, Z2
	VPTERNLOGQ $0x96, 192(SI), Z7, Z3
	ADDQ       $256, SI
	SUBQ       $256, CX
	JGE        four

join: // the four registers, which stand one behind the other, in Z3
	VBROADCASTI32X4 by512<>(SB), Z8
	VPCLMULQDQ      $0x00, Z8, Z0, Z4
	VPCLMULQDQ      $0x11, Z8, Z0, Z0
	VPTERNLOGQ      $0x96, Z4, Z0, Z1
	VPCLMULQDQ      $0x00, Z8, Z1, Z4
	VPCLMULQDQ      $0x11, Z8, Z1, Z1
	VPTERNLOGQ      $0x96, Z4, Z1, Z2
	VPCLMULQDQ      $0x00, Z8, Z2, Z4
	VPCLMULQDQ      $0x11, Z8, Z2, Z2
	VPTERNLOGQ      $0x96, Z4, Z2, Z3
	ADDQ            $256, CX
	JZ              last

one: // less than 256 bytes are left
	VPCLMULQDQ $0x00, Z8, Z3, Z4
	VPCLMULQDQ $0x11, Z8, Z3, Z3
	VPTERNLOGQ $0x96, 0(SI), Z4, Z3
	ADDQ       $64, SI
	SUBQ       $64, CX
	JNZ        one

last: // 64 bytes become 32, and those 16
	VEXTRACTI64X4  $1, Z3, Y5
	VBROADCASTI128 by256<>(SB), Y8
	VPCLMULQDQ     $0x00, Y8, Y3, Y4
	VPCLMULQDQ     $0x11, Y8, Y3, Y3
	VPXOR          Y4, Y5, Y5
	VPXOR          Y3, Y5, Y3
	VEXTRACTI128   $1, Y3, X5
	VMOVDQU        by128<>(SB), X8
	VPCLMULQDQ     $0x00, X8, X3, X4
	VPCLMULQDQ     $0x11, X8, X3, X3
	VPXOR          X4, X5, X5
	VPXOR          X3, X5, X5
	VMOVQ          X5, DX
	VPEXTRQ        $1, X5, BX
	XORL           AX, AX
	CRC32Q         DX, AX
	CRC32Q         BX, AX
	VZEROUPPER
	MOVL           AX, ret+24(FP)
	RET

// func cpuid(leaf, sub uint32) (a, b, c, d uint32)
TEXT ·cpuid(SB), NOSPLIT, $0-24
	MOVL leaf+0(FP), AX
	MOVL sub+4(FP), CX
	CPUID
	MOVL AX, a+8(FP)
	MOVL BX, b+12(FP)
	MOVL CX, c+16(FP)
	MOVL DX, d+20(FP)
	RET

// func xgetbv() uint32
TEXT ·xgetbv(SB), NOSPLIT, $0-4
	XORL CX, CX
	XGETBV
	MOVL AX, ret+0(FP)
	RET
