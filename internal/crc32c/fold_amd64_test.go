package crc32c

import (
	"os"
	"runtime"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
)

// Each thing that is needed is looked for.
func TestFoldable(t *testing.T) {
	type machine struct {
		system           string
		last, c1, b7, c7 uint32
		registers        uint32
	}
	able := func(m machine) bool {
		return foldable(m.system, func(leaf, _ uint32) (a, b, c, d uint32) {
			switch leaf {
			case 0:
				return m.last, 0, 0, 0
			case 1:
				return 0, 0, m.c1, 0
			case 7:
				return 0, m.b7, m.c7, 0
			}
			panic("another leaf")
		}, func() uint32 {
			if m.c1>>27&1 == 0 {
				panic("the instruction is there with osxsave only")
			}
			return m.registers
		})
	}
	whole := machine{"linux", 7, 1<<1 | 1<<20 | 1<<27 | 1<<28, 1<<5 | 1<<16, 1 << 10, 0xe6}
	assert.True(t, able(whole))
	for name, damage := range map[string]func(m *machine){
		"system that loses registers":  func(m *machine) { m.system = "netbsd" },
		"processor without leaf 7":     func(m *machine) { m.last = 6 },
		"without PCLMULQDQ":            func(m *machine) { m.c1 &^= 1 << 1 },
		"without SSE4.2":               func(m *machine) { m.c1 &^= 1 << 20 },
		"without OSXSAVE":              func(m *machine) { m.c1 &^= 1 << 27 },
		"without AVX":                  func(m *machine) { m.c1 &^= 1 << 28 },
		"without AVX2":                 func(m *machine) { m.b7 &^= 1 << 5 },
		"without AVX-512":              func(m *machine) { m.b7 &^= 1 << 16 },
		"without VPCLMULQDQ":           func(m *machine) { m.c7 = 0 },
		"system that keeps no zmm":     func(m *machine) { m.registers = 0x06 },
		"system that keeps no opmasks": func(m *machine) { m.registers &^= 1 << 5 },
	} {
		m := whole
		damage(&m)
		assert.False(t, able(m), name)
	}
}

// What the system says of this machine.
func TestFoldableHere(t *testing.T) {
	info, err := os.ReadFile("/proc/cpuinfo")
	if runtime.GOOS != "linux" || err != nil {
		t.Skip("no /proc/cpuinfo")
	}
	want := true
	for _, flag := range []string{"pclmulqdq", "sse4_2", "avx2", "avx512f", "vpclmulqdq"} {
		want = want && strings.Contains(string(info), " "+flag+" ")
	}
	assert.Equal(t, want, canFold)
}
