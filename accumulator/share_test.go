package accumulator

import (
	"context"
	"errors"
	"math/rand/v2"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/kafka-reservoir/producer/bufferpool"
	"github.com/kafka-reservoir/producer/partitioner"
	"github.com/kafka-reservoir/producer/protocol"
)

// waiting runs an append in a goroutine of the bubble, and requires that it waits. The error comes over the channel.
func (r *rig) waiting(rec Record, maxWait time.Duration) chan error {
	r.t.Helper()
	done := make(chan error, 1)
	go func() {
		_, err := r.try(orders, rec, nil, maxWait)
		done <- err
	}()
	synctest.Wait()
	require.Empty(r.t, done, "the append must wait")
	return done
}

// goesOn requires that an append that waited has gone on, before any time has passed.
func (r *rig) goesOn(done chan error) {
	r.t.Helper()
	synctest.Wait()
	select {
	case err := <-done:
		require.NoError(r.t, err)
	default:
		r.t.Fatal("the append still waits")
	}
}

// unsent are the bytes that count as waiting for a node.
func (r *rig) unsent(node int32) int64 { return r.a.s.node(node).share.unsent.Load() }

// Architecture 3.11 (no such bound in Java): what waits for a node is counted in filled slabs and closed batches, by
// where the partition's leader is, until it is drained or ends.
func TestUnsentBytes(t *testing.T) {
	r := newRig(t, withBatch(64*kib), withLinger(time.Hour))
	r.lead(orders, 1, 1)
	r.put(0, 3*kib)
	r.ready()
	assert.Zero(t, r.unsent(1), "the slab that is being filled does not count")
	r.put(0, 20*kib)
	assert.EqualValues(t, 16*kib, r.unsent(1))
	r.put(1, 100*kib) // closed at once
	r.ready()
	closed := int64(protocol.BatchHeaderSize + sizeOf(0, 100*kib))
	assert.Equal(t, 16*kib+closed, r.unsent(1))
	b := r.drainOne(1)
	assert.EqualValues(t, 16*kib, r.unsent(1))
	r.requeue(b)
	assert.EqualValues(t, 16*kib, r.unsent(1), "what is sent again is not counted again")
	r.a.BeginFlush()
	r.clock.advance(time.Second)
	r.completeAll(r.drain(1))
	r.empty()
	r.a.EndFlush()

	r.put(0, 100*kib)
	r.clock.advance(time.Hour)
	for _, b := range r.a.Expired(r.clock.peek()) {
		r.a.Fail(b, errors.New("expired"), nil)
	}
	r.empty()
}

// An append waits while its node's share is used up, and wakes the sender; a drain that makes room lets it go on.
// Records that need no more memory, and other nodes, do not wait.
func TestAppendWaitsForTheShare(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, withBatch(64*kib), withLinger(time.Hour))
		r.lead(orders, 1, 1, 2)
		r.put(1, 10)
		r.put(0, 70*kib)
		r.ready()
		r.a.SetShare(1, 64*kib, 128*kib)
		wakes := r.wakes.Load()
		done := r.waiting(Record{Partition: 0, Timestamp: -1, Value: make([]byte, 20*kib)}, time.Hour)
		assert.Greater(t, r.wakes.Load(), wakes)
		assert.True(t, r.a.AppendsWait(1))
		assert.False(t, r.a.AppendsWait(2))
		d := r.a.deque(r.a.Topic(orders), 0, 3)
		assert.True(t, d.mu.TryLock(), "S-58: no lock is held while it waits")
		d.mu.Unlock()
		r.put(1, 100)
		r.put(2, 70*kib)
		require.Empty(t, done)
		r.completeAll(r.drain(1))
		r.goesOn(done)
		assert.False(t, r.a.AppendsWait(1))
	})
}

