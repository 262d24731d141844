package sender_test

import (
	"context"
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/kafka-reservoir/producer/sender"
)

// rounds are rounds of a loopback, each one request of so many batches of one record.
func rounds(b *testing.B, batches int) *loopback {
	l := newLoopback(b, batches, 100)
	for range 100 { // what is pooled, and the metrics' samples
		l.round(b)
	}
	l.timed = true
	l.building, l.answering = 0, 0
	b.ReportAllocs()
	for b.Loop() {
		l.round(b)
	}
	return l
}

// BenchmarkRequest is the sender's way from a look at what is ready to a request that is handed to the network client: idempotence, headers
// and CRCs, grouping by topic and metrics included. ns/op leaves out the appends in between and the answers; B/op and allocs/op do not.
func BenchmarkRequest(b *testing.B) {
	for _, batches := range []int{1, 12, 1000} {
		b.Run(fmt.Sprintf("batches=%d", batches), func(b *testing.B) {
			l := rounds(b, batches)
			b.ReportMetric(float64(l.building)/float64(b.N), "ns/op")
		})
	}
}

// BenchmarkResponse is the sender's work on the answer to that: it is decoded, held against the request, and the batches are settled, their
// memory is given back and their callbacks are queued.
func BenchmarkResponse(b *testing.B) {
	for _, batches := range []int{1, 12, 1000} {
		b.Run(fmt.Sprintf("batches=%d", batches), func(b *testing.B) {
			l := rounds(b, batches)
			b.ReportMetric(float64(l.answering)/float64(b.N), "ns/op")
		})
	}
}

// ran is a task that weighs what a batch does.
type ran int

func (r *ran) Run()         { *r++ }
func (r *ran) RawSize() int { return 16 << 10 }

// BenchmarkDispatcher queues a batch and runs it: in the same goroutine, or in the callback goroutine, which is waited for after each 64.
// What a batch's callbacks cost is BenchmarkRun in accumulator.
func BenchmarkDispatcher(b *testing.B) {
	b.Run("goroutines=1", func(b *testing.B) {
		d, t := sender.NewSteppedDispatcher(32<<20, func() {}), new(ran)
		b.ReportAllocs()
		for b.Loop() {
			d.Enqueue(t)
			for d.Step() {
			}
		}
	})
	b.Run("goroutines=2", func(b *testing.B) {
		d, t := sender.NewDispatcher(32<<20), new(ran)
		n := 0
		b.ReportAllocs()
		for b.Loop() {
			d.Enqueue(t)
			if n++; n%64 == 0 {
				require.NoError(b, d.Await(context.Background()))
			}
		}
		d.Close()
		<-d.Done()
	})
}
