package producer_test

import (
	"context"
	"fmt"
	"log"

	"github.com/kafka-reservoir/producer"
	"github.com/kafka-reservoir/producer/internal/testbroker"
)

// cluster stands in for a Kafka cluster; a program has addresses instead.
func cluster() (addrs []string, stop func()) {
	s, err := testbroker.Start(testbroker.Config{})
	if err != nil {
		log.Fatal(err)
	}
	return s.Addrs(), func() { _ = s.Close() }
}

// How do I send a record and wait until it is written?
func ExampleKafkaProducer_Send() {
	addrs, stop := cluster()
	defer stop()
	ctx := context.Background()

	p, err := producer.New(producer.Config{BootstrapServers: addrs}, producer.String(), producer.Bytes())
	if err != nil {
		log.Fatal(err)
	}
	defer p.Close(ctx)

	m, err := p.Send(ctx, producer.Record[string, []byte]{Topic: "orders", Key: "42", Value: []byte("a bicycle")}).Wait(ctx)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(m)
	// Output: orders-0@0
}

// How do I send many records and hear of each without waiting?
func ExampleKafkaProducer_SendFunc() {
	addrs, stop := cluster()
	defer stop()
	ctx := context.Background()

	p, err := producer.New(producer.Config{BootstrapServers: addrs}, producer.String(), producer.String())
	if err != nil {
		log.Fatal(err)
	}
	for i := range 3 {
		p.SendFunc(ctx, producer.Record[string, string]{Topic: "orders", Key: "42", Value: fmt.Sprint("item ", i)},
			func(m producer.RecordMetadata, err error) {
				if err != nil {
					fmt.Println("lost:", err)
					return
				}
				fmt.Println("offset", m.Offset)
			})
	}
	// Close waits until all results are there and all callbacks have run.
	if err := p.Close(ctx); err != nil {
		log.Fatal(err)
	}
	// Output:
	// offset 0
	// offset 1
	// offset 2
}

// How do I send a tombstone, a header, or to a partition of my choice?
func ExampleRecord() {
	addrs, stop := cluster()
	defer stop()
	ctx := context.Background()

	p, err := producer.New(producer.Config{BootstrapServers: addrs}, producer.String(), producer.Bytes())
	if err != nil {
		log.Fatal(err)
	}
	defer p.Close(ctx)
	m, err := p.Send(ctx, producer.Record[string, []byte]{
		Topic:     "orders",
		Partition: producer.OnPartition(0), // the zero Partition leaves it to the partitioner
		Key:       "42",
		Value:     nil, // a null; []byte{} would be an empty value
		Headers:   []producer.Header{{Key: "reason", Value: []byte("cancelled")}},
	}).Wait(ctx)
	fmt.Println(m.Partition, m.KeySize, m.ValueSize, err)
	// Output: 0 2 -1 <nil>
}
