package accumulator

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/kafka-reservoir/producer/internal/invariants"
)

// S-02, S-65: offsets count from the batch's; without one they are unknown; the broker's time, where it gives one, is every
// record's. Callbacks come in order, after the futures know, and futures agree.
func TestComplete(t *testing.T) {
	for _, tt := range []struct {
		base, logAppend int64
		offset, time    []int64
	}{
		{100, -1, []int64{100, 101, 102}, []int64{1, 2, 3}},
		{0, -1, []int64{0, 1, 2}, []int64{1, 2, 3}},
		{-1, -1, []int64{-1, -1, -1}, []int64{1, 2, 3}},
		{100, 77, []int64{100, 101, 102}, []int64{77, 77, 77}},
		{-1, 77, []int64{-1, -1, -1}, []int64{77, 77, 77}},
	} {
		t.Run(fmt.Sprint(tt.base, tt.logAppend), func(t *testing.T) {
			r := newRig(t)
			r.lead(orders, 1, 1)
			var handles []Handle
			calls := 0
			for i := range 3 {
				cb := Callback(func(res Result, err error) {
					require.NoError(t, err)
					assert.Equal(t, i, calls)
					calls++
					assert.True(t, handles[i].Settled())
					assert.Equal(t, Result{
						Topic: orders, Partition: 1, Offset: tt.offset[i], Timestamp: time.UnixMilli(tt.time[i]), KeySize: -1, ValueSize: i,
					}, res)
				})
				handles = append(handles, r.record(orders, Record{Partition: 1, Timestamp: int64(i + 1), Value: make([]byte, i)}, cb))
			}
			b := r.drainOne(1)
			assert.False(t, b.Done())
			b.Hold()
			r.a.Complete(b, tt.base, tt.logAppend)
			assert.True(t, b.Done())
			assert.Equal(t, 3, calls)
			for i, h := range handles {
				res, err := h.Wait(t.Context())
				require.NoError(t, err)
				assert.Equal(t, tt.offset[i], res.Offset)
				<-h.Done()
			}
			r.a.Unhold(b, r.peek())
			b.Landed()
			b.Forget()
			r.empty()
		})
	}
}

// PB-01, PB-09: a failed batch fails its records, all with its error or each with its own, by its place in the batch. What
// they are told beside that names topic and partition, and no offset.
func TestFail(t *testing.T) {
	why := errors.New("why")
	own := func(i int) error { return fmt.Errorf("record %d: %w", i, why) }
	for name, perRecord := range map[string]func(int) error{"one for all": nil, "each its own": own} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t)
			r.lead(orders, 1, 1)
			cb := &told{}
			var handles []Handle
			for range 3 {
				handles = append(handles, r.record(orders, Record{Partition: 1, Timestamp: -1, Key: []byte("k")}, cb.OnCompletion))
			}
			r.a.Fail(r.drainOne(1), why, perRecord)
			for i, h := range handles {
				want := why
				if perRecord != nil {
					want = own(i)
				}
				nothing := Result{Topic: orders, Partition: 1, Offset: -1, KeySize: -1, ValueSize: -1}
				assert.Equal(t, want, cb.errs[i])
				assert.Equal(t, nothing, cb.results[i])
				res, err := h.Wait(t.Context())
				assert.Equal(t, want, err)
				assert.Equal(t, nothing, res)
			}
			r.empty()
		})
	}
}

// PB-01, PB-02, PB-03, PB-04 (deviation): Java's batch takes a second verdict, and ignores it or throws. Here the sender asks Done first,
// and a batch that ended in flight stays Done until the last answer that is due has come (InFlight, Forget), so that it
// can. That there is never a second one is an invariant; without the checks it changes nothing.
func TestNoSecondVerdict(t *testing.T) {
	r := newRig(t, withDelivery(time.Second))
	r.lead(orders, 1)
	cb := &told{}
	h := r.record(orders, Record{Timestamp: -1}, cb.OnCompletion)
	r.put(0, 20*kib)
	b := r.drainOne(1)
	b.Hold()
	r.clock.advance(time.Second)
	for _, b := range r.a.Expired(r.peek()) {
		r.a.Fail(b, errExpired, nil)
	}
	r.a.Unhold(b, r.peek())
	assert.True(t, b.Done(), "its answer comes now")
	assert.True(t, b.InFlight())
	second := func() { r.a.Complete(b, 7, -1) }
	if invariants.Enabled {
		assert.Panics(t, second)
	} else {
		second()
	}
	b.Landed()
	b.Forget()
	assert.Equal(t, []error{errExpired}, cb.errs)
	_, err := h.Wait(t.Context())
	assert.Equal(t, errExpired, err)
	r.empty()
}

