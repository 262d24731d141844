// Package clients has one adapter for each client that is compared: it opens a producer with the settings of a workload,
// and tells deliveries to the one who measures. Each adapter's comments say what is set, and why.
package clients

import (
	"runtime/debug"
	"time"

	"github.com/kafka-reservoir/producer/benchmarks/workload"
)

// Producer is a client under measurement.
type Producer interface {
	// Send hands over one record and returns; it waits only where the client itself would. The delivery is told to
	// Job.Deliveries, under slot, exactly once. key may be nil. Neither key nor value changes ever again.
	Send(key, value []byte, slot Slot)
	// SendWait sends one record and returns when it is acknowledged. goroutine counts from 0, and no two calls with the
	// same one run at a time. Deliveries learns nothing of it.
	SendWait(goroutine int, key, value []byte) error
	// Flush hurries what is buffered, where the client can; it need not wait for it.
	Flush() error
	Close() error
}

// Job is what an adapter needs to know.
type Job struct {
	workload.Workload
	Brokers    []string
	Topic      string
	Deliveries *Deliveries
}

// Client is one entry of the list of clients.
type Client struct {
	Name   string
	Module string // to look its version up
	Open   func(Job) (Producer, error)
}

// Reservoir is the name of this project's library, and None that of no client at all, which shows what the harness costs.
const (
	Reservoir = "reservoir"
	None      = "none"
)

// All are the clients of this program, in the order in which reports have them.
func All() []Client {
	return append([]Client{
		{Reservoir, "github.com/kafka-reservoir/producer", openReservoir},
		{"franz-go", "github.com/twmb/franz-go", openFranz},
		{"sarama", "github.com/IBM/sarama", openSarama},
		{"kafka-go", "github.com/segmentio/kafka-go", openKafkaGo},
	}, confluentClients...)
}

// Find is the client of that name, None included.
func Find(name string) (Client, bool) {
	for _, c := range append(All(), Client{None, "", openNone}) {
		if c.Name == name {
			return c, true
		}
	}
	return Client{}, false
}

// Version is the module's version that this program was built with.
func (c Client) Version() string {
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return ""
	}
	for _, m := range info.Deps {
		if m.Path == c.Module {
			return m.Version
		}
	}
	return ""
}

// none acknowledges by itself.
type none struct{ d *Deliveries }

func openNone(j Job) (Producer, error) { return none{j.Deliveries}, nil }

func (n none) Send(_, _ []byte, slot Slot)        { n.d.Ack(slot) }
func (n none) SendWait(int, []byte, []byte) error { return nil }
func (n none) Flush() error                       { return nil }
func (n none) Close() error                       { return nil }

const closeTimeout = 10 * time.Second
