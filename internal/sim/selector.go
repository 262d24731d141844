package sim

import (
	"errors"
	"fmt"
	"hash/crc32"
	"net"
	"slices"
	"time"

	"github.com/kafka-reservoir/producer/internal/testbroker"
	"github.com/kafka-reservoir/producer/netclient"
	"github.com/kafka-reservoir/producer/protocol"
)

// Selector is a netclient.Selector without sockets. Time passes only in Poll, and only as far as the
// next thing that happens. It belongs to one goroutine, Wakeup included.
type Selector struct {
	// Latency is how long bytes travel, each way. Nil: half a millisecond.
	Latency func() time.Duration
	// WriteTime is how long a frame stays with its connection before it is written whole. Nil: no time.
	WriteTime func(size int) time.Duration
	// Network spoils what happens on connections. Its zero value does not.
	Network Network
	// Skew is how far the client's wall clock is wrong at present, which it sees if WallClock is set. The brokers' is right.
	Skew      time.Duration
	WallClock bool
	// AskCluster has every new connection ask its broker which cluster it belongs to, as the TCP selector does by default.
	AskCluster bool

	// Assist, where it is set and says so, stands in for an assistant of the owner that sleeps in Poll: a reader with an answer, or a caller who has appended
	// something (Appended). Poll then goes on sleeping, unless Wakeup was called meanwhile.
	Assist func() bool

	c      []*testbroker.Cluster // the client's own first
	places map[place]target      // what stands at which address
	start  time.Time
	now    time.Duration // since start
	queue  schedule
	conns  map[int32]*conn
	lost   map[int32]int
	nextID testbroker.ConnID
	events []netclient.Event
	spare  []netclient.Event // returned by the Poll before
	bufs   [][]byte          // to join frames in
	held   int               // frames handed over and not given back
	dials  int
	woken  bool
	shut   bool

	appended  bool // a caller has something for a sleeping owner
	assisting bool
	dead      error // what is wrong with the use of the selector, if anything: the first such thing
}

// Network says what goes wrong on connections. Each func may be nil.
type Network struct {
	// Dial is asked for every attempt to connect.
	Dial func(node protocol.Node) DialFault
	// Write is asked for every frame when it is about to be written.
	Write func(node int32, size int) WriteFault
	// Read is asked for everything that a broker writes.
	Read func(node int32, size int) ReadFault
	// Linger is how long after the end of a connection its frames are held on to, as by a writer that is slow to notice.
	Linger func() time.Duration

	// Sent and Received see what is handed over, and what comes back; Dropped which frames were not written whole, and
	// Ended that a connection is over.
	Sent     func(node int32, c testbroker.ConnID, f protocol.Frame)
	Dropped  func(node int32, c testbroker.ConnID, id int32)
	Received func(node int32, c testbroker.ConnID, payload []byte)
	Ended    func(node int32, c testbroker.ConnID)
}

// DialFault is what happens to an attempt to connect.
type DialFault struct {
	Refuse bool
	Hang   bool // nothing answers, for ever
	Delay  time.Duration
}

// WriteFault is what happens to a frame.
type WriteFault struct {
	Stall time.Duration // the other side does not read: it takes so much longer until the frame is written
	Break bool          // the connection breaks when Cut bytes are written
	Cut   int           // if that is all of them, they are lost on the way: the client has written them, nobody will read them
	Late  time.Duration // it arrives so much later, whatever becomes of the connection meanwhile
	Hole  bool          // from now on nothing arrives, in either direction, and nobody is told
}

// ReadFault is what happens to something that a broker writes.
type ReadFault struct {
	Break bool          // the connection breaks when Cut bytes have arrived
	Cut   int           // at most the size
	Piece int           // it arrives in pieces of so many bytes
	Pause time.Duration // with so much time between them
	Late  time.Duration
}

type place struct {
	host string
	port int32
}

type target struct {
	c    *testbroker.Cluster
	node int32
}

