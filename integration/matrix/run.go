package matrix

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/kafka-reservoir/producer/integration/clients"
	"github.com/kafka-reservoir/producer/integration/java"
	"github.com/kafka-reservoir/producer/integration/kafkarun"
	"github.com/kafka-reservoir/producer/integration/readback"
)

// cellTimeout bounds one cell. One takes a second or two.
const cellTimeout = 2 * time.Minute

// refusedWithin is how long a producer may take to find that a broker cannot take what it is to send.
const refusedWithin = 10 * time.Second

// shortStep is the distance of the cells of a short run; with seven they meet every codec, routing and acks.
const shortStep = 7

// Options says what to run. The zero value runs everything with the producer under test.
type Options struct {
	Producer string                           // reservoir (default) or franzgo
	Seed     uint64                           // of the records
	Only     string                           // run only cells whose name contains it
	Short    bool                             // every cell's codec, routing and acks occur, but not every combination
	Logf     func(format string, args ...any) // told of each cell; nil means nobody
}

// Result is what a run on one cluster showed.
type Result struct {
	Version string
	Cells   int // cells produced and read back
	Refused int // cells that must be refused and were
	Records int
	Bytes   int64 // of keys and values
	FranzGo int   // differences found by franz-go's consumer
	Java    int   // differences found by the Java consumer
	Acks    int   // wrong acknowledgements, and other errors of the producer
	Elapsed time.Duration
}

// OK reports whether everything was as it must be.
func (r Result) OK() bool { return r.Cells+r.Refused > 0 && r.FranzGo+r.Java+r.Acks == 0 }

// maxErrors is how many cells may fail to be checked before a run is given up.
const maxErrors = 3

// Run runs the cells on the cluster. An error means that a check could not be done, or not all of them.
func Run(ctx context.Context, c *kafkarun.Cluster, o Options) (Result, error) {
	if o.Producer == "" {
		o.Producer = "reservoir"
	}
	if o.Logf == nil {
		o.Logf = func(string, ...any) {}
	}
	res := Result{Version: c.Version()}
	begin := time.Now()
	r := runner{cluster: c, o: o, res: &res}
	defer r.closeReaders()
	var errs []error
	for i, cell := range Cells() {
		if !strings.Contains(cell.String(), o.Only) || o.Short && i%shortStep != 0 {
			continue
		}
		r.cell = cell
		if err := r.run(ctx); err != nil {
			o.Logf("kafka %s: %v: %v", c.Version(), cell, err)
			errs = append(errs, fmt.Errorf("kafka %s: %v: %w", c.Version(), cell, err))
			r.closeReaders() // one that failed is of no more use
			if ctx.Err() != nil || len(errs) == maxErrors {
				break
			}
		}
	}
	res.Elapsed = time.Since(begin)
	return res, errors.Join(errs...)
}

// runner runs one cell after the other.
type runner struct {
	cluster *kafkarun.Cluster
	o       Options
	res     *Result
	cell    Cell
	java    *java.Reader // started when first needed
}

// javaReader is the Java consumer, which is started when first needed: it takes seconds.
func (r *runner) javaReader() (*java.Reader, error) {
	if r.java == nil {
		jr, err := java.Start(r.cluster)
		if err != nil {
			return nil, err
		}
		r.java = jr
	}
	return r.java, nil
}

func (r *runner) closeReaders() {
	if r.java != nil {
		r.java.Close()
		r.java = nil
	}
}

func (r *runner) run(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, cellTimeout)
	defer cancel()
	if !r.cell.AutoCreated {
		if err := r.cluster.CreateTopic(ctx, r.cell.topic(), r.cell.Partitions); err != nil {
			return err
		}
	}
	settings := clients.Settings{
		Bootstrap: r.cluster.Bootstrap(),
		Acks:      r.cell.Acks,
		Codec:     r.cell.Codec,
		Manual:    r.cell.Routing == "explicit",
		BatchSize: r.cell.BatchSize,
	}
	switch {
	case !r.cluster.AtLeast(0, 11):
		return r.refused(ctx, settings, "0.11")
	case r.cell.Codec == "zstd" && !r.cluster.AtLeast(2, 1):
		return r.refused(ctx, settings, "zstd")
	}
	return r.compare(ctx, settings)
}

// compare sends the cell's records, reads them back with both consumers and compares.
func (r *runner) compare(ctx context.Context, settings clients.Settings) error {
	topic := r.cell.topic()
	begin := time.Now()
	rs := records(r.cell, r.o.Seed, begin)
	var acks readback.Differences
	s, err := send(ctx, r.o.Producer, settings, rs, &acks)
	if err != nil {
		return err
	}
	want := s.expect(r.cell, rs, begin, time.Now(), &acks)
	took := time.Since(begin)
	if err := r.arrived(ctx, topic, want); err != nil {
		return err
	}
	var batches batchCheck
	franzGo, err := readback.Compare(ctx, readback.FranzGo{Bootstrap: r.cluster.Bootstrap()}, topic, want, batches.see)
	if err != nil {
		return err
	}
	batches.judge(r.cell, &franzGo)
	jr, err := r.javaReader()
	if err != nil {
		return err
	}
	java, err := readback.Compare(ctx, jr, topic, want, nil)
	if err != nil {
		return err
	}
	r.report(rs, acks, franzGo, java, took)
	return nil
}