// A batch that grows waits like one that begins.
func TestGrowingBatchWaitsForTheShare(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, withBatch(256*kib), withLinger(time.Hour))
		r.lead(orders, 1)
		r.put(0, 70*kib)
		r.ready()
		r.a.SetShare(1, 64*kib, 64*kib)
		done := r.waiting(Record{Timestamp: -1, Value: make([]byte, 20*kib)}, time.Hour)
		// The batch lingers, and it is what is waited for: it becomes ready, if the node can take it.
		r.full[1] = true
		assert.Empty(t, r.readyNodes())
		r.full[1] = false
		assert.Equal(t, []int32{1}, r.readyNodes())
		r.completeAll(r.drain(1))
		r.goesOn(done)
	})
}

// With nothing that fills a slab, and an append that waits all the same, everything that lingers for the node is sent.
func TestWaitingAppendEndsLinger(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, withBatch(64*kib), withLinger(time.Hour))
		r.lead(orders, 1, 1)
		r.put(1, 70*kib)
		r.completeAll(r.drain(1))
		r.put(0, 1)
		r.ready()
		r.a.SetShare(1, 0, 0)
		done := r.waiting(Record{Partition: 1, Timestamp: -1}, time.Hour)
		r.busy[1] = 3
		assert.Equal(t, []int32{0}, partitionsOf(r.drain(1)))
		r.a.SetShare(1, 1, 1)
		r.goesOn(done) // a bound that is raised lets those who wait go on
	})
}

// ACC-34: callers that may not wait are refused at the hard bound; at the soft one they go on. Callers that may wait do
// that at the soft bound, and when their time is over the hard one counts for them.
func TestSoftAndHardBound(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, func(c *Config) { c.Now = time.Now })
		r.lead(orders, 1, 1)
		r.put(0, 20*kib)
		r.a.Ready(r.snap, time.Now())
		r.a.SetShare(1, 10*kib, 50*kib)
		rec := Record{Timestamp: -1, Value: make([]byte, 20*kib)}
		_, err := r.try(orders, rec, nil, 0)
		require.NoError(t, err)
		began := time.Now()
		done := r.waiting(rec, time.Second)
		require.NoError(t, <-done)
		assert.Equal(t, time.Second, time.Since(began))
		for _, maxWait := range []time.Duration{-1, 0, time.Minute} {
			_, err = r.try(orders, rec, nil, maxWait)
			require.ErrorIs(t, err, bufferpool.ErrExhausted)
			assert.ErrorContains(t, err, "append to orders-0: 61656 bytes wait for broker 1 already")
		}
		assert.Equal(t, time.Second+time.Minute, time.Since(began))
		r.a.SetShare(1, 100*kib, 1) // the hard bound is never below the soft one
		_, err = r.try(orders, rec, nil, 0)
		require.NoError(t, err)
	})
}

// A refusal says what fills the node's share, and what helps: also for those whose MaxBlock has just run out. The share of a node that is
// stuck is what is on its way to it, before anything waits there.
func TestRefusalSaysWhatFillsTheShare(t *testing.T) {
	r := newRig(t, withPool(64*kib), withBatch(40*kib))
	r.lead(orders, 1, 2)
	r.put(0, 30*kib)
	r.drainOne(1)
	r.full[1] = true
	left := max(r.pool.Total()/2-r.a.Flight(1), 0)
	r.a.SetShare(1, left, left)
	_, err := r.try(orders, Record{Partition: 0, Timestamp: -1, Value: []byte("x")}, nil, 0)
	require.EqualError(t, err, "append to orders-0: 32768 bytes are on their way to broker 1 already, and 0 wait; send less, or raise MaxBlock (max.block.ms): "+bufferpool.ErrExhausted.Error())
	require.ErrorIs(t, err, bufferpool.ErrExhausted)
}

// EXT-05: a context that ends ends the wait.
func TestContextEndsAWaitForTheShare(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		md := r.lead(orders, 1)
		r.put(0, 20*kib)
		r.ready()
		r.a.SetShare(1, 1, 1)
		ctx, cancel := context.WithCancelCause(context.Background())
		done := make(chan error)
		go func() {
			_, _, err := r.a.Append(ctx, r.a.Topic(orders), md, &Record{Value: make([]byte, 20*kib)}, nil, false, time.Hour)
			done <- err
		}()
		synctest.Wait()
		why := errors.New("why")
		cancel(why)
		require.ErrorIs(t, <-done, why)
		assert.False(t, r.a.AppendsWait(1))
		r.completeAll(r.drain(1))
		r.empty()
	})
}

