package testbroker

import (
	"context"
	"fmt"
	"time"
)

// Violation is a breach of the protocol by a client. It is an error.
type Violation struct {
	At      time.Time
	Request *Request // what it was found in; its API is -1 when not even that could be read
	Text    string
}

// Error names the request and what is wrong with it.
func (v *Violation) Error() string {
	if v.Request.API < 0 {
		return fmt.Sprintf("node %d conn %d: %s", v.Request.Node, v.Request.Conn, v.Text)
	}
	return fmt.Sprintf("node %d conn %d %v v%d corr %d client %q: %s", v.Request.Node, v.Request.Conn,
		v.Request.API, v.Request.Version, v.Request.CorrelationID, v.Request.ClientID, v.Text)
}

// TestingT is what Check needs of a *testing.T.
type TestingT interface {
	Helper()
	Errorf(format string, args ...any)
}

// Check reports violations as errors of a test.
func (c *Cluster) Check(t TestingT) {
	t.Helper()
	for _, v := range c.Violations() {
		t.Errorf("testbroker: %v", v)
	}
}

// Violations are the breaches of the protocol so far, the first hundred of them.
func (c *Cluster) Violations() []*Violation {
	c.mu.Lock()
	defer c.mu.Unlock()
	return append([]*Violation(nil), c.violations...)
}

// TakeViolations is Violations, and forgets them: for tests that mean to breach.
func (c *Cluster) TakeViolations() []*Violation {
	c.mu.Lock()
	defer c.mu.Unlock()
	v := c.violations
	c.violations = nil
	return v
}

// Journal is a copy of what the journal holds from entry number since on; 0 is all of it.
func (c *Cluster) Journal(since int64) []Entry {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.journal.since(since)
}

// Await waits until the journal has an entry, from number since on, that match accepts, and returns the first one.
// Results and answers of a request may come after its entry.
func (c *Cluster) Await(ctx context.Context, since int64, match func(Entry) bool) (Entry, error) {
	for {
		c.mu.Lock()
		entries := c.journal.since(since)
		more := c.journal.wait()
		c.mu.Unlock()
		for _, e := range entries {
			if match(e) {
				return e, nil
			}
			since = e.Number + 1
		}
		select {
		case <-more:
		case <-ctx.Done():
			return Entry{}, fmt.Errorf("testbroker: no such journal entry: %w", ctx.Err())
		}
	}
}

// Requests are the journal's requests, oldest first.
func (c *Cluster) Requests() []Entry {
	all := c.Journal(0)
	requests := all[:0]
	for _, e := range all {
		if e.Kind == EntryRequest {
			requests = append(requests, e)
		}
	}
	return requests
}

// Stats counts what happened since the start.
func (c *Cluster) Stats() Stats {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.journal.stats
}

// PartitionStats is what one log went through, deleted records included.
type PartitionStats struct {
	Start, End int64 // log start and log end offset
	Batches    int64 // appended
	Records    int64
	Bytes      int64
	Duplicates int64 // batches recognized as repeats, and not appended again
}

// PartitionStats is what one log went through; zero if there is no such partition.
func (c *Cluster) PartitionStats(topic string, partition int32) PartitionStats {
	c.mu.Lock()
	defer c.mu.Unlock()
	p, err := c.partitionLocked(topic, partition)
	if err != nil {
		return PartitionStats{}
	}
	l := p.log
	return PartitionStats{
		Start: l.start, End: l.end,
		Batches: l.appendedBatches, Records: l.appendedRecords, Bytes: l.appendedBytes, Duplicates: l.duplicates,
	}
}

// Offsets are the log start and log end offset of a partition.
func (c *Cluster) Offsets(topic string, partition int32) (start, end int64) {
	s := c.PartitionStats(topic, partition)
	return s.Start, s.End
}

// Records are the records that a partition holds, in order. Their bytes must not be changed.
func (c *Cluster) Records(topic string, partition int32) []Record {
	return c.RecordsFrom(topic, partition, 0)
}

// RecordsFrom is Records from an offset on.
func (c *Cluster) RecordsFrom(topic string, partition int32, offset int64) []Record {
	c.mu.Lock()
	p, err := c.partitionLocked(topic, partition)
	if err != nil {
		c.mu.Unlock()
		return nil
	}
	offset = max(offset, p.log.start)
	// Decoding is slow and needs no lock: batches are never changed.
	batches := append([]storedBatch(nil), p.log.batches[p.log.from(offset):]...)
	c.mu.Unlock()
	var records []Record
	for i := range batches {
		records, err = decodeBatch(records, &batches[i], offset)
		if err != nil {
			panic(fmt.Sprintf("testbroker: a stored batch of %s-%d at offset %d does not decode: %v", topic, partition, batches[i].base, err))
		}
	}
	return records
}

// AllRecords are the records of all partitions of a topic, by partition.
func (c *Cluster) AllRecords(topic string) [][]Record {
	all := make([][]Record, c.Partitions(topic))
	for p := range all {
		all[p] = c.Records(topic, int32(p))
	}
	return all
}
