package accumulator

import (
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/kafka-reservoir/producer/protocol"
)

// split splits a batch that was drained.
func (r *rig) split(b *ProducerBatch) []*ProducerBatch {
	r.t.Helper()
	parts, err := r.a.SplitAndReenqueue(b, r.peek())
	require.NoError(r.t, err)
	return parts
}

// ACC-19, ACC-20, S-66, PB-05, KAFKA-19479: the parts of a batch that was too large take its place: the same records with their
// headers, codec and times, each told once, by its own future and callback, of its own offset in its own part. They
// are drained one after the other, before what came later, without the pool's memory, which is back before they are sent.
func TestSplit(t *testing.T) {
	for _, codec := range append(codecs, protocol.CodecNone) {
		t.Run(codec.String(), func(t *testing.T) {
			const n = 40
			r := newRig(t, withCodec(codec), withBatch(64*kib), withLinger(time.Hour))
			r.lead(orders, 1)
			var records []Record
			var cbs []*told
			var handles []Handle
			for i := range n {
				rec := Record{
					Timestamp: t0.UnixMilli() - int64(i*i), Key: fmt.Append(nil, "key", i), Value: append(make([]byte, 500), noise(100)...),
					Headers: []protocol.Header{{Key: "h", Value: fmt.Append(nil, i)}, {Key: "null"}},
				}
				cbs = append(cbs, &told{})
				records = append(records, rec)
				handles = append(handles, r.record(orders, rec, cbs[i].OnCompletion))
			}
			r.a.BeginFlush()
			b := r.drainOne(1)
			r.a.EndFlush()
			require.Equal(t, codec, b.Codec())
			created, raw := b.Created(), b.RawSize()
			later := r.put(0, 5)
			var told int
			r.a.cfg.OnSplit = func(_ *ProducerBatch, parts int) { told = parts }
			r.clock.advance(ms)
			parts := r.split(b)
			assert.Equal(t, len(parts), told)
			assert.Len(t, parts, 3, "two halves, each without room for a record less")
			assert.True(t, r.a.HasIncomplete())

			next := 0
			for k, p := range parts {
				assert.True(t, p.isSplit)
				assert.Equal(t, created, p.Created(), "the delivery timeout goes on")
				assert.LessOrEqual(t, p.RawSize(), raw/2+2*protocol.BatchHeaderSize)
				require.Equal(t, []int32{1}, r.readyNodes())
				require.Same(t, p, r.drainUpTo(1, 1<<20)[0])
				assert.Equal(t, 1, p.Attempts(), "splitting is no attempt")
				h, got := r.read(p)
				assert.Equal(t, codec, h.Codec())
				for i, rec := range got {
					want := records[next+i]
					assert.Equal(t, want.Key, rec.Key)
					assert.Equal(t, want.Value, rec.Value)
					assert.Equal(t, want.Headers, rec.Headers)
					assert.Equal(t, want.Timestamp, h.Timestamp(rec))
				}
				if codec == protocol.CodecNone {
					stamp := unstamped
					assert.Equal(t, reference(stamp, records[next:next+len(got)]...), joined(p))
				}
				for i := range n {
					require.Equal(t, i < next, handles[i].Settled())
				}
				r.a.Complete(p, int64(1000*k), -1)
				for i := range got {
					assert.Equal(t, []error{nil}, cbs[next+i].errs)
					assert.EqualValues(t, 1000*k+i, cbs[next+i].results[0].Offset)
					res, err := handles[next+i].Wait(t.Context())
					require.NoError(t, err)
					assert.Equal(t, cbs[next+i].results[0], res)
				}
				next += len(got)
			}
			assert.Equal(t, n, next)
			assert.False(t, later.Settled())
			r.a.StartClosing()
			r.completeAll(r.drain(1))
			r.empty()
		})
	}
}

