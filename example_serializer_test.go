package producer_test

import (
	"context"
	"fmt"
	"log"
	"strconv"

	"github.com/kafka-reservoir/producer"
)

// How do I send a type of my own as JSON, with keys that I make a function for?
func ExampleSerializerFunc() {
	addrs, stop := cluster()
	defer stop()
	ctx := context.Background()

	type order struct {
		Item  string
		Cents int
	}
	key := producer.SerializerFunc[int](func(n int) ([]byte, error) { return strconv.AppendInt(nil, int64(n), 10), nil })
	p, err := producer.New(producer.Config{BootstrapServers: addrs}, key, producer.JSON[order]())
	if err != nil {
		log.Fatal(err)
	}
	defer p.Close(ctx)
	m, err := p.Send(ctx, producer.Record[int, order]{Topic: "orders", Key: 42, Value: order{"bell", 1250}}).Wait(ctx)
	fmt.Println(m.KeySize, m.ValueSize, err)
	// Output: 2 28 <nil>
}
