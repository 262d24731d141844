package producer

import (
	"errors"
	"fmt"

	"github.com/kafka-reservoir/producer/accumulator"
	"github.com/kafka-reservoir/producer/bufferpool"
	"github.com/kafka-reservoir/producer/metadata"
	"github.com/kafka-reservoir/producer/netclient"
	"github.com/kafka-reservoir/producer/protocol"
	"github.com/kafka-reservoir/producer/sender"
)

// What a record or a call may fail with; compare with errors.Is.
var (
	// ErrClosed: the producer was closed before the call, or while it waited. The record was not accepted.
	ErrClosed = accumulator.ErrClosed
	// ErrForceClosed: the record was accepted, but the ctx of Close ended before it was acknowledged.
	ErrForceClosed = sender.ErrForceClosed
	// ErrBufferExhausted: no memory came free within MaxBlock. The record was not accepted. The brokers take records more
	// slowly than they come.
	ErrBufferExhausted = bufferpool.ErrExhausted
	// ErrMetadataTimeout: the topic, or the partition asked for, did not become known within MaxBlock. The record was not
	// accepted. The error says what went wrong meanwhile, if anything did.
	ErrMetadataTimeout = metadata.ErrTimeout
	// ErrDeliveryTimeout: the record was accepted, but not acknowledged within DeliveryTimeout.
	ErrDeliveryTimeout = sender.ErrDeliveryTimeout
	// ErrBatchRefused: the broker refused other records in the same batch, and named them; this one was not written, for no fault
	// of its own, and may be sent anew.
	ErrBatchRefused = sender.ErrBatchRefused
	// ErrInvalidPartition: the record names a negative partition, or the Partitioner chose one that the topic does not have. The
	// record was not accepted.
	ErrInvalidPartition = errors.New("invalid partition")
	// ErrRequestTimeout: a broker did not answer within RequestTimeout. A record's last attempt may have failed so.
	ErrRequestTimeout = netclient.ErrRequestTimeout
	// ErrDisconnected: the connection ended before a broker's answer came. A record's last attempt may have failed so.
	ErrDisconnected = netclient.ErrDisconnected
)

// DeliveryError tells the story of a record that was accepted and not acknowledged: how often it was sent, what the
// last answer was, where the time went, and whether it may be in the log nevertheless.
type DeliveryError = sender.DeliveryError

// AuthenticationError says that a broker refused the producer's credentials, or the producer the broker's.
type AuthenticationError = netclient.AuthenticationError

// ErrorCode is a broker's verdict, comparable: errors.Is(err, producer.MessageTooLarge), or errors.As to get at
// any of them. Package protocol has the names of all.
type ErrorCode = protocol.ErrorCode

// The codes that programs test for most.
const (
	// UnknownTopicOrPartition: the topic does not exist, and the broker does not create it.
	UnknownTopicOrPartition = protocol.UnknownTopicOrPartition
	// InvalidTopicException: no topic can have that name.
	InvalidTopicException = protocol.InvalidTopicException
	// TopicAuthorizationFailed: this client may not write to the topic.
	TopicAuthorizationFailed = protocol.TopicAuthorizationFailed
	// ClusterAuthorizationFailed: this client may not be an idempotent producer.
	ClusterAuthorizationFailed = protocol.ClusterAuthorizationFailed
	// MessageTooLarge: the record is larger than the topic allows.
	MessageTooLarge = protocol.MessageTooLarge
	// InvalidRecord: the broker refused the record's content.
	InvalidRecord = protocol.InvalidRecord
	// InvalidTimestamp: the record's time is before 1970, or too far from the broker's.
	InvalidTimestamp = protocol.InvalidTimestamp
	// NotEnoughReplicas: too few replicas are in sync for AcksAll.
	NotEnoughReplicas = protocol.NotEnoughReplicas
	// OutOfOrderSequenceNumber: records before this one are missing from the log.
	OutOfOrderSequenceNumber = protocol.OutOfOrderSequenceNumber
	// UnsupportedVersion: the broker is too old for what is asked of it.
	UnsupportedVersion = protocol.UnsupportedVersion
	// ProducerFenced: another producer has taken over the TransactionalID.
	ProducerFenced = protocol.ProducerFenced
)