// S-62: Close ends waits for a share, also one that is about to begin.
func TestCloseEndsWaitsForTheShare(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		r.lead(orders, 1)
		r.put(0, 20*kib)
		r.ready()
		r.a.SetShare(1, 1, 1)
		done := r.waiting(Record{Timestamp: -1, Value: make([]byte, 20*kib)}, time.Hour)
		r.a.Close()
		require.ErrorIs(t, <-done, ErrClosed)

		// One that saw the accumulator open, and comes to wait only after Close has woken all.
		md := r.snap.Topic(orders)
		topic := r.a.Topic(orders)
		at, maxWait := attempt{mayWait: true}, time.Hour
		began := time.Now()
		err := r.a.admit(context.Background(), topic, md, r.a.deque(topic, 0, 1), nil, shareFull, &at, &maxWait)
		require.ErrorIs(t, err, ErrClosed)
		assert.Zero(t, time.Since(began))
	})
}

// S-76: an append that waits for a node's share goes on with the partition's new leader's when it moves, or without a
// bound while it has none.
func TestWaitFollowsTheLeader(t *testing.T) {
	for name, to := range map[string]int32{"another node": 2, "nobody": -1} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := newRig(t)
				r.lead(orders, 1, 1, 2)
				r.put(1, 50*kib)
				r.put(0, 20*kib)
				r.completeAll(r.drainUpToWith(1, 1<<20, nil))
				r.put(1, 50*kib)
				r.ready()
				r.a.SetShare(1, 1, 1)
				done := r.waiting(Record{Partition: 0, Timestamp: -1, Value: make([]byte, 20*kib)}, time.Hour)
				d := r.a.deque(r.a.Topic(orders), 0, 3)
				old := d.share.Load()
				r.move(orders, 0, to, 2)
				r.ready()
				r.goesOn(done)
				assert.NotZero(t, old.unsent.Load(), "the old node's share is used up as before")
			})
		})
	}
}

// S-76: the same for one that only comes to wait when the leader has moved: between its look at the share and its wait.
func TestWaitThatBeginsWhenTheLeaderMoves(t *testing.T) {
	for name, to := range map[string]int32{"another node": 2, "nobody": -1} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := newRig(t)
				r.lead(orders, 1, 1, 2)
				r.put(1, 50*kib)
				r.put(0, 20*kib)
				r.ready()
				r.a.SetShare(1, 1, 1)
				var moved bool
				r.a.cfg.Now = func() time.Time { // asked when the wait begins
					if !moved && r.a.deque(r.a.Topic(orders), 0, 3).mu.TryLock() {
						r.a.deque(r.a.Topic(orders), 0, 3).mu.Unlock()
						moved = true
						r.move(orders, 0, to, 2)
						r.ready()
					}
					return time.Now()
				}
				began := time.Now()
				_, err := r.try(orders, Record{Partition: 0, Timestamp: 1, Value: make([]byte, 20*kib)}, nil, time.Hour)
				require.NoError(t, err)
				assert.True(t, moved)
				assert.Zero(t, time.Since(began))
			})
		})
	}
}

// A share that is lost between an attempt and the wait is no bound, and no mishap.
func TestWaitForAShareThatIsGone(t *testing.T) {
	r := newRig(t)
	md := r.lead(orders, 1)
	topic := r.a.Topic(orders)
	at, maxWait := attempt{mayWait: true}, time.Hour
	require.NoError(t, r.a.admit(t.Context(), topic, md, r.a.deque(topic, 0, 1), nil, shareFull, &at, &maxWait))
}