// EXT-05: who waits for a record stops when its context ends, with the context's error and without a word about the
// record, whose fate is not changed by that. All ways to wait, and all who do, learn of it.
func TestWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		r.lead(orders, 1)
		h := r.put(0, 5)
		h2 := r.put(0, 6)
		ctx, cancel := context.WithCancelCause(context.Background())
		why := errors.New("why")
		type answer struct {
			res Result
			err error
		}
		answers := make(chan answer, 10)
		wait := func(h Handle, ctx context.Context) {
			res, err := h.Wait(ctx)
			answers <- answer{res, err}
		}
		go wait(h, ctx)
		synctest.Wait()
		cancel(why)
		unknown := Result{Topic: orders, Offset: -1, KeySize: -1, ValueSize: -1}
		assert.Equal(t, answer{unknown, why}, <-answers)
		wait(h, ctx)
		assert.Equal(t, answer{unknown, why}, <-answers)

		for range 3 {
			go wait(h, context.Background())
			go wait(h2, t.Context())
		}
		done := h2.Done()
		synctest.Wait()
		require.Empty(t, answers)
		select {
		case <-done:
			t.Fatal("done before it is")
		default:
		}
		r.completeAll(r.drain(1))
		<-done
		sizes := map[int]int{}
		for range 6 {
			a := <-answers
			require.NoError(t, a.err)
			sizes[a.res.ValueSize]++
		}
		assert.Equal(t, map[int]int{5: 3, 6: 3}, sizes)
		_, err := h.Wait(ctx)
		assert.NoError(t, err, "what is known is told, whatever the context says")
		assert.Zero(t, h.r.waiters)
	})
}

// A context that ends in the very moment in which the record's fate becomes known: one of the two is told, and whoever waits
// next, with the same channel, is not told a moment too early.
func TestWaitCancelledWhileSettled(t *testing.T) {
	for range 300 {
		synctest.Test(t, func(t *testing.T) {
			r := newRig(t, withBatch(1))
			r.lead(orders, 1)
			var wg sync.WaitGroup
			for range 3 {
				h := r.put(0, 1)
				ctx, cancel := context.WithCancel(context.Background())
				for range 2 {
					wg.Go(func() {
						res, err := h.Wait(ctx)
						if err == nil {
							assert.EqualValues(t, 0, res.Offset)
						} else {
							assert.ErrorIs(t, err, context.Canceled)
						}
					})
				}
				synctest.Wait()
				b := r.drainOne(1)
				go cancel()
				r.a.Complete(b, 0, -1)
			}
			wg.Wait()
			// The channels that went round are empty.
			h := r.put(0, 1)
			go func() {
				_, err := h.Wait(context.Background())
				assert.NoError(t, err)
				assert.True(t, h.Settled())
			}()
			synctest.Wait()
			assert.False(t, h.Settled())
			r.completeAll(r.drain(1))
		})
	}
}

// A record that never got into a batch has a handle that says so.
func TestFailedHandle(t *testing.T) {
	why := errors.New("why")
	h := Failed(orders, 3, why)
	assert.True(t, h.Valid())
	assert.True(t, h.Settled())
	<-h.Done()
	res, err := h.Wait(context.Background())
	assert.Equal(t, why, err)
	assert.Equal(t, Result{Topic: orders, Partition: 3, Offset: -1, KeySize: -1, ValueSize: -1}, res)
}

