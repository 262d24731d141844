//go:build unix

package suite

import (
	"os"
	"syscall"

	"github.com/kafka-reservoir/producer/benchmarks/measure"
)

// maxRSS is the peak of a process that has ended, in bytes.
func maxRSS(s *os.ProcessState) int64 {
	if u, ok := s.SysUsage().(*syscall.Rusage); ok {
		return measure.MaxRSS(*u)
	}
	return 0
}