// A batch that expires makes room in its node's share.
func TestExpiryMakesRoomInTheShare(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, withDelivery(time.Second))
		r.lead(orders, 1, 1)
		r.full[1] = true
		r.put(0, 20*kib)
		r.put(1, 20*kib)
		r.ready()
		r.a.SetShare(1, 1, 1)
		done := r.waiting(Record{Partition: 0, Timestamp: -1, Value: make([]byte, 20*kib)}, time.Hour)
		r.clock.advance(time.Second)
		for _, b := range r.a.Expired(r.peek()) {
			r.a.Fail(b, errExpired, nil)
		}
		r.goesOn(done)
	})
}

// A record without a partition of its own goes where there is room, whether or not it may wait; it waits only when no
// node has any.
func TestUnkeyedRecordsGoWhereThereIsRoom(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, func(c *Config) { c.Adaptive = true })
		r.lead(orders, 1, 1, 1, 2, 1)
		for p := range int32(5) {
			r.put(p, 20*kib)
		}
		r.ready()
		r.a.SetShare(1, 1, 1)
		r.a.SetShare(2, 90*kib, 90*kib)
		rec := Record{Partition: anyOf, Timestamp: -1, Value: make([]byte, 20*kib)}
		for i := range 4 {
			h, p, err := r.a.Append(context.Background(), r.a.Topic(orders), r.snap.Topic(orders), &rec, nil, true, time.Duration(i%2)*time.Hour)
			require.NoError(t, err)
			assert.True(t, h.Valid())
			assert.EqualValues(t, 3, p)
		}
		_, err := r.try(orders, rec, nil, 0)
		require.ErrorIs(t, err, bufferpool.ErrExhausted)
		done := r.waiting(rec, time.Hour)
		for range 5 {
			r.completeAll(r.drain(2))
			r.completeAll(r.drain(1))
		}
		require.NoError(t, <-done)
	})
}

// FC-053: without adaptive partitioning it waits for the partition that was drawn: all get the same, whatever their nodes do.
func TestFC053UnkeyedRecordsWaitUnlessAdaptive(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, inTurn())
		md := r.lead(orders, 2, 1)
		r.put(0, 20*kib)
		r.put(1, 20*kib)
		r.ready()
		require.EqualValues(t, 1, r.a.Topic(orders).sticky.first.Peek(md).Partition)
		r.a.SetShare(1, 1, 1)
		rec := Record{Partition: anyOf, Timestamp: -1, Value: make([]byte, 20*kib)}
		_, err := r.try(orders, rec, nil, 0)
		require.ErrorIs(t, err, bufferpool.ErrExhausted)
		done := r.waiting(rec, time.Hour)
		r.completeAll(r.drain(1))
		r.goesOn(done)
		assert.Equal(t, []int32{1}, partitionsOf(r.drain(1)))
	})
}

// A partition that is never drawn, since its node counts as unavailable, is no room: the append waits, its context and
// its time count, and it does not go round and round.
func TestRoomThatIsNeverDrawn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, func(c *Config) {
			c.Adaptive, c.AvailabilityTimeout, c.Now = true, time.Second, time.Now
		})
		r.lead(orders, 1, 2)
		r.put(0, 20*kib)
		r.put(1, 20*kib)
		r.a.Ready(r.snap, time.Now())
		r.a.SetNode(1, true, 0)
		time.Sleep(2 * time.Second)
		r.a.Ready(r.snap, time.Now()) // node 2 has taken nothing for so long
		r.a.SetShare(1, 1, 1)
		rec := Record{Partition: anyOf, Timestamp: -1, Value: make([]byte, 20*kib)}
		_, err := r.try(orders, rec, nil, 0)
		require.ErrorIs(t, err, bufferpool.ErrExhausted)
		began := time.Now()
		_, err = r.try(orders, rec, nil, time.Second)
		require.ErrorIs(t, err, bufferpool.ErrExhausted)
		assert.Equal(t, time.Second, time.Since(began))
	})
}

