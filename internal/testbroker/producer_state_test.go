package testbroker

import (
	"math"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/kafka-reservoir/producer/protocol"
)

func TestProducerStateFirstSequence(t *testing.T) {
	const pid = 7
	tests := []struct {
		name     string
		model    LogModel
		expired  bool
		sequence int32
		want     protocol.ErrorCode
	}{
		{"strict from 0", Strict, false, 0, protocol.None},
		{"strict from 5", Strict, false, 5, protocol.OutOfOrderSequenceNumber},
		{"strict, expired, from 0", Strict, true, 0, protocol.None},
		{"strict, expired, from 5", Strict, true, 5, protocol.UnknownProducerID},
		{"legacy from 5", Legacy, false, 5, protocol.None},
		{"legacy, expired, from 5", Legacy, true, 5, protocol.None},
		{"forgetful from 0", Forgetful, false, 0, protocol.None},
		{"forgetful from 5", Forgetful, false, 5, protocol.UnknownProducerID},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			var s producerStates
			if tt.expired {
				s.record(protocol.ProducerID{ID: pid}, 0, 5, 0, -1)
				s.expire()
			}
			v := s.check(tt.model, protocol.ProducerID{ID: pid}, tt.sequence, 1)
			assert.Equal(t, tt.want, v.code)
			assert.Nil(t, v.duplicate)
		})
	}
}

func TestProducerStateWindowOfFive(t *testing.T) {
	var s producerStates
	id := protocol.ProducerID{ID: 1, Epoch: 3}
	for i := range int32(6) { // batches of two at sequences 0, 2, … 10
		require.Equal(t, protocol.None, s.check(Strict, id, 2*i, 2).code)
		s.record(id, 2*i, 2, int64(100+2*i), -1)
	}
	for i := int32(1); i < 6; i++ {
		v := s.check(Strict, id, 2*i, 2)
		if assert.NotNil(t, v.duplicate, "batch %d is within the window", i) {
			assert.Equal(t, int64(100+2*i), v.duplicate.offset)
		}
	}
	tests := []struct {
		name            string
		sequence, count int32
		want            protocol.ErrorCode
	}{
		{"older than the window", 0, 2, protocol.OutOfOrderSequenceNumber},
		{"a known first sequence, but fewer records", 10, 1, protocol.OutOfOrderSequenceNumber},
		{"overlap", 11, 2, protocol.OutOfOrderSequenceNumber},
		{"gap", 13, 1, protocol.OutOfOrderSequenceNumber},
		{"next", 12, 1, protocol.None},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			v := s.check(Strict, id, tt.sequence, tt.count)
			assert.Equal(t, tt.want, v.code)
			assert.Nil(t, v.duplicate)
		})
	}
}

func TestProducerStateEpochs(t *testing.T) {
	var s producerStates
	s.record(protocol.ProducerID{ID: 1, Epoch: 3}, 0, 4, 0, -1)
	at := func(epoch int16, sequence int32) protocol.ErrorCode {
		return s.check(Strict, protocol.ProducerID{ID: 1, Epoch: epoch}, sequence, 4).code
	}
	assert.Equal(t, protocol.InvalidProducerEpoch, at(2, 0), "lower epoch")
	assert.Equal(t, protocol.InvalidProducerEpoch, at(2, 4), "lower epoch")
	assert.Equal(t, protocol.OutOfOrderSequenceNumber, at(4, 4), "higher epoch must start at 0")
	assert.Equal(t, protocol.None, at(4, 0))

	s.record(protocol.ProducerID{ID: 1, Epoch: 4}, 0, 4, 10, -1)
	assert.Equal(t, protocol.InvalidProducerEpoch, at(3, 0), "no duplicate across epochs")
	v := s.check(Strict, protocol.ProducerID{ID: 1, Epoch: 4}, 0, 4)
	require.NotNil(t, v.duplicate)
	assert.Equal(t, int64(10), v.duplicate.offset, "the window belongs to the epoch")
}

// DRB-11: after MaxInt32 comes 0, within a batch as well as between two.
func TestProducerStateSequenceWraps(t *testing.T) {
	var s producerStates
	id := protocol.ProducerID{ID: 1}
	s.prime(id, math.MaxInt32-1)
	require.Equal(t, protocol.OutOfOrderSequenceNumber, s.check(Strict, id, 0, 1).code)
	require.Equal(t, protocol.None, s.check(Strict, id, math.MaxInt32-1, 3).code)
	s.record(id, math.MaxInt32-1, 3, 50, -1) // MaxInt32-1, MaxInt32, 0
	assert.Equal(t, protocol.None, s.check(Strict, id, 1, 1).code)
	v := s.check(Strict, id, math.MaxInt32-1, 3)
	require.NotNil(t, v.duplicate)
	assert.Equal(t, int64(50), v.duplicate.offset)
}
