package netclient

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/kafka-reservoir/producer/protocol"
)

// MetadataUpdater keeps the view of the cluster. The client asks it when an update is due and hands it
// what the brokers answer. *metadata.Metadata is the real one. It is called on the client's goroutine.
type MetadataUpdater interface {
	// Nodes lists the nodes that may be asked, by id. A list that did not change is the same slice.
	Nodes() []protocol.Node
	// TimeToUpdate is how long until a request may be sent; zero when one is due.
	TimeToUpdate(now time.Time) time.Duration
	// NewRequest returns the request to send. HandleResponse or HandleFailure follows before the next one.
	NewRequest(now time.Time) *protocol.MetadataRequest
	// HandleResponse takes the answer to a request that was sent in this version. It must not keep it: the topics are
	// decoded in place, from bytes that the connection uses again for its next answer. An error says that the answer was
	// of no use; the updater has noted that itself.
	HandleResponse(version int16, resp *protocol.MetadataResponse, now time.Time) error
	// HandleFailure: there is no answer.
	HandleFailure(err error, now time.Time)
	// HandleDisconnect: a connection was lost, or not made, which may mean that the view is wrong.
	HandleDisconnect(err error)
	// CheckCluster fails if id, which may be empty, is that of another cluster than the client's.
	CheckCluster(id string) error
	// ConfirmCluster is CheckCluster for what a broker of the view says itself when it is connected.
	ConfirmCluster(id string) error
	// SetFatal fails those who wait for an update.
	SetFatal(err error)
	// Rebootstrap goes back to the bootstrap servers if that is called for, by force or since an update has
	// been due for too long, and reports whether it did.
	Rebootstrap(now time.Time, force bool) bool
}

// updateMetadata asks for metadata if that is due, and returns how long it need not be called again if no
// event comes.
//
// The request may exceed MaxInFlight by one where every connection is full: a producer at full load would
// otherwise never learn that a leader has moved.
func (c *NetworkClient) updateMetadata(now time.Time) time.Duration {
	if c.fetching {
		return forever // the answer is an event, or the request times out
	}
	if d := c.md.TimeToUpdate(now); d > 0 {
		return d
	}
	to := c.pick(now, c.avoid, false)
	if c.rebootstrap(now, !to.hope || c.isLost(now, to.up)) {
		to = c.pick(now, c.avoid, false)
	}
	switch {
	case to.ready != nil:
		return c.fetch(to.ready, now)
	case to.fresh != nil:
		return c.slowConnect - now.Sub(to.fresh.attemptAt)
	case to.connect.ok && to.mayWish() && c.mayTry(c.wish(to.connect.addr), now):
		c.connect(c.ensure(to.connect.addr), to.connect.addr, now)
		return c.slowConnect
	case to.avoided != nil:
		return c.fetch(to.avoided, now)
	case to.full != nil:
		return c.fetch(to.full, now)
	case to.connect.ok && to.mayWish():
		to.delay = min(to.delay, c.find(to.connect.addr.ID).delay(now))
	}
	return to.delay
}

// isLost reports whether no node was connected for a whole setup timeout although metadata was due. Attempts that
// hang, one after the other, would otherwise look like hope for as long as the updater's trigger allows: this is
// what a cluster looks like whose machines are gone, and with them whoever could refuse a connection (FC-096).
func (c *NetworkClient) isLost(now time.Time, up bool) bool {
	if up {
		c.lostSince = time.Time{}
		return false
	}
	if c.lostSince.IsZero() {
		c.lostSince = now
	}
	return now.Sub(c.lostSince) >= c.setup.Initial
}

// choice is what pick found; at most one node of each kind.
type choice struct {
	ready   *nodeConn // can be sent to, with the fewest requests in flight
	fresh   *nodeConn // being connected, and not for long
	slow    *nodeConn // being connected, for too long to wait for it
	connect struct {  // can be connected: a bootstrap server if there is one, else longest since the last attempt
		addr protocol.Node
		at   time.Time
		ok   bool
		free bool // without waiting for a place in the budget
	}
	waiting *nodeConn     // has a place in the budget by a wish for any node: a bootstrap server if there is one, else whose turn is next
	avoided *nodeConn     // as ready, but to be avoided
	full    *nodeConn     // ready, but at MaxInFlight
	up      bool          // some node is connected, though it may be throttled or full
	hope    bool          // some node is usable, or may become so without going back to the bootstrap servers
	delay   time.Duration // until the first node may become usable by time alone; 0 < delay
}

