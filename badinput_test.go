package producer_test

import (
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/kafka-reservoir/producer"
	"github.com/kafka-reservoir/producer/internal/testbroker"
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