// The soft bound grows with what is under way, and with the size of records if batches are large and not to be compressed, between a floor and a ceiling.
func TestShareFor(t *testing.T) {
	for _, tt := range []struct {
		batch                int
		codec                protocol.Codec
		underWay, recordSize float64
		want                 int64
	}{
		{16 * kib, protocol.CodecNone, 0, 0, shareFloor},
		{16 * kib, protocol.CodecNone, 300 * kib, 100, shareFloor},
		{16 * kib, protocol.CodecNone, 600 * kib, 100, 600 * kib},
		{16 * kib, protocol.CodecNone, 10 << 20, 100, shareCeiling},
		{16 * kib, protocol.CodecNone, 0, 10 * kib, shareFloor},
		{512 * kib, protocol.CodecNone, 0, 100, shareFloor},
		{512 * kib, protocol.CodecNone, 0, 1 * kib, 512 * kib},
		{512 * kib, protocol.CodecNone, 0, 10 * kib, shareCeiling},
		{200 * kib, protocol.CodecNone, 0, 10 * kib, 400 * kib},
		{512 * kib, protocol.CodecLZ4, 0, 10 * kib, shareFloor},
		{512 * kib, protocol.CodecLZ4, 10 << 20, 10 * kib, shareCeiling},
	} {
		r := newRig(t, withBatch(tt.batch), func(c *Config) { c.Codec = tt.codec })
		assert.Equal(t, tt.want, r.a.ShareFor(tt.underWay, tt.recordSize), "%+v", tt)
	}
}

// With a request in flight and no linger another one is worth it for a slab's worth of records, or when they cannot wait.
func TestWorthAnother(t *testing.T) {
	r := newRig(t, withBatch(64*kib))
	r.lead(orders, 1)
	r.put(0, 20*kib)
	r.ready()
	assert.False(t, r.a.WorthAnother(1))
	r.a.BeginFlush()
	assert.True(t, r.a.WorthAnother(1))
	r.a.EndFlush()
	assert.False(t, r.a.WorthAnother(1))
	r.put(0, 64*kib)
	assert.True(t, r.a.WorthAnother(1))
	r.drain(1)
	r.drain(1)
	assert.False(t, r.a.WorthAnother(1))
	r.a.StartClosing()
	assert.True(t, r.a.WorthAnother(1))
}

// Where batches linger, few partitions are always worth another request, and many wait for the answer.
func TestWorthAnotherForFew(t *testing.T) {
	r := newRig(t, withBatch(64*kib), func(c *Config) { c.Linger = 5 * time.Millisecond })
	leaders := make([]int32, fewReady+1)
	for i := range leaders {
		leaders[i] = 1
	}
	r.lead(orders, leaders...)
	for p := range int32(fewReady) {
		r.put(p, 100)
	}
	r.clock.advance(5 * time.Millisecond)
	r.ready()
	assert.True(t, r.a.WorthAnother(1))
	r.put(fewReady, 100)
	r.clock.advance(5 * time.Millisecond)
	r.ready()
	assert.False(t, r.a.WorthAnother(1))
	r.put(0, 64*kib)
	assert.True(t, r.a.WorthAnother(1))
}