// NewSelector connects a client to c, whose nodes are where Address says. It begins at now.
func NewSelector(c *testbroker.Cluster, now time.Time) *Selector {
	s := &Selector{c: []*testbroker.Cluster{c}, places: map[place]target{}, start: now, conns: map[int32]*conn{}, lost: map[int32]int{}}
	for _, id := range c.NodeIDs() {
		host, port := Address(id)
		s.places[place{host, port}] = target{c, id}
	}
	return s
}

// Address is where node is found at first.
func Address(node int32) (host string, port int32) { return fmt.Sprintf("broker-%d", node), 9092 }

// Place gives every node of the cluster the address by which Connect finds it.
func Place(c *testbroker.Cluster) error {
	for _, id := range c.NodeIDs() {
		host, port := Address(id)
		if err := c.SetAddr(id, host, port); err != nil {
			return err
		}
	}
	return nil
}

// Occupy has node of c found at an address from now on; a nil c clears it. Connections stay.
func (s *Selector) Occupy(host string, port int32, c *testbroker.Cluster, node int32) {
	if c == nil {
		delete(s.places, place{host, port})
		return
	}
	s.places[place{host, port}] = target{c, node}
	if !slices.Contains(s.c, c) {
		s.c = append(s.c, c)
	}
}

// Now is the client's time as of the last Poll, or within it.
func (s *Selector) Now() time.Time {
	if s.WallClock {
		return reading(s.start.Add(s.now+s.Skew), s.now)
	}
	return s.start.Add(s.now)
}

// Since is how much time has passed since the start.
func (s *Selector) Since() time.Duration { return s.now }

// true is the brokers' time.
func (s *Selector) true() time.Time { return s.start.Add(s.now) }

// At runs f when the time has come, within Poll, which returns after it. f may do what an application does.
func (s *Selector) At(t time.Time, f func()) {
	s.queue.push(t.Sub(s.start), func() {
		f()
		s.woken = true
	})
}

// After is At, d from now.
func (s *Selector) After(d time.Duration, f func()) { s.At(s.true().Add(d), f) }

// In runs f, d from now, within a Poll that goes on waiting afterwards if f gives it no reason to end. That is how another
// goroutine's doings look to the one in Poll.
func (s *Selector) In(d time.Duration, f func()) { s.queue.push(s.now+max(d, 0), f) }

func (s *Selector) latency() time.Duration {
	if s.Latency == nil {
		return 500 * time.Microsecond
	}
	return s.Latency()
}

// Held is how many frames were handed over and not given back.
func (s *Selector) Held() int { return s.held }

// Dials is how many attempts to connect were made.
func (s *Selector) Dials() int { return s.dials }

// Err is the first breach of the selector's contract by its user.
func (s *Selector) Err() error { return s.dead }

func (s *Selector) breach(format string, args ...any) {
	if s.dead == nil {
		s.dead = fmt.Errorf(format, args...)
	}
}

// Connect implements netclient.Selector.
func (s *Selector) Connect(node protocol.Node, timeout time.Duration) {
	if s.shut {
		return
	}
	if s.conns[node.ID] != nil {
		panic(fmt.Sprintf("connect to node %v, which has a connection", node))
	}
	s.nextID++
	s.dials++
	c := &conn{s: s, node: node, id: s.nextID}
	s.conns[node.ID] = c
	var f DialFault
	if s.Network.Dial != nil {
		f = s.Network.Dial(node)
	}
	if timeout > 0 {
		s.In(timeout, func() {
			if !c.up {
				c.end(fmt.Errorf("no connection within %v: %w", timeout, errTimeout))
			}
		})
	}
	if f.Hang {
		return
	}
	s.In(f.Delay+2*s.latency(), func() {
		if c.over {
			return
		}
		at, ok := s.places[place{node.Host, node.Port}]
		if !ok || f.Refuse {
			c.end(fmt.Errorf("dial %s: %w", node.Addr(), errRefused))
			return
		}
		c.to = at
		s.act(c, c.to.c.Open(c.to.node, c.id, s.true()))
		if c.over {
			return
		}
		c.askVersions(netclient.FirstAPIVersions(s.lost[node.ID]))
	})
}

var (
	errRefused = errors.New("connection refused")
	errTimeout = errors.New("timed out")
	errReset   = errors.New("connection reset by peer")
)

