package sender

import (
	"runtime"
	"time"
)

// A processor that was given up for longer than slowYield is wanted by others. Then it is kept for haste, or for so long that the yields together take no more than one
// fiftieth of the time. severalFor is how long callers count as waiting after some were told.
const (
	slowYield  = 500 * time.Microsecond
	haste      = 100 * time.Millisecond
	severalFor = 100 * time.Millisecond
)

// letJoin gives the processor up once, so that callers who were just told what became of their records come with their next ones before the iteration goes on. It is
// called between what has happened and what is sent for it, and returns the time.
//
// Where several callers wait for records at a time, all make one request so. Otherwise a request carries the record of whoever is first, and the next one what the
// others have queued meanwhile: half of what it could. A caller that is alone finds the sender awake, in an iteration that sends for it what it would have to
// begin another for.
func (s *Sender) letJoin(now time.Time) time.Time {
	told := s.acc.TakeTold()
	if told == 0 && !now.Before(s.several) {
		return now // nobody waits: the usual case at full speed
	}
	some, much := s.acc.Queued()
	few := some && !much
	switch {
	case told > 1, told == 1 && few:
		s.several = now.Add(severalFor)
	case told == 1:
		s.several = time.Time{}
	}
	join := few && now.Before(s.several)
	alone := told == 1 && !some && s.client.InFlight() == 0
	if !join && !alone || now.Before(s.hasty) {
		return now
	}
	runtime.Gosched()
	began := now
	now = s.client.Look(began)
	if took := now.Sub(began); took > slowYield {
		s.hasty = now.Add(max(haste, 50*took))
	}
	return now
}
