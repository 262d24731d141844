package testbroker

import (
	"fmt"
	"strings"
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

// String is one line for test output.
func (e Entry) String() string {
	var s strings.Builder
	fmt.Fprintf(&s, "%s #%d", e.At.Format("15:04:05.000000"), e.Number)
	if e.Node > 0 {
		fmt.Fprintf(&s, " node %d", e.Node)
	}
	if e.Conn != 0 {
		fmt.Fprintf(&s, " conn %d", e.Conn)
	}
	switch e.Kind {
	case EntryConnect:
		s.WriteString(" connected")
	case EntryDisconnect:
		s.WriteString(" disconnected")
	case EntryDrop:
		s.WriteString(" dropped by the broker:")
	case EntryViolation:
		s.WriteString(" VIOLATION:")
	}
	if r := e.Request; r != nil {
		fmt.Fprintf(&s, " %v", r)
		for i := range e.Results {
			fmt.Fprintf(&s, " %v", e.Results[i])
		}
		if e.Answered.IsZero() {
			s.WriteString(" (unanswered)")
		}
	}
	if e.Text != "" {
		s.WriteString(" " + e.Text)
	}
	return s.String()
}

// String is the request as a journal line has it.
func (r *Request) String() string {
	var s strings.Builder
	fmt.Fprintf(&s, "%v v%d corr %d client %q", r.API, r.Version, r.CorrelationID, r.ClientID)
	if r.API == protocol.KeyProduce {
		fmt.Fprintf(&s, " acks %d", r.Acks)
	}
	for i := range r.Batches {
		fmt.Fprintf(&s, " [%v]", &r.Batches[i])
	}
	if r.API == protocol.KeyMetadata {
		if r.AllTopics {
			s.WriteString(" all topics")
		} else {
			fmt.Fprintf(&s, " %q", r.Topics)
		}
	}
	return s.String()
}

// String is the batch as a journal line has it.
func (b *Batch) String() string {
	s := fmt.Sprintf("%s-%d %d records %d bytes", b.Topic, b.Partition, b.Count, b.Size)
	if b.ProducerID >= 0 {
		s += fmt.Sprintf(" pid %d/%d seq %d", b.ProducerID, b.ProducerEpoch, b.BaseSequence)
	}
	if b.Err != nil {
		s += " bad: " + b.Err.Error()
	}
	return s
}

// String is the result as a journal line has it.
func (r Result) String() string {
	s := "not appended"
	switch {
	case r.Duplicate:
		s = fmt.Sprintf("duplicate of offset %d", r.BaseOffset)
	case r.Appended:
		s = fmt.Sprintf("at offset %d", r.BaseOffset)
	}
	if r.Code != protocol.None {
		s += ", " + r.Code.Name()
	}
	if r.Answer != r.Code {
		s += ", answered " + r.Answer.Name()
	}
	return "-> " + s
}

// Stats counts what happened since the start.
type Stats struct {
	Connections int64
	Requests    int64
	Violations  int64
	// MaxInFlight is the most requests that one connection ever had arrived and not answered.
	MaxInFlight int
}

// journal keeps the newest entries. The cluster's lock guards it.
type journal struct {
	limit   int
	entries []*Entry // a ring once it is full, the oldest at next
	next    int
	added   int64
	stats   Stats
	waiting chan struct{} // closed by the next add; nil while nobody waits
}

// add numbers an entry and keeps it. The pointer stays good, so that what becomes known later can be filled in.
func (j *journal) add(e Entry) *Entry {
	j.added++
	e.Number = j.added
	if j.waiting != nil {
		close(j.waiting)
		j.waiting = nil
	}
	switch {
	case j.limit < 0:
	case len(j.entries) < j.limit:
		j.entries = append(j.entries, &e)
	default:
		j.entries[j.next] = &e
		j.next = (j.next + 1) % j.limit
	}
	return &e
}

// since copies the entries from number on.
func (j *journal) since(number int64) []Entry {
	n := len(j.entries)
	first := j.added - int64(n) + 1 // number of the oldest
	skip := int(min(max(number-first, 0), int64(n)))
	out := make([]Entry, 0, n-skip)
	for i := skip; i < n; i++ {
		out = append(out, *j.entries[(j.next+i)%n])
	}
	return out
}

// wait is closed by the next add.
func (j *journal) wait() <-chan struct{} {
	if j.waiting == nil {
		j.waiting = make(chan struct{})
	}
	return j.waiting
}

// noteLocked puts a change of the cluster into the journal.
func (c *Cluster) noteLocked(node int32, format string, args ...any) {
	c.journal.add(Entry{Kind: EntryCluster, At: c.now, Node: max(node, 0), Text: fmt.Sprintf(format, args...)})
}

// maxViolations bounds what is kept of them; the first ones tell the most.
const maxViolations = 100

// breachLocked keeps a breach of the protocol.
func (c *Cluster) breachLocked(req *Request, format string, args ...any) {
	v := &Violation{At: c.now, Request: req, Text: fmt.Sprintf(format, args...)}
	c.journal.stats.Violations++
	if len(c.violations) < maxViolations {
		c.violations = append(c.violations, v)
	}
	c.journal.add(Entry{Kind: EntryViolation, At: c.now, Node: req.Node, Conn: req.Conn, Text: v.Text})
}
