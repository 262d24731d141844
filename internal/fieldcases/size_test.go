package fieldcases

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/kafka-reservoir/producer"
	"github.com/kafka-reservoir/producer/internal/testbroker"
	"github.com/kafka-reservoir/producer/protocol"
)

// Records and batches that are too large, for the producer or for a broker; what sizes are estimated to be.

// limited is a cluster whose topic T takes batches of so many bytes.
func limited(maxMessageBytes int) testbroker.Config {
	return testbroker.Config{Topics: []testbroker.Topic{{Name: T, Partitions: 1, MaxMessageBytes: maxMessageBytes}}, JournalLimit: 100_000}
}

// noise is n bytes that no codec makes smaller, different for each seed.
func noise(seed byte, n int) []byte {
	b := make([]byte, n)
	_, _ = rand.NewChaCha8([32]byte{seed}).Read(b)
	return b
}

// refusedTooLarge are the Produce requests that were answered MESSAGE_TOO_LARGE.
func (w *world) refusedTooLarge() (n int) {
	for _, e := range w.Cluster().Requests() {
		for _, r := range e.Results {
			if r.Answer == protocol.MessageTooLarge {
				n++
			}
		}
	}
	return n
}

// FC-039: MaxRequestSize bounds a record before compression, and Send says so; the broker bounds what is compressed, and
// the error says that it was the broker.
func TestFC039LimitsBeforeAndAfterCompression(t *testing.T) {
	play(t, limited(100_000), func(w *world) {
		zeros := record{Topic: T, Value: make([]byte, 2_000_000)}
		small := w.producer(func(c *producer.Config) { c.Compression = producer.Zstd }) // 1 MiB is the default
		w.warm(small, 0)
		requests := len(w.Cluster().Requests())
		_, err := w.send(small, zeros).wait()
		var local *producer.RecordTooLargeError
		require.ErrorAs(t, err, &local)
		assert.Equal(t, 1<<20, local.Limit)
		assert.Greater(t, local.Size, 2_000_000)
		assert.Equal(t, "MaxRequestSize", local.Setting)
		for _, part := range []string{fmt.Sprint(local.Size), "1048576", "MaxRequestSize", "max.request.size"} {
			assert.ErrorContains(t, err, part)
		}
		assert.NotErrorIs(t, err, producer.MessageTooLarge)
		assert.Len(t, w.Cluster().Requests(), requests)
		w.book = w.book[:1] // what follows has the same value

		large := w.producer(func(c *producer.Config) { c.Compression, c.MaxRequestSize = producer.Zstd, 4<<20 })
		w.acked(w.send(large, zeros))
		batches := w.batches(0)
		require.Len(t, batches, 2)
		assert.Less(t, batches[1].Size, 10_000)

		_, err = w.send(large, record{Topic: T, Value: noise(1, 2_000_000)}).wait()
		assert.ErrorIs(t, err, producer.MessageTooLarge)
		assert.False(t, errors.As(err, &local), "it was the broker")
		var story *producer.DeliveryError
		require.ErrorAs(t, err, &story)
		assert.Equal(t, 1, story.Attempts)
		assert.False(t, producer.IsRetriable(err))
		assert.False(t, producer.MayHaveBeenWritten(err))
		assert.Len(t, w.batches(0), 3)
	})
}

// FC-040: a record above the topic's limit fails alone, and was sent alone once; those that shared its batch are
// written in their order. Splitting is no retry: with one retry allowed, each part may still be refused once.
func TestFC040OnlyTheLargeRecordFails(t *testing.T) {
	for _, refuse := range []bool{false, true} {
		play(t, limited(2000), func(w *world) {
			p := w.producer(func(c *producer.Config) { c.Retries = 1 })
			w.warm(p, 0)
			before := len(w.batches(0))
			refused := map[int32]bool{}
			if refuse {
				w.Cluster().SetFault(func(r *testbroker.Request) testbroker.Verdict {
					if r.API != protocol.KeyProduce || r.Batches[0].Size > 2000 || refused[r.Batches[0].BaseSequence] {
						return testbroker.Verdict{}
					}
					refused[r.Batches[0].BaseSequence] = true
					return testbroker.Answer(protocol.NotEnoughReplicas)
				})
			}
			var good []*sent
			var big *sent
			for i := range 41 {
				if i == 20 {
					big = w.send(p, to(0, "%d%s", i, strings.Repeat("B", 3000)))
				} else {
					good = append(good, w.send(p, to(0, "%02d%s", i, strings.Repeat("s", 98))))
				}
			}
			w.acked(good...)
			_, err := big.wait()
			assert.ErrorIs(t, err, producer.MessageTooLarge)
			assert.Equal(t, refuse, len(refused) > 0)
			var order []string
			for _, v := range w.values(0)[1:] {
				order = append(order, v[:2])
			}
			require.Len(t, order, 40)
			assert.IsIncreasing(t, order)
			alone := 0
			for _, b := range w.batches(0)[before:] {
				if b.Count == 1 && b.Size > 3000 {
					alone++
				}
			}
			assert.Equal(t, 1, alone)
		})
	}
}