// ACC-20: the memory of the batch goes back when no connection reads it any more; the parts lie elsewhere.
func TestSplitWhileStillRead(t *testing.T) {
	r := newRig(t)
	r.lead(orders, 1)
	for range 10 {
		r.record(orders, Record{Timestamp: 1, Value: noise(300)}, nil)
	}
	b := r.drainOne(1)
	b.Hold()
	before := joined(b)
	parts := r.split(b)
	assert.True(t, b.Done())
	used := r.pool.Total() - r.pool.Available()
	assert.NotZero(t, used)
	for range parts {
		r.completeAll(r.drain(1))
	}
	assert.Equal(t, used, r.pool.Total()-r.pool.Available())
	assert.Equal(t, before, joined(b))
	r.a.Unhold(b, r.peek())
	b.Landed()
	b.Forget()
	r.empty()
}

// MRB-14, S-80: the parts of a batch with a sequence have consecutive ones, from the batch's on, over the end of the
// numbers too; nothing is stamped anew when they are drained.
func TestSplitSequences(t *testing.T) {
	r := newRig(t)
	r.lead(orders, 1)
	g := newGate()
	g.next[0] = math.MaxInt32 - 3
	var records []Record
	for range 12 {
		records = append(records, Record{Timestamp: 3, Value: noise(100)})
	}
	b := r.batchOf(g, records...)
	stamped := g.next[0]
	parts := r.split(b)
	require.Greater(t, len(parts), 1)
	want := int32(math.MaxInt32 - 3)
	for _, p := range parts {
		require.True(t, p.Stamped())
		assert.Equal(t, want, p.Sequence())
		assert.Equal(t, g.id, p.Producer())
		require.Equal(t, []*ProducerBatch{p}, r.drainUpToWith(1, 1<<20, g))
		h, got := r.read(p)
		for _, rec := range got {
			assert.Equal(t, want, h.Sequence(rec))
			want = protocol.AddSequence(want, 1)
		}
		r.a.Complete(p, 0, -1)
	}
	assert.EqualValues(t, 8, want)
	assert.Equal(t, stamped, g.next[0])
	r.empty()
}

// ACC-31, FC-041: parts that are too large again are split again; that ends in single records after few steps, whatever
// batch.size is, and however the records' sizes are mixed. A single record is never split.
func TestSplitAgainAndAgain(t *testing.T) {
	for _, codec := range []protocol.Codec{protocol.CodecNone, protocol.CodecZstd} {
		for seed := range uint64(10) {
			rng := rand.New(rand.NewPCG(seed, 8))
			r := newRig(t, withCodec(codec), withBatch(256*kib), withLinger(time.Hour), noJitter)
			r.lead(orders, 1)
			n := 2 + rng.IntN(100)
			var handles []Handle
			for i := range n {
				size := []int{0, 10, 1000, 5000}[rng.IntN(4)]
				ts := t0.UnixMilli() + int64(rng.IntN(1<<30)) - 1<<29
				handles = append(handles, r.record(orders, Record{Timestamp: ts, Value: fmt.Appendf(nil, "%d%*s", i, size, "")}, nil))
			}
			r.a.StartClosing()
			offset, splits := int64(0), 0
			for {
				got := r.drain(1)
				if len(got) == 0 {
					break
				}
				b := got[0]
				if b.Count() > 1 {
					splits++
					depth := r.split(b)
					require.Greater(t, len(depth), 1, "a step")
					continue
				}
				r.a.Complete(b, offset, -1)
				offset++
			}
			assert.EqualValues(t, n, offset)
			assert.Less(t, splits, n)
			for i, h := range handles {
				res, err := h.Wait(t.Context())
				require.NoError(t, err)
				require.EqualValues(t, i, res.Offset)
			}
			r.empty()
		}
	}
}

