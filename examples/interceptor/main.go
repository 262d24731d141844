// Interceptor gives every record a header with a trace id, and hears of the result in the same context: what a tracing
// library needs to make a span of a send.
//
//	go run ./examples/interceptor
//	go run ./examples/interceptor -brokers localhost:9092
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

// tracer numbers records. Its methods are called from many goroutines at once.
type tracer struct {
	w    io.Writer
	last atomic.Int64
}

// span is what tracer puts into the context of a record.
type span struct{ id string }

type spanKey struct{}

// OnSend begins a span, tells the consumer of it by a header, and takes it along in the context.
func (t *tracer) OnSend(ctx context.Context, r *producer.Record[string, string]) context.Context {
	s := span{id: fmt.Sprintf("trace-%d", t.last.Add(1))}
	r.Headers = append(r.Headers, producer.Header{Key: "trace-id", Value: []byte(s.id)})
	return context.WithValue(ctx, spanKey{}, s)
}

// OnAcknowledgement ends the span, whether the record arrived or not.
func (t *tracer) OnAcknowledgement(ctx context.Context, m producer.RecordMetadata, err error) {
	s := ctx.Value(spanKey{}).(span)
	if err != nil {
		fmt.Fprintf(t.w, "%s: failed: %v\n", s.id, err)
		return
	}
	fmt.Fprintf(t.w, "%s: %v\n", s.id, m)
}

func main() {
	if err := run(context.Background(), os.Stdout, os.Args[1:]); err != nil && !errors.Is(err, flag.ErrHelp) {
		fmt.Fprintln(os.Stderr, "interceptor:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, w io.Writer, args []string) (err error) {
	flags := flag.NewFlagSet("interceptor", flag.ContinueOnError)
	flags.SetOutput(w)
	brokers := flags.String("brokers", "", "host:port,… of a Kafka cluster (default: an embedded one)")
	topic := flags.String("topic", "interceptor", "topic to produce to")
	if err := flags.Parse(args); err != nil {
		return err
	}
	addrs, stop, err := broker.Addrs(*brokers)
	if err != nil {
		return err
	}
	defer stop()

	p, err := producer.New(producer.Config{BootstrapServers: addrs}, producer.String(), producer.String(), &tracer{w: w})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, p.Close(ctx)) }()

	for i := range 3 {
		p.SendFunc(ctx, producer.Record[string, string]{Topic: *topic, Key: "a", Value: fmt.Sprint(i)}, nil)
	}
	// A record that is never accepted has its acknowledgement too.
	p.SendFunc(ctx, producer.Record[string, string]{Topic: *topic, Key: "a", Value: string(make([]byte, 2<<20))}, nil)
	return p.Flush(ctx)
}
