// Package conformance holds this producer against what others have written for the same protocol: its wire format
// against that of kmsg, in both directions; the whole producer against the brokers of kfake, in a synctest bubble with
// faults; and the test broker and kfake against what Kafka answers. kmsg and kfake are franz-go's. It is a module of its
// own so that the producer depends on neither, and holds nothing but tests: run go test here.
package conformance
