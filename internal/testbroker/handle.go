package testbroker

import (
	"bytes"
	"fmt"
	"slices"
	"time"

	"github.com/kafka-reservoir/producer/protocol"
)

// Action is something to do now on a connection.
type Action struct {
	Node  int32
	Conn  ConnID
	Kind  ActionKind
	Bytes []byte // for Write; the receiver's from now on
}

// ActionKind says what to do.
type ActionKind int

const (
	// Write writes Bytes, in the order of the actions.
	Write ActionKind = iota
	// CloseFIN closes the connection in the ordinary way, after what was written before.
	CloseFIN
	// CloseRST resets it.
	CloseRST
	// Stall stops reading from it and leaves it open.
	Stall
)

// conn is one connection. The cluster's lock guards it.
type conn struct {
	id     ConnID
	node   *node
	gone   bool // by the client
	ended  bool // by the broker: nothing is read or written any more
	muted  bool // nothing is answered any more
	queue  []*job
	parked *pendingFetch // what waits behind it waits in queue
	// running is set while a job is carried out, which may let go of the lock.
	running bool
	// notBefore is when the next request may be carried out: throttled.
	notBefore time.Time
	// answerAt is when the last answer goes out, which keeps the order when one is held; scheduled counts
	// the answers that wait for their time. While there are any, no other may go out past them.
	answerAt  time.Time
	scheduled int
	inFlight  int // requests that arrived and were not answered
}

// job is a request on its way through the cluster.
type job struct {
	parsed
	verdict   Verdict
	notBefore time.Time
	entry     *Entry
}

// ready reports whether a job that has just come may be carried out at once.
func (k *conn) ready(j *job, now time.Time) bool {
	return len(k.queue) == 0 && k.parked == nil && !k.running && !j.notBefore.After(now) && !k.notBefore.After(now)
}

