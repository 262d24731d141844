package accumulator

import (
	"context"
	"fmt"
	"math"
	"sync"
	"sync/atomic"
	"time"

	"github.com/kafka-reservoir/producer/protocol"
)

// Bounds of what may wait unsent for one node.
const (
	// shareFloor is enough for batches of 16 KiB, of which a request takes one of each partition, and for small records: a deeper queue gains little then and
	// costs delivery time.
	shareFloor = 384 << 10
	// shareRecords is how many records may wait where batches are large enough for larger requests: those cost 10 % less CPU with records of 1 KiB, and 15 to
	// 20 % with 10 KiB.
	shareRecords = 512
	// shareCeiling bounds the growth for large records and long round trips.
	shareCeiling = 1 << 20
	// leastPipe is Config.LeastPipe's default. A request takes three quarters at most, so that a node that is kept busy has two: there is one to go on with when the other
	// is answered, and not more than caches hold. Five requests of 1 MiB cost a fifth more CPU with large records.
	leastPipe = 1 << 20
	// wakeBytes is how much must be ready for a node that has requests in flight before the sender is
	// woken for it; its answers wake the sender anyway.
	wakeBytes = 64 << 10
)

const never = math.MaxInt64

// share is one node's part of the buffer: what has been appended for it and not been drained.
// It bounds what a sick node can hold, and keeps what waits for a healthy one short.
type share struct {
	node int32

	// unsent counts bytes of filled slabs and of closed batches; the slab being filled does not count.
	unsent atomic.Int64

	// Set by the sender, read by applications.
	flight     atomic.Int64 // of its node, as of the last setting: the limits leave it out
	limit      atomic.Int64 // appends wait while unsent is above it
	hard       atomic.Int64 // as limit, for callers that may not wait: never less than limit
	wakeClosed atomic.Int64 // a batch closed with unsent at or above this wakes the sender
	wakeGrown  atomic.Int64 // a slab filled with unsent at or above this wakes the sender

	waiting atomic.Int32
	mu      sync.Mutex    // guards wakeup; a leaf
	wakeup  chan struct{} // closed when the sender made room; made by the first who waits
}

func newShare(node int32) *share {
	s := &share{node: node}
	s.limit.Store(never)
	s.hard.Store(never)
	s.wakeClosed.Store(0)
	s.wakeGrown.Store(0)
	return s
}

// String says what its bytes wait for.
func (s *share) String() string {
	if s.node < 0 {
		return "a leader, or for another attempt,"
	}
	return fmt.Sprintf("broker %d", s.node)
}

// filledBy says what fills it.
func (s *share) filledBy() string {
	if out := s.flight.Load(); out > 0 {
		return fmt.Sprintf("%d bytes are on their way to %v already, and %d wait", out, s, s.unsent.Load())
	}
	return fmt.Sprintf("%d bytes wait for %v already", s.unsent.Load(), s)
}

// full reports whether an append has to wait for the node. A nil share has no bound.
func (s *share) full(mayWait bool) bool {
	if s == nil {
		return false
	}
	if mayWait {
		return s.unsent.Load() >= s.limit.Load()
	}
	return s.unsent.Load() >= s.hard.Load()
}

