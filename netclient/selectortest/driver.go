package selectortest

import (
	"bytes"
	"encoding/binary"
	"net"
	"slices"
	"testing"
	"time"

	"github.com/kafka-reservoir/producer/netclient"
	"github.com/kafka-reservoir/producer/protocol"
)

// patience is how long a case waits for something that must come. In a bubble it costs nothing.
const patience = 30 * time.Second

// driver runs one case: it makes frames, owns their memory, drives the selector and checks what it says.
type driver struct {
	t      *testing.T
	w      World
	sel    netclient.Selector
	now    time.Time
	nextID int32
	links  map[int32]*link    // by node
	frames map[int32]*inFrame // those that the selector may hold
	log    []netclient.Event  // everything seen, payloads copied
}

// link is what the checker knows about the connection of a node.
type link struct {
	stage    netclient.EventKind // Disconnected, 0 (connecting), Connected, or Dropped (ending)
	sent     []int32             // ids accepted for this connection and not yet reported
	received [][]byte
	ends     int
	lastErr  error
}

// inFrame is a frame that the selector holds.
type inFrame struct {
	node    int32
	payload []byte
}

func newDriver(t *testing.T, w World) *driver {
	return &driver{
		t: t, w: w, sel: w.Selector(), now: time.Now(),
		links: make(map[int32]*link), frames: make(map[int32]*inFrame),
	}
}

func (d *driver) link(node int32) *link {
	if d.links[node] == nil {
		d.links[node] = &link{stage: netclient.Disconnected}
	}
	return d.links[node]
}

// connect begins to connect, without waiting.
func (d *driver) connect(n protocol.Node, timeout time.Duration) {
	d.link(n.ID).stage = 0
	d.sel.Connect(n, timeout)
}

// up starts a peer and connects to it.
func (d *driver) up(id int32, p Peer) protocol.Node {
	d.t.Helper()
	n := d.w.Start(id, p)
	d.reconnect(n)
	return n
}

func (d *driver) reconnect(n protocol.Node) {
	d.t.Helper()
	d.connect(n, patience)
	d.until("connected", func() bool { return d.link(n.ID).stage != 0 })
	if l := d.link(n.ID); l.stage != netclient.Connected {
		d.t.Fatalf("node %v was not connected: %v", n, l.lastErr)
	}
}

// send hands over a payload and returns the frame's id. The payload is copied into a frame of several
// slices, whose memory is destroyed as soon as the selector says that it holds the frame no longer.
func (d *driver) send(node int32, payload []byte) int32 { return d.sendFrame(node, payload, false) }

func (d *driver) sendFrame(node int32, payload []byte, notify bool) int32 {
	d.nextID++
	id := d.nextID
	b := binary.BigEndian.AppendUint32(nil, uint32(len(payload)))
	b = append(b, payload...)
	f := protocol.Frame{Size: len(b), NotifySent: notify}
	for rest := b; len(rest) > 0; { // cut at odd places
		k := min(len(rest), 3+len(rest)*2/3)
		f.Buffers = append(f.Buffers, rest[:k])
		rest = rest[k:]
	}
	f.Buffers = append(f.Buffers, net.Buffers{nil}...)
	d.frames[id] = &inFrame{node: node, payload: b}
	if l := d.link(node); l.stage == netclient.Connected || l.stage == netclient.Dropped {
		l.sent = append(l.sent, id)
	}
	d.sel.Send(node, id, f)
	return id
}

// release destroys the frame's memory, as its owner is free to do now.
func (d *driver) release(id int32) {
	f := d.frames[id]
	for i := range f.payload {
		f.payload[i] = 0xDB
	}
	delete(d.frames, id)
}

// poll calls Poll once and checks its events.
func (d *driver) poll(timeout time.Duration) []netclient.Event {
	d.t.Helper()
	before := d.now
	now, events := d.sel.Poll(d.now, timeout)
	if now.Before(before) {
		d.t.Fatalf("Poll went back in time, from %v to %v", before, now)
	}
	d.now = now
	for i := range events {
		d.check(&events[i])
		e := events[i]
		e.Payload = bytes.Clone(e.Payload)
		d.log = append(d.log, e)
	}
	return events
}

