package bufferpool

import (
	"context"
	"errors"
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
	dst = slices.Grow(dst, g.count())
	had := len(dst)

	p.mu.Lock()
	if p.closed {
		p.mu.Unlock()
		return dst, ErrClosed
	}
	if p.waiters.head == nil && p.free >= g.bytes() {
		dst, missing := p.takeLocked(dst, g)
		p.unlock()
		return p.complete(dst, had, missing), nil
	}
	if maxWait <= 0 {
		p.mu.Unlock()
		return dst, p.exhausted(n, maxWait)
	}
	w := p.newWaiterLocked()
	w.want, w.dst = g, dst
	p.enqueueLocked(w)
	p.unlock()

	dst, err := p.wait(ctx, w, had, maxWait)
	if err == errTimeIsUp {
		err = p.exhausted(n, maxWait)
	}
	return dst, err
}

func (p *BufferPool) newWaiterLocked() *waiter {
	if w := p.idleWaiters; w != nil {
		p.idleWaiters, w.next = w.next, nil
		return w
	}
	return &waiter{ready: make(chan struct{}, 1)}
}

// errTimeIsUp never leaves Allocate.
var errTimeIsUp = errors.New("time is up")

// wait blocks until w, which is in the queue, has its grant, dst[had:], or an error.
func (p *BufferPool) wait(ctx context.Context, w *waiter, had int, maxWait time.Duration) (dst [][]byte, err error) {
	start := time.Now()
	var settled, returned bool
	defer func() {
		if returned {
			return
		}
		// A hook panicked (BP-07): leave the queue, and give back what was granted.
		if !settled {
			dst, err = p.settle(w, had, errTimeIsUp)
		}
		if err == nil {
			p.Release(dst[had:])
		}
	}()
	if p.cfg.OnWait != nil {
		p.cfg.OnWait()
	}

	if w.timer == nil {
		w.timer = time.NewTimer(maxWait)
	} else {
		w.timer.Reset(maxWait)
	}
	var gaveUp error
	select {
	case <-w.ready:
	case <-w.timer.C:
		gaveUp = errTimeIsUp
	case <-ctx.Done():
		gaveUp = fmt.Errorf("waiting for buffer memory: %w", context.Cause(ctx))
	}
	w.timer.Stop()

	dst, err = p.settle(w, had, gaveUp)
	settled = true
	if p.cfg.OnWaited != nil {
		p.cfg.OnWaited(time.Since(start))
	}
	returned = true
	return dst, err
}

// settle ends the wait of w and forgets it. If it is still in the queue the result is gaveUp; otherwise its
// fate was decided, perhaps in the same moment as it gave up, and that counts: a grant is taken.
func (p *BufferPool) settle(w *waiter, had int, gaveUp error) ([][]byte, error) {
	p.mu.Lock()
	if w.queued {
		p.dequeueLocked(w)
		w.err = gaveUp
		p.serveLocked() // the next in line may want less than w did
	} else {
		select {
		case <-w.ready: // not received yet; the channel must be empty for the next use
		default:
		}
	}
	dst, missing, err := w.dst, w.missing, w.err
	w.dst, w.missing, w.err = nil, grant{}, nil
	if !p.closed {
		w.next, p.idleWaiters = p.idleWaiters, w
	}
	p.unlock()
	if err != nil {
		return dst, err
	}
	return p.complete(dst, had, missing), nil
}

// exhausted counts and describes a request that was given up.
func (p *BufferPool) exhausted(n int, waited time.Duration) error {
	if p.cfg.OnExhausted != nil {
		p.cfg.OnExhausted()
	}
	return fmt.Errorf("%w: no room for %d bytes within %v (%d of %d bytes free, %d others wait): more is sent than the brokers take; send less, or raise BufferMemory (buffer.memory) or MaxBlock (max.block.ms)",
		ErrExhausted, n, max(waited, 0), p.Available(), p.total, p.Waiting())
}
