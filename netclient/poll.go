package netclient

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"time"

	"github.com/kafka-reservoir/producer/internal/invariants"
	"github.com/kafka-reservoir/producer/internal/mutants"
	"github.com/kafka-reservoir/producer/protocol"
)

// Poll does what is due, waits for at most timeout (less than zero: without limit) until something
// happens or Wakeup is called, runs the handlers of what happened, and returns the time then.
//
// It asks for metadata when that is due, fails requests that took too long, and closes connections that
// are not used; it returns early for these if need be, and waits otherwise.
func (c *NetworkClient) Poll(now time.Time, timeout time.Duration) time.Time {
	if c.closed {
		return now
	}
	wait := c.beforeSleep(now, timeout)
	c.sleepsUntil = now.Add(min(wait, longSleep))
	if wait == forever {
		wait = -1
	}
	return c.wake(now, wait)
}

// Look runs the handlers of what has happened, for somebody who assists while the owner sleeps in Poll, and returns the time. It does not wait.
func (c *NetworkClient) Look(now time.Time) time.Time {
	if c.closed {
		return now
	}
	return c.wake(now, 0)
}

// wake is the part of Poll from its sleep on.
func (c *NetworkClient) wake(now time.Time, wait time.Duration) time.Time {
	now, events := c.sel.Poll(now, wait)
	for i := range events {
		c.handle(&events[i], now)
	}
	c.failRefused(now)
	c.expireRequests(now)
	c.closeUnused(now)
	return now
}

// longSleep stands for a sleep without an end, where forever would overflow.
const longSleep = 10_000 * time.Hour

// beforeSleep does what is due, and returns how long nothing will be but for events.
func (c *NetworkClient) beforeSleep(now time.Time, timeout time.Duration) time.Duration {
	c.syncNodes(now)
	wait := c.updateMetadata(now)
	if timeout >= 0 {
		wait = min(wait, timeout)
	}
	if len(c.refused) > 0 {
		wait = 0
	}
	return c.untilDue(now, wait)
}

// SleepOn ends what somebody has done with the client while its owner sleeps in Poll: it does what Poll does before sleeping, and wakes the owner if
// that would sleep for too long now. See TCPConfig.Turn for who may do such things.
func (c *NetworkClient) SleepOn(now time.Time, timeout time.Duration) {
	if wait := c.beforeSleep(now, timeout); wait != forever && now.Add(wait).Before(c.sleepsUntil) {
		c.sel.Wakeup()
	}
}

// untilDue shortens wait to when the first request times out, or the first connection is closed as idle.
func (c *NetworkClient) untilDue(now time.Time, wait time.Duration) time.Duration {
	for _, n := range c.nodes {
		if n.state != nodeReady {
			continue
		}
		if t, ok := n.inFlight.nextDeadline(); ok {
			wait = min(wait, max(t.Sub(now), 0))
		} else if c.cfg.ConnectionsMaxIdle > 0 {
			wait = min(wait, max(c.cfg.ConnectionsMaxIdle-now.Sub(n.usedAt), 0))
		}
	}
	return wait
}

func (c *NetworkClient) handle(e *Event, now time.Time) {
	n := c.find(e.Node)
	if n == nil {
		invariants.Check(false, "event %d of node %d, which has no connection", e.Kind, e.Node)
		return
	}
	switch e.Kind {
	case Connected:
		c.connected(n, e.Versions, e.ClusterID, now)
	case Sent:
		c.released(n, e.ID, true, now)
	case Dropped:
		c.released(n, e.ID, false, now)
	case Received:
		c.received(n, e.Payload, now)
	case Disconnected:
		c.disconnected(n, e.Err, now)
	}
}

func (c *NetworkClient) connected(n *nodeConn, resp *protocol.ApiVersionsResponse, cluster string, now time.Time) {
	if n.state != nodeConnecting {
		return // closed meanwhile
	}
	if err := c.md.ConfirmCluster(cluster); err != nil {
		c.wrongCluster(n.addr.ID, err, now)
		return
	}
	troubled := n.lastErr != nil
	n.foreign = n.foreign && cluster == ""
	n.becomeReady(now, newAPIVersions(n.addr, resp))
	c.isThere(n, now)
	c.features.update(resp)
	c.lostSince = time.Time{}
	if n.versions.ranges[protocol.KeyAPIVersions].max >= throttleAPIVersions {
		c.Throttle(n.addr.ID, time.Duration(resp.ThrottleTimeMs)*time.Millisecond, now)
	}
	c.log.Info("connected", "node", n.addr.ID, "addr", n.addr.Addr(), "took", now.Sub(n.attemptAt), "again", troubled)
	c.log.Debug("api versions", "node", n.addr.ID, "offers", n.versions)
	if _, err := n.versions.pick(protocol.KeyProduce, 0, maxVersionOf(protocol.KeyProduce)); err != nil {
		c.log.Warn("broker cannot be produced to", "node", n.addr.ID, "err", err)
	}
	if c.cfg.ConnectDone != nil {
		c.cfg.ConnectDone(n.addr, now.Sub(n.attemptAt), nil)
	}
}

