package suite

import (
	"context"
	"fmt"
	"runtime"
	"sync"
	"sync/atomic"
	"time"

	"github.com/kafka-reservoir/producer/benchmarks/report"
)

// What two goroutines share goes from one processor's cache to the other's. How long that takes depends on which processors the two are: one chiplet's, or two's,
// and a hypervisor may change that from one second to the next: six times as long, and two thirds more CPU for a record of 100 bytes from 16 goroutines. Nothing else shows it.

// apartRounds is how often a line goes there and back for one reading, and apartReadings how many there are: the least counts, because whoever else
// wants a processor only ever makes it more.
const (
	apartRounds   = 2000
	apartReadings = 5
	apartLimit    = 50 * time.Millisecond // for all: two threads on one processor would take seconds
)

// processorsApart is how long a cache line takes from one processor to another and back, in seconds; 0: not known, or there is only one.
func processorsApart() float64 {
	if runtime.NumCPU() < 2 || runtime.GOMAXPROCS(0) < 2 {
		return 0
	}
	var line struct {
		_    [128]byte
		turn atomic.Uint32 // 1: the other's
		_    [128]byte
		over atomic.Bool
	}
	var other sync.WaitGroup
	other.Go(func() { // ends when line.over is set, below
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		for !line.over.Load() {
			line.turn.CompareAndSwap(1, 0)
		}
	})
	defer other.Wait()
	defer line.over.Store(true)
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	deadline := time.Now().Add(apartLimit)
	least := time.Duration(0)
	for range apartReadings {
		began := time.Now()
		for range apartRounds {
			line.turn.Store(1)
			for spins := 1; line.turn.Load() == 1; spins++ {
				if spins%4096 == 0 && time.Now().After(deadline) {
					return least.Seconds()
				}
			}
		}
		if d := time.Since(began) / apartRounds; least == 0 || d < least {
			least = d
		}
	}
	return least.Seconds()
}

// nearLooks bounds how often is looked whether the processors are near, nearTries how often a run is made for which they went apart.
const (
	nearLooks = 60
	nearTries = 3
)

// pauseBetweenLooks is what a hypervisor is given to think of something else.
func pauseBetweenLooks(ctx context.Context) {
	select {
	case <-time.After(500 * time.Millisecond):
	case <-ctx.Done():
	}
}

// nearRun makes a run while the processors are at most so many seconds apart, as apart says before and after; 0: it does not matter. A run for which they were not, three
// times in a row, does not count.
func nearRun(ctx context.Context, near float64, apart func() float64, pause func(context.Context), once func() report.Run) report.Run {
	for try := 1; ; try++ {
		before := apart()
		for look := 1; near > 0 && before > near && look < nearLooks && ctx.Err() == nil; look++ {
			pause(ctx)
			before = apart()
		}
		run := once()
		run.Apart = max(before, apart())
		if near == 0 || run.Apart <= near || run.Problem != "" || ctx.Err() != nil {
			return run
		}
		if try == nearTries {
			run.Problem = fmt.Sprintf("processors were %.0f ns apart, there and back, %d times in a row", run.Apart*1e9, try)
			return run
		}
	}
}
