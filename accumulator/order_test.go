package accumulator

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// A partition's callbacks come in the order of its records, in whatever order its batches end (Java's come as they end).
// Futures know at once; other partitions do not wait; batches that nobody asked about hold up nobody.
func TestCallbacksInOrder(t *testing.T) {
	r := newRig(t, withBatch(1))
	md := r.lead(orders, 1, 1)
	topic := r.a.Topic(orders)
	var told []string
	cb := func(name string) Callback {
		return Callback(func(_ Result, err error) { told = append(told, fmt.Sprint(name, err == nil)) })
	}
	var handles []Handle
	for _, name := range []string{"a", "b", "c"} {
		handles = append(handles, r.record(orders, Record{Timestamp: -1}, cb(name)))
	}
	_, _, err := r.a.Append(t.Context(), topic, md, &Record{Timestamp: -1}, nil, false, 0)
	require.NoError(t, err)
	handles = append(handles, r.record(orders, Record{Timestamp: -1}, cb("e")))
	r.record(orders, Record{Partition: 1, Timestamp: -1}, cb("other"))
	var batches []*ProducerBatch
	for range 5 {
		for _, b := range r.drain(1) {
			if b.Partition() == 1 {
				r.a.Complete(b, 0, -1)
				continue
			}
			batches = append(batches, b)
		}
	}
	require.Len(t, batches, 5)
	assert.Equal(t, []string{"othertrue"}, told)
	r.a.Fail(batches[4], errRefused, nil)
	assert.True(t, handles[3].Settled())
	r.a.Complete(batches[2], 2, -1)
	r.a.Complete(batches[3], 3, -1)
	assert.Len(t, told, 1)
	r.a.Complete(batches[0], 0, -1)
	assert.Equal(t, []string{"othertrue", "atrue"}, told)
	assert.True(t, r.a.HasIncomplete())
	assert.EqualValues(t, r.pool.Total()-2048, r.pool.Available(), "their memory is back before they are told")
	r.a.Complete(batches[1], 1, -1)
	assert.Equal(t, []string{"othertrue", "atrue", "btrue", "ctrue", "efalse"}, told)
	assert.Nil(t, r.a.deque(topic, 0, 2).untold.head)
	r.empty()
}

// The parts of a split batch are told in its place.
func TestCallbacksOfPartsInOrder(t *testing.T) {
	r := newRig(t, withBatch(1*kib), withLinger(time.Hour))
	r.lead(orders, 1)
	var told []int
	for i := range 48 {
		r.record(orders, Record{Timestamp: -1, Value: make([]byte, 50)}, Callback(func(Result, error) { told = append(told, i) }))
	}
	r.a.StartClosing()
	first, second, third := r.drainOne(1), r.drainOne(1), r.drainOne(1)
	n := int(first.Count())
	all := n + int(second.Count()+third.Count())
	parts := r.split(second)
	again := r.split(r.drainOne(1))
	require.Greater(t, len(again), 1)
	r.a.Complete(third, 0, -1)
	r.a.Undrained("", r.peek()) // takes all parts out of the queue
	for _, b := range parts[1:] {
		r.a.Complete(b, 0, -1)
	}
	assert.Empty(t, told)
	r.a.Complete(again[1], 0, -1)
	assert.Empty(t, told)
	r.a.Complete(first, 0, -1)
	assert.Len(t, told, n)
	for k := len(again) - 1; k > 1; k-- {
		r.a.Complete(again[k], 0, -1)
	}
	r.a.Complete(again[0], 0, -1)
	require.Len(t, told, all)
	for i, k := range told {
		assert.Equal(t, i, k)
	}
}

// The list of what is to be told does what a slice does.
func TestUntoldAgainstASlice(t *testing.T) {
	for seed := range uint64(20) {
		rng := rand.New(rand.NewPCG(seed, 4))
		r := newRig(t)
		var told, want, list []*ProducerBatch
		r.a.cfg.Done = func(b *ProducerBatch) { told = append(told, b) }
		d := &deque{}
		for range 300 {
			switch rng.IntN(4) {
			case 0, 1:
				b := &ProducerBatch{d: d, callbacks: rng.IntN(3) > 0}
				d.untold.push(b)
				list = append(list, b)
			case 2:
				if len(list) == 0 {
					continue
				}
				b := list[rng.IntN(len(list))]
				if b.is(stateDone) {
					continue
				}
				b.state.Store(int32(stateDone))
				r.a.tell(b)
				var rest []*ProducerBatch
				front := true
				for _, x := range list {
					switch {
					case x == b && !b.callbacks: // is not told, and not waited for
					case front && x.is(stateDone):
						want = append(want, x)
					default:
						front = false
						rest = append(rest, x)
					}
				}
				list = rest
			case 3:
				if len(list) == 0 {
					continue
				}
				k := rng.IntN(len(list))
				b := list[k]
				if b.is(stateDone) {
					continue
				}
				parts := []*ProducerBatch{{d: d, callbacks: true}, {d: d, callbacks: rng.IntN(2) == 0}}
				d.untold.replace(b, parts)
				list = append(list[:k:k], append(parts, list[k+1:]...)...)
			}
			require.Equal(t, want, told)
			var got, back []*ProducerBatch
			for b := d.untold.head; b != nil; b = b.newer {
				got = append(got, b)
			}
			for b := d.untold.tail; b != nil; b = b.older {
				back = append([]*ProducerBatch{b}, back...)
			}
			require.Equal(t, list, got)
			require.Equal(t, got, back)
			for _, b := range told {
				require.True(t, b.older == nil && b.newer == nil)
			}
		}
	}
}
