package protocol

import (
	"unsafe"

	"github.com/kafka-reservoir/producer/protocol/internal/wire"
)

// ProduceResponse is the answer to [ProduceRequest]. ReadFrom reuses the receiver's slices, so a
// response that is decoded into again and again allocates nothing as long as it carries no errors. All
// that it holds is valid until the next ReadFrom only, strings behind pointers excepted.
type ProduceResponse struct {
	Topics         []ProduceResponseTopic
	ThrottleTimeMs int32
	NodeEndpoints  []NodeEndpoint // v10: where the leaders named in CurrentLeader are (KIP-951)
}

// ProduceResponseTopic is one topic of a [ProduceResponse].
type ProduceResponseTopic struct {
	Name       []byte // v3 to v12; aliases the decoded bytes
	ID         UUID   // v13
	Partitions []ProduceResponsePartition
}

// ProduceResponsePartition is the verdict on one record batch.
type ProduceResponsePartition struct {
	Index           int32
	ErrorCode       ErrorCode
	BaseOffset      int64
	LogAppendTimeMs int64            // -1 when the topic keeps create times
	LogStartOffset  int64            // v5; -1 when not known
	Details         *ProduceDetails  // v8; nil when there are none
	CurrentLeader   LeaderIDAndEpoch // v10; NoLeader when absent
}

// ProduceDetails is what a broker may add to an error. They are few, and would make up half of every verdict.
type ProduceDetails struct {
	RecordErrors []BatchIndexAndErrorMessage
	ErrorMessage *string
}

// BatchIndexAndErrorMessage says what was wrong with one record of a batch.
type BatchIndexAndErrorMessage struct {
	BatchIndex             int32
	BatchIndexErrorMessage *string
}

// LeaderIDAndEpoch is a hint about a partition's new leader.
type LeaderIDAndEpoch struct {
	LeaderID    int32
	LeaderEpoch int32
}

// NoLeader is what stands in place of a hint that was not given.
var NoLeader = LeaderIDAndEpoch{LeaderID: -1, LeaderEpoch: -1}

// NodeEndpoint is the address of a broker named in a leader hint.
type NodeEndpoint struct {
	NodeID int32
	Host   string
	Port   int32
	Rack   *string
}

// Tags of the response's optional fields.
const (
	tagProduceCurrentLeader = 0 // in a partition
	tagProduceNodeEndpoints = 0 // in the response
)

// Key is KeyProduce.
func (*ProduceResponse) Key() APIKey { return KeyProduce }

// AppendTo implements [Message].
func (m *ProduceResponse) AppendTo(dst []byte, version int16) []byte {
	flex := flexibleToAppend(KeyProduce, version)
	dst = wire.AppendLen(dst, len(m.Topics), flex)
	for i := range m.Topics {
		t := &m.Topics[i]
		if version >= 13 {
			dst = append(dst, t.ID[:]...)
		} else {
			dst = wire.AppendStringBytes(dst, t.Name, flex)
		}
		dst = wire.AppendLen(dst, len(t.Partitions), flex)
		for j := range t.Partitions {
			dst = t.Partitions[j].appendTo(dst, version, flex)
		}
		dst = wire.AppendNoTags(dst, flex)
	}
	dst = wire.AppendInt32(dst, m.ThrottleTimeMs)
	if version >= 10 && len(m.NodeEndpoints) > 0 {
		return appendNodeEndpointsTag(wire.AppendUvarint(dst, 1), tagProduceNodeEndpoints, m.NodeEndpoints)
	}
	return wire.AppendNoTags(dst, flex)
}

func (p *ProduceResponsePartition) appendTo(dst []byte, version int16, flex bool) []byte {
	dst = wire.AppendInt32(dst, p.Index)
	dst = wire.AppendInt16(dst, int16(p.ErrorCode))
	dst = wire.AppendInt64(dst, p.BaseOffset)
	dst = wire.AppendInt64(dst, p.LogAppendTimeMs)
	if version >= 5 {
		dst = wire.AppendInt64(dst, p.LogStartOffset)
	}
	if version >= 8 {
		var d ProduceDetails
		if p.Details != nil {
			d = *p.Details
		}
		dst = wire.AppendLen(dst, len(d.RecordErrors), flex)
		for i := range d.RecordErrors {
			e := &d.RecordErrors[i]
			dst = wire.AppendInt32(dst, e.BatchIndex)
			dst = wire.AppendNullableString(dst, e.BatchIndexErrorMessage, flex)
			dst = wire.AppendNoTags(dst, flex)
		}
		dst = wire.AppendNullableString(dst, d.ErrorMessage, flex)
	}
	if version >= 10 && p.CurrentLeader != NoLeader {
		return appendLeaderTag(wire.AppendUvarint(dst, 1), tagProduceCurrentLeader, p.CurrentLeader)
	}
	return wire.AppendNoTags(dst, flex)
}

// ReadFrom implements [Message]. Verdicts on very many topics of one partition each, whose names have one or two
// letters, are larger in memory than a stranger's bytes may become: [ProduceResponse.ReadAnswer] is for those.
func (m *ProduceResponse) ReadFrom(src []byte, version int16) error {
	return m.ReadAnswer(src, version, 0, 0)
}

// What a topic and a partition take up in memory, at most: Go's allocator rounds up by less than a quarter.
const (
	answerTopic     = int(unsafe.Sizeof(ProduceResponseTopic{})) * 5 / 4
	answerPartition = int(unsafe.Sizeof(ProduceResponsePartition{})) * 5 / 4
)

