package accumulator

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/kafka-reservoir/producer/bufferpool"
	"github.com/kafka-reservoir/producer/protocol"
)

// S-71, S-72, ACC-11, ACC-18: each reason alone makes a node ready, and without one it is not. (A transaction that completes will
// be one more when there are transactions.)
func TestReadyReasons(t *testing.T) {
	for _, tt := range []struct {
		name   string
		linger time.Duration
		do     func(t *testing.T, r *rig)
		want   bool
	}{
		{"none", time.Second, func(*testing.T, *rig) {}, false},
		{"almost lingered", time.Second, func(_ *testing.T, r *rig) { r.clock.advance(time.Second - 1) }, false},
		{"lingered", time.Second, func(_ *testing.T, r *rig) { r.clock.advance(time.Second) }, true},
		{"no linger", 0, func(*testing.T, *rig) {}, true},
		{"full", time.Second, func(_ *testing.T, r *rig) { r.put(0, 16*kib) }, true},
		{"flush", time.Second, func(_ *testing.T, r *rig) { r.a.BeginFlush() }, true},
		{"flush ended", time.Second, func(_ *testing.T, r *rig) { r.a.BeginFlush(); r.a.EndFlush() }, false},
		{"closing", time.Second, func(_ *testing.T, r *rig) { r.a.StartClosing() }, true},
		{"somebody waits for it", time.Second, func(_ *testing.T, r *rig) { r.put(0, 1).Done() }, true},
		{"somebody waits for another partition", time.Second, func(_ *testing.T, r *rig) { r.put(1, 1).Done() }, false},
		{"somebody waits for memory", time.Second, func(t *testing.T, r *rig) {
			ctx, cancel := context.WithCancel(context.Background())
			t.Cleanup(cancel)
			go func() { _, _ = r.pool.Allocate(ctx, nil, 1<<20, false, time.Hour) }()
			synctest.Wait()
			require.Equal(t, 1, r.pool.Waiting())
		}, true},
		{"muted", 0, func(_ *testing.T, r *rig) { r.a.Mute(r.a.deque(r.a.Topic(orders), 0, 3).front()) }, false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := newRig(t, withLinger(tt.linger))
				r.lead(orders, 1, 2, 2)
				r.put(0, 1)
				tt.do(t, r)
				assert.Equal(t, tt.want, slices.Contains(r.readyNodes(), 1))
				assert.Equal(t, tt.want, len(r.drain(1)) > 0)
			})
		})
	}
}

// ACC-04, ACC-07, S-70, S-74: when to look again is when the linger of the oldest batch ends, whatever else there
// is to be sent; with nothing that lingers it is not a matter of time.
func TestReadyTellsWhenToLookAgain(t *testing.T) {
	r := newRig(t, withLinger(10*ms))
	r.lead(orders, 1, 1, 2, 2)
	assert.Equal(t, ReadyResult{Nodes: []int32{}, UnknownLeader: []string{}}, notNil(r.ready()))
	r.put(0, 1)
	res := r.ready()
	assert.Empty(t, res.Nodes)
	assert.Equal(t, r.clock.peek().Add(10*ms), res.Next)

	r.clock.advance(5 * ms)
	r.put(2, 1)
	r.put(1, 1)
	assert.Equal(t, r.clock.peek().Add(5*ms), r.ready().Next, "the older one's")
	r.put(1, 16*kib) // closes partition 1's
	res = r.ready()
	assert.Equal(t, []int32{1}, res.Nodes)
	assert.Equal(t, r.clock.peek().Add(5*ms), res.Next)

	r.clock.advance(5 * ms)
	res = r.ready()
	assert.Equal(t, []int32{1}, res.Nodes)
	assert.Equal(t, r.clock.peek().Add(5*ms), res.Next, "partition 2's on node 2")
	r.completeAll(r.drain(1))
	r.clock.advance(5 * ms)
	assert.Equal(t, []int32{1, 2}, r.readyNodes(), "partition 1's second batch was opened with partition 2's")
	r.completeAll(r.drain(1))
	r.completeAll(r.drain(2))
	assert.Equal(t, ReadyResult{Nodes: []int32{}, UnknownLeader: []string{}}, notNil(r.ready()))
	r.empty()
}

