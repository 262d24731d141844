package producer_test

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/kafka-reservoir/producer"
	"github.com/kafka-reservoir/producer/internal/testbroker"
	"github.com/kafka-reservoir/producer/partitioner"
	"github.com/kafka-reservoir/producer/protocol"
)

// What the face promises, seen from both ends: a program's and the broker's.

// world is a cluster that refuses anything improper, and the producers made for it.
func world(t *testing.T, partitions int) *testbroker.Server {
	t.Helper()
	s, err := testbroker.Start(testbroker.Config{Partitions: partitions})
	require.NoError(t, err)
	t.Cleanup(func() {
		s.Cluster().Check(t)
		assert.NoError(t, s.Close())
	})
	return s
}

func closed(t *testing.T, p interface{ Close(context.Context) error }) {
	t.Helper()
	require.NoError(t, p.Close(t.Context()))
}

// produced are the Produce requests that came in.
func produced(s *testbroker.Server) []*testbroker.Request {
	var all []*testbroker.Request
	for _, e := range s.Cluster().Requests() {
		if e.Request.API == protocol.KeyProduce {
			all = append(all, e.Request)
		}
	}
	return all
}

func asked(s *testbroker.Server, key protocol.APIKey) int {
	n := 0
	for _, e := range s.Cluster().Requests() {
		if e.Request.API == key {
			n++
		}
	}
	return n
}

// FC-132, S-13, KP-02: the zero Config is safe on the wire; what is asked for explicitly is what the broker sees, and a
// producer that is not idempotent never asks for a producer id.
func TestAcksOnTheWire(t *testing.T) {
	for _, tt := range []struct {
		name       string
		set        func(*producer.Config)
		acks       int16
		idempotent bool
	}{
		{"zero Config", func(*producer.Config) {}, -1, true},
		{"all, not idempotent", func(c *producer.Config) { c.DisableIdempotence = true }, -1, false},
		{"leader", func(c *producer.Config) { c.Acks = producer.AcksLeader }, 1, false},
		{"none", func(c *producer.Config) { c.Acks = producer.AcksNone }, 0, false},
		{"no retries", func(c *producer.Config) { c.Retries = producer.NoRetries }, -1, false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			s := world(t, 1)
			c := producer.Config{BootstrapServers: s.Addrs()}
			tt.set(&c)
			p, err := producer.New(c, producer.String(), producer.String())
			require.NoError(t, err)
			m, err := p.Send(t.Context(), producer.Record[string, string]{Topic: "t", Key: "k", Value: "v"}).Wait(t.Context())
			require.NoError(t, err)
			closed(t, p)
			assert.Equal(t, tt.acks != 0, m.HasOffset(), "an offset only comes with an answer")
			for _, r := range produced(s) {
				assert.Equal(t, tt.acks, r.Acks)
				for _, b := range r.Batches {
					assert.Equal(t, tt.idempotent, b.ProducerID >= 0)
				}
			}
			assert.Equal(t, tt.idempotent, asked(s, protocol.KeyInitProducerID) > 0)
		})
	}
}

// FC-133: with a batch size of 1 every record is a batch, Send returns, and records without keys use all partitions.
func TestBatchSizeOne(t *testing.T) {
	for _, codec := range []producer.Compression{producer.None, producer.Gzip, producer.Snappy, producer.LZ4, producer.Zstd} {
		t.Run(codec.String(), func(t *testing.T) {
			s := world(t, 3)
			p, err := producer.New(producer.Config{
				BootstrapServers: s.Addrs(), BatchSize: 1, Compression: codec, Linger: producer.NoLinger,
			}, producer.Null(), producer.String())
			require.NoError(t, err)
			const n = 1000
			for i := range n {
				p.SendFunc(t.Context(), producer.Record[struct{}, string]{Topic: "t", Value: fmt.Sprint(i)}, func(_ producer.RecordMetadata, err error) {
					assert.NoError(t, err)
				})
			}
			closed(t, p)
			total := 0
			for i, records := range s.Cluster().AllRecords("t") {
				assert.NotEmpty(t, records, "partition %d", i)
				total += len(records)
			}
			assert.Equal(t, n, total)
			for _, r := range produced(s) {
				for _, b := range r.Batches {
					assert.EqualValues(t, 1, b.Count)
				}
			}
		})
	}
}