// ReadAnswer is ReadFrom for the answer to a request of so many topics and partitions. The room for as many verdicts is
// granted whatever the answer's size, so that no honest answer is refused for its memory, and what it may allocate stays
// bounded: by 4 bytes for each of its own, 4 KiB, 80 bytes for a topic asked about, and 60 for a partition.
//
// It is called for every response on the hot path. Slices keep their room, and a partition's previous
// contents are overwritten field by field, so steady traffic decodes without allocating
// (TestProduceResponseAllocs).
func (m *ProduceResponse) ReadAnswer(src []byte, version int16, topics, partitions int) error {
	r, flex := newReader(src, KeyProduce, version)
	r.Grant(topics*answerTopic + partitions*answerPartition)
	m.ThrottleTimeMs = 0
	m.NodeEndpoints = m.NodeEndpoints[:0]
	m.Topics = resize(m.Topics, count[ProduceResponseTopic](&r, flex, 3))
	for i := range m.Topics {
		t := &m.Topics[i]
		t.Name, t.ID = nil, UUID{}
		if version >= 13 {
			t.ID = r.UUID()
		} else {
			t.Name = r.StringBytes(flex)
		}
		t.Partitions = resize(t.Partitions, count[ProduceResponsePartition](&r, flex, 22))
		for j := range t.Partitions {
			t.Partitions[j].readFrom(&r, version, flex)
		}
		r.SkipTags(flex)
		if r.Err() != nil {
			break
		}
	}
	m.ThrottleTimeMs = r.Int32()
	for n := r.Tags(flex); n > 0; n-- {
		tag, after := r.Tag()
		switch {
		case tag == tagProduceNodeEndpoints && version >= 10:
			m.NodeEndpoints = readNodeEndpoints(&r)
		default:
			r.SkipTag()
		}
		r.EndTag(after)
	}
	return closeReader(&r, KeyProduce, "response", version)
}

func (p *ProduceResponsePartition) readFrom(r *wire.Reader, version int16, flex bool) {
	p.Index = r.Int32()
	p.ErrorCode = ErrorCode(r.Int16())
	p.BaseOffset = r.Int64()
	p.LogAppendTimeMs = r.Int64()
	p.LogStartOffset = -1
	if version >= 5 {
		p.LogStartOffset = r.Int64()
	}
	p.Details = nil
	if version >= 8 {
		var d ProduceDetails
		if n := count[BatchIndexAndErrorMessage](r, flex, 6); n > 0 {
			d.RecordErrors = make([]BatchIndexAndErrorMessage, n)
		}
		for i := range d.RecordErrors {
			e := &d.RecordErrors[i]
			e.BatchIndex = r.Int32()
			e.BatchIndexErrorMessage = r.NullableString(flex)
			r.SkipTags(flex)
		}
		d.ErrorMessage = r.NullableString(flex)
		if (d.RecordErrors != nil || d.ErrorMessage != nil) && r.Reserve(int(unsafe.Sizeof(d))) {
			p.Details = &ProduceDetails{d.RecordErrors, d.ErrorMessage}
		}
	}
	p.CurrentLeader = NoLeader
	for n := r.Tags(flex); n > 0; n-- {
		tag, after := r.Tag()
		switch {
		case tag == tagProduceCurrentLeader && version >= 10:
			p.CurrentLeader = readLeader(r)
		default:
			r.SkipTag()
		}
		r.EndTag(after)
	}
}

// resize makes s n elements long. Elements that were there before keep their contents, those hidden in
// the capacity included, so that their own slices can be used again.
func resize[T any](s []T, n int) []T {
	if n <= cap(s) {
		return s[:n]
	}
	grown := make([]T, n)
	copy(grown, s[:cap(s)])
	return grown
}

func appendLeaderTag(dst []byte, tag int, l LeaderIDAndEpoch) []byte {
	dst = wire.AppendTag(dst, tag, 9)
	dst = wire.AppendInt32(dst, l.LeaderID)
	dst = wire.AppendInt32(dst, l.LeaderEpoch)
	return wire.AppendNoTags(dst, true)
}

func readLeader(r *wire.Reader) LeaderIDAndEpoch {
	l := LeaderIDAndEpoch{LeaderID: r.Int32(), LeaderEpoch: r.Int32()}
	r.SkipTags(true)
	return l
}

func appendNodeEndpointsTag(dst []byte, tag int, endpoints []NodeEndpoint) []byte {
	var b []byte // rare: only with hints about new leaders
	b = wire.AppendLen(b, len(endpoints), true)
	for i := range endpoints {
		e := &endpoints[i]
		b = wire.AppendInt32(b, e.NodeID)
		b = wire.AppendString(b, e.Host, true)
		b = wire.AppendInt32(b, e.Port)
		b = wire.AppendNullableString(b, e.Rack, true)
		b = wire.AppendNoTags(b, true)
	}
	return append(wire.AppendTag(dst, tag, len(b)), b...)
}

func readNodeEndpoints(r *wire.Reader) []NodeEndpoint {
	endpoints := makeArray[NodeEndpoint](r, true, 11)
	for i := range endpoints {
		e := &endpoints[i]
		e.NodeID = r.Int32()
		e.Host = r.String(true)
		e.Port = r.Int32()
		e.Rack = r.NullableString(true)
		r.SkipTags(true)
	}
	return endpoints
}