func notNil(r ReadyResult) ReadyResult {
	r.Nodes = append([]int32{}, r.Nodes...)
	r.UnknownLeader = append([]string{}, r.UnknownLeader...)
	return r
}

// S-74: no batch stays longer than its linger because one that is younger stands before it: what comes to the list
// of a node late (behind a batch that was sent, from another node, after a mute) is in time too.
func TestLingerEndsInOrderOfAge(t *testing.T) {
	for _, tt := range []struct {
		name string
		late func(r *rig) func() // makes partition 0 come late: by the function returned
	}{
		{"behind a batch that was sent", func(r *rig) func() {
			r.put(0, 16*kib-protocol.BatchHeaderSize-20)
			r.ready()
			r.put(0, 1000) // closes the first
			return func() { r.completeAll(r.drain(1)) }
		}},
		{"muted", func(r *rig) func() {
			r.put(0, 1)
			b := r.a.deque(r.a.Topic(orders), 0, 4).front()
			r.a.Mute(b)
			return func() { r.a.Unmute(b, r.clock.peek()) }
		}},
		{"from another node", func(r *rig) func() {
			r.put(3, 1)
			return func() { r.move(orders, 3, 1, 2) }
		}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			r := newRig(t, withLinger(10*ms))
			r.lead(orders, 1, 1, 1, 2)
			comes := tt.late(r)
			due := r.clock.peek().Add(10 * ms)
			r.ready()
			r.clock.advance(4 * ms)
			r.put(1, 1)
			r.put(2, 1)
			r.ready()
			comes()
			assert.Equal(t, due, r.ready().Next)
			r.clock.advance(6 * ms)
			assert.Equal(t, []int32{1}, r.readyNodes())
			batches := r.drain(1)
			require.NotEmpty(t, batches)
			assert.Equal(t, due, batches[0].Created().Add(10*ms))
		})
	}
}

// ACC-17, S-73, S-83: a muted partition is neither ready nor drained, and what is appended meanwhile does not change
// that; afterwards both work.
func TestMute(t *testing.T) {
	r := newRig(t)
	r.lead(orders, 1, 1)
	r.put(0, 1)
	b := r.drainOne(1)
	r.a.Mute(b)
	r.put(0, 1)
	r.put(1, 1)
	assert.Equal(t, []int32{1}, r.readyNodes())
	assert.Equal(t, []int32{1}, partitionsOf(r.drain(1)), "at most one batch of a partition anywhere")
	r.requeue(b)
	assert.Empty(t, r.readyNodes())
	r.clock.advance(time.Second)
	assert.Empty(t, r.readyNodes())
	assert.Empty(t, r.drain(1))
	r.a.Unmute(b, r.clock.peek())
	assert.Equal(t, []int32{1}, r.readyNodes())
	assert.Same(t, b, r.drainOne(1))
	r.a.Complete(b, 0, -1)
	r.completeAll(r.drain(1))
}

