package testbroker

import (
	"bytes"
	"encoding/binary"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/kafka-reservoir/producer/protocol"
)

func TestProduceStoresRecords(t *testing.T) {
	c := newCore(t, Config{Topics: []Topic{{Name: "t"}}})
	batch := batchSpec{
		producer: protocol.ProducerID{ID: 9, Epoch: 2}, sequence: 0, values: []string{"", "v1"}, keys: [][]byte{nil, {}},
		headers: []protocol.Header{{Key: "h", Value: nil}, {Key: "h", Value: []byte{}}},
	}.build()
	out := c.produce("t", 0, batch)
	assert.Equal(t, protocol.None, out.ErrorCode)
	assert.Equal(t, int64(0), out.BaseOffset)
	assert.Equal(t, int64(-1), out.LogAppendTimeMs)
	assert.Equal(t, int64(0), out.LogStartOffset)
	assert.Equal(t, int64(2), c.produce("t", 0, plain("x")).BaseOffset)

	headers := []protocol.Header{{Key: "h", Value: nil}, {Key: "h", Value: []byte{}}}
	want := []Record{
		{Offset: 0, Timestamp: epoch.UnixMilli(), Value: []byte{}, Headers: headers, ProducerID: 9, ProducerEpoch: 2, Sequence: 0},
		{Offset: 1, Timestamp: epoch.UnixMilli() + 1, Key: []byte{}, Value: []byte("v1"), Headers: headers, ProducerID: 9, ProducerEpoch: 2, Sequence: 1},
		{Offset: 2, Timestamp: epoch.UnixMilli(), Value: []byte("x"), ProducerID: -1, ProducerEpoch: -1, Sequence: -1},
	}
	assert.Equal(t, want, c.Records("t", 0))
	assert.Equal(t, want[1:], c.RecordsFrom("t", 0, 1))
	assert.Equal(t, PartitionStats{End: 3, Batches: 2, Records: 3, Bytes: int64(len(batch) + len(plain("x")))}, c.PartitionStats("t", 0))
	c.Check(t)
}

