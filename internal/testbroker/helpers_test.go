package testbroker

import (
	"encoding/binary"
	"hash/crc32"
	"io"
	"net"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/kafka-reservoir/producer/protocol"
)

var epoch = time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)

// batchSpec is a batch to build. The zero value with one record is a plain batch of now.
type batchSpec struct {
	codec    protocol.Codec
	producer protocol.ProducerID
	sequence int32
	at       int64 // of the first record, ms; each next one is a millisecond later
	values   []string
	keys     [][]byte
	headers  []protocol.Header
	compress func([]byte) []byte
}

// plain is a batch without idempotence.
func plain(values ...string) []byte {
	return batchSpec{producer: protocol.NoProducerID, sequence: -1, values: values}.build()
}

// idempotent is a batch of a producer.
func idempotent(id int64, epoch int16, sequence int32, values ...string) []byte {
	return batchSpec{producer: protocol.ProducerID{ID: id, Epoch: epoch}, sequence: sequence, values: values}.build()
}

func (s batchSpec) build() []byte {
	at := s.at
	if at == 0 {
		at = epoch.UnixMilli()
	}
	var records []byte
	for i, value := range s.values {
		var key []byte
		if i < len(s.keys) {
			key = s.keys[i]
		}
		body := protocol.RecordBodySize(int64(i), int32(i), key, []byte(value), s.headers)
		records = protocol.AppendRecord(records, body, int64(i), int32(i), key, []byte(value), s.headers)
	}
	if s.compress != nil {
		records = s.compress(records)
	}
	b := append(make([]byte, protocol.BatchHeaderSize), records...)
	n := int32(len(s.values))
	protocol.StampBatch([][]byte{b}, len(b), protocol.BatchStamp{
		Codec: s.codec, Count: n, BaseTimestamp: at, MaxTimestamp: at + int64(n) - 1, Producer: s.producer, BaseSequence: s.sequence,
	})
	return b
}

// restamp sets the CRC right after a test changed the batch.
func restamp(b []byte) []byte {
	binary.BigEndian.PutUint32(b[17:], crc32.Checksum(b[21:], crc32.MakeTable(crc32.Castagnoli)))
	return b
}

func produce(acks int16, topic string, partition int32, batches ...[]byte) *protocol.ProduceRequest {
	r := &protocol.ProduceRequest{Acks: acks, TimeoutMs: 1000}
	t := protocol.ProduceRequestTopic{Name: topic}
	for i, b := range batches {
		t.Partitions = append(t.Partitions, protocol.ProduceRequestPartition{Index: partition + int32(i), Records: b})
	}
	r.Topics = append(r.Topics, t)
	return r
}

func frameOf(m protocol.Message, version int16, corr int32) []byte {
	id := "test"
	b := protocol.AppendRequestHeader(nil, protocol.RequestHeader{Key: m.Key(), Version: version, CorrelationID: corr, ClientID: &id})
	return m.AppendTo(b, version)
}

// responseFor is an empty response of the same API.
func responseFor(m protocol.Message) protocol.Message {
	switch m.(type) {
	case *protocol.ProduceRequest:
		return new(protocol.ProduceResponse)
	case *protocol.FetchRequest:
		return new(protocol.FetchResponse)
	case *protocol.ListOffsetsRequest:
		return new(protocol.ListOffsetsResponse)
	case *protocol.MetadataRequest:
		return new(protocol.MetadataResponse)
	case *protocol.FindCoordinatorRequest:
		return new(protocol.FindCoordinatorResponse)
	case *protocol.ApiVersionsRequest:
		return new(protocol.ApiVersionsResponse)
	case *protocol.InitProducerIdRequest:
		return new(protocol.InitProducerIdResponse)
	}
	panic("no response")
}

// core drives a Cluster with time of its own.
type core struct {
	*Cluster
	t    *testing.T
	now  time.Time
	corr int32
	sent map[int32]sent // by correlation id
	conn ConnID         // the connection that send uses
	node int32
}

type sent struct {
	m       protocol.Message
	version int16
}

