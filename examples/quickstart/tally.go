package main

import (
	"fmt"
	"io"
	"maps"
	"slices"
	"strconv"
	"sync"
	"text/tabwriter"
	"time"

	"github.com/kafka-reservoir/producer"
)

// tally collects results. The callback runs on the producer's goroutine while main reads, hence the lock.
type tally struct {
	mu         sync.Mutex
	partitions map[int32]*partition
	acked      int
	failed     int
	err        error // the first one
}

// partition is what became of the records of one partition.
type partition struct {
	records     int
	bytes       int
	first, last int64 // offsets
	disordered  int   // records whose offset was not above the one before
}

func newTally() *tally { return &tally{partitions: map[int32]*partition{}} }

// add is the callback: it is called once for each record.
func (t *tally) add(m producer.RecordMetadata, err error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if err != nil {
		t.failed++
		if t.err == nil {
			t.err = err
		}
		return
	}
	t.acked++
	p := t.partitions[m.Partition]
	if p == nil {
		p = &partition{first: m.Offset, last: m.Offset - 1}
		t.partitions[m.Partition] = p
	}
	if m.Offset <= p.last {
		p.disordered++
	}
	p.records++
	p.bytes += m.KeySize + m.ValueSize
	p.last = m.Offset
}

func (t *tally) counts() (acked, failed int) {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.acked, t.failed
}

func (t *tally) firstError() error {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.failed == 0 {
		return nil
	}
	return fmt.Errorf("%s records failed, the first one with: %w", thousands(t.failed), t.err)
}

// print shows a line for each partition, and the sum.
func (t *tally) print(w io.Writer, took time.Duration) {
	t.mu.Lock()
	defer t.mu.Unlock()
	fmt.Fprintln(w)
	table := tabwriter.NewWriter(w, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(table, "partition\trecords\tfirst offset\tlast offset\tbytes\tin order\t")
	total := 0
	for _, id := range slices.Sorted(maps.Keys(t.partitions)) {
		p := t.partitions[id]
		inOrder := "yes"
		if p.disordered > 0 {
			inOrder = "no"
		}
		fmt.Fprintf(table, "%d\t%s\t%d\t%d\t%s\t%s\t\n", id, thousands(p.records), p.first, p.last, thousands(p.bytes), inOrder)
		total += p.bytes
	}
	_ = table.Flush()
	fmt.Fprintf(w, "\n%s records (%s bytes) acknowledged in %.2fs: %s records/s, %.1f MB/s\n",
		thousands(t.acked), thousands(total), took.Seconds(),
		thousands(int(float64(t.acked)/took.Seconds())), float64(total)/1e6/took.Seconds())
}

// thousands is n with a comma after every three digits.
func thousands(n int) string {
	s := strconv.Itoa(n)
	for i := len(s) - 3; i > 0; i -= 3 {
		s = s[:i] + "," + s[i:]
	}
	return s
}