// S-73, S-75: partitions without a leader that is known make no node ready; their topics are named, so that somebody
// asks. When the leader is known they are ready.
func TestUnknownLeader(t *testing.T) {
	r := newRig(t)
	r.lead(orders, -1, 1)
	r.lead("other", 50) // a node that is not in the answer
	r.put(0, 1)
	r.record("other", Record{Timestamp: -1}, nil)
	res := r.ready()
	assert.Empty(t, res.Nodes)
	assert.True(t, res.Next.IsZero())
	assert.ElementsMatch(t, []string{orders, "other"}, res.UnknownLeader)
	assert.True(t, r.a.HasUndrained())

	r.move("other", 0, 2, 2)
	res = r.ready()
	assert.Equal(t, []int32{2}, res.Nodes)
	assert.Equal(t, []string{orders}, res.UnknownLeader)
	r.move(orders, 0, 1, 2)
	res = r.ready()
	assert.Equal(t, []int32{2, 1}, res.Nodes)
	assert.Empty(t, res.UnknownLeader)

	// And the other way: what waits for a node whose partition loses its leader.
	r.move(orders, 0, -1, 3)
	res = r.ready()
	assert.Equal(t, []int32{2}, res.Nodes)
	assert.Equal(t, []string{orders}, res.UnknownLeader)
	assert.Empty(t, r.drainUpTo(1, 1<<20))
}

// S-73, S-76: batches follow their partition's leader, also those of a partition that is not looked at for another
// reason: its bytes count for the new node from then on.
func TestBatchesFollowTheLeader(t *testing.T) {
	r := newRig(t, withLinger(10*ms))
	r.lead(orders, 1, 1, 1)
	r.put(0, 20*kib) // closed
	r.put(1, 1)      // lingers
	r.put(2, 20*kib)
	b := r.drainOneOf(2)
	r.requeue(b) // in back-off
	r.put(2, 30*kib)
	unsent := func(node int32) int64 { return r.a.s.node(node).share.unsent.Load() }
	before := unsent(1)
	require.Greater(t, before, int64(20*kib))

	for p := range int32(3) {
		r.move(orders, p, 2, 1) // the same epoch: the back-off stays
	}
	assert.Equal(t, []int32{2}, r.readyNodes())
	assert.Equal(t, before, unsent(2))
	assert.Zero(t, unsent(1))
	assert.Empty(t, r.drainUpTo(1, 1<<20))
	r.clock.advance(time.Second)
	assert.ElementsMatch(t, []int32{0, 1, 2}, partitionsOf(r.drain(2)))
	assert.Equal(t, []int32{2}, partitionsOf(r.drain(2)))
	assert.Zero(t, unsent(2))
}

// drainOneOf drains until a batch of a partition comes, and puts the others back into the queue.
func (r *rig) drainOneOf(partition int32) *ProducerBatch {
	r.t.Helper()
	var found *ProducerBatch
	for _, b := range r.drain(1) {
		if b.Partition() == partition {
			found = b
			continue
		}
		b.attempts = 0 // as if it had not been drained
		r.a.Reenqueue(b, r.clock.peek())
		b.moveShare(b.d.share.Load())
		b.count(b.size)
	}
	require.NotNil(r.t, found)
	return found
}

// S-76, S-31: a partition whose queue is empty follows its leader too. What is appended next must be held against the
// new node, not against one that is gone or stuck: neither must the sender sleep on, nor the append wait.
func TestEmptyQueueFollowsTheLeader(t *testing.T) {
	for _, state := range []string{"empty", "muted", "gated"} {
		t.Run(state, func(t *testing.T) {
			r := newRig(t)
			md := r.lead(orders, 1, 1, 2)
			r.put(2, 1) // so that node 2 is known
			r.completeAll(r.drain(2))
			r.put(0, 1)
			b := r.drainOne(1)
			switch state {
			case "empty":
				r.a.Complete(b, 0, -1)
			case "muted":
				r.a.Mute(b)
			case "gated":
				g := newGate()
				g.closed[0] = true
				r.put(0, 1)
				r.ready()
				require.Empty(t, r.a.Drain(nil, 1, 1<<20, r.clock.peek(), g))
			}
			r.put(1, 200*kib)
			r.full[1] = true // and goes on standing there
			r.ready()
			r.a.SetShare(1, 100*kib, 100*kib)
			_, err := r.try(orders, Record{Partition: 0, Timestamp: -1, Value: make([]byte, 17*kib)}, nil, 0)
			require.ErrorIs(t, err, bufferpool.ErrExhausted)

			r.move(orders, 0, 2, 2)
			r.ready()
			assert.Equal(t, int32(2), r.a.deque(r.a.Topic(orders), 0, md.Count()).share.Load().node)
			r.sleep(time.Minute)
			wakes := r.wakes.Load()
			r.put(0, 17*kib)
			assert.Greater(t, r.wakes.Load(), wakes, "the sender must be woken: node 2 can take it")
		})
	}
}

