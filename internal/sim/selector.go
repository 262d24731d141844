// Package sim runs the producer's engine in one goroutine, over simulated connections to the test broker's
// core and in virtual time, so that what happened can be repeated bit for bit.
package sim

import (
	"container/heap"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"time"

	"github.com/kafka-reservoir/producer/internal/testbroker"
	"github.com/kafka-reservoir/producer/netclient"
	"github.com/kafka-reservoir/producer/protocol"
)

// Selector is a netclient.Selector without sockets. Time passes only in Poll, and only as far as the
// next thing that happens. It belongs to one goroutine, Wakeup included.
type Selector struct {
	c *testbroker.Cluster

	// Latency is how long bytes travel, each way. Nil: half a millisecond.
	Latency func() time.Duration
	// WriteTime is how long a frame stays with its connection before it is written whole. Nil: no time.
	WriteTime func(size int) time.Duration

	now    time.Time
	queue  schedule
	seq    uint64
	conns  map[int32]*conn
	lost   map[int32]int
	nextID testbroker.ConnID
	events []netclient.Event
	woken  bool
	shut   bool
}

// conn is one simulated connection of the client.
type conn struct {
	s       *Selector
	node    protocol.Node
	broker  int32 // 0: nobody is there
	id      testbroker.ConnID
	up      bool // Connected was reported
	over    bool // closed by either side; Disconnected is on its way
	ended   bool // Disconnected was reported
	pending []frame
	version int16  // of the ApiVersions request under way
	stream  []byte // bytes that arrived and are no whole frame yet
	arrival time.Time
	stalled bool // the broker does not read
}

// frame is one that was handed over and is not written yet.
type frame struct {
	id int32
	f  protocol.Frame
}

// NewSelector connects a client to c. It begins at now.
func NewSelector(c *testbroker.Cluster, now time.Time) *Selector {
	return &Selector{c: c, now: now, conns: map[int32]*conn{}, lost: map[int32]int{}}
}

// Address is where node is found.
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

// Now is the time as of the last Poll, or within it.
func (s *Selector) Now() time.Time { return s.now }

// At runs f when the time has come, within Poll, which returns after it. f may do what an application does.
func (s *Selector) At(t time.Time, f func()) {
	s.at(t, func() {
		f()
		s.woken = true
	})
}

// After is At, d from now.
func (s *Selector) After(d time.Duration, f func()) { s.At(s.now.Add(d), f) }

func (s *Selector) at(t time.Time, f func()) {
	s.seq++
	heap.Push(&s.queue, scheduled{at: t, seq: s.seq, do: f})
}

func (s *Selector) latency() time.Duration {
	if s.Latency == nil {
		return 500 * time.Microsecond
	}
	return s.Latency()
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
	c := &conn{s: s, node: node, id: s.nextID}
	s.conns[node.ID] = c
	for _, id := range s.c.NodeIDs() {
		if host, port := Address(id); host == node.Host && port == node.Port {
			c.broker = id
		}
	}
	if timeout > 0 {
		s.at(s.now.Add(timeout), func() {
			if !c.up {
				c.end(fmt.Errorf("no answer to ApiVersions within %v: %w", timeout, errTimeout))
			}
		})
	}
	s.at(s.now.Add(s.latency()), func() {
		if c.over {
			return
		}
		if c.broker == 0 {
			c.end(fmt.Errorf("dial %s: %w", node.Addr(), errRefused))
			return
		}
		s.act(s.c.Open(c.broker, c.id, s.now))
		if c.over {
			return
		}
		c.askVersions(netclient.FirstAPIVersions(s.lost[node.ID]))
	})
}

var (
	errRefused = errors.New("connection refused")
	errTimeout = errors.New("timed out")
)

func (c *conn) askVersions(version int16) {
	c.version = version
	client := "sim"
	f := protocol.NewFrame(protocol.RequestHeader{Key: protocol.KeyAPIVersions, Version: version, ClientID: &client},
		&protocol.ApiVersionsRequest{ClientSoftwareName: "sim", ClientSoftwareVersion: "1", NodeID: -1})
	c.deliver(join(f.Buffers))
}

