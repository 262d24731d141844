package accumulator

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/kafka-reservoir/producer/bufferpool"
	"github.com/kafka-reservoir/producer/protocol"
)

// situation is what the sender knows of node 1 when it goes to sleep.
type situation string

const (
	unknown situation = "leader unknown"
	idle    situation = "idle"
	busy    situation = "busy"    // a request in flight, room for more
	stopped situation = "stopped" // can take nothing more: its answers are due
	away    situation = "away"    // not connected, or throttled
)

// sleeper is a rig whose sender knows partitions 0 to 2 of node 1, in a situation, and has nothing to do.
func sleeper(t *testing.T, node situation, linger time.Duration, codec protocol.Codec) *rig {
	r := newRig(t, withLinger(linger), withCodec(codec), withPool(8<<20), withBatch(1<<20))
	leader := int32(1)
	if node == unknown {
		leader = -1
	}
	r.lead(orders, 1, 1, leader)
	for p := range int32(2) {
		r.put(p, 10)
	}
	r.a.BeginFlush()
	r.completeAll(r.drain(1))
	r.a.EndFlush()
	if node == busy || node == stopped {
		r.busy[1] = 1
	}
	r.full[1] = node == stopped || node == away
	r.ready()
	r.wakes.Store(0)
	return r
}

// S-31, S-45, S-71: whether an append, or what else applications do, wakes a sleeping sender: always if there is
// something that it could act on before it wakes by itself, and if not, mostly not, since a wake-up costs as much as twenty
// records. The same keeps the sender from going to sleep when it was done just before, so that nothing gets lost in
// between. (Java wakes it whenever a batch begins or is full, and the sender finds out that there is nothing to do.)
func TestWhoWakesTheSender(t *testing.T) {
	const (
		must    = "must"
		mustNot = "must not"
		may     = "may"
	)
	type row struct {
		node   situation
		linger time.Duration
		sleep  time.Duration
		act    string
		want   string
	}
	acts := map[string]func(r *rig, p int32){
		"open":        func(r *rig, p int32) { r.put(p, 10) },
		"second":      func(r *rig, p int32) { r.put(p, 10); r.wakes.Store(0); r.a.sleep.Store(1 << 62); r.put(p, 10) },
		"close small": func(r *rig, p int32) { r.a.cfg.BatchSize = 1 * kib; r.put(p, 1*kib) },
		"close large": func(r *rig, p int32) { r.a.cfg.BatchSize = 1 * kib; r.put(p, 65*kib) },
		"grow a bit":  func(r *rig, p int32) { r.put(p, shareFloor/2-20*kib) },
		"grow much":   func(r *rig, p int32) { r.put(p, shareFloor/2+20*kib) },
		"wait":        func(r *rig, p int32) { r.put(p, 10).Done() },
		"flush":       func(r *rig, p int32) { r.a.BeginFlush(); r.put(p, 10) },
	}
	const l = 10 * ms
	rows := []row{
		// Without a linger a batch that begins is due at once, if its node can take it and is at nothing else.
		{unknown, 0, time.Minute, "open", must},
		{idle, 0, time.Minute, "open", must},
		{busy, 0, time.Minute, "open", mustNot}, // the answer wakes the sender
		{stopped, 0, time.Minute, "open", mustNot},
		{away, 0, time.Minute, "open", must}, // nobody else would have it connected
		{away, 0, time.Minute, "second", mustNot},
		{away, 0, time.Minute, "close large", must},
		{away, 0, time.Minute, "wait", must},
		{busy, 0, time.Minute, "second", mustNot},
		{stopped, 0, time.Minute, "second", mustNot},
		{idle, 0, time.Minute, "close small", must},
		{busy, 0, time.Minute, "close small", mustNot},
		{busy, 0, time.Minute, "close large", must},
		{stopped, 0, time.Minute, "close large", mustNot},
		{idle, 0, time.Minute, "wait", must},
		{busy, 0, time.Minute, "wait", mustNot}, // shares the next request
		{unknown, 0, time.Minute, "flush", must},
		{busy, 0, time.Minute, "flush", must},

		// With one, the sender has to wake in time for the batch's end.
		{unknown, l, time.Minute, "open", must},
		{idle, l, time.Minute, "open", must},
		{busy, l, time.Minute, "open", must},
		{stopped, l, time.Minute, "open", may},
		{away, l, time.Minute, "open", must},
		{away, l, l, "open", mustNot},
		{away, l, l, "close small", must},
		{idle, l, l, "open", mustNot},
		{busy, l, l, "open", mustNot},
		{stopped, l, l, "open", mustNot},
		{idle, l, l, "second", mustNot},
		{idle, l, l, "close small", must},
		{busy, l, l, "close small", mustNot}, // the answer, or the linger of others, wakes the sender
		{busy, l, l, "close large", must},
		{stopped, l, l, "close large", mustNot},
		{idle, l, l, "grow a bit", mustNot},
		{idle, l, l, "grow much", must},
		{busy, l, l, "grow much", mustNot},
		{stopped, l, l, "grow much", mustNot},
		{unknown, l, l, "wait", must},
		{idle, l, l, "wait", must},
		{busy, l, l, "wait", must},
		{stopped, l, l, "wait", mustNot},
		{busy, l, l, "flush", must},
		{idle, l, l, "flush", must},
	}
	for _, tt := range rows {
		partition := int32(0)
		if tt.node == unknown {
			partition = 2
		}
		name := fmt.Sprintf("%s/linger=%v/sleep=%v/%s", tt.node, tt.linger, tt.sleep, tt.act)
		t.Run(name, func(t *testing.T) {
			r := sleeper(t, tt.node, tt.linger, protocol.CodecNone)
			r.sleep(tt.sleep)
			acts[tt.act](r, partition)
			switch tt.want {
			case must:
				assert.Positive(t, r.wakes.Load())
			case mustNot:
				assert.Zero(t, r.wakes.Load())
			}
		})
		if tt.act == "second" {
			continue
		}
		t.Run(name+"/before", func(t *testing.T) {
			r := sleeper(t, tt.node, tt.linger, protocol.CodecNone)
			acts[tt.act](r, partition)
			now := r.clock.peek()
			for _, id := range r.a.Nodes() {
				r.a.SetNode(id, !r.full[id], r.busy[id])
			}
			slept := r.a.PrepareSleep(now, now.Add(tt.sleep))
			if tt.want == must {
				assert.False(t, slept, "it has something to do")
			}
			// However that was, after one more look it sleeps: it must not go round and round.
			r.ready()
			r.sleep(tt.sleep)
		})
	}
}

