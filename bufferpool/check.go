package bufferpool

import "github.com/kafka-reservoir/producer/internal/invariants"

// What stands here runs under -tags invariants only.

// poison overwrites what comes back: a batch that still reads a slab it released (KAFKA-19012) then has a
// wrong CRC, and under -race a writer that still holds it is reported.
const poison = 0xdb

func (p *BufferPool) checkLocked() {
	invariants.Check(p.free >= 0 && p.lent >= 0 && p.free+p.lent == p.total,
		"buffer pool: free %d + lent %d != total %d", p.free, p.lent, p.total)
	invariants.Check(p.listedLocked() <= p.free, "buffer pool: %d bytes in the free lists, %d free", p.listedLocked(), p.free)
	invariants.Check((p.waiters.head == nil) == (p.waiting.Load() == 0), "buffer pool: %d waiting", p.waiting.Load())
	if w := p.waiters.head; w != nil {
		invariants.Check(p.free < w.want.bytes(), "buffer pool: the first in line waits for %d bytes while %d are free", w.want.bytes(), p.free)
	}
}

func (p *BufferPool) noteLent(slabs [][]byte) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, s := range slabs {
		p.out[&s[:1][0]] = cap(s)
	}
}

func (p *BufferPool) noteReturnedLocked(s []byte) {
	invariants.Check(cap(s) > 0, "buffer pool: release of an empty slab")
	s = s[:cap(s)]
	n, ok := p.out[&s[0]]
	invariants.Check(ok, "buffer pool: release of a slab of %d bytes that is not lent: a second release, or not its beginning", len(s))
	invariants.Check(n == len(s), "buffer pool: slab of %d bytes came back with %d", n, len(s))
	delete(p.out, &s[0])
	for i := range s {
		s[i] = poison
	}
}
