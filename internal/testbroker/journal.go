package testbroker

import (
	"time"

	"github.com/kafka-reservoir/producer/protocol"
)

// EntryKind says what an Entry is about.
type EntryKind int

const (
	// EntryRequest is a request that arrived.
	EntryRequest EntryKind = iota
	// EntryConnect is a connection that was opened.
	EntryConnect
	// EntryDisconnect is a connection that the client closed, or that was lost.
	EntryDisconnect
	// EntryDrop is a connection that the broker closed.
	EntryDrop
	// EntryCluster is a change of the cluster: a leader moved, a node went down, a topic came or went.
	EntryCluster
	// EntryViolation is a breach of the protocol.
	EntryViolation
)

// Entry is one line of the journal.
type Entry struct {
	Number int64 // counts entries, from 1; gaps at the front mean that old ones were dropped
	Kind   EntryKind
	At     time.Time
	Node   int32
	Conn   ConnID
	// Request is set for EntryRequest. Its Body and raw batches are gone.
	Request *Request
	// Results is set for Produce requests that were carried out: one for each of Request.Batches.
	Results []Result
	// Done is when the request was carried out; zero if it was not (yet).
	Done time.Time
	// Answered is when its answer went out; zero if it did not (yet, or never).
	Answered time.Time
	// Text describes all other kinds, and what the Fault hook did to a request.
	Text string
}

// Result is what a log did with a batch.
type Result struct {
	// Code is what the log said, BaseOffset where it put the batch (or had put it, for a Duplicate).
	Code       protocol.ErrorCode
	BaseOffset int64
	Appended   bool
	Duplicate  bool
	// Answer is the code that the client was told, which a Verdict may have changed.
	Answer protocol.ErrorCode
}
