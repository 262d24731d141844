package conformance

import (
	"cmp"
	"context"
	"encoding/binary"
	"fmt"
	"hash/crc32"
	"math"
	"net"
	"os"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kmsg"
	"github.com/twmb/franz-go/pkg/kversion"

	"github.com/kafka-reservoir/producer/internal/simnet"
	"github.com/kafka-reservoir/producer/internal/testbroker"
	"github.com/kafka-reservoir/producer/protocol"
)

// brokerEnv names the environment variable that may have the address of a real broker, to ask it too:
//
//	cd integration && go run ./cmd/kafka -version 4.4.0
//	RESERVOIR_BROKER=127.0.0.1:27798 go test -run Kafka ./internal/conformance
const brokerEnv = "RESERVOIR_BROKER"

// batch is one for a broker.
type batch struct {
	partition       int32
	id              int64
	epoch           int16
	sequence, count int32
	acks            int16              // zero means all
	spoil           func(batch []byte) // changes the bytes; nil leaves them
	resum           bool               // the checksum is of the changed bytes
}

// script is what a broker is sent, one batch after the other, and what it answers: the offset, or an error.
type script struct {
	name    string
	batches []batch
	kafka   string // what Kafka 4.4.0 answers, which was asked
	ours    string // what the test broker answers, where it differs
	theirs  string // what kfake answers, where it differs

	// How the two are to be.
	model testbroker.LogModel
	opts  []kfake.Opt
}

const (
	outOfOrder = "OUT_OF_ORDER_SEQUENCE_NUMBER"
	epochPast  = "INVALID_PRODUCER_EPOCH"
	corrupt    = "CORRUPT_MESSAGE"
	invalid    = "INVALID_RECORD"
)