// report adds a finished cell to the result.
func (r *runner) report(rs []clients.Record, acks, franzGo, java readback.Differences, took time.Duration) {
	r.res.Cells++
	r.res.Records += len(rs)
	for i := range rs {
		r.res.Bytes += int64(len(rs[i].Key) + len(rs[i].Value))
	}
	r.res.Acks += acks.Count
	r.res.FranzGo += franzGo.Count
	r.res.Java += java.Count
	r.o.Logf("kafka %s: %-28v %d records in %4d ms; differences: acks %d, franz-go %d, java %d",
		r.cluster.Version(), r.cell, len(rs), took.Milliseconds(), acks.Count, franzGo.Count, java.Count)
	r.show(acks, franzGo, java)
}

func (r *runner) show(ds ...readback.Differences) {
	for _, d := range ds {
		for _, s := range d.Shown {
			r.o.Logf("kafka %s: %v: %s", r.cluster.Version(), r.cell, s)
		}
	}
}

// arrived waits until the topic holds at least what is expected: without acknowledgements, the broker
// may still be at it. A topic that stays short is left to the comparison, which says what is missing.
func (r *runner) arrived(ctx context.Context, topic string, want readback.Expected) error {
	var total int64
	for _, n := range want.Counts {
		total += int64(n)
	}
	for begin := time.Now(); ; {
		ends, err := readback.FranzGo{Bootstrap: r.cluster.Bootstrap()}.EndOffsets(ctx, topic)
		if err != nil {
			return err
		}
		var got int64
		for _, end := range ends {
			got += end
		}
		if got >= total || time.Since(begin) > 15*time.Second {
			return nil
		}
		select {
		case <-time.After(50 * time.Millisecond):
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// refused checks that the broker is refused in words, one of which is word, and with nothing written: a
// broker before 0.11, whose batches have another format, or zstd with one before 2.1.
func (r *runner) refused(ctx context.Context, s clients.Settings, word string) error {
	if r.o.Producer != "reservoir" {
		return nil // franz-go writes old formats, and falls back to no compression
	}
	cl, err := clients.New(r.o.Producer, s)
	if err != nil {
		return err
	}
	begin := time.Now()
	rec := clients.Record{Topic: r.cell.topic(), Partition: clients.AnyPartition, Value: []byte("value")}
	if r.cell.Routing == "explicit" {
		rec.Partition = 1
	}
	var d readback.Differences
	a := cl.SendSync(ctx, &rec)
	took := time.Since(begin)
	// Without acknowledgements there is nobody to refuse but the producer itself, which knows the broker's versions.
	if a.Err == nil || !strings.Contains(strings.ToLower(a.Err.Error()), word) {
		d.Add("want an error that names %s, got %v", word, a.Err)
	}
	if took > refusedWithin {
		d.Add("refused after %v, want at most %v", took, refusedWithin)
	}
	if err := cl.Close(ctx); err != nil {
		d.Add("close: %v", err)
	}
	ends, err := readback.FranzGo{Bootstrap: r.cluster.Bootstrap()}.EndOffsets(ctx, r.cell.topic())
	if err != nil {
		return err
	}
	for p, end := range ends {
		if end != 0 {
			d.Add("partition %d has %d records, want none", p, end)
		}
	}
	r.res.Refused++
	r.res.Acks += d.Count
	r.o.Logf("kafka %s: %-28v refused after %d ms: %v", r.cluster.Version(), r.cell, took.Milliseconds(), a.Err)
	r.show(d)
	return nil
}

// batchCheck looks at the batches that records came in.
type batchCheck struct {
	codecs     map[string]int
	idempotent int
	plain      int
}

func (b *batchCheck) see(f readback.Found, _ *readback.Differences) {
	if f.Batch == nil {
		return
	}
	if b.codecs == nil {
		b.codecs = make(map[string]int)
	}
	b.codecs[f.Batch.Codec]++
	if f.Batch.ProducerID >= 0 {
		b.idempotent++
	} else {
		b.plain++
	}
}

// judge checks that the codec was used, except where it does not make a batch smaller, and that batches
// are those of an idempotent producer exactly when acks are all.
func (b *batchCheck) judge(c Cell, d *readback.Differences) {
	for codec, n := range b.codecs {
		if codec != c.Codec && codec != "none" {
			d.Add("%d records compressed with %s", n, codec)
		}
	}
	if b.codecs[c.Codec] == 0 {
		d.Add("no record compressed with %s", c.Codec)
	}
	if c.Acks == "all" && b.plain > 0 {
		d.Add("%d records without a producer id", b.plain)
	}
	if c.Acks != "all" && b.idempotent > 0 {
		d.Add("%d records with a producer id", b.idempotent)
	}
}
