package sim

import (
	"time"

	"github.com/kafka-reservoir/producer/internal/testbroker"
	"github.com/kafka-reservoir/producer/protocol"
)

// chaos makes things go wrong, as a plan has it. Each kind of fault has random choices of its own, so that leaving one out
// changes as little as possible of the others.
type chaos struct {
	w    *World
	p    *Plan
	b    *Book
	tap  *tap
	kind [kinds]trigger

	from, until time.Duration // faults happen in this time
	burst       time.Duration // length of bursts, and of the pauses between them; 0: no bursts
	over        bool          // healed
	ended       bool          // the application is through
	count       int           // faults so far
	counts      [kinds]int    // by kind

	held  []func() // what has to be put right in the end
	down  []int32  // nodes that are down for good
	nodes []brokerState
	addr  int // addresses given out so far
	other *testbroker.Cluster
}

// brokerState is what is known of a broker, by id-1.
type brokerState struct {
	down   bool
	host   string
	silent time.Duration // until then its packets vanish
}

// trigger fires now and then.
type trigger struct {
	draw
	level  Level
	mean   float64 // how often it is asked for each time it fires
	credit float64
}

// maxDelay is the longest time that anything is held up on its way.
const maxDelay = 8 * time.Second

// maxThrottle is the longest time for which a broker asks to be left alone.
const maxThrottle = time.Second

func newChaos(w *World, p *Plan, b *Book, t *tap) *chaos {
	c := &chaos{w: w, p: p, b: b, tap: t, from: p.Warmup, until: p.Warmup + p.Faults}
	for _, id := range w.Cluster.NodeIDs() {
		host, _ := Address(id)
		c.nodes = append(c.nodes, brokerState{host: host})
	}
	if p.Bursts {
		c.burst = stream(p.Seed, 1).between(200*time.Millisecond, 4*time.Second)
	}
	for k := range c.kind {
		t := &c.kind[k]
		t.level = p.Levels[k]
		if t.level == Off {
			continue
		}
		t.draw = stream(p.Seed, 100+k)
		t.mean = 150
		if t.level == Often {
			t.mean = 12
		}
		t.again()
	}
	return c
}

func (t *trigger) again() { t.credit = t.ExpFloat64() * t.mean }

// active reports whether faults happen at present.
func (c *chaos) active() bool {
	now := c.w.Selector.Since()
	if c.over || now < c.from || now >= c.until {
		return false
	}
	return c.burst == 0 || (now-c.from)/c.burst%2 == 0
}

// fires reports whether a fault of this kind happens now, and counts it. weight is how many chances it gets.
func (c *chaos) fires(k Kind, weight float64) bool {
	t := &c.kind[k]
	if t.level == Off {
		return false
	}
	t.credit -= weight
	if t.credit > 0 {
		return false
	}
	t.again()
	c.note(k)
	return true
}

// note counts a fault.
func (c *chaos) note(k Kind) {
	c.count++
	c.counts[k]++
	c.b.digest.add(uint64(k))
}

// every runs f at random times while faults happen, on average so often.
func (c *chaos) every(k Kind, rare, often time.Duration, f func(*trigger)) {
	c.repeat(k, rare, often, f, func() bool { return c.over || c.w.Selector.Since() >= c.until }, c.active)
}

// everyAlways is every, also when all is well.
func (c *chaos) everyAlways(k Kind, rare, often time.Duration, f func(*trigger)) {
	c.repeat(k, rare, often, f, func() bool { return c.ended }, func() bool { return true })
}

func (c *chaos) repeat(k Kind, rare, often time.Duration, f func(*trigger), over, active func() bool) {
	t := &c.kind[k]
	mean := rare
	switch t.level {
	case Off:
		return
	case Often:
		mean = often
	}
	var turn func()
	next := func() time.Duration { return time.Duration(t.ExpFloat64() * float64(mean)) }
	turn = func() {
		if over() {
			return
		}
		if active() {
			c.note(k)
			f(t)
		}
		c.w.Selector.In(next(), turn)
	}
	c.w.Selector.In(c.from+next(), turn)
}

// later does f after d, or when the world is healed, whichever comes first.
func (c *chaos) later(d time.Duration, f func()) {
	done := false
	once := func() {
		if !done {
			done = true
			f()
		}
	}
	c.held = append(c.held, once)
	c.w.Selector.In(d, once)
}

// wait draws how long something takes: mostly short, sometimes long enough for time-outs.
func (t *trigger) wait(c *chaos) time.Duration {
	request := c.p.Config.RequestTimeout
	switch t.IntN(3) {
	case 0:
		return t.between(0, 50*time.Millisecond)
	case 1:
		return t.between(0, request)
	}
	return min(t.between(request, 2*request), maxDelay)
}

// network makes the selector's hooks.
func (c *chaos) network() Network {
	n := Network{Sent: c.tap.sent, Received: c.tap.received, Dropped: c.tap.dropped, Ended: c.tap.ended}
	n.Dial = func(to protocol.Node) (f DialFault) {
		c.tap.dials.count(c.w.Selector.Since(), c.b, "attempts to connect")
		if !c.active() {
			return f
		}
		f.Refuse = c.fires(RefuseConnect, 10)
		f.Hang = c.fires(HangConnect, 5)
		f.Delay = c.silent(to)
		return f
	}
	linger, longest := stream(c.p.Seed, 2), 5*time.Millisecond
	if c.p.Levels[SlowReader] != Off {
		longest = 500 * time.Millisecond // a writer that is stuck
	}
	n.Linger = func() time.Duration {
		if c.over {
			return 0
		}
		return linger.between(0, longest)
	}
	n.Write = func(_ int32, size int) (f WriteFault) {
		if !c.active() {
			return f
		}
		switch {
		case c.fires(BreakRequest, 1):
			f.Break, f.Cut = true, c.kind[BreakRequest].IntN(size)
		case c.fires(LoseRequest, 1):
			f.Break, f.Cut = true, size
		case c.fires(HalfOpen, 0.3):
			f.Hole = true
		}
		if c.fires(LateRequest, 1) {
			f.Late = c.kind[LateRequest].wait(c)
		}
		if c.fires(SlowReader, 1) {
			f.Stall = c.kind[SlowReader].wait(c)
		}
		return f
	}
	n.Read = func(_ int32, size int) (f ReadFault) {
		if !c.active() {
			return f
		}
		if c.fires(BreakAnswer, 1) {
			f.Break, f.Cut = true, c.kind[BreakAnswer].IntN(size+1)
		}
		if c.fires(Trickle, 2) {
			t := &c.kind[Trickle]
			f.Piece = 1
			if size > 200 || t.chance(0.5) {
				f.Piece = 1 + t.IntN(size/4+1)
			}
			f.Pause = t.between(0, 2*time.Millisecond)
		}
		if c.fires(LateAnswer, 1) {
			f.Late = c.kind[LateAnswer].wait(c)
		}
		return f
	}
	return n
}

// heal puts everything right.
func (c *chaos) heal() {
	c.over = true
	for _, f := range c.held {
		f()
	}
	c.held = nil
}