// PRQ-01, PRQ-02, DRB-05, DRB-06, DRB-07, DRC-02, DRC-04, DRC-05, DRC-06, DRC-07: each is kept as a violation;
// what Kafka refuses is refused with its code, and nothing stored.
func TestProduceRefusesBadBatches(t *testing.T) {
	change := func(f func(b []byte)) []byte {
		b := plain("one", "two")
		f(b)
		return restamp(b)
	}
	put16 := func(at int, v uint16) []byte {
		return change(func(b []byte) { binary.BigEndian.PutUint16(b[at:], v) })
	}
	put32 := func(at int, v uint32) []byte {
		return change(func(b []byte) { binary.BigEndian.PutUint32(b[at:], v) })
	}
	put64 := func(at int, v uint64) []byte {
		return change(func(b []byte) { binary.BigEndian.PutUint64(b[at:], v) })
	}
	records := func(count int32, records ...byte) []byte {
		b := append(make([]byte, protocol.BatchHeaderSize), records...)
		protocol.StampBatch([][]byte{b}, len(b), protocol.BatchStamp{
			Count: count, BaseTimestamp: 5, MaxTimestamp: 5, Producer: protocol.NoProducerID, BaseSequence: -1,
		})
		return b
	}
	tests := []struct {
		name    string
		version int16
		batch   []byte
		want    protocol.ErrorCode
	}{
		{"null", 12, nil, protocol.InvalidRecord},
		{"empty", 12, []byte{}, protocol.InvalidRecord},
		{"shorter than a header", 12, plain("x")[:60], protocol.CorruptMessage},
		{"two batches", 12, append(plain("x"), plain("y")...), protocol.InvalidRecord},
		{"a byte too many", 12, append(plain("x"), 0), protocol.InvalidRecord},
		{"cut off", 12, plain("xyz")[:len(plain("xyz"))-1], protocol.CorruptMessage},
		{"format 1", 12, change(func(b []byte) { b[16] = 1 }), protocol.InvalidRecord},
		{"format 3", 12, change(func(b []byte) { b[16] = 3 }), protocol.CorruptMessage},
		{"crc", 12, func() []byte { b := plain("x"); b[len(b)-2] ^= 1; return b }(), protocol.CorruptMessage},
		{"zstd in v6", 6, batchSpec{codec: protocol.CodecZstd, producer: protocol.NoProducerID, sequence: -1, values: []string{"x"}}.build(), protocol.UnsupportedCompressionType},
		{"codec 5", 12, put16(21, 5), protocol.UnknownServerError},
		{"control batch", 12, put16(21, uint16(protocol.AttributeControl)), protocol.InvalidRecord},
		{"log append time", 12, put16(21, uint16(protocol.AttributeTimestampType)), protocol.InvalidTimestamp},
		{"transactional without producer id", 12, put16(21, uint16(protocol.AttributeTransactional)), protocol.InvalidRecord},
		{"base offset 1", 12, change(func(b []byte) { b[7] = 1 }), protocol.InvalidRecord},
		{"count 0", 12, records(0), protocol.InvalidRecord},
		{"negative count", 12, put32(57, 0xffffffff), protocol.InvalidRecord},
		{"count too small", 12, put32(57, 1), protocol.InvalidRecord},
		{"count too large", 12, change(func(b []byte) {
			binary.BigEndian.PutUint32(b[57:], 3)
			binary.BigEndian.PutUint32(b[23:], 2)
		}), protocol.InvalidRecord},
		{"last offset delta", 12, put32(23, 5), protocol.InvalidRecord},
		{"producer id without epoch", 12, put64(43, 7), protocol.InvalidRecord},
		{"producer id -2", 12, put64(43, ^uint64(1)), protocol.InvalidRecord},
		{"not gzip", 12, put16(21, uint16(protocol.CodecGzip)), protocol.CorruptMessage},
		{"record longer than the batch", 12, records(1, 0x7e, 0, 0, 0, 1, 1, 0), protocol.InvalidRecord},
		{"record longer than its fields", 12, records(1, 14, 0, 0, 0, 1, 1, 0, 0), protocol.InvalidRecord},
		{"record shorter than its fields", 12, records(1, 10, 0, 0, 0, 1, 1, 0), protocol.InvalidRecord},
		{"offset delta 1 first", 12, records(1, 12, 0, 0, 2, 1, 1, 0), protocol.InvalidRecord},
		{"negative header count", 12, records(1, 12, 0, 0, 0, 1, 1, 1), protocol.InvalidRecord},
		{"null header key", 12, records(1, 16, 0, 0, 0, 1, 1, 2, 1, 1), protocol.InvalidRecord},
		{"endless varint", 12, records(1, 28, 0, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff), protocol.InvalidRecord},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			c := newCore(t, Config{Topics: []Topic{{Name: "t"}}})
			r := c.do(produce(-1, "t", 0, tt.batch), tt.version).(*protocol.ProduceResponse)
			out := r.Topics[0].Partitions[0]
			assert.Equal(t, tt.want.Name(), out.ErrorCode.Name())
			assert.Equal(t, int64(-1), out.BaseOffset)
			assert.Len(t, c.Violations(), 1)
			_, end := c.Offsets("t", 0)
			assert.Zero(t, end)
		})
	}
	odd := []struct {
		name  string
		batch []byte
	}{
		{"delete horizon", put16(21, 1<<6)},
		{"max timestamp too low", put64(35, uint64(epoch.UnixMilli()))},
		{"max timestamp too high", put64(35, uint64(epoch.UnixMilli()+2))},
		{"negative timestamps", batchSpec{at: -5, producer: protocol.NoProducerID, sequence: -1, values: []string{"x"}}.build()},
		{"epoch without producer id", put16(51, 0)},
		{"sequence without producer id", put32(53, 0)}, // franz-go does that
		{"record attributes", records(1, 12, 1, 0, 0, 1, 1, 0)},
	}
	for _, tt := range odd {
		t.Run(tt.name, func(t *testing.T) {
			c := newCore(t, Config{Topics: []Topic{{Name: "t"}}})
			assert.Equal(t, protocol.None, c.produce("t", 0, tt.batch).ErrorCode, "Kafka takes it")
			assert.Len(t, c.Violations(), 1)
		})
	}
	t.Run("the same without a fault", func(t *testing.T) {
		c := newCore(t, Config{Topics: []Topic{{Name: "t"}}})
		for _, b := range [][]byte{change(func([]byte) {}), records(1, 12, 0, 0, 0, 1, 1, 0)} {
			assert.Equal(t, protocol.None, c.produce("t", 0, b).ErrorCode)
		}
		c.Check(t)
	})
}

