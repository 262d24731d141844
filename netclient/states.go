package netclient

import (
	"cmp"
	"errors"
	"math"
	"slices"
	"time"

	"github.com/kafka-reservoir/producer/internal/backoff"
	"github.com/kafka-reservoir/producer/internal/invariants"
	"github.com/kafka-reservoir/producer/internal/mutants"
	"github.com/kafka-reservoir/producer/protocol"
)

// nodeState is where a node stands, seen from the client.
type nodeState uint8

const (
	nodeIdle       nodeState = iota // no connection; retryAt says when there may be one
	nodeConnecting                  // Connect was called
	nodeReady                       // Connected came
	nodeClosing                     // Close was called; only Disconnected ends this
)

func (s nodeState) String() string {
	return [...]string{"idle", "connecting", "ready", "closing"}[s]
}

// forever stands for a delay that only an event ends.
const forever time.Duration = math.MaxInt64

// Reasons for closing a connection that worked.
var (
	errIdle  = errors.New("closed after a time without requests")
	errMoved = errors.New("closed, since the node has another address now")
	errGone  = errors.New("closed, since the node is no longer part of the cluster")
	errLeft  = errors.New("closed, since the bootstrap servers are asked again")
	errAsked = errors.New("closed by the client")
)

// nodeConn is what the client knows of one node and its connection.
//
// The state is changed by the become methods only:
//
//	idle -> connecting -> ready -> closing -> idle
//	             |          '--------------->  |     the connection ends by itself
//	             '----> closing, idle               the attempt fails, or is given up
type nodeConn struct {
	addr  protocol.Node // where the connection goes, or went last
	at    protocol.Node // where the node is, as was last heard
	state nodeState

	// Of the current connection.
	versions *apiVersions // nil until ready
	inFlight inFlight
	why      error // why it is being closed
	planned  bool  // and that this is no failure of the node
	deaf     bool  // what still comes from it is not believed
	gone     bool  // the node is not in the metadata: close it once nothing is in flight
	oneWay   bool  // it carried requests that are not answered (acks=0): a broker that refuses one closes the connection

	// Across connections.
	failures  int           // connections in a row that ended, the last one that was ready included
	failing   time.Time     // since when
	lost      int           // connections that were ready and ended, each soon after the one before; the first does not count
	lostAt    time.Time     // when the last one that was ready ended
	moves     int           // changes of address, each soon after the one before; the first does not count
	movedAt   time.Time     // when the last one was seen
	attempts  int           // of these, attempts that never became ready
	attemptAt time.Time     // when the last attempt began
	patience  time.Duration // how long it may take
	retryAt   time.Time     // before this no new attempt
	place     time.Time     // nor before this, its place in the budget for attempts; zero: it has none
	wished    bool          // that place is for who would have any node, not for what waits for this one
	usedAt    time.Time     // last request or response
	throttled time.Time     // before this no new request
	lastErr   error         // why the last connection, or attempt, failed; nil once ready
	lived     bool          // a connection to where it is was ready once
	doubted   time.Time     // before this no new request: it closed a connection that was oneWay; zero when metadata was heard since
	foreign   bool          // it said that it belongs to another cluster, and has not named ours since
}

func (n *nodeConn) becomeConnecting(addr protocol.Node, now time.Time, patience time.Duration) {
	invariants.Check(n.state == nodeIdle, "connect to node %v while %v", addr, n.state)
	n.state = nodeConnecting
	n.addr = addr
	n.attemptAt, n.patience = now, patience
	n.place, n.wished = time.Time{}, false
	n.gone = false
}

// becomeReady is the only place where the count of failures is reset: a node that accepts connections
// and drops them before they are of any use must not be tried ever faster (CCS-06).
func (n *nodeConn) becomeReady(now time.Time, versions *apiVersions) {
	invariants.Check(n.state == nodeConnecting, "node %v ready while %v", n.addr, n.state)
	n.state = nodeReady
	n.versions = versions
	n.failures, n.attempts = 0, 0
	n.lastErr = nil
	n.usedAt = now
	n.lived = true
}

// becomeClosing notes why the connection ends. planned tells a decision of ours from a failure.
func (n *nodeConn) becomeClosing(why error, planned bool) {
	invariants.Check(n.state == nodeConnecting || n.state == nodeReady, "close node %v while %v", n.addr, n.state)
	n.state = nodeClosing
	n.why, n.planned = why, planned
}

