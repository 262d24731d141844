// Custom_serializer sends values of a type of its own: once in a compact binary form that allocates nothing, once with
// a function that returns bytes.
//
//	go run ./examples/custom_serializer
//	go run ./examples/custom_serializer -brokers localhost:9092
package main

import (
	"context"
	"encoding/binary"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"

	"github.com/kafka-reservoir/producer"
	"github.com/kafka-reservoir/producer/examples/internal/broker"
)

// order is what this program is about.
type order struct {
	Customer int64
	Item     string
	Cents    uint32
}

// orderSerializer writes an order as 8 bytes, 4 bytes, and the rest.
type orderSerializer struct{}

var errNoItem = errors.New("an order needs an item")

// contentType is shared by all records: the producer copies it into each.
var contentType = producer.Header{Key: "content-type", Value: []byte("application/x-order")}

// Serialize appends to dst, which has room, so that nothing is allocated; and says in a header what it did.
func (orderSerializer) Serialize(dst []byte, _ string, h *[]producer.Header, o order) ([]byte, error) {
	if o.Item == "" {
		return nil, errNoItem
	}
	*h = append(*h, contentType)
	dst = binary.BigEndian.AppendUint64(dst, uint64(o.Customer))
	dst = binary.BigEndian.AppendUint32(dst, o.Cents)
	return append(dst, o.Item...), nil
}

// customerKey needs no type of its own.
var customerKey = producer.SerializerFunc[int64](func(id int64) ([]byte, error) {
	return fmt.Appendf(nil, "customer/%d", id), nil
})

func main() {
	if err := run(context.Background(), os.Stdout, os.Args[1:]); err != nil && !errors.Is(err, flag.ErrHelp) {
		fmt.Fprintln(os.Stderr, "custom_serializer:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, w io.Writer, args []string) (err error) {
	flags := flag.NewFlagSet("custom_serializer", flag.ContinueOnError)
	flags.SetOutput(w)
	brokers := flags.String("brokers", "", "host:port,… of a Kafka cluster (default: an embedded one)")
	topic := flags.String("topic", "custom_serializer", "topic to produce to")
	if err := flags.Parse(args); err != nil {
		return err
	}
	addrs, stop, err := broker.Addrs(*brokers)
	if err != nil {
		return err
	}
	defer stop()

	// The type parameters follow from the serializers: this is a *KafkaProducer[int64, order].
	p, err := producer.New(producer.Config{BootstrapServers: addrs}, customerKey, orderSerializer{})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, p.Close(ctx)) }()

	for _, o := range []order{{42, "bicycle", 49_900}, {43, "bell", 1_250}, {44, "", 0}} {
		m, err := p.Send(ctx, producer.Record[int64, order]{Topic: *topic, Key: o.Customer, Value: o}).Wait(ctx)
		var bad *producer.SerializationError
		if errors.As(err, &bad) {
			fmt.Fprintf(w, "order of customer %d: not sent, its %s: %v\n", o.Customer, bad.Part, bad.Err)
			continue
		}
		if err != nil {
			return err
		}
		fmt.Fprintf(w, "order of customer %d: key of %d bytes, value of %d bytes\n", o.Customer, m.KeySize, m.ValueSize)
	}
	return nil
}
