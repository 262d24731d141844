// Package archtest holds the architecture's rules as tests: who may import whom, where goroutines start, where the
// clock is asked, what the public API is, and which seed rows of Kafka's own producer no test shows.
//
// It reads the module's source as text and syntax trees. A rule that stands in the way is changed here, in the open,
// with its reason beside it.
package archtest