func maxVersionOf(key protocol.APIKey) int16 {
	_, highest := key.Versions()
	return highest
}

// released takes the news that the selector holds the frame no longer.
func (c *NetworkClient) released(n *nodeConn, id int32, written bool, now time.Time) {
	p := n.inFlight.held(id)
	if p == nil {
		c.releaseLate(id)
		return
	}
	p.released, p.written = true, written
	done := written && p.noResponse && !p.answered
	if done {
		n.inFlight.settle(p)
		c.inFlight--
	}
	q := *p
	n.inFlight.trim()
	q.handler.HandleReleased()
	if done {
		c.answer(n, &q, nil, 0, nil, now)
	}
}

// releaseLate takes the news for a frame that was sent while the end of its connection was in the queue.
func (c *NetworkClient) releaseLate(id int32) {
	i := slices.IndexFunc(c.late, func(l lateRelease) bool { return l.id == id })
	invariants.Check(i >= 0, "frame %d released, which is not held", id)
	if i >= 0 {
		h := c.late[i].handler
		c.late = slices.Delete(c.late, i, i+1)
		h.HandleReleased()
	}
}

// lateRelease is a frame that the selector still has to give back, though its request is answered.
type lateRelease struct {
	id      int32
	handler Handler
}

// received matches a response to its request. One that cannot be right ends the connection: after it
// nothing that comes could be trusted (S-100).
func (c *NetworkClient) received(n *nodeConn, payload []byte, now time.Time) {
	if n.deaf || n.versions == nil {
		return
	}
	n.usedAt = now
	p := n.inFlight.next()
	if p == nil {
		c.Disconnect(n.addr.ID, errors.New("a response came although no request was waiting: the connection is damaged, or not to a Kafka broker"), now)
		return
	}
	corr, body, err := protocol.ReadResponseHeader(payload, p.api, p.version)
	if err == nil && corr != p.corr && !mutants.On(mutants.AnyCorrelation) {
		err = fmt.Errorf("correlation id %d instead of %d: the connection is damaged, or not to a Kafka broker", corr, p.corr)
	}
	if err != nil {
		c.Disconnect(n.addr.ID, fmt.Errorf("response to %v v%d: %w", p.api, p.version, err), now)
		return
	}
	n.inFlight.settle(p)
	c.inFlight--
	q := *p
	n.inFlight.trim()
	c.answer(n, &q, body, len(payload), nil, now)
}

// answer ends a request that is settled.
func (c *NetworkClient) answer(n *nodeConn, p *pending, body []byte, read int, err error, now time.Time) {
	if c.cfg.RequestDone != nil {
		c.cfg.RequestDone(n.addr.ID, p.api, p.version, p.size, read, now.Sub(p.sentAt), err)
	}
	if c.log.Enabled(context.Background(), slog.LevelDebug) {
		c.log.Debug("answer", "node", n.addr.ID, "api", p.api, "corr", p.corr, "took", now.Sub(p.sentAt), "err", err)
	}
	c.resp = Response{
		Node: n.addr.ID, API: p.api, Version: p.version, CorrelationID: p.corr,
		Body: body, Err: err, Written: p.written, SentAt: p.sentAt, Now: now,
	}
	p.handler.HandleResponse(&c.resp)
}

// disconnected ends a connection, or an attempt to make one, and fails what was in flight.
func (c *NetworkClient) disconnected(n *nodeConn, err error, now time.Time) {
	if n.state == nodeIdle {
		return
	}
	if n.why != nil {
		err = n.why
	}
	wasUp, planned, oneWay := n.versions != nil, n.planned, n.oneWay
	lost := n.inFlight.waiting
	// A request that is not answered was refused, perhaps, since it should not have gone there. The next one would be refused as well, and take with it what was to
	// tell where it should go.
	if oneWay && n.why == nil {
		n.doubted = now.Add(maxDoubt)
	}
	n.becomeIdle(now, err, c.lived(n), c.reconnect)
	if !wasUp && !planned {
		c.waitTogether(n)
	}
	c.logEnd(n, err, wasUp, planned, lost)
	if !wasUp && c.cfg.ConnectDone != nil {
		c.cfg.ConnectDone(n.addr, now.Sub(n.attemptAt), err)
	}
	var refused *AuthenticationError
	switch {
	case errors.As(err, &refused):
		c.md.HandleDisconnect(err)
		c.md.SetFatal(err)
	case !planned && (!wasUp || lost > 0 || oneWay):
		// A connection that was lost while nothing used it is no news: brokers close idle ones. But after requests without
		// answers it may be the only word of a broker that leads their partitions no more.
		c.md.HandleDisconnect(err)
	}
	c.failAll(n, err, now)
	if errors.Is(err, protocol.RebootstrapRequired) {
		c.rebootstrap(now, true)
	}
}