// becomeIdle ends the connection. The next attempt has to wait, unless the end was planned or the node is elsewhere by now. lived tells whether
// there was ever somebody at its address.
func (n *nodeConn) becomeIdle(now time.Time, err error, lived bool, reconnect backoff.Exponential) {
	n.state = nodeIdle
	if !n.planned && sameAddress(n.addr, n.at) {
		if n.versions == nil {
			n.attempts++
		} else {
			n.countLost(now, reconnect.Max)
		}
		n.lastErr = err
		if n.failures == 0 {
			n.failing = now
		}
		attempt, trouble := max(n.failures, min(n.lost, maxLost)), now.Sub(n.failing)
		delay := reconnect.Delay(attempt)
		switch {
		case answers(err):
			delay = reconnect.DelayIn(attempt, trouble, harmlessHostile)
		case lived:
			delay = reconnect.DelayIn(attempt, trouble, harmlessAbsent)
		}
		n.retryAt = now.Add(delay)
		n.failures++
	}
	n.versions, n.why, n.planned, n.deaf, n.gone, n.oneWay = nil, nil, false, false, false, false
}

// How far the pause grows as long as that has not lasted for ten times as long: for a node that takes connections but breaks them off before they are up,
// and for one that is away. More than for batches, so that three such brokers rarely have to wait for each other. A broker that is back is to be written to within half a second; one that never was where it is said to be has no
// such claim, and is tried ever less often at once.
const (
	harmlessHostile = 240 * time.Millisecond
	harmlessAbsent  = 380 * time.Millisecond
)

// answers reports whether an attempt failed although there was somebody at the address.
func answers(err error) bool {
	var e *ConnectError
	return errors.As(err, &e) && e.Step > StepDial && !e.Timeout()
}

// maxLost bounds how far the pause grows for a node that takes connections, or changes its address: to four times its start.
const maxLost = 2

// countLost has the pause be longer while connections that were ready keep ending, each within bound of the one before. In Java a
// connection that became ready is enough to start anew, so that a node that answers nonsense, or resets connections that
// carry requests, is connected twenty times a second. To let the pause grow to its bound would keep partitions waiting for
// a node that is well again.
func (n *nodeConn) countLost(now time.Time, bound time.Duration) {
	n.lost++
	if n.lostAt.IsZero() || now.Sub(n.lostAt) >= bound {
		n.lost = 0
	}
	n.lostAt = now
}

// moveTo takes in where the node is. What happened at an old address does not count, and the new one is tried at once, or at the place in the
// budget that the node has, unless the address has just changed before: while brokers do not agree on it, each answer may undo what the one before said. The pause
// counts from the last attempt, so that an address which changes faster than it lasts is tried all the same.
func (n *nodeConn) moveTo(addr protocol.Node, now time.Time, reconnect backoff.Exponential) {
	if sameAddress(n.at, addr) {
		return
	}
	n.at = addr
	n.failures, n.lost, n.attempts, n.retryAt, n.lastErr, n.lived = 0, 0, 0, time.Time{}, nil, false
	n.moves++
	if n.movedAt.IsZero() || now.Sub(n.movedAt) >= reconnect.Max {
		n.moves = 0
	}
	n.movedAt = now
	if n.moves > 0 {
		n.retryAt = n.attemptAt.Add(reconnect.Delay(min(n.moves-1, maxLost)))
	}
}

// waitTogether has an attempt that failed count for a broker and for the bootstrap server at the same address alike: it is one host, and
// would be tried twice as often under two names. Two brokers at one address are left alone: one of them is no longer there, and what
// happened to it says nothing of the other.
func (c *NetworkClient) waitTogether(n *nodeConn) {
	for _, m := range c.nodes {
		if (m.addr.ID < 0) != (n.addr.ID < 0) && m.state == nodeIdle && sameAddress(m.at, n.addr) && sameAddress(n.at, n.addr) {
			if m.failures < n.failures {
				m.failures, m.failing = n.failures, n.failing
			}
			if n.retryAt.After(m.retryAt) {
				m.retryAt = n.retryAt
			}
		}
	}
}

// lived reports whether a connection to n's address was ready once, under whatever name.
func (c *NetworkClient) lived(n *nodeConn) bool {
	return slices.ContainsFunc(c.nodes, func(m *nodeConn) bool { return m.lived && sameAddress(m.at, n.addr) })
}

// twin returns the bootstrap server at a broker's address, or the broker at a bootstrap server's; nil: there is none.
func (c *NetworkClient) twin(n *nodeConn) *nodeConn {
	for _, m := range c.nodes {
		if (m.addr.ID < 0) != (n.addr.ID < 0) && sameAddress(m.at, n.at) {
			return m
		}
	}
	return nil
}

// isThere ends the wait of a broker at whose address a bootstrap server has answered.
func (c *NetworkClient) isThere(n *nodeConn, now time.Time) {
	for _, m := range c.nodes {
		if n.addr.ID < 0 && m.addr.ID >= 0 && m.state == nodeIdle && m.attempts > 0 && sameAddress(m.at, n.addr) {
			m.retryAt = time.Time{}
			if now.Sub(m.place) > placeKept {
				c.budget.take(now, len(c.nodes))
			}
			m.place = now
		}
	}
}

