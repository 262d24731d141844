// Package txn keeps what makes a producer idempotent: its producer id and epoch, and for each
// partition the sequence numbers given out and what became of the batches that carry them.
//
// It does no I/O and reads no clock. The sender asks it before it drains a batch (Manager implements
// [accumulator.Gate]), tells it what each answer was, and fetches a producer id when it says that one
// is needed. All of it belongs to the sender's goroutine.
//
// Two rules stand above all others. A (producer id, epoch, partition, sequence) that has been on a
// connection stands for the same bytes for ever: a batch whose fate is unknown is either sent again as it is, or
// the epoch moves on first. And there is one place where sequences are given out, [Manager.Stamp].
package txn
