package accumulator

import (
	"fmt"
	"sync/atomic"
	"testing"
	"time"
)

// benchRig is a rig of n partitions on three nodes, with real time and the producer's own defaults for the rest.
func benchRig(b *testing.B, partitions int, set ...func(*Config)) *rig {
	set = append([]func(*Config){withPool(32 << 20), withBatch(1 << 20), withLinger(5 * ms), func(c *Config) {
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

// turns completes all that is ready on all nodes.
func (c *cycle) turns() {
	r, now := c.r, time.Now()
	for _, id := range r.a.Nodes() {
		r.a.SetNode(id, true, 0)
	}
	for _, id := range append([]int32{}, r.a.Ready(r.snap, now).Nodes...) {
		for {
			c.dst = r.a.Drain(c.dst[:0], id, 1<<20, now, nil)
			if len(c.dst) == 0 {
				break
			}
			for _, b := range c.dst {
				r.a.Complete(b, 0, -1)
			}
		}
	}
}

// BenchmarkAppend is the path of a record through the accumulator, by one goroutine: its append with a callback, and its
// share of a sender's work on its batch. partition=sticky leaves the choice of the partition to the accumulator, keyed goes
// round all.
func BenchmarkAppend(b *testing.B) {
	for _, partitions := range []int{1, 12, 1000} {
		for _, how := range []string{"sticky", "keyed"} {
			for _, size := range []int{100, 1000} {
				b.Run(fmt.Sprintf("partitions=%d/partition=%s/value=%d", partitions, how, size), func(b *testing.B) {
					r := benchRig(b, partitions)
					c := &cycle{r: r}
					topic, md := r.a.Topic(orders), r.snap.Topic(orders)
					rec := Record{Partition: anyOf, Timestamp: -1, Value: make([]byte, size)}
					ctx := b.Context()
					i, unsent := int32(0), 0
					b.ReportAllocs()
					b.SetBytes(int64(size))
					for b.Loop() {
						if how == "keyed" {
							rec.Partition = i % int32(partitions)
							i++
						}
						if _, _, err := r.a.Append(ctx, topic, md, &rec, static, false, 0); err != nil {
							b.Fatal(err)
						}
						if unsent += size; unsent > 256*kib {
							r.a.BeginFlush() // everything goes
							c.turns()
							r.a.EndFlush()
							unsent = 0
						}
					}
				})
			}
		}
	}
}

// S-104: appends of many goroutines contend for nothing but their partition: no lock is shared by all. Compare
// -cpu 1,2,4.
func BenchmarkAppendParallel(b *testing.B) {
	for _, how := range []string{"sticky", "keyed", "own"} {
		b.Run(fmt.Sprintf("partitions=12/partition=%s/value=100", how), func(b *testing.B) {
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
					switch how {
					case "keyed":
						rec.Partition = i % 12
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

// BenchmarkDrain is the sender's work on a batch, from its opening to its end, with one record in each: what an iteration
// costs for each partition that has something.
func BenchmarkDrain(b *testing.B) {
	for _, partitions := range []int{1, 12, 1000} {
		b.Run(fmt.Sprintf("partitions=%d", partitions), func(b *testing.B) {
			r := benchRig(b, partitions, withLinger(0))
			c := &cycle{r: r}
			topic, md := r.a.Topic(orders), r.snap.Topic(orders)
			rec := Record{Timestamp: -1, Value: make([]byte, 10)}
			ctx := b.Context()
			n := 0
			b.ReportAllocs()
			for b.Loop() {
				rec.Partition = int32(n % partitions)
				if _, _, err := r.a.Append(ctx, topic, md, &rec, nil, false, 0); err != nil {
					b.Fatal(err)
				}
				if n++; n%partitions == 0 {
					c.turns()
				}
			}
			b.ReportMetric(1, "batches/op")
		})
	}
}

// BenchmarkIdle is an iteration with nothing to do but a linger to wait for, which must not depend on how many partitions
// there are.
func BenchmarkIdle(b *testing.B) {
	for _, partitions := range []int{1, 1000} {
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

// BenchmarkSeal compresses batches of 16 KiB of text-like records.
func BenchmarkSeal(b *testing.B) {
	text := make([]byte, 0, 16*kib)
	for i := 0; len(text) < 15*kib; i++ {
		text = fmt.Appendf(text, `{"id":%d,"user":"user-%d","action":"click","page":"/products/%d","ok":true}`, i*7919, i%97, i*31%1000)
	}
	for _, codec := range codecs {
		b.Run(fmt.Sprintf("codec=%v/size=16384", codec), func(b *testing.B) {
			r := newRig(b, withCodec(codec), withBatch(16*kib), withPool(8<<20), withLinger(time.Hour))
			r.lead(orders, 1)
			topic, md := r.a.Topic(orders), r.snap.Topic(orders)
			rec := Record{Timestamp: -1}
			c := &cycle{r: r}
			ctx := b.Context()
			b.ReportAllocs()
			b.SetBytes(int64(len(text)))
			for b.Loop() {
				for i := 0; i < len(text); i += 500 {
					rec.Value = text[i:min(i+500, len(text))]
					if _, _, err := r.a.Append(ctx, topic, md, &rec, nil, false, 0); err != nil {
						b.Fatal(err)
					}
				}
				r.a.BeginFlush()
				c.turn()
				r.a.EndFlush()
			}
		})
	}
}