// wish returns the connection of a node that is to be connected since any will do.
func (c *NetworkClient) wish(addr protocol.Node) *nodeConn {
	n := c.ensure(addr)
	n.wished = true
	return n
}

// mayWish reports whether a place may be taken for the node that can be connected: one wish is enough, and others want their places.
func (to *choice) mayWish() bool {
	return to.connect.free || to.waiting == nil || to.waiting.addr.ID >= 0 && to.connect.addr.ID < 0
}

// formerPause is the shortest time from one attempt to connect to a broker known before a rebootstrap to the next.
const formerPause = time.Second

// noNode is no node's id.
const noNode int32 = -1 << 31

// pick looks at all nodes of the metadata, from a random one on, so that clients spread.
//
// After a rebootstrap brokers known before are in the list too. They are tried where the bootstrap servers cannot be,
// and seldom: they may be many, and gone. With brokers, the bootstrap servers are passed over.
func (c *NetworkClient) pick(now time.Time, avoid int32, brokers bool) choice {
	to := choice{delay: forever}
	nodes := c.md.Nodes()
	if len(nodes) == 0 {
		to.hope = true // nothing to go back from
		return to
	}
	offset := c.rand(len(nodes))
	var tried time.Time // when a broker was last
	for i := range nodes {
		addr := nodes[(offset+i)%len(nodes)]
		if brokers && addr.ID < 0 {
			continue
		}
		n := c.find(addr.ID)
		if n != nil && addr.ID >= 0 && n.attemptAt.After(tried) {
			tried = n.attemptAt
		}
		if n != nil && n.state != nodeIdle && !sameAddress(n.addr, addr) {
			to.hope = true // about to be closed, and free then
			continue
		}
		if n != nil {
			n.moveTo(addr, now, c.reconnect)
		}
		if n == nil || n.canConnect(now) {
			to.hope = true
			var at time.Time
			free := addr.ID >= 0
			if n != nil {
				at, free = n.attemptAt, free && n.attemptAt.IsZero()
				if !n.place.IsZero() && now.Sub(n.place) <= placeKept {
					at, free = time.Time{}, true // its turn has come
				}
			}
			better := at.Before(to.connect.at)
			if boot := addr.ID < 0; boot != (to.connect.addr.ID < 0) {
				better = boot
			}
			if !to.connect.ok || better {
				to.connect.addr, to.connect.at, to.connect.ok, to.connect.free = addr, at, true, free
			}
			continue
		}
		if n.state == nodeIdle && n.wished && n.place.After(now) && !n.retryAt.After(n.place) {
			to.await(n)
		}
		to.delay = min(to.delay, n.delay(now))
		to.see(n, now, c, addr.ID == avoid)
	}
	if boot := nodes[0].ID < 0; boot && to.connect.ok && to.connect.addr.ID >= 0 {
		if wait := max(c.reconnect.Max, formerPause) - now.Sub(tried); wait > 0 {
			to.connect.ok = false
			to.delay = min(to.delay, wait)
		}
	}
	return to
}

// await takes in a node that waits for its place by a wish.
func (to *choice) await(n *nodeConn) {
	boot, w := n.addr.ID < 0, to.waiting
	if w == nil || boot && w.addr.ID >= 0 || boot == (w.addr.ID < 0) && n.place.Before(w.place) {
		to.waiting = n
	}
}

// see sorts in a node that has a connection, or will have one.
func (to *choice) see(n *nodeConn, now time.Time, c *NetworkClient, avoid bool) {
	switch n.state {
	case nodeConnecting:
		to.hope = true
		if now.Sub(n.attemptAt) < c.slowConnect {
			to.fresh = n
		} else {
			to.slow = n
		}
	case nodeReady:
		to.hope, to.up = true, true
		slot := &to.ready
		switch {
		case n.isThrottled(now):
			return
		case n.inFlight.waiting >= c.cfg.MaxInFlight:
			slot = &to.full
		case avoid:
			slot = &to.avoided
		}
		if *slot == nil || n.inFlight.waiting < (*slot).inFlight.waiting {
			*slot = n
		}
	case nodeClosing:
		to.hope = to.hope || n.planned
	case nodeIdle:
		to.hope = to.hope || n.attempts == 0 // it was connected, and nobody has tried since
	}
}