// FC-041: what a topic's brokers refused is remembered for a while, down to 16 KiB: later batches are sealed at half of it, and one that is
// refused all the same goes at once into parts of that size. Two batches of 1 MiB against a limit of 64 KiB took 30 refusals, now 8, and those
// after them none.
func TestSplitsAreRemembered(t *testing.T) {
	for _, codec := range []protocol.Codec{protocol.CodecNone, protocol.CodecLZ4} {
		r := newRig(t, withCodec(codec), withPool(64<<20), withBatch(1<<20), withLinger(time.Hour), noJitter)
		r.lead(orders, 1, 1)
		refused := 0
		play := func(limit int) (most int) {
			for {
				got := r.drain(1)
				if len(got) == 0 {
					return most
				}
				for _, b := range got {
					if b.Size() > limit && b.Count() > 1 {
						refused++
						r.split(b)
						continue
					}
					most = max(most, b.Size())
					r.a.Complete(b, 0, -1)
				}
			}
		}
		rng := rand.NewChaCha8([32]byte{1})
		flushed := func(n, limit int) (most int) {
			value := make([]byte, 1000)
			for range n {
				_, _ = rng.Read(value)
				r.record(orders, Record{Timestamp: -1, Value: value}, nil)
			}
			r.a.BeginFlush()
			defer r.a.EndFlush()
			return play(limit)
		}
		flushed(2000, 64*kib)
		assert.LessOrEqual(t, refused, 8, "two batches")
		assert.Positive(t, refused)
		refused = 0
		assert.Greater(t, flushed(2000, 64*kib), 24*kib)
		assert.Zero(t, refused, "what was learned")

		r.clock.advance(fitsMemory)
		assert.Greater(t, flushed(2000, 1<<20), 900*kib, "the limit was raised")

		flushed(2000, 2*kib)
		refused = 0
		assert.Greater(t, flushed(2000, 1<<20), 12*kib, "no smaller than that")
		assert.Zero(t, refused)
		r.empty()
	}
}

// ACC-31: the parts are half as large at most, and no larger than batch.size allows, but for records that are larger
// themselves.
func TestSplitTarget(t *testing.T) {
	r := newRig(t, withBatch(256*kib), withLinger(time.Hour))
	r.lead(orders, 1)
	for range 20 {
		r.put(0, 10*kib)
	}
	r.put(0, 30*kib)
	r.a.StartClosing()
	r.a.cfg.BatchSize = 25 * kib // as if the topic's had been smaller
	b := r.drainOne(1)
	parts := r.split(b)
	for _, p := range parts {
		assert.LessOrEqual(t, p.Size(), 31*kib)
	}
	assert.Greater(t, len(parts), 8)
}

// ACC-32, FC-013, KAFKA-19479: a flush that waits for a batch waits for its parts, and theirs; so does one that begins then. Whoever
// waits for a record goes on waiting through splits, in whatever way.
func TestFlushWaitsForParts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, withLinger(time.Hour))
		r.lead(orders, 1)
		var handles []Handle
		for range 8 {
			handles = append(handles, r.put(0, 100))
		}
		r.a.BeginFlush()
		flushed := r.flushing()
		offsets := make(chan int64, 8)
		var done []<-chan struct{}
		for _, h := range handles {
			go func() {
				res, err := h.Wait(t.Context())
				assert.NoError(t, err)
				offsets <- res.Offset
			}()
			done = append(done, h.Done())
		}
		ctx, cancel := context.WithCancel(t.Context())
		cancelled := make(chan error)
		go func() {
			_, err := handles[7].Wait(ctx)
			cancelled <- err
		}()
		synctest.Wait()

		parts := r.split(r.drainOne(1))
		synctest.Wait()
		later := r.flushing()
		cancel() // a wait that a split has moved can still be left
		require.ErrorIs(t, <-cancelled, context.Canceled)
		r.a.Complete(r.drainOne(1), 0, -1) // the first part
		first := int(parts[0].Count())
		again := r.split(r.drainOne(1)) // the second
		require.Greater(t, len(again), 1)
		synctest.Wait()
		require.Empty(t, flushed)
		require.Empty(t, later)
		assert.Len(t, offsets, first)
		base := int64(first)
		for {
			got := r.drain(1)
			if len(got) == 0 {
				break
			}
			require.Empty(t, flushed)
			n := int64(got[0].Count())
			r.a.Complete(got[0], base, -1)
			base += n
			synctest.Wait()
			assert.Len(t, offsets, int(base))
		}
		require.NoError(t, <-flushed)
		require.NoError(t, <-later)
		for i, ch := range done {
			<-ch
			res, err := handles[i].Wait(t.Context())
			require.NoError(t, err)
			assert.EqualValues(t, i, res.Offset)
		}
		r.empty()
	})
}

