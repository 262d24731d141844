package netclient

import (
	"slices"
	"time"
)

// budget bounds how often the client tries to connect, over all nodes (delivery: no storm). Pauses alone do not: they belong to a node,
// and many nodes may be in trouble at once. Whoever finds it spent gets the next free place, so that everybody has a turn.
type budget struct {
	places []time.Time // when attempts were, or are to be, made; ascending, without those that count no longer
}

const (
	// attemptsPerSecond is how many attempts to connect there may be within any second while the client knows no more nodes than that.
	// With more of them it is one for each: then they could not all be found again within a second of being back.
	attemptsPerSecond = 20
	// placeKept is how late a place may be taken. An attempt later than that asks for another, since it may meet those that others wait for.
	placeKept = 25 * time.Millisecond
	// budgetWindow is longer than a second by as much, and as much again for the time from here to the wire.
	budgetWindow = time.Second + 2*placeKept
)

// place returns the time of the next attempt, now or later, and counts it.
func (b *budget) place(now time.Time, limit int) time.Time {
	old := 0
	for old < len(b.places) && now.Sub(b.places[old]) >= budgetWindow {
		old++
	}
	b.places = slices.Delete(b.places, 0, old)
	at := now
	if n := len(b.places); n >= limit {
		at = later(now, b.places[n-limit].Add(budgetWindow))
	}
	b.places = append(b.places, at)
	return at
}

// mayTry reports whether n, which is past its pause, may be connected now. If not it waits for its place, and its delay says how long.
func (c *NetworkClient) mayTry(n *nodeConn, now time.Time) bool {
	late := now.Sub(n.place)
	if late > placeKept {
		n.place = c.budget.place(now, max(attemptsPerSecond, len(c.nodes)))
		late = now.Sub(n.place)
	}
	return late >= 0
}
