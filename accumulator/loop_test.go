package accumulator

import (
	"bytes"
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/kafka-reservoir/producer/metadata"
	"github.com/kafka-reservoir/producer/protocol"
)

// seeds is how many runs a randomized test makes. More find more: -seeds 1000.
var seeds = flag.Uint64("seeds", 8, "runs of each randomized test")

// loop is a sender, reduced to what it does with the accumulator, with its own goroutine and the time of a synctest
// bubble. Answers and releases of its requests come from other goroutines, after a while.
type loop struct {
	t      testing.TB
	r      *rig
	linger time.Duration
	snap   atomic.Pointer[metadata.Snapshot]
	wake   chan struct{}
	events chan func(now time.Time) // run by the loop
	quit   atomic.Bool              // ends the loop as soon as nothing is in flight and nothing is left
	force  atomic.Bool              // fails what is left, then ends
	ended  chan struct{}

	// To be set before it runs.
	maxInFlight int
	maxRequest  int
	drops       bool                                        // nodes are not connected at first, and lose their connection when idle now and then
	ordered     bool                                        // one batch of a partition at a time
	latency     func() time.Duration                        // of an answer, or a release
	answer      func(b *ProducerBatch, now time.Time)       // settles b; nil: completes it
	gate        *window                                     // idempotence, or nil
	steer       func(now time.Time)                         // once an iteration
	onDrain     func(b *ProducerBatch, now, able time.Time) // able: since when the node could take it

	// Owned by the loop's goroutine.
	rng      *rand.Rand
	inFlight map[int32]int
	able     map[int32]time.Time // since when a node could have been sent what is ready; zero while it cannot
	due      int                 // answers and releases that have not come
	looks    int                 // iterations
	nodes    map[int32]*connection
}

// connection is a node's, where they are dropped.
type connection struct {
	up, begun      bool
	began, dropped time.Time // when it was begun, and when the one before was lost
}

func (l *loop) connection(id int32) *connection {
	c := l.nodes[id]
	if c == nil {
		c = &connection{up: !l.drops}
		l.nodes[id] = c
	}
	return c
}

// connect is what the client does when it is asked whether a node is ready.
func (l *loop) connect(id int32, now time.Time) {
	c := l.connection(id)
	if c.up || c.begun {
		return
	}
	c.begun, c.began = true, now
	go func() {
		time.Sleep(ms)
		l.events <- func(now time.Time) {
			c.up, c.begun = true, false
			l.update(id, now)
		}
	}()
}

// newLoop makes a loop over an accumulator that reads the bubble's clock.
func newLoop(t testing.TB, seed uint64, linger time.Duration, set ...func(*Config)) *loop {
	l := &loop{
		t: t, linger: linger, rng: rand.New(rand.NewPCG(seed, 9)),
		wake: make(chan struct{}, 1), events: make(chan func(time.Time), 1000), ended: make(chan struct{}),
		inFlight: map[int32]int{}, able: map[int32]time.Time{}, nodes: map[int32]*connection{},
		maxInFlight: 5, maxRequest: 1 << 20,
	}
	l.latency = func() time.Duration { return ms }
	set = append([]func(*Config){func(c *Config) {
		c.Linger, c.Now, c.Wake = linger, time.Now, l.wakeUp
		c.Rand = rand.IntN
	}}, set...)
	l.r = newRig(t, set...)
	l.r.peek = time.Now
	return l
}

func (l *loop) wakeUp() {
	select {
	case l.wake <- struct{}{}:
	default:
	}
}

// start runs the loop; the cluster must have been described.
func (l *loop) start() {
	l.snap.Store(l.r.snap)
	go l.run()
}

// moved tells the loop of the cluster as it is now.
func (l *loop) moved() {
	l.snap.Store(l.r.snap)
	l.wakeUp()
}

func (l *loop) canSend(id int32) bool { return l.connection(id).up && l.inFlight[id] < l.maxInFlight }

// update notes whether a node could take what is ready.
func (l *loop) update(id int32, now time.Time) {
	switch {
	case !l.canSend(id) || l.linger == 0 && l.inFlight[id] > 0:
		l.able[id] = time.Time{}
	case l.able[id].IsZero():
		l.able[id] = now
	}
}