// S-97: a frame has to hold the request and nothing more.
func TestRefusesBadFrames(t *testing.T) {
	good := frameOf(produce(-1, "t", 0, plain("x")), 12, 1)
	corr := func(f func(b []byte)) []byte {
		b := bytes.Clone(good)
		f(b)
		return b
	}
	tests := []struct {
		name  string
		frame []byte
	}{
		{"empty", nil},
		{"too short for a header", good[:7]},
		{"cut", good[:len(good)-1]},
		{"a byte too many", append(bytes.Clone(good), 0)},
		{"unknown api", corr(func(b []byte) { b[1] = 200 })},
		{"version too new", corr(func(b []byte) { b[3] = 14 })},
		{"version no longer served", corr(func(b []byte) { b[3] = 2 })},
		{"another version than the body's", corr(func(b []byte) { b[3] = 8 })},
		{"client id longer than the frame", corr(func(b []byte) { b[8] = 0x7f })},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			c := newCore(t, Config{Topics: []Topic{{Name: "t"}}})
			actions := c.Handle(1, 1, tt.frame, c.now)
			assert.Equal(t, []Action{{Node: 1, Conn: 1, Kind: CloseFIN}}, actions)
			assert.Len(t, c.TakeViolations(), 1)
			assert.Empty(t, c.Violations())
			assert.Empty(t, c.Handle(1, 1, good, c.now), "the connection is over")
		})
	}
}

func TestProduceWhereItCannotGo(t *testing.T) {
	c := newCore(t, Config{Nodes: 2, Topics: []Topic{{Name: "t", Partitions: 2}, {Name: "small", MaxMessageBytes: 80}}})
	c.SetTopicError("secret", protocol.TopicAuthorizationFailed)
	tests := []struct {
		topic     string
		partition int32
		batch     []byte
		want      protocol.ErrorCode
	}{
		{"t", 1, plain("x"), protocol.NotLeaderOrFollower},
		{"t", 2, plain("x"), protocol.UnknownTopicOrPartition},
		{"t", -1, plain("x"), protocol.UnknownTopicOrPartition},
		{"none", 0, plain("x"), protocol.UnknownTopicOrPartition},
		{"secret", 0, plain("x"), protocol.TopicAuthorizationFailed},
		{"small", 0, plain("a longer value than allowed"), protocol.MessageTooLarge},
		{"small", 0, plain("x"), protocol.None},
	}
	for _, tt := range tests {
		assert.Equal(t, tt.want.Name(), c.produce(tt.topic, tt.partition, tt.batch).ErrorCode.Name(), "%s-%d", tt.topic, tt.partition)
	}
	r := c.do(produce(5, "t", 0, plain("x")), 12).(*protocol.ProduceResponse)
	assert.Equal(t, protocol.InvalidRequiredAcks, r.Topics[0].Partitions[0].ErrorCode)
	c.Check(t)
}

// KIP-951: from v10 on a refusal says who leads now, and where that is.
func TestProduceLeaderHint(t *testing.T) {
	c := newCore(t, Config{Nodes: 3, Topics: []Topic{{Name: "t", Leaders: []int32{1}}}})
	require.NoError(t, c.SetAddr(3, "three", 99))
	require.NoError(t, c.MoveLeader("t", 0, 3))
	for version := int16(3); version <= 12; version++ {
		r := c.do(produce(-1, "t", 0, plain("x")), version).(*protocol.ProduceResponse)
		out := r.Topics[0].Partitions[0]
		require.Equal(t, protocol.NotLeaderOrFollower, out.ErrorCode)
		if version < 10 {
			assert.Equal(t, protocol.NoLeader, out.CurrentLeader)
			continue
		}
		assert.Equal(t, protocol.LeaderIDAndEpoch{LeaderID: 3, LeaderEpoch: 1}, out.CurrentLeader)
		assert.Equal(t, []protocol.NodeEndpoint{{NodeID: 3, Host: "three", Port: 99}}, r.NodeEndpoints)
	}
	require.NoError(t, c.MoveLeader("t", 0, NoLeader))
	assert.Equal(t, protocol.NoLeader, c.produce("t", 0, plain("x")).CurrentLeader)
}