// sleep puts the sender to sleep; it must not refuse.
func (r *rig) sleep(d time.Duration) {
	r.t.Helper()
	for _, id := range r.a.Nodes() {
		r.a.SetNode(id, !r.full[id], r.busy[id])
	}
	now := r.clock.peek()
	require.True(r.t, r.a.PrepareSleep(now, now.Add(d)), "the sender has something to do")
}

// S-72: when memory is short, partitions that wait for company are sent, those that have waited longest first, up to a
// quarter of the buffer at a time, and no node is always the first. (Java sends everything at once.)
func TestShortMemorySendsTheOldest(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, withPool(512*kib), withBatch(64*kib), withLinger(time.Hour))
		r.lead(orders, 1, 1, 1, 1, 2, 2, 2, 2)
		r.busy[1], r.busy[2] = 1, 1 // so that no batch is sent for the bytes that came together
		var first []int32
		for range 4 {
			for p := range int32(8) {
				r.put(p, 50*kib)
				r.clock.advance(ms)
			}
			assert.Empty(t, r.readyNodes())
			ctx, cancel := context.WithCancel(context.Background())
			defer cancel()
			go func() { _, _ = r.pool.Allocate(ctx, nil, 512*kib, false, time.Hour) }()
			synctest.Wait()
			nodes := r.readyNodes()
			require.Len(t, nodes, 1)
			first = append(first, nodes[0])
			got := r.drainUpTo(nodes[0], 1<<20)
			oldest := []int32{0, 1, 2}
			if nodes[0] == 2 {
				oldest = []int32{4, 5, 6}
			}
			assert.Equal(t, oldest, partitionsOf(got), "128 KiB at least")
			r.completeAll(got)
			cancel()
			synctest.Wait()
			r.a.BeginFlush()
			r.completeAll(r.drain(1))
			r.completeAll(r.drain(2))
			r.a.EndFlush()
		}
		assert.Equal(t, []int32{1, 2, 1, 2}, first)
		r.empty()
	})
}

// S-72: an append that may not wait for memory, or gave up waiting, counts like one that waits: what lingers must not keep the memory from
// callbacks that send. (Simulation: a partition got none of it for 20 s, of batches that lingered for 3 s each.)
func TestRefusedForMemorySendsTheOldest(t *testing.T) {
	gaveUp, cancel := context.WithCancel(context.Background())
	cancel()
	for name, refuse := range map[string]func(r *rig) error{
		"may not wait": func(r *rig) error {
			_, err := r.try(orders, Record{Partition: 3, Timestamp: -1, Value: make([]byte, 10*kib)}, nil, 0)
			return err
		},
		"gave up": func(r *rig) error {
			rec := Record{Partition: 3, Timestamp: -1, Value: make([]byte, 10*kib)}
			_, _, err := r.a.Append(gaveUp, r.a.Topic(orders), r.snap.Topic(orders), &rec, nil, false, time.Hour)
			return err
		},
	} {
		for _, asleep := range []bool{true, false} {
			t.Run(fmt.Sprintf("%s, asleep %v", name, asleep), func(t *testing.T) {
				r := newRig(t, withPool(48*kib), withLinger(time.Hour))
				r.lead(orders, 1, 1, 1, 1)
				for p := range int32(3) {
					r.put(p, 10*kib)
				}
				assert.Empty(t, r.readyNodes())
				if asleep {
					r.sleep(time.Hour)
				}
				r.wakes.Store(0)
				require.Error(t, refuse(r))
				if asleep {
					assert.Positive(t, r.wakes.Load(), "the sender sleeps on")
				} else {
					assert.False(t, r.a.PrepareSleep(r.clock.peek(), r.clock.peek().Add(time.Minute)), "the sender goes to sleep")
				}
				got := r.drain(1)
				require.NotEmpty(t, got)
				assert.Equal(t, int32(0), got[0].Partition(), "the oldest")
				r.completeAll(got)
				r.put(3, 10*kib)
				r.a.BeginFlush()
				got = r.drain(1)
				r.a.EndFlush()
				r.ready()
				r.sleep(time.Hour)
				r.wakes.Store(0)
				for range 10 {
					_, err := r.try(orders, Record{Partition: 3, Timestamp: -1, Value: make([]byte, 40*kib)}, nil, 0)
					require.Error(t, err)
				}
				assert.Zero(t, r.wakes.Load(), "nothing lingers")
				r.sleep(time.Hour)
				r.completeAll(got)
			})
		}
	}
}

