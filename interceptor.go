package producer

import (
	"context"
	"slices"
)

// Interceptor sees every record on its way in and its result on the way out (interceptor.classes).
// Both methods are called from many goroutines at once.
//
// Interceptors are called in the order in which [New] was given them.
type Interceptor[K, V any] interface {
	// OnSend is called by the goroutine that called Send, before the record is serialized. It may change the
	// record: the next interceptor, and the producer, see what it left. Appending to r.Headers is safe; an element
	// that the caller put there must be replaced in a copy of the slice, because the caller still owns it.
	//
	// The ctx it returns is given to the next interceptor's OnSend and comes back in this interceptor's
	// OnAcknowledgement; nil means the one it got. It does not change what bounds Send, which is the caller's ctx.
	//
	// A panic passes through to the caller of Send; the record is then not sent, and nobody is told of it.
	OnSend(ctx context.Context, r *Record[K, V]) context.Context
	// OnAcknowledgement is called once for every record that OnSend saw, before the record's callback and on the same
	// goroutine, also when the record failed before it was accepted. With an err, m has Offset -1, and
	// Partition -1 unless the record named one or had been given one. ctx may have ended by then.
	//
	// A panic is not hidden: it ends the program, as in any other goroutine.
	OnAcknowledgement(ctx context.Context, m RecordMetadata, err error)
}

// interceptors is the chain; it is immutable after New.
type interceptors[K, V any] []Interceptor[K, V]

// onSend runs the chain and returns the ctx that each interceptor wants back, in their order.
func (c interceptors[K, V]) onSend(ctx context.Context, r *Record[K, V]) []context.Context {
	if len(c) == 0 {
		return nil
	}
	// An append must not write into spare room of the caller's slice, which several Sends may share.
	r.Headers = slices.Clip(r.Headers)
	own := make([]context.Context, len(c))
	for i, in := range c {
		if next := in.OnSend(ctx, r); next != nil {
			ctx = next
		}
		r.Headers = slices.Clip(r.Headers)
		own[i] = ctx
	}
	return own
}

// onAcknowledgement tells every interceptor the result. own is what onSend returned.
func (c interceptors[K, V]) onAcknowledgement(own []context.Context, m RecordMetadata, err error) {
	for i, in := range c {
		in.OnAcknowledgement(own[i], m, err)
	}
}

// callback is the chain's acknowledgement followed by the record's own callback, which may be nil.
// Without interceptors it is cb itself, so that the ordinary Send allocates nothing.
func (c interceptors[K, V]) callback(own []context.Context, cb Callback) Callback {
	if len(c) == 0 {
		return cb
	}
	return func(m RecordMetadata, err error) {
		c.onAcknowledgement(own, m, err)
		if cb != nil {
			cb(m, err)
		}
	}
}
