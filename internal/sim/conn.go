package sim

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/kafka-reservoir/producer/internal/testbroker"
	"github.com/kafka-reservoir/producer/netclient"
	"github.com/kafka-reservoir/producer/protocol"
)

// maxResponse is the default limit of the TCP selector.
const maxResponse = 16 << 20

// conn is one simulated connection of the client.
type conn struct {
	s       *Selector
	node    protocol.Node
	to      target // c is nil: nobody is there
	id      testbroker.ConnID
	up      bool // Connected was reported
	over    bool // closed by either side; Disconnected is on its way
	hole    bool // nothing passes any more
	stalled bool // the broker does not read
	pending []frame

	// Of the request under way before the connection is up.
	api      protocol.APIKey
	version  int16
	corr     int32
	versions *protocol.ApiVersionsResponse // the answer, while the cluster is asked for

	last    []byte        // what the broker wrote last
	stream  []byte        // bytes that arrived and are no whole frame yet
	outward time.Duration // when the last bytes arrive at the broker: one connection keeps its order
	inward  time.Duration // and at the client
}

// frame is one that was handed over and is not written yet.
type frame struct {
	id  int32
	f   protocol.Frame
	sum uint32
}

func (c *conn) askVersions(version int16) {
	c.ask(version, &protocol.ApiVersionsRequest{ClientSoftwareName: "sim", ClientSoftwareVersion: "1", NodeID: -1})
}

// ask sends a request of the connection's own, before it is up.
func (c *conn) ask(version int16, m protocol.Message) {
	c.api, c.version = m.Key(), version
	client := "sim"
	f := protocol.NewFrame(protocol.RequestHeader{Key: c.api, Version: version, CorrelationID: c.corr, ClientID: &client}, m)
	c.deliver(c.s.join(f.Buffers), 0)
}

// deliver brings a written frame to the broker.
func (c *conn) deliver(b []byte, late time.Duration) {
	s := c.s
	if c.hole {
		s.bufs = append(s.bufs, b)
		return
	}
	c.outward = max(s.now+s.latency()+late, c.outward)
	s.queue.push(c.outward, func() {
		// What was written arrives, also when the client has hung up meanwhile.
		if !c.stalled && c.to.c != nil {
			s.act(c, c.to.c.Handle(c.to.node, c.id, b[4:], s.true()))
		}
		s.bufs = append(s.bufs, b)
	})
}

// write begins to write the first pending frame; its bytes are read only when it is through, as by a
// connection that is slow.
func (c *conn) write() {
	s := c.s
	size := c.pending[0].f.Size
	d := time.Duration(0)
	if s.WriteTime != nil {
		d = s.WriteTime(size)
	}
	var f WriteFault
	if s.Network.Write != nil && !c.hole {
		f = s.Network.Write(c.node.ID, size)
	}
	s.In(d+f.Stall, func() {
		if c.over {
			return
		}
		if f.Break && f.Cut < size {
			c.end(fmt.Errorf("write: %w", errReset))
			return
		}
		p := c.pending[0]
		b := s.join(p.f.Buffers)
		if len(b) != size {
			s.breach("a frame of %d bytes says %d", len(b), size)
		}
		copy(c.pending, c.pending[1:])
		c.pending[len(c.pending)-1] = frame{}
		c.pending = c.pending[:len(c.pending)-1]
		c.release(p)
		s.events = append(s.events, netclient.Event{Kind: netclient.Sent, Node: c.node.ID, ID: p.id})
		c.hole = c.hole || f.Hole
		if f.Break {
			s.bufs = append(s.bufs, b)
			c.end(fmt.Errorf("read: %w", errReset))
			return
		}
		c.deliver(b, f.Late)
		if len(c.pending) > 0 {
			c.write()
		}
	})
}

// release checks that a frame's bytes are what they were when it was handed over.
func (c *conn) release(f frame) {
	c.s.held--
	if sum(f.f) != f.sum {
		c.s.breach("the bytes of frame %d to node %d changed while its connection held them", f.id, c.node.ID)
	}
}

// act carries out what a cluster wants done. c is the connection that it is about, mostly; nil if that is not known.
func (s *Selector) act(c *conn, actions []testbroker.Action) {
	for _, a := range actions {
		k := c
		if k == nil || k.id != a.Conn {
			k = s.byConn(a.Conn)
		}
		if k == nil || k.hole {
			continue
		}
		switch a.Kind {
		case testbroker.Write:
			k.reply(a.Bytes)
		case testbroker.CloseFIN, testbroker.CloseRST:
			s.queue.push(k.back(0), func() { k.end(io.EOF) })
		case testbroker.Stall:
			k.stalled = true
		}
	}
}

// back is when something leaving the broker now arrives, in order.
func (c *conn) back(late time.Duration) time.Duration {
	c.inward = max(c.s.now+c.s.latency()+late, c.inward)
	return c.inward
}

