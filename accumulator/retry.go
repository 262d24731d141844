package accumulator

import "time"

// retryEntry says when a partition's first batch may be sent again.
type retryEntry struct {
	at  time.Time
	d   *deque
	gen uint32 // dead unless d.retryGen
}

// retryHeap orders partitions in back-off by the end of it. Entries are not taken out when a partition
// leaves back-off by another way: they die.
type retryHeap []retryEntry

func (h *retryHeap) push(e retryEntry) {
	q := append(*h, e)
	i := len(q) - 1
	for i > 0 {
		p := (i - 1) / 2
		if !q[i].at.Before(q[p].at) {
			break
		}
		q[i], q[p] = q[p], q[i]
		i = p
	}
	*h = q
}

func (h *retryHeap) pop() retryEntry {
	q := *h
	e := q[0]
	n := len(q) - 1
	q[0] = q[n]
	q[n] = retryEntry{}
	q = q[:n]
	for i := 0; ; {
		c := 2*i + 1
		if c >= n {
			break
		}
		if c+1 < n && q[c+1].at.Before(q[c].at) {
			c++
		}
		if !q[c].at.Before(q[i].at) {
			break
		}
		q[i], q[c] = q[c], q[i]
		i = c
	}
	*h = q
	return e
}

// drop removes dead entries from the top.
func (h *retryHeap) drop() {
	for len(*h) > 0 && (*h)[0].gen != (*h)[0].d.retryGen {
		h.pop()
	}
}

// due takes the next partition whose back-off is over.
func (h *retryHeap) due(now time.Time) (*deque, bool) {
	h.drop()
	if len(*h) == 0 || (*h)[0].at.After(now) {
		return nil, false
	}
	return h.pop().d, true
}

// next is when the next back-off ends.
func (h *retryHeap) next() (time.Time, bool) {
	h.drop()
	if len(*h) == 0 {
		return time.Time{}, false
	}
	return (*h)[0].at, true
}