// FC-134: the client id is on every request of every connection, byte for byte.
func TestClientIDOnEveryRequest(t *testing.T) {
	for _, id := range []string{"svc|ws_az=a,b=c", "ünï", strings.Repeat("x", 10_000)} {
		s := world(t, 1)
		p, err := producer.New(producer.Config{BootstrapServers: s.Addrs(), ClientID: id}, producer.String(), producer.String())
		require.NoError(t, err)
		_, err = p.Send(t.Context(), producer.Record[string, string]{Topic: "t", Value: "v"}).Wait(t.Context())
		require.NoError(t, err)
		closed(t, p)
		seen := map[protocol.APIKey]bool{}
		for _, e := range s.Cluster().Requests() {
			assert.Equal(t, id, e.Request.ClientID)
			seen[e.Request.API] = true
		}
		for _, key := range []protocol.APIKey{protocol.KeyAPIVersions, protocol.KeyMetadata, protocol.KeyInitProducerID, protocol.KeyProduce} {
			assert.True(t, seen[key], "%v", key)
		}
	}
}

// HDR-01, KP-31, S-25: headers arrive in order, repeated keys, nulls and empty values included; so do null and empty
// keys and values. Everything was copied when Send returned: what the caller changes afterwards changes nothing.
func TestHeadersAndNulls(t *testing.T) {
	s := world(t, 1)
	p, err := producer.New(producer.Config{BootstrapServers: s.Addrs(), Linger: time.Hour, DeliveryTimeout: 2 * time.Hour}, producer.Bytes(), producer.Bytes())
	require.NoError(t, err)
	headers := []producer.Header{{Key: "a", Value: []byte("1")}, {Key: "b"}, {Key: "a", Value: []byte{}}, {Key: "", Value: []byte("2")}}
	key, value := []byte("key"), []byte("value")
	send := func(k, v []byte, h []producer.Header) {
		p.SendFunc(t.Context(), producer.Record[[]byte, []byte]{Topic: "t", Key: k, Value: v, Headers: h}, nil)
	}
	send(key, value, headers)
	send(nil, value, nil)
	send(key, nil, []producer.Header{})
	send([]byte{}, []byte{}, headers[:1])
	copy(key, "XXX")
	copy(value, "XXXXX")
	headers[0].Key, headers[1].Value = "changed", []byte("changed")
	headers[0].Value[0] = 'X'
	closed(t, p)

	records := s.Cluster().Records("t", 0)
	require.Len(t, records, 4)
	assert.Equal(t, []producer.Header{{Key: "a", Value: []byte("1")}, {Key: "b"}, {Key: "a", Value: []byte{}}, {Key: "", Value: []byte("2")}}, records[0].Headers)
	assert.Equal(t, []byte("key"), records[0].Key)
	assert.Equal(t, []byte("value"), records[0].Value)
	assert.Nil(t, records[1].Key)
	assert.Nil(t, records[2].Value)
	assert.NotNil(t, records[3].Key)
	assert.Empty(t, records[3].Key)
	assert.NotNil(t, records[3].Value)
	assert.Empty(t, records[3].Value)
	assert.Len(t, records[3].Headers, 1)
}

// adder appends a header, as a schema registry's serializer does.
type adder struct{ key string }

func (a adder) Serialize(dst []byte, topic string, h *[]producer.Header, v string) ([]byte, error) {
	*h = append(*h, producer.Header{Key: a.key, Value: []byte(topic)})
	return append(dst, v...), nil
}

// Serializers add headers, in the order key, value; nothing of it lands in the caller's slice.
func TestSerializersMayAddHeaders(t *testing.T) {
	s := world(t, 1)
	p, err := producer.New(producer.Config{BootstrapServers: s.Addrs()}, adder{"k"}, adder{"v"})
	require.NoError(t, err)
	room := make([]producer.Header, 1, 8)
	room[0] = producer.Header{Key: "mine"}
	_, err = p.Send(t.Context(), producer.Record[string, string]{Topic: "t", Key: "a", Value: "b", Headers: room}).Wait(t.Context())
	require.NoError(t, err)
	closed(t, p)
	want := []producer.Header{{Key: "mine"}, {Key: "k", Value: []byte("t")}, {Key: "v", Value: []byte("t")}}
	assert.Equal(t, want, s.Cluster().Records("t", 0)[0].Headers)
	assert.Equal(t, make([]producer.Header, 7), room[1:8])
}

