package netclient

import (
	"errors"
	"io"
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/kafka-reservoir/producer/protocol"
)

// FC-124: errors are found by what they are and by what caused them, and name node and API.
func TestRequestError(t *testing.T) {
	node := protocol.Node{ID: 3, Host: "b", Port: 9092}
	err := error(&RequestError{Node: node, API: protocol.KeyProduce, Kind: ErrDisconnected, Cause: io.ErrUnexpectedEOF})
	assert.ErrorIs(t, err, ErrDisconnected)
	assert.ErrorIs(t, err, io.ErrUnexpectedEOF)
	assert.NotErrorIs(t, err, ErrRequestTimeout)
	assert.EqualError(t, err, "Produce to node 3 (b:9092): disconnected before the answer: unexpected EOF")

	err = &RequestError{Node: node, API: protocol.KeyProduce, Kind: ErrRequestTimeout}
	assert.ErrorIs(t, err, ErrRequestTimeout)
	assert.EqualError(t, err, "Produce to node 3 (b:9092): no answer within the request timeout")
}

// What the predicates of the producer ask of the sentinels.
func TestSentinels(t *testing.T) {
	for err, want := range map[error][2]bool{ErrDisconnected: {true, false}, ErrRequestTimeout: {true, false}, ErrClosed: {false, true}} {
		var v interface {
			Retriable() bool
			Fatal() bool
		}
		assert.True(t, errors.As(err, &v))
		assert.Equal(t, want, [2]bool{v.Retriable(), v.Fatal()}, "%v", err)
	}
}

// S-12: the hint about old brokers stands where it helps, and only there.
func TestUnsupportedVersionHints(t *testing.T) {
	node := protocol.Node{ID: 1, Host: "b", Port: 9092}
	for _, tt := range []struct {
		err  UnsupportedVersionError
		want string
	}{
		{UnsupportedVersionError{API: protocol.KeyProduce, Min: 3, Max: 13, BrokerMin: 0, BrokerMax: 2},
			"node 1 (b:9092) offers Produce v0 to v2, this client needs v3 to v13: brokers older than Apache Kafka 0.11 are not supported"},
		{UnsupportedVersionError{API: protocol.KeyInitProducerID, Min: 0, Max: 5, BrokerMin: -1, BrokerMax: -1},
			"node 1 (b:9092) does not offer InitProducerId, this client needs v0 to v5: brokers older than Apache Kafka 0.11 are not supported"},
		{UnsupportedVersionError{API: protocol.KeyMetadata, Min: 4, Max: 13, BrokerMin: 0, BrokerMax: 2},
			"node 1 (b:9092) offers Metadata v0 to v2, this client needs v4 to v13"},
		{UnsupportedVersionError{API: protocol.KeyProduce, Min: 3, Max: 13, BrokerMin: 14, BrokerMax: 20},
			"node 1 (b:9092) offers Produce v14 to v20, this client needs v3 to v13: the broker is too new for this version of the client"},
	} {
		tt.err.Node = node
		assert.EqualError(t, &tt.err, tt.want)
	}
}