// logEnd warns once for each time that a node gets into trouble, not for each attempt.
func (c *NetworkClient) logEnd(n *nodeConn, err error, wasUp, planned bool, lost int) {
	switch {
	case planned:
		c.log.Info("disconnected", "node", n.addr.ID, "addr", n.addr.Addr(), "err", err)
	case wasUp && lost > 0:
		c.log.Warn("connection lost", "node", n.addr.ID, "addr", n.addr.Addr(), "in_flight", lost, "err", err)
	case wasUp:
		c.log.Info("connection closed by the broker", "node", n.addr.ID, "addr", n.addr.Addr(), "err", err)
	case n.attempts == 1:
		c.log.Warn("cannot connect", "node", n.addr.ID, "addr", n.addr.Addr(), "err", err)
	default:
		c.log.Debug("still cannot connect", "node", n.addr.ID, "addr", n.addr.Addr(), "attempt", n.attempts, "err", err)
	}
}

// failAll answers everything in flight on a connection that has ended, in the order of sending.
func (c *NetworkClient) failAll(n *nodeConn, cause error, now time.Time) {
	f := n.inFlight
	n.inFlight = inFlight{} // handlers may begin a new connection
	if mutants.On(mutants.InFlightKept) {
		n.inFlight.waiting = f.waiting
	}
	for i := range f.len() {
		p := f.at(i)
		if !p.released {
			// All frames of a connection are sent or dropped before its end is reported, so this one was sent by a handler
			// while that report lay unread: it cannot have been written, and the selector drops it next.
			c.late = append(c.late, lateRelease{p.corr, p.handler})
		}
		if p.answered {
			continue
		}
		p.answered = true
		c.inFlight--
		kind := ErrDisconnected
		if p.timedOut {
			kind = ErrRequestTimeout
		}
		c.answer(n, p, nil, 0, &RequestError{Node: n.addr, API: p.api, Kind: kind, Cause: cause}, now)
	}
	if n.inFlight.ring == nil {
		clear(f.ring)
		n.inFlight.ring = f.ring // for the next connection
	}
}

// failRefused answers requests that were sent to nodes that were not ready.
func (c *NetworkClient) failRefused(now time.Time) {
	refused := c.refused
	c.refused = nil // handlers may send again
	for i := range refused {
		r := &refused[i]
		r.Handler.HandleReleased()
		n := nodeConn{addr: protocol.Node{ID: r.Node}}
		if known := c.find(r.Node); known != nil {
			n.addr = known.addr
		}
		p := pending{handler: r.Handler, api: r.API, version: r.Version, corr: r.CorrelationID, size: r.Frame.Size, sentAt: now}
		c.answer(&n, &p, nil, 0, &RequestError{Node: n.addr, API: r.API, Kind: ErrDisconnected}, now)
	}
}

// expireRequests closes the connections on which a request has waited for too long.
func (c *NetworkClient) expireRequests(now time.Time) {
	for _, n := range c.nodes {
		if n.state != nodeReady {
			continue
		}
		if p := n.inFlight.expire(now); p != nil {
			missing := "answered"
			if p.noResponse {
				missing = "taken by the broker" // whose socket's buffer is full
			}
			c.close(n, fmt.Errorf("closed, since %v v%d was not %s within %v", p.api, p.version, missing, p.timeout), false)
		}
	}
}

// Close ends all connections and fails what is in flight. The selector is shut down when it returns;
// every other method does nothing from then on.
func (c *NetworkClient) Close() {
	if c.closed {
		return
	}
	c.closed = true
	c.sel.Shutdown()
	var now time.Time
	for _, n := range c.nodes {
		n.state, n.versions = nodeIdle, nil
		for i := range n.inFlight.len() {
			now = later(now, n.inFlight.at(i).sentAt)
		}
	}
	for _, n := range c.nodes {
		for i := range n.inFlight.len() {
			if p := n.inFlight.at(i); !p.released {
				p.written = true // perhaps: the selector says no more
			}
		}
		c.failAll(n, ErrClosed, now)
	}
	c.failRefused(now)
	for _, l := range c.late {
		l.handler.HandleReleased()
	}
	c.late = nil
}

// later returns the later of two times. Close asks no clock: its answers bear the time of the last send.
func later(a, b time.Time) time.Time {
	if b.After(a) {
		return b
	}
	return a
}