// S-20, S-10, KP-12, KP-13, KP-14, CFG-01: New reports all at once and leaves nothing behind; serializers are values, so
// that a missing one is an error of New's and nothing is configured or closed behind their back.
func TestNewRefuses(t *testing.T) {
	before := runtime.NumGoroutine()
	p, err := producer.New[string, string](producer.Config{Acks: 9, BatchSize: -1}, nil, nil, nil)
	assert.Nil(t, p)
	for _, part := range []string{"bootstrap.servers", "acks", "batch.size", "key.serializer", "value.serializer", "Interceptor 0 is nil"} {
		assert.ErrorContains(t, err, part)
	}
	var c *producer.ConfigError
	assert.ErrorAs(t, err, &c)
	assert.LessOrEqual(t, runtime.NumGoroutine(), before)

	// S-14: a name that cannot be resolved, unless that is wanted. The name is reserved never to exist.
	_, err = producer.New(producer.Config{BootstrapServers: []string{"no-such-host.invalid:9092"}}, producer.String(), producer.String())
	assert.ErrorContains(t, err, "no-such-host.invalid:9092")
	q, err := producer.New(producer.Config{BootstrapServers: []string{"no-such-host.invalid:9092"}, DeferBootstrapResolve: true}, producer.String(), producer.String())
	require.NoError(t, err)
	closed(t, q)
}

// S-24, S-32, KP-64: a record that fails before it is accepted fails by its future and its callback, once each, with the
// topic and whatever is known of the partition; never by a panic or an error of Send's.
func TestFailuresBeforeTheAppend(t *testing.T) {
	s := world(t, 2)
	broken := errors.New("broken")
	fail := producer.SerializerFunc[string](func(v string) ([]byte, error) {
		if v == "bad" {
			return nil, broken
		}
		return []byte(v), nil
	})
	p, err := producer.New(producer.Config{
		BootstrapServers: s.Addrs(),
		MaxRequestSize:   10_000,
		Partitioner:      choose{},
	}, fail, fail)
	require.NoError(t, err)
	for _, tt := range []struct {
		name      string
		record    producer.Record[string, string]
		partition int32
		check     func(error)
	}{
		{"key", producer.Record[string, string]{Topic: "t", Key: "bad"}, -1, func(err error) {
			assert.ErrorIs(t, err, broken)
			assert.ErrorContains(t, err, "serialize the key of a record for topic t")
		}},
		{"value, partition given", producer.Record[string, string]{Topic: "t", Value: "bad", Partition: producer.OnPartition(1)}, 1, func(err error) {
			assert.ErrorContains(t, err, "serialize the value of a record for topic t")
		}},
		{"no topic", producer.Record[string, string]{Value: "v"}, -1, func(err error) { // KP-63, REC-02
			assert.ErrorContains(t, err, "without a topic")
		}},
		{"negative partition", producer.Record[string, string]{Topic: "t", Partition: producer.OnPartition(-3)}, -1, func(err error) { // REC-02
			assert.ErrorContains(t, err, "negative")
		}},
		{"before 1970", producer.Record[string, string]{Topic: "t", Timestamp: time.Unix(-1, 0)}, -1, func(err error) { // REC-02
			assert.ErrorContains(t, err, "1970")
		}},
		{"KP-66 partitioner below the range", producer.Record[string, string]{Topic: "t", Key: "-7"}, -1, func(err error) {
			assert.ErrorContains(t, err, "partitioner chose partition -7 of 2")
		}},
		{"EXT-03 partitioner above the range", producer.Record[string, string]{Topic: "t", Key: "2"}, -1, func(err error) {
			assert.ErrorContains(t, err, "partitioner chose partition 2 of 2")
		}},
		{"KP-37 too large", producer.Record[string, string]{Topic: "t", Value: strings.Repeat("x", 10_000), Partition: producer.OnPartition(1)}, 1, func(err error) {
			var e *producer.RecordTooLargeError
			require.ErrorAs(t, err, &e)
			assert.Equal(t, "MaxRequestSize", e.Setting)
			assert.Equal(t, 10_000, e.Limit)
			assert.Greater(t, e.Size, 10_000)
		}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			m, err := p.Send(t.Context(), tt.record).Wait(t.Context())
			require.Error(t, err)
			tt.check(err)
			none := producer.RecordMetadata{Topic: tt.record.Topic, Partition: tt.partition, Offset: -1, KeySize: -1, ValueSize: -1}
			assert.Equal(t, none, m)
			assert.False(t, producer.MayHaveBeenWritten(err))
			assert.False(t, producer.IsFatal(err))

			told := make(chan producer.RecordMetadata, 2)
			p.SendFunc(t.Context(), tt.record, func(m producer.RecordMetadata, err error) {
				tt.check(err)
				told <- m
			})
			assert.Equal(t, none, <-told)
			p.SendFunc(t.Context(), tt.record, nil) // nobody wants to know
		})
	}
	closed(t, p)
	for _, records := range s.Cluster().AllRecords("t") {
		assert.Empty(t, records)
	}
}