var scripts = []script{
	{name: "in sequence", batches: []batch{{id: 7, count: 2}, {id: 7, sequence: 2, count: 3}}, kafka: "0 2"},
	{name: "two producers", kafka: "0 2 3 4",
		batches: []batch{{id: 7, count: 2}, {id: 8, count: 1}, {id: 7, sequence: 2, count: 1}, {id: 8, sequence: 1, count: 1}}},
	{name: "no producer", kafka: "0 2",
		batches: []batch{{id: -1, epoch: -1, sequence: -1, count: 2}, {id: -1, epoch: -1, sequence: -1, count: 2}}},

	{name: "repeated", kafka: "0 0 2 0",
		batches: []batch{{id: 7, count: 2}, {id: 7, count: 2}, {id: 7, sequence: 2, count: 1}, {id: 7, count: 2}}},
	{name: "repeated, of the last five", kafka: "0 1 2 3 4 0", batches: append(ones(5), batch{id: 7, count: 1})},
	{name: "repeated, too old", kafka: "0 1 2 3 4 5 " + outOfOrder, batches: append(ones(6), batch{id: 7, count: 1})},
	{name: "part of one that is there", kafka: "0 " + outOfOrder + " " + outOfOrder + " " + outOfOrder,
		batches: []batch{{id: 7, count: 4}, {id: 7, count: 2}, {id: 7, sequence: 2, count: 2}, {id: 7, sequence: 2, count: 4}}},
	{name: "a gap", kafka: "0 " + outOfOrder + " 2",
		batches: []batch{{id: 7, count: 2}, {id: 7, sequence: 3, count: 1}, {id: 7, sequence: 2, count: 1}}},

	{name: "next epoch", kafka: "0 2 4",
		batches: []batch{{id: 7, count: 2}, {id: 7, epoch: 1, count: 2}, {id: 7, epoch: 1, sequence: 2, count: 1}}},
	{name: "next epoch, not from 0", kafka: "0 " + outOfOrder,
		batches: []batch{{id: 7, count: 2}, {id: 7, epoch: 1, sequence: 2, count: 2}}},
	{name: "epoch before", kafka: "0 " + epochPast, batches: []batch{{id: 7, epoch: 1, count: 2}, {id: 7, count: 2}}},
	{name: "repeated, of the epoch before", kafka: "0 2 " + epochPast,
		batches: []batch{{id: 7, count: 2}, {id: 7, epoch: 1, count: 1}, {id: 7, count: 2}}},
	// kfake has one epoch for all partitions of a producer, Kafka one for each.
	{name: "epoch before, elsewhere the next", kafka: "0 0 1 1", theirs: "0 0 1 " + epochPast,
		batches: []batch{{id: 7, count: 1}, {partition: 1, id: 7, count: 1}, {partition: 1, id: 7, epoch: 1, count: 1}, {id: 7, sequence: 1, count: 1}}},

	// KAFKA-15591: Kafka is to refuse it from 4.5 on. kfake does unless it is told to be an older one.
	{name: "not from 0, log empty", kafka: "0", theirs: outOfOrder, model: testbroker.Legacy, batches: []batch{{id: 7, sequence: 3, count: 1}}},
	{name: "not from 0, log not empty", kafka: "0 1 2 2", model: testbroker.Legacy,
		batches: []batch{{id: 8, count: 1}, {id: 7, sequence: 3, count: 1}, {id: 7, sequence: 4, count: 1}, {id: 7, sequence: 4, count: 1}}},
	{name: "not from 0, before 2.5", kafka: "0 1", ours: "0 UNKNOWN_PRODUCER_ID", theirs: "0 UNKNOWN_PRODUCER_ID",
		model: testbroker.Forgetful, opts: []kfake.Opt{kfake.MaxVersions(kversion.V2_4_0())},
		batches: []batch{{id: 8, count: 1}, {id: 7, sequence: 3, count: 1}}},

	// After 2147483647 comes 0. kfake has it come after 2147483646.
	{name: "sequences begin anew", kafka: "0 1 3 5", theirs: "0 1 " + outOfOrder + " " + outOfOrder, model: testbroker.Legacy,
		batches: []batch{{id: 8, count: 1}, {id: 7, sequence: math.MaxInt32 - 1, count: 2}, {id: 7, count: 2}, {id: 7, sequence: 2, count: 1}}},
	{name: "sequences begin anew within a batch", kafka: "0 1 3 1", theirs: "0 1 " + outOfOrder + " 1", model: testbroker.Legacy,
		batches: []batch{{id: 8, count: 1}, {id: 7, sequence: math.MaxInt32, count: 2}, {id: 7, sequence: 1, count: 1}, {id: 7, sequence: math.MaxInt32, count: 2}}},

	{name: "wrong checksum", kafka: corrupt + " 0", batches: []batch{{id: 7, count: 1, spoil: func(b []byte) { b[len(b)-1] ^= 1 }}, {id: 7, count: 1}}},
	{name: "no such format", kafka: corrupt, batches: []batch{{id: 7, count: 1, spoil: func(b []byte) { b[16] = 3 }}}},
	{name: "first offset not 0", kafka: invalid, theirs: corrupt, batches: []batch{{id: 7, count: 1, spoil: func(b []byte) { b[7] = 1 }}}},
	{name: "last offset not the count's", kafka: invalid, theirs: corrupt,
		batches: []batch{{id: 7, count: 2, resum: true, spoil: func(b []byte) { b[26] = 7 }}}},
	{name: "control batch", kafka: invalid, batches: []batch{{id: 7, count: 1, resum: true, spoil: attributes(0x20)}}},
	{name: "no such codec", kafka: "UNKNOWN_SERVER_ERROR", theirs: corrupt, batches: []batch{{id: 7, count: 1, resum: true, spoil: attributes(7)}}},
	{name: "no records", kafka: invalid, theirs: "0", batches: []batch{{id: 7}}},
	{name: "too large", kafka: "MESSAGE_TOO_LARGE", batches: []batch{{id: 7, count: 30_000}}},
	{name: "no such partition", kafka: "UNKNOWN_TOPIC_OR_PARTITION", batches: []batch{{partition: 99, id: 7, count: 1}}},
	{name: "acks 2", kafka: "INVALID_REQUIRED_ACKS", batches: []batch{{id: 7, count: 1, acks: 2}}},
}

// ones are n batches of one record.
func ones(n int32) (all []batch) {
	for i := range n {
		all = append(all, batch{id: 7, sequence: i, count: 1})
	}
	return all
}

func attributes(a byte) func([]byte) { return func(b []byte) { b[22] = a } }