// Once it is known what keeps a node busy, neither a request nor what is on its way is much more; a node that is near has two requests.
func TestPipe(t *testing.T) {
	const record = 200 * kib
	setup := func(pipe int64) *rig {
		r := newRig(t, withBatch(256*kib), withPool(64<<20))
		leaders := make([]int32, 20)
		for p := range leaders {
			leaders[p] = 1
		}
		r.lead(orders, leaders...)
		for p := range leaders {
			r.put(int32(p), record)
		}
		r.ready()
		r.a.SetPipe(1, pipe)
		return r
	}
	for _, tt := range []struct {
		pipe     int64
		request  int // batches
		requests int // until the way is full; 0: it never is
	}{
		{0, 10, 0},
		{1, leastPipe * 3 / 4 / record, 2},
		{leastPipe, leastPipe * 3 / 4 / record, 2},
		{2000 * kib, 7, 2},
	} {
		r := setup(tt.pipe)
		var all [][]*ProducerBatch
		for range 2 {
			require.False(t, r.a.PipeFull(1), "%+v", tt)
			all = append(all, r.drainUpTo(1, 10*record+kib))
			assert.Len(t, all[len(all)-1], tt.request, "%+v", tt)
		}
		assert.Equal(t, tt.requests == 2, r.a.PipeFull(1), "%+v", tt)
		r.completeAll(all[0])
		assert.False(t, r.a.PipeFull(1), "%+v", tt)
		r.completeAll(all[1])
	}

	r := newRig(t, withBatch(1<<20), withPool(64<<20))
	r.lead(orders, 1)
	r.a.SetPipe(1, 1)
	r.put(0, 1000*kib)
	assert.Len(t, r.drain(1), 1, "a lone larger batch goes as ever")
}

// What fills the way are the bytes of requests, not the memory that holds them: small batches have much more of it.
func TestPipeIsOfTheWire(t *testing.T) {
	r := newRig(t, withPool(64<<20), func(c *Config) { c.LeastPipe = 64 * kib })
	leaders := make([]int32, 100)
	for p := range leaders {
		leaders[p] = 1
	}
	r.lead(orders, leaders...)
	for p := range leaders {
		r.put(int32(p), 100)
	}
	r.a.SetPipe(1, 1)
	batches := r.drain(1)
	require.Len(t, batches, len(leaders))
	require.Greater(t, r.a.Flight(1), r.a.cfg.LeastPipe)
	assert.False(t, r.a.PipeFull(1))
	r.completeAll(batches)
}

// Behind a request in flight, what lingers is sent before its time when the share is full, but only while the way has room; and the sender is woken for it.
func TestPipeTakesWhatHasGrown(t *testing.T) {
	for _, tt := range []struct {
		name        string
		pipe, share int64
		goes        bool
	}{
		{"room", 300 * kib, 250 * kib, true},
		{"room, but not full", 300 * kib, 310 * kib, false},
		{"no room", 150 * kib, 250 * kib, false},
		{"not known", 0, 250 * kib, false},
	} {
		r := newRig(t, withBatch(1<<20), withPool(64<<20), withLinger(time.Hour))
		r.lead(orders, 1, 1)
		r.put(0, 150*kib)
		r.put(1, 1)
		r.a.BeginFlush()
		require.Len(t, r.drain(1), 2)
		r.a.EndFlush()
		r.busy[1] = 1
		r.ready()
		r.a.SetPipe(1, tt.pipe)
		r.a.SetShare(1, tt.share, 32<<20)
		r.put(1, 10*kib)
		r.ready()
		r.sleep(time.Hour)
		wakes := r.wakes.Load()
		for range 17 {
			r.put(1, 15*kib)
		}
		assert.Equal(t, tt.goes, r.wakes.Load() > wakes, tt.name)
		r.a.Awake()
		assert.Equal(t, tt.goes, len(r.readyNodes()) > 0, tt.name)
	}
}