// check holds an event against the contract.
func (d *driver) check(e *netclient.Event) {
	d.t.Helper()
	l := d.link(e.Node)
	switch e.Kind {
	case netclient.Connected:
		if l.stage != 0 || e.Versions == nil {
			d.t.Fatalf("node %d: Connected with versions %v in stage %d", e.Node, e.Versions, l.stage)
		}
		l.stage = netclient.Connected
	case netclient.Received:
		if l.stage != netclient.Connected {
			d.t.Fatalf("node %d: Received in stage %d", e.Node, l.stage)
		}
		l.received = append(l.received, bytes.Clone(e.Payload))
	case netclient.Sent, netclient.Dropped:
		f := d.frames[e.ID]
		if f == nil || f.node != e.Node {
			d.t.Fatalf("node %d: event %d for frame %d, which it does not hold", e.Node, e.Kind, e.ID)
		}
		d.release(e.ID)
		if at := slices.Index(l.sent, e.ID); at < 0 {
			if e.Kind == netclient.Sent {
				d.t.Fatalf("node %d: frame %d was sent without a connection", e.Node, e.ID)
			}
			return // there was no connection to begin with
		} else if at > 0 {
			d.t.Fatalf("node %d: event %d for frame %d overtook frame %d", e.Node, e.Kind, e.ID, l.sent[0])
		}
		l.sent = l.sent[1:]
		if e.Kind == netclient.Sent && l.stage != netclient.Connected {
			d.t.Fatalf("node %d: Sent in stage %d", e.Node, l.stage)
		}
		if e.Kind == netclient.Dropped {
			l.stage = netclient.Dropped
		}
	case netclient.Disconnected:
		if l.stage == netclient.Disconnected || e.Err == nil || len(l.sent) > 0 {
			d.t.Fatalf("node %d: Disconnected (%v) in stage %d with frames %v unreported", e.Node, e.Err, l.stage, l.sent)
		}
		l.stage, l.lastErr = netclient.Disconnected, e.Err
		l.ends++
	default:
		d.t.Fatalf("event of unknown kind %d", e.Kind)
	}
}

// until polls until something has happened.
func (d *driver) until(what string, done func() bool) {
	d.t.Helper()
	for give := d.now.Add(patience); !done(); {
		if !d.now.Before(give) {
			d.t.Fatalf("waited %v in vain: %s", patience, what)
		}
		d.poll(give.Sub(d.now))
	}
}

// untilDown polls until the node's connection has ended.
func (d *driver) untilDown(node int32) {
	d.t.Helper()
	d.until("disconnected", func() bool { return d.link(node).stage == netclient.Disconnected })
}

// untilReceived polls until the node has answered n times in all, and returns the answers.
func (d *driver) untilReceived(node int32, n int) [][]byte {
	d.t.Helper()
	l := d.link(node)
	d.until("received", func() bool { return len(l.received) >= n || l.stage == netclient.Disconnected })
	if len(l.received) != n {
		d.t.Fatalf("node %d: %d responses, expected %d; connection: %v", node, len(l.received), n, l.lastErr)
	}
	return l.received
}

// kinds lists what happened to a node, in order.
func (d *driver) kinds(node int32) (kinds []netclient.EventKind) {
	for _, e := range d.log {
		if e.Node == node {
			kinds = append(kinds, e.Kind)
		}
	}
	return kinds
}

// ids lists the frames of a node that met with a kind of event, in order.
func (d *driver) ids(node int32, kind netclient.EventKind) (ids []int32) {
	for _, e := range d.log {
		if e.Node == node && e.Kind == kind {
			ids = append(ids, e.ID)
		}
	}
	return ids
}

func (d *driver) equal(what string, got, want any) {
	d.t.Helper()
	if !equal(got, want) {
		d.t.Fatalf("%s:\n got %v\nwant %v", what, got, want)
	}
}

func equal(a, b any) bool {
	switch a := a.(type) {
	case []netclient.EventKind:
		return slices.Equal(a, b.([]netclient.EventKind))
	case []int32:
		return slices.Equal(a, b.([]int32))
	case []byte:
		return bytes.Equal(a, b.([]byte))
	}
	return a == b
}