// deliver brings a written frame to the broker.
func (c *conn) deliver(b []byte) {
	s := c.s
	at := s.now.Add(s.latency())
	if at.Before(c.arrival) {
		at = c.arrival // one connection keeps its order
	}
	c.arrival = at
	s.at(at, func() {
		// What was written arrives, also when the client has hung up meanwhile.
		if c.stalled {
			return
		}
		s.act(s.c.Handle(c.broker, c.id, b[4:], s.now))
	})
}

// Send implements netclient.Selector.
func (s *Selector) Send(node, id int32, f protocol.Frame) {
	c := s.conns[node]
	if c == nil || !c.up || c.over {
		s.events = append(s.events, netclient.Event{Kind: netclient.Dropped, Node: node, ID: id})
		return
	}
	c.pending = append(c.pending, frame{id, f})
	if len(c.pending) == 1 {
		c.write()
	}
}

// write begins to write the first pending frame; its bytes are read only when it is through, as by a
// connection that is slow.
func (c *conn) write() {
	s := c.s
	d := time.Duration(0)
	if s.WriteTime != nil {
		d = s.WriteTime(c.pending[0].f.Size)
	}
	s.at(s.now.Add(d), func() {
		if c.over {
			return
		}
		f := c.pending[0]
		b := join(f.f.Buffers)
		if len(b) != f.f.Size {
			panic(fmt.Sprintf("frame of %d bytes says %d", len(b), f.f.Size))
		}
		c.pending = c.pending[1:]
		s.events = append(s.events, netclient.Event{Kind: netclient.Sent, Node: c.node.ID, ID: f.id})
		c.deliver(b)
		if len(c.pending) > 0 {
			c.write()
		}
	})
}

func join(bufs net.Buffers) []byte {
	var b []byte
	for _, p := range bufs {
		b = append(b, p...)
	}
	return b
}

// act carries out what the cluster wants done.
func (s *Selector) act(actions []testbroker.Action) {
	for _, a := range actions {
		c := s.byConn(a.Conn)
		if c == nil {
			continue
		}
		switch a.Kind {
		case testbroker.Write:
			b := a.Bytes
			s.at(c.back(), func() { c.received(b) })
		case testbroker.CloseFIN, testbroker.CloseRST:
			s.at(c.back(), func() { c.end(io.EOF) })
		case testbroker.Stall:
			c.stalled = true
		}
	}
}

// back is when something leaving the broker now arrives, in order.
func (c *conn) back() time.Time {
	at := c.s.now.Add(c.s.latency())
	if at.Before(c.arrival) {
		at = c.arrival
	}
	c.arrival = at
	return at
}

func (s *Selector) byConn(id testbroker.ConnID) *conn {
	// Few connections, and the order does not matter: at most one has the id.
	for _, c := range s.conns {
		if c.id == id {
			return c
		}
	}
	return nil
}

// received takes bytes from the broker.
func (c *conn) received(b []byte) {
	if c.over {
		return
	}
	c.stream = append(c.stream, b...)
	for len(c.stream) >= 4 && !c.over {
		n := int(int32(binary.BigEndian.Uint32(c.stream)))
		if n < 0 || n > 16<<20 {
			c.end(fmt.Errorf("a response of %d bytes", n))
			return
		}
		if len(c.stream) < 4+n {
			return
		}
		payload := c.stream[4 : 4+n : 4+n]
		c.stream = c.stream[4+n:]
		if !c.up {
			c.negotiated(payload)
			continue
		}
		c.s.events = append(c.s.events, netclient.Event{Kind: netclient.Received, Node: c.node.ID, Payload: payload})
	}
}

func (c *conn) negotiated(payload []byte) {
	_, body, err := protocol.ReadResponseHeader(payload, protocol.KeyAPIVersions, c.version)
	var resp *protocol.ApiVersionsResponse
	if err == nil {
		resp, err = netclient.DecodeAPIVersions(body, c.version)
	}
	if err != nil {
		c.end(err)
		return
	}
	next, done, err := netclient.NextAPIVersions(c.version, resp)
	switch {
	case err != nil:
		c.end(err)
	case done:
		c.up = true
		c.s.lost[c.node.ID] = 0
		c.s.events = append(c.s.events, netclient.Event{Kind: netclient.Connected, Node: c.node.ID, Versions: resp})
	default:
		c.askVersions(next)
	}
}