// EXT-01: a partition whose batches the broker refuses for the time being holds up itself, not the other partitions of its
// node: while it backs off, what is appended to it counts for no node, but against half of the buffer, with what waits
// for a leader. When it is sent again it counts for its node again.
func TestPartitionInBackoffHoldsUpNobody(t *testing.T) {
	r := newRig(t, noJitter, withPool(1<<20))
	r.lead(orders, 1, 1, -1)
	r.put(0, 20*kib)
	r.put(1, 20*kib)
	batches := r.drain(1)
	r.a.SetShare(1, 50*kib, 50*kib)
	r.requeue(batches[0])
	n := 0
	for {
		_, err := r.try(orders, Record{Partition: 0, Timestamp: -1, Value: make([]byte, 20*kib)}, nil, 0)
		if err != nil {
			require.ErrorIs(t, err, bufferpool.ErrExhausted)
			assert.ErrorContains(t, err, "append to orders-0: 534352 bytes wait for a leader, or for another attempt, already")
			break
		}
		n++
	}
	assert.Equal(t, 25, n, "half of the buffer, with the one that backs off")
	assert.Zero(t, r.unsent(1))
	_, err := r.try(orders, Record{Partition: 2, Timestamp: -1, Value: make([]byte, 20*kib)}, nil, 0)
	require.NoError(t, err, "not known to have no leader")
	r.ready()
	_, err = r.try(orders, Record{Partition: 2, Timestamp: -1, Value: make([]byte, 20*kib)}, nil, 0)
	require.ErrorIs(t, err, bufferpool.ErrExhausted)
	for range 2 {
		r.put(1, 20*kib)
		r.a.Complete(r.drainOne(1), 0, -1)
	}

	r.clock.advance(100 * ms)
	r.ready()
	assert.EqualValues(t, 534352, r.unsent(1))
	_, err = r.try(orders, Record{Partition: 1, Timestamp: -1, Value: make([]byte, 20*kib)}, nil, 0)
	require.ErrorIs(t, err, bufferpool.ErrExhausted)
	b := r.drainOne(1)
	assert.Same(t, batches[0], b)
	r.requeue(b)
	assert.Zero(t, r.unsent(1))
	for _, b := range r.a.Undrained("", r.peek()) { // with an empty queue it is a partition like any other
		r.a.Fail(b, errRefused, nil)
	}
	r.put(0, 20*kib)
	r.put(0, 20*kib)
	assert.EqualValues(t, 2*(20*kib+72), r.unsent(1))
	r.a.Complete(batches[1], 0, -1)
	r.completeAll(r.drain(1))
	r.completeAll(r.drain(1))
	r.empty()
}

// Delivery 4: a node that falls silent cannot hold all memory. What is on its way to it is at most what is on its way to nobody: half of the buffer,
// and of what is left half for the next one. With one node there is nobody to keep a part free for.
func TestFlightIsBounded(t *testing.T) {
	for _, nodes := range []int{2, 1} {
		r := newRig(t, withPool(1<<20), withBatch(16*kib))
		r.lead(orders, 1, 2)
		if nodes == 1 {
			r.only(1)
		}
		silent := map[int32][]*ProducerBatch{}
		flying := func(node int32) int64 {
			for {
				r.put(node-1, 15*kib)
				got := r.drain(node)
				silent[node] = append(silent[node], got...)
				if len(got) == 0 || r.pool.Available() < 16*kib {
					return r.a.Flight(node)
				}
			}
		}
		if nodes == 1 {
			assert.Greater(t, flying(1), int64(900*kib))
			r.completeAll(silent[1])
			r.completeAll(r.drain(1))
			r.empty()
			continue
		}
		assert.InDelta(t, 512*kib, flying(1), 32*kib)
		assert.InDelta(t, 256*kib, flying(2), 32*kib)

		// What comes back to be sent again waits, and is no longer on its way; answers make room.
		for _, b := range silent[1] {
			r.requeue(b)
		}
		assert.Zero(t, r.a.Flight(1))
		r.clock.advance(time.Minute)
		r.completeAll(silent[2])
		assert.Zero(t, r.a.Flight(2))
		for _, node := range []int32{1, 2} {
			for got := r.drain(node); len(got) > 0; got = r.drain(node) {
				r.completeAll(got)
			}
		}
		r.empty()
	}
}

