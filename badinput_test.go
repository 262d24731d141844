package producer_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/kafka-reservoir/producer"
	"github.com/kafka-reservoir/producer/internal/simnet"
	"github.com/kafka-reservoir/producer/internal/testbroker"
	"github.com/kafka-reservoir/producer/partitioner"
	"github.com/kafka-reservoir/producer/protocol"
)

// Brokers that were sane when the connection was made, and are not any more. Each case costs a connection and a moment:
// the record is sent again, and is in the log once.

// FC-092, S-100: whatever comes in place of an answer.
func TestHostileAnswers(t *testing.T) {
	answers := map[string]testbroker.Verdict{
		"HTTP":                 testbroker.Raw([]byte("HTTP/1.1 502 Bad Gateway\r\n\r\n")),
		"TLS alert":            testbroker.Raw([]byte("\x15\x03\x03\x00\x02\x02\x28")),
		"frame of 2 GB":        testbroker.Raw([]byte("\x7f\xff\xff\xff")),
		"negative frame":       testbroker.Raw([]byte("\x80\x00\x00\x00")),
		"empty frame":          testbroker.Raw([]byte("\x00\x00\x00\x00")),
		"frame too short":      testbroker.Raw([]byte("\x00\x00\x00\x03abc")),
		"wrong correlation id": {Rewrite: func(b []byte) []byte { b[7] ^= 0x55; return b }},
		"cut in half":          {Cut: 11},
		"truncated body":       {Rewrite: func(b []byte) []byte { b = b[:len(b)-3]; b[3] -= 3; return b }},
		"bytes left over":      {Rewrite: func(b []byte) []byte { b[3] += 2; return append(b, 0, 0) }},
		"huge array":           {Rewrite: func(b []byte) []byte { copy(b[9:], "\xff\xff\xff\xff\x07"); return b }},
		"zeros":                {Rewrite: func(b []byte) []byte { clear(b[8:]); return b }},
		"ones":                 {Rewrite: func(b []byte) []byte { fill := b[8:]; copy(fill, strings.Repeat("\xff", len(fill))); return b }},
		"answer twice":         {Rewrite: func(b []byte) []byte { return append(b, b...) }},
		"byte by byte":         {Trickle: 1, TricklePause: time.Millisecond},
	}
	for _, api := range []protocol.APIKey{protocol.KeyProduce, protocol.KeyMetadata, protocol.KeyInitProducerID} {
		for name, verdict := range answers {
			if api == protocol.KeyInitProducerID && name == "huge array" {
				continue // it has none: what would be changed is its error code
			}
			t.Run(fmt.Sprintf("%v/%s", api, name), func(t *testing.T) {
				var once atomic.Bool
				fault := func(r *testbroker.Request) testbroker.Verdict {
					if r.API != api || once.Swap(true) {
						return testbroker.Verdict{}
					}
					return verdict
				}
				inLab(t, testbroker.Config{Nodes: 2, Fault: fault, Topics: []testbroker.Topic{{Name: "t"}}}, func(t *testing.T, l *lab) {
					p := l.texts(t, nil)
					began := time.Now()
					_, err := p.Send(t.Context(), text("t", "v")).Wait(t.Context())
					require.NoError(t, err)
					assert.LessOrEqual(t, time.Since(began), time.Second)
					assert.True(t, once.Load())
					_, err = p.Send(t.Context(), text("t", "w")).Wait(t.Context())
					require.NoError(t, err)
					end(t, p)
					assert.Equal(t, []string{"v", "w"}, values(l.Cluster(), "t", 0))
				})
			})
		}
	}
}

// An answer that is well formed and cannot be true: of partitions that were not asked for, or not of all that were.
func TestAnswersThatCannotBeTrue(t *testing.T) {
	for name, edit := range map[string]func(*protocol.ProduceResponse){
		"another partition": func(r *protocol.ProduceResponse) { r.Topics[0].Partitions[0].Index = 7 },
		"another topic": func(r *protocol.ProduceResponse) {
			r.Topics[0].ID[3] ^= 1
			r.Topics[0].Name = []byte("other")
		},
		"twice":   func(r *protocol.ProduceResponse) { r.Topics = append(r.Topics, r.Topics...) },
		"nothing": func(r *protocol.ProduceResponse) { r.Topics = nil },
		"a throttle of 4 hours": func(r *protocol.ProduceResponse) {
			r.Topics = nil
			r.ThrottleTimeMs = 4 * 3600 * 1000
		},
	} {
		t.Run(name, func(t *testing.T) {
			lie := testbroker.Verdict{Edit: func(m protocol.Message) { edit(m.(*protocol.ProduceResponse)) }}
			inLab(t, testbroker.Config{Fault: testbroker.Script(protocol.KeyProduce, lie)}, func(t *testing.T, l *lab) {
				p := l.texts(t, nil)
				began := time.Now()
				_, err := p.Send(t.Context(), text("t", "v")).Wait(t.Context())
				require.NoError(t, err)
				assert.LessOrEqual(t, time.Since(began), time.Second)
				end(t, p)
				assert.Equal(t, []string{"v"}, values(l.Cluster(), "t", 0))
			})
		})
	}
}

