package producer_test

import (
	"bytes"
	"fmt"
	"runtime/pprof"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/kafka-reservoir/producer"
	"github.com/kafka-reservoir/producer/internal/simnet"
	"github.com/kafka-reservoir/producer/internal/testbroker"
	"github.com/kafka-reservoir/producer/protocol"
)

// What a program can see of its records on their way: interceptors, metrics, traces, profiles.

// S-22, S-28, INT-03, KP-18: onSend before everything, the acknowledgement before the record's callback, for failures too.
func TestInterceptorsEndToEnd(t *testing.T) {
	inLab(t, testbroker.Config{}, func(t *testing.T, l *lab) {
		r := &recorder{}
		p, err := producer.New[string, string](producer.Config{BootstrapServers: l.Addrs(), Dial: l.network.Dial, MaxRequestSize: 2000}, producer.String(), producer.String(), r)
		require.NoError(t, err)
		cb := func(m producer.RecordMetadata, err error) { r.note("callback %v %v", m, err != nil) }
		p.SendFunc(t.Context(), producer.Record[string, string]{Topic: "t", Value: "a"}, cb)
		require.NoError(t, p.Flush(t.Context()))
		p.SendFunc(t.Context(), producer.Record[string, string]{Topic: "t", Value: strings.Repeat("b", 2000)}, cb)
		require.NoError(t, p.Flush(t.Context()))
		m, err := p.Send(t.Context(), producer.Record[string, string]{Topic: "t", Value: "c"}).Wait(t.Context())
		require.NoError(t, err)
		end(t, p)
		assert.EqualValues(t, 1, m.Offset)
		assert.Equal(t, []string{
			"send a", "ack t-0@0 false", "callback t-0@0 false",
			"send " + strings.Repeat("b", 2000), "ack t-0@-1 true", "callback t-0@-1 true",
			"send c", "ack t-0@1 false",
		}, r.log)
		assert.Equal(t, "a!", string(l.Cluster().Records("t", 0)[0].Value))
	})
}

// MET-01, S-86: the counters add up.
func TestMetricsEndToEnd(t *testing.T) {
	inLab(t, testbroker.Config{Partitions: 2}, func(t *testing.T, l *lab) {
		l.network.SetLink(l.Addr(1), simnet.Link{Latency: time.Millisecond})
		p, err := producer.New(producer.Config{BootstrapServers: l.Addrs(), Dial: l.network.Dial, MaxRequestSize: 5000}, producer.String(), producer.String())
		require.NoError(t, err)
		const n = 500
		for i := range n {
			p.SendFunc(t.Context(), producer.Record[string, string]{Topic: "t", Key: fmt.Sprint(i), Value: "value"}, nil)
		}
		p.SendFunc(t.Context(), producer.Record[string, string]{Topic: "t", Value: strings.Repeat("x", 5000)}, nil)
		require.NoError(t, p.Flush(t.Context()))
		m := p.Metrics()
		assert.EqualValues(t, n, m.RecordSend.Total)
		assert.EqualValues(t, 0, m.RecordRetry.Total)
		assert.EqualValues(t, 1, m.RecordError.Total)
		assert.EqualValues(t, n, m.Topics["t"].RecordSend.Total)
		assert.Positive(t, m.Topics["t"].Bytes.Total)
		assert.Positive(t, m.RecordSend.PerSecond)
		assert.Positive(t, m.BatchSize.Max)
		assert.Positive(t, m.RecordQueueTime.Max)
		assert.Positive(t, m.RecordsPerRequest.Avg)
		assert.Positive(t, m.RequestLatency.Max)
		assert.Positive(t, m.Request.Total)
		assert.Equal(t, m.Request.Total, m.Response.Total)
		assert.Positive(t, m.OutgoingBytes.Total)
		assert.Positive(t, m.IncomingBytes.Total)
		assert.Positive(t, m.FlushTime)
		assert.Positive(t, m.MetadataWaitTime)
		assert.Positive(t, m.ConnectionCount)
		assert.NotEmpty(t, m.Nodes)
		end(t, p)
		m = p.Metrics()
		assert.Zero(t, m.ConnectionCount)
		assert.Zero(t, m.RequestsInFlight)
		assert.Equal(t, m.BufferTotalBytes, m.BufferAvailableBytes, "all memory is back")
	})
}

// S-18: the sender's goroutine bears the client id, for profiles.
func TestSenderGoroutineIsLabelled(t *testing.T) {
	inLab(t, testbroker.Config{}, func(t *testing.T, l *lab) {
		p, err := producer.New(producer.Config{BootstrapServers: l.Addrs(), Dial: l.network.Dial, ClientID: "labelled"}, producer.String(), producer.String())
		require.NoError(t, err)
		_, err = p.Send(t.Context(), text("t", "v")).Wait(t.Context())
		require.NoError(t, err)
		var profile bytes.Buffer
		require.NoError(t, pprof.Lookup("goroutine").WriteTo(&profile, 1))
		assert.Contains(t, profile.String(), `"client_id":"labelled"`)
		end(t, p)
	})
}

// The hooks of Trace are told of everything once.
func TestTrace(t *testing.T) {
	inLab(t, testbroker.Config{Fault: testbroker.Script(protocol.KeyProduce, testbroker.Answer(protocol.NotEnoughReplicas),
		testbroker.Answer(protocol.NotEnoughReplicas), testbroker.Verdict{Throttle: 100 * time.Millisecond})}, func(t *testing.T, l *lab) {
		c := l.config
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
		end(t, p)
		counted := map[string]int{}
		for _, line := range log.log {
			counted[line]++
		}
		assert.Equal(t, 1, counted["batch t-0 records 2 attempts 3 offset 0 <nil>"], "%q", log.log)
		assert.Equal(t, 1, counted["retry t-0 records 2 attempts 1"], "%q", log.log)
		assert.Equal(t, 1, counted["retry t-0 records 2 attempts 2"], "%q", log.log)
		assert.Equal(t, 3, counted["request Produce <nil>"], "%q", log.log)
		assert.Equal(t, 1, counted["throttled 1 100ms"], "%q", log.log)
		assert.Equal(t, 2, counted[fmt.Sprintf("connect %s <nil>", l.Addrs()[0])], "the bootstrap connection, and the node's: %q", log.log)
	})
}
