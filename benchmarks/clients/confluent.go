//go:build cgo

package clients

import (
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/confluentinc/confluent-kafka-go/v2/kafka"

	"github.com/kafka-reservoir/producer/benchmarks/workload"
)

// confluentClients is empty in a build without cgo.
var confluentClients = []Client{{"confluent", "github.com/confluentinc/confluent-kafka-go/v2", openConfluent}}

type confluent struct {
	p     *kafka.Producer
	to    kafka.TopicPartition
	d     *Deliveries
	reply []chan kafka.Event // one for each goroutine of SendWait

	events sync.WaitGroup // ends when the producer closes
}

// openConfluent: delivery reports without the fields that nobody reads here, limits in bytes instead of records, and Java's
// hash for keys. Produce refuses records while the queue is full, so that Send here tries again after a millisecond.
func openConfluent(j Job) (Producer, error) {
	cfg := kafka.ConfigMap{
		"bootstrap.servers":                     strings.Join(j.Brokers, ","),
		"acks":                                  j.Acks,
		"enable.idempotence":                    j.Idempotent(),
		"max.in.flight.requests.per.connection": workload.MaxInFlight,
		"compression.type":                      j.Codec,
		"queue.buffering.max.kbytes":            workload.BufferMemory >> 10,
		"queue.buffering.max.messages":          1_000_000,
		"go.delivery.report.fields":             "none",
	}
	if !j.OwnDefaults() {
		cfg["linger.ms"] = fmt.Sprint(j.Linger.Seconds() * 1000)
		cfg["batch.size"] = j.Batch
		cfg["batch.num.messages"] = 1_000_000
	}
	if j.Batch >= 1<<20 {
		cfg["message.max.bytes"] = j.Batch + 64<<10
	}
	if j.Keyed {
		cfg["partitioner"] = "murmur2_random"
	}
	p, err := kafka.NewProducer(&cfg)
	if err != nil {
		return nil, err
	}
	c := &confluent{p: p, d: j.Deliveries, to: kafka.TopicPartition{Topic: &j.Topic, Partition: kafka.PartitionAny}}
	for range j.Goroutines {
		c.reply = append(c.reply, make(chan kafka.Event, 1))
	}
	c.events.Go(func() {
		for e := range p.Events() {
			m, ok := e.(*kafka.Message)
			switch {
			case !ok:
			case m.TopicPartition.Error != nil:
				c.d.Fail(slotIn(m.Opaque), m.TopicPartition.Error)
			default:
				c.d.Ack(slotIn(m.Opaque))
			}
		}
	})
	return c, nil
}

func (c *confluent) Send(key, value []byte, slot Slot) {
	m := kafka.Message{TopicPartition: c.to, Key: key, Value: value}
	if slot != Unmeasured {
		m.Opaque = slotField(slot)
	}
	for {
		err := c.p.Produce(&m, nil)
		if err == nil {
			return
		}
		if full, ok := errors.AsType[kafka.Error](err); !ok || full.Code() != kafka.ErrQueueFull {
			c.d.Fail(slot, err)
			return
		}
		time.Sleep(time.Millisecond)
	}
}

func (c *confluent) SendWait(goroutine int, key, value []byte) error {
	reply := c.reply[goroutine]
	if err := c.p.Produce(&kafka.Message{TopicPartition: c.to, Key: key, Value: value}, reply); err != nil {
		return err
	}
	return (<-reply).(*kafka.Message).TopicPartition.Error
}

func (c *confluent) Flush() error {
	if left := c.p.Flush(int(closeTimeout.Milliseconds())); left > 0 {
		return fmt.Errorf("flush: %d records are left after %v", left, closeTimeout)
	}
	return nil
}

func (c *confluent) Close() error {
	c.p.Close()
	c.events.Wait()
	return nil
}
