package conformance

import (
	"fmt"
	"hash/fnv"
	"math/rand/v2"
	"reflect"
	"testing"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/kafka-reservoir/producer/protocol"
)

// theirMessage is what requests and responses of kmsg have in common.
type theirMessage interface {
	Key() int16
	MaxVersion() int16
	SetVersion(int16)
	IsFlexible() bool
	AppendTo([]byte) []byte
	ReadFrom([]byte) error
}

var messages = []struct {
	ours   protocol.Message
	theirs theirMessage
}{
	{&protocol.ApiVersionsRequest{}, kmsg.NewPtrApiVersionsRequest()},
	{&protocol.ApiVersionsResponse{}, kmsg.NewPtrApiVersionsResponse()},
	{&protocol.MetadataRequest{}, kmsg.NewPtrMetadataRequest()},
	{&protocol.MetadataResponse{}, kmsg.NewPtrMetadataResponse()},
	{&protocol.ProduceRequest{}, kmsg.NewPtrProduceRequest()},
	{&protocol.ProduceResponse{}, kmsg.NewPtrProduceResponse()},
	{&protocol.InitProducerIdRequest{}, kmsg.NewPtrInitProducerIDRequest()},
	{&protocol.InitProducerIdResponse{}, kmsg.NewPtrInitProducerIDResponse()},
	{&protocol.ListOffsetsRequest{}, kmsg.NewPtrListOffsetsRequest()},
	{&protocol.ListOffsetsResponse{}, kmsg.NewPtrListOffsetsResponse()},
	{&protocol.FetchRequest{}, kmsg.NewPtrFetchRequest()},
	{&protocol.FetchResponse{}, kmsg.NewPtrFetchResponse()},
	{&protocol.FindCoordinatorRequest{}, kmsg.NewPtrFindCoordinatorRequest()},
	{&protocol.FindCoordinatorResponse{}, kmsg.NewPtrFindCoordinatorResponse()},
}

const valuesPerVersion = 300

// empty makes another message of the same type.
func empty[M any](m M) M { return reflect.New(reflect.TypeOf(m).Elem()).Interface().(M) }

// EXT-10, PRS-01: for every message in every version and many random values, both implementations write
// the same bytes, read each other's bytes to the same value, and pass over tagged fields neither knows.
func TestMessagesAgainstKmsg(t *testing.T) {
	for _, m := range messages {
		key := m.ours.Key()
		minVersion, maxVersion := key.Versions()
		name := reflect.TypeOf(m.ours).Elem().Name()
		require.Equal(t, int16(key), m.theirs.Key())
		require.LessOrEqual(t, maxVersion, m.theirs.MaxVersion())
		for v := minVersion; v <= maxVersion; v++ {
			t.Run(fmt.Sprintf("%s/v%d", name, v), func(t *testing.T) {
				m.theirs.SetVersion(v)
				require.Equal(t, m.theirs.IsFlexible(), key.Flexible(v))
				seed := fnv.New64a()
				seed.Write([]byte(t.Name()))
				random := filler{rand.New(rand.NewPCG(seed.Sum64(), 1))}
				for range valuesPerVersion {
					compare(t, random, m.ours, m.theirs, v)
				}
			})
		}
	}
}

func compare(t *testing.T, random filler, ours protocol.Message, theirs theirMessage, v int16) {
	ours, theirs = empty(ours), empty(theirs)
	random.fill(reflect.ValueOf(ours).Elem())
	avoidDifferences(ours, v)

	// Same value, same bytes.
	copyFields(reflect.ValueOf(ours).Elem(), reflect.ValueOf(theirs).Elem(), false)
	theirs.SetVersion(v)
	b := ours.AppendTo(nil, v)
	require.Equal(t, theirs.AppendTo(nil), b)

	// Same bytes, same value.
	got, want, theirGot := empty(ours), empty(ours), empty(theirs)
	require.NoError(t, got.ReadFrom(b, v))
	theirGot.SetVersion(v)
	require.NoError(t, theirGot.ReadFrom(b))
	copyFields(reflect.ValueOf(want).Elem(), reflect.ValueOf(theirGot).Elem(), true)
	kafkaDefaults(want, v)
	sameNulls(reflect.ValueOf(want), "")
	sameNulls(reflect.ValueOf(got), "")
	require.Equal(t, want, got)

	// Unknown tagged fields make no difference.
	if theirs.IsFlexible() {
		random.addUnknownTags(reflect.ValueOf(theirs))
		got := empty(ours)
		require.NoError(t, got.ReadFrom(theirs.AppendTo(nil), v))
		sameNulls(reflect.ValueOf(got), "")
		require.Equal(t, want, got)
	}
}

