package sender_test

import (
	"cmp"
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/kafka-reservoir/producer/accumulator"
	"github.com/kafka-reservoir/producer/internal/sim"
	"github.com/kafka-reservoir/producer/internal/testbroker"
	"github.com/kafka-reservoir/producer/protocol"
)

// line is a broker that takes a node's Produce requests one after the other, perSecond bytes a second, and answers each so much later.
type line struct {
	perSecond int
	delay     time.Duration

	free  time.Time // when it is through with all it was given
	taken int       // bytes
	sizes []int     // of the requests

	sent, told int // records
	size       int // of a record's value; 0: 64 KiB
}

func (l *line) fault(r *testbroker.Request) testbroker.Verdict {
	if r.API != protocol.KeyProduce {
		return testbroker.Verdict{}
	}
	if l.free.Before(r.At) {
		l.free = r.At
	}
	l.free = l.free.Add(time.Duration(r.Size) * time.Second / time.Duration(l.perSecond))
	l.taken += r.Size
	l.sizes = append(l.sizes, r.Size)
	return testbroker.Verdict{Hold: l.free.Sub(r.At) + l.delay}
}

// saturate lets the application send as much as the line takes, and returns how much was on its way at most, and what was taken a second.
func (l *line) saturate(t *testing.T, w *world, d time.Duration) (flight int64, perSecond float64) {
	value := make([]byte, cmp.Or(l.size, 64<<10))
	l.taken, l.sizes = 0, l.sizes[:0]
	w.Run(d, func() bool {
		flight = max(flight, w.Acc.Flight(1))
		for ; (l.sent-l.told)*len(value) < 8<<20; l.sent++ {
			require.NoError(t, w.Append("t", int32(l.sent%8), nil, value, func(_ accumulator.Result, err error) {
				require.NoError(t, err)
				l.told++
			}))
		}
		return false
	})
	return flight, float64(l.taken) / d.Seconds()
}

func newLine(t *testing.T, perSecond int, delay time.Duration) (*line, *world) {
	l := &line{perSecond: perSecond, delay: delay}
	w := newWorld(t, sim.Config{
		Cluster: testbroker.Config{Nodes: 1, Fault: l.fault}, BatchSize: 256 << 10, BufferMemory: 32 << 20,
		RequestTimeout: 30 * time.Second, DeliveryTimeout: 2 * time.Minute,
	})
	w.topic("t", 8)
	return l, w
}

// A node that is near has about two requests at a time however long it is kept busy: with more, each waits longer, and not in the caches. From time to time
// one goes by itself, to see whether the way is what it was; without that the queue would be taken for the way, and grow.
func TestNearNodeHasTwoRequests(t *testing.T) {
	const perSecond = 4 << 20
	l, w := newLine(t, perSecond, time.Millisecond)
	l.saturate(t, w, 2*time.Second)
	for i := range 5 {
		flight, got := l.saturate(t, w, 8*time.Second)
		assert.LessOrEqual(t, flight, int64(1600<<10), "after %d", i)
		assert.Greater(t, got, 0.97*perSecond, "after %d", i)
		alone := 0
		for _, n := range l.sizes {
			if n < 400<<10 {
				alone++
			}
		}
		assert.LessOrEqual(t, alone, 1, "after %d", i)
	}
	assert.LessOrEqual(t, w.Acc.Flight(1), int64(1600<<10))
	require.True(t, w.Settle(time.Minute))
}

// Over a long way there are as many as it takes, and soon.
func TestFarNodeIsKeptBusy(t *testing.T) {
	for _, delay := range []time.Duration{20 * time.Millisecond, 100 * time.Millisecond} {
		t.Run(fmt.Sprint(delay), func(t *testing.T) {
			perSecond := int(float64(2<<20) / delay.Seconds()) // 2 MiB at a time
			l, w := newLine(t, perSecond, delay)
			l.saturate(t, w, time.Second)
			_, got := l.saturate(t, w, 2*time.Second)
			assert.Greater(t, got, 0.95*float64(perSecond))
			require.True(t, w.Settle(time.Minute))
		})
	}
}

// When the way has become longer, that is seen.
func TestWayThatBecameLonger(t *testing.T) {
	const perSecond = 20 << 20
	l, w := newLine(t, perSecond, time.Millisecond)
	l.saturate(t, w, time.Second)
	l.delay = 100 * time.Millisecond
	l.saturate(t, w, 12*time.Second)
	_, got := l.saturate(t, w, 2*time.Second)
	assert.Greater(t, got, 0.9*perSecond)
	require.True(t, w.Settle(time.Minute))
}

