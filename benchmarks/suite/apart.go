package suite

import (
	"context"
	"runtime"
	"sync"
	"sync/atomic"
	"time"
)

// What two goroutines share goes from one processor's cache to the other's. How long that takes depends on which processors the two are: one chiplet's, or two's,
// and a hypervisor may change that from one second to the next. It is a sixth of the price in the one case of what it is in the other, a record of 100 bytes takes two
// thirds more CPU, and nothing else shows it.

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
	other.Go(func() {
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

// nearLooks bounds how often is looked whether the processors are near, nearTries how often a run is made in which they went apart.
const (
	nearLooks = 60
	nearTries = 3
)

// awaitNear waits until the processors are at most so many seconds apart; 0: it does not matter. False: they have not been for long.
func awaitNear(ctx context.Context, near float64, apart func() float64, pause func()) bool {
	if near == 0 {
		return true
	}
	for range nearLooks {
		if ctx.Err() != nil || apart() <= near {
			return true
		}
		pause()
	}
	return false
}