// wait blocks until the sender made room, ctx ends or maxWait is over. It may return early: the caller looks again.
// began is called when it has begun; over reports, before, that there is nothing to wait for any more: who makes it so
// calls wakeAll afterwards. The timer is from timers, where it goes back to.
func (s *share) wait(ctx context.Context, maxWait time.Duration, timers *sync.Pool, began func(), over func() bool) error {
	s.waiting.Add(1)
	defer s.waiting.Add(-1)
	s.mu.Lock()
	if s.unsent.Load() < s.limit.Load() || over() {
		s.mu.Unlock()
		return nil
	}
	if s.wakeup == nil {
		s.wakeup = make(chan struct{})
	}
	ch := s.wakeup
	s.mu.Unlock()
	began()
	timer, _ := timers.Get().(*time.Timer)
	if timer == nil {
		timer = time.NewTimer(maxWait)
	} else {
		timer.Reset(maxWait)
	}
	defer func() {
		timer.Stop() // and nothing is left in its channel
		timers.Put(timer)
	}()
	select {
	case <-ch:
		return nil
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// release wakes all who wait, if there is room again.
func (s *share) release() {
	if s.waiting.Load() == 0 || s.unsent.Load() >= s.limit.Load() {
		return
	}
	s.wakeAll()
}

func (s *share) wakeAll() {
	s.mu.Lock()
	if s.wakeup != nil {
		close(s.wakeup)
		s.wakeup = nil
	}
	s.mu.Unlock()
}

// setLimits is the sender's: soft for callers that may wait, hard for those that may not.
func (s *share) setLimits(soft, hard int64) {
	s.hard.Store(max(soft, hard))
	if s.limit.Swap(soft) < soft {
		s.release()
	}
}

// SetShare bounds what may wait unsent for a node: soft for appends that may wait for it, hard for those that
// may not. The sender's.
func (a *RecordAccumulator) SetShare(node int32, soft, hard int64) {
	n := a.s.node(node)
	if soft <= shareCeiling { // otherwise the node is stuck, and has the rest of the buffer
		grown := max(soft, shareFloor) / 2
		if unsent := n.share.unsent.Load(); n.linger.n > 0 && unsent < n.grown && unsent >= grown {
			a.look.Store(true) // Ready has passed over what is enough now
		}
		n.grown = grown
	}
	n.share.flight.Store(n.flight)
	n.share.setLimits(soft, hard)
}

// SetPipe tells how much on its way to a node should keep it busy; 0: that is not known. The sender's.
func (a *RecordAccumulator) SetPipe(node int32, bytes int64) { a.s.node(node).pipe = bytes }

// PipeFull reports whether so much is on its way to a node that more would only wait there. The sender's.
func (a *RecordAccumulator) PipeFull(node int32) bool {
	n := a.s.node(node)
	return n.pipe > 0 && n.wire >= max(a.cfg.LeastPipe, n.pipe)
}

// requestLimit is how large a request to n may be at most.
func (a *RecordAccumulator) requestLimit(n *node) int64 {
	if n.pipe == 0 {
		return math.MaxInt
	}
	return max(a.cfg.LeastPipe, n.pipe) / 4 * 3
}

// ProbeSize is how large a request may be that is to measure the way to its node rather than itself.
func (a *RecordAccumulator) ProbeSize() int { return int(a.cfg.LeastPipe / 8) }

// ShareFor is the soft bound for a healthy node with so many bytes under way on average, and records of such a size: a fixed bound would starve
// long round trips. What is to be compressed keeps the processors busy enough.
func (a *RecordAccumulator) ShareFor(underWay, recordSize float64) int64 {
	least := int64(shareFloor)
	if a.cfg.Codec == protocol.CodecNone {
		least = min(max(least, int64(shareRecords*recordSize)), max(least, 2*int64(a.cfg.BatchSize)))
	}
	return min(max(least, int64(underWay)), shareCeiling)
}

// AppendsWait reports whether an append waits for the node's share. The sender's.
func (a *RecordAccumulator) AppendsWait(node int32) bool {
	return a.s.node(node).share.waiting.Load() > 0
}

// fewReady is how many partitions are few enough to be sent as they are while a request is in flight, where batches linger. What many have makes better batches
// if it waits for the answer: with 10,000 partitions a record takes an eighth less CPU.
const fewReady = 32

// WorthAnother reports whether what is ready for a node is to be sent although a request is in flight; otherwise waiting for the answer makes better requests.
// The sender's.
func (a *RecordAccumulator) WorthAnother(node int32) bool {
	n := a.s.node(node)
	return a.s.closing || a.flushing.Load() > 0 || n.share.unsent.Load() >= wakeBytes || a.lingers && !a.holds(n)
}

// holds reports whether what is ready for n waits for the answer of a request in flight: many small batches that do not fill one of their own.
func (a *RecordAccumulator) holds(n *node) bool {
	return a.lingers && n.ready.n > fewReady && !n.cut
}

// Unsent is how many bytes wait for a node, but for the slabs being filled. The sender's.
func (a *RecordAccumulator) Unsent(node int32) int64 { return a.s.node(node).share.unsent.Load() }