// Close implements netclient.Selector.
func (s *Selector) Close(node int32) {
	if c := s.conns[node]; c != nil && !c.over {
		c.end(net.ErrClosed)
	}
}

// end ends a connection: frames that are still held are dropped, then it is gone.
func (c *conn) end(err error) {
	if c.over {
		return
	}
	c.over = true
	s := c.s
	if !c.up && errors.Is(err, io.EOF) {
		s.lost[c.node.ID]++
	}
	// In a moment rather than now: Close promises its events for a later Poll.
	s.at(s.now, func() {
		for _, f := range c.pending {
			s.events = append(s.events, netclient.Event{Kind: netclient.Dropped, Node: c.node.ID, ID: f.id})
		}
		c.pending = nil
		s.events = append(s.events, netclient.Event{Kind: netclient.Disconnected, Node: c.node.ID, Err: err})
		if s.conns[c.node.ID] == c {
			delete(s.conns, c.node.ID)
		}
		s.at(s.now.Add(s.latency()), func() {
			if c.broker != 0 {
				s.c.Closed(c.id, s.now)
			}
		})
	})
}

// Poll implements netclient.Selector.
func (s *Selector) Poll(now time.Time, timeout time.Duration) (time.Time, []netclient.Event) {
	if now.After(s.now) {
		s.now = now
	}
	until, bounded := s.now.Add(timeout), timeout >= 0
	for {
		// Run all that is due, in the order it was planned.
		for len(s.queue) > 0 && !s.queue[0].at.After(s.now) {
			heap.Pop(&s.queue).(scheduled).do()
		}
		if at, ok := s.c.NextTick(); ok && !at.After(s.now) {
			s.act(s.c.Tick(s.now))
			if len(s.queue) > 0 && !s.queue[0].at.After(s.now) {
				continue
			}
		}
		if len(s.events) > 0 || s.woken {
			break
		}
		next, ok := s.next()
		if bounded && (!ok || !next.Before(until)) {
			if until.After(s.now) {
				s.now = until
			}
			break
		}
		if !ok {
			panic("simulation: waiting for ever, and nothing will happen")
		}
		if next.After(s.now) {
			s.now = next
		}
	}
	s.woken = false
	events := s.events
	s.events = nil
	return s.now, events
}

// next is when something happens.
func (s *Selector) next() (time.Time, bool) {
	var at time.Time
	ok := false
	if len(s.queue) > 0 {
		at, ok = s.queue[0].at, true
	}
	if t, due := s.c.NextTick(); due && (!ok || t.Before(at)) {
		at, ok = t, true
	}
	return at, ok
}

// Wakeup implements netclient.Selector.
func (s *Selector) Wakeup() { s.woken = true }

// Shutdown implements netclient.Selector.
func (s *Selector) Shutdown() {
	s.shut = true
	for _, c := range s.conns {
		c.over = true
		c.pending = nil
	}
	s.conns = map[int32]*conn{}
	s.events = nil
}

// scheduled is something that will happen.
type scheduled struct {
	at  time.Time
	seq uint64
	do  func()
}

type schedule []scheduled

func (q schedule) Len() int { return len(q) }
func (q schedule) Less(i, j int) bool {
	if q[i].at.Equal(q[j].at) {
		return q[i].seq < q[j].seq
	}
	return q[i].at.Before(q[j].at)
}
func (q schedule) Swap(i, j int) { q[i], q[j] = q[j], q[i] }
func (q *schedule) Push(x any)   { *q = append(*q, x.(scheduled)) }
func (q *schedule) Pop() any {
	old := *q
	n := len(old) - 1
	x := old[n]
	old[n] = scheduled{}
	*q = old[:n]
	return x
}
