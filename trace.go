package producer

import "time"

// Trace holds functions that are told what the producer did; each may be nil. They are called on the
// producer's own goroutines (most of them on the one that is the sender at the time, which all records depend on), so they must be
// quick, must not wait, and must not call the producer. They may be called at the same time as each other.
//
// Arguments are plain values. Slices and strings may be kept; errors may be nil.
type Trace struct {
	// ConnectDone: an attempt to connect to a node ended, after took. err is nil when the connection is usable.
	ConnectDone func(node int32, addr string, took time.Duration, err error)
	// RequestDone: a request was answered, or will not be. api is Kafka's name of the request, written and read
	// are its sizes in bytes, took the time from Send to the answer. err is a failure of the connection, never of
	// the answer's content.
	RequestDone func(node int32, api string, version int16, written, read int, took time.Duration, err error)
	// BatchDone: a batch has its result; size is its size on the wire, attempts how often it was sent, age the time
	// since its first record. offset is that of its first record, or -1.
	BatchDone func(topic string, partition int32, records, size, attempts int, offset int64, age time.Duration, err error)
	// Throttled: a node asked to be left alone for so long.
	Throttled func(node int32, d time.Duration)
	// Retry: a batch will be sent again after backoff, because of err.
	Retry func(topic string, partition int32, records, attempts int, backoff time.Duration, err error)
}
