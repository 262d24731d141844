// Quickstart produces records as fast as it can and shows where they went.
//
//	go run ./examples/quickstart
//	go run ./examples/quickstart -brokers localhost:9092 -records 1000000
//
// Without -brokers it starts a small cluster in its own process, which checks and keeps every record but is not Kafka.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"time"

	"github.com/kafka-reservoir/producer"
	"github.com/kafka-reservoir/producer/examples/internal/broker"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := run(ctx, os.Stdout, os.Args[1:]); err != nil && !errors.Is(err, flag.ErrHelp) {
		fmt.Fprintln(os.Stderr, "quickstart:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, w io.Writer, args []string) error {
	flags := flag.NewFlagSet("quickstart", flag.ContinueOnError)
	flags.SetOutput(w)
	brokers := flags.String("brokers", "", "host:port,… of a Kafka cluster (default: an embedded one)")
	topic := flags.String("topic", "quickstart", "topic to produce to")
	records := flags.Int("records", 500_000, "how many records to produce")
	if err := flags.Parse(args); err != nil {
		return err
	}
	if *records < 1 {
		return fmt.Errorf("-records must be at least 1, is %d", *records)
	}

	addrs, stop, err := broker.Addrs(*brokers)
	if err != nil {
		return err
	}
	defer stop()
	fmt.Fprintf(w, "producing %s records to topic %s at %v\n\n", thousands(*records), *topic, addrs)

	// Everything but the addresses is a default: acks=all, idempotent, 5 ms of linger, 32 MiB of memory.
	p, err := producer.New(producer.Config{
		BootstrapServers: addrs,
	}, producer.String(), producer.Bytes())
	if err != nil {
		return err
	}

	results := newTally()
	begin := time.Now()
	var value []byte
	for i := range *records {
		// SendFunc copies key and value before it returns, so that one buffer does for all.
		value = fmt.Appendf(value[:0], "record %d, an order of some hundred bytes that a customer has placed and wants to see delivered", i)
		p.SendFunc(ctx, producer.Record[string, []byte]{
			Topic: *topic,
			Key:   fmt.Sprintf("customer-%d", i%1000), // records of one customer keep their order
			Value: value,
		}, results.add)
		if step := max(*records/10, 1); (i+1)%step == 0 {
			acked, failed := results.counts()
			fmt.Fprintf(w, "%6.2fs  sent %s  acknowledged %s  failed %s\n",
				time.Since(begin).Seconds(), thousands(i+1), thousands(acked), thousands(failed))
		}
	}
	// Flush returns when every record has its result and every callback has run.
	if err := p.Flush(ctx); err != nil {
		return errors.Join(fmt.Errorf("flush: %w", err), p.Close(ctx))
	}
	took := time.Since(begin)
	if err := p.Close(ctx); err != nil {
		return fmt.Errorf("close: %w", err)
	}
	results.print(w, took)
	return results.firstError()
}
