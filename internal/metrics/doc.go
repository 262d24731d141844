// Package metrics counts what the producer does, under the names Kafka's own producer has for it.
//
// One Set belongs to a producer. Every package that has something to count holds the *Set and adds to its
// fields, from whatever goroutine it runs on; the root package reads them for a snapshot. Nothing here waits,
// allocates per event, or looks anything up by name: an event costs one or two atomic additions, and most are
// counted for a whole batch at once.
//
// A package that was given no Set makes itself one with OrNew, so that it needs no conditions.
//
// Nothing asks the clock. Rates, averages and maxima are taken over a few sample windows; the windows move on when
// somebody who knows the time calls Tick: the sender once in every iteration, and whoever takes a snapshot.
package metrics