// KIP-516: v13 names topics by id.
func TestProduceByTopicID(t *testing.T) {
	c := newCore(t, Config{Topics: []Topic{{Name: "t"}}})
	send := func(id protocol.UUID) protocol.ProduceResponsePartition {
		m := produce(-1, "", 0, plain("x"))
		m.Topics[0].ID = id
		r := c.do(m, 13).(*protocol.ProduceResponse)
		require.Equal(t, id, r.Topics[0].ID)
		return r.Topics[0].Partitions[0]
	}
	old := c.TopicID("t")
	assert.Equal(t, protocol.None, send(old).ErrorCode)
	assert.Equal(t, protocol.UnknownTopicID, send(protocol.UUID{}).ErrorCode)
	require.NoError(t, c.RecreateTopic(Topic{Name: "t"}))
	assert.NotEqual(t, old, c.TopicID("t"))
	assert.Equal(t, protocol.UnknownTopicID, send(old).ErrorCode)
	assert.Equal(t, int64(0), send(c.TopicID("t")).BaseOffset)
	requests := c.Requests()
	assert.Equal(t, "t", requests[len(requests)-1].Request.Batches[0].Topic, "the journal has names")
}

// S-90, FC-109: with acks 0 there is no answer; an error closes the connection.
func TestProduceAcksZero(t *testing.T) {
	c := newCore(t, Config{Topics: []Topic{{Name: "t"}}})
	assert.Empty(t, c.send(produce(0, "t", 0, plain("x")), 12))
	assert.Equal(t, []string{"x"}, c.values("t", 0))
	assert.Equal(t, []Action{{Node: 1, Conn: 1, Kind: CloseFIN}}, c.send(produce(0, "t", 5, plain("x")), 12))
}

func TestProduceIdempotent(t *testing.T) {
	c := newCore(t, Config{Nodes: 2, Topics: []Topic{{Name: "t", Leaders: []int32{1}}}, NodeModels: map[int32]LogModel{2: Legacy}})
	id := c.do(&protocol.InitProducerIdRequest{TransactionTimeoutMs: 1, ProducerID: -1, ProducerEpoch: -1}, 5).(*protocol.InitProducerIdResponse)
	require.Equal(t, protocol.None, id.ErrorCode)
	send := func(sequence int32, values ...string) protocol.ProduceResponsePartition {
		return c.produce("t", 0, idempotent(id.ProducerID, id.ProducerEpoch, sequence, values...))
	}
	assert.Equal(t, int64(0), send(0, "a", "b").BaseOffset)
	assert.Equal(t, protocol.OutOfOrderSequenceNumber, send(3, "d").ErrorCode)
	assert.Equal(t, int64(2), send(2, "c").BaseOffset)
	again := send(0, "a", "b")
	assert.Equal(t, protocol.None, again.ErrorCode)
	assert.Equal(t, int64(0), again.BaseOffset, "a repeat has the original offset")
	assert.Equal(t, []string{"a", "b", "c"}, c.values("t", 0))
	assert.Equal(t, int64(1), c.PartitionStats("t", 0).Duplicates)

	// FC-016: state that expired, and what the answer says of the log's start.
	require.NoError(t, c.DeleteRecords("t", 0, 3))
	require.NoError(t, c.ExpireProducers("t", 0))
	out := send(3, "d")
	assert.Equal(t, protocol.UnknownProducerID, out.ErrorCode)
	assert.Equal(t, int64(3), out.LogStartOffset)

	// FC-001: a log that moved to a legacy node takes any first sequence.
	require.NoError(t, c.MoveLeader("t", 0, 2))
	c.node, c.conn = 2, 2
	assert.Equal(t, protocol.None, send(7, "x").ErrorCode)
	assert.Equal(t, protocol.OutOfOrderSequenceNumber, send(6, "y").ErrorCode)
	require.NoError(t, c.PrimeProducer("t", 0, protocol.ProducerID{ID: id.ProducerID}, 2147483640))
	assert.Equal(t, protocol.None, send(2147483640, "z").ErrorCode)
	c.Check(t)
}

