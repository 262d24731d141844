package producer

import (
	"context"
	"errors"

	"github.com/kafka-reservoir/producer/accumulator"
)

// Callback is told what became of a record: where it went, or why it failed. It runs exactly once, on a
// goroutine of the producer's own, in the order of the records within a partition; only one that Send refuses does not
// wait for the ones before it. It may be slow, block, send
// again and wait for what it sent; while it does, no other callback runs, and once more than BufferMemory of records has
// piled up behind it, a Send from elsewhere waits. Flush and Close wait for callbacks, so inside one they only end with
// their ctx.
//
// After Close, and when very many failures wait for a callback that does not return, Send calls it itself.
//
// When err is not nil, m has the topic, and the partition or -1, and nothing else.
type Callback func(m RecordMetadata, err error)

// errNoRecord is what the zero Future answers.
var errNoRecord = errors.New("the zero Future stands for no record")

// Future is a record's result, now or later (Java's Future<RecordMetadata>). It is a value: copy it freely. One that
// nobody waits for costs nothing.
type Future struct {
	h accumulator.Handle
}

// Wait returns where the record went, or why it failed. It waits while neither is known, at most until ctx
// ends, whose cause it then returns; the record is not affected by that. A batch that somebody waits for does not linger.
func (f Future) Wait(ctx context.Context) (RecordMetadata, error) {
	if !f.h.Valid() {
		return RecordMetadata{Partition: -1, Offset: -1, KeySize: -1, ValueSize: -1}, errNoRecord
	}
	return f.h.Wait(ctx)
}

// Done is closed once Wait would return at once. Each call makes a channel; Wait is cheaper.
func (f Future) Done() <-chan struct{} {
	if !f.h.Valid() {
		ch := make(chan struct{})
		close(ch)
		return ch
	}
	return f.h.Done()
}