// A second append does not wake a sender that the first has woken, nor one that is awake.
func TestOneWakeUpIsEnough(t *testing.T) {
	r := sleeper(t, idle, 0, protocol.CodecNone)
	r.put(0, 10)
	assert.Zero(t, r.wakes.Load(), "it is awake")
	r.ready()
	r.completeAll(r.drain(1))
	r.sleep(time.Minute)
	for range 10 {
		r.put(0, 10)
		r.put(1, 300*kib)
	}
	assert.EqualValues(t, 1, r.wakes.Load())
	r.a.Awake()
	r.wakes.Store(0)
	r.put(1, 300*kib)
	assert.Zero(t, r.wakes.Load())
}

// A batch that was compressed always makes the sender look, whatever the node is at: it has passed the batch over.
func TestSealedBatchWakesTheSender(t *testing.T) {
	for _, node := range []situation{unknown, idle, busy, stopped, away} {
		for _, sealers := range []int{0, 1} {
			t.Run(fmt.Sprintf("%s/sealers=%d", node, sealers), func(t *testing.T) {
				r := sleeper(t, node, time.Hour, protocol.CodecLZ4)
				r.a.cfg.Sealers = sealers
				r.a.cfg.BatchSize = 1 * kib
				woken := make(chan struct{}, 10)
				r.a.cfg.Wake = func() { woken <- struct{}{} }
				partition := int32(0)
				if node == unknown {
					partition = 2
				}
				r.sleep(time.Minute)
				r.a.sleep.Store(1) // it will wake soon by itself: the new batch is no reason
				r.record(orders, Record{Partition: partition, Timestamp: -1, Value: noise(1 * kib)}, nil)
				<-woken
				for !r.a.deque(r.a.Topic(orders), partition, 3).front().is(stateSealed) {
					r.ready()
					if now := r.clock.peek(); r.a.PrepareSleep(now, now.Add(time.Minute)) {
						<-woken
					}
				}
				r.ready()
				assert.Equal(t, partition == 2, r.a.s.noLeader.n == 1)
				assert.Equal(t, partition == 0, len(r.drainUpTo(1, 1<<20)) == 1)
			})
		}
	}
}

// What waits for a node that can take nothing does not keep the sender from sleeping. When the node can, and something
// came in that was no reason to wake, it does.
func TestSleepTakesTheSituationOfNow(t *testing.T) {
	r := sleeper(t, stopped, 0, protocol.CodecNone)
	r.put(0, 100*kib)
	r.ready()
	r.sleep(time.Minute)
	r.put(1, 10)
	assert.Zero(t, r.wakes.Load())
	r.a.Awake()
	r.full[1] = false
	assert.False(t, func() bool {
		r.a.SetNode(1, true, 0)
		return r.a.PrepareSleep(r.clock.peek(), r.clock.peek().Add(time.Minute))
	}(), "partition 1's batch has not been looked at, and can go now")
	assert.Equal(t, []int32{0, 1}, partitionsOf(r.drain(1)))
}

