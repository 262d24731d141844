// Sync_wait sends records one after the other and waits for each: the simplest way, where order across partitions or
// an answer to somebody waiting matters more than throughput.
//
//	go run ./examples/sync_wait
//	go run ./examples/sync_wait -brokers localhost:9092
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"time"

	"github.com/kafka-reservoir/producer"
	"github.com/kafka-reservoir/producer/examples/internal/broker"
)

func main() {
	if err := run(context.Background(), os.Stdout, os.Args[1:]); err != nil && !errors.Is(err, flag.ErrHelp) {
		fmt.Fprintln(os.Stderr, "sync_wait:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, w io.Writer, args []string) (err error) {
	flags := flag.NewFlagSet("sync_wait", flag.ContinueOnError)
	flags.SetOutput(w)
	brokers := flags.String("brokers", "", "host:port,… of a Kafka cluster (default: an embedded one)")
	topic := flags.String("topic", "sync_wait", "topic to produce to")
	if err := flags.Parse(args); err != nil {
		return err
	}
	addrs, stop, err := broker.Addrs(*brokers)
	if err != nil {
		return err
	}
	defer stop()

	p, err := producer.New(producer.Config{BootstrapServers: addrs}, producer.String(), producer.String())
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, p.Close(ctx)) }()

	// One at a time. A batch that somebody waits for does not linger, so this costs a round trip each.
	for i := range 5 {
		m, err := p.Send(ctx, producer.Record[string, string]{
			Topic: *topic, Key: "42", Value: fmt.Sprintf("step %d", i),
		}).Wait(ctx)
		if err != nil {
			return fmt.Errorf("step %d: %w", i, err)
		}
		fmt.Fprintf(w, "step %d is at offset %d\n", i, m.Offset)
	}

	// Several at once, then wait for all: the records share requests, and none is waited for twice.
	futures := make([]producer.Future, 5)
	for i := range futures {
		futures[i] = p.Send(ctx, producer.Record[string, string]{
			Topic: *topic, Partition: producer.OnPartition(0), Value: fmt.Sprintf("part %d", i),
		})
	}
	for i, f := range futures {
		m, err := f.Wait(ctx)
		if err != nil {
			return fmt.Errorf("part %d: %w", i, err)
		}
		fmt.Fprintf(w, "part %d is in partition %d\n", i, m.Partition)
	}

	// Giving up the wait does not take the record back: it is still sent, or fails, by itself.
	short, cancel := context.WithTimeout(ctx, time.Nanosecond)
	defer cancel()
	f := p.Send(ctx, producer.Record[string, string]{Topic: *topic, Key: "42", Value: "no hurry"})
	if _, err := f.Wait(short); errors.Is(err, context.DeadlineExceeded) {
		fmt.Fprintln(w, "did not wait for it")
	}
	if _, err := f.Wait(ctx); err != nil {
		return err
	}
	fmt.Fprintln(w, "it arrived all the same")
	return nil
}