// RecordTooLargeError says that a record can never be sent under the Config's limits. It was not sent.
type RecordTooLargeError struct {
	Topic string
	// Size is the most the record may take up in a batch of its own, framing and headers included.
	Size int
	// Limit is what it may take up at most.
	Limit int
	// Setting is the Config field that sets the limit: MaxRequestSize or BufferMemory.
	Setting string
}

func (e *RecordTooLargeError) Error() string {
	property := "max.request.size"
	if e.Setting == "BufferMemory" {
		property = "buffer.memory"
	}
	return fmt.Sprintf("record for topic %s takes up to %d bytes, more than %s (%s) allows, which is %d: put less into it, or raise the limit (and the topic's max.message.bytes)", e.Topic, e.Size, e.Setting, property, e.Limit)
}

// SerializationError says that a Serializer refused a record's key or value. The record was not sent.
type SerializationError struct {
	Topic string
	// Part is "key" or "value".
	Part string
	// Err is what the Serializer returned.
	Err error
}

func (e *SerializationError) Error() string {
	return fmt.Sprintf("serialize the %s of a record for topic %s, which was not sent: %v", e.Part, e.Topic, e.Err)
}

// Unwrap returns what the Serializer returned.
func (e *SerializationError) Unwrap() error { return e.Err }

// ConfigError is one complaint about a Config or a Java property. [Config.Validate], [New] and
// [FromProperties] join all they have, each as a ConfigError of its own.
type ConfigError struct {
	// Field is the Config field, empty for a property that has none.
	Field string
	// Property is the Java name, empty for a field that has none.
	Property string
	// Reason says what is wrong and what would be right.
	Reason string
}

func (e *ConfigError) Error() string {
	name := e.Field
	switch {
	case name == "":
		name = e.Property
	case e.Property != "":
		name += " (" + e.Property + ")"
	}
	return "config: " + name + ": " + e.Reason
}

// complaints collects ConfigErrors.
type complaints []error

func (c *complaints) add(field, property, format string, args ...any) {
	*c = append(*c, &ConfigError{Field: field, Property: property, Reason: fmt.Sprintf(format, args...)})
}

func (c complaints) join() error { return errors.Join(c...) }

// IsRetriable reports whether the same record may succeed in a new Send: a broker was not reachable, the
// buffer was full, a timeout was over. The producer itself has already retried for as long as it may; a
// record that [MayHaveBeenWritten] can be in the log twice after a new Send.
func IsRetriable(err error) bool {
	if IsFatal(err) {
		return false
	}
	var r interface{ Retriable() bool }
	return errors.Is(err, ErrBufferExhausted) || errors.As(err, &r) && r.Retriable()
}

// IsFatal reports whether the producer is finished: it was closed, fenced by another one, or may not do what
// it was made for. Every later Send will fail too; close it.
func IsFatal(err error) bool {
	var d *DeliveryError
	if errors.As(err, &d) {
		err = d.Cause // not by what happened meanwhile: a broker that is too old, or refuses, need not be the last
	}
	if errors.Is(err, ErrClosed) || errors.Is(err, ErrForceClosed) {
		return true
	}
	var f interface{ Fatal() bool }
	if errors.As(err, &f) && f.Fatal() {
		return true
	}
	var code ErrorCode
	if !errors.As(err, &code) {
		return false
	}
	switch code {
	case protocol.ClusterAuthorizationFailed, protocol.TransactionalIDAuthorizationFailed, protocol.UnsupportedVersion,
		protocol.ProducerFenced, protocol.InvalidProducerIDMapping:
		return true
	}
	return false
}

// MayHaveBeenWritten reports whether a record that failed can be in the log nevertheless: it was sent at least
// once, and no answer said what became of it. Where it is false, the record is certainly not in the log.
func MayHaveBeenWritten(err error) bool {
	var w interface{ MayHaveBeenWritten() bool }
	return errors.As(err, &w) && w.MayHaveBeenWritten()
}