// A node that may not be sent to, for what is on its way to it, counts as one that can take nothing: the availability time-out excludes it, and
// batches that are closed for it do not wake the sender.
func TestBoundedFlightIsNotAvailable(t *testing.T) {
	r := newRig(t, withPool(1<<20), withBatch(16*kib), adaptive, func(c *Config) { c.AvailabilityTimeout, c.StickyThreshold = time.Second, 1 })
	r.lead(orders, 1, 2)
	silent := map[int32][]*ProducerBatch{}
	for _, node := range []int32{2, 1} {
		for more := true; more; {
			r.put(node-1, 15*kib)
			got := r.drain(node)
			silent[node] = append(silent[node], got...)
			more = len(got) > 0 && (node == 1 || r.a.Flight(2) < 32*kib)
		}
		r.busy[node] = 1
	}
	require.Len(t, silent[2], 2)
	require.Empty(t, r.drain(1), "node 1 has what it may have")
	r.sleep(time.Minute)
	for range 8 {
		r.put(0, 15*kib)
	}
	assert.Zero(t, r.wakes.Load(), "an answer wakes the sender")
	r.a.Awake()

	look := func() []int {
		r.put(1, 1)
		silent[2] = append(silent[2], r.drain(2)...)
		for r.a.Topic(orders).queued(1) <= r.a.Topic(orders).queued(0) { // else it would be preferred for its short queue
			r.put(1, 15*kib)
		}
		return r.draws(100)
	}
	r.clock.advance(loadEvery)
	assert.NotZero(t, look()[0])
	r.clock.advance(time.Second + ms)
	assert.Equal(t, []int{0, 100}, look())

	r.completeAll(silent[1])
	assert.NotEmpty(t, r.drain(1))
	r.sleep(time.Minute)
	for range 8 {
		r.put(0, 15*kib)
	}
	assert.Positive(t, r.wakes.Load())
	r.a.Awake()
	r.clock.advance(loadEvery)
	assert.NotZero(t, look()[0])
}

// Memory is on its way until the writer has let go of it, also where the verdict is known.
func TestFlightEndsWithTheWriter(t *testing.T) {
	r := newRig(t)
	r.lead(orders, 1, 2)
	r.put(0, 15*kib)
	b := r.drainOne(1)
	b.Hold()
	r.a.Complete(b, 0, -1)
	assert.EqualValues(t, 16*kib, r.a.Flight(1))
	r.a.Unhold(b, r.clock.peek())
	r.empty()
}

// A bound that shrinks below what waits already is looked at again before the sender sleeps.
func TestShareThatShrinksIsLookedAt(t *testing.T) {
	r := newRig(t, withLinger(time.Hour), withBatch(1<<20), withPool(64<<20))
	r.lead(orders, 1)
	r.put(0, 1)
	r.ready()
	r.a.SetShare(1, shareCeiling, 32<<20)
	for range 30 {
		r.put(0, 10*kib)
	}
	require.Empty(t, r.readyNodes())
	r.a.SetShare(1, shareFloor, 32<<20)
	now := r.clock.peek()
	assert.False(t, r.a.PrepareSleep(now, now.Add(time.Hour)))
	assert.Equal(t, []int32{1}, r.readyNodes())
	r.drain(1)
	r.ready()
	now = r.clock.peek()
	assert.True(t, r.a.PrepareSleep(now, now.Add(time.Hour)), "once is enough")
}

// Unkeyed records do not go where nothing waits only because nothing more may: to the partitions of a node that is full.
func TestFullNodeAttractsNothing(t *testing.T) {
	for seed := range uint64(50) {
		r := newRig(t, withLinger(time.Hour), withPool(64<<20), func(c *Config) { c.Adaptive, c.Rand = true, rand.New(rand.NewPCG(seed, 1)).IntN })
		nodes := make([]int32, 60)
		for p := range nodes {
			nodes[p] = 1
			if p%6 == 5 {
				nodes[p] = 2
			}
		}
		r.lead(orders, nodes...)
		for p := range nodes {
			r.put(int32(p), 1)
		}
		r.a.BeginFlush()
		r.ready()
		r.completeAll(r.drain(1))
		r.completeAll(r.drain(2))
		r.a.EndFlush()
		r.ready()
		for p, node := range nodes {
			if node == 2 {
				r.put(int32(p), 1) // lingers
			}
		}
		r.a.SetShare(1, 0, 0)
		_, err := r.try(orders, Record{Partition: partitioner.Any, Value: []byte("v")}, nil, 0)
		require.NoError(t, err, "seed %d", seed)
	}
}
