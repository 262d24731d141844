// Package accumulator collects records into batches, a queue of them per partition, until the sender takes
// them: Java's RecordAccumulator.
//
// # Who calls what
//
// Applications call [RecordAccumulator.Append], BeginFlush, AwaitFlush and Close from any goroutine. The sender's
// goroutine alone calls the rest (marked "The sender's."): Ready says which nodes have something to be sent, Drain
// takes it, and every batch taken comes back once, by Complete, Fail, Reenqueue or SplitAndReenqueue. A few sealer
// goroutines compress closed batches.
//
// # The life of a batch
//
//	Open ──full, linger, flush──► Closed ──one goroutine wins──► Sealing ──► Sealed ──Drain──► in flight
//	  │ Append, under the deque's lock;                                        ▲                  │
//	  │ only the tail is Open                                                  ├──── Reenqueue ───┤
//	                                                                           └──── split ───────┤
//	                                     Done, exactly once ◄────────────────────────────────────┘
//
// Without a codec there is nothing to seal: a batch goes from Open to Sealed at once.
//
//	state                  who may touch the bytes
//	Open                   who holds the deque's lock
//	Closed, Sealing        the goroutine that won the change to Sealing
//	Sealed, no sends       the sender (it may write the header anew)
//	Sealed, sends > 0      nobody: the connections that hold the batch read it
//	Done, no sends         back to the pool, once
//
// The bytes are a chain of slabs lent by the pool, written in wire form when the record is appended; nothing is
// encoded twice, and nothing but the header ever changes.
//
// # Locks
//
// deque.mu, one per partition, guards its queue and the open batch at its tail. While it is held, these leaves
// may be taken: incomplete.mu, signals.mu, results.mu, and the pool's own lock (for a grant that does not wait).
// topics.mu is a leaf too. Nothing waits while holding any of them.
//
// Only the sender removes from the front of a deque or puts back there. So the first batch stays the first between a look
// and a take, and what idempotence has to say of it is asked with no lock held.
//
// # Waking the sender
//
// An append tells the sender of a deque that changed by putting it on a list, at most twice a batch. It wakes the
// sender only if that could act: see PrepareSleep, which looks at the same things from the other side.
//
// This package may change in any release.
package accumulator