// Send implements netclient.Selector.
func (s *Selector) Send(node, id int32, f protocol.Frame) {
	c := s.conns[node]
	if c == nil || !c.up || c.over {
		s.events = append(s.events, netclient.Event{Kind: netclient.Dropped, Node: node, ID: id})
		return
	}
	s.held++
	if s.Network.Sent != nil {
		s.Network.Sent(node, c.id, f)
	}
	c.pending = append(c.pending, frame{id, f, sum(f)})
	if len(c.pending) == 1 {
		c.write()
	}
}

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// sum is the check sum of a frame's bytes: they must not change while the selector holds them (KAFKA-19012).
func sum(f protocol.Frame) uint32 {
	var crc uint32
	for _, b := range f.Buffers {
		crc = crc32.Update(crc, castagnoli, b)
	}
	return crc
}

// join puts a frame's bytes together, in a buffer to be given back to s.bufs.
func (s *Selector) join(bufs net.Buffers) []byte {
	var b []byte
	if n := len(s.bufs); n > 0 {
		b, s.bufs = s.bufs[n-1][:0], s.bufs[:n-1]
	}
	for _, p := range bufs {
		b = append(b, p...)
	}
	return b
}

// Close implements netclient.Selector.
func (s *Selector) Close(node int32) {
	if c := s.conns[node]; c != nil && !c.over {
		c.end(net.ErrClosed)
	}
}

// maxIdle is how many turns may take no time before Poll counts as spinning.
const maxIdle = 100_000

// Poll implements netclient.Selector.
func (s *Selector) Poll(now time.Time, timeout time.Duration) (time.Time, []netclient.Event) {
	until, bounded := s.now+timeout, timeout >= 0
	for turns, was := 0, s.now; ; turns++ {
		if s.now > was {
			turns, was = 0, s.now
		} else if turns > maxIdle {
			panic("simulation: the same moment goes on and on")
		}
		// Run all that is due, in the order it was planned.
		for at, ok := s.queue.next(); ok && at <= s.now; at, ok = s.queue.next() {
			s.queue.pop()()
		}
		for _, c := range s.c {
			if at, ok := c.NextTick(); ok && !at.After(s.true()) {
				s.act(nil, c.Tick(s.true()))
			}
		}
		if at, ok := s.queue.next(); ok && at <= s.now {
			continue
		}
		if s.woken {
			break
		}
		if len(s.events) > 0 || s.appended {
			if timeout == 0 || !s.assisted() || s.woken {
				break
			}
			continue
		}
		next, ok := s.next()
		if bounded && (!ok || next >= until) {
			s.now = max(s.now, until)
			break
		}
		if !ok {
			panic("simulation: waiting for ever, and nothing will happen")
		}
		s.now = max(s.now, next)
	}
	s.woken, s.appended = false, false
	events := s.events
	s.events, s.spare = s.spare[:0], events
	return s.Now(), events
}

// assisted lets somebody else see to what has come.
func (s *Selector) assisted() bool {
	if s.Assist == nil || s.assisting {
		return false
	}
	s.assisting = true
	defer func() { s.assisting = false }()
	return s.Assist()
}

// Appended is told by a caller who has something for the owner, and would assist it if it sleeps. False: it is at work, or has an assistant.
func (s *Selector) Appended() bool {
	if s.assisting {
		return false
	}
	s.appended = true
	return true
}

// next is when something happens.
func (s *Selector) next() (time.Duration, bool) {
	at, ok := s.queue.next()
	for _, c := range s.c {
		if t, due := c.NextTick(); due {
			if d := t.Sub(s.start); !ok || d < at {
				at, ok = d, true
			}
		}
	}
	return at, ok
}

// Wakeup implements netclient.Selector.
func (s *Selector) Wakeup() { s.woken = true }

// Shutdown implements netclient.Selector.
func (s *Selector) Shutdown() {
	s.shut = true
	for _, c := range s.conns { // in any order: nothing comes of it but their end
		c.over = true
		for _, f := range c.pending {
			c.release(f)
		}
		c.pending = nil
	}
	s.conns = map[int32]*conn{}
	s.events = nil
}
