package accumulator

import (
	"bytes"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/kafka-reservoir/producer/internal/compress"
	"github.com/kafka-reservoir/producer/protocol"
)

var codecs = []protocol.Codec{protocol.CodecGzip, protocol.CodecSnappy, protocol.CodecLZ4, protocol.CodecZstd}

// ACC-02, MRB-06, MRB-07, MRB-09, DRB-10: a compressed batch has the same records; its size is the real one, its raw size the one
// before; what memory it does not need any more is given back at once.
func TestSealedBatch(t *testing.T) {
	for _, codec := range codecs {
		for _, sealers := range []int{0, 2} {
			t.Run(fmt.Sprintf("%v/sealers=%d", codec, sealers), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					r := newRig(t, withCodec(codec), withBatch(32*kib), withLinger(time.Hour), func(c *Config) { c.Sealers = sealers })
					r.lead(orders, 1)
					var want [][]byte
					raw := protocol.BatchHeaderSize
					for i := range 60 {
						value := bytes.Repeat(fmt.Append(nil, "value ", i, " "), 50)
						want = append(want, value)
						raw += protocol.RecordSize(protocol.RecordBodySize(0, int32(i), nil, value, nil))
						r.record(orders, Record{Timestamp: 99, Value: value}, nil)
					}
					r.a.BeginFlush()
					got := r.drain(1)
					if len(got) == 0 { // a sealer has it; the sender does not wait
						require.NotZero(t, sealers)
						synctest.Wait()
						got = r.drain(1)
					}
					r.a.EndFlush()
					require.Len(t, got, 1)
					b := got[0]
					require.EqualValues(t, 60, b.Count(), "all fit, before anything was known of how they compress")
					h, records := r.read(b)
					assert.Equal(t, codec, h.Codec())
					assert.Equal(t, codec, b.Codec())
					assert.Equal(t, raw, b.RawSize())
					assert.Less(t, b.Size(), raw/2)
					for i := range want {
						assert.Equal(t, want[i], records[i].Value)
					}
					assert.LessOrEqual(t, int(r.pool.Total()-r.pool.Available()), b.Size()+16*kib)
					r.a.Complete(b, 0, -1)
					r.empty()
				})
			})
		}
	}
}

// A batch that does not get smaller goes as it is.
func TestIncompressibleBatchIsSentAsItIs(t *testing.T) {
	for _, codec := range codecs {
		r := newRig(t, withCodec(codec))
		r.lead(orders, 1)
		b := r.batchOf(nil, Record{Timestamp: 7, Value: noise(20 * kib)})
		assert.Equal(t, protocol.CodecNone, b.Codec())
		assert.Equal(t, reference(unstamped, Record{Timestamp: 7, Value: noise(20 * kib)}), joined(b))
		r.completeAll([]*ProducerBatch{b})
		r.empty()
	}
}

// brokenCompressor fails, or is told when it may go on.
type brokenCompressor struct {
	protocol.Compressor
	err  error
	gate chan struct{}
}

func (c brokenCompressor) Compress(dst []byte, src [][]byte) ([]byte, error) {
	if c.gate != nil {
		<-c.gate
	}
	if c.err != nil {
		return nil, c.err
	}
	return c.Compressor.Compress(dst, src)
}

func withCompressor(f func() (protocol.Compressor, error)) func(*Config) {
	return func(c *Config) { c.Codec, c.NewCompressor = protocol.CodecZstd, f }
}

// Records are not lost because a compressor does not work.
func TestBrokenCompressor(t *testing.T) {
	broken := errors.New("broken")
	for name, f := range map[string]func() (protocol.Compressor, error){
		"cannot be made":  func() (protocol.Compressor, error) { return nil, broken },
		"cannot compress": func() (protocol.Compressor, error) { return brokenCompressor{err: broken}, nil },
	} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t, withCompressor(f))
			r.lead(orders, 1)
			for range 3 {
				b := r.batchOf(nil, Record{Timestamp: 7, Value: make([]byte, 20*kib)})
				assert.Equal(t, reference(unstamped, Record{Timestamp: 7, Value: make([]byte, 20*kib)}), joined(b))
				r.completeAll([]*ProducerBatch{b})
			}
			r.empty()
		})
	}
}

// gated makes an accumulator whose compression waits for the function returned.
func gated(t *testing.T, sealers int, set ...func(*Config)) (*rig, chan struct{}) {
	gate := make(chan struct{})
	set = append([]func(*Config){withBatch(1 * kib), withLinger(time.Hour), func(c *Config) { c.Sealers = sealers },
		withCompressor(func() (protocol.Compressor, error) {
			c, err := compress.New(protocol.CodecZstd, 0)
			return brokenCompressor{Compressor: c, gate: gate}, err
		})}, set...)
	r := newRig(t, set...)
	r.lead(orders, 1, 1)
	return r, gate
}

