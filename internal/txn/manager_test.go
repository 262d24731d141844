package txn

import (
	"math"
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/kafka-reservoir/producer/protocol"
)

// FC-015: sequences are compared around the wrap from 2147483647 to 0.
func TestBefore(t *testing.T) {
	for _, tt := range []struct {
		a, b int32
		want bool
	}{
		{0, 1, true}, {1, 0, false}, {5, 5, false},
		{math.MaxInt32, 0, true}, {0, math.MaxInt32, false},
		{math.MaxInt32 - 3, 2, true}, {2, math.MaxInt32 - 3, false},
	} {
		assert.Equal(t, tt.want, before(tt.a, tt.b), "before(%d, %d)", tt.a, tt.b)
	}
}

// SND-29: without an id nothing may be drained, and one is asked for; after a fatal error nothing is, and no id is asked for.
func TestNeedsID(t *testing.T) {
	m := New(5, nil)
	assert.True(t, m.NeedsID())
	m.SetID(protocol.ProducerID{ID: 7})
	assert.False(t, m.NeedsID())
	m.Fail(protocol.ClusterAuthorizationFailed)
	assert.ErrorIs(t, m.Err(), protocol.ClusterAuthorizationFailed)
	m.Fail(protocol.UnsupportedVersion)
	assert.ErrorIs(t, m.Err(), protocol.ClusterAuthorizationFailed, "the first reason stays")
}
