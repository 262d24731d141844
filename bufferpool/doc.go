// Package bufferpool bounds the memory of records that wait to be sent (buffer.memory).
//
// It lends slabs: byte slices of two fixed sizes, [SlabSize] and [SmallSlabSize], of which a batch
// makes a chain. What is lent is counted by the capacity of the slabs, wherever they are: in an open
// batch, in a batch that waits, is in flight or is retried. A slab stays lent until [BufferPool.Release]
// gets it back, so what bounds the pool bounds everything. Not counted are the structs around the bytes
// (batches, futures, the lists in here), and the scratch memory of compressors.
//
// Memory is made when it is first lent: a pool of 32 MiB that is hardly used holds hardly anything.
// What came back lies in a free list per slab size. Free memory of one size is dropped to the garbage
// collector when a grant of the other size would otherwise exceed the bound.
//
// Applications call TryAllocate while they hold the lock of a partition, and Allocate without any lock,
// from any number of goroutines; whoever ends a batch calls Release. Callers of Allocate wait in the
// order of their calls. While one waits nobody overtakes it, TryAllocate included: all that comes
// back is kept for the first in line until it covers the whole of its request (a record of several
// slabs gets them in one grant, or two such records could each hold what the other needs). A waiter that
// leaves, because of its context, its time or Close, holds nothing: the next in line is served at once.
//
// The package may change in any release: it is part of the engine, public so that it can be read and
// tested alone.
package bufferpool
