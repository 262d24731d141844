// Async_callback sends records without waiting and is told of each result by a callback, good or bad.
//
//	go run ./examples/async_callback
//	go run ./examples/async_callback -brokers localhost:9092
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"sync/atomic"

	"github.com/kafka-reservoir/producer"
	"github.com/kafka-reservoir/producer/examples/internal/broker"
)

func main() {
	if err := run(context.Background(), os.Stdout, os.Args[1:]); err != nil && !errors.Is(err, flag.ErrHelp) {
		fmt.Fprintln(os.Stderr, "async_callback:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, w io.Writer, args []string) (err error) {
	flags := flag.NewFlagSet("async_callback", flag.ContinueOnError)
	flags.SetOutput(w)
	brokers := flags.String("brokers", "", "host:port,… of a Kafka cluster (default: an embedded one)")
	topic := flags.String("topic", "async_callback", "topic to produce to")
	records := flags.Int("records", 10_000, "how many records to produce")
	if err := flags.Parse(args); err != nil {
		return err
	}
	addrs, stop, err := broker.Addrs(*brokers)
	if err != nil {
		return err
	}
	defer stop()

	p, err := producer.New(producer.Config{
		BootstrapServers: addrs,
		MaxRequestSize:   100 << 10, // to have something to refuse below
	}, producer.String(), producer.String())
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, p.Close(ctx)) }()

	// Callbacks run on one goroutine of the producer's, in order within a partition. They may be slow: sending goes
	// on meanwhile, until much has piled up. One function for all records costs no allocation.
	var acked, failed atomic.Int64
	done := func(m producer.RecordMetadata, err error) {
		if err == nil {
			acked.Add(1)
			return
		}
		failed.Add(1)
		fmt.Fprintf(w, "failed: %v\n  worth another try: %v, may be in the log: %v\n",
			err, producer.IsRetriable(err), producer.MayHaveBeenWritten(err))
	}
	for i := range *records {
		p.SendFunc(ctx, producer.Record[string, string]{
			Topic: *topic, Key: fmt.Sprint("sensor-", i%10), Value: fmt.Sprint("reading ", i),
		}, done)
	}

	// SendFunc returns no error: the callback hears of this one as well.
	p.SendFunc(ctx, producer.Record[string, string]{Topic: *topic, Value: string(make([]byte, 200<<10))}, done)

	// A callback may send again, say to a topic for what comes next.
	p.SendFunc(ctx, producer.Record[string, string]{Topic: *topic, Key: "first", Value: "1"},
		func(m producer.RecordMetadata, err error) {
			if err == nil {
				p.SendFunc(ctx, producer.Record[string, string]{Topic: *topic, Key: "second", Value: m.String()}, done)
			}
		})

	// Close waits for everything that was accepted; Flush does so in between, and does not cover what callbacks send.
	if err := p.Flush(ctx); err != nil {
		return err
	}
	if err := p.Close(ctx); err != nil {
		return err
	}
	fmt.Fprintf(w, "%d acknowledged, %d failed\n", acked.Load(), failed.Load())
	return nil
}
