package producer_test

import (
	"context"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/kafka-reservoir/producer"
	"github.com/kafka-reservoir/producer/internal/testbroker"
)

// Callers and readers run the sender's iterations while it sleeps, and whoever finds the place taken only leaves word. None of that may be lost: the records
// of a round would then wait for a request timeout. (Found so: an answer that came between an assistant's look and its work.)
func TestAssistantsLoseNothing(t *testing.T) {
	server, err := testbroker.Start(testbroker.Config{Nodes: 3, Partitions: 12, Topics: []testbroker.Topic{{Name: "t"}}, JournalLimit: -1})
	require.NoError(t, err)
	defer server.Close()
	sockets := producer.Config{BootstrapServers: server.Addrs()}
	for _, tt := range []struct {
		name   string
		cfg    producer.Config
		linger time.Duration
		rounds int
	}{
		{"readers, no linger", toSink(t, 12), producer.NoLinger, 1_000},
		{"readers, linger", toSink(t, 12), 0, 1_000},
		{"callers and readers, no linger", sockets, producer.NoLinger, 300},
		{"callers and readers, linger", sockets, 0, 300},
	} {
		t.Run(tt.name, func(t *testing.T) {
			cfg := tt.cfg
			cfg.Linger = tt.linger
			p, err := producer.New(cfg, producer.Null(), producer.Bytes())
			require.NoError(t, err)
			ctx, cancel := context.WithTimeout(t.Context(), 25*time.Second) // before the request timeout
			defer cancel()
			value := make([]byte, 5_000)
			for range tt.rounds {
				for i := range 20 {
					p.SendFunc(ctx, producer.Record[struct{}, []byte]{Topic: "t", Value: value[:i*250]}, nil)
				}
				require.NoError(t, p.Flush(ctx))
			}
			require.NoError(t, p.Close(ctx))
		})
	}
}

// A hook may need what the caller of Send holds: it runs on a goroutine of the producer's own.
func TestHooksRunOnOtherGoroutines(t *testing.T) {
	server, err := testbroker.Start(testbroker.Config{Nodes: 1, Partitions: 1, Topics: []testbroker.Topic{{Name: "t"}}})
	require.NoError(t, err)
	defer server.Close()
	var mu sync.Mutex
	done := 0
	p, err := producer.New(producer.Config{
		BootstrapServers: server.Addrs(), Linger: producer.NoLinger,
		Trace: &producer.Trace{BatchDone: func(string, int32, int, int, int, int64, time.Duration, error) {
			mu.Lock()
			defer mu.Unlock()
			done++
		}},
	}, producer.Null(), producer.Bytes())
	require.NoError(t, err)
	for range 300 {
		mu.Lock()
		p.SendFunc(t.Context(), producer.Record[struct{}, []byte]{Topic: "t"}, nil)
		mu.Unlock()
	}
	require.NoError(t, p.Close(t.Context()))
	require.Positive(t, done)
}