func (l *loop) run() {
	defer close(l.ended)
	a := l.r.a
	for {
		now := time.Now()
		l.looks++
		if l.force.Load() {
			for _, b := range a.Incomplete(now) {
				l.gate.ended(b)
				a.Fail(b, errForced, nil)
			}
			for l.due > 0 { // answers of what was in flight
				(<-l.events)(time.Now())
			}
			return
		}
		if l.quit.Load() {
			a.StartClosing()
			if !a.HasIncomplete() && l.due == 0 {
				return
			}
		}
		l.tellNodes()
		res := a.Ready(l.snap.Load(), now)
		until := now.Add(time.Minute)
		sooner := func(t time.Time) {
			if !t.IsZero() && t.Before(until) {
				until = t
			}
		}
		sooner(res.Next)
		for _, id := range res.Nodes {
			l.connect(id, now)
			l.sendTo(id, now)
		}
		for _, b := range a.Expired(now) {
			l.gate.ended(b)
			a.Fail(b, errExpired, nil)
			a.RecheckAll(now)
		}
		sooner(a.NextExpiry(now))
		if l.steer != nil {
			l.steer(now)
		}
		timeout := max(until.Sub(now), 0)
		if l.linger > 0 && l.due > 0 {
			timeout = min(timeout, l.linger)
		}
		l.tellNodes()
		l.r.placed()
		if !a.PrepareSleep(now, now.Add(timeout)) {
			timeout = 0
		}
		// Not of no time at all: with the race detector, Go 1.26 crashes if that is the first timer in a bubble to run out (its race context is made by another).
		var timer *time.Timer
		over := passed
		if timeout > 0 {
			timer = time.NewTimer(timeout)
			over = timer.C
		}
		select {
		case <-l.wake:
		case <-over:
		case f := <-l.events:
			f(time.Now())
		}
		if timer != nil {
			timer.Stop()
		}
		a.Awake()
	}
}

// passed is a time that has come.
var passed = func() <-chan time.Time { c := make(chan time.Time); close(c); return c }()

var (
	errForced  = errors.New("closed by force")
	errExpired = errors.New("delivery timeout")
)

func (l *loop) tellNodes() {
	for _, id := range l.r.a.Nodes() {
		if _, known := l.able[id]; !known && l.canSend(id) {
			l.able[id] = t0
		}
		l.r.a.SetNode(id, l.canSend(id), l.inFlight[id])
	}
}

func (l *loop) sendTo(id int32, now time.Time) {
	for l.canSend(id) {
		if l.linger == 0 && l.inFlight[id] > 0 && !l.r.a.WorthAnother(id) {
			return
		}
		able := l.able[id]
		var g Gate
		if l.gate != nil {
			g = l.gate
		}
		batches := l.r.a.Drain(nil, id, l.maxRequest, now, g)
		if len(batches) == 0 {
			return
		}
		seen := map[string]bool{}
		for _, b := range batches {
			tp := b.TopicPartition().String()
			if seen[tp] {
				l.t.Errorf("two batches of %s in one request", tp)
			}
			seen[tp] = true
			if l.onDrain != nil {
				l.onDrain(b, now, able)
			}
		}
		l.send(id, batches)
		l.update(id, now)
	}
}

// window is an idempotence that lets so many batches of a partition be on their way, or to be sent again.
type window struct {
	size   int
	open   map[*deque]int
	next   int32
	closed int // how often it held a batch back
}

func (w *window) Next(b *ProducerBatch, _ int32) *ProducerBatch {
	if !b.Stamped() && w.open[b.d] >= w.size {
		w.closed++
		return nil
	}
	return b
}

func (w *window) Prefetch(any) {}

func (w *window) Stamp(b *ProducerBatch) {
	w.open[b.d]++
	w.again(b)
}

// again gives b another stamp.
func (w *window) again(b *ProducerBatch) {
	b.SetProducer(protocol.ProducerID{ID: 1}, w.next)
	w.next++
}

// ended takes a batch that is about to end off the books.
func (w *window) ended(b *ProducerBatch) {
	if w != nil && b.Stamped() {
		w.open[b.d]--
	}
}

// placed requires that every partition stands where it will be looked at: no queue is forgotten. The sender's goroutine's.
func (r *rig) placed() {
	a, s := r.a, &r.a.s
	inBackoff := map[*deque]time.Time{}
	for _, e := range s.retries {
		if e.gen == e.d.retryGen {
			inBackoff[e.d] = e.at
		}
	}
	lists := map[*dequeList]string{&s.noLeader: "no leader", &s.backoff: "back-off", &s.gated: "gated"}
	for _, n := range s.ordered {
		lists[&n.ready], lists[&n.linger] = "ready", "linger"
		var last time.Time
		for d := n.linger.head; d != nil; d = d.next {
			if d.lingerEnds.Before(last) {
				r.t.Errorf("the linger list of node %d is out of order", n.id)
			}
			last = d.lingerEnds
		}
	}
	for _, t := range a.allTopics() {
		ds := t.deques.Load()
		if ds == nil {
			continue
		}
		for i := range *ds {
			d := (*ds)[i].Load()
			if d == nil {
				continue
			}
			d.mu.Lock()
			b, where, signalled := d.front(), lists[d.in], d.signalled
			switch {
			case b == nil || signalled || d.muted || b.is(stateClosed) || b.is(stateSealing):
				// Somebody will tell the sender, or it will look by itself.
			case d.in == nil:
				r.t.Errorf("%v is forgotten: its first batch is %v, and it stands nowhere", d.tp, state(b.state.Load()))
			case where == "back-off" && !inBackoff[d].Equal(b.retryAt):
				r.t.Errorf("%v is in back-off until %v, and nobody looks then", d.tp, b.retryAt)
			case where == "linger" && (!b.is(stateOpen) || !d.lingerEnds.Equal(b.created.Add(a.cfg.Linger))):
				r.t.Errorf("%v lingers for a batch that has gone", d.tp)
			case (where == "ready" || where == "linger") && d.share.Load() != d.node.share:
				r.t.Errorf("%v is counted for another node than its leader", d.tp)
			}
			d.mu.Unlock()
		}
	}
}

