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

// letJoin gives the processor up once before the little that is queued is sent, if several callers wait for records at a time: those who were just told what
// became of their records come with their next ones, and all make one request. Otherwise a request carries the record of whoever is first, and the next one what
// the others have queued meanwhile: half of what it could. It is called between what has happened and what is sent for it, and returns the time.
func (s *Sender) letJoin(now time.Time) time.Time {
	told := s.acc.TakeTold()
	if told == 0 && !now.Before(s.several) {
		return now // nobody waits: the usual case at full speed
	}
	few := s.acc.FewQueued()
	switch {
	case told > 1, told == 1 && few:
		s.several = now.Add(severalFor)
	case told == 1:
		s.several = time.Time{}
	}
	if !few || !now.Before(s.several) || now.Before(s.hasty) {
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
