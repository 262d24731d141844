// Package sim runs the producer's engine in one goroutine, over simulated connections to the test broker's
// core and in virtual time, so that what happened can be repeated bit for bit.
//
// Three layers, each usable without the next:
//
//   - [Selector] stands in for the network: latency, bandwidth, and what goes wrong on a wire.
//   - [World] is a cluster and one producer's engine on top of it: the real accumulator, sender, network client,
//     metadata, sequence state and callback queue. Tests of single scenarios use it.
//   - [Run] plays a [Plan]: a whole world drawn from a seed, with an application that sends, brokers and networks that fail,
//     and a [Book] that holds what the producer said against what the brokers stored. [Shrink] makes a plan that fails
//     smaller, [Report] tells what many seeds have shown.
//
// Everything runs on the goroutine that calls Run; worlds share nothing, so that many can run at once: see [Swarm], and the
// command in cmd/sim.
//
// # What is held
//
// After every iteration of the sender, and at every callback, request and answer (delivery 5.5):
//
//  1. An acknowledged record is in the log that it names, at its offset, with its bytes.
//  2. No record is in a log twice; first copies are in the order of Send within a partition.
//  3. Every record has one callback, in order within its partition, by the delivery timeout and a quarter of a second, and not after Close.
//  4. On the wire the same bytes stand under the same sequence, each sequence begins where another one ends, an epoch begins when what was
//     sent under the one before is resolved, each leader has one batch until it has acknowledged one, then five at most, and a
//     connection has no more requests than it may. Throttles are kept, and end. Leader epochs do not go back.
//  5. Frames do not change while a connection holds them; when nothing is open and nothing on its way all memory is back.
//  6. An error names why; no record is given up before its time; "never sent" and "may have been written" are true.
//  7. When all is well again every partition goes on within delivery 4's figure for the worst of the faults that there were, and what the
//     world's own back-offs and time-outs add to it (recoveryTime); from then on nothing fails, and neither records nor flushes take long.
//  8. Connection attempts, metadata and InitProducerId requests stay below what back-off allows; the sender does not spin.
//  9. Open records take no more memory than they may.
//
// Where brokers forget what they promised (an unclean election, a topic deleted, producers expired, a log model without
// state), the book knows which records that excuses. TestCheckersSee breaks each rule, one after the other.
//
// # What is not simulated
//
// Goroutines and locks: applications that wait for memory give up at once and come back, and Flush and Close are called by their
// parts. Those waits, TLS, sockets and the facade have tests of their own.
//
// [mutants] plants bugs to see that all this is seen.
//
// [mutants]: https://pkg.go.dev/github.com/kafka-reservoir/producer/internal/mutants
package sim
