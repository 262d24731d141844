package producer_test

import (
	"encoding/binary"
	"math"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/kafka-reservoir/producer"
	"github.com/kafka-reservoir/producer/internal/testbroker"
	"github.com/kafka-reservoir/producer/protocol"
)

// What of a record arrives: keys, values, headers, times, byte for byte.

// HDR-01, KP-31, S-25: headers arrive in order, repeated keys, nulls and empty values included; so do null and empty
// keys and values. Everything was copied when Send returned: what the caller changes afterwards changes nothing.
func TestHeadersAndNulls(t *testing.T) {
	inLab(t, testbroker.Config{}, func(t *testing.T, l *lab) {
		p, err := producer.New(producer.Config{BootstrapServers: l.Addrs(), Dial: l.network.Dial, Linger: time.Hour, DeliveryTimeout: 2 * time.Hour}, producer.Bytes(), producer.Bytes())
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
		end(t, p)

		records := l.Cluster().Records("t", 0)
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
	})
}

// adder appends a header, as a schema registry's serializer does.
type adder struct{ key string }

func (a adder) Serialize(dst []byte, topic string, h *[]producer.Header, v string) ([]byte, error) {
	*h = append(*h, producer.Header{Key: a.key, Value: []byte(topic)})
	return append(dst, v...), nil
}

// Serializers add headers, in the order key, value; nothing of it lands in the caller's slice.
func TestSerializersMayAddHeaders(t *testing.T) {
	inLab(t, testbroker.Config{}, func(t *testing.T, l *lab) {
		p, err := producer.New(producer.Config{BootstrapServers: l.Addrs(), Dial: l.network.Dial}, adder{"k"}, adder{"v"})
		require.NoError(t, err)
		room := make([]producer.Header, 1, 8)
		room[0] = producer.Header{Key: "mine"}
		_, err = p.Send(t.Context(), producer.Record[string, string]{Topic: "t", Key: "a", Value: "b", Headers: room}).Wait(t.Context())
		require.NoError(t, err)
		end(t, p)
		want := []producer.Header{{Key: "mine"}, {Key: "k", Value: []byte("t")}, {Key: "v", Value: []byte("t")}}
		assert.Equal(t, want, l.Cluster().Records("t", 0)[0].Headers)
		assert.Equal(t, make([]producer.Header, 7), room[1:8])
	})
}

// S-05, S-26: the bound is on the most the record can take up, framing and headers included: exactly that still goes.
func TestRecordSizeAtTheLimit(t *testing.T) {
	inLab(t, testbroker.Config{}, func(t *testing.T, l *lab) {
		const limit = 2000
		p, err := producer.New(producer.Config{BootstrapServers: l.Addrs(), Dial: l.network.Dial, MaxRequestSize: limit}, producer.Null(), producer.Bytes())
		require.NoError(t, err)
		headers := []producer.Header{{Key: "h", Value: []byte("v")}}
		frame := protocol.MaxRecordSize(nil, make([]byte, 1000), headers) - 1000
		for over, fails := range map[int]bool{0: false, 1: true} {
			_, err := p.Send(t.Context(), producer.Record[struct{}, []byte]{Topic: "t", Value: make([]byte, limit-frame+over), Headers: headers}).Wait(t.Context())
			assert.Equal(t, fails, err != nil, "%d over: %v", over, err)
		}
		end(t, p)
	})
}

// S-27: a record without a time has the time when it was taken in, after the wait for metadata; one with a time
// keeps it, to the millisecond, however old.
func TestTimestamps(t *testing.T) {
	fault := func(r *testbroker.Request) testbroker.Verdict {
		if r.API == protocol.KeyMetadata && len(r.Topics) > 0 {
			return testbroker.Verdict{Delay: 3 * time.Second}
		}
		return testbroker.Verdict{}
	}
	inLab(t, testbroker.Config{Fault: fault, AutoCreate: testbroker.AutoCreateAtOnce}, func(t *testing.T, l *lab) {
		p := l.texts(t, nil)
		began := time.Now()
		m, err := p.Send(t.Context(), text("t", "v")).Wait(t.Context())
		require.NoError(t, err)
		assert.Equal(t, began.Add(3*time.Second), m.Timestamp.In(began.Location()))
		old := text("t", "v")
		old.Timestamp = time.Date(1985, 10, 26, 1, 21, 0, 123_456_789, time.UTC)
		m, err = p.Send(t.Context(), old).Wait(t.Context())
		require.NoError(t, err)
		assert.Equal(t, old.Timestamp.Truncate(time.Millisecond), m.Timestamp.UTC())
		epoch := text("t", "v")
		epoch.Timestamp = time.Unix(0, 0)
		_, err = p.Send(t.Context(), epoch).Wait(t.Context())
		require.NoError(t, err)
		end(t, p)
		records := l.Cluster().Records("t", 0)
		assert.Equal(t, old.Timestamp.UnixMilli(), records[1].Timestamp)
		assert.Zero(t, records[2].Timestamp)
	})
}

// SER-01, S-24: what the built-in serializers make of a value is what the log has.
func TestSerializersEndToEnd(t *testing.T) {
	inLab(t, testbroker.Config{}, func(t *testing.T, l *lab) {
		type order struct {
			ID   int    `json:"id"`
			Name string `json:"name,omitempty"`
		}
		at := int64(0)
		check := func(key, value []byte) {
			t.Helper()
			r := l.Cluster().RecordsFrom("t", 0, at)
			require.Len(t, r, 1)
			at++
			assert.Equal(t, key, r[0].Key)
			assert.Equal(t, value, r[0].Value)
		}
		id := [16]byte{0x12, 0x3e, 0x45, 0x67, 0xe8, 0x9b, 0x12, 0xd3, 0xa4, 0x56, 0x42, 0x66, 0x14, 0x17, 0x40, 0x00}
		sendOne(t, l, producer.Int32(), producer.Int64(), -2, math.MaxInt64)
		check([]byte{0xff, 0xff, 0xff, 0xfe}, binary.BigEndian.AppendUint64(nil, math.MaxInt64))
		sendOne(t, l, producer.Float64(), producer.UUID(), -0.5, id)
		check(binary.BigEndian.AppendUint64(nil, math.Float64bits(-0.5)), []byte("123e4567-e89b-12d3-a456-426614174000"))
		sendOne(t, l, producer.Null(), producer.JSON[order](), struct{}{}, order{ID: 7})
		check(nil, []byte(`{"id":7}`))
		sendOne(t, l, producer.String(), producer.Bytes(), "", nil)
		check([]byte{}, nil)
		sendOne(t, l, producer.Bytes(), producer.String(), nil, "ünï\x00")
		check(nil, []byte("ünï\x00"))
	})
}

func sendOne[K, V any](t *testing.T, l *lab, key producer.Serializer[K], value producer.Serializer[V], k K, v V) {
	t.Helper()
	p, err := producer.New(l.config, key, value)
	require.NoError(t, err)
	_, err = p.Send(t.Context(), producer.Record[K, V]{Topic: "t", Key: k, Value: v}).Wait(t.Context())
	require.NoError(t, err)
	end(t, p)
}
