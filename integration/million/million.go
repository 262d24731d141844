// Package million sends a great many small records with an idempotent producer and shows that every one is
// acknowledged, is read back once, and is in order within its partition, also when leaders move and brokers are
// stopped or killed meanwhile.
//
// Every value starts with the record's sequence number; the rest follows from it. [Run] is called by
// cmd/million and a test, from one goroutine.
package million

import (
	"context"
	"encoding/binary"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/kafka-reservoir/producer/integration/clients"
	"github.com/kafka-reservoir/producer/integration/java"
	"github.com/kafka-reservoir/producer/integration/kafkarun"
	"github.com/kafka-reservoir/producer/integration/readback"
)

// partitions is how many partitions the topic has.
const partitions = 12

// distinctKeys is how many keys there are when records have one.
const distinctKeys = 10_000

// maxBatchSpan bounds how far the timestamps of one batch may lie apart.
const maxBatchSpan = 2 * time.Minute // they are a millisecond apart, and twelve batches fill at once

// settleTimeout bounds each wait: for the last acknowledgements, and for what a round brings about.
const settleTimeout = 3 * time.Minute

// Options says what to run. Records must be given.
type Options struct {
	Producer  string // reservoir (default) or franzgo
	Codec     string // none (default), gzip, snappy, lz4, zstd
	Records   int    // more are sent if Rounds take longer
	Size      int    // bytes of a value; zero means 100
	Keyed     bool   // records have keys
	Rate      int    // records a second, in ten bursts; zero means as fast as it goes
	BatchSize int    // zero means the producer's default

	// Rounds take leaders from their nodes while records are sent, one after the other. They need three nodes and a Rate.
	Rounds []Kind

	Logf func(format string, args ...any) // told of progress; nil means nobody
}

// Result is what a run showed.
type Result struct {
	Sent    int
	Acked   int
	Acks    readback.Differences // failed and wrong acknowledgements
	FranzGo readback.Differences // what franz-go's consumer found
	Java    readback.Differences // what the Java consumer found
	Took    time.Duration        // from the first Send to the last acknowledgement
	Pause   time.Duration        // the longest time without an acknowledgement
	Rounds  []Round              // one for each of Options.Rounds
	Retried int                  // records sent again, as the producer counts them; franz-go does not
}

// OK reports whether everything was as it must be.
func (r Result) OK() bool {
	return r.Acked > 0 && r.Acked == r.Sent && r.Acks.Count+r.FranzGo.Count+r.Java.Count == 0
}

// run is one run.
type run struct {
	cluster *kafkarun.Cluster
	o       Options
	topic   string

	sent     atomic.Int64
	acked    atomic.Int64
	failed   atomic.Int64
	mu       sync.Mutex // guards the fields below while the producer runs
	acks     []ack      // by sequence number
	last     time.Time  // of the latest acknowledgement
	pause    time.Duration
	watch    *watch // what is watched during a round; nil between them
	complain readback.Differences

	rounds  []Round // of the goroutine of bounceAll while it runs
	retried int
}

// ack is the acknowledgement of one record.
type ack struct {
	times     int32
	partition int32
	offset    int64
	timestamp int64
	sent      int64 // the record's own timestamp, if it had one
	at        int64 // when it was sent, in milliseconds
}

// disturbed reports whether nodes go down meanwhile. Records then have timestamps of their own, because
// acknowledgements cannot be relied on for that: a broker that finds a batch to be the repetition of one it
// has answers with the timestamp of that batch's last record, for all of them, as if it were its own clock's
// (UnifiedLog.append sets the duplicate's timestamp as the log append time).
func (r *run) disturbed() bool { return len(r.o.Rounds) > 0 }

