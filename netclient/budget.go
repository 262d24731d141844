package netclient

import (
	"slices"
	"time"
)

// budget paces attempts to connect, over all nodes (delivery: no storm). Pauses alone do not: they belong to a node, and many nodes may be in trouble at once.
// Whoever has to wait gets the next free place, so that everybody has a turn, and places are evenly spaced, so that a turn comes soon for each.
type budget struct {
	next time.Time   // when the next attempt would be in time
	made []time.Time // of the last second
}

const (
	// pace is the time between places: with those that are early or late there are at most 20 attempts in any second.
	pace = 62 * time.Millisecond
	// pacedNodes is how many nodes the client may know before places come closer together: with more of them there is still about one a second for each, or they
	// could not all be found again soon after being back.
	pacedNodes = 20
	// early is how much before its time an attempt may be: three nodes that lose their connections together are tried together.
	early = 2 * pace
	// placeKept is how late a place may be taken. It is longer than the pace, so that a loop that is always late still takes some.
	placeKept = 100 * time.Millisecond
)

// interval is the time between places when so many nodes are known.
func interval(nodes int) time.Duration {
	return pace * (pacedNodes + 1) / time.Duration(max(pacedNodes, nodes)+1)
}

// mayTry reports whether n, which is past its pause, may be connected now. If not it waits for its place, and its delay says how long. The first attempt to
// connect to a broker does not wait for that, as long as the second is not full: a client that starts has to connect to all of them.
func (c *NetworkClient) mayTry(n *nodeConn, now time.Time) bool {
	if n.attemptAt.IsZero() && n.place.IsZero() && n.addr.ID >= 0 && c.budget.within(now) < max(pacedNodes, len(c.nodes)) {
		if c.budget.next.Sub(now) < time.Second+early { // very many must not hold up those in trouble for longer
			c.budget.take(now, len(c.nodes))
		}
		return true
	}
	if now.Sub(n.place) > placeKept {
		if twin := c.twin(n); twin != nil && now.Sub(twin.place) <= placeKept {
			n.place = twin.place // whichever is first
		} else {
			n.place = later(now, c.budget.next.Add(-early))
			c.budget.take(n.place, len(c.nodes))
		}
	}
	return !now.Before(n.place)
}

// within is how many attempts were made in the second that ends now.
func (b *budget) within(now time.Time) int {
	old := 0
	for old < len(b.made) && now.Sub(b.made[old]) >= time.Second {
		old++
	}
	b.made = slices.Delete(b.made, 0, old)
	return len(b.made)
}

// note takes in an attempt.
func (b *budget) note(now time.Time) {
	b.within(now) // or it would keep all of them
	b.made = append(b.made, now)
}

// take counts an attempt that is to be made then.
func (b *budget) take(at time.Time, nodes int) { b.next = later(b.next, at).Add(interval(nodes)) }