// Somebody who waits for a record of a node that could take nothing when the sender slept last, but can now, has it sent at
// once: the sender, about to sleep, looks again.
func TestWaitWhileTheNodeBecomesFree(t *testing.T) {
	r := sleeper(t, stopped, 10*ms, protocol.CodecNone)
	h := r.put(0, 10)
	r.ready()
	r.sleep(10 * ms)
	r.a.Awake()
	r.full[1] = false // an answer has come; another request is in flight
	r.ready()
	h.Done()
	now := r.peek()
	r.a.SetNode(1, true, 1)
	assert.False(t, r.a.PrepareSleep(now, now.Add(10*ms)))
	assert.Equal(t, []int32{1}, r.readyNodes())
}

// An append that comes while the sender is in the midst of a look is not lost: its deque is on the list, which is what
// keeps the sender awake, before the mark that says so.
func TestLookIsSetBehindTheList(t *testing.T) {
	r := newRig(t)
	r.lead(orders, 1)
	r.a.signals.mu.Lock()
	done := make(chan Handle)
	go func() { done <- r.put(0, 1) }()
	d := r.a.deque(r.a.Topic(orders), 0, 1)
	for d.mu.TryLock() { // until the append holds it
		signalled := d.signalled
		d.mu.Unlock()
		require.False(t, signalled)
	}
	looked := r.a.look.Load()
	r.a.signals.mu.Unlock()
	<-done
	assert.False(t, looked)
	assert.True(t, r.a.look.Load())
	assert.False(t, r.a.PrepareSleep(t0, t0.Add(time.Minute)))
}

// A refusal for the share of a stuck node sends nothing of what lingers for others, which would free nothing of the share, and does not
// wake the sender for that.
func TestRefusalForAShareEndsNoLingerElsewhere(t *testing.T) {
	r := newRig(t, withLinger(time.Second), withBatch(256*kib))
	r.lead(orders, 1, 2)
	r.put(0, 10)
	r.put(1, 10)
	r.ready()
	r.full[1] = true
	r.a.SetShare(1, 0, 0)
	require.Empty(t, r.readyNodes())
	r.sleep(time.Second)
	_, err := r.try(orders, Record{Partition: 0, Timestamp: -1, Value: make([]byte, 40*kib)}, nil, 0)
	require.ErrorIs(t, err, bufferpool.ErrExhausted)
	assert.Zero(t, r.wakes.Load())
	r.a.Awake()
	assert.Empty(t, r.readyNodes())

	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	_, _, err = r.a.Append(ctx, r.a.Topic(orders), r.snap.Topic(orders), &Record{Partition: 0, Value: make([]byte, 40*kib)}, nil, false, time.Second)
	require.ErrorIs(t, err, context.Canceled)
	assert.Empty(t, r.readyNodes(), "nor does one that did not want to wait any more")
	r.a.Close()
	_, err = r.try(orders, Record{Partition: 0, Timestamp: -1}, nil, 0)
	require.ErrorIs(t, err, ErrClosed)
	assert.Empty(t, r.readyNodes(), "nor one that came too late")
}

// Where the share that is full is a healthy node's, its own batches linger no longer, and the sender is woken for that.
func TestRefusalForAShareEndsItsOwnLinger(t *testing.T) {
	for _, busy := range []int{0, 1} {
		r := newRig(t, withLinger(time.Second), withBatch(256*kib))
		r.lead(orders, 1, 2)
		r.busy[1] = busy
		r.put(1, 10)
		r.put(0, 10)
		r.ready() // the nodes are known from here on
		require.Empty(t, r.readyNodes())
		r.a.SetShare(1, 64*kib, 64*kib)
		if busy == 0 {
			r.sleep(time.Second)
		}
		r.put(0, 70*kib)
		_, err := r.try(orders, Record{Partition: 0, Timestamp: -1, Value: make([]byte, 40*kib)}, nil, 0)
		require.ErrorIs(t, err, bufferpool.ErrExhausted)
		if busy == 0 {
			assert.Positive(t, r.wakes.Load())
		}
		assert.False(t, r.a.PrepareSleep(r.peek(), r.peek().Add(time.Second)), "the same just before it sleeps")
		assert.Equal(t, []int32{1}, r.readyNodes())
		r.sleep(time.Second)
	}
}

// An append that is refused for want of memory wakes the sender for what lingers, also where one before it was refused when nothing did.
func TestEachRefusalForMemoryEndsALinger(t *testing.T) {
	r := newRig(t, withLinger(time.Second), withPool(64*kib), withBatch(64*kib))
	r.lead(orders, 1, 2)
	r.put(0, 10)
	r.clock.advance(2 * time.Second)
	r.drainOne(1) // in flight
	require.Empty(t, r.readyNodes())
	r.sleep(500 * ms)
	refused := func() {
		_, err := r.try(orders, Record{Partition: 1, Timestamp: -1, Value: make([]byte, 60*kib)}, nil, 0)
		require.ErrorIs(t, err, bufferpool.ErrExhausted)
	}
	refused()
	require.Zero(t, r.wakes.Load(), "there is nothing to free")
	r.put(1, 10)
	require.Zero(t, r.wakes.Load())
	refused()
	require.Positive(t, r.wakes.Load())
	r.a.Awake()
	require.Equal(t, []int32{2}, r.readyNodes())
}
