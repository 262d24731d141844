package matrix

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/kafka-reservoir/producer/integration/clients"
	"github.com/kafka-reservoir/producer/integration/readback"
)

// sent is what became of the records of a cell.
type sent struct {
	mu    sync.Mutex    // guards the fields below while the producer runs
	acks  []clients.Ack // by record
	count []int         // callbacks by record
	order []int         // records in the order of their callbacks
}

func (s *sent) acked(i int, a clients.Ack) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.acks[i] = a
	s.count[i]++
	s.order = append(s.order, i)
}

func (s *sent) total() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.order)
}

// send sends the records with a producer of its own, the last one with SendSync, and closes it.
// What is wrong with the acknowledgements goes into d.
func send(ctx context.Context, producer string, s clients.Settings, rs []clients.Record, d *readback.Differences) (*sent, error) {
	cl, err := clients.New(producer, s)
	if err != nil {
		return nil, fmt.Errorf("making the producer: %w", err)
	}
	out := &sent{acks: make([]clients.Ack, len(rs)), count: make([]int, len(rs))}
	for i := range rs[:len(rs)-1] {
		cl.Send(ctx, &rs[i], func(a clients.Ack) { out.acked(i, a) })
		if i == len(rs)/2 {
			if err := cl.Flush(ctx); err != nil {
				d.Add("flush: %v", err)
			}
			if n := out.total(); n != i+1 {
				d.Add("flush returned after %d of %d callbacks", n, i+1)
			}
			if producer == "reservoir" {
				refuseNegativeTimestamp(ctx, cl, rs[i], d)
			}
		}
	}
	last := len(rs) - 1
	a := cl.SendSync(ctx, &rs[last])
	out.mu.Lock()
	out.acks[last], out.count[last] = a, 1 // not in order: a wait may end before earlier callbacks have run
	out.mu.Unlock()
	if err := cl.Close(ctx); err != nil {
		d.Add("close: %v", err)
	}
	return out, nil
}

func refuseNegativeTimestamp(ctx context.Context, cl clients.Client, r clients.Record, d *readback.Differences) {
	r.Timestamp = time.UnixMilli(-1)
	a := cl.SendSync(ctx, &r)
	if a.Err == nil || !strings.Contains(a.Err.Error(), "timestamp") {
		d.Add("a record with a negative timestamp: want an error that names the timestamp, got %v", a.Err)
	}
}

// expect checks the acknowledgements and says what the topic must now hold: in each partition, the
// records that were acknowledged there, in the order in which they were sent.
func (s *sent) expect(c Cell, rs []clients.Record, begin, end time.Time, d *readback.Differences) readback.Expected {
	lines := make(map[int32][]string)
	for i, r := range rs {
		a := s.acks[i]
		switch {
		case s.count[i] != 1:
			d.Add("record %d: %d callbacks", i, s.count[i])
			continue
		case a.Err != nil:
			d.Add("record %d: %v", i, a.Err)
			continue
		}
		if want, ok := wantPartition(c, r); ok && a.Partition != want {
			d.Add("record %d: went to partition %d, want %d", i, a.Partition, want)
		}
		// A record without a timestamp got one when it was sent, and the acknowledgement says which.
		timestamp := r.Timestamp.UnixMilli()
		if r.Timestamp.IsZero() {
			timestamp = a.Timestamp.UnixMilli()
			if timestamp < begin.UnixMilli() || timestamp > end.UnixMilli() {
				d.Add("record %d: timestamp %d is not between its sending at %d and the end at %d", i, timestamp, begin.UnixMilli(), end.UnixMilli())
			}
		} else if got := a.Timestamp.UnixMilli(); got != timestamp {
			d.Add("record %d: acknowledged with timestamp %d, want %d", i, got, timestamp)
		}
		offset := int64(len(lines[a.Partition]))
		if c.Acks != "0" && a.Offset != offset {
			d.Add("record %d: acknowledged at %d of partition %d, want %d", i, a.Offset, a.Partition, offset)
		}
		want := readback.Record{Partition: a.Partition, Offset: offset, Timestamp: timestamp, Key: r.Key, Value: r.Value, Headers: r.Headers}
		lines[a.Partition] = append(lines[a.Partition], want.Line())
	}
	s.checkOrder(d)
	counts := make(map[int32]int)
	for p := range lines {
		counts[p] = len(lines[p])
	}
	return readback.Expected{Counts: counts, Line: func(p int32, i int) string { return lines[p][i] }}
}

// checkOrder checks that callbacks came in the order of sending within each partition.
func (s *sent) checkOrder(d *readback.Differences) {
	last := make(map[int32]int)
	for _, i := range s.order {
		p := s.acks[i].Partition
		if before, ok := last[p]; ok && before > i {
			d.Add("callback of record %d came after that of record %d, both in partition %d", i, before, p)
		}
		last[p] = i
	}
}

// murmur2 is franz-go's partitioner, which hashes keys as Java's does.
var murmur2 = kgo.StickyKeyPartitioner(nil).ForTopic("")

// wantPartition is the partition that a record must go to, if there is only one.
func wantPartition(c Cell, r clients.Record) (int32, bool) {
	if r.Partition != clients.AnyPartition {
		return r.Partition, true
	}
	if r.Key == nil {
		return 0, false
	}
	return int32(murmur2.Partition(&kgo.Record{Key: r.Key}, c.Partitions)), true
}
