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
//     smaller.
//
// Everything runs on the goroutine that calls Run; worlds share nothing, so that many can run at once: see [Swarm], and the
// command in cmd/sim.
//
// # What is held
//
// While a plan runs: every callback once, in order within its partition, in time, not after Close; an acknowledged record in the log,
// at its offset, with its bytes; no record twice, first copies in order; on the wire, the same bytes under the same sequence, each
// sequence where another ends, one batch per partition until the first acknowledgement; throttles, limits of requests in flight
// and leader epochs; frames unchanged while a connection holds them, memory in balance; no storms, no spinning. An error names
// why, no record is given up early, and "never sent" and "may have been written" are true. Once the brokers are well again:
// all partitions go on within the request timeout, a connection's set-up and the back-offs, and nothing that is accepted then fails or
// is late.
//
// Where brokers forget what they promised (an unclean election, a topic deleted, producers expired, a log model without
// state), the book knows which records that excuses.
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
