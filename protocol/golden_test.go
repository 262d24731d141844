package protocol

import (
	"bufio"
	"encoding/hex"
	"math"
	"os"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func ptr[T any](v T) *T { return &v }

// goldenID is the topic id of the golden messages.
var goldenID = UUID{1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16}

// golden reads testdata/golden.txt, which Kafka's own classes wrote (testdata/Golden.java): the bytes
// of a message by name and version.
func golden(t testing.TB) map[string]map[int16][]byte {
	t.Helper()
	all := map[string]map[int16][]byte{}
	readMessages(t, "testdata/golden.txt", func(name string, version int16, b []byte) {
		if all[name] == nil {
			all[name] = map[int16][]byte{}
		}
		all[name][version] = b
	})
	return all
}

// readMessages reads a file of messages, a line for each: name, version, bytes.
func readMessages(t testing.TB, path string, take func(name string, version int16, b []byte)) {
	t.Helper()
	f, err := os.Open(path)
	require.NoError(t, err)
	defer f.Close()
	lines := bufio.NewScanner(f)
	for lines.Scan() {
		fields := strings.SplitN(lines.Text(), " ", 3)
		require.Len(t, fields, 3)
		version, err := strconv.ParseInt(fields[1], 10, 16)
		require.NoError(t, err)
		b, err := hex.DecodeString(fields[2])
		require.NoError(t, err)
		take(fields[0], int16(version), b)
	}
	require.NoError(t, lines.Err())
}

// goldenMessages are the messages that Golden.java has in the same words, as version has them: fields
// that it does not have are at Kafka's default.
var goldenMessages = map[string]func(v int16) Message{
	"ApiVersionsRequest": func(v int16) Message {
		m := &ApiVersionsRequest{NodeID: -1}
		if v >= 3 {
			m.ClientSoftwareName, m.ClientSoftwareVersion = "reservoir", "1.0.0"
		}
		if v >= 5 {
			m.ClusterID, m.NodeID = ptr("cluster"), 7
		}
		return m
	},
	"ApiVersionsResponse": func(v int16) Message {
		m := &ApiVersionsResponse{
			ApiKeys:                []ApiVersion{{KeyProduce, 3, 13}, {999, 1, 2}},
			FinalizedFeaturesEpoch: -1,
		}
		if v >= 1 {
			m.ThrottleTimeMs = 100
		}
		if v >= 3 {
			m.SupportedFeatures = []SupportedFeature{{"metadata.version", 1, 25}}
			m.FinalizedFeaturesEpoch = 42
			m.FinalizedFeatures = []FinalizedFeature{{"metadata.version", 24, 23}}
			m.ZkMigrationReady = true
		}
		return m
	},
	"ApiVersionsResponse/unsupported": func(v int16) Message {
		return &ApiVersionsResponse{
			ErrorCode:              UnsupportedVersion,
			ApiKeys:                []ApiVersion{{KeyAPIVersions, 0, 2}},
			FinalizedFeaturesEpoch: -1,
		}
	},
	"MetadataRequest": func(v int16) Message {
		m := &MetadataRequest{
			Topics:                             []MetadataRequestTopic{{Name: ptr("orders")}},
			AllowAutoTopicCreation:             v < 4,
			IncludeClusterAuthorizedOperations: v >= 8 && v <= 10,
			IncludeTopicAuthorizedOperations:   v >= 8,
		}
		if v >= 12 {
			m.Topics = append(m.Topics, MetadataRequestTopic{TopicID: goldenID})
		}
		return m
	},
	"MetadataRequest/all": func(v int16) Message {
		return &MetadataRequest{AllowAutoTopicCreation: true}
	},
	"MetadataRequest/none": func(v int16) Message {
		return &MetadataRequest{Topics: []MetadataRequestTopic{}, AllowAutoTopicCreation: true}
	},
	"MetadataResponse": func(v int16) Message {
		m := &MetadataResponse{
			Brokers:                     []MetadataResponseBroker{{NodeID: 1, Host: "a.example", Port: 9092}, {NodeID: 2, Host: "b.example", Port: 9093}},
			ControllerID:                -1,
			ClusterAuthorizedOperations: AuthorizedOperationsUnknown,
		}
		orders := MetadataResponseTopic{
			Name: ptr("orders"),
			Partitions: []MetadataResponsePartition{
				{PartitionIndex: 0, LeaderID: 1, LeaderEpoch: -1, ReplicaNodes: []int32{1, 2}, IsrNodes: []int32{1}},
				{ErrorCode: LeaderNotAvailable, PartitionIndex: 1, LeaderID: -1, LeaderEpoch: -1, ReplicaNodes: []int32{}, IsrNodes: []int32{}},
			},
			TopicAuthorizedOperations: AuthorizedOperationsUnknown,
		}
		gone := MetadataResponseTopic{
			ErrorCode: UnknownTopicOrPartition, Name: ptr("gone"), Partitions: []MetadataResponsePartition{},
			TopicAuthorizedOperations: AuthorizedOperationsUnknown,
		}
		if v >= 1 {
			m.Brokers[0].Rack, m.ControllerID, orders.IsInternal = ptr("r1"), 2, true
		}
		if v >= 2 {
			m.ClusterID = ptr("cluster")
		}
		if v >= 3 {
			m.ThrottleTimeMs = 5
		}
		if v >= 5 {
			orders.Partitions[0].OfflineReplicas, orders.Partitions[1].OfflineReplicas = []int32{2}, []int32{}
		}
		if v >= 7 {
			orders.Partitions[0].LeaderEpoch = 9
		}
		if v >= 8 {
			orders.TopicAuthorizedOperations = 0x5f8
		}
		if v >= 8 && v <= 10 {
			m.ClusterAuthorizedOperations = 0x1f00
		}
		if v >= 10 {
			orders.TopicID = goldenID
		}
		if v >= 12 {
			gone.Name = nil
		}
		if v >= 13 {
			m.ErrorCode = RebootstrapRequired
		}
		m.Topics = []MetadataResponseTopic{orders, gone}
		return m
	},
	"ProduceRequest": func(v int16) Message {
		m := &ProduceRequest{
			TransactionalID: ptr("tx"), Acks: -1, TimeoutMs: 30000,
			Topics: []ProduceRequestTopic{{Partitions: []ProduceRequestPartition{{3, []byte("not a batch")}, {4, nil}}}},
		}
		m.Topics[0].Name, m.Topics[0].ID = nameOrID(v)
		return m
	},
	"ProduceResponse": func(v int16) Message {
		ok := ProduceResponsePartition{Index: 3, BaseOffset: 1 << 40, LogAppendTimeMs: -1, LogStartOffset: -1, CurrentLeader: NoLeader}
		bad := ProduceResponsePartition{
			Index: 4, ErrorCode: NotLeaderOrFollower, BaseOffset: -1, LogAppendTimeMs: 1700000000000, LogStartOffset: -1, CurrentLeader: NoLeader,
		}
		m := &ProduceResponse{ThrottleTimeMs: 250}
		if v >= 5 {
			ok.LogStartOffset = 17
		}
		if v >= 8 {
			bad.Details = &ProduceDetails{[]BatchIndexAndErrorMessage{{1, ptr("too old")}, {2, nil}}, ptr("moved")}
		}
		if v >= 10 {
			bad.CurrentLeader = LeaderIDAndEpoch{2, 10}
			m.NodeEndpoints = []NodeEndpoint{{2, "b.example", 9093, ptr("r2")}, {5, "", 0, nil}}
		}
		m.Topics = []ProduceResponseTopic{{Partitions: []ProduceResponsePartition{ok, bad}}}
		name, id := nameOrID(v)
		if m.Topics[0].ID = id; v <= 12 {
			m.Topics[0].Name = []byte(name)
		}
		return m
	},
	"InitProducerIdRequest": func(v int16) Message {
		m := &InitProducerIdRequest{TransactionalID: ptr("tx"), TransactionTimeoutMs: 60000, ProducerID: -1, ProducerEpoch: -1}
		if v >= 3 {
			m.ProducerID, m.ProducerEpoch = 1234567890123, 7
		}
		return m
	},
	"InitProducerIdRequest/new": func(v int16) Message {
		return &InitProducerIdRequest{TransactionTimeoutMs: math.MaxInt32, ProducerID: -1, ProducerEpoch: -1}
	},
	"InitProducerIdResponse": func(v int16) Message {
		return &InitProducerIdResponse{ThrottleTimeMs: 1, ErrorCode: ConcurrentTransactions, ProducerID: 1234567890123, ProducerEpoch: 8}
	},
	"ListOffsetsRequest": func(v int16) Message {
		m := &ListOffsetsRequest{ReplicaID: -1, Topics: []ListOffsetsRequestTopic{{"orders", []ListOffsetsRequestPartition{
			{1, -1, EarliestTimestamp}, {2, -1, 1700000000000},
		}}}}
		if v >= 2 {
			m.IsolationLevel = 1
		}
		if v >= 4 {
			m.Topics[0].Partitions[0].CurrentLeaderEpoch = 6
		}
		if v >= 10 {
			m.TimeoutMs = 1500
		}
		return m
	},
	"ListOffsetsResponse": func(v int16) Message {
		m := &ListOffsetsResponse{Topics: []ListOffsetsResponseTopic{{"orders", []ListOffsetsResponsePartition{
			{1, None, 1700000000001, 99, -1}, {2, UnknownTopicOrPartition, -1, -1, -1},
		}}}}
		if v >= 2 {
			m.ThrottleTimeMs = 3
		}
		if v >= 4 {
			m.Topics[0].Partitions[0].LeaderEpoch = 6
		}
		return m
	},
	"FetchRequest": func(v int16) Message {
		m := &FetchRequest{
			ReplicaID: 3, ReplicaState: NoReplica, MaxWaitMs: 500, MinBytes: 1, MaxBytes: 1 << 20, IsolationLevel: 1, SessionEpoch: -1,
		}
		p := FetchRequestPartition{
			Partition: 2, CurrentLeaderEpoch: -1, FetchOffset: 1000, LastFetchedEpoch: -1, LogStartOffset: -1,
			PartitionMaxBytes: 65536, HighWatermark: NoHighWatermark,
		}
		plain := p
		plain.Partition, plain.FetchOffset, plain.PartitionMaxBytes = 3, 0, 1
		name, id := nameOrID(v)
		if v >= 5 {
			p.LogStartOffset = 10
		}
		if v >= 7 {
			m.SessionID, m.SessionEpoch = 11, 12
			old := "old"
			if v >= 13 {
				old = ""
			}
			m.ForgottenTopics = []ForgottenTopic{{old, id, []int32{1, 2}}}
		}
		if v >= 9 {
			p.CurrentLeaderEpoch = 6
		}
		if v >= 11 {
			m.RackID = "r1"
		}
		if v >= 12 {
			m.ClusterID, p.LastFetchedEpoch = ptr("cluster"), 5
		}
		if v >= 15 {
			m.ReplicaID, m.ReplicaState = -1, ReplicaState{3, 4}
		}
		if v >= 17 {
			p.ReplicaDirectoryID = goldenID
		}
		if v >= 18 {
			p.HighWatermark = 1001
		}
		m.Topics = []FetchRequestTopic{{name, id, []FetchRequestPartition{p, plain}}}
		return m
	},
	"FetchResponse": func(v int16) Message {
		m := &FetchResponse{ThrottleTimeMs: 2}
		empty := FetchResponsePartition{
			PartitionIndex: 3, LastStableOffset: -1, LogStartOffset: -1, DivergingEpoch: NoEpochEndOffset, CurrentLeader: NoLeader,
			SnapshotID: NoEpochEndOffset, PreferredReadReplica: -1,
		}
		p := empty
		p.PartitionIndex, p.ErrorCode, p.HighWatermark, p.LastStableOffset = 2, OffsetOutOfRange, 1002, 1001
		p.AbortedTransactions = []AbortedTransaction{{77, 990}}
		p.Records = []byte("not a batch")
		if v >= 5 {
			p.LogStartOffset = 10
		}
		if v >= 7 {
			m.ErrorCode, m.SessionID = InvalidFetchSessionEpoch, 11
		}
		if v >= 11 {
			p.PreferredReadReplica = 4
		}
		if v >= 12 {
			p.DivergingEpoch, p.CurrentLeader, p.SnapshotID = EpochEndOffset{5, 900}, LeaderIDAndEpoch{2, 10}, EpochEndOffset{4, 800}
		}
		if v >= 16 {
			m.NodeEndpoints = []NodeEndpoint{{2, "b.example", 9093, ptr("r2")}}
		}
		name, id := nameOrID(v)
		m.Topics = []FetchResponseTopic{{name, id, []FetchResponsePartition{p, empty}}}
		return m
	},
	"FindCoordinatorRequest": func(v int16) Message {
		m := &FindCoordinatorRequest{}
		if v >= 1 {
			m.KeyType = CoordinatorTransaction
		}
		if v <= 3 {
			m.CoordinatorKey = "group"
		} else {
			m.CoordinatorKeys = []string{"group", "other"}
		}
		return m
	},
	"FindCoordinatorResponse": func(v int16) Message {
		m := &FindCoordinatorResponse{}
		if v >= 1 {
			m.ThrottleTimeMs = 4
		}
		if v >= 4 {
			m.Coordinators = []Coordinator{{"group", 1, "a.example", 9092, None, nil}, {"other", -1, "", -1, CoordinatorNotAvailable, ptr("not yet")}}
			return m
		}
		m.ErrorCode, m.NodeID, m.Port = CoordinatorNotAvailable, -1, -1
		if v >= 1 {
			m.ErrorMessage = ptr("not yet")
		}
		return m
	},
}

// nameOrID is what names the golden topic in Produce and Fetch.
func nameOrID(v int16) (string, UUID) {
	if v >= 13 {
		return "", goldenID
	}
	return "orders", UUID{}
}

// newMessage makes an empty message from the name of a golden one.
func newMessage(name string) Message {
	name, _, _ = strings.Cut(name, "/")
	switch name {
	case "ApiVersionsRequest":
		return &ApiVersionsRequest{}
	case "ApiVersionsResponse":
		return &ApiVersionsResponse{}
	case "MetadataRequest":
		return &MetadataRequest{}
	case "MetadataResponse":
		return &MetadataResponse{}
	case "ProduceRequest":
		return &ProduceRequest{}
	case "ProduceResponse":
		return &ProduceResponse{}
	case "InitProducerIdRequest":
		return &InitProducerIdRequest{}
	case "InitProducerIdResponse":
		return &InitProducerIdResponse{}
	case "ListOffsetsRequest":
		return &ListOffsetsRequest{}
	case "ListOffsetsResponse":
		return &ListOffsetsResponse{}
	case "FetchRequest":
		return &FetchRequest{}
	case "FetchResponse":
		return &FetchResponse{}
	case "FindCoordinatorRequest":
		return &FindCoordinatorRequest{}
	case "FindCoordinatorResponse":
		return &FindCoordinatorResponse{}
	}
	panic("no message " + name)
}

// EXT-10, PRS-01: every message in every version this package speaks is written as Kafka's own classes
// write it, and read back from their bytes to the same value.
func TestGoldenBytes(t *testing.T) {
	want := golden(t)
	for name, build := range goldenMessages {
		t.Run(name, func(t *testing.T) {
			if !strings.Contains(name, "/") {
				minVersion, maxVersion := build(13).Key().Versions()
				assert.Len(t, want[name], int(maxVersion-minVersion)+1, "golden.txt has every version")
			}
			require.NotEmpty(t, want[name])
			for v, b := range want[name] {
				m := build(v)
				assert.Equal(t, hex.EncodeToString(b), hex.EncodeToString(m.AppendTo(nil, v)), "v%d", v)
				got := newMessage(name)
				if assert.NoError(t, got.ReadFrom(b, v), "v%d", v) {
					assert.Equal(t, m, got, "v%d", v)
				}
				// What was in the receiver before does not show through.
				if assert.NoError(t, got.ReadFrom(b, v), "v%d, again", v) {
					assert.Equal(t, m, got, "v%d, again", v)
				}
			}
		})
	}
}

// FC-129: a message that is cut off anywhere, or goes on after its end, is an error.
func TestGoldenBytesCutOff(t *testing.T) {
	for name, versions := range golden(t) {
		if strings.Contains(name, "Header") || strings.Contains(name, "Batch") {
			continue
		}
		for v, b := range versions {
			m := newMessage(name)
			for n := range b {
				if name == "ApiVersionsResponse/unsupported" && n == 2 {
					continue // an error code alone is accepted there
				}
				assert.Error(t, m.ReadFrom(b[:n:n], v), "%s v%d, %d bytes of %d", name, v, n, len(b))
			}
			assert.ErrorContains(t, m.ReadFrom(append(b[:len(b):len(b)], 0), v), "left over", "%s v%d", name, v)
		}
	}
}

// Request headers are v2 in flexible versions, and their client id is a string with an int16 length even
// then; response headers are v1 in flexible versions, but v0 in every version of ApiVersions (FC-125).
func TestGoldenHeaders(t *testing.T) {
	seen := 0
	for name, versions := range golden(t) {
		parts := strings.Split(name, "/")
		if len(parts) < 2 || !strings.HasSuffix(parts[0], "Header") {
			continue
		}
		seen++
		n, err := strconv.Atoi(parts[1])
		require.NoError(t, err)
		key := APIKey(n)
		for v, b := range versions {
			src := append(b[:len(b):len(b)], "body"...)
			switch parts[0] {
			case "RequestHeader":
				h := RequestHeader{Key: key, Version: v, CorrelationID: 77, ClientID: ptr("client")}
				if len(parts) == 3 {
					h.ClientID = nil
				}
				assert.Equal(t, b, AppendRequestHeader(nil, h), "%s v%d", name, v)
				got, rest, err := ReadRequestHeader(src)
				require.NoError(t, err)
				assert.Equal(t, h, got)
				assert.Equal(t, "body", string(rest))
				for n := range b {
					_, _, err := ReadRequestHeader(b[:n:n])
					assert.Error(t, err)
				}
			case "ResponseHeader":
				assert.Equal(t, b, AppendResponseHeader(nil, key, v, 77), "%s v%d", name, v)
				id, rest, err := ReadResponseHeader(src, key, v)
				require.NoError(t, err)
				assert.Equal(t, int32(77), id)
				assert.Equal(t, "body", string(rest))
				for n := range b {
					_, _, err := ReadResponseHeader(b[:n:n], key, v)
					assert.Error(t, err)
				}
			}
		}
	}
	assert.Equal(t, 7*3, seen)
}