// Open tells the cluster of a new connection to node.
func (c *Cluster) Open(node int32, conn ConnID, now time.Time) []Action {
	var v ConnVerdict
	if hook := c.cfg.FaultOpen; hook != nil {
		c.hookMu.Lock()
		v = hook(node, conn)
		c.hookMu.Unlock()
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.beginLocked(now)
	k := c.openLocked(node, conn)
	if k == nil {
		return c.takeLocked()
	}
	switch {
	case v.Drop != DropNot:
		c.dropLocked(k, v.Drop)
	case v.Stall:
		c.emitLocked(Action{Node: node, Conn: conn, Kind: Stall})
	}
	return c.takeLocked()
}

// Closed tells the cluster that a connection is gone. What it asked for and is delayed is done all the same.
func (c *Cluster) Closed(conn ConnID, now time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	k := c.conns[conn]
	if k == nil {
		return
	}
	c.now = later(c.now, now)
	k.gone = true
	if !k.ended {
		c.journal.add(Entry{Kind: EntryDisconnect, At: c.now, Node: k.node.id, Conn: conn})
	}
	if k.parked != nil {
		c.unparkLocked(k.parked)
	}
	c.forgetLocked(k)
}

// Handle takes one request frame, without its length prefix, that came to node over conn (opened before, or by
// this), and returns what to do now. The frame may be reused afterwards.
func (c *Cluster) Handle(node int32, conn ConnID, frame []byte, now time.Time) []Action {
	j := &job{parsed: c.parse(node, conn, frame, now)}
	c.mu.Lock()
	c.beginLocked(now)
	if k := c.conns[conn]; k != nil && k.ended {
		defer c.mu.Unlock()
		return c.takeLocked() // nobody reads from this connection any more
	}
	c.requests++
	j.req.Number = c.requests
	c.mu.Unlock()
	var text string
	if hook := c.fault.Load(); hook != nil && j.fate == fateServe {
		c.hookMu.Lock()
		j.verdict = (*hook)(j.req)
		c.hookMu.Unlock()
		text = j.verdict.String()
	}

	c.mu.Lock()
	defer c.mu.Unlock()
	c.beginLocked(now)
	k := c.openLocked(node, conn)
	if k == nil || k.ended {
		return c.takeLocked()
	}
	if j.fault != "" {
		c.breachLocked(j.req, "%s", j.fault)
	}
	// From here on the request is the journal's: what points into the frame must not be found there.
	j.req.Body = nil
	for i := range j.req.Batches {
		j.req.Batches[i].Raw = nil
	}
	j.entry = c.journal.add(Entry{Kind: EntryRequest, At: now, Node: node, Conn: conn, Request: j.req, Text: text})
	k.inFlight++
	c.journal.stats.MaxInFlight = max(c.journal.stats.MaxInFlight, k.inFlight)
	c.journal.stats.Requests++
	j.notBefore = c.now.Add(j.verdict.Delay)
	if k.ready(j, c.now) {
		c.runLocked(k, j)
	} else {
		j.keep()
		k.queue = append(k.queue, j)
	}
	c.serveLocked(k)
	c.runDueLocked()
	return c.takeLocked()
}

// Tick returns what has become due.
func (c *Cluster) Tick(now time.Time) []Action {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.beginLocked(now)
	return c.takeLocked()
}

// NextTick is when Tick should be called next; ok is false when nothing is waiting. It may be in the past.
func (c *Cluster) NextTick() (at time.Time, ok bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.due.next()
}

// breachFrame is for a frame that could not even be read: it ends the connection.
func (c *Cluster) breachFrame(node int32, conn ConnID, now time.Time, text string) []Action {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.beginLocked(now)
	if k := c.openLocked(node, conn); k != nil && !k.ended {
		c.breachLocked(&Request{At: c.now, Node: node, Conn: conn, API: -1}, "%s", text)
		c.dropLocked(k, DropFIN)
	}
	return c.takeLocked()
}

// advance sets the time for a change that is about to be made. What has become due stays for the next Tick.
func (c *Cluster) advance(now time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.now = later(c.now, now)
}

func later(a, b time.Time) time.Time {
	if b.After(a) {
		return b
	}
	return a
}

func (c *Cluster) beginLocked(now time.Time) {
	c.now = later(c.now, now)
	c.runDueLocked()
}

// emitLocked hands out an action: to the server, which only queues it, or to the caller of Handle, Open or Tick.
func (c *Cluster) emitLocked(a Action) {
	if c.sink != nil {
		c.sink(a)
		return
	}
	c.actions = append(c.actions, a)
}

func (c *Cluster) takeLocked() []Action {
	a := c.actions
	c.actions = nil
	return a
}

// openLocked finds or makes a connection; nil when there is no such node, or it is down.
func (c *Cluster) openLocked(node int32, id ConnID) *conn {
	if k := c.conns[id]; k != nil {
		return k
	}
	n, err := c.nodeLocked(node)
	if err != nil || !n.up {
		c.emitLocked(Action{Node: node, Conn: id, Kind: CloseFIN})
		return nil
	}
	k := &conn{id: id, node: n}
	c.conns[id] = k
	c.journal.stats.Connections++
	c.journal.add(Entry{Kind: EntryConnect, At: c.now, Node: node, Conn: id})
	return k
}

// connsLocked is all connections in the order of their ids.
func (c *Cluster) connsLocked() []*conn {
	ks := make([]*conn, 0, len(c.conns))
	for _, k := range c.conns {
		ks = append(ks, k)
	}
	slices.SortFunc(ks, func(a, b *conn) int { return int(a.id - b.id) })
	return ks
}

// forgetLocked lets go of a connection that is gone and has nothing left to do.
func (c *Cluster) forgetLocked(k *conn) {
	if k.gone && len(k.queue) == 0 && !k.running {
		delete(c.conns, k.id)
	}
}

// dropLocked ends a connection from the broker's side. Requests of it that were not begun are lost.
func (c *Cluster) dropLocked(k *conn, how Drop) {
	if k.ended {
		return
	}
	k.ended = true
	k.queue = nil
	if k.parked != nil {
		c.unparkLocked(k.parked)
	}
	if k.gone {
		return
	}
	a := Action{Node: k.node.id, Conn: k.id, Kind: CloseFIN}
	text := "FIN"
	if how == DropRST {
		a.Kind, text = CloseRST, "RST"
	}
	c.journal.add(Entry{Kind: EntryDrop, At: c.now, Node: k.node.id, Conn: k.id, Text: text})
	c.emitLocked(a)
}

// serveLocked carries out what waits on a connection, as far as it may already.
func (c *Cluster) serveLocked(k *conn) {
	for len(k.queue) > 0 && k.parked == nil && !k.running && !k.ended {
		j := k.queue[0]
		if at := later(j.notBefore, k.notBefore); at.After(c.now) {
			c.due.push(event{at: at, kind: eventServe, conn: k})
			return
		}
		k.queue = k.queue[1:]
		c.runLocked(k, j)
	}
	c.forgetLocked(k)
}

// runLocked carries a request out and answers it. It lets go of the lock while hooks run.
func (c *Cluster) runLocked(k *conn, j *job) {
	k.running = true
	switch j.fate {
	case fateClose:
		c.dropLocked(k, DropFIN)
	case fateSilent:
	case fateUnsupported:
		c.answerLocked(k, j, unsupportedVersions(k.node.generation))
	default:
		j.entry.Done = c.now
		if resp, drop := c.carryOutLocked(k, j); drop {
			c.outsideLocked(j.verdict.After)
			c.dropLocked(k, DropFIN)
		} else if k.parked == nil {
			c.outsideLocked(j.verdict.After)
			c.answerLocked(k, j, resp)
		}
	}
	k.running = false
}

// outsideLocked calls a hook without the lock.
func (c *Cluster) outsideLocked(f func()) {
	if f == nil {
		return
	}
	c.mu.Unlock()
	c.hookMu.Lock()
	defer func() {
		c.hookMu.Unlock()
		c.mu.Lock()
	}()
	f()
}

// carryOutLocked does what a request asks for. A nil response means that there is none (acks 0, or a fetch that
// was parked); drop that the connection has to end instead.
func (c *Cluster) carryOutLocked(k *conn, j *job) (resp protocol.Message, drop bool) {
	switch b := j.body.(type) {
	case *protocol.ProduceRequest:
		return c.produceLocked(k, j, b)
	case *protocol.FetchRequest:
		return c.fetchLocked(k, j, b), false
	case *protocol.ListOffsetsRequest:
		return c.listOffsetsLocked(k, j, b), false
	case *protocol.MetadataRequest:
		return c.metadataLocked(k, j, b), false
	case *protocol.ApiVersionsRequest:
		return c.apiVersionsLocked(k, j, b), false
	case *protocol.InitProducerIdRequest:
		return c.initProducerIDLocked(j, b), false
	case *protocol.FindCoordinatorRequest:
		return findCoordinator(j, b), false
	}
	panic(fmt.Sprintf("testbroker: %T", j.body))
}

// runDueLocked does everything whose time has come, in order.
func (c *Cluster) runDueLocked() {
	for {
		e, ok := c.due.pop(c.now)
		if !ok {
			return
		}
		switch e.kind {
		case eventServe:
			c.serveLocked(e.conn)
		case eventWrite:
			e.conn.scheduled--
			c.writeLocked(e.conn, e.bytes, e.entry)
		case eventClose:
			e.conn.scheduled--
			c.dropLocked(e.conn, e.how)
		case eventFetch:
			c.finishFetchLocked(e.fetch)
		}
	}
}

// keep makes the job independent of the frame that it was read from.
func (j *job) keep() {
	b, ok := j.body.(*protocol.ProduceRequest)
	if !ok {
		return // nothing else holds bytes of the frame
	}
	for i := range b.Topics {
		for k := range b.Topics[i].Partitions {
			p := &b.Topics[i].Partitions[k]
			p.Records = bytes.Clone(p.Records)
		}
	}
}