// LeastLoaded returns the broker to ask when any will do: a ready one with the fewest requests in flight, else
// one that is being connected, else the one that was not tried for the longest time. The caller goes on
// with Ready. There is none while all are in back-off, throttled or full.
//
// It is never a bootstrap server: a name can lead to another cluster by now, and only a metadata answer would tell.
func (c *NetworkClient) LeastLoaded(now time.Time) (protocol.Node, bool) {
	switch to := c.pick(now, noNode, true); {
	case c.closed:
	case to.ready != nil:
		return to.ready.addr, true
	case to.fresh != nil:
		return to.fresh.addr, true
	case to.connect.ok && to.mayWish():
		return c.wish(to.connect.addr).at, true
	case to.waiting != nil:
		return to.waiting.addr, true
	case to.slow != nil:
		return to.slow.addr, true
	}
	return protocol.Node{}, false
}

// fetch sends a metadata request.
func (c *NetworkClient) fetch(n *nodeConn, now time.Time) time.Duration {
	req := c.md.NewRequest(now)
	minVersion := int16(1) // v0 cannot ask for no topic
	if !req.AllowAutoTopicCreation {
		minVersion = 4
	}
	_, maxVersion := protocol.KeyMetadata.Versions()
	c.fetching = true
	if err := c.SendMessage(n.addr.ID, req, minVersion, maxVersion, c.onMetadata, now); err != nil {
		c.fetching = false
		c.avoid = n.addr.ID
		c.md.HandleFailure(err, now)
		c.md.SetFatal(err) // a broker does not grow younger
		return max(c.md.TimeToUpdate(now), c.reconnect.Initial)
	}
	return forever
}

// handleMetadata takes the answer to a metadata request.
func (c *NetworkClient) handleMetadata(r *Response) {
	c.fetching = false
	c.avoid = r.Node // whoever does not help is not the next to be asked
	err := r.Err
	if c.outdated && err == nil {
		err = errLeft
	}
	c.outdated = false
	if err != nil {
		c.md.HandleFailure(err, r.Now)
		return
	}
	resp := new(protocol.MetadataResponse)
	if err := resp.ReadInPlace(r.Body, r.Version); err != nil {
		err = fmt.Errorf("metadata from node %d: %w", r.Node, err)
		c.md.HandleFailure(err, r.Now)
		c.Disconnect(r.Node, err, r.Now)
		return
	}
	if r.Version >= throttleMetadata {
		c.Throttle(r.Node, time.Duration(resp.ThrottleTimeMs)*time.Millisecond, r.Now)
	}
	switch err := c.md.HandleResponse(r.Version, resp, r.Now); {
	case err == nil:
		c.avoid = noNode
		for _, n := range c.nodes {
			n.doubted = time.Time{}
		}
		if n := c.find(r.Node); n != nil {
			n.foreign = false
		}
	case errors.Is(err, protocol.RebootstrapRequired):
		c.rebootstrap(r.Now, true)
	case c.md.CheckCluster(deref(resp.ClusterID)) != nil:
		c.wrongCluster(r.Node, err, r.Now)
	default:
		c.log.Warn("metadata answer of no use", "node", r.Node, "err", err)
	}
}

// wrongCluster leaves a node that belongs to another cluster: nothing must be written there. Its address came from metadata that
// is out of date, so the bootstrap servers are asked again.
func (c *NetworkClient) wrongCluster(node int32, err error, now time.Time) {
	level := slog.LevelError
	if n := c.find(node); n != nil {
		if n.foreign {
			level = slog.LevelDebug // it was said
		}
		n.foreign = true
		err = fmt.Errorf("node %v: %w", n.addr, err)
	}
	c.log.Log(context.Background(), level, "wrong cluster", "node", node, "err", err)
	c.Disconnect(node, err, now)
	c.rebootstrap(now, true)
}

func deref(s *string) string {
	if s == nil {
		return ""
	}
	return *s
}

// rebootstrap closes all connections if the metadata went back to the bootstrap servers.
func (c *NetworkClient) rebootstrap(now time.Time, force bool) bool {
	if !c.md.Rebootstrap(now, force) {
		return false
	}
	c.lostSince = now
	c.outdated = c.fetching
	for _, n := range c.nodes {
		if n.addr.ID >= 0 {
			c.close(n, errLeft, true)
		}
	}
	return true
}
