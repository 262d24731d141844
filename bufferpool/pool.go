package bufferpool

import (
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/kafka-reservoir/producer/internal/invariants"
)

const (
	// SlabSize is the capacity of an ordinary slab.
	SlabSize = 16 << 10
	// SmallSlabSize is the capacity of the slab a batch may begin with, so that thousands of partitions
	// with a record or two each do not hold 16 KiB apiece.
	SmallSlabSize = 2 << 10
)

var (
	// ErrExhausted is the cause when no memory came free within the time a caller was ready to wait.
	ErrExhausted = errors.New("buffer memory exhausted")
	// ErrClosed is the cause when the pool was closed, before the call or while it waited.
	ErrClosed = errors.New("buffer memory closed")
)

// TooLargeError says that a request can never be met: it exceeds the whole pool.
type TooLargeError struct {
	Size  int64 // bytes asked for
	Total int64 // bytes the pool has
}

// Error implements error.
func (e *TooLargeError) Error() string {
	return fmt.Sprintf("%d bytes exceed the buffer memory of %d bytes", e.Size, e.Total)
}

// Config is what New needs. The hooks may be nil. They are called without any lock held, by the goroutines
// that allocate, several at once; one that panics costs no memory.
type Config struct {
	// Total is the bound in bytes (buffer.memory).
	Total int64
	// OnWait is called each time a caller begins to wait, when it already counts in Waiting: wakes the sender.
	OnWait func()
	// OnWaited is called when a wait ends, however it ends, with its length (bufferpool-wait-time).
	OnWaited func(time.Duration)
	// OnExhausted is called for each Allocate that fails with ErrExhausted (buffer-exhausted-total).
	OnExhausted func()
}

// BufferPool lends slabs and bounds their total size. Its methods may be called from any goroutine.
type BufferPool struct {
	total int64
	cfg   Config

	waiting atomic.Int32 // length of waiters; written with mu held, read without

	mu     sync.Mutex // a leaf: nothing is locked, called or waited for while it is held
	closed bool
	// Invariant, at every unlock: free + lent == total, and the bytes in the free lists are <= free.
	// A grant is lent from the moment it is made, also while its waiter has not yet woken up.
	free, lent  int64
	slabs       [][]byte // free list of SlabSize, last in first out: the warmest first
	smallSlabs  [][]byte // free list of SmallSlabSize
	waiters     queue
	idleWaiters *waiter       // linked by next: channel and timer are used again
	out         map[*byte]int // only under -tags invariants: the slabs lent and their capacities
}

// New returns a pool of cfg.Total bytes, all of them free and none of them made yet.
func New(cfg Config) *BufferPool {
	p := &BufferPool{total: max(cfg.Total, 0), cfg: cfg}
	p.free = p.total
	if invariants.Enabled {
		p.out = make(map[*byte]int)
	}
	return p
}

// grant is the shape of what one call gets: a number of ordinary slabs and, when tail is not 0, a last one
// of that capacity.
type grant struct {
	slabs int
	tail  int
}

func (g grant) bytes() int64 { return int64(g.slabs)*SlabSize + int64(g.tail) }

func (g grant) count() int {
	if g.tail > 0 {
		return g.slabs + 1
	}
	return g.slabs
}

// shape rounds n up to slabs. A request that fits the pool by itself but not when rounded up gets a last slab
// that is cut to what the pool has, so that every n <= total can be met, in a pool smaller than a slab too.
// The caller checked that n <= total.
func (p *BufferPool) shape(n int, small bool) grant {
	n = max(n, 0)
	if small && n <= SmallSlabSize && SmallSlabSize <= p.total {
		return grant{tail: SmallSlabSize}
	}
	whole, rest := n/SlabSize, n%SlabSize
	if rest == 0 {
		return grant{slabs: whole}
	}
	if up := (grant{slabs: whole + 1}); up.bytes() <= p.total {
		return up
	}
	up := grant{slabs: whole, tail: (rest + SmallSlabSize - 1) / SmallSlabSize * SmallSlabSize}
	if up.bytes() <= p.total {
		return up
	}
	return grant{slabs: whole, tail: rest}
}

