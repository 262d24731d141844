// Package metadata knows which brokers lead the partitions of the topics in use.
//
// It is part of the engine: its API may change in any release.
//
// Three things make it up. The interest set holds the topics that were sent to lately; only they are
// asked for, and one that is idle for long enough is dropped. The schedule says when to ask again: for a
// new topic at once and for that topic only, for everything when somebody found the view to be wrong or
// when it is old, and with growing pauses while answers fail or bring nothing new. The [Snapshot] is what
// the answers add up to, an immutable view behind an atomic pointer.
//
// An answer is a patch. It takes something away only on proof: a partition's leader is kept against an
// older leader epoch unless the topic has another id, a topic is kept while brokers that know nothing of
// it say so a few times, and an error of one topic touches that topic only.
//
// Any goroutine may call Snapshot, Await, RequestUpdate, LastUpdate and Close, and the methods of
// Snapshot and Topic. All other methods of [Metadata] belong to the goroutine that owns the network
// client, which sends the requests and hands in the answers. There is one lock; nothing waits and no
// foreign code runs while it is held. Time comes in as an argument everywhere except in Await, which
// waits on the real clock.
package metadata