// The nodes that Ready has named stay what they are when Nodes is asked.
func TestReadyNodesAreNotNodes(t *testing.T) {
	r := newRig(t)
	r.lead(orders, 1, 2)
	r.put(0, 1)
	r.ready()
	r.completeAll(r.drain(1))
	r.put(1, 1)
	res := r.ready()
	assert.Equal(t, []int32{1, 2}, r.a.Nodes(), "in order of first use")
	assert.Equal(t, []int32{2}, res.Nodes)
}

// ACC-22: a batch is drained after its linger however little of its delivery timeout is left.
func TestSoonToExpireIsSent(t *testing.T) {
	for _, left := range []time.Duration{time.Minute, ms} {
		t.Run(fmt.Sprint(left), func(t *testing.T) {
			r := newRig(t, withLinger(10*ms), func(c *Config) { c.DeliveryTimeout = 10*ms + left })
			r.lead(orders, 1)
			r.put(0, 1)
			assert.Empty(t, r.readyNodes())
			r.clock.advance(10 * ms)
			assert.Empty(t, r.a.Expired(r.clock.peek()))
			r.drainOne(1)
		})
	}
}

// S-75: the first record for a partition that is known to have no leader wakes the sender, which has to have the leader
// asked for; those after it need not.
func TestFirstRecordWithoutALeaderWakes(t *testing.T) {
	for _, linger := range []time.Duration{0, 10 * ms} {
		t.Run(fmt.Sprint(linger), func(t *testing.T) {
			r := newRig(t, withLinger(linger), withDelivery(time.Second))
			r.lead(orders, -1, 1)
			r.put(0, 1)
			require.Equal(t, []string{orders}, r.ready().UnknownLeader)
			r.clock.advance(time.Second)
			for _, b := range r.a.Expired(r.peek()) {
				r.a.Fail(b, errExpired, nil)
			}
			require.Empty(t, r.ready().UnknownLeader)

			r.put(0, 1) // while the sender is about to go to sleep
			assert.False(t, r.a.PrepareSleep(r.peek(), r.peek().Add(time.Minute)))
			require.Equal(t, []string{orders}, r.ready().UnknownLeader)
			r.clock.advance(time.Second)
			for _, b := range r.a.Expired(r.peek()) {
				r.a.Fail(b, errExpired, nil)
			}

			r.sleep(time.Minute)
			wakes := r.wakes.Load()
			r.put(0, 1)
			assert.Greater(t, r.wakes.Load(), wakes)
			require.Equal(t, []string{orders}, r.ready().UnknownLeader)
			r.sleep(linger)
			wakes = r.wakes.Load()
			r.put(0, 1)
			r.put(0, 20*kib)
			r.put(0, 1)
			assert.Equal(t, wakes, r.wakes.Load())
		})
	}
}