// A batch that nobody asked about is ended like any other; futures do not keep the callbacks alive, nor does the batch that
// takes the struct's place know anything of the one before.
func TestBatchesAreUsedAgain(t *testing.T) {
	r := newRig(t, withLinger(time.Hour), withDelivery(time.Second))
	md := r.lead(orders, 1)
	topic := r.a.Topic(orders)
	cb := &told{}
	h := r.record(orders, Record{Timestamp: 5, Key: []byte("key")}, cb.OnCompletion)
	r.a.BeginFlush()
	b := r.drainOne(1)
	b.Hold()
	b.SetLastError(errForced, "")
	b.SetMayBeWritten(true)
	assert.True(t, b.MayBeWritten())
	assert.False(t, b.Tainted())
	b.SetMayBeWritten(false)
	assert.False(t, b.MayBeWritten())
	assert.True(t, b.Tainted(), "a doubt that was taken back was one")
	b.SetMayBeWritten(true)
	b.SetUnanswered(true)
	assert.True(t, b.Unanswered())
	b.SetLostAt(t0)
	assert.Equal(t, t0, b.LostAt())
	b.Mark = 7
	b.NotSent()
	assert.Zero(t, b.Attempts())
	assert.Equal(t, errForced, b.LastError())
	r.a.Complete(b, 1, -1)
	assert.Nil(t, h.r.one.cb)
	r.a.Unhold(b, r.peek())
	b.Landed()
	b.Forget()
	r.a.EndFlush()

	clean := &ProducerBatch{a: r.a}
	clean.slabs, clean.slots = b.slabs, b.slots
	clean.state.Store(b.state.Load())
	assert.Equal(t, clean, b, "all of it but its room")
	assert.Empty(t, b.slabs)
	assert.Empty(t, b.slots)
	assert.Zero(t, b.slots[:1][0])

	for range 5 {
		rec := Record{Timestamp: -1}
		hd, _, err := r.a.Append(t.Context(), topic, md, &rec, nil, false, 0)
		require.NoError(t, err)
		assert.False(t, hd.Valid(), "nobody asked for a future")
	}
	r.a.BeginFlush()
	b = r.drainOne(1)
	assert.Nil(t, b.res)
	assert.False(t, b.callbacks)
	r.a.Complete(b, 1, -1)
	r.empty()
}

// Only some records of a batch have a callback or a future.
func TestSomeAsk(t *testing.T) {
	r := newRig(t, withLinger(time.Hour))
	md := r.lead(orders, 1)
	topic := r.a.Topic(orders)
	cb := &told{}
	var h Handle
	for i := range 6 {
		var c Callback
		if i == 4 {
			c = cb.OnCompletion
		}
		hd, _, err := r.a.Append(t.Context(), topic, md, &Record{Timestamp: 1}, c, i == 2, 0)
		require.NoError(t, err)
		if i == 2 {
			h = hd
		}
	}
	r.a.BeginFlush()
	r.a.Complete(r.drainOne(1), 10, -1)
	require.Len(t, cb.results, 1)
	assert.EqualValues(t, 14, cb.results[0].Offset)
	res, err := h.Wait(t.Context())
	require.NoError(t, err)
	assert.EqualValues(t, 12, res.Offset)
	r.empty()
}

// The chunk that results come from is shared; they are not.
func TestResultsAreApart(t *testing.T) {
	r := newRig(t, withBatch(1))
	r.lead(orders, 1)
	var handles []Handle
	for range 3 * resultChunk {
		handles = append(handles, r.put(0, 1))
	}
	for i := range handles {
		for k, h := range handles {
			require.Equal(t, k < i, h.Settled())
		}
		r.a.Complete(r.drainOne(1), int64(i), -1)
	}
	for i, h := range handles {
		res, _ := h.Wait(t.Context())
		require.EqualValues(t, i, res.Offset)
	}
}

// The states have names, for checks that fail.
func TestStateNames(t *testing.T) {
	assert.Equal(t, "open closed sealing sealed done", fmt.Sprint(stateOpen, stateClosed, stateSealing, stateSealed, stateDone))
}
