package netclient

import (
	"fmt"

	"github.com/kafka-reservoir/producer/protocol"
)

// sentinel is an error that callers compare with errors.Is and that says by itself whether trying again helps.
type sentinel struct {
	text             string
	retriable, fatal bool
}

func (s *sentinel) Error() string   { return s.text }
func (s *sentinel) Retriable() bool { return s.retriable }
func (s *sentinel) Fatal() bool     { return s.fatal }

var (
	// ErrDisconnected: the connection ended before the answer came. What became of the request is not
	// known, unless it was not written.
	ErrDisconnected error = &sentinel{text: "disconnected before the answer", retriable: true}
	// ErrRequestTimeout: no answer came within the request timeout (request.timeout.ms). The connection
	// was closed; what became of the request is not known, unless it was not written.
	ErrRequestTimeout error = &sentinel{text: "no answer within the request timeout", retriable: true}
	// ErrClosed: the client was closed.
	ErrClosed error = &sentinel{text: "client closed", fatal: true}
)

// RequestError says why a request has no answer. errors.Is finds both the kind, [ErrDisconnected] or
// [ErrRequestTimeout], and what ended the connection.
type RequestError struct {
	Node protocol.Node
	API  protocol.APIKey
	Kind error // ErrDisconnected or ErrRequestTimeout
	// Cause is what ended the connection; nil where Kind says it all.
	Cause error
}

func (e *RequestError) Error() string {
	if e.Cause == nil {
		return fmt.Sprintf("%v to node %v: %v", e.API, e.Node, e.Kind)
	}
	return fmt.Sprintf("%v to node %v: %v: %v", e.API, e.Node, e.Kind, e.Cause)
}

// Unwrap returns Kind and Cause.
func (e *RequestError) Unwrap() []error {
	if e.Cause == nil {
		return []error{e.Kind}
	}
	return []error{e.Kind, e.Cause}
}

// Retriable reports that a new attempt may succeed: it is about a connection, not about the request.
func (e *RequestError) Retriable() bool { return true }

// UnsupportedVersionError says that a broker and this client have no version of an API in common.
// errors.Is(err, protocol.UnsupportedVersion) finds it.
type UnsupportedVersionError struct {
	Node protocol.Node
	API  protocol.APIKey
	// Min and Max are what this client can use, BrokerMin and BrokerMax what the broker offers;
	// a negative BrokerMax means that it does not offer the API at all.
	Min, Max             int16
	BrokerMin, BrokerMax int16
}

func (e *UnsupportedVersionError) Error() string {
	offer := fmt.Sprintf("offers %v v%d to v%d", e.API, e.BrokerMin, e.BrokerMax)
	if e.BrokerMax < 0 {
		offer = fmt.Sprintf("does not offer %v", e.API)
	}
	var hint string
	switch {
	case e.BrokerMin > e.Max:
		hint = ": the broker is too new for this version of the client"
	case e.API == protocol.KeyProduce && e.BrokerMax < 3, e.API == protocol.KeyInitProducerID && e.BrokerMax < 0:
		hint = ": brokers older than Apache Kafka 0.11 are not supported"
	}
	return fmt.Sprintf("node %v %s, this client needs v%d to v%d%s", e.Node, offer, e.Min, e.Max, hint)
}

// Unwrap returns [protocol.UnsupportedVersion].
func (e *UnsupportedVersionError) Unwrap() error { return protocol.UnsupportedVersion }

// Fatal reports that no retry helps, neither by the client nor by its user.
func (e *UnsupportedVersionError) Fatal() bool { return true }

// AuthenticationError says that a broker refused our credentials, or that we refused the broker's:
// TLS and SASL failures that a retry will not cure. The connection is tried again after a back-off all
// the same, since credentials can be changed on the broker's side.
type AuthenticationError struct {
	Node protocol.Node
	// Mechanism is "TLS", or the name of the SASL mechanism.
	Mechanism string
	// Code is the broker's, or None where there is none.
	Code protocol.ErrorCode
	// Message is what the broker said, if it said anything.
	Message string
	// Err is the underlying error, or nil.
	Err error
}

func (e *AuthenticationError) Error() string {
	s := fmt.Sprintf("authentication with node %v failed (%s)", e.Node, e.Mechanism)
	if e.Code != protocol.None {
		s += ": " + e.Code.Error()
	}
	if e.Message != "" {
		s += ": " + e.Message
	}
	if e.Err != nil {
		s += ": " + e.Err.Error()
	}
	return s
}

// Unwrap returns the underlying error and the broker's code, where there are any.
func (e *AuthenticationError) Unwrap() []error {
	var errs []error
	if e.Err != nil {
		errs = append(errs, e.Err)
	}
	if e.Code != protocol.None {
		errs = append(errs, e.Code)
	}
	return errs
}