// FC-041: a batch far above the topic's limit is halved until it fits, with few refusals; where nothing fits, each record is
// tried once alone, and all of that ends by the delivery timeout.
func TestFC041SplittingEnds(t *testing.T) {
	for _, codec := range []producer.Compression{producer.None, producer.LZ4} {
		for _, limit := range []int{64 << 10, 100} {
			t.Run(fmt.Sprint(codec, limit), func(t *testing.T) {
				play(t, limited(limit), func(w *world) {
					p := w.producer(func(c *producer.Config) {
						c.BatchSize, c.MaxRequestSize, c.Compression = 8<<20, 16<<20, codec
					})
					n := 250 // 4000 are worth their time in one of the four
					if codec == producer.None && limit > 1000 {
						n = 4000
					}
					began := time.Now()
					var all []*sent
					for i := range n {
						value := noise(byte(i), 1000)
						copy(value, fmt.Sprintf("%04d", i))
						all = append(all, w.send(p, record{Topic: T, Value: value, Partition: producer.OnPartition(0)}))
					}
					if limit > 1000 {
						w.acked(all...)
						assert.Less(t, time.Since(began), 5*time.Second)
						assert.LessOrEqual(t, w.refusedTooLarge(), 300)
						assert.Positive(t, w.refusedTooLarge())
						for i, v := range w.values(0) {
							require.Equal(t, fmt.Sprintf("%04d", i), v[:4])
						}
						return
					}
					for _, s := range all {
						_, err := s.wait()
						require.ErrorIs(t, err, producer.MessageTooLarge)
						require.False(t, producer.MayHaveBeenWritten(err))
					}
					assert.LessOrEqual(t, time.Since(began), 3*time.Second, "the delivery timeout")
					alone := 0
					for _, b := range w.batches(0) {
						if b.Count == 1 {
							alone++
						}
					}
					assert.Equal(t, n, alone)
				})
			})
		}
	}
}

// mixed is a record of random sizes, with headers that are sometimes long and sometimes many.
func mixed(rng *rand.Rand, i int) record {
	size := func() int { return []int{0, 1, 63, 64, 100, 127, 128, 1000, 8191, 8192}[rng.IntN(10)] }
	r := to(-1, "%d%s", i, strings.Repeat("v", size()))
	if rng.IntN(2) == 0 {
		r.Key = bytes.Repeat([]byte{'k'}, size())
	}
	switch rng.IntN(4) {
	case 0:
		r.Headers = []producer.Header{{Key: "h", Value: bytes.Repeat([]byte{'h'}, 10_000)}}
	case 1:
		for j := range 200 {
			r.Headers = append(r.Headers, producer.Header{Key: strings.Repeat("h", j), Value: bytes.Repeat([]byte{'h'}, j/2)})
		}
	case 2:
		r.Headers = []producer.Header{{}, {Key: "null"}, {Value: []byte{}}}
	}
	return r
}

// FC-042: batches of several records are within BatchSize, headers and all, what a request carries within MaxRequestSize, and no record
// takes more than it was estimated to.
func TestFC042HeadersCount(t *testing.T) {
	const records, maxRequest = 500, 64 << 10
	rng := rand.New(rand.NewPCG(4, 2))
	play(t, testbroker.Config{Partitions: 6, JournalLimit: 100_000}, func(w *world) {
		p := w.producer(func(c *producer.Config) { c.MaxRequestSize = maxRequest })
		for i := range records {
			w.send(p, mixed(rng, i))
		}
		require.NoError(t, p.Flush(context.Background()))
		several := 0
		for _, r := range w.requests(protocol.KeyProduce) {
			carried := 0 // as in Java, the limit is on the batches, and the request's own framing is not counted
			for _, b := range r.Batches {
				carried += b.Size
				if b.Count > 1 {
					several++
					assert.LessOrEqual(t, b.Size, 16<<10)
				}
			}
			assert.LessOrEqual(t, carried, maxRequest)
		}
		assert.Greater(t, several, 50)
		assert.Zero(t, w.refusedTooLarge())
		w.acked(w.book...)

		// Alone in its batch, a record shows what it takes.
		one := w.producer(func(c *producer.Config) { c.BatchSize = 1 })
		for i := range 100 {
			before := len(w.requests(protocol.KeyProduce))
			r := mixed(rng, records+i)
			w.acked(w.send(one, r))
			got := w.requests(protocol.KeyProduce)[before:]
			require.Len(t, got, 1)
			require.EqualValues(t, 1, got[0].Batches[0].Count)
			assert.LessOrEqual(t, got[0].Batches[0].Size, protocol.MaxRecordSize(r.Key, r.Value, r.Headers))
		}
	})
}

// FC-043: the limit is exact: a record that may take up MaxRequestSize, 1 MiB by default, is sent, and one byte more is
// refused with both numbers; a broker with default settings takes it.
func TestFC043TheLimitIsExact(t *testing.T) {
	for name, r := range map[string]record{
		"value only": {Topic: T},
		"all": {Topic: T, Key: make([]byte, 10), Headers: []producer.Header{
			{Key: "a", Value: []byte("1")}, {Key: "bb", Value: make([]byte, 300)}, {Key: "null"},
		}},
	} {
		t.Run(name, func(t *testing.T) {
			play(t, testbroker.Config{}, func(w *world) {
				p := w.producer(nil)
				at := func(size int) error {
					r.Value = make([]byte, size)
					_, err := w.send(p, r).wait()
					return err
				}
				low, high := 1<<20-2000, 1<<20 // the largest that is taken is at least low, and below high
				require.NoError(t, at(low))
				require.Error(t, at(high))
				for low+1 < high {
					if size := (low + high) / 2; at(size) == nil {
						low = size
					} else {
						high = size
					}
				}
				assert.Equal(t, 1048576, protocol.MaxRecordSize(r.Key, make([]byte, low), r.Headers))
				r.Topic = "other" // the case's values have to be unique in their topic
				err := at(low + 1)
				var tooLarge *producer.RecordTooLargeError
				require.ErrorAs(t, err, &tooLarge)
				assert.Equal(t, 1048577, tooLarge.Size)
				assert.ErrorContains(t, err, "1048577")
				assert.ErrorContains(t, err, "1048576")
			})
		})
	}
}
