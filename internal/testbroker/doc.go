// Package testbroker is a strict Kafka cluster inside the process, for tests, simulations and examples.
//
// It has two layers.
//
// [Cluster] is the core: nodes, topics, logs, producer state. It has no goroutines, no clock, no sockets and
// no random source: [Cluster.Handle] takes a request frame and the time, and returns what is to be written to
// which connection; what is due later comes out of [Cluster.Tick], and [Cluster.NextTick] says when to call it.
// The same calls give the same answers, which is what a simulator needs. All methods may be called from any
// goroutine; one lock guards the whole, and no foreign code runs under it.
//
// [Server] puts the core on listeners: loopback TCP, or whatever [Config.Listen] returns, so that it also runs in
// a testing/synctest bubble on a network made of memory.
//
// Strict means that every request has to be exact: the frame consumed to its last byte, lengths, counts and
// varints right, the batch's CRC, attributes, offsets and timestamps in order, every record decompressed and
// walked, one batch per partition, and the same bytes whenever a sequence comes again. A breach is answered as
// Kafka would answer it and kept in [Cluster.Violations], where tests look for it.
//
// Faults are scripted by [Config.Fault]: it sees each decoded request and returns a [Verdict], which can answer
// an error, hold, mute, drop, cut or rewrite the answer, before or after the append. Everything that happened is
// in the journal ([Cluster.Journal]).
package testbroker
