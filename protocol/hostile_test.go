package protocol

import (
	"encoding/binary"
	"go/ast"
	"go/parser"
	"go/token"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// responses are the messages that come from a broker.
func responses() (names []string) {
	for name := range goldenMessages {
		if strings.HasSuffix(name, "Response") {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return names
}

// FC-129: a type that decodes has a fuzz target, and every version of it a seed that is a whole message. Who adds
// a message, or a version, is told here.
func TestEveryDecoderAndVersionIsFuzzed(t *testing.T) {
	var decoders []string
	targets := map[string]bool{}
	files, err := filepath.Glob("*.go")
	require.NoError(t, err)
	for _, name := range files {
		file, err := parser.ParseFile(token.NewFileSet(), name, nil, parser.SkipObjectResolution)
		require.NoError(t, err)
		for _, d := range file.Decls {
			switch f, ok := d.(*ast.FuncDecl); {
			case !ok:
			case f.Recv == nil && strings.HasPrefix(f.Name.Name, "Fuzz"):
				targets[f.Name.Name] = true
			case f.Recv != nil && f.Name.Name == "ReadFrom":
				decoders = append(decoders, f.Recv.List[0].Type.(*ast.StarExpr).X.(*ast.Ident).Name)
			}
		}
	}
	require.Greater(t, len(decoders), 10, "the search works")
	for _, name := range decoders {
		assert.True(t, targets["Fuzz"+name], "%s decodes and has no Fuzz%s", name, name)
		whole := map[int16]bool{}
		for _, s := range seeds(t, name) {
			whole[s.version] = whole[s.version] || newMessage(name).ReadFrom(s.src, s.version) == nil
		}
		minVersion, maxVersion := newMessage(name).Key().Versions()
		for v := minVersion; v <= maxVersion; v++ {
			assert.True(t, whole[v], "%s v%d has no seed that is a whole message", name, v)
		}
	}
	for key := range APIKey(100) {
		if minVersion, maxVersion := key.Versions(); minVersion <= maxVersion {
			name := strings.ReplaceAll(key.String(), "API", "Api")
			assert.Contains(t, decoders, name+"Response", "%v is spoken", key)
		}
	}
}

// FC-129: claims of lengths and counts that the bytes cannot keep, or just could, at every place of every
// response at every version, with elements as small as they get behind them.
func TestHostileClaimsAllocateByBytesReceived(t *testing.T) {
	const size = 12 << 10
	for _, name := range responses() {
		t.Run(name, func(t *testing.T) {
			key := newMessage(name).Key()
			for version, whole := range golden(t)[name] {
				for at := range len(whole) + 1 {
					all := claims(size, key.Flexible(version))
					for i := range 2 { // others at the next place
						claim := all[(at+3*i)%len(all)]
						src := append(slices.Clone(whole[:at]), claim...)
						filler := byte((at + int(version) + i) % 3) // nulls, empties, and a letter in between
						for len(src) < size {
							src = append(src, filler)
						}
						requireBounded(t, name, src, version)
					}
				}
			}
		})
	}
}

// claims are lengths and counts in their forms on the wire.
func claims(size int, flex bool) (all [][]byte) {
	for _, element := range []int{1, 3, 6, 11, 18, 33} { // bytes that the smallest elements take
		if n := size / element; flex {
			all = append(all, binary.AppendUvarint(nil, uint64(n)))
		} else {
			all = append(all, binary.BigEndian.AppendUint32(nil, uint32(n)))
		}
	}
	return append(all, []byte{0x7f, 0xff, 0xff, 0xff}, []byte{0xff, 0xff, 0xff, 0xff, 0x07}, []byte{1, 0, 0xff, 0xff, 0xff, 0xff, 0x07})
}

// most is for messages of nothing but elements: the more of them, the less the fixed part of the bound helps.
const most = 3000

func many[T any](n int, element T) []T {
	s := make([]T, n)
	for i := range s {
		s[i] = element
	}
	return s
}

// FC-129: messages that are right in every byte, and made of elements that are as empty as they can be. They may
// be refused, but not cost more than others.
func TestEmptyElementsAllocateByBytesReceived(t *testing.T) {
	empty := ptr("")
	partition := ProduceResponsePartition{CurrentLeader: NoLeader}
	record := []BatchIndexAndErrorMessage{{0, empty}}
	for name, kinds := range map[string][]Message{
		"ApiVersionsResponse": {
			&ApiVersionsResponse{ApiKeys: make([]ApiVersion, most), FinalizedFeaturesEpoch: -1},
			&ApiVersionsResponse{SupportedFeatures: make([]SupportedFeature, most)},
			&ApiVersionsResponse{FinalizedFeatures: make([]FinalizedFeature, most), SupportedFeatures: make([]SupportedFeature, most)},
		},
		"MetadataResponse": {
			&MetadataResponse{Brokers: make([]MetadataResponseBroker, most)},
			&MetadataResponse{Brokers: many(most, MetadataResponseBroker{Rack: empty})},
			&MetadataResponse{Brokers: many(most, MetadataResponseBroker{Host: "a", Rack: ptr("b")})},
			&MetadataResponse{Topics: make([]MetadataResponseTopic, most)},
			&MetadataResponse{Topics: many(most, MetadataResponseTopic{Name: empty})},
			&MetadataResponse{Topics: many(most, MetadataResponseTopic{Name: ptr("a")})},
			&MetadataResponse{Topics: many(most, MetadataResponseTopic{Name: ptr("nine long")})},
			&MetadataResponse{Topics: []MetadataResponseTopic{{Partitions: make([]MetadataResponsePartition, most)}}},
			&MetadataResponse{Topics: many(most, MetadataResponseTopic{Partitions: make([]MetadataResponsePartition, 1)})},
			&MetadataResponse{Topics: many(most, MetadataResponseTopic{Partitions: []MetadataResponsePartition{{ReplicaNodes: []int32{1}}}})},
			&MetadataResponse{Topics: many(100, MetadataResponseTopic{Partitions: many(30, MetadataResponsePartition{ReplicaNodes: make([]int32, 129)})})},
		},
		"ProduceResponse": {
			&ProduceResponse{Topics: make([]ProduceResponseTopic, most)},
			&ProduceResponse{Topics: []ProduceResponseTopic{{Partitions: many(most, partition)}}},
			&ProduceResponse{Topics: many(most, ProduceResponseTopic{Partitions: many(1, partition)})},
			&ProduceResponse{Topics: []ProduceResponseTopic{{Partitions: many(most, ProduceResponsePartition{Details: &ProduceDetails{record, empty}})}}},
			&ProduceResponse{Topics: []ProduceResponseTopic{{Partitions: many(1, ProduceResponsePartition{Details: &ProduceDetails{many(most, record[0]), nil}})}}},
			&ProduceResponse{NodeEndpoints: make([]NodeEndpoint, most)},
			&ProduceResponse{NodeEndpoints: many(most, NodeEndpoint{Rack: empty})},
		},
		"FetchResponse": {
			&FetchResponse{Topics: make([]FetchResponseTopic, most)},
			&FetchResponse{Topics: []FetchResponseTopic{{Partitions: make([]FetchResponsePartition, most)}}},
			&FetchResponse{Topics: []FetchResponseTopic{{Partitions: many(1, FetchResponsePartition{AbortedTransactions: make([]AbortedTransaction, most)})}}},
		},
		"ListOffsetsResponse": {
			&ListOffsetsResponse{Topics: make([]ListOffsetsResponseTopic, most)},
			&ListOffsetsResponse{Topics: []ListOffsetsResponseTopic{{Partitions: make([]ListOffsetsResponsePartition, most)}}},
		},
		"FindCoordinatorResponse": {
			&FindCoordinatorResponse{Coordinators: make([]Coordinator, most)},
			&FindCoordinatorResponse{Coordinators: many(most, Coordinator{ErrorMessage: empty})},
		},
	} {
		t.Run(name, func(t *testing.T) {
			minVersion, maxVersion := kinds[0].Key().Versions()
			for v := minVersion; v <= maxVersion; v++ {
				for _, m := range kinds {
					requireBounded(t, name, m.AppendTo(nil, v), v)
				}
			}
		})
	}
}

// FC-129: what real brokers said is decoded, within the bound, and says the same when it is written again. Cut at
// any byte it is an error.
func TestAnswersOfRealBrokers(t *testing.T) {
	kinds := map[string]int{}
	realAnswers(t, func(name string, version int16, b []byte) {
		kinds[name]++
		requireBounded(t, name, b, version)
		m, again := newMessage(name), newMessage(name)
		require.NoError(t, m.ReadFrom(b, version), "%s v%d", name, version)
		require.NoError(t, again.ReadFrom(m.AppendTo(nil, version), version))
		require.Equal(t, m, again)
		for n := range b {
			err := newMessage(name).ReadFrom(b[:n], version)
			if name == "ApiVersionsResponse" && n == 2 && err == nil {
				continue // an error code alone is an answer there
			}
			require.Error(t, err, "%d of %d bytes of %s v%d", n, len(b), name, version)
		}
	})
	for _, name := range []string{"ApiVersionsResponse", "MetadataResponse", "ProduceResponse", "InitProducerIdResponse"} {
		assert.Greater(t, kinds[name], 12, name)
	}
}

// What is refused for its memory must be nothing that a broker says: large clusters with the shortest names, one
// replica and one partition a topic are decoded at every version, by the client's way and by the other.
func TestShortAnswersOfLargeClustersAreDecoded(t *testing.T) {
	const n = 4000
	topics := make([]MetadataResponseTopic, n)
	verdicts := make([]ProduceResponseTopic, n)
	for i := range n {
		name := string([]byte{'a' + byte(i/1000), 'a' + byte(i/100%10), 'a' + byte(i/10%10), 'a' + byte(i%10)})
		topics[i] = MetadataResponseTopic{Name: &name, ErrorCode: UnknownTopicOrPartition}
		if i%2 == 0 {
			topics[i].Partitions = []MetadataResponsePartition{{ReplicaNodes: []int32{1}, IsrNodes: []int32{1}}}
		}
		verdicts[i] = ProduceResponseTopic{Name: []byte(name), Partitions: []ProduceResponsePartition{{Index: 1, CurrentLeader: NoLeader}}}
	}
	message := ptr("The server experienced an unexpected error when processing the request.")
	failed := many(n, ProduceResponsePartition{CurrentLeader: LeaderIDAndEpoch{1, 1}, Details: &ProduceDetails{nil, message}})
	for _, m := range []Message{
		&MetadataResponse{Topics: topics},
		&MetadataResponse{Topics: []MetadataResponseTopic{{Name: ptr("t"), Partitions: many(n, MetadataResponsePartition{ReplicaNodes: []int32{1}})}}},
		&MetadataResponse{Brokers: many(200, MetadataResponseBroker{Host: "b1:kafka", Rack: ptr("az-1")})},
		&MetadataResponse{Brokers: many(200, MetadataResponseBroker{Host: "10.0.0.1"})},
		&ProduceResponse{Topics: verdicts},
		&ProduceResponse{Topics: []ProduceResponseTopic{{Name: []byte("t"), Partitions: many(n, ProduceResponsePartition{Index: 1, CurrentLeader: NoLeader})}}},
		&ProduceResponse{Topics: []ProduceResponseTopic{{Name: []byte("t"), Partitions: failed}}, NodeEndpoints: many(200, NodeEndpoint{Host: "b1:kafka", Rack: ptr("az-1")})},
		&ApiVersionsResponse{ApiKeys: make([]ApiVersion, 200), SupportedFeatures: many(40, SupportedFeature{Name: "a.version"}), FinalizedFeatures: many(40, FinalizedFeature{Name: "a.version"})},
		&ListOffsetsResponse{Topics: many(n, ListOffsetsResponseTopic{Name: "abcd", Partitions: make([]ListOffsetsResponsePartition, 1)})},
		&FindCoordinatorResponse{Coordinators: many(200, Coordinator{Key: "group", Host: "b1:kafka"})},
	} {
		minVersion, maxVersion := m.Key().Versions()
		for v := minVersion; v <= maxVersion; v++ {
			name := strings.ReplaceAll(m.Key().String(), "API", "Api") + "Response"
			src := m.AppendTo(nil, v)
			assert.NoError(t, decodeAsClient(newMessage(name), src, v), "%s v%d of %d bytes", name, v, len(src))
			got := newMessage(name)
			require.NoError(t, got.ReadFrom(src, v))
			require.Equal(t, src, got.AppendTo(nil, v))
		}
	}
}

// An honest answer to a Produce request is never refused for its memory, however short the topics' names and however many: that would
// end the connection, and the same request again would meet the same. The sizes are those at which Go's allocator rounds up most.
func TestAnswersAboutVeryManyTinyTopicsAreDecoded(t *testing.T) {
	letters := "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-"
	partition := func(code ErrorCode, d *ProduceDetails) ProduceResponsePartition {
		return ProduceResponsePartition{ErrorCode: code, LogAppendTimeMs: -1, LogStartOffset: -1, Details: d, CurrentLeader: NoLeader}
	}
	many3 := make([]BatchIndexAndErrorMessage, 3)
	said := []BatchIndexAndErrorMessage{{0, ptr("a")}, {1, ptr("")}, {2, ptr("no key")}}
	for _, p := range []ProduceResponsePartition{
		partition(None, nil), partition(InvalidRecord, nil), partition(InvalidRecord, &ProduceDetails{nil, ptr("")}),
		partition(InvalidRecord, &ProduceDetails{nil, ptr("no key")}), partition(InvalidRecord, &ProduceDetails{many3, nil}),
		partition(InvalidRecord, &ProduceDetails{said, ptr("a")}),
	} {
		for _, n := range []int{1, 65, 109, 513, 641} {
			for _, parts := range []int{1, 6} {
				m := ProduceResponse{Topics: make([]ProduceResponseTopic, n)}
				for i := range m.Topics {
					name := letters[i%len(letters) : i%len(letters)+1]
					if i >= len(letters) {
						name += letters[i/len(letters) : i/len(letters)+1]
					}
					m.Topics[i] = ProduceResponseTopic{Name: []byte(name), ID: UUID{1, byte(i), byte(i >> 8)}, Partitions: many(parts, p)}
				}
				for v := int16(3); v <= 13; v++ {
					var got ProduceResponse
					src := m.AppendTo(nil, v)
					require.NoError(t, got.ReadAnswer(src, v, n, n*parts), "v%d, %d topics of %d partitions", v, n, parts)
					require.Equal(t, src, got.AppendTo(nil, v))
				}
			}
		}
	}
}
