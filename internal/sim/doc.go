// Package sim runs the producer's engine in one goroutine, over simulated connections to the test broker's
// core and in virtual time, so that what happened can be repeated bit for bit.
//
// Three layers, each usable without the next:
//
//   - [Selector] stands in for the network: latency, bandwidth, and what goes wrong on a wire.
//   - [World] is a cluster and one producer's engine on top of it: the real accumulator, sender, network client,
//     metadata and sequence state. Tests of single scenarios use it.
//   - [Run] plays a [Plan]: a whole world drawn from a seed, with an application that sends, brokers and networks that fail,
//     and a [Book] that holds what the producer said against what the brokers stored. [Shrink] makes a plan that fails
//     smaller.
//
// Everything runs on the goroutine that calls Run; worlds share nothing, so that many can run at once. The command in
// cmd/sim does that.
package sim
