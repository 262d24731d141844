// Package partitioner chooses the partition of records that name none.
//
// # Choosing
//
// [Default] does what Kafka's Java producer does: a record with a key goes to the partition its key hashes to,
// so that equal keys keep their order; a record without one goes where the producer likes, which
// is one partition at a time, for long enough to make good batches ([Any]). [RoundRobin] spreads records one by
// one and pays for it with small batches.
//
// # Writing one's own
//
// A [Partitioner] sees the serialized key and value. It must be safe for many goroutines at once, fast
// (it runs inside Send), and must not keep or change key and value. It may look only at its arguments and at its own
// state; it must not call the producer. What it returns is checked: neither Any nor in [0, Count()) fails that
// record alone. Counting over all partitions ([Partitions.Count]) makes the choice a function of the key; counting
// over [Partitions.Available] avoids partitions that cannot be written to at present, and moves keys
// when a leader is lost. Both change when partitions are added to the topic: no choice is remembered here.
//
// # Inside the producer
//
// [Sticky] is the part that stands behind Any, one per topic: applications ask it for the current partition and
// tell it what they appended (the accumulator does this for them); the sender tells it how long the queues of the
// partitions are ([Load]), so that slow partitions get less (KIP-794).
package partitioner