// The parts of a batch fail and expire like any batch, with their own records only.
func TestPartsFailAndExpire(t *testing.T) {
	r := newRig(t, withDelivery(time.Second), noJitter)
	r.lead(orders, 1)
	cb := &told{}
	for range 8 {
		r.record(orders, Record{Timestamp: 1, Value: noise(100)}, cb.OnCompletion)
	}
	b := r.drainOne(1)
	b.SetMayBeWritten(true)
	parts := r.split(b)
	require.GreaterOrEqual(t, len(parts), 2)
	for _, p := range parts {
		assert.True(t, p.Tainted(), "what may have been written of the batch, may have been of them")
		assert.False(t, p.MayBeWritten())
	}
	why := errors.New("why")
	b = r.drainOne(1)
	n := int(b.Count())
	r.a.Fail(b, errRefused, nil)
	r.a.Mute(parts[1])
	require.Len(t, cb.errs, n)
	r.clock.advance(time.Second)
	for _, b := range r.a.Expired(r.peek()) {
		r.a.Fail(b, why, nil)
	}
	assert.Len(t, cb.errs, 8)
	for _, err := range cb.errs[n:] {
		assert.Equal(t, why, err)
	}
	r.a.Unmute(parts[1], r.peek())
	assert.Empty(t, r.drain(1))
	r.empty()
}

// CRE-01: a batch that was too large makes the estimate of its topic start anew.
func TestSplitResetsTheRatio(t *testing.T) {
	r := newRig(t, withCodec(protocol.CodecZstd), withLinger(time.Hour))
	r.lead(orders, 1)
	for r.a.Topic(orders).ratio.get() > 0.3 {
		r.a.Topic(orders).ratio.observe(0.1)
	}
	r.put(0, 1000)
	r.put(0, 1000)
	r.a.StartClosing()
	r.split(r.drainOne(1))
	assert.Equal(t, 1.0, r.a.Topic(orders).ratio.get())
}

// A batch that cannot be divided, because its bytes are not what they were, stays as it is: its records can be failed.
func TestSplitOfGarbage(t *testing.T) {
	for name, spoil := range map[string]func(r *rig, b *ProducerBatch){
		"does not decompress": func(r *rig, b *ProducerBatch) {
			r.a.cfg.Decompress = func(protocol.Codec, []byte, int) ([]byte, error) { return nil, protocol.CorruptMessage }
		},
		"is cut off": func(r *rig, b *ProducerBatch) {
			r.a.cfg.Decompress = func(protocol.Codec, []byte, int) ([]byte, error) { return []byte{4, 0}, nil }
		},
	} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t, withCodec(protocol.CodecZstd), withLinger(time.Hour))
			r.lead(orders, 1)
			cb := &told{}
			r.record(orders, Record{Value: make([]byte, 1000)}, cb.OnCompletion)
			r.record(orders, Record{Value: make([]byte, 1000)}, cb.OnCompletion)
			r.a.StartClosing()
			b := r.drainOne(1)
			spoil(r, b)
			before := hex.EncodeToString(joined(b))
			_, err := r.a.SplitAndReenqueue(b, r.peek())
			require.ErrorContains(t, err, "split of a batch for orders-0: ")
			assert.Equal(t, before, hex.EncodeToString(joined(b)))
			assert.False(t, b.Done())
			assert.Empty(t, cb.errs)
			r.a.Fail(b, err, nil)
			assert.Len(t, cb.errs, 2)
			r.empty()
		})
	}
}

// A record whose time is far from its neighbours' takes more room in a part than it did before, and still fits.
func TestSplitWithDistantTimes(t *testing.T) {
	r := newRig(t, withBatch(4*kib), withLinger(time.Hour))
	r.lead(orders, 1)
	for _, ts := range []int64{0, math.MaxInt64 / 4, -5, math.MinInt64 / 4, 7, 7, 0} {
		r.record(orders, Record{Timestamp: max(ts, 0), Value: make([]byte, 3)}, nil)
	}
	r.a.StartClosing()
	for {
		got := r.drain(1)
		if len(got) == 0 {
			break
		}
		r.read(got[0])
		if got[0].Count() > 1 {
			r.split(got[0])
			continue
		}
		r.a.Complete(got[0], 0, -1)
	}
	r.empty()
}