// S-24: a value that its serializer cannot take fails its own record, and says which it was; so does one that is too large.
func TestBadValues(t *testing.T) {
	inLab(t, testbroker.Config{Topics: []testbroker.Topic{{Name: "t", MaxMessageBytes: 1000}}}, func(t *testing.T, l *lab) {
		p, err := producer.New(l.config, producer.JSON[any](), producer.JSON[any]())
		require.NoError(t, err)
		for _, bad := range []producer.Record[any, any]{
			{Topic: "t", Key: func() {}},
			{Topic: "t", Value: make(chan int)},
			{Topic: "t", Value: map[string]any{"deep": []any{complex(1, 2)}}},
		} {
			_, err := p.Send(t.Context(), bad).Wait(t.Context())
			var e *producer.SerializationError
			require.ErrorAs(t, err, &e)
			assert.Equal(t, "t", e.Topic)
			assert.Equal(t, bad.Key != nil, e.Part == "key")
			assert.False(t, producer.IsRetriable(err))
		}
		// Too large for the topic, which only the broker knows.
		_, err = p.Send(t.Context(), producer.Record[any, any]{Topic: "t", Value: strings.Repeat("x", 2000)}).Wait(t.Context())
		assert.ErrorIs(t, err, producer.MessageTooLarge)
		assert.ErrorContains(t, err, "t-0")
		assert.False(t, producer.IsRetriable(err))
		assert.False(t, producer.MayHaveBeenWritten(err))
		_, err = p.Send(t.Context(), producer.Record[any, any]{Topic: "t", Value: "fits"}).Wait(t.Context())
		assert.NoError(t, err)
		end(t, p)
		assert.Equal(t, []string{`"fits"`}, values(l.Cluster(), "t", 0))
	})
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
}

// S-24, S-32, KP-64: a record that fails before it is accepted fails by its future and its callback, once each, with the
// topic and whatever is known of the partition; never by a panic or an error of Send's.
func TestFailuresBeforeTheAppend(t *testing.T) {
	inLab(t, testbroker.Config{Partitions: 2}, func(t *testing.T, l *lab) {
		broken := errors.New("broken")
		fail := producer.SerializerFunc[string](func(v string) ([]byte, error) {
			if v == "bad" {
				return nil, broken
			}
			return []byte(v), nil
		})
		p, err := producer.New(producer.Config{
			BootstrapServers: l.Addrs(), Dial: l.network.Dial,
			MaxRequestSize: 10_000,
			Partitioner:    choose{},
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
				assert.ErrorIs(t, err, producer.ErrInvalidPartition)
				assert.ErrorContains(t, err, "negative")
			}},
			{"before 1970", producer.Record[string, string]{Topic: "t", Timestamp: time.Unix(-1, 0)}, -1, func(err error) { // REC-02
				assert.ErrorIs(t, err, producer.InvalidTimestamp)
				assert.ErrorContains(t, err, "1970")
			}},
			{"KP-66 partitioner below the range", producer.Record[string, string]{Topic: "t", Key: "-7"}, -1, func(err error) {
				assert.ErrorIs(t, err, producer.ErrInvalidPartition)
				assert.ErrorContains(t, err, "partitioner chose partition -7 of 2")
			}},
			{"EXT-03 partitioner above the range", producer.Record[string, string]{Topic: "t", Key: "2"}, -1, func(err error) {
				assert.ErrorIs(t, err, producer.ErrInvalidPartition)
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
			t.Log(tt.name)
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
		}
		end(t, p)
		for _, records := range l.Cluster().AllRecords("t") {
			assert.Empty(t, records)
		}
	})
}

// choose takes the key for the number of a partition.
type choose struct{}

func (choose) Partition(_ string, key, _ []byte, _ partitioner.Partitions) int32 {
	var n int32
	_, _ = fmt.Sscan(string(key), &n)
	return n
}

// S-12, KP-14 in spirit: a broker that is too old is refused with a reason, at once, and nothing hangs.
func TestTooOldBroker(t *testing.T) {
	old := testbroker.Kafka44.With(protocol.KeyProduce, 0, 2)
	inLab(t, testbroker.Config{Generation: old}, func(t *testing.T, l *lab) {
		p := l.texts(t, nil)
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
		defer cancel()
		_, err := p.Send(ctx, text("t", "v")).Wait(ctx)
		assert.ErrorIs(t, err, producer.UnsupportedVersion)
		assert.ErrorContains(t, err, "0.11")
		end(t, p)
	})
}

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