// avoidDifferences takes out of a random message what kmsg writes otherwise than Kafka does.
func avoidDifferences(m protocol.Message, v int16) {
	switch m := m.(type) {
	case *protocol.ApiVersionsResponse:
		if m.ErrorCode == protocol.UnsupportedVersion {
			m.ErrorCode = protocol.None // has a form of its own, see package protocol
		}
	case *protocol.MetadataRequest:
		if v == 0 && m.Topics == nil {
			m.Topics = []protocol.MetadataRequestTopic{} // kmsg writes a null, which v0 does not have
		}
	// Tagged fields are written by kmsg in all flexible versions, also in those before they came up.
	case *protocol.ProduceResponse:
		if v < 10 {
			m.NodeEndpoints = nil
			for i := range m.Topics {
				for j := range m.Topics[i].Partitions {
					m.Topics[i].Partitions[j].CurrentLeader = protocol.NoLeader
				}
			}
		}
	case *protocol.FetchRequest:
		if v < 15 {
			m.ReplicaState = protocol.NoReplica
		}
		for i := range m.Topics {
			for j := range m.Topics[i].Partitions {
				p := &m.Topics[i].Partitions[j]
				if v < 17 {
					p.ReplicaDirectoryID = protocol.UUID{}
				}
				if v < 18 {
					p.HighWatermark = protocol.NoHighWatermark
				}
			}
		}
	case *protocol.FetchResponse:
		if v < 16 {
			m.NodeEndpoints = nil
		}
	}
}

// kafkaDefaults puts right, in a message that kmsg read, fields that v does not have and whose default is
// another one in Kafka.
func kafkaDefaults(m protocol.Message, v int16) {
	switch m := m.(type) {
	case *protocol.MetadataRequest:
		if v == 0 && len(m.Topics) == 0 {
			m.Topics = nil // all topics
		}
		if v < 4 {
			m.AllowAutoTopicCreation = true
		}
	case *protocol.ListOffsetsRequest:
		if v < 10 {
			m.TimeoutMs = 0
		}
	}
}

// Whole request frames are the same, header included.
func TestFramesAgainstKmsg(t *testing.T) {
	clientID := "reservoir"
	formatter := kmsg.NewRequestFormatter(kmsg.FormatterClientID(clientID))
	anonymous := kmsg.NewRequestFormatter()
	for _, m := range messages {
		request, ok := m.theirs.(kmsg.Request)
		if !ok {
			continue
		}
		minVersion, maxVersion := m.ours.Key().Versions()
		for v := minVersion; v <= maxVersion; v++ {
			ours, theirs := empty(m.ours), empty(request)
			random := filler{rand.New(rand.NewPCG(uint64(v), 2))}
			random.fill(reflect.ValueOf(ours).Elem())
			avoidDifferences(ours, v)
			copyFields(reflect.ValueOf(ours).Elem(), reflect.ValueOf(theirs).Elem(), false)
			theirs.SetVersion(v)

			h := protocol.RequestHeader{Key: ours.Key(), Version: v, CorrelationID: 1234, ClientID: &clientID}
			f := protocol.NewFrame(h, ours)
			require.Equal(t, formatter.AppendRequest(nil, theirs, 1234), f.Buffers[0])
			require.Len(t, f.Buffers[0], f.Size)
			h.ClientID = nil
			require.Equal(t, anonymous.AppendRequest(nil, theirs, 1234), protocol.NewFrame(h, ours).Buffers[0])

			if p, ok := ours.(*protocol.ProduceRequest); ok {
				var e protocol.ProduceEncoder
				e.Begin(h, p.TransactionalID, p.Acks, p.TimeoutMs, len(p.Topics))
				for i := range p.Topics {
					topic := &p.Topics[i]
					topic.ID[0] |= 1
					e.Topic(topic.Name, topic.ID, len(topic.Partitions))
					for j := range topic.Partitions {
						part := &topic.Partitions[j]
						part.Records = append([]byte{}, part.Records...) // the encoder has no nulls
						e.Partition(part.Index, [][]byte{part.Records}, len(part.Records))
					}
				}
				f := e.Finish()
				var got []byte
				for _, b := range f.Buffers {
					got = append(got, b...)
				}
				copyFields(reflect.ValueOf(ours).Elem(), reflect.ValueOf(theirs).Elem(), false)
				require.Equal(t, anonymous.AppendRequest(nil, theirs, 1234), got)
			}
		}
	}
}