// choose takes the key for the number of a partition.
type choose struct{}

func (choose) Partition(_ string, key, _ []byte, _ partitioner.Partitions) int32 {
	var n int32
	_, _ = fmt.Sscan(string(key), &n)
	return n
}

// S-05, S-26: the bound is on the most the record can take up, framing and headers included: exactly that still goes.
func TestRecordSizeAtTheLimit(t *testing.T) {
	s := world(t, 1)
	const limit = 2000
	p, err := producer.New(producer.Config{BootstrapServers: s.Addrs(), MaxRequestSize: limit}, producer.Null(), producer.Bytes())
	require.NoError(t, err)
	headers := []producer.Header{{Key: "h", Value: []byte("v")}}
	frame := protocol.MaxRecordSize(nil, make([]byte, 1000), headers) - 1000
	for over, fails := range map[int]bool{0: false, 1: true} {
		_, err := p.Send(t.Context(), producer.Record[struct{}, []byte]{Topic: "t", Value: make([]byte, limit-frame+over), Headers: headers}).Wait(t.Context())
		assert.Equal(t, fails, err != nil, "%d over: %v", over, err)
	}
	closed(t, p)
}

// Delivery rule 8: a panic of the program's own code passes through to the caller of Send, and leaves nothing locked,
// lent or half done: the producer goes on.
func TestPanicsPassThrough(t *testing.T) {
	s := world(t, 1)
	explode := producer.SerializerFunc[string](func(v string) ([]byte, error) {
		if v == "panic" {
			panic("serializer")
		}
		return []byte(v), nil
	})
	p, err := producer.New[string, string](producer.Config{
		BootstrapServers: s.Addrs(),
		Partitioner:      exploding{},
	}, explode, producer.String(), explodingInterceptor{})
	require.NoError(t, err)
	free := p.Metrics().BufferAvailableBytes
	send := func(key, value string) producer.Future {
		return p.Send(t.Context(), producer.Record[string, string]{Topic: "t", Key: key, Value: value})
	}
	for range 100 {
		assert.PanicsWithValue(t, "serializer", func() { send("panic", "v") })
		assert.PanicsWithValue(t, "partitioner", func() { send("partitioner", "v") })
		assert.PanicsWithValue(t, "interceptor", func() { send("k", "interceptor") })
	}
	assert.Equal(t, free, p.Metrics().BufferAvailableBytes) // nothing was ever accepted
	_, err = send("k", "v").Wait(t.Context())
	require.NoError(t, err)
	require.NoError(t, p.Flush(t.Context()))
	closed(t, p)
	assert.Len(t, s.Cluster().Records("t", 0), 1)
}

type exploding struct{}

func (exploding) Partition(_ string, key, _ []byte, _ partitioner.Partitions) int32 {
	if string(key) == "partitioner" {
		panic("partitioner")
	}
	return partitioner.Any
}

type explodingInterceptor struct{}

func (explodingInterceptor) OnSend(ctx context.Context, r *producer.Record[string, string]) context.Context {
	if r.Value == "interceptor" {
		panic("interceptor")
	}
	return ctx
}
func (explodingInterceptor) OnAcknowledgement(context.Context, producer.RecordMetadata, error) {}

