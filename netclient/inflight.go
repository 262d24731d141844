package netclient

import (
	"time"

	"github.com/kafka-reservoir/producer/protocol"
)

// pending is a request between Send and the later of its answer and its release.
type pending struct {
	handler    Handler
	api        protocol.APIKey
	version    int16
	corr       int32
	size       int // of the frame
	sentAt     time.Time
	deadline   time.Time // moved by throttling
	timeout    time.Duration
	noResponse bool

	released bool // the selector holds no reference to the frame
	written  bool // and had written it whole
	answered bool // HandleResponse was called, or is about to be
	timedOut bool // the deadline passed
}

// inFlight holds the requests of one connection in the order of sending. It is a ring that grows as
// needed and is kept, so that sending allocates nothing.
type inFlight struct {
	ring       []pending // the length is a power of two
	head, tail uint32    // of the entries; they wrap
	waiting    int       // entries without an answer
}

func (f *inFlight) len() int { return int(f.tail - f.head) }

// at returns entry i, counted from the oldest. It is valid until the next push.
func (f *inFlight) at(i int) *pending { return &f.ring[(f.head+uint32(i))&uint32(len(f.ring)-1)] }

func (f *inFlight) push(p pending) {
	if f.len() == len(f.ring) {
		grown := make([]pending, max(8, 2*len(f.ring)))
		n := f.len()
		for i := range n {
			grown[i] = *f.at(i)
		}
		f.ring, f.head, f.tail = grown, 0, uint32(n)
	}
	f.tail++
	*f.at(f.len() - 1) = p
	f.waiting++
}

// next is the request that the next response answers: the oldest one that expects an answer. It is nil
// when there is none.
func (f *inFlight) next() *pending {
	for i := range f.len() {
		if p := f.at(i); !p.answered && !p.noResponse {
			return p
		}
	}
	return nil
}

// held returns the request with this id whose frame the selector still holds, or nil.
func (f *inFlight) held(id int32) *pending {
	for i := range f.len() {
		if p := f.at(i); !p.released && p.corr == id {
			return p
		}
	}
	return nil
}

// settle marks p as answered.
func (f *inFlight) settle(p *pending) {
	p.answered = true
	f.waiting--
}

// trim drops the oldest requests that are done. An answer can overtake the news that its request was
// sent, so both have to be there.
func (f *inFlight) trim() {
	for f.head != f.tail {
		p := f.at(0)
		if !p.answered || !p.released {
			return
		}
		*p = pending{}
		f.head++
	}
}

// extend gives all waiting requests more time.
func (f *inFlight) extend(d time.Duration) {
	for i := range f.len() {
		f.at(i).deadline = f.at(i).deadline.Add(d)
	}
}

// nextDeadline is the earliest deadline; ok is false when nothing waits.
func (f *inFlight) nextDeadline() (t time.Time, ok bool) {
	for i := range f.len() {
		if p := f.at(i); !p.answered && (!ok || p.deadline.Before(t)) {
			t, ok = p.deadline, true
		}
	}
	return t, ok
}

// expire marks every request whose deadline has passed, not only the oldest, since each may have a
// timeout of its own. It returns the first one, or nil.
func (f *inFlight) expire(now time.Time) (first *pending) {
	for i := range f.len() {
		if p := f.at(i); !p.answered && !now.Before(p.deadline) {
			p.timedOut = true
			if first == nil {
				first = p
			}
		}
	}
	return first
}
