package sender

import (
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/kafka-reservoir/producer/protocol"
)

var (
	// ErrDeliveryTimeout is the cause when the delivery timeout was over before a record was acknowledged.
	ErrDeliveryTimeout = errors.New("delivery timeout")
	// ErrForceClosed is the cause when the producer was closed before a record was acknowledged.
	ErrForceClosed = errors.New("producer was closed before the record was acknowledged")
	// ErrBatchRefused is the cause for records that were not named among those at fault.
	ErrBatchRefused = errors.New("the batch was refused because of other records in it")
)

// DeliveryError tells what became of a record that was accepted and not acknowledged.
type DeliveryError struct {
	TopicPartition protocol.TopicPartition
	Cause          error         // ErrDeliveryTimeout, ErrForceClosed, ErrBatchRefused, or what the broker answered
	Last           error         // the last answer, or what kept the record from being sent, where Cause is neither; nil: none
	Attempts       int           // how often it was sent
	Age            time.Duration // since its batch was opened
	Queued         time.Duration // of that, until it was last sent; all of it if never
	Written        bool          // an attempt's fate is unknown: the record may be in the log
	Message        string        // the broker's own words, if any
}

// Error tells the story: what, why, how often, where the time went, and whether it may be in the log.
func (e *DeliveryError) Error() string {
	var b strings.Builder
	fmt.Fprintf(&b, "produce %v: %v", e.TopicPartition, e.Cause)
	if e.Message != "" && e.Last == nil {
		fmt.Fprintf(&b, " (%s)", e.Message)
	}
	fmt.Fprintf(&b, " after %v", e.Age.Round(time.Millisecond))
	switch e.Attempts {
	case 0:
		if !e.Written {
			b.WriteString(", never sent")
		} else {
			b.WriteString(", not sent again since its batch was split")
		}
	case 1:
		fmt.Fprintf(&b, ", 1 attempt, queued %v", e.Queued.Round(time.Millisecond))
	default:
		fmt.Fprintf(&b, ", %d attempts, last queued until %v", e.Attempts, e.Queued.Round(time.Millisecond))
	}
	if e.Last != nil {
		fmt.Fprintf(&b, ", last: %v", e.Last)
		if e.Message != "" {
			fmt.Fprintf(&b, " (%s)", e.Message)
		}
	}
	if e.Written {
		b.WriteString("; it may have been written")
	}
	if what := e.advice(); what != "" {
		b.WriteString(": " + what)
	}
	return b.String()
}

// advice is what can be done.
func (e *DeliveryError) advice() string {
	what := protocol.Advice(errors.Join(e.Unwrap()...))
	switch {
	case what != "":
	case errors.Is(e.Cause, ErrForceClosed):
		what = "give Close more time"
	case errors.Is(e.Cause, ErrBatchRefused):
		what = "send it anew"
	case errors.Is(e.Cause, ErrDeliveryTimeout) && e.Last != nil:
		what = "look at the broker, and at the way to it"
	case errors.Is(e.Cause, ErrDeliveryTimeout) && !e.Written:
		what = "it was not its turn in that time: send less, look at the brokers, or raise DeliveryTimeout (delivery.timeout.ms)"
	case errors.Is(e.Cause, ErrDeliveryTimeout):
		what = "look at the brokers"
	}
	if e.Written && what != "" {
		return what + "; sent anew it can be there twice"
	}
	return what
}

// Unwrap returns the cause and the last answer, for errors.Is and errors.As.
func (e *DeliveryError) Unwrap() []error {
	if e.Last != nil {
		return []error{e.Cause, e.Last}
	}
	return []error{e.Cause}
}

// MayHaveBeenWritten reports whether the record can be in the log nevertheless.
func (e *DeliveryError) MayHaveBeenWritten() bool { return e.Written }

// Retriable reports whether the same record may succeed when it is sent anew.
func (e *DeliveryError) Retriable() bool {
	if errors.Is(e.Cause, ErrDeliveryTimeout) || errors.Is(e.Cause, ErrBatchRefused) {
		return true
	}
	var code protocol.ErrorCode
	if errors.As(e.Cause, &code) {
		return code.Retriable()
	}
	var r interface{ Retriable() bool }
	return errors.As(e.Cause, &r) && r.Retriable()
}
