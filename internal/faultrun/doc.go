// Package faultrun plays the catalogue of faults over real sockets, each run with a process of its own for the producer, and holds
// what the producer said against what the brokers stored.
//
// The brokers are the test broker's, in the process that calls [Run]. It starts itself once more with [ChildEnv] set; that
// process does nothing but send numbered records through the public API, and tell of every callback on its standard output. So its
// memory is the producer's and hardly anything else, and a crash of it is one more thing to see.
//
// A run: all partitions write; the fault happens under load, as the seed has it; it is healed; all partitions write again; the
// load ends, Flush and Close return; callbacks, logs and what is left of the process are looked at. In a forced run Close is called in
// the middle of the fault, with a ctx that is too short.
//
// Whether a run is clean is a matter of records alone. What was measured by the clock is reported beside its bound
// and decides nothing, because the machine has other things to do.
package faultrun
