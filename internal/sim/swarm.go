package sim

import (
	"fmt"
	"runtime"
	"sync"
	"sync/atomic"
	"time"
)

// Swarm is a number of seeds to be played, many at once: worlds share nothing.
type Swarm struct {
	First   uint64
	Seeds   int           // at least so many
	Time    time.Duration // and at least so much simulated time
	Options Options
	Workers int // 0: one a processor

	// Each is told of every result, in the order of the seeds. It returns false to stop. May be nil.
	Each func(*Result) bool
	// Stuck is told of a seed that has not ended after so long as StuckAfter on the real clock. May be nil.
	Stuck      func(seed uint64)
	StuckAfter time.Duration
}

// Totals are the sums over seeds.
type Totals struct {
	Seeds      int
	Time       time.Duration
	Faults     int
	Records    int
	Requests   int64
	Violations int
	Digest     uint64
}

// String is the line that a run ends with.
func (t *Totals) String() string {
	return fmt.Sprintf("seeds %d hours %.1f faults %d records %d violations %d digest %016x",
		t.Seeds, t.Time.Hours(), t.Faults, t.Records, t.Violations, t.Digest)
}

// Add takes in a result.
func (t *Totals) Add(r *Result) {
	t.Seeds++
	t.Time += r.Time
	t.Faults += r.Faults
	t.Records += r.Records
	t.Requests += r.Requests
	t.Violations += len(r.Violations)
	d := digest(t.Digest)
	d.add(r.Seed, r.Digest)
	t.Digest = uint64(d)
}

// Run plays the seeds. What it returns, the digest included, does not depend on how many run at once.
func (s Swarm) Run() Totals {
	workers := s.Workers
	if workers == 0 {
		workers = runtime.GOMAXPROCS(0)
	}
	var (
		next    atomic.Uint64
		stop    atomic.Bool
		wg      sync.WaitGroup
		results = make(chan *Result, workers)
	)
	for range workers {
		wg.Go(func() {
			for !stop.Load() {
				seed := s.First + next.Add(1) - 1
				var alarm *time.Timer
				if s.Stuck != nil {
					alarm = time.AfterFunc(s.StuckAfter, func() { s.Stuck(seed) })
				}
				res := Run(Draw(seed, s.Options))
				if alarm != nil {
					alarm.Stop()
				}
				results <- &res
			}
		})
	}
	go func() { wg.Wait(); close(results) }()

	// In the order of the seeds, whatever order they end in.
	var totals Totals
	early := map[uint64]*Result{}
	for res := range results {
		early[res.Seed] = res
		for !stop.Load() {
			r := early[s.First+uint64(totals.Seeds)]
			if r == nil {
				break
			}
			delete(early, r.Seed)
			totals.Add(r)
			if s.Each != nil && !s.Each(r) || totals.Seeds >= s.Seeds && totals.Time >= s.Time {
				stop.Store(true)
			}
		}
	}
	return totals
}
