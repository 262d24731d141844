// Package clients lets the checks drive different producers by one interface: the one under test, and
// franz-go's, which shows that the checks themselves find no difference where there is none.
//
// All methods are called from one goroutine, callbacks from the producer's own.
package clients

import (
	"context"
	"fmt"
	"time"

	"github.com/kafka-reservoir/producer/integration/readback"
)

// AnyPartition leaves the choice to the partitioner.
const AnyPartition = -1

// Record is what to send. Nil keys and values are null; a zero Timestamp is now.
type Record struct {
	Topic      string
	Partition  int32
	Key, Value []byte
	Headers    []readback.Header
	Timestamp  time.Time
}

// Ack is the result of one record. Offset is -1 where it is not known.
type Ack struct {
	Partition int32
	Offset    int64
	Timestamp time.Time
	Err       error
}

// Settings is what the checks vary. Acks is all, 1 or 0; producers are idempotent with all and not
// otherwise.
type Settings struct {
	Bootstrap []string
	Acks      string
	Codec     string // none, gzip, snappy, lz4, zstd
	Manual    bool   // every record names its partition
	BatchSize int    // zero means the producer's default
}

// Client is a producer.
type Client interface {
	// Send hands the record over; cb is called once, with its result.
	Send(ctx context.Context, r *Record, cb func(Ack))
	// SendSync sends the record and waits for its result.
	SendSync(ctx context.Context, r *Record) Ack
	// Flush waits until everything sent has its result.
	Flush(ctx context.Context) error
	// Retried counts the records sent again; zero where that is not known.
	Retried() int
	// Close flushes and ends the producer.
	Close(ctx context.Context) error
}

// New makes a producer by name: reservoir or franzgo.
func New(name string, s Settings) (Client, error) {
	switch name {
	case "reservoir":
		return newReservoir(s)
	case "franzgo":
		return newFranzGo(s)
	}
	return nil, fmt.Errorf("producer %q: want reservoir or franzgo", name)
}