// Delivery rule 2, C4: a sequence that may be in a log stays with its bytes; one that was refused for certain is
// free again.
func TestProduceSameSequenceOtherBytes(t *testing.T) {
	tests := []struct {
		name    string
		verdict Verdict
		want    int // violations
	}{
		{"stored", Verdict{}, 1},
		{"stored, answer lost", DropAfter(), 1},
		{"not stored, nobody told", DropBefore(), 1},
		{"muted", MuteBefore(), 1},
		{"timed out on the broker", Answer(protocol.RequestTimedOut), 1},
		{"too large", Answer(protocol.MessageTooLarge), 0},
		{"not leader", Answer(protocol.NotLeaderOrFollower), 1}, // with acks=all it may be said after the append
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			verdicts := []Verdict{tt.verdict, {}}
			c := newCore(t, Config{Topics: []Topic{{Name: "t"}}, Fault: func(*Request) Verdict {
				v := verdicts[0]
				verdicts = verdicts[1:]
				return v
			}})
			c.send(produce(-1, "t", 0, idempotent(1, 0, 0, "one")), 12)
			c.conn = 2
			c.send(produce(-1, "t", 0, idempotent(1, 0, 0, "two")), 12)
			assert.Len(t, c.Violations(), tt.want)
		})
	}
}

func TestProduceTimestamps(t *testing.T) {
	at := func(d time.Duration) []byte {
		return batchSpec{at: epoch.Add(d).UnixMilli(), producer: protocol.NoProducerID, sequence: -1, values: []string{"a", "b"}}.build()
	}
	c := newCore(t, Config{Topics: []Topic{{Name: "t"}, {Name: "append", LogAppendTime: true}}})
	assert.Equal(t, protocol.None, c.produce("t", 0, at(-1000*time.Hour)).ErrorCode)
	assert.Equal(t, protocol.None, c.produce("t", 0, at(59*time.Minute)).ErrorCode)
	out := c.produce("t", 0, at(time.Hour))
	assert.Equal(t, protocol.InvalidTimestamp, out.ErrorCode)
	require.Len(t, out.Details.RecordErrors, 1, "the second record is a millisecond too late")
	assert.Equal(t, int32(1), out.Details.RecordErrors[0].BatchIndex)

	// DRB-08: log append time is written into the stored batch, whose CRC stays right.
	c.now = epoch.Add(time.Minute)
	out = c.produce("append", 0, at(0))
	assert.Equal(t, c.now.UnixMilli(), out.LogAppendTimeMs)
	for _, r := range c.Records("append", 0) {
		assert.Equal(t, c.now.UnixMilli(), r.Timestamp)
	}
	c.Check(t)

	old := newCore(t, Config{Generation: Kafka28, Topics: []Topic{{Name: "t"}}})
	r := old.do(produce(-1, "t", 0, at(24*time.Hour)), 9).(*protocol.ProduceResponse)
	assert.Equal(t, protocol.None, r.Topics[0].Partitions[0].ErrorCode, "before 4.0 the future is open")
}

func TestProduceOldFormatsByGeneration(t *testing.T) {
	b := plain("x")
	b[16] = 1
	restamp(b)
	tests := []struct {
		g    *Generation
		want protocol.ErrorCode // None: closed
	}{
		{Kafka44, protocol.InvalidRecord}, {Kafka28, protocol.InvalidRecord}, {Kafka21, protocol.CorruptMessage},
		{Kafka11, protocol.None}, {Kafka011, protocol.None},
	}
	for _, tt := range tests {
		t.Run(tt.g.Name, func(t *testing.T) {
			c := newCore(t, Config{Generation: tt.g, Topics: []Topic{{Name: "t"}}})
			actions := c.send(produce(-1, "t", 0, b), 3)
			require.Len(t, actions, 1)
			if tt.want == protocol.None {
				assert.Equal(t, CloseFIN, actions[0].Kind)
				return
			}
			r, _ := c.decode(actions[0])
			assert.Equal(t, tt.want, r.(*protocol.ProduceResponse).Topics[0].Partitions[0].ErrorCode)
		})
	}
}

func TestProducePartitionTwice(t *testing.T) {
	c := newCore(t, Config{Topics: []Topic{{Name: "t"}}})
	m := produce(-1, "t", 0, plain("x"), plain("y"))
	m.Topics[0].Partitions[1].Index = 0
	c.do(m, 12)
	assert.Len(t, c.Violations(), 1)
}

func TestLeaderDelay(t *testing.T) {
	c := newCore(t, Config{LeaderDelay: 20 * time.Millisecond})
	c.after(0)
	require.NoError(t, c.CreateTopic(Topic{Name: "t"}))
	assert.Equal(t, protocol.NotLeaderOrFollower, c.produce("t", 0, plain("x")).ErrorCode)
	c.after(20 * time.Millisecond)
	assert.Equal(t, protocol.None, c.produce("t", 0, plain("x")).ErrorCode)
}
