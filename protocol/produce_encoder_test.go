package protocol

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"io"
	"net"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/kafka-reservoir/producer/internal/invariants"
)

// encode writes m by way of e, each batch cut into slices of at most cut bytes.
func encode(e *ProduceEncoder, h RequestHeader, m *ProduceRequest, cut int) Frame {
	e.Begin(h, m.TransactionalID, m.Acks, m.TimeoutMs, len(m.Topics))
	for _, topic := range m.Topics {
		e.Topic(topic.Name, topic.ID, len(topic.Partitions))
		for _, p := range topic.Partitions {
			var chain [][]byte
			for rest := p.Records; len(rest) > 0; {
				n := min(cut, len(rest))
				chain, rest = append(chain, rest[:n]), rest[n:]
			}
			e.Partition(p.Index, chain, len(p.Records))
		}
	}
	return e.Finish()
}

// produceRequest has topics of different names and partitions with different batches.
func produceRequest(topics, partitions int, version int16) *ProduceRequest {
	m := &ProduceRequest{TransactionalID: ptr("tx"), Acks: -1, TimeoutMs: 30000}
	for i := range topics {
		topic := ProduceRequestTopic{}
		if version >= 13 {
			topic.ID = UUID{1, byte(i)}
		} else {
			topic.Name = fmt.Sprintf("topic-%d", i)
		}
		for j := range partitions {
			records := makeBatch(idempotent, testRecord{key: []byte(topic.Name), value: bytes.Repeat([]byte{byte(j)}, 10+j)})
			topic.Partitions = append(topic.Partitions, ProduceRequestPartition{int32(j), records})
		}
		m.Topics = append(m.Topics, topic)
	}
	return m
}

func join(t *testing.T, f Frame) []byte {
	t.Helper()
	b, err := io.ReadAll(&f.Buffers) // as a writer does: from the front, entries set to nil
	require.NoError(t, err)
	require.Len(t, b, f.Size)
	return b
}

// S-96: what the hot path writes is, in every version, frame length, header and the same body as the plain
// encoder's, and an encoder used before leaves nothing behind. The batches are not copied.
func TestProduceEncoderWritesProduceRequests(t *testing.T) {
	var e ProduceEncoder
	minVersion, maxVersion := KeyProduce.Versions()
	for v := minVersion; v <= maxVersion; v++ {
		for _, size := range [][2]int{{0, 0}, {1, 1}, {1, 3}, {3, 1}, {20, 20}, {2, 0}} {
			m := produceRequest(size[0], size[1], v)
			h := RequestHeader{Key: KeyProduce, Version: v, CorrelationID: 9, ClientID: ptr("client")}
			f := encode(&e, h, m, 32)
			held := map[*byte]bool{}
			for _, b := range f.Buffers {
				held[&b[0]] = true
			}
			for _, topic := range m.Topics {
				for _, p := range topic.Partitions {
					require.True(t, held[&p.Records[0]], "batch held by reference")
				}
			}
			got := join(t, f)
			want := NewFrame(h, m)
			require.Equal(t, want.Buffers[0], got, "v%d, %d topics of %d partitions", v, size[0], size[1])
			require.Equal(t, want.Size, len(got))
			require.Equal(t, uint32(len(got)-4), binary.BigEndian.Uint32(got))

			gotHeader, body, err := ReadRequestHeader(got[4:])
			require.NoError(t, err)
			require.Equal(t, h, gotHeader)
			var back ProduceRequest
			require.NoError(t, back.ReadFrom(body, v))
			require.Equal(t, want.Buffers[0][len(want.Buffers[0])-len(body):], back.AppendTo(nil, v))
			e.Reset()
		}
	}
}

// Reset lets go of the batches: nothing of the encoder keeps their memory alive.
func TestProduceEncoderResetLetsGo(t *testing.T) {
	var e ProduceEncoder
	encode(&e, RequestHeader{Key: KeyProduce, Version: 9}, produceRequest(2, 2, 9), 16)
	e.Reset()
	for _, b := range e.slabs[:cap(e.slabs)] {
		assert.Nil(t, b)
	}
	for _, b := range e.buffers[:cap(e.buffers)] {
		assert.Nil(t, b)
	}
}

