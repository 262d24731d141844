package netclient

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func corrs(f *inFlight) (ids []int32) {
	for i := range f.len() {
		ids = append(ids, f.at(i).corr)
	}
	return ids
}

// S-93, IFR-01, IFR-02: requests stand in the order of sending, and the next answer belongs to the oldest one.
func TestInFlightOrder(t *testing.T) {
	var f inFlight
	assert.Nil(t, f.next())
	f.trim()
	for i := range int32(5) {
		f.push(pending{corr: i})
	}
	assert.Equal(t, []int32{0, 1, 2, 3, 4}, corrs(&f))
	assert.Equal(t, 5, f.waiting)
	for i := range int32(5) {
		p := f.next()
		require.NotNil(t, p)
		assert.Equal(t, i, p.corr)
		f.held(i).released = true
		f.settle(p)
		f.trim()
	}
	assert.Zero(t, f.len())
	assert.Zero(t, f.waiting)
	assert.Nil(t, f.next())
}

// A request without an answer is passed over by the answers of others.
func TestInFlightNoResponse(t *testing.T) {
	var f inFlight
	f.push(pending{corr: 0, noResponse: true})
	f.push(pending{corr: 1})
	assert.EqualValues(t, 1, f.next().corr)
}

// An answer may overtake the news that its request was sent; the entry stays until both are there.
func TestInFlightAnswerBeforeRelease(t *testing.T) {
	var f inFlight
	f.push(pending{corr: 0})
	f.push(pending{corr: 1})
	f.settle(f.next())
	f.trim()
	assert.Equal(t, []int32{0, 1}, corrs(&f))
	assert.EqualValues(t, 1, f.next().corr)
	assert.Equal(t, 1, f.waiting)
	f.held(0).released = true
	assert.Nil(t, f.held(0))
	f.trim()
	assert.Equal(t, []int32{1}, corrs(&f))
}

// The ring grows with its entries in order wherever they lie in it, and is then used again without allocating.
func TestInFlightRing(t *testing.T) {
	var f inFlight
	next, oldest := int32(0), int32(0)
	push := func(n int) {
		for range n {
			f.push(pending{corr: next})
			next++
		}
	}
	pop := func(n int) {
		for range n {
			p := f.next()
			if p.corr != oldest {
				t.Fatalf("got %d, want %d", p.corr, oldest)
			}
			oldest++
			p.released = true
			f.settle(p)
			f.trim()
		}
	}
	f.head, f.tail = 1<<32-3, 1<<32-3 // the counters wrap
	for n := 1; n < 40; n++ {
		push(n)
		pop(n/2 + 1)
		pop(f.len())
	}
	size := len(f.ring)
	assert.Zero(t, testing.AllocsPerRun(100, func() { push(5); pop(5) }))
	assert.Len(t, f.ring, size)
}

// IFR-03: every request whose own deadline passed is found, not only the oldest.
func TestInFlightExpire(t *testing.T) {
	var f inFlight
	for i, d := range []time.Duration{30 * time.Second, time.Second, 2 * time.Second} {
		f.push(pending{corr: int32(i), deadline: t0.Add(d)})
	}
	deadline, ok := f.nextDeadline()
	assert.True(t, ok)
	assert.Equal(t, t0.Add(time.Second), deadline)
	assert.Nil(t, f.expire(t0.Add(time.Second-1)))
	assert.EqualValues(t, 1, f.expire(t0.Add(2*time.Second)).corr)
	assert.Equal(t, []bool{false, true, true}, []bool{f.at(0).timedOut, f.at(1).timedOut, f.at(2).timedOut})

	f = inFlight{}
	_, ok = f.nextDeadline()
	assert.False(t, ok)
	f.push(pending{deadline: t0, answered: true})
	assert.Nil(t, f.expire(t0.Add(time.Hour)), "answered")
}
