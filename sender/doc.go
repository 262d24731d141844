// Package sender is the producer's background goroutine: Java's Sender.
//
// One iteration, [Sender.RunOnce]:
//
//  1. if closing: end once nothing is incomplete; if forced: fail what is left, and end
//  2. ask the accumulator what is ready; have metadata fetched for partitions without a leader
//  3. fetch a producer id if batches need one
//  4. for each node that has something: connect it, or drain for it and send, as long as it can take requests
//  5. end batches whose delivery timeout is over
//  6. bound what may wait for each node, by what it was measured to take
//  7. sleep in Poll until an event, a wake-up, or the next thing that is due
//
// Answers are handled inside Poll: each batch named in one is completed, sent again, split or failed (outcome.go).
// All state is that of whoever has the turn: the goroutine of Run but for the time that it sleeps, then perhaps an assistant (assist.go). What other
// goroutines may call says so: Assist, Wakeup, InitiateClose, ForceClose, Done, Err.
//
// Callbacks run on a goroutine of their own, the [Dispatcher].
//
// This package may change in any release.
package sender
