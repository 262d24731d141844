// Package conformance compares this producer's wire format with that of another implementation, kmsg of
// franz-go, in both directions. It is a module of its own so that the producer does not depend on kmsg,
// and holds nothing but tests: run go test here.
package conformance