// The test broker and kfake answer as Kafka does, but where a script says otherwise.
func TestBrokersAnswerAsKafkaDoes(t *testing.T) {
	for _, s := range scripts {
		t.Run(s.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				network := simnet.New(simnet.Link{})
				server, err := testbroker.Start(testbroker.Config{
					Topics: []testbroker.Topic{{Name: topic, Partitions: 2}}, Model: s.model,
					Listen: func(int32) (net.Listener, error) { return network.Listen("ours:9092") },
				})
				require.NoError(t, err)
				defer func() { require.NoError(t, server.Close()) }()
				fake, err := kfake.NewCluster(append([]kfake.Opt{
					kfake.NumBrokers(1), kfake.SeedTopics(2, topic),
					kfake.ListenFn(func(_, _ string) (net.Listener, error) { return network.Listen("theirs:9092") }),
				}, s.opts...)...)
				require.NoError(t, err)
				defer fake.Close()
				for address, differs := range map[string]string{"ours:9092": s.ours, "theirs:9092": s.theirs} {
					conn, err := network.Dial(context.Background(), "tcp", address)
					require.NoError(t, err)
					assert.Equal(t, cmp.Or(differs, s.kafka), appendAll(t, conn, topic, s.batches), address)
					require.NoError(t, conn.Close())
				}
			})
		})
	}
}

// What the scripts say of Kafka is so.
func TestKafkaAnswers(t *testing.T) {
	address := os.Getenv(brokerEnv)
	if address == "" {
		t.Skipf("set %s to the address of a broker to ask", brokerEnv)
	}
	conn, err := net.Dial("tcp", address)
	require.NoError(t, err)
	defer conn.Close()
	for i, s := range scripts {
		name := fmt.Sprintf("script-%d-%d", i, time.Now().UnixNano())
		create := kmsg.NewPtrCreateTopicsRequest()
		create.SetVersion(4) // the last with a plain header
		create.TimeoutMillis = 10_000
		ct := kmsg.NewCreateTopicsRequestTopic()
		ct.Topic, ct.NumPartitions, ct.ReplicationFactor = name, 2, 1
		create.Topics = append(create.Topics, ct)
		roundTrip(t, conn, create, kmsg.NewPtrCreateTopicsResponse())
		// KRaft answers before the leader takes records. What is not written leaves no trace.
		probe := []batch{{id: -1, epoch: -1, sequence: -1, count: 1, spoil: func(b []byte) { b[len(b)-1] ^= 1 }}}
		require.Eventually(t, func() bool { return appendAll(t, conn, name, probe) == corrupt }, 10*time.Second, 10*time.Millisecond)
		assert.Equal(t, s.kafka, appendAll(t, conn, name, s.batches), s.name)
	}
}

// appendAll sends batches, one after the other, and returns the answers.
func appendAll(t *testing.T, conn net.Conn, topic string, batches []batch) string {
	t.Helper()
	var all []string
	for _, b := range batches {
		req := kmsg.NewPtrProduceRequest()
		req.SetVersion(7)
		req.Acks = -1
		if b.acks != 0 {
			req.Acks = b.acks
		}
		req.TimeoutMillis = 1000
		rt := kmsg.NewProduceRequestTopic()
		rt.Topic = topic
		rp := kmsg.NewProduceRequestTopicPartition()
		rp.Partition, rp.Records = b.partition, b.bytes()
		rt.Partitions = append(rt.Partitions, rp)
		req.Topics = append(req.Topics, rt)
		res := kmsg.NewPtrProduceResponse()
		roundTrip(t, conn, req, res)
		p := res.Topics[0].Partitions[0]
		if code := protocol.ErrorCode(p.ErrorCode); code != protocol.None {
			all = append(all, code.Name())
		} else {
			all = append(all, fmt.Sprint(p.BaseOffset))
		}
	}
	return strings.Join(all, " ")
}

// bytes is the batch on the wire.
func (b batch) bytes() []byte {
	raw := make([]byte, protocol.BatchHeaderSize)
	value := []byte("a value of some length, to have a batch that is too large soon enough")
	for i := range b.count {
		size := protocol.RecordBodySize(0, i, nil, value, nil)
		raw = protocol.AppendRecord(raw, size, 0, i, nil, value, nil)
	}
	protocol.StampBatch([][]byte{raw}, len(raw), protocol.BatchStamp{
		Count: b.count, BaseTimestamp: 946684800000, MaxTimestamp: 946684800000,
		Producer: protocol.ProducerID{ID: b.id, Epoch: b.epoch}, BaseSequence: b.sequence,
	})
	if b.spoil != nil {
		b.spoil(raw)
	}
	if b.resum {
		sum := crc32.Checksum(raw[21:], crc32.MakeTable(crc32.Castagnoli))
		binary.BigEndian.PutUint32(raw[17:], sum)
	}
	return raw
}
