package producer

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/kafka-reservoir/producer/metadata"
	"github.com/kafka-reservoir/producer/netclient"
	"github.com/kafka-reservoir/producer/protocol"
)

type verdict struct{ retriable, fatal, written bool }

func (verdict) Error() string              { return "verdict" }
func (v verdict) Retriable() bool          { return v.retriable }
func (v verdict) Fatal() bool              { return v.fatal }
func (v verdict) MayHaveBeenWritten() bool { return v.written }

func TestPredicates(t *testing.T) {
	for _, tt := range []struct {
		name                      string
		err                       error
		retriable, fatal, written bool
	}{
		{"nil", nil, false, false, false},
		{"foreign", errors.New("x"), false, false, false},
		{"cancelled", context.Canceled, false, false, false},
		{"retriable code", NotEnoughReplicas, true, false, false},
		{"code that is final", MessageTooLarge, false, false, false},
		{"wrapped code", fmt.Errorf("produce t-0: %w", protocol.NotLeaderOrFollower), true, false, false},
		{"not authorized for the topic", TopicAuthorizationFailed, false, false, false},
		{"not authorized for the cluster", ClusterAuthorizationFailed, false, true, false},
		{"fenced", fmt.Errorf("x: %w", ProducerFenced), false, true, false},
		{"version", UnsupportedVersion, false, true, false},
		{"its own verdict", verdict{retriable: true, written: true}, true, false, true},
		{"wrapped verdict", fmt.Errorf("x: %w", verdict{fatal: true, retriable: true}), false, true, false},
		{"too large", &RecordTooLargeError{}, false, false, false},
		{"config", &ConfigError{}, false, false, false},
		{"closed", fmt.Errorf("x: %w", ErrClosed), false, true, false},
		{"closed by force", &DeliveryError{Cause: ErrForceClosed, Written: true}, false, true, true},
		{"no memory", ErrBufferExhausted, true, false, false},
		{"metadata timeout", &metadata.TimeoutError{Topic: "t"}, true, false, false},
		{"delivery timeout", &DeliveryError{Cause: ErrDeliveryTimeout, Last: ErrDisconnected, Written: true}, true, false, true},
		{"delivery timeout, never sent", &DeliveryError{Cause: ErrDeliveryTimeout}, true, false, false},
		{"refused", &DeliveryError{Cause: MessageTooLarge}, false, false, false},
		{"refused because of others", &DeliveryError{Cause: ErrBatchRefused}, true, false, false},
		{"invalid partition", fmt.Errorf("x: %w", ErrInvalidPartition), false, false, false},
		{"refused for lack of rights", &DeliveryError{Cause: ClusterAuthorizationFailed}, false, true, false},
		{"disconnected", fmt.Errorf("x: %w", ErrDisconnected), true, false, false},
		{"request timeout", ErrRequestTimeout, true, false, false},
		{"too old a broker", &netclient.UnsupportedVersionError{}, false, true, false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			assert.Equal(t, tt.retriable, IsRetriable(tt.err), "retriable")
			assert.Equal(t, tt.fatal, IsFatal(tt.err), "fatal")
			assert.Equal(t, tt.written, MayHaveBeenWritten(tt.err), "written")
		})
	}
}

// S-05, S-06, S-26: the text names the limit and its setting.
func TestRecordTooLargeErrorNamesTheSetting(t *testing.T) {
	assert.Equal(t, "record for topic t takes up to 2000 bytes, more than MaxRequestSize (max.request.size) allows, which is 1000",
		(&RecordTooLargeError{Topic: "t", Size: 2000, Limit: 1000, Setting: "MaxRequestSize"}).Error())
	assert.Contains(t, (&RecordTooLargeError{Setting: "BufferMemory"}).Error(), "buffer.memory")
}

func TestConfigErrorNamesFieldAndProperty(t *testing.T) {
	assert.Equal(t, "config: Acks (acks): bad", (&ConfigError{"Acks", "acks", "bad"}).Error())
	assert.Equal(t, "config: x.y: bad", (&ConfigError{"", "x.y", "bad"}).Error())
	assert.Equal(t, "config: Dial: bad", (&ConfigError{"Dial", "", "bad"}).Error())
}

// Codes compare by errors.Is, however deep.
func TestErrorCodesCompare(t *testing.T) {
	err := fmt.Errorf("produce t-0: %w", fmt.Errorf("node 1: %w", protocol.MessageTooLarge))
	assert.ErrorIs(t, err, MessageTooLarge)
	var code ErrorCode
	assert.ErrorAs(t, err, &code)
	assert.Equal(t, "MESSAGE_TOO_LARGE", code.Name())
}