func newCore(t *testing.T, cfg Config) *core {
	return &core{Cluster: NewCluster(cfg), t: t, now: epoch, sent: map[int32]sent{}, conn: 1, node: 1}
}

// send hands a request to the cluster.
func (c *core) send(m protocol.Message, version int16) []Action {
	c.corr++
	c.sent[c.corr] = sent{m, version}
	return c.Handle(c.node, c.conn, frameOf(m, version, c.corr), c.now)
}

// after lets time pass and collects what becomes due.
func (c *core) after(d time.Duration) []Action {
	c.now = c.now.Add(d)
	return c.Tick(c.now)
}

// decode is the response in an action that writes one, and its correlation id.
func (c *core) decode(a Action) (protocol.Message, int32) {
	c.t.Helper()
	require.Equal(c.t, Write, a.Kind)
	require.Equal(c.t, len(a.Bytes)-4, int(binary.BigEndian.Uint32(a.Bytes)), "length prefix")
	corr := int32(binary.BigEndian.Uint32(a.Bytes[4:]))
	s, ok := c.sent[corr]
	require.True(c.t, ok, "correlation id %d", corr)
	_, rest, err := protocol.ReadResponseHeader(a.Bytes[4:], s.m.Key(), s.version)
	require.NoError(c.t, err)
	resp := responseFor(s.m)
	require.NoError(c.t, resp.ReadFrom(rest, s.version))
	return resp, corr
}

// do sends a request and returns its answer, which must come at once.
func (c *core) do(m protocol.Message, version int16) protocol.Message {
	c.t.Helper()
	actions := c.send(m, version)
	require.Len(c.t, actions, 1)
	resp, corr := c.decode(actions[0])
	require.Equal(c.t, c.corr, corr)
	return resp
}

// produce sends one batch and returns the partition's part of the answer.
func (c *core) produce(topic string, partition int32, batch []byte) protocol.ProduceResponsePartition {
	c.t.Helper()
	r := c.do(produce(-1, topic, partition, batch), 12).(*protocol.ProduceResponse)
	require.Len(c.t, r.Topics, 1)
	require.Len(c.t, r.Topics[0].Partitions, 1)
	return r.Topics[0].Partitions[0]
}

// values are the values in a log.
func (c *core) values(topic string, partition int32) []string {
	var v []string
	for _, r := range c.Records(topic, partition) {
		v = append(v, string(r.Value))
	}
	return v
}

// client is a raw Kafka client over a net.Conn.
type client struct {
	t    *testing.T
	nc   net.Conn
	corr int32
}

func dial(t *testing.T, addr string) *client {
	t.Helper()
	nc, err := net.Dial("tcp", addr)
	require.NoError(t, err)
	t.Cleanup(func() { nc.Close() })
	return &client{t: t, nc: nc}
}

func (c *client) send(m protocol.Message, version int16) {
	c.t.Helper()
	c.corr++
	_, err := c.nc.Write(prefixed(frameOf(m, version, c.corr)))
	require.NoError(c.t, err)
}

func prefixed(b []byte) []byte {
	return append(binary.BigEndian.AppendUint32(nil, uint32(len(b))), b...)
}

// read is the next frame.
func (c *client) read() ([]byte, error) {
	var size [4]byte
	if _, err := io.ReadFull(c.nc, size[:]); err != nil {
		return nil, err
	}
	b := make([]byte, binary.BigEndian.Uint32(size[:]))
	_, err := io.ReadFull(c.nc, b)
	return b, err
}

func (c *client) receive(m protocol.Message, version int16, corr int32) protocol.Message {
	c.t.Helper()
	b, err := c.read()
	require.NoError(c.t, err)
	got, rest, err := protocol.ReadResponseHeader(b, m.Key(), version)
	require.NoError(c.t, err)
	require.Equal(c.t, corr, got)
	resp := responseFor(m)
	require.NoError(c.t, resp.ReadFrom(rest, version))
	return resp
}

func (c *client) do(m protocol.Message, version int16) protocol.Message {
	c.t.Helper()
	c.send(m, version)
	return c.receive(m, version, c.corr)
}