// Architecture 3.4 D: batches are compressed by a few goroutines beside those that append, and when all are busy by the
// one that filled the batch, which is the back-pressure. The sender passes over a batch that is being compressed, and its
// partition only. Order is kept.
func TestSealers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r, gate := gated(t, 2)
		var wg sync.WaitGroup
		for i := range 3 { // the first two are taken off their hands
			wg.Go(func() { r.record(orders, Record{Timestamp: int64(i), Value: make([]byte, 2*kib)}, nil) })
			synctest.Wait()
		}
		ended := make(chan struct{})
		go func() { wg.Wait(); close(ended) }()
		synctest.Wait()
		select {
		case <-ended:
			t.Fatal("the third append must compress itself")
		default:
		}
		assert.Empty(t, r.readyNodes())
		assert.Empty(t, r.drainUpTo(1, 1<<20))
		gate <- struct{}{} // whoever comes first
		synctest.Wait()
		close(gate)
		<-ended
		synctest.Wait()
		for i := range 3 {
			b := r.drainOne(1)
			h, _ := r.read(b)
			assert.EqualValues(t, i, h.BaseTimestamp)
			r.a.Complete(b, 0, -1)
		}
		r.empty()
	})
}

// S-56, EXT-07: a forced close waits for batches that are being compressed, by sealers and by goroutines that append, and
// ends those that were to be: none is forgotten.
func TestForcedCloseWaitsForSealing(t *testing.T) {
	for sealers := range 2 {
		t.Run(fmt.Sprintf("sealers=%d", sealers), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r, gate := gated(t, sealers)
				cb := &told{}
				var wg sync.WaitGroup
				for p := range int32(2) {
					wg.Go(func() {
						r.record(orders, Record{Partition: p, Timestamp: -1, Value: make([]byte, 2*kib)}, cb.OnCompletion)
					})
				}
				synctest.Wait()
				r.a.Close()
				aborted := make(chan []*ProducerBatch)
				go func() { aborted <- r.a.Incomplete(r.peek()) }()
				synctest.Wait()
				close(gate)
				batches := <-aborted
				wg.Wait()
				assert.Len(t, batches, 2)
				for _, b := range batches {
					r.a.Fail(b, errForced, nil)
				}
				assert.Len(t, cb.errs, 2)
				r.empty()
			})
		})
	}
}

// After a close nothing is compressed any more: what is closed then is ended as it is.
func TestNothingIsSealedAfterShutdown(t *testing.T) {
	r := newRig(t, withCodec(protocol.CodecLZ4), withLinger(time.Hour))
	r.lead(orders, 1)
	r.put(0, 10)
	r.a.Shutdown()
	r.a.StartClosing()
	assert.Empty(t, r.drain(1))
	batches := r.a.Incomplete(r.peek())
	require.Len(t, batches, 1)
	r.a.Fail(batches[0], errForced, nil)
	r.empty()
}

// ACC-15, S-84: a batch that is overdue while it is being compressed ends when that is done; the sender looks again soon.
func TestExpiryWhileSealing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r, gate := gated(t, 1, func(c *Config) { c.DeliveryTimeout = time.Second })
		r.put(0, 2*kib)
		synctest.Wait()
		r.clock.advance(2 * time.Second)
		now := r.peek()
		assert.Empty(t, r.a.Expired(now))
		assert.Equal(t, now.Add(sealGrace), r.a.NextExpiry(now))
		close(gate)
		synctest.Wait()
		expired := r.a.Expired(now)
		require.Len(t, expired, 1)
		r.a.Fail(expired[0], errExpired, nil)
		assert.True(t, r.a.NextExpiry(now).IsZero())
		r.empty()
	})
}

// CRE-01: the estimate rises at once, by a step at least, and falls slowly; it is never below what was seen.
func TestRatio(t *testing.T) {
	var r ratio
	assert.Equal(t, 1.0, r.get())
	for _, tt := range []struct{ now, seen, want float64 }{
		{0.8, 0.84, 0.85}, {0.6, 0.7, 0.7}, {0.6, 0.4, 0.595}, {0.004, 0.001, 0.001}, {1, 1, 1},
	} {
		r.reset(0)
		r.bits.Store(0)
		for r.get() > tt.now {
			r.observe(max(tt.now, r.get()-ratioBetter))
		}
		assert.InDelta(t, tt.now, r.get(), 1e-9)
		r.observe(tt.seen)
		assert.InDelta(t, tt.want, r.get(), 1e-9)
	}
	r.reset(0.3)
	assert.Equal(t, 1.0, r.get(), "never below 1 after a split")
	r.reset(1.2)
	assert.Equal(t, 1.2, r.get())
}

