package producer_test

import (
	"context"
	"fmt"
	"io"
	"net"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/kafka-reservoir/producer"
	"github.com/kafka-reservoir/producer/internal/simnet"
	"github.com/kafka-reservoir/producer/internal/testbroker"
	"github.com/kafka-reservoir/producer/protocol"
)

// A bootstrap address where no Kafka listens: each case has its own clear error, in bounded time, and leaves nothing
// behind (a goroutine left fails the bubble).
func TestBootstrapThatIsNotKafka(t *testing.T) {
	answer := func(b string) func(net.Conn) {
		return func(c net.Conn) {
			var request [512]byte
			if _, err := c.Read(request[:]); err == nil {
				_, _ = io.WriteString(c, b)
				_, _ = io.Copy(io.Discard, c)
			}
		}
	}
	for _, tt := range []struct {
		name  string
		serve func(net.Conn) // nil: nobody listens
		says  string
	}{
		{"nobody listens", nil, "refused"},
		{"closes at once", func(net.Conn) {}, "closed the connection"},
		{"HTTP", answer("HTTP/1.1 400 Bad Request\r\n\r\n"), "HTTP"},
		{"TLS port", answer("\x15\x03\x03\x00\x02\x02\x16"), "TLS"},
		{"SSH", func(c net.Conn) { _, _ = io.WriteString(c, "SSH-2.0-OpenSSH_9.9\r\n"); _, _ = io.Copy(io.Discard, c) }, "limit"},
		{"frame of 2 GB", answer("\x7f\xff\xff\xff" + string(make([]byte, 100))), "limit"},
		{"negative frame", answer("\xff\xff\xff\xff"), "negative size"},
		{"wrong correlation id", answer("\x00\x00\x00\x06\x7f\x00\x00\x01\x00\x00"), "correlation"},
		{"truncated answer", answer("\x00\x00\x00\x05\x00\x00\x00\x00\x00"), "too early"},
		{"says nothing", func(c net.Conn) { _, _ = io.Copy(io.Discard, c) }, "no answer to ApiVersions"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				network := simnet.New(simnet.Link{Latency: time.Millisecond})
				if tt.serve != nil {
					l, err := network.Listen("elsewhere:9092")
					require.NoError(t, err)
					defer l.Close()
					go func() {
						for {
							c, err := l.Accept()
							if err != nil {
								return
							}
							go func() { defer c.Close(); tt.serve(c) }()
						}
					}()
				}
				p, err := producer.New(producer.Config{
					BootstrapServers: []string{"elsewhere:9092"}, Dial: network.Dial, MaxBlock: 45 * time.Second,
				}, producer.String(), producer.String())
				require.NoError(t, err)
				began := time.Now()
				_, err = p.Send(t.Context(), text("t", "v")).Wait(t.Context())
				assert.Equal(t, 45*time.Second, time.Since(began))
				assert.ErrorIs(t, err, producer.ErrMetadataTimeout)
				assert.ErrorContains(t, err, "elsewhere:9092")
				assert.ErrorContains(t, err, tt.says)
				assert.True(t, producer.IsRetriable(err))
				assert.False(t, producer.MayHaveBeenWritten(err))

				ctx, cancel := context.WithTimeout(t.Context(), time.Second)
				defer cancel()
				began = time.Now()
				require.NoError(t, p.Close(ctx))
				assert.LessOrEqual(t, time.Since(began), 50*time.Millisecond)
				time.Sleep(time.Second) // the other end hears of it, too
			})
		})
	}
}

// The hooks of Trace are told of everything once.
func TestTrace(t *testing.T) {
	failures := 2
	bubble(t, testbroker.Config{Fault: produceFault(func() testbroker.Verdict {
		if failures--; failures >= 0 {
			return testbroker.Answer(protocol.NotEnoughReplicas)
		}
		return testbroker.Verdict{Throttle: 100 * time.Millisecond}
	})}, func(t *testing.T, s *testbroker.Server, c producer.Config) {
		log := &recorder{}
		c.Trace = &producer.Trace{
			ConnectDone: func(node int32, addr string, took time.Duration, err error) {
				log.note("connect %s %v", addr, err)
			},
			RequestDone: func(node int32, api string, version int16, written, read int, took time.Duration, err error) {
				if api == "Produce" {
					assert.Positive(t, written)
					assert.Positive(t, read)
					log.note("request %s %v", api, err)
				}
			},
			BatchDone: func(topic string, partition int32, records, size, attempts int, offset int64, age time.Duration, err error) {
				assert.Positive(t, size)
				assert.GreaterOrEqual(t, age, 200*time.Millisecond)
				log.note("batch %s-%d records %d attempts %d offset %d %v", topic, partition, records, attempts, offset, err)
			},
			Retry: func(topic string, partition int32, records, attempts int, backoff time.Duration, err error) {
				assert.Positive(t, backoff)
				assert.ErrorIs(t, err, producer.NotEnoughReplicas)
				log.note("retry %s-%d records %d attempts %d", topic, partition, records, attempts)
			},
			Throttled: func(node int32, d time.Duration) { log.note("throttled %d %v", node, d) },
		}
		p := newStrings(t, c)
		_, err := p.PartitionsFor(t.Context(), "t")
		require.NoError(t, err)
		p.SendFunc(t.Context(), text("t", "1"), nil)
		p.SendFunc(t.Context(), text("t", "2"), nil)
		closed(t, p)
		counted := map[string]int{}
		for _, line := range log.log {
			counted[line]++
		}
		assert.Equal(t, 1, counted["batch t-0 records 2 attempts 3 offset 0 <nil>"], "%q", log.log)
		assert.Equal(t, 1, counted["retry t-0 records 2 attempts 1"], "%q", log.log)
		assert.Equal(t, 1, counted["retry t-0 records 2 attempts 2"], "%q", log.log)
		assert.Equal(t, 3, counted["request Produce <nil>"], "%q", log.log)
		assert.Equal(t, 1, counted["throttled 1 100ms"], "%q", log.log)
		assert.Equal(t, 2, counted[fmt.Sprintf("connect %s <nil>", s.Addrs()[0])], "the bootstrap connection, and the node's: %q", log.log)
	})
}
