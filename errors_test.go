package producer

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

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
		{"delivery timeout, a broker being too old meanwhile", fmt.Errorf("x: %w", &DeliveryError{Cause: ErrDeliveryTimeout, Last: fmt.Errorf("%w; meanwhile: %w", protocol.LeaderNotAvailable, &netclient.UnsupportedVersionError{})}), true, false, false},
		{"delivery timeout, the last answer a refusal", &DeliveryError{Cause: ErrDeliveryTimeout, Last: ClusterAuthorizationFailed}, true, false, false},
		{"too old a broker for a record", &DeliveryError{Cause: &netclient.UnsupportedVersionError{}, Last: ErrDisconnected}, false, true, false},
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
	assert.Equal(t, "record for topic t takes up to 2000 bytes, more than MaxRequestSize (max.request.size) allows, which is 1000: put less into it, or raise the limit (and the topic's max.message.bytes)",
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

// Whoever is called at night is told what happened, to what, and what can be done, by every error that a record or a call
// may fail with. One sentence each, in lower case where no name stands first, without an end mark.
func TestErrorsSayWhatToDo(t *testing.T) {
	tp := protocol.TopicPartition{Topic: "orders", Partition: 3}
	node := protocol.Node{ID: 1, Host: "broker-1", Port: 9092}
	lost := &netclient.RequestError{Node: node, API: protocol.KeyProduce, Kind: ErrDisconnected, Cause: io.EOF}
	refused := &netclient.ConnectError{Node: node, Step: netclient.StepDial, Err: errors.New("connection refused")}
	failed := func(cause, last error, written bool, message string) error {
		return &DeliveryError{TopicPartition: tp, Cause: cause, Last: last, Attempts: 2, Age: 2 * time.Minute, Queued: time.Second, Written: written, Message: message}
	}
	for _, tt := range []struct {
		err  error
		says []string
	}{
		{ErrClosed, []string{"producer is closed", "cannot send"}},
		{ErrForceClosed, []string{"closed before the record was acknowledged"}},
		{ErrBufferExhausted, []string{"buffer memory exhausted"}},
		{ErrMetadataTimeout, []string{"metadata timeout"}},
		{ErrDeliveryTimeout, []string{"delivery timeout"}},
		{ErrBatchRefused, []string{"refused because of other records"}},
		{ErrInvalidPartition, []string{"invalid partition"}},
		{ErrRequestTimeout, []string{"no answer", "request timeout"}},
		{ErrDisconnected, []string{"disconnected before the answer"}},

		{failed(ErrDeliveryTimeout, refused, false, ""), []string{"orders-3", "delivery timeout after 2m0s", "2 attempts", "node 1 at broker-1:9092", "connection refused", "look at the broker"}},
		{failed(ErrDeliveryTimeout, lost, true, ""), []string{"Produce to node 1 (broker-1:9092)", "it may have been written", "can be there twice"}},
		{&DeliveryError{TopicPartition: tp, Cause: ErrDeliveryTimeout, Age: time.Minute, Queued: time.Minute}, []string{"never sent", "raise DeliveryTimeout"}},
		{failed(ErrDeliveryTimeout, NotEnoughReplicas, false, ""), []string{"NOT_ENOUGH_REPLICAS", "min.insync.replicas"}},
		{failed(ErrForceClosed, nil, false, ""), []string{"orders-3", "give Close more time"}},
		{failed(ErrBatchRefused, nil, false, ""), []string{"orders-3", "send it anew"}},
		{failed(MessageTooLarge, nil, false, ""), []string{"MESSAGE_TOO_LARGE", "max.message.bytes"}},
		{failed(InvalidRecord, nil, false, "no key"), []string{"INVALID_RECORD", "(no key)", "a compacted topic needs a key"}},
		{failed(InvalidTimestamp, nil, false, ""), []string{"INVALID_TIMESTAMP", "message.timestamp.before.max.ms"}},
		{failed(TopicAuthorizationFailed, nil, false, ""), []string{"TOPIC_AUTHORIZATION_FAILED", "WRITE"}},
		{failed(ClusterAuthorizationFailed, nil, false, ""), []string{"CLUSTER_AUTHORIZATION_FAILED", "IDEMPOTENT_WRITE", "DisableIdempotence"}},
		{failed(OutOfOrderSequenceNumber, nil, false, ""), []string{"OUT_OF_ORDER_SEQUENCE_NUMBER", "unclean election"}},
		{failed(protocol.UnknownProducerID, nil, true, ""), []string{"UNKNOWN_PRODUCER_ID", "read the topic", "it may have been written"}},
		{failed(UnsupportedVersion, nil, false, ""), []string{"UNSUPPORTED_VERSION", "upgrade the brokers"}},
		{failed(ProducerFenced, nil, false, ""), []string{"PRODUCER_FENCED", "transactional id"}},

		{&metadata.TimeoutError{Topic: "orders", Waited: time.Minute}, []string{"topic orders", "after 1m0s", "BootstrapServers", "max.block.ms"}},
		{&metadata.TimeoutError{Topic: "orders", Answered: true}, []string{"topic orders", "after 0s", "have not said yet", "send again"}},
		{&metadata.TimeoutError{Topic: "orders", Waited: time.Minute, Cause: UnknownTopicOrPartition}, []string{"UNKNOWN_TOPIC_OR_PARTITION", "create the topic"}},
		{&metadata.TimeoutError{Topic: "orders", Partition: 7, Partitions: 2, Waited: time.Minute}, []string{"partition 7 of topic orders, which has 2", "add partitions"}},
		{&metadata.WrongClusterError{Want: "ours", Got: "theirs"}, []string{`"theirs"`, `"ours"`, "nothing was sent", "correct it"}},
		{lost, []string{"Produce", "node 1 (broker-1:9092)", "disconnected before the answer", "EOF"}},
		{refused, []string{"node 1 at broker-1:9092", "connection refused"}},
		{&netclient.UnsupportedVersionError{Node: node, API: protocol.KeyProduce, Min: 3, Max: 13, BrokerMax: 2}, []string{"node 1", "Produce", "v0 to v2", "older than Apache Kafka 0.11"}},
		{&AuthenticationError{Node: node, Mechanism: "TLS", Err: errors.New("bad certificate")}, []string{"node 1", "TLS", "bad certificate"}},
		{&RecordTooLargeError{Topic: "orders", Size: 20, Limit: 10, Setting: "MaxRequestSize"}, []string{"orders", "20 bytes", "max.request.size", "raise the limit"}},
		{&SerializationError{Topic: "orders", Part: "key", Err: errors.New("no such schema")}, []string{"the key", "orders", "not sent", "no such schema"}},
		{&ConfigError{"Acks", "acks", "must be all, 1 or 0, is 7"}, []string{"Acks (acks)", "is 7"}},
	} {
		for _, part := range tt.says {
			assert.ErrorContains(t, tt.err, part)
		}
		assert.NotContains(t, tt.err.Error(), "!")
		assert.NotContains(t, tt.err.Error(), "\n")
		assert.False(t, strings.HasSuffix(tt.err.Error(), "."), tt.err.Error())
	}
}

// The table is whole: an error that this package exports is in it, by its name.
func TestEveryExportedErrorIsInTheTable(t *testing.T) {
	own, err := os.ReadFile("errors_test.go")
	require.NoError(t, err)
	_, table, found := strings.Cut(string(own), "func TestErrorsSayWhatToDo")
	require.True(t, found)
	text, err := os.ReadFile("errors.go")
	require.NoError(t, err)
	names := regexp.MustCompile(`(?m)^(?:\t|type )(Err\w+|\w+Error)(?: = | struct)`).FindAllStringSubmatch(string(text), -1)
	require.Greater(t, len(names), 13)
	for _, m := range names {
		if m[1] != "ErrorCode" { // the codes' texts are Kafka's
			assert.True(t, strings.Contains(table, m[1]), m[1])
		}
	}
}
