package bufferpool

import (
	"context"
	"fmt"
	"slices"
	"time"
)

// waiter is one caller of Allocate in line. Who takes it out of the queue decides its fate, with mu held:
// serveLocked (granted), Close (err), or the caller itself (gives up). The first two send on ready.
type waiter struct {
	prev, next *waiter
	queued     bool

	want    grant
	dst     [][]byte // has room for the grant
	missing grant    // slabs of the grant that the waiter has to make
	err     error

	ready chan struct{} // room for one, so that sending under the lock cannot wait
	timer *time.Timer
}

// queue is first in, first out; anybody in it can leave in one step.
type queue struct{ head, tail *waiter }

func (p *BufferPool) enqueueLocked(w *waiter) {
	w.queued = true
	w.prev, w.next = p.waiters.tail, nil
	if w.prev != nil {
		w.prev.next = w
	} else {
		p.waiters.head = w
	}
	p.waiters.tail = w
	p.waiting.Add(1)
}

func (p *BufferPool) dequeueLocked(w *waiter) {
	if w.prev != nil {
		w.prev.next = w.next
	} else {
		p.waiters.head = w.next
	}
	if w.next != nil {
		w.next.prev = w.prev
	} else {
		p.waiters.tail = w.prev
	}
	w.prev, w.next, w.queued = nil, nil, false
	p.waiting.Add(-1)
}

// serveLocked hands free memory to those in front as long as it covers the whole of their requests.
// p.mu must be held.
func (p *BufferPool) serveLocked() {
	for w := p.waiters.head; w != nil && p.free >= w.want.bytes(); w = p.waiters.head {
		w.dst, w.missing = p.takeLocked(w.dst, w.want)
		p.dequeueLocked(w)
		w.ready <- struct{}{}
	}
}

// Allocate is TryAllocate that waits its turn for up to maxWait. It fails with a *TooLargeError at once when
// n exceeds the pool, with ErrExhausted when the time is over (at once when maxWait <= 0), with ErrClosed,
// or with the error of ctx; on failure nothing is lent. A ctx that has ended does not stop it from
// taking what is free.
func (p *BufferPool) Allocate(ctx context.Context, dst [][]byte, n int, small bool, maxWait time.Duration) ([][]byte, error) {
	if int64(n) > p.total {
		return dst, &TooLargeError{Size: int64(n), Total: p.total}
	}
	g := p.shape(n, small)
	grown := slices.Grow(dst, g.count())

	p.mu.Lock()
	if p.closed {
		p.mu.Unlock()
		return dst, ErrClosed
	}
	if p.waiters.head == nil && p.free >= g.bytes() {
		grown, missing := p.takeLocked(grown, g)
		p.unlock()
		return p.makeSlabs(grown, missing), nil
	}
	if maxWait <= 0 {
		p.mu.Unlock()
		return dst, p.exhausted(n, 0)
	}
	w := p.waiterLocked()
	w.want, w.dst = g, grown
	p.enqueueLocked(w)
	p.unlock()

	grown, err := p.wait(ctx, w, len(dst), n, maxWait)
	if err != nil {
		return dst, err
	}
	return grown, nil
}

func (p *BufferPool) waiterLocked() *waiter {
	if w := p.idleWaiters; w != nil {
		p.idleWaiters, w.next = w.next, nil
		return w
	}
	return &waiter{ready: make(chan struct{}, 1)}
}

// wait blocks until the waiter got its grant or gives up.
func (p *BufferPool) wait(ctx context.Context, w *waiter, had, n int, maxWait time.Duration) ([][]byte, error) {
	return nil, fmt.Errorf("todo")
}

func (p *BufferPool) exhausted(n int, waited time.Duration) error {
	return ErrExhausted
}
