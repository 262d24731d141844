package metadata

import (
	"time"

	"github.com/kafka-reservoir/producer/internal/backoff"
)

// harmless bounds how far the pauses grow as long as the trouble has not lasted for ten times as long. Not less: a topic that does not exist is to be asked
// for at most 30 times in five seconds (FC-065).
const harmless = 200 * time.Millisecond

// schedule says when the next request is due. It is guarded by Metadata.mu.
//
// Two counters make pauses grow: of failures in a row, and of answers in a row that said nothing new
// although somebody needed something new (KIP-580, MD-24). The pause is drawn once, when it begins:
// drawing it anew for every look at the clock would favour the short ones.
type schedule struct {
	maxAge time.Duration
	retry  backoff.Exponential

	needFull   bool      // somebody found the view to be wrong
	failures   int       // in a row
	failing    time.Time // since when
	equivalent int       // answers in a row without progress
	stuck      time.Time // since when
	notBefore  time.Time // end of the current pause
	lastFull   time.Time // last answer to a full request; zero: never
	waiting    time.Time // since when a due update has not been got; zero: it is not due (NC-29)
}

// timeToUpdate is how long until a request may be sent; zero when it is due.
func (s *schedule) timeToUpdate(now time.Time, newTopics bool) time.Duration {
	var d time.Duration
	if !s.needFull && !newTopics && !s.lastFull.IsZero() {
		d = s.maxAge - now.Sub(s.lastFull)
	}
	return max(d, s.notBefore.Sub(now), 0)
}

// expired reports whether the view is too old, or was never got.
func (s *schedule) expired(now time.Time) bool {
	return s.lastFull.IsZero() || now.Sub(s.lastFull) >= s.maxAge
}

// forNewTopic makes an update due at once, whatever pause there is: an application waits for it.
func (s *schedule) forNewTopic() {
	s.notBefore = time.Time{}
	s.equivalent = 0
}

// succeeded notes an answer.
func (s *schedule) succeeded(now time.Time, full, progress bool) {
	s.failures = 0
	s.waiting = time.Time{}
	s.equivalent++
	if progress {
		s.equivalent = 0
	}
	if s.equivalent <= 1 {
		s.stuck = now
	}
	if full {
		s.lastFull = now
	}
	s.notBefore = now.Add(s.retry.DelayIn(max(s.equivalent-1, 0), now.Sub(s.stuck), harmless))
}

// failed notes that a request brought nothing.
func (s *schedule) failed(now time.Time) {
	if s.failures == 0 {
		s.failing = now
	}
	s.notBefore = now.Add(s.retry.DelayIn(s.failures, now.Sub(s.failing), harmless))
	s.failures++
}
