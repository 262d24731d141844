package producer_test

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/kafka-reservoir/producer"
)

// Callers and readers run the sender's iterations while it sleeps, and whoever finds the place taken only leaves word. None of that may be lost: the records
// of a round would then wait for a request timeout. (Found so: an answer that came between an assistant's look and its work.)
func TestAssistantsLoseNothing(t *testing.T) {
	for name, linger := range map[string]time.Duration{"no linger": producer.NoLinger, "linger": 0} {
		t.Run(name, func(t *testing.T) {
			cfg := toSink(t, 12)
			cfg.Linger = linger
			p, err := producer.New(cfg, producer.Null(), producer.Bytes())
			require.NoError(t, err)
			ctx, cancel := context.WithTimeout(t.Context(), 25*time.Second) // before the request timeout
			defer cancel()
			value := make([]byte, 5_000)
			for range 1_000 {
				for i := range 20 {
					p.SendFunc(ctx, producer.Record[struct{}, []byte]{Topic: "t", Value: value[:i*250]}, nil)
				}
				require.NoError(t, p.Flush(ctx))
			}
			require.NoError(t, p.Close(ctx))
		})
	}
}
