package sender

import (
	"runtime/debug"
	"sync"
	"sync/atomic"
)

// turn is held by whoever is the sender at the moment: the goroutine of Run but for the time that it sleeps, then perhaps an assistant. While one has it others
// leave word that they want it, and go on: whoever gives it back sees to that.
type turn struct {
	s      *Sender
	mu     sync.Mutex
	wanted atomic.Bool
	broken []byte // the stack of an iteration that did not end, on another goroutine
}

// Lock waits for an assistant to be through.
func (t *turn) Lock() { t.mu.Lock() }

// Unlock lets others be the sender. It is for the sender that is about to sleep, which it must not if somebody wanted its turn.
func (t *turn) Unlock() {
	t.mu.Unlock()
	if t.wanted.Swap(false) {
		t.s.client.Wakeup()
	}
}

// take gets the turn, or has whoever has it look again: false.
func (t *turn) take() bool {
	if t.mu.TryLock() {
		return true
	}
	t.wanted.Store(true)
	return t.mu.TryLock() // it may have been given back in between, by somebody who has seen nothing
}

// Turn is what a client has to give away while it sleeps in Poll, so that others may assist.
func (s *Sender) Turn() sync.Locker { return &s.turn }

// maxAssists is how many iterations in a row an assistant runs: what takes more is worth waking the sender.
const maxAssists = 4

// Assist runs an iteration in the place of the sender, if that sleeps and if little is to be done; else it sees to it that the sender looks. It is for whoever
// has something for it: a caller that has appended a record which should go out, a connection's reader that has an answer. Where little is under
// way that saves waking two goroutines for each record, which is most of what a synchronous send costs. Any goroutine, without any lock
// held. It waits for nothing, though it may let other goroutines run first (letJoin).
func (s *Sender) Assist() {
	for range maxAssists {
		if !s.turn.take() {
			return
		}
		if !s.assist() && !s.turn.wanted.Load() {
			return
		}
	}
	s.client.Wakeup()
}

// assist is an iteration, with the turn, which it gives back; true: one more is needed.
func (s *Sender) assist() (more bool) {
	returned := false
	defer func() {
		if !returned {
			// Whoever called it may recover from a panic, and nothing would be sent any more. It is the producer's: Run goes on with it.
			s.turn.broken = debug.Stack()
			s.client.Wakeup()
		}
		s.assisting = false
		s.turn.mu.Unlock()
	}()
	more = s.iterate()
	returned = true
	return more
}

func (s *Sender) iterate() (more bool) {
	if s.closed || s.turn.broken != nil || s.closing.Load() || s.force.Load() || !s.acc.LittleToDo(s.md.Snapshot()) {
		s.client.Wakeup()
		return false
	}
	s.assisting = true
	s.turn.wanted.Store(false) // before looking: what is wanted from now on takes another look
	s.acc.Awake()
	now := s.letJoin(s.client.Look(s.now))
	s.cfg.Metrics.SelectTotal.Add(1)
	timeout := s.work(now)
	if timeout <= 0 {
		return true
	}
	s.client.SleepOn(now, timeout)
	return false
}
