package producer_test

import (
	"context"
	"fmt"
	"time"

	"github.com/kafka-reservoir/producer"
)

// What do I do about a record that failed?
func ExampleMayHaveBeenWritten() {
	ctx := context.Background()
	p, err := producer.New(producer.Config{
		BootstrapServers: []string{"127.0.0.1:1"}, // nobody is there
		MaxBlock:         50 * time.Millisecond,
	}, producer.String(), producer.String())
	if err != nil {
		fmt.Println(err)
		return
	}
	defer p.Close(ctx)

	_, err = p.Send(ctx, producer.Record[string, string]{Topic: "orders", Key: "42", Value: "a bicycle"}).Wait(ctx)
	switch {
	case err == nil:
		fmt.Println("written")
	case producer.IsFatal(err):
		fmt.Println("this producer is finished")
	case producer.MayHaveBeenWritten(err):
		fmt.Println("sending it again may make two of it")
	case producer.IsRetriable(err):
		fmt.Println("it is safe to send it again, later")
	default:
		fmt.Println("it will never be accepted")
	}
	// Output: it is safe to send it again, later
}
