package measure

import (
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/kafka-reservoir/producer/benchmarks/clients"
	"github.com/kafka-reservoir/producer/benchmarks/workload"
)

// Every so many records have their latency measured in Async: a reading of the clock costs up to half of what a record
// does. Elsewhere all have.
const asyncSample = 64

// sending is one producer and what is sent through it.
type sending struct {
	p       clients.Producer
	d       *clients.Deliveries
	w       *workload.Workload
	records *workload.Records
	bound   int64 // records a phase; 0: none

	sent int64 // by Send, in all phases
}

// phase sends for a while and returns when everything is acknowledged, with the number of records.
func (s *sending) phase(d time.Duration) (int64, error) {
	if d <= 0 {
		return 0, nil
	}
	var stop atomic.Bool
	timer := time.AfterFunc(d, func() { stop.Store(true) })
	defer timer.Stop()

	var (
		wg    sync.WaitGroup
		total atomic.Int64
		errs  = make([]error, s.w.Goroutines)
	)
	bound := s.bound / int64(s.w.Goroutines)
	for g := range s.w.Goroutines {
		wg.Go(func() {
			var n int64
			switch s.w.Mode {
			case workload.Async:
				n = s.async(g, bound, &stop)
			case workload.Sync:
				n, errs[g] = s.sync(g, bound, &stop)
			case workload.Paced:
				n = s.paced(g, bound, &stop)
			}
			total.Add(n)
		})
	}
	wg.Wait()
	for _, err := range errs {
		if err != nil {
			return total.Load(), err
		}
	}
	if s.w.Mode == workload.Sync {
		return total.Load(), nil
	}
	s.sent += total.Load()
	return total.Load(), s.drain()
}

// first is where a goroutine begins in the records: they shall not all send the same.
func first(goroutine int) int { return goroutine * 7919 }

func (s *sending) async(goroutine int, bound int64, stop *atomic.Bool) (n int64) {
	i := first(goroutine)
	for ; !stop.Load() && (bound == 0 || n < bound); n++ {
		slot := clients.Unmeasured
		if n%asyncSample == 0 {
			slot = s.d.Begin()
		}
		key, value := s.records.At(i)
		i++
		s.p.Send(key, value, slot)
	}
	return n
}

func (s *sending) sync(goroutine int, bound int64, stop *atomic.Bool) (n int64, err error) {
	i := first(goroutine)
	for ; !stop.Load() && (bound == 0 || n < bound); n++ {
		key, value := s.records.At(i)
		i++
		begin := clients.Now()
		if err := s.p.SendWait(goroutine, key, value); err != nil {
			return n, err
		}
		s.d.Latency.Add(clients.Now() - begin)
	}
	return n, nil
}

// paced is an open loop: a record that could not be sent when it was due is sent as soon as it can, and its latency counts
// from when it was due. What the pacer itself is late by is therefore in the latency of every client.
func (s *sending) paced(goroutine int, bound int64, stop *atomic.Bool) (n int64) {
	defer preciseSleep()()
	i := first(goroutine)
	interval := int64(time.Second) * int64(s.w.Goroutines) / int64(s.w.Rate)
	begin := clients.Now()
	for ; !stop.Load() && (bound == 0 || n < bound); n++ {
		due := begin + n*interval
		if wait := due - clients.Now(); wait > 0 {
			sleep(time.Duration(wait))
		}
		key, value := s.records.At(i)
		i++
		s.p.Send(key, value, s.d.BeginAt(due))
	}
	return n
}

// drain waits until every record that was sent is acknowledged.
func (s *sending) drain() error {
	if err := s.p.Flush(); err != nil {
		return fmt.Errorf("flush: %w", err)
	}
	for end := time.Now().Add(drainTimeout); ; time.Sleep(200 * time.Microsecond) {
		acked, failed := s.d.Counts()
		switch {
		case failed > 0:
			return fmt.Errorf("%d of %d records were lost, the first one with: %w", failed, s.sent, s.d.FirstError())
		case acked == s.sent:
			return nil
		case acked > s.sent:
			return fmt.Errorf("%d acknowledgements for %d records", acked, s.sent)
		case time.Now().After(end):
			return fmt.Errorf("%d of %d records were not acknowledged %v after the last one was sent", s.sent-acked, s.sent, drainTimeout)
		}
	}
}
