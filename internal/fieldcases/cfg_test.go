package fieldcases

import (
	"log/slog"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/kafka-reservoir/producer"
	"github.com/kafka-reservoir/producer/internal/testbroker"
	"github.com/kafka-reservoir/producer/protocol"
)

// Configurations that surprise.

// FC-131: only a delivery timeout that was left to its default is raised for a long linger, and the log says so, once, and to
// what. (What is refused is TestFC131DeliveryTimeout of the root package.)
func TestFC131DefaultIsRaised(t *testing.T) {
	play(t, testbroker.Config{}, func(w *world) {
		p := w.producer(func(c *producer.Config) {
			c.Linger, c.RequestTimeout, c.DeliveryTimeout = 5*time.Minute, time.Minute, 0
		})
		lines := w.logged(slog.LevelInfo, "delivery.timeout.ms")
		require.Len(t, lines, 1)
		assert.Contains(t, lines[0], "6m0s")
		s := w.send(p, to(0, "a"))
		time.Sleep(5*time.Minute - time.Millisecond)
		assert.False(t, s.known(), "it lingers for as long as was asked for")
		w.acked(s)
	})
}

// FC-132: the zero Config is the safe one. "None" is told apart from it: by a constant in a Config, by a zero in properties (see
// TestFC132ZerosInProperties), and both reach the wire.
func TestFC132ZeroIsNotNone(t *testing.T) {
	properties := func(more map[string]string) producer.Config {
		more["bootstrap.servers"] = "broker-1:9092"
		c, err := producer.FromProperties(more)
		require.NoError(t, err)
		return c
	}
	for _, tt := range []struct {
		name       string
		config     producer.Config
		acks       int16
		idempotent bool
		lag        time.Duration
	}{
		{"zero Config", producer.Config{}, -1, true, 5 * time.Millisecond},
		{"no properties", properties(map[string]string{}), -1, true, 5 * time.Millisecond},
		{"NoLinger", producer.Config{Linger: producer.NoLinger}, -1, true, 0},
		{"linger.ms=0", properties(map[string]string{"linger.ms": "0"}), -1, true, 0},
		{"AcksNone", producer.Config{Acks: producer.AcksNone}, 0, false, 5 * time.Millisecond},
		{"acks=0", properties(map[string]string{"acks": "0"}), 0, false, 5 * time.Millisecond},
		{"NoRetries", producer.Config{Retries: producer.NoRetries}, -1, false, 5 * time.Millisecond},
		{"retries=0", properties(map[string]string{"retries": "0"}), -1, false, 5 * time.Millisecond},
		{"batch.size=0", properties(map[string]string{"batch.size": "0"}), -1, true, 0}, // each record fills its batch
	} {
		t.Run(tt.name, func(t *testing.T) {
			play(t, testbroker.Config{}, func(w *world) {
				w.mayReorder = !tt.idempotent
				p := w.producer(func(c *producer.Config) {
					dial, log := c.Dial, c.Logger
					*c = tt.config
					c.BootstrapServers, c.Dial, c.Logger = w.Addrs(), dial, log
				})
				w.warm(p, 0)
				began := time.Now()
				w.acked(w.send(p, to(0, "a")))
				assert.Equal(t, tt.lag, time.Since(began))
				for _, r := range w.requests(protocol.KeyProduce) {
					assert.Equal(t, tt.acks, r.Acks)
					assert.Equal(t, tt.idempotent, r.Batches[0].ProducerID >= 0)
				}
				if tt.config.Retries == producer.NoRetries {
					w.Cluster().SetFault(testbroker.Script(protocol.KeyProduce, testbroker.Answer(protocol.NotEnoughReplicas)))
					_, err := w.send(p, to(0, "not again")).wait()
					assert.ErrorIs(t, err, producer.NotEnoughReplicas)
				}
			})
		})
	}
	_, err := producer.FromProperties(map[string]string{"max.in.flight.requests.per.connection": "0"})
	assert.ErrorContains(t, err, "max.in.flight.requests.per.connection")
}
