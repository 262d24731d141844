package fieldcases

import (
	"context"
	"fmt"
	"runtime"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/kafka-reservoir/producer"
	"github.com/kafka-reservoir/producer/internal/leak"
	"github.com/kafka-reservoir/producer/internal/testbroker"
)

// Compression, as far as it takes a whole producer: package compress has the formats.

// prose is n bytes that compress as text does, different for each seed.
func prose(seed byte, n int) []byte {
	words := strings.Fields("the quick brown fox jumps over the lazy dog while nobody in the house is looking at what a fox does")
	var b strings.Builder
	for i, x := range noise(seed, n/3) {
		if b.Len() > n {
			break
		}
		b.WriteString(words[int(x)%len(words)])
		if i%20 == 0 {
			fmt.Fprint(&b, i*int(x))
		}
		b.WriteByte(' ')
	}
	return []byte(b.String()[:n])
}

// FC-046: each level is applied, and what it makes can be read; the highest makes less than the lowest; the default is what
// is documented. A level that does not exist is refused by New, with the range, before anything runs.
func TestFC046LevelsOfAProducer(t *testing.T) {
	for _, tt := range []struct {
		codec                  producer.Compression
		low, high, def, beyond int
		says                   string
	}{
		{producer.Gzip, 1, 9, 0, 10, "1 to 9"}, // -1 in Java
		{producer.LZ4, 1, 17, 9, 18, "1 to 17"},
		{producer.Zstd, -7, 22, 3, 99, "-131072 to 22"},
	} {
		t.Run(tt.codec.String(), func(t *testing.T) {
			play(t, testbroker.Config{}, func(w *world) {
				text := prose(1, 50_000)
				n := 0
				size := func(level int) int { // of the batch
					p := w.producer(func(c *producer.Config) { c.Compression, c.CompressionLevel = tt.codec, level })
					n++
					w.acked(w.send(p, record{Topic: T, Value: append(text[:50_000], fmt.Sprintf("%02d", n)...)}))
					require.NoError(t, w.close(p, time.Minute))
					batches := w.batches(0)
					last := batches[len(batches)-1]
					assert.Equal(t, tt.codec.String(), last.Codec.String())
					return last.Size
				}
				sizes := map[int]int{}
				for level := tt.low; level <= tt.high; level++ {
					sizes[level] = size(level) // 0 stands for the default
				}
				assert.Less(t, sizes[tt.high], sizes[tt.low])
				assert.Less(t, sizes[tt.low], 50_000)
				assert.InDelta(t, size(tt.def), size(0), 2, "but for the last two bytes it is the default")

				synctest.Wait()
				require.Empty(t, leak.Goroutines())
				_, err := producer.New(w.t0(func(c *producer.Config) { c.Compression, c.CompressionLevel = tt.codec, tt.beyond }), producer.Bytes(), producer.Bytes())
				var bad *producer.ConfigError
				require.ErrorAs(t, err, &bad)
				assert.Equal(t, "CompressionLevel", bad.Field)
				assert.Contains(t, bad.Reason, tt.says)
				assert.Empty(t, leak.Goroutines())
			})
		})
	}
}

// FC-038: with many processors and the best level, encoders are few, made once, and hold less than 64 MB together.
func TestFC038EncodersAreFew(t *testing.T) {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(64))
	play(t, testbroker.Config{Partitions: 64, DiscardRecords: true}, func(w *world) {
		p := w.producer(func(c *producer.Config) { c.Compression, c.CompressionLevel = producer.Zstd, 22 })
		value := prose(1, 15_000)
		round := func() {
			for i := range int32(64) {
				p.SendFunc(context.Background(), record{Topic: T, Partition: producer.OnPartition(i), Value: value}, nil)
			}
			require.NoError(t, p.Flush(context.Background()))
		}
		var before, after runtime.MemStats
		runtime.GC()
		runtime.ReadMemStats(&before)
		for range 2 {
			round()
		}
		runtime.GC()
		runtime.ReadMemStats(&after)
		assert.Less(t, int64(after.HeapAlloc)-int64(before.HeapAlloc), int64(64<<20))
		allocated := after.TotalAlloc
		for range 2 {
			round()
		}
		runtime.ReadMemStats(&after)
		// An encoder takes 7 MiB. What is seen here is the broker's, which decompresses what comes.
		assert.Less(t, (after.TotalAlloc-allocated)/128, uint64(1<<20), "bytes a batch")
	})
}
