package sender

import (
	"math"
	"time"
)

// flow is what the sender measures of a node, to bound what may wait for it.
type flow struct {
	canSend  bool // as of refreshNodes: the client could, and nothing is to be waited for first
	inFlight int
	sent     time.Time     // when the last request was
	answer   time.Time     // when the last answer came
	progress time.Time     // of its last answer, or of the request that ended an idle time
	minRTT   time.Duration // least time of a request; 0: none measured
	rttSince time.Time     // when it was measured
	probeDue bool          // a request is to go by itself, to measure it anew
	paused   bool          // nothing was on its way for long: the window is to begin with the next answer
	bytes    int64         // acknowledged in the window
	records  int64         // of them
	window   time.Time     // when it began
	rate     float64       // bytes a second in the last whole window
	size     float64       // mean bytes of a record in it
}

const (
	flowWindow = 100 * time.Millisecond
	// rttMemory is how long the least time of a request counts: routes change. Then a request measures it anew that has the way for itself and is small: what was queued
	// before it would count, and a large one's own transfer. If none gets to for as long again, the next one's time has to do.
	rttMemory = 10 * time.Second
	// pipeFactor is how many times bandwidth x round trip may be on its way. With twice that, which is what a steady stream needs, a quarter to two fifths of the records a second
	// were lost over ways of 0.5 and 2 ms: the bandwidth is measured between pauses.
	pipeFactor = 4
	// stallFloor is the least time without an answer after which a node counts as stuck. Until then an
	// append waits for the node's share, which a healthy node frees in less than a millisecond; afterwards
	// it may use the rest of the buffer, as with any client, so that a pause of a broker does not become a pause of
	// the application.
	stallFloor = 20 * time.Millisecond
)

func (s *Sender) flow(node int32) *flow {
	f := s.flows[node]
	if f == nil {
		f = &flow{}
		s.flows[node] = f
	}
	return f
}

// answered takes an answer's time and size into account. measures: the request was small and went by itself, because minRTT was stale.
func (f *flow) answered(now time.Time, rtt time.Duration, bytes, records int, measures bool) {
	f.answer, f.progress = now, now
	if rtt > 0 && (f.minRTT == 0 || rtt <= f.minRTT || measures || now.Sub(f.rttSince) > 2*rttMemory) {
		f.minRTT, f.rttSince = rtt, now
	}
	if measures {
		f.probeDue = false
	}
	if f.paused {
		f.bytes, f.records, f.window, f.paused = 0, 0, now, false // the pause says nothing of the bandwidth
		return
	}
	f.bytes += int64(bytes)
	f.records += int64(records)
	if d := now.Sub(f.window); d >= flowWindow {
		f.rate, f.size = float64(f.bytes)/d.Seconds(), float64(f.bytes)/float64(max(f.records, 1))
		f.bytes, f.records, f.window = 0, 0, now
	}
}

func (f *flow) isStale(now time.Time) bool { return now.Sub(f.rttSince) > rttMemory }

// underWay is how much is on its way on average if nothing waits.
func (f *flow) underWay() float64 { return f.rate * f.minRTT.Seconds() }

// pipe is how much on its way should keep the node busy; 0: not known.
func (f *flow) pipe() int64 {
	if f.rate == 0 {
		return 0
	}
	return max(int64(pipeFactor*f.underWay()), 1)
}

// waits reports whether the node's next request waits for an answer: enough is on its way, or one is to have the way for itself. A batch that is a request and fills the way by
// itself is not enough: nothing would go on while its answer comes.
func (s *Sender) waits(node int32, f *flow, now time.Time) bool {
	n := s.client.InFlightCount(node)
	full := n > 1 && s.acc.PipeFull(node)
	f.probeDue = f.probeDue || full && f.isStale(now)
	return full || n > 0 && f.probeDue
}

// steer sets how much may wait unsent for each node, after refreshNodes. It returns when to look again, for those who wait.
func (s *Sender) steer(now time.Time) (next time.Time) {
	nodes := s.acc.Nodes()
	snapshot := s.md.Snapshot()
	several := len(snapshot.Nodes()) > 1
	// Only nodes that have some of the buffer count: one that is idle, or long gone, takes nothing from the others.
	stuck, working := 0, 0
	for _, id := range nodes {
		if s.acc.Unsent(id) == 0 && s.acc.Flight(id) == 0 {
			continue
		}
		if _, known := snapshot.Node(id); !known {
			continue
		}
		if s.flow(id).isStuck(now) {
			stuck++
		} else {
			working++
		}
	}
	var hard int64 = math.MaxInt64
	switch {
	case !several:
	case working == 0 && stuck > 1:
		hard = s.cfg.BufferMemory / int64(stuck) // nobody to keep a part free for
	default:
		// Half of the buffer for all nodes that are stuck together: the others go on with the rest.
		hard = s.cfg.BufferMemory / 2 / int64(max(stuck, 1))
	}
	for _, id := range nodes {
		f := s.flow(id)
		left := hard // what is on its way to the node is a part of its share
		if several {
			left = max(hard-s.acc.Flight(id), 0)
		}
		soft := left
		if !f.isStuck(now) {
			// A healthy node goes on queueing a little whatever is on its way, or it would run dry.
			soft = min(s.acc.ShareFor(f.underWay(), f.size), max(left, s.cfg.BufferMemory/8))
			if f.inFlight > 0 {
				if at := f.progress.Add(f.stall()); s.acc.AppendsWait(id) && (next.IsZero() || at.Before(next)) {
					next = at
				}
			}
		}
		s.acc.SetShare(id, soft, left)
	}
	return next
}

// stall is how long the node may be silent with requests in flight.
func (f *flow) stall() time.Duration { return max(stallFloor, 4*f.minRTT) }

// isStuck reports whether the node takes nothing at present.
func (f *flow) isStuck(now time.Time) bool {
	if f.inFlight == 0 {
		return !f.canSend
	}
	return f.minRTT == 0 || !f.progress.Add(f.stall()).After(now)
}
