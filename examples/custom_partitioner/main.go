// Custom_partitioner keeps a partition free for the customers that matter most.
//
//	go run ./examples/custom_partitioner
//	go run ./examples/custom_partitioner -brokers localhost:9092
package main

import (
	"bytes"
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"

	"github.com/kafka-reservoir/producer"
	"github.com/kafka-reservoir/producer/examples/internal/broker"
	"github.com/kafka-reservoir/producer/partitioner"
)

// vip sends records whose key begins with vip/ to partition 0, and all others to the rest by the hash of their key.
// It is called from many goroutines at once, and keeps nothing.
type vip struct{}

var prefix = []byte("vip/")

// Partition implements partitioner.Partitioner.
func (vip) Partition(_ string, key, _ []byte, p partitioner.Partitions) int32 {
	switch n := int32(p.Count()); {
	case bytes.HasPrefix(key, prefix) || n == 1:
		return 0
	case key == nil:
		return partitioner.Any // where the producer finds it best
	default:
		return 1 + (partitioner.Murmur2(key)&0x7fffffff)%(n-1)
	}
}

func main() {
	if err := run(context.Background(), os.Stdout, os.Args[1:]); err != nil && !errors.Is(err, flag.ErrHelp) {
		fmt.Fprintln(os.Stderr, "custom_partitioner:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, w io.Writer, args []string) (err error) {
	flags := flag.NewFlagSet("custom_partitioner", flag.ContinueOnError)
	flags.SetOutput(w)
	brokers := flags.String("brokers", "", "host:port,… of a Kafka cluster (default: an embedded one)")
	topic := flags.String("topic", "custom_partitioner", "topic to produce to; it should have several partitions")
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
		Partitioner:      vip{},
	}, producer.String(), producer.String())
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, p.Close(ctx)) }()

	infos, err := p.PartitionsFor(ctx, *topic)
	if err != nil {
		return err
	}
	fmt.Fprintf(w, "topic %s has %d partitions\n", *topic, len(infos))
	for _, key := range []string{"vip/alice", "bob", "carol", "vip/dave", "erin"} {
		m, err := p.Send(ctx, producer.Record[string, string]{Topic: *topic, Key: key, Value: "hello"}).Wait(ctx)
		if err != nil {
			return err
		}
		fmt.Fprintf(w, "%-9s -> partition %d\n", key, m.Partition)
	}
	// A partition named in the record is the last word; the partitioner is not asked.
	m, err := p.Send(ctx, producer.Record[string, string]{
		Topic: *topic, Key: "vip/zoe", Value: "hello", Partition: producer.OnPartition(int32(len(infos) - 1)),
	}).Wait(ctx)
	if err != nil {
		return err
	}
	fmt.Fprintf(w, "%-9s -> partition %d, as asked for\n", "vip/zoe", m.Partition)
	return nil
}