// recorder notes the calls of an interceptor.
type recorder struct {
	mu  sync.Mutex
	log []string
}

func (r *recorder) note(format string, args ...any) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.log = append(r.log, fmt.Sprintf(format, args...))
}

func (r *recorder) OnSend(ctx context.Context, rec *producer.Record[string, string]) context.Context {
	r.note("send %s", rec.Value)
	rec.Value += "!"
	return ctx
}

func (r *recorder) OnAcknowledgement(_ context.Context, m producer.RecordMetadata, err error) {
	r.note("ack %v %v", m, err != nil)
}

// S-22, S-28, INT-03, KP-18: onSend before everything, the acknowledgement before the record's callback, for failures too.
func TestInterceptorsEndToEnd(t *testing.T) {
	s := world(t, 1)
	r := &recorder{}
	p, err := producer.New[string, string](producer.Config{BootstrapServers: s.Addrs(), MaxRequestSize: 2000}, producer.String(), producer.String(), r)
	require.NoError(t, err)
	cb := func(m producer.RecordMetadata, err error) { r.note("callback %v %v", m, err != nil) }
	p.SendFunc(t.Context(), producer.Record[string, string]{Topic: "t", Value: "a"}, cb)
	require.NoError(t, p.Flush(t.Context()))
	p.SendFunc(t.Context(), producer.Record[string, string]{Topic: "t", Value: strings.Repeat("b", 2000)}, cb)
	require.NoError(t, p.Flush(t.Context()))
	m, err := p.Send(t.Context(), producer.Record[string, string]{Topic: "t", Value: "c"}).Wait(t.Context())
	require.NoError(t, err)
	closed(t, p)
	assert.EqualValues(t, 1, m.Offset)
	assert.Equal(t, []string{
		"send a", "ack t-0@0 false", "callback t-0@0 false",
		"send " + strings.Repeat("b", 2000), "ack t-0@-1 true", "callback t-0@-1 true",
		"send c", "ack t-0@1 false",
	}, r.log)
	assert.Equal(t, "a!", string(s.Cluster().Records("t", 0)[0].Value))
}

// KP-33, S-62, KP-17: Close again does nothing; afterwards every Send fails, and is told so.
func TestCloseTwiceAndSendAfterwards(t *testing.T) {
	s := world(t, 1)
	p, err := producer.New(producer.Config{BootstrapServers: s.Addrs()}, producer.String(), producer.String())
	require.NoError(t, err)
	_, err = p.Send(t.Context(), producer.Record[string, string]{Topic: "t", Value: "v"}).Wait(t.Context())
	require.NoError(t, err)
	closed(t, p)
	closed(t, p)
	for _, topic := range []string{"t", "never seen"} {
		_, err = p.Send(t.Context(), producer.Record[string, string]{Topic: topic, Value: "v"}).Wait(t.Context())
		assert.ErrorIs(t, err, producer.ErrClosed)
		assert.True(t, producer.IsFatal(err))
		told := make(chan error, 1)
		p.SendFunc(t.Context(), producer.Record[string, string]{Topic: topic, Value: "v"}, func(_ producer.RecordMetadata, err error) { told <- err })
		assert.ErrorIs(t, <-told, producer.ErrClosed)
	}
	assert.NoError(t, p.Flush(t.Context()), "there is nothing to flush")
	_, err = p.PartitionsFor(t.Context(), "never seen")
	assert.ErrorIs(t, err, producer.ErrClosed)
	assert.Len(t, s.Cluster().Records("t", 0), 1)
}

// MET-01, S-86: the counters add up.
func TestMetricsEndToEnd(t *testing.T) {
	s := world(t, 2)
	p, err := producer.New(producer.Config{BootstrapServers: s.Addrs(), MaxRequestSize: 5000}, producer.String(), producer.String())
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
	closed(t, p)
	m = p.Metrics()
	assert.Zero(t, m.ConnectionCount)
	assert.Zero(t, m.RequestsInFlight)
	assert.Equal(t, m.BufferTotalBytes, m.BufferAvailableBytes, "all memory is back")
}