// Run sends the records to a topic of its own and reads them back. An error means that the check itself
// could not be done.
func Run(ctx context.Context, c *kafkarun.Cluster, o Options) (Result, error) {
	if o.Producer == "" {
		o.Producer = "reservoir"
	}
	if o.Codec == "" {
		o.Codec = "none"
	}
	if o.Size == 0 {
		o.Size = 100
	}
	if o.Logf == nil {
		o.Logf = func(string, ...any) {}
	}
	if len(o.Rounds) > 0 && (c.Nodes() < 3 || o.Rate <= 0) {
		return Result{}, fmt.Errorf("taking leaders from nodes needs 3 nodes and a rate, not %d and %d", c.Nodes(), o.Rate)
	}
	r := &run{cluster: c, o: o, topic: fmt.Sprintf("million-%d", time.Now().UnixNano()), acks: make([]ack, 0, o.Records)}
	if err := c.CreateTopic(ctx, r.topic, partitions); err != nil {
		return Result{}, err
	}
	took, err := r.produce(ctx)
	if err != nil {
		return Result{}, err
	}
	res := Result{Sent: len(r.acks), Acked: int(r.acked.Load()), Took: took, Pause: r.pause, Rounds: r.rounds, Retried: r.retried}
	o.Logf("%d of %d records acknowledged in %v (%.0f a second), longest pause %v", res.Acked, res.Sent,
		took.Round(time.Millisecond), float64(res.Acked)/took.Seconds(), r.pause.Round(time.Millisecond))
	want := r.expect()
	res.Acks = r.complain
	if res.FranzGo, err = r.compare(ctx, readback.FranzGo{Bootstrap: c.Bootstrap()}, want); err != nil {
		return res, err
	}
	jr, err := java.Start(c)
	if err != nil {
		return res, err
	}
	defer jr.Close()
	res.Java, err = r.compare(ctx, jr, want)
	return res, err
}

func (r *run) compare(ctx context.Context, reader readback.Reader, want readback.Expected) (readback.Differences, error) {
	begin := time.Now()
	found := 0
	d, err := readback.Compare(ctx, reader, r.topic, want, func(readback.Found, *readback.Differences) { found++ })
	r.o.Logf("%s read %d records in %v: %d differences", reader.Name(), found, time.Since(begin).Round(time.Millisecond), d.Count)
	return d, err
}

// produce sends all records and waits for their acknowledgements.
func (r *run) produce(ctx context.Context) (time.Duration, error) {
	cl, err := clients.New(r.o.Producer,
		clients.Settings{Bootstrap: r.cluster.Bootstrap(), Acks: "all", Codec: r.o.Codec, BatchSize: r.o.BatchSize})
	if err != nil {
		return 0, fmt.Errorf("making the producer: %w", err)
	}
	defer func() { _ = cl.Close(ctx) }() // where an error left it open
	begin := time.Now()
	r.last = begin
	sending, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	bounced := make(chan struct{})
	go func() { // ends by itself or with ctx; waited for below
		defer close(bounced)
		if err := r.bounceAll(sending); err != nil {
			stop(err)
		}
	}()
	r.send(sending, cl, bounced)
	<-bounced
	if err := context.Cause(sending); err != nil {
		return 0, err
	}
	settle, cancel := context.WithTimeout(ctx, settleTimeout)
	defer cancel()
	if err := cl.Flush(settle); err != nil {
		return 0, fmt.Errorf("flush: %w", err)
	}
	took := time.Since(begin)
	r.retried = cl.Retried()
	return took, cl.Close(settle)
}

// send sends the records, at the rate asked for, until there are enough and all rounds are over.
func (r *run) send(ctx context.Context, cl clients.Client, bounced <-chan struct{}) {
	begin := time.Now()
	burst := max(r.o.Rate/10, 1)
	rec := clients.Record{Topic: r.topic, Partition: clients.AnyPartition}
	for seq := 0; ctx.Err() == nil && (seq < r.o.Records || !over(bounced)); seq++ {
		if r.o.Rate > 0 && seq%burst == 0 {
			if ahead := time.Duration(seq)*time.Second/time.Duration(r.o.Rate) - time.Since(begin); ahead > 0 {
				time.Sleep(ahead)
			}
		}
		rec.Key, rec.Value = r.key(seq), r.value(seq)
		var a ack
		if r.disturbed() {
			// No two are alike, so that a repetition shows. With more than a thousand a second they gain on the clock, and brokers refuse
			// what is an hour ahead of theirs. A producer whose last record is a day old they forget, and would take a repetition for something
			// new (producer.id.expiration.ms goes by the records' time).
			rec.Timestamp = begin.Add(time.Duration(seq)*time.Millisecond - 20*time.Hour).Truncate(time.Millisecond)
			a.sent, a.at = rec.Timestamp.UnixMilli(), time.Now().UnixMilli()
		}
		r.mu.Lock()
		r.acks = append(r.acks, a)
		r.mu.Unlock()
		r.sent.Add(1)
		cl.Send(ctx, &rec, func(a clients.Ack) { r.ack(seq, a) })
		if seq%(max(r.o.Records/10, 1)) == 0 {
			r.o.Logf("sent %d, acknowledged %d, failed %d", seq, r.acked.Load(), r.failed.Load())
		}
	}
}