// The first request after a pause is small, and what waits behind it goes at once all the same.
func TestFirstRequestIsSmall(t *testing.T) {
	l, w := newLine(t, 100<<20, 50*time.Millisecond)
	w.Run(time.Second, func() bool { return false })
	for p := range int32(8) {
		require.NoError(t, w.Append("t", p, nil, make([]byte, 100<<10), nil))
	}
	w.Run(40*time.Millisecond, func() bool { return false })
	assert.Equal(t, 2, len(l.sizes), "%v", l.sizes)
	assert.Less(t, l.sizes[0], 128<<10)
	require.True(t, w.Settle(time.Minute))
}

// What has lingered in many partitions behind a full way lets the sender sleep until the answer: a sender that spins ends the run.
func TestFullWayLetsSleep(t *testing.T) {
	l, w := newLine(t, 50<<20, 20*time.Millisecond)
	w.topic("many", 200)
	put := func(p int32, n int) { require.NoError(t, w.Append("many", p, nil, make([]byte, n), nil)) }
	put(0, 100)
	require.True(t, w.Settle(time.Minute))
	for p := range int32(12) {
		put(p, 100<<10)
	}
	w.Run(6*time.Millisecond, func() bool { return false })
	for p := int32(50); p < 150; p++ {
		put(p, 3<<10)
		put(p, 14<<10)
	}
	w.Run(10*time.Millisecond, func() bool { return false })
	require.True(t, w.Settle(time.Minute))
	assert.Positive(t, l.taken)
}

// So does a request that is to have the way for itself.
func TestProbeLetsSleep(t *testing.T) {
	_, w := newLine(t, 200<<20, 100*time.Millisecond)
	w.topic("many", 1000)
	rng, value := rand.New(rand.NewPCG(1, 2)), make([]byte, 1000)
	var tick func()
	tick = func() {
		for range 25 {
			require.NoError(t, w.Append("many", int32(rng.IntN(1000)), nil, value, nil))
		}
		w.Selector.In(time.Millisecond, tick)
	}
	w.Selector.In(0, tick)
	w.Run(12*time.Second, func() bool { return false })
}

// A lone batch that is a request and fills the way by itself is not all that is on its way.
func TestTwoLargeBatches(t *testing.T) {
	const perSecond = 50 << 20
	l := &line{perSecond: perSecond, delay: time.Millisecond}
	w := newWorld(t, sim.Config{
		Cluster: testbroker.Config{Nodes: 1, Fault: l.fault}, BatchSize: 1 << 20, LeastPipe: 800 << 10, BufferMemory: 32 << 20,
		RequestTimeout: 30 * time.Second, DeliveryTimeout: 2 * time.Minute,
	})
	w.topic("t", 8)
	require.NoError(t, w.Append("t", 0, nil, []byte("small"), nil))
	require.True(t, w.Settle(time.Minute))
	l.size = 900 << 10
	l.saturate(t, w, time.Second)
	_, got := l.saturate(t, w, time.Second)
	assert.Greater(t, got, 0.95*perSecond)
	require.True(t, w.Settle(time.Minute))
}

// A burst after a pause goes as fast as the one before it: the pause is not taken for a narrow way.
func TestBurstAfterPause(t *testing.T) {
	l, w := newLine(t, 1<<30, 50*time.Millisecond)
	burst := func() time.Duration {
		began := w.Now()
		for range 8 {
			for p := range int32(8) {
				require.NoError(t, w.Append("t", p, nil, make([]byte, 100<<10), nil))
			}
		}
		require.True(t, w.Settle(time.Minute))
		return w.Now().Sub(began)
	}
	l.saturate(t, w, time.Second)
	require.True(t, w.Settle(time.Minute))
	first := burst()
	for range 3 {
		w.Run(5*time.Second, func() bool { return false })
		assert.LessOrEqual(t, burst(), first+10*time.Millisecond)
	}
}

// The way is measured anew also where a node is never alone and its way never full.
func TestModerateLoadSeesALongerWay(t *testing.T) {
	l, w := newLine(t, 100<<20, time.Millisecond)
	var tick func()
	tick = func() {
		for p := range int32(8) {
			require.NoError(t, w.Append("t", p, nil, make([]byte, 1000), nil))
		}
		w.Selector.In(2*time.Millisecond, tick)
	}
	w.Selector.In(0, tick)
	w.Run(time.Second, func() bool { return false })
	l.delay = 100 * time.Millisecond
	w.Run(25*time.Second, func() bool { return false })
	assert.Greater(t, w.Sender.MinRTT(1), 90*time.Millisecond)
}

// A node whose way is full is one that can take nothing, as with all its requests in flight: a silent broker is seen by that.
func TestFullWayCanTakeNothing(t *testing.T) {
	l, w := newLine(t, 100<<20, time.Millisecond)
	l.saturate(t, w, time.Second)
	require.True(t, w.Settle(time.Minute))
	require.True(t, w.Sender.CanSend(1))
	l.delay = time.Hour
	l.saturate(t, w, 100*time.Millisecond)
	assert.Equal(t, 2, w.Client.InFlightCount(1))
	assert.False(t, w.Sender.CanSend(1))
}
