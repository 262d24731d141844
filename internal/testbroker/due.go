package testbroker

import (
	"container/heap"
	"time"
)

// event is something that the core does later.
type event struct {
	at    time.Time
	seq   int64 // keeps the order among those of the same time
	kind  eventKind
	conn  *conn
	bytes []byte
	entry *Entry
	how   Drop
	fetch *pendingFetch
}

type eventKind int

const (
	eventServe eventKind = iota // look whether requests of conn may be carried out
	eventWrite
	eventClose
	eventFetch // answer a parked fetch
)

// dueQueue orders events by time, and by order of arrival at the same time.
type dueQueue struct {
	events eventHeap
	pushed int64
	// wake is called when the first event is another one. It must not block; nil for none.
	wake func()
}

func (q *dueQueue) push(e event) {
	q.pushed++
	e.seq = q.pushed
	heap.Push(&q.events, e)
	if q.wake != nil && q.events[0].seq == e.seq {
		q.wake()
	}
}

// pop is the first event that is due at now.
func (q *dueQueue) pop(now time.Time) (event, bool) {
	if len(q.events) == 0 || q.events[0].at.After(now) {
		return event{}, false
	}
	return heap.Pop(&q.events).(event), true
}

func (q *dueQueue) next() (time.Time, bool) {
	if len(q.events) == 0 {
		return time.Time{}, false
	}
	return q.events[0].at, true
}

type eventHeap []event

func (h eventHeap) Len() int { return len(h) }
func (h eventHeap) Less(i, j int) bool {
	if h[i].at.Equal(h[j].at) {
		return h[i].seq < h[j].seq
	}
	return h[i].at.Before(h[j].at)
}
func (h eventHeap) Swap(i, j int) { h[i], h[j] = h[j], h[i] }
func (h *eventHeap) Push(x any)   { *h = append(*h, x.(event)) }
func (h *eventHeap) Pop() any {
	old := *h
	last := len(old) - 1
	e := old[last]
	old[last] = event{}
	*h = old[:last]
	return e
}