// A writer shortens and clears the entries of the frame it was given; the next frame is whole all the same.
func TestProduceEncoderSurvivesItsWriter(t *testing.T) {
	var e ProduceEncoder
	h := RequestHeader{Key: KeyProduce, Version: 13}
	m := produceRequest(3, 3, 13)
	want := NewFrame(h, m).Buffers[0]
	for range 3 {
		f := encode(&e, h, m, 20)
		var sink bytes.Buffer
		n, err := f.Buffers.WriteTo(onlyWriter{&sink})
		require.NoError(t, err)
		require.Equal(t, int64(f.Size), n)
		require.Equal(t, want, sink.Bytes())
		e.Reset()
	}
}

type onlyWriter struct{ io.Writer }

// The frame of an ordinary message is one buffer.
func TestNewFrame(t *testing.T) {
	h := RequestHeader{Key: KeyMetadata, Version: 1, CorrelationID: 5, ClientID: ptr("c")}
	f := NewFrame(h, &MetadataRequest{})
	assert.Equal(t, Frame{
		Buffers: net.Buffers{{0, 0, 0, 15, 0, 3, 0, 1, 0, 0, 0, 5, 0, 1, 'c', 0xff, 0xff, 0xff, 0xff}},
		Size:    19,
	}, f)
}

// What one response said does not show through in the next, smaller or larger.
func TestProduceResponseIsReusable(t *testing.T) {
	minVersion, maxVersion := KeyProduce.Versions()
	var got ProduceResponse
	for v := maxVersion; v >= minVersion; v-- {
		for _, partitions := range []int{1, 4, 0, 2} {
			m := goldenMessages["ProduceResponse"](v).(*ProduceResponse)
			p := m.Topics[0].Partitions
			m.Topics[0].Partitions = append(p, p...)[:partitions]
			require.NoError(t, got.ReadFrom(m.AppendTo(nil, v), v))
			require.Equal(t, m.AppendTo(nil, v), got.AppendTo(nil, v))
			plain := ProduceResponse{Topics: []ProduceResponseTopic{{Partitions: []ProduceResponsePartition{{CurrentLeader: NoLeader}, {CurrentLeader: NoLeader}}}, {}}}
			require.NoError(t, got.ReadFrom(plain.AppendTo(nil, v), v))
			require.Equal(t, plain.AppendTo(nil, v), got.AppendTo(nil, v))
		}
	}
}

// FC-127: a zero topic id never goes on the wire; who has one must choose a version that names topics.
func TestProduceEncoderRefusesZeroIDs(t *testing.T) {
	if !invariants.Enabled {
		t.Skip("checked with -tags invariants")
	}
	var e ProduceEncoder
	e.Begin(RequestHeader{Key: KeyProduce, Version: 13}, nil, -1, 0, 1)
	assert.Panics(t, func() { e.Topic("orders", UUID{}, 1) })
	e.Reset()
	e.Begin(RequestHeader{Key: KeyProduce, Version: 12}, nil, -1, 0, 1)
	e.Topic("orders", UUID{}, 0)
}

// FC-130: an answer is decoded as it is, with partitions missing, doubled or unasked for, and with any code:
// what to make of it is the sender's to decide.
func TestProduceResponseIsVerbatim(t *testing.T) {
	p := func(index int32, code ErrorCode) ProduceResponsePartition {
		return ProduceResponsePartition{Index: index, ErrorCode: code, BaseOffset: -1, LogAppendTimeMs: -1, LogStartOffset: -1, CurrentLeader: NoLeader}
	}
	want := ProduceResponse{Topics: []ProduceResponseTopic{
		{Name: []byte("orders"), Partitions: []ProduceResponsePartition{p(0, None), p(2, ReplicaNotAvailable), p(2, None), p(-7, UnknownServerError), p(9, 9999)}},
		{Name: []byte("orders"), Partitions: []ProduceResponsePartition{p(0, RequestTimedOut)}},
	}}
	var got ProduceResponse
	require.NoError(t, got.ReadFrom(want.AppendTo(nil, 7), 7))
	assert.Equal(t, want, got)
}