// reply brings bytes of the broker to the client.
func (c *conn) reply(b []byte) {
	s := c.s
	c.last = b
	var f ReadFault
	if s.Network.Read != nil {
		f = s.Network.Read(c.node.ID, len(b))
	}
	cut := f.Break && f.Cut < len(b)
	if cut {
		b = b[:f.Cut]
	}
	for f.Piece > 0 && len(b) > f.Piece {
		piece := b[:f.Piece]
		s.queue.push(c.back(f.Late), func() { c.received(piece) })
		b = b[f.Piece:]
		c.inward += f.Pause
	}
	s.queue.push(c.back(f.Late), func() { c.received(b) })
	if f.Break {
		s.queue.push(c.inward, func() { c.end(fmt.Errorf("read: %w", errReset)) })
	}
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

// lastReply is what the broker wrote last on a connection.
func (s *Selector) lastReply(id testbroker.ConnID) []byte {
	if c := s.byConn(id); c != nil {
		return c.last
	}
	return nil
}

// received takes bytes from the broker and cuts them into frames, as strictly as the TCP selector does.
func (c *conn) received(b []byte) {
	if c.over || c.hole {
		return
	}
	if len(c.stream) > 0 {
		c.stream = append(c.stream, b...)
		b = c.stream
	}
	for len(b) >= 4 && !c.over {
		n := int(int32(binary.BigEndian.Uint32(b)))
		if n < 0 || n > maxResponse {
			c.end(fmt.Errorf("a response of %d bytes", n))
			return
		}
		if len(b) < 4+n {
			break
		}
		payload := b[4 : 4+n : 4+n]
		b = b[4+n:]
		if !c.up {
			c.negotiated(payload)
			continue
		}
		if c.s.Network.Received != nil {
			c.s.Network.Received(c.node.ID, c.id, payload)
		}
		c.s.events = append(c.s.events, netclient.Event{Kind: netclient.Received, Node: c.node.ID, Payload: payload})
	}
	c.stream = append([]byte(nil), b...) // fresh: the payloads handed out lie in the old one
}

// negotiated takes an answer to ask.
func (c *conn) negotiated(payload []byte) {
	corr, body, err := protocol.ReadResponseHeader(payload, c.api, c.version)
	if err == nil && corr != c.corr {
		err = fmt.Errorf("correlation id %d instead of %d", corr, c.corr)
	}
	if err == nil {
		if c.api == protocol.KeyMetadata {
			err = c.clusterTold(body)
		} else {
			err = c.versionsTold(body)
		}
	}
	if err != nil {
		c.end(fmt.Errorf("answer to %v v%d: %w", c.api, c.version, err))
	}
}

func (c *conn) versionsTold(body []byte) error {
	resp, err := netclient.DecodeAPIVersions(body, c.version)
	if err != nil {
		return err
	}
	next, done, err := netclient.NextAPIVersions(c.version, resp)
	if err != nil {
		return err
	}
	c.corr++
	if !done {
		c.askVersions(next)
		return nil
	}
	if c.s.AskCluster && c.node.ID >= 0 {
		for _, k := range resp.ApiKeys {
			if k.ApiKey != protocol.KeyMetadata {
				continue
			}
			if version, ok := protocol.HighestCommonVersion(2, 12, k.MinVersion, k.MaxVersion); ok {
				c.versions = resp
				c.ask(version, &protocol.MetadataRequest{Topics: []protocol.MetadataRequestTopic{}})
				return nil
			}
		}
	}
	c.connected(resp, "")
	return nil
}

func (c *conn) clusterTold(body []byte) error {
	var resp protocol.MetadataResponse
	if err := resp.ReadFrom(body, c.version); err != nil {
		return err
	}
	cluster := ""
	if resp.ClusterID != nil {
		cluster = *resp.ClusterID
	}
	c.connected(c.versions, cluster)
	return nil
}

func (c *conn) connected(versions *protocol.ApiVersionsResponse, cluster string) {
	c.up = true
	c.s.lost[c.node.ID] = 0
	c.s.events = append(c.s.events, netclient.Event{Kind: netclient.Connected, Node: c.node.ID, Versions: versions, ClusterID: cluster})
}

// end ends a connection: frames that are still held are dropped, then it is gone.
func (c *conn) end(err error) {
	if c.over {
		return
	}
	c.over = true
	s := c.s
	if !c.up && (errors.Is(err, io.EOF) || errors.Is(err, errReset)) {
		s.lost[c.node.ID]++
	}
	if !c.up {
		err = &netclient.ConnectError{Node: c.node, Step: netclient.StepAPIVersions, Err: err}
	}
	linger := time.Duration(0)
	if s.Network.Linger != nil && len(c.pending) > 0 {
		linger = s.Network.Linger()
	}
	// In a moment rather than now: Close promises its events for a later Poll.
	s.In(linger, func() {
		if s.shut {
			return
		}
		for _, f := range c.pending {
			c.release(f)
			if s.Network.Dropped != nil {
				s.Network.Dropped(c.node.ID, c.id, f.id)
			}
			s.events = append(s.events, netclient.Event{Kind: netclient.Dropped, Node: c.node.ID, ID: f.id})
		}
		c.pending = nil
		if s.Network.Ended != nil {
			s.Network.Ended(c.node.ID, c.id)
		}
		s.events = append(s.events, netclient.Event{Kind: netclient.Disconnected, Node: c.node.ID, Err: err})
		if s.conns[c.node.ID] == c {
			delete(s.conns, c.node.ID)
		}
		// The broker learns of it behind everything that was written.
		c.outward = max(c.outward, s.now+s.latency())
		s.queue.push(c.outward, func() {
			if c.to.c != nil {
				c.to.c.Closed(c.id, s.true())
			}
		})
	})
}