// TryAllocate appends to dst slabs (length 0) whose capacities sum to at least n and reports whether it did.
// It never waits, is all or nothing, and refuses while others wait. With small set, a request of up to
// SmallSlabSize is met by one slab of that size. The slabs belong to the caller until it releases them.
func (p *BufferPool) TryAllocate(dst [][]byte, n int, small bool) ([][]byte, bool) {
	if int64(n) > p.total {
		return dst, false
	}
	g := p.shape(n, small)
	dst = slices.Grow(dst, g.count()) // not under the lock
	p.mu.Lock()
	if p.closed || p.waiters.head != nil || p.free < g.bytes() {
		p.mu.Unlock()
		return dst, false
	}
	had := len(dst)
	dst, missing := p.takeLocked(dst, g)
	p.unlock()
	return p.complete(dst, had, missing), true
}

// takeLocked lends g: it appends to dst what lies in the free lists and returns which slabs are still to be
// made, by makeSlabs, without the lock. dst has room; p.free covers g. p.mu must be held.
func (p *BufferPool) takeLocked(dst [][]byte, g grant) ([][]byte, grant) {
	p.free -= g.bytes()
	p.lent += g.bytes()
	missing := g
	if k := min(g.slabs, len(p.slabs)); k > 0 {
		dst = takeLast(dst, &p.slabs, k)
		missing.slabs -= k
	}
	if g.tail == SmallSlabSize && len(p.smallSlabs) > 0 {
		dst = takeLast(dst, &p.smallSlabs, 1)
		missing.tail = 0
	}
	// What will be made must not come on top of what lies here. A list is empty if one of its size is
	// missing, so this drops only from the other.
	for p.listedLocked() > p.free {
		if n := len(p.smallSlabs); n > 0 {
			p.smallSlabs = dropLast(p.smallSlabs)
		} else {
			p.slabs = dropLast(p.slabs)
		}
	}
	return dst, missing
}

func takeLast(dst [][]byte, list *[][]byte, k int) [][]byte {
	rest := len(*list) - k
	dst = append(dst, (*list)[rest:]...)
	clear((*list)[rest:])
	*list = (*list)[:rest]
	return dst
}

func dropLast(list [][]byte) [][]byte {
	list[len(list)-1] = nil
	return list[:len(list)-1]
}

func (p *BufferPool) listedLocked() int64 {
	return int64(len(p.slabs))*SlabSize + int64(len(p.smallSlabs))*SmallSlabSize
}

// complete makes the slabs that takeLocked did not find, outside the lock because that clears memory. The
// grant is then dst[had:].
func (p *BufferPool) complete(dst [][]byte, had int, missing grant) [][]byte {
	for range missing.slabs {
		dst = append(dst, make([]byte, 0, SlabSize))
	}
	if missing.tail > 0 {
		dst = append(dst, make([]byte, 0, missing.tail))
	}
	if invariants.Enabled {
		p.noteLent(dst[had:])
	}
	return dst
}

// Release takes slabs back, in any order and any combination of grants, and serves those who wait. The
// slabs must come from this pool, not cut at the front, and nobody may use them afterwards, a writer to a
// socket included. The slice that lists them stays the caller's.
func (p *BufferPool) Release(slabs [][]byte) {
	p.mu.Lock()
	for _, s := range slabs {
		p.putLocked(s)
	}
	p.serveLocked()
	p.unlock()
}

// putLocked takes one slab back. p.mu must be held.
func (p *BufferPool) putLocked(s []byte) {
	n := cap(s)
	if invariants.Enabled {
		p.noteReturnedLocked(s)
	}
	p.free += int64(n)
	p.lent -= int64(n)
	if p.closed {
		return
	}
	switch n {
	case SlabSize:
		p.slabs = append(p.slabs, s[:0])
	case SmallSlabSize:
		p.smallSlabs = append(p.smallSlabs, s[:0])
	}
}

// unlock ends a locked section that changed the accounts.
func (p *BufferPool) unlock() {
	if invariants.Enabled {
		p.checkLocked()
	}
	p.mu.Unlock()
}

// Available is the number of bytes that are not lent.
func (p *BufferPool) Available() int64 {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.free
}

// Total is the bound in bytes.
func (p *BufferPool) Total() int64 { return p.total }

// Waiting is the number of callers of Allocate that wait. It costs one atomic read.
func (p *BufferPool) Waiting() int { return int(p.waiting.Load()) }

// Close makes every Allocate fail with ErrClosed, those that wait included, and lets go of free memory.
// Release goes on working, so that the accounts still come out even.
func (p *BufferPool) Close() {
	p.mu.Lock()
	p.closed = true
	p.slabs, p.smallSlabs, p.idleWaiters = nil, nil, nil
	for w := p.waiters.head; w != nil; w = p.waiters.head {
		p.dequeueLocked(w)
		w.err = ErrClosed
		w.ready <- struct{}{}
	}
	p.unlock()
}