// Architecture 3.11, S-71: a batch is filled by its compressed size, as estimated from those before it; the estimate is
// kept per topic.
func TestBatchIsFilledByItsCompressedSize(t *testing.T) {
	r := newRig(t, withCodec(protocol.CodecZstd), withBatch(8*kib), withPool(8<<20))
	r.lead(orders, 1)
	r.lead("other", 1)
	rng := rand.New(rand.NewPCG(5, 6))
	value := func() []byte { // compresses to about a fifth
		v := make([]byte, 500)
		for i := range v {
			if i%5 == 0 {
				v[i] = byte(rng.IntN(256))
			}
		}
		return v
	}
	var sizes, raws []int
	for i := 0; len(sizes) < 300; i++ {
		r.record(orders, Record{Timestamp: -1, Value: value()}, nil)
		if i%10 == 0 {
			continue
		}
		if r.a.deque(r.a.Topic(orders), 0, 1).len() > 1 {
			b := r.drainOne(1)
			sizes, raws = append(sizes, b.Size()), append(raws, b.RawSize())
			r.a.Complete(b, 0, -1)
		}
	}
	assert.LessOrEqual(t, raws[0], 8*kib, "nothing is known yet")
	last := len(sizes) - 1
	assert.Greater(t, raws[last], 20*kib)
	assert.LessOrEqual(t, sizes[last], 8*kib)
	assert.Greater(t, sizes[last], 6*kib)
	assert.InDelta(t, float64(sizes[last])/float64(raws[last]), r.a.Topic(orders).ratio.get(), 0.05)
	assert.Equal(t, 1.0, r.a.Topic("other").ratio.get())
}

// However well records compress, a batch does not grow beyond sixteen times batch.size, nor a quarter of the buffer.
func TestCompressedBatchIsBoundedRaw(t *testing.T) {
	for _, tt := range []struct {
		pool  int64
		limit int
	}{{8 << 20, 16 * 8 * kib}, {256 * kib, 64 * kib}, {32 * kib, 8 * kib}} {
		r := newRig(t, withCodec(protocol.CodecZstd), withBatch(8*kib), withPool(tt.pool), withLinger(time.Hour))
		r.lead(orders, 1)
		for r.a.Topic(orders).ratio.get() > 0.01 {
			r.a.Topic(orders).ratio.observe(0.001)
		}
		for len(r.drain(1)) == 0 {
			r.put(0, 100)
		}
		// The one that was drained is gone; what counts is when it was closed.
		b := r.a.incomplete.oldest()
		assert.LessOrEqual(t, b.RawSize(), tt.limit)
		assert.Greater(t, b.RawSize(), tt.limit-200)
	}
}

// ACC-21: with good and bad data mixed in any proportion, fewer than one batch in ten is larger than batch.size.
func TestMixedDataRarelyOverflows(t *testing.T) {
	for _, good := range []int{10, 30, 50, 70, 90} {
		t.Run(fmt.Sprintf("good=%d", good), func(t *testing.T) {
			const size = 16 * kib
			r := newRig(t, withCodec(protocol.CodecGzip), withBatch(size), withPool(8<<20))
			r.lead(orders, 1)
			rng := rand.New(rand.NewPCG(uint64(good), 6))
			random := rand.NewChaCha8([32]byte{byte(good)})
			batches, over := 0, 0
			for batches < 200 {
				value := make([]byte, 1*kib)
				if rng.IntN(100) >= good {
					_, _ = random.Read(value)
				}
				r.record(orders, Record{Timestamp: -1, Value: value}, nil)
				if r.a.deque(r.a.Topic(orders), 0, 1).len() < 2 {
					continue
				}
				b := r.drainOne(1)
				batches++
				if b.Size() > size {
					over++
				}
				r.a.Complete(b, 0, -1)
			}
			assert.Less(t, over, batches/10)
		})
	}
}

// A sealer keeps its buffer from batch to batch, unless it has become very large.
func TestSealerKeepsItsBuffer(t *testing.T) {
	w := &sealer{}
	w.keep(make([]byte, 10, maxSealBuffer))
	assert.Equal(t, maxSealBuffer, cap(w.buf))
	w.keep(make([]byte, 10, maxSealBuffer+1))
	assert.Equal(t, maxSealBuffer, cap(w.buf))
	assert.Empty(t, w.buf)
}