func (n *nodeConn) canConnect(now time.Time) bool {
	return n.state == nodeIdle && !now.Before(n.retryAt) && !now.Before(n.place)
}

func (n *nodeConn) isThrottled(now time.Time) bool { return now.Before(n.throttled) }

// maxDoubt is how long a node that may have refused a request without answer gets no other one while metadata is asked for.
const maxDoubt = time.Second

// delay is how long until the node may become usable by the passing of time alone.
func (n *nodeConn) delay(now time.Time) time.Duration {
	switch {
	case n.state == nodeIdle:
		return max(n.retryAt.Sub(now), n.place.Sub(now), 0)
	case n.state == nodeConnecting:
		if d := n.patience - now.Sub(n.attemptAt); d > 0 {
			return d
		}
	case n.state == nodeReady && n.isThrottled(now) && !mutants.On(mutants.ThrottleWithoutTimer):
		return max(n.throttled.Sub(now), n.doubted.Sub(now))
	case n.state == nodeReady && now.Before(n.doubted):
		return n.doubted.Sub(now)
	}
	return forever
}

func sameAddress(a, b protocol.Node) bool { return a.Host == b.Host && a.Port == b.Port }

// find returns the connection of a node, or nil.
func (c *NetworkClient) find(id int32) *nodeConn {
	if i, ok := c.search(id); ok {
		return c.nodes[i]
	}
	return nil
}

func (c *NetworkClient) search(id int32) (int, bool) {
	return slices.BinarySearchFunc(c.nodes, id, func(n *nodeConn, id int32) int { return cmp.Compare(n.addr.ID, id) })
}

// ensure returns the connection of a node, which is new if need be.
func (c *NetworkClient) ensure(addr protocol.Node) *nodeConn {
	i, ok := c.search(addr.ID)
	if !ok {
		c.nodes = slices.Insert(c.nodes, i, &nodeConn{addr: addr, at: addr})
	}
	return c.nodes[i]
}

// forgetAfter is how long a node that is gone is remembered, so that its back-off survives a time in which
// metadata does not list it.
const forgetAfter = time.Minute

// syncNodes brings the connections in line with the nodes that metadata knows. A node with a new address
// is closed at once: nothing more may go to the old one, where another broker may be by now. A node that is
// gone gets no new requests, and is closed when it has answered the old ones.
func (c *NetworkClient) syncNodes(now time.Time) {
	nodes := c.md.Nodes()
	if len(nodes) == len(c.synced) && (len(nodes) == 0 || &nodes[0] == &c.synced[0]) { // snapshots share an unchanged list
		if !c.sweepAt.IsZero() && !now.Before(c.sweepAt) {
			c.forgetNodes(nodes, now)
		}
		return
	}
	c.synced = nodes
	for _, n := range c.nodes {
		addr, known := findNode(nodes, n.addr.ID)
		n.gone = !known && n.addr.ID >= 0 // bootstrap connections end by being idle
		if known {
			n.moveTo(addr, now, c.reconnect)
		}
		switch {
		case known && !sameAddress(addr, n.addr):
			c.close(n, errMoved, true)
		case n.gone && n.inFlight.waiting == 0:
			c.close(n, errGone, true)
		}
	}
	c.forgetNodes(nodes, now)
}

// forgetNodes drops what is known of nodes that are no longer among these, after a while.
func (c *NetworkClient) forgetNodes(nodes []protocol.Node, now time.Time) {
	c.sweepAt = time.Time{}
	c.nodes = slices.DeleteFunc(c.nodes, func(n *nodeConn) bool {
		if _, known := findNode(nodes, n.addr.ID); known {
			return false
		}
		if n.state == nodeIdle && now.Sub(n.attemptAt) > forgetAfter && !now.Before(n.throttled) {
			if c.cfg.NodeForgotten != nil {
				c.cfg.NodeForgotten(n.addr.ID)
			}
			return true
		}
		c.sweepAt = now.Add(forgetAfter)
		return false
	})
}

func findNode(nodes []protocol.Node, id int32) (protocol.Node, bool) {
	i, ok := slices.BinarySearchFunc(nodes, id, func(n protocol.Node, id int32) int { return cmp.Compare(n.ID, id) })
	if !ok {
		return protocol.Node{}, false
	}
	return nodes[i], true
}

// closeUnused closes connections that carried nothing for a while, and those of nodes that are gone.
func (c *NetworkClient) closeUnused(now time.Time) {
	for _, n := range c.nodes {
		if n.state != nodeReady || n.inFlight.waiting > 0 {
			continue
		}
		if n.gone {
			c.close(n, errGone, true)
		} else if c.cfg.ConnectionsMaxIdle > 0 && now.Sub(n.usedAt) >= c.cfg.ConnectionsMaxIdle {
			c.close(n, errIdle, true)
		}
	}
}
