package accumulator

import (
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// benchRig is a rig of n partitions on three nodes, with real time and the producer's own defaults for the rest.
func benchRig(b *testing.B, partitions int, set ...func(*Config)) *rig {
	set = append([]func(*Config){withPool(32 << 20), withBatch(512 * kib), withLinger(5 * ms), func(c *Config) {
		c.Now, c.StickyThreshold, c.Adaptive = time.Now, 64*kib, true
	}}, set...)
	r := newRig(b, set...)
	r.peek = time.Now
	leaders := make([]int32, partitions)
	for i := range leaders {
		leaders[i] = int32(1 + i%3)
	}
	r.lead(orders, leaders...)
	return r
}

// turns completes all that is ready on all nodes, and returns how many batches that were.
func (c *cycle) turns() int {
	r, now, n := c.r, time.Now(), 0
	for _, id := range r.a.Nodes() {
		r.a.SetNode(id, true, 0)
	}
	c.nodes = append(c.nodes[:0], r.a.Ready(r.snap, now).Nodes...)
	for _, id := range c.nodes {
		for {
			c.dst = r.a.Drain(c.dst[:0], id, 1<<20, now, nil)
			if len(c.dst) == 0 {
				break
			}
			for _, b := range c.dst {
				r.a.Complete(b, 0, -1)
			}
			n += len(c.dst)
		}
	}
	return n
}

// flush completes everything.
func (c *cycle) flush() {
	c.r.a.BeginFlush()
	for c.turns() > 0 {
	}
	c.r.a.EndFlush()
}

// BenchmarkAppend is the path of a record through the accumulator, by one goroutine: its append, and its share of a sender's work on its batch,
// its callback included. The sender comes every 256 KiB. key=none leaves the choice of the partition to the accumulator; records with keys
// go round all partitions, so that with 1,000 each batch has two or three of 100 bytes, and with 10,000 none has more than one.
func BenchmarkAppend(b *testing.B) {
	for _, tt := range []struct {
		size, key, partitions int
		result                string
	}{
		{100, 0, 12, "none"},
		{100, 0, 12, "callback"},
		{100, 0, 12, "future"},
		{1000, 0, 12, "callback"},
		{10_000, 0, 12, "callback"},
		{100, 0, 1, "callback"},
		{100, 16, 12, "callback"},
		{100, 16, 12, "future"},
		{1000, 16, 12, "callback"},
		{100, 16, 1000, "callback"},
		{100, 16, 10_000, "callback"},
	} {
		key := "none"
		if tt.key > 0 {
			key = fmt.Sprint(tt.key)
		}
		b.Run(fmt.Sprintf("size=%d/key=%s/partitions=%d/result=%s", tt.size, key, tt.partitions, tt.result), func(b *testing.B) {
			r := benchRig(b, tt.partitions)
			c := &cycle{r: r}
			topic, md := r.a.Topic(orders), r.snap.Topic(orders)
			rec := Record{Partition: anyOf, Timestamp: -1, Value: make([]byte, tt.size)}
			if tt.key > 0 {
				rec.Key = make([]byte, tt.key)
			}
			var cb Callback
			if tt.result == "callback" {
				cb = static
			}
			ctx, next, unsent := b.Context(), 0, 0
			one := func() {
				if rec.Key != nil {
					rec.Partition = int32(next % tt.partitions)
					next++
				}
				if _, _, err := r.a.Append(ctx, topic, md, &rec, cb, tt.result == "future", 0); err != nil {
					b.Fatal(err)
				}
				if unsent += tt.size; unsent > 256*kib {
					c.flush()
					unsent = 0
				}
			}
			for range max(2*tt.partitions, 2<<20/tt.size) {
				one()
			}
			b.ReportAllocs()
			b.SetBytes(int64(tt.size))
			for b.Loop() {
				one()
			}
		})
	}
}

// S-104: appends of many goroutines contend for nothing but their partition: no lock is shared by all. Compare
// -cpu 1,2,4. key=own has each goroutine keep to a partition of its own.
func BenchmarkAppendParallel(b *testing.B) {
	for _, key := range []string{"none", "16", "own"} {
		b.Run(fmt.Sprintf("size=100/key=%s/partitions=12", key), func(b *testing.B) {
			woken := make(chan struct{}, 1)
			wake := func() {
				select {
				case woken <- struct{}{}:
				default:
				}
			}
			r := benchRig(b, 12, func(c *Config) { c.Wake = wake })
			stop := make(chan struct{})
			stopped := make(chan struct{})
			go func() { // the sender
				defer close(stopped)
				c := &cycle{r: r}
				for {
					c.turns()
					now := time.Now()
					if r.a.PrepareSleep(now, now.Add(5*ms)) {
						select {
						case <-woken:
						case <-time.After(5 * ms):
						case <-stop:
							return
						}
					}
					r.a.Awake()
				}
			}()
			topic, md := r.a.Topic(orders), r.snap.Topic(orders)
			ctx := b.Context()
			var goroutine atomic.Int32
			b.ReportAllocs()
			b.SetBytes(100)
			b.RunParallel(func(pb *testing.PB) {
				me := goroutine.Add(1)
				rec := Record{Partition: anyOf, Timestamp: -1, Value: make([]byte, 100)}
				i := int32(0)
				for pb.Next() {
					switch key {
					case "16":
						rec.Key, rec.Partition = rec.Value[:16], i%12
						i++
					case "own":
						rec.Partition = me % 12
					}
					if _, _, err := r.a.Append(ctx, topic, md, &rec, static, false, time.Minute); err != nil {
						b.Error(err)
						return
					}
				}
			})
			close(stop)
			wake()
			<-stopped
		})
	}
}

// BenchmarkDrain is what one look of the sender costs that finds ready batches, the header of each included: from Ready to the end of
// the batches. What the other partitions have lingers. ns/op is of the look alone, without the appends in between.
func BenchmarkDrain(b *testing.B) {
	for _, tt := range []struct{ partitions, ready int }{{12, 12}, {10_000, 12}, {1000, 1000}} {
		b.Run(fmt.Sprintf("partitions=%d/ready=%d", tt.partitions, tt.ready), func(b *testing.B) {
			const size = 1000
			r := benchRig(b, tt.partitions, withBatch(size), withLinger(time.Hour), func(c *Config) { c.Adaptive = false })
			c := &cycle{r: r}
			topic, md := r.a.Topic(orders), r.snap.Topic(orders)
			ctx := b.Context()
			put := func(from, to, size int) {
				rec := Record{Timestamp: -1, Value: make([]byte, size)}
				for p := from; p < to; p++ {
					rec.Partition = int32(p)
					_, _, err := r.a.Append(ctx, topic, md, &rec, nil, false, 0)
					require.NoError(b, err)
				}
			}
			put(tt.ready, tt.partitions, 10)
			rec := Record{Timestamp: -1, Value: make([]byte, size)} // fills its batch
			turn := func() (took time.Duration) {
				for p := range int32(tt.ready) {
					rec.Partition = p
					if _, _, err := r.a.Append(ctx, topic, md, &rec, nil, false, 0); err != nil {
						b.Fatal(err)
					}
				}
				began := time.Now()
				if n := c.turns(); n != tt.ready {
					b.Fatalf("%d batches", n)
				}
				return time.Since(began)
			}
			turn()
			took := time.Duration(0)
			b.ReportAllocs()
			for b.Loop() {
				took += turn()
			}
			b.ReportMetric(float64(took)/float64(b.N), "ns/op")
		})
	}
}

// BenchmarkIdle is an iteration with nothing to do but a linger to wait for, which must not depend on how many partitions
// there are.
func BenchmarkIdle(b *testing.B) {
	for _, partitions := range []int{1, 10_000} {
		b.Run(fmt.Sprintf("partitions=%d", partitions), func(b *testing.B) {
			r := benchRig(b, partitions, withLinger(time.Hour), func(c *Config) { c.Adaptive = false })
			topic, md := r.a.Topic(orders), r.snap.Topic(orders)
			for p := range int32(partitions) {
				if _, _, err := r.a.Append(b.Context(), topic, md, &Record{Partition: p, Timestamp: -1}, nil, false, 0); err != nil {
					b.Fatal(err)
				}
			}
			now := time.Now()
			r.a.Ready(r.snap, now)
			b.ReportAllocs()
			for b.Loop() {
				r.a.Ready(r.snap, now)
				r.a.Expired(now)
				r.a.NextExpiry(now)
				r.a.PrepareSleep(now, now.Add(time.Second))
				r.a.Awake()
			}
		})
	}
}

// BenchmarkRun is what the callback goroutine does for a batch: its records' callbacks, which do nothing here. ns/op is for each record.
func BenchmarkRun(b *testing.B) {
	for _, records := range []int{1, 150} {
		b.Run(fmt.Sprintf("records=%d", records), func(b *testing.B) {
			r := benchRig(b, 1, withLinger(time.Hour))
			for range records {
				r.record(orders, Record{Timestamp: -1, Value: make([]byte, 100)}, static)
			}
			r.a.BeginFlush()
			batch := r.drainOne(1)
			batch.Hold()
			r.a.Complete(batch, 0, -1)
			b.ReportAllocs()
			for b.Loop() {
				batch.refs.Add(1) // Run lets go of one
				batch.Run()
			}
			b.ReportMetric(float64(b.Elapsed())/float64(b.N*records), "ns/op")
		})
	}
}
