package sim

import "time"

// event is something that will happen.
type event struct {
	at  time.Duration // since the start
	seq uint64        // keeps the order among those of one moment
	do  func()
}

// schedule is a heap of events. (container/heap allocates for each.)
type schedule struct {
	q   []event
	seq uint64
}

func (s *schedule) less(i, j int) bool {
	return s.q[i].at < s.q[j].at || s.q[i].at == s.q[j].at && s.q[i].seq < s.q[j].seq
}

func (s *schedule) push(at time.Duration, do func()) {
	s.seq++
	s.q = append(s.q, event{at, s.seq, do})
	for i := len(s.q) - 1; i > 0; {
		p := (i - 1) / 2
		if !s.less(i, p) {
			break
		}
		s.q[i], s.q[p] = s.q[p], s.q[i]
		i = p
	}
}

// next is when the first event is due.
func (s *schedule) next() (at time.Duration, ok bool) {
	if len(s.q) == 0 {
		return 0, false
	}
	return s.q[0].at, true
}

func (s *schedule) pop() func() {
	do := s.q[0].do
	n := len(s.q) - 1
	s.q[0] = s.q[n]
	s.q[n] = event{}
	s.q = s.q[:n]
	for i := 0; ; {
		c := 2*i + 1
		if c >= n {
			return do
		}
		if c+1 < n && s.less(c+1, c) {
			c++
		}
		if !s.less(c, i) {
			return do
		}
		s.q[i], s.q[c] = s.q[c], s.q[i]
		i = c
	}
}