func over(done <-chan struct{}) bool {
	select {
	case <-done:
		return true
	default:
		return false
	}
}

// ack keeps an acknowledgement.
func (r *run) ack(seq int, a clients.Ack) {
	r.mu.Lock()
	defer r.mu.Unlock()
	now := time.Now()
	r.pause = max(r.pause, now.Sub(r.last))
	r.last = now
	k := &r.acks[seq]
	if k.times++; k.times > 1 {
		r.complain.Add("record %d: %d callbacks", seq, k.times)
		return
	}
	if a.Err != nil {
		r.complain.Add("record %d: %v", seq, a.Err)
		k.partition = -1
		r.failed.Add(1)
		return
	}
	k.partition, k.offset, k.timestamp = a.Partition, a.Offset, a.Timestamp.UnixMilli()
	r.acked.Add(1)
	r.watch.acked(a.Partition, now, time.Duration(now.UnixMilli()-k.at)*time.Millisecond)
}

// murmur2 is franz-go's partitioner, which hashes keys as Java's does.
var murmur2 = kgo.StickyKeyPartitioner(nil).ForTopic("")

// expect checks the acknowledgements and says what the topic must hold: in each partition, the records
// acknowledged there in the order in which they were sent, without a gap.
func (r *run) expect() readback.Expected {
	seqs := make(map[int32][]int)
	repeats := 0
	for seq, a := range r.acks {
		switch {
		case a.times == 0:
			r.complain.Add("record %d: no callback", seq)
			continue
		case a.partition < 0:
			continue // complained of already
		}
		if key := r.key(seq); key != nil {
			if want := murmur2.Partition(&kgo.Record{Key: key}, partitions); int(a.partition) != want {
				r.complain.Add("record %d: went to partition %d, its key belongs to %d", seq, a.partition, want)
			}
		}
		if want := int64(len(seqs[a.partition])); a.offset != want {
			r.complain.Add("record %d: acknowledged at %d of partition %d, want %d", seq, a.offset, a.partition, want)
		}
		if a.sent != 0 && a.timestamp != a.sent {
			repeats++
			if a.timestamp < a.sent || a.timestamp > a.sent+maxBatchSpan.Milliseconds() {
				r.complain.Add("record %d: acknowledged with timestamp %d, sent with %d", seq, a.timestamp, a.sent)
			}
			r.acks[seq].timestamp = a.sent
		}
		seqs[a.partition] = append(seqs[a.partition], seq)
	}
	if repeats > 0 {
		r.o.Logf("%d acknowledgements carry the timestamp of a repeated batch", repeats)
	}
	counts := make(map[int32]int)
	for p := range seqs {
		counts[p] = len(seqs[p])
	}
	return readback.Expected{Counts: counts, Line: func(p int32, i int) string {
		seq := seqs[p][i]
		rec := readback.Record{Partition: p, Offset: int64(i), Timestamp: r.acks[seq].timestamp, Key: r.key(seq), Value: r.value(seq)}
		return rec.Line()
	}}
}

func (r *run) key(seq int) []byte {
	if !r.o.Keyed {
		return nil
	}
	return fmt.Appendf(nil, "key-%d", seq*7919%distinctKeys)
}

// value is the sequence number and what a small generator makes of it.
func (r *run) value(seq int) []byte {
	b := make([]byte, max(r.o.Size, 8))
	binary.BigEndian.PutUint64(b, uint64(seq))
	x := uint64(seq)*0x9e3779b97f4a7c15 + 1
	for i := 8; i < len(b); i++ {
		x ^= x << 13
		x ^= x >> 7
		x ^= x << 17
		b[i] = byte(x)
	}
	return b
}