// send hands batches to a connection, which reads their bytes for a while; the answer comes before that or after.
func (l *loop) send(id int32, batches []*ProducerBatch) {
	l.inFlight[id]++
	l.due += 2
	frames := make([][]byte, len(batches))
	slabs := make([][][]byte, len(batches))
	for i, b := range batches {
		b.Hold()
		if l.ordered {
			l.r.a.Mute(b)
		}
		frames[i], slabs[i] = joined(b), b.Slabs()
		if _, _, err := decode(frames[i]); err != nil {
			l.t.Errorf("batch of %v: %v", b.TopicPartition(), err)
		}
	}
	answer, release := l.latency(), l.latency()
	go func() {
		time.Sleep(release)
		for i := range slabs {
			l.unchanged(frames[i], slabs[i])
		}
		l.events <- func(now time.Time) {
			for _, b := range batches {
				l.r.a.Unhold(b, now)
			}
			l.due--
		}
	}()
	go func() {
		time.Sleep(answer)
		l.events <- func(now time.Time) {
			l.inFlight[id]--
			for _, b := range batches {
				b.Landed()
				if l.ordered {
					l.r.a.Unmute(b, now)
				}
				switch {
				case b.Done(): // expired, or failed by force
				case l.answer == nil:
					l.gate.ended(b)
					l.r.a.Complete(b, 0, -1)
				default:
					l.answer(b, now)
				}
				l.r.a.Recheck(b, now)
				b.Forget()
			}
			if l.gate != nil {
				l.r.a.RecheckAll(now)
			}
			l.due--
			if l.drops && l.inFlight[id] == 0 && l.rng.IntN(5) == 0 {
				c := l.connection(id)
				c.up, c.dropped = false, now
			}
			l.update(id, now)
		}
	}()
}

// unchanged requires that the bytes a connection still reads are those it was given. (EXT-08, KAFKA-19012, FC-014;
// under the invariants tag bytes that went back to the pool are overwritten, and the race detector sees the write.)
func (l *loop) unchanged(frame []byte, slabs [][]byte) {
	var now []byte
	for _, s := range slabs {
		now = append(now, s...)
	}
	if !bytes.Equal(frame, now) {
		l.t.Errorf("the bytes of a batch changed while a connection held them")
	}
}

// end waits until the loop has nothing left to do.
func (l *loop) end() {
	l.quit.Store(true)
	l.wakeUp()
	<-l.ended
}

// account keeps what became of records: each must be told exactly once, by callback and future alike.
type account struct {
	t       testing.TB
	records []*entry // one goroutine's
}

// entry is one record of an account; a callback of its own.
type entry struct {
	calls    atomic.Int32
	when     int64 // among all calls
	res      Result
	err      error
	handle   Handle
	accepted bool
}

var calls atomic.Int64

func (e *entry) OnCompletion(res Result, err error) {
	e.calls.Add(1)
	e.when, e.res, e.err = calls.Add(1), res, err
}

// settled requires that every record was told what became of it, once; those that failed, how.
func (ac *account) settled(allowed ...error) {
	ac.t.Helper()
	for i, e := range ac.records {
		if !assert.EqualValues(ac.t, 1, e.calls.Load(), "record %d: calls of its callback", i) {
			return
		}
		require.True(ac.t, e.handle.Settled())
		res, err := e.handle.Wait(ac.t.Context())
		require.Equal(ac.t, e.res, res)
		require.Equal(ac.t, e.err, err)
		if err == nil {
			continue
		}
		known := false
		for _, a := range allowed {
			known = known || errors.Is(err, a)
		}
		require.True(ac.t, known, fmt.Sprint("an error of its own: ", err))
	}
}
