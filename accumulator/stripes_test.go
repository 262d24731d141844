package accumulator

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// Records without a key go by one sticky partition, until goroutines are in each other's way; then by several, as long as several are busy.
func TestStripes(t *testing.T) {
	r := newRig(t, withBatch(1), withLinger(time.Hour), func(c *Config) { c.Stripes = 2 })
	r.lead(orders, 1, 1, 1, 1, 1, 1)
	s := &r.a.Topic(orders).sticky
	look := func() bool { // with r and s as they are
		r.clock.advance(loadEvery)
		r.ready()
		return s.spread.Load() != nil
	}
	advance := func(i int) {
		c := s.all[i].Peek(r.snap.Topic(orders))
		s.all[i].Advance(c, 1<<30, false, r.snap.Topic(orders))
	}
	r.put(anyOf, 1)
	s.contended.Store(muchContended)
	assert.False(t, look(), "not more than the sender alone may cause")
	s.contended.Store(muchContended + 1)
	assert.True(t, look())
	for range 3 {
		advance(0)
		advance(1)
		assert.True(t, look(), "both are busy")
	}
	advance(0)
	assert.False(t, look(), "one is")
	s.contended.Store(muchContended + 1)
	assert.True(t, look())
	assert.False(t, look(), "none is")

	// With one stripe there is nothing to spread.
	r = newRig(t)
	r.lead(orders, 1)
	r.put(anyOf, 1)
	s = &r.a.Topic(orders).sticky
	s.contended.Store(1 << 20)
	require.False(t, look())
}
