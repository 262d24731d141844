package protocol

import "github.com/kafka-reservoir/producer/protocol/internal/wire"

// FetchResponse is the answer to [FetchRequest].
type FetchResponse struct {
	ThrottleTimeMs int32
	ErrorCode      ErrorCode // v7
	SessionID      int32     // v7; 0 when there is no session
	Topics         []FetchResponseTopic
	NodeEndpoints  []NodeEndpoint // v16
}

// FetchResponseTopic is one topic of a [FetchResponse].
type FetchResponseTopic struct {
	Topic      string // to v12
	TopicID    UUID   // v13
	Partitions []FetchResponsePartition
}

// FetchResponsePartition is one partition of a [FetchResponseTopic].
type FetchResponsePartition struct {
	PartitionIndex       int32
	ErrorCode            ErrorCode
	HighWatermark        int64
	LastStableOffset     int64                // -1 when not known
	LogStartOffset       int64                // v5; -1 when not known
	DivergingEpoch       EpochEndOffset       // v12; NoEpochEndOffset when absent
	CurrentLeader        LeaderIDAndEpoch     // v12; NoLeader when absent
	SnapshotID           EpochEndOffset       // v12; NoEpochEndOffset when absent
	AbortedTransactions  []AbortedTransaction // nil is a null on the wire
	PreferredReadReplica int32                // v11; -1 when there is none
	Records              []byte               // whole batches, the last one perhaps cut; nil is a null on the wire; aliases the decoded bytes
}

// EpochEndOffset is a leader epoch and the offset at which it ended.
type EpochEndOffset struct {
	Epoch     int32
	EndOffset int64
}

// NoEpochEndOffset is what stands in place of one that was not given.
var NoEpochEndOffset = EpochEndOffset{Epoch: -1, EndOffset: -1}

// AbortedTransaction tells a consumer from where on to skip the records of a producer.
type AbortedTransaction struct {
	ProducerID  int64
	FirstOffset int64
}

// Tags of the response's optional fields.
const (
	tagFetchDivergingEpoch = 0 // in a partition
	tagFetchCurrentLeader  = 1
	tagFetchSnapshotID     = 2
	tagFetchNodeEndpoints  = 0 // in the response
)

// Key is KeyFetch.
func (*FetchResponse) Key() APIKey { return KeyFetch }

// AppendTo implements [Message].
func (m *FetchResponse) AppendTo(dst []byte, version int16) []byte {
	flex := flexibleToAppend(KeyFetch, version)
	dst = wire.AppendInt32(dst, m.ThrottleTimeMs)
	if version >= 7 {
		dst = wire.AppendInt16(dst, int16(m.ErrorCode))
		dst = wire.AppendInt32(dst, m.SessionID)
	}
	dst = wire.AppendLen(dst, len(m.Topics), flex)
	for i := range m.Topics {
		t := &m.Topics[i]
		dst = appendTopicNameOrID(dst, t.Topic, t.TopicID, version, flex)
		dst = wire.AppendLen(dst, len(t.Partitions), flex)
		for j := range t.Partitions {
			dst = t.Partitions[j].appendTo(dst, version, flex)
		}
		dst = wire.AppendNoTags(dst, flex)
	}
	if version >= 16 && len(m.NodeEndpoints) > 0 {
		return appendNodeEndpointsTag(wire.AppendUvarint(dst, 1), tagFetchNodeEndpoints, m.NodeEndpoints)
	}
	return wire.AppendNoTags(dst, flex)
}

func (p *FetchResponsePartition) appendTo(dst []byte, version int16, flex bool) []byte {
	dst = wire.AppendInt32(dst, p.PartitionIndex)
	dst = wire.AppendInt16(dst, int16(p.ErrorCode))
	dst = wire.AppendInt64(dst, p.HighWatermark)
	dst = wire.AppendInt64(dst, p.LastStableOffset)
	if version >= 5 {
		dst = wire.AppendInt64(dst, p.LogStartOffset)
	}
	if p.AbortedTransactions == nil {
		dst = wire.AppendNullArray(dst, flex)
	} else {
		dst = wire.AppendLen(dst, len(p.AbortedTransactions), flex)
	}
	for _, a := range p.AbortedTransactions {
		dst = wire.AppendInt64(dst, a.ProducerID)
		dst = wire.AppendInt64(dst, a.FirstOffset)
		dst = wire.AppendNoTags(dst, flex)
	}
	if version >= 11 {
		dst = wire.AppendInt32(dst, p.PreferredReadReplica)
	}
	dst = wire.AppendNullableBytes(dst, p.Records, flex)
	if !flex {
		return dst
	}

	tags := 0
	if p.DivergingEpoch != NoEpochEndOffset {
		tags++
	}
	if p.CurrentLeader != NoLeader {
		tags++
	}
	if p.SnapshotID != NoEpochEndOffset {
		tags++
	}
	dst = wire.AppendUvarint(dst, uint64(tags))
	if p.DivergingEpoch != NoEpochEndOffset {
		dst = wire.AppendTag(dst, tagFetchDivergingEpoch, 13)
		dst = wire.AppendInt32(dst, p.DivergingEpoch.Epoch)
		dst = wire.AppendInt64(dst, p.DivergingEpoch.EndOffset)
		dst = wire.AppendNoTags(dst, true)
	}
	if p.CurrentLeader != NoLeader {
		dst = appendLeaderTag(dst, tagFetchCurrentLeader, p.CurrentLeader)
	}
	if p.SnapshotID != NoEpochEndOffset {
		dst = wire.AppendTag(dst, tagFetchSnapshotID, 13)
		dst = wire.AppendInt64(dst, p.SnapshotID.EndOffset) // the other way round than in DivergingEpoch
		dst = wire.AppendInt32(dst, p.SnapshotID.Epoch)
		dst = wire.AppendNoTags(dst, true)
	}
	return dst
}

// ReadFrom implements [Message].
func (m *FetchResponse) ReadFrom(src []byte, version int16) error {
	r, flex := newReader(src, KeyFetch, version)
	*m = FetchResponse{}
	m.ThrottleTimeMs = r.Int32()
	if version >= 7 {
		m.ErrorCode = ErrorCode(r.Int16())
		m.SessionID = r.Int32()
	}
	m.Topics = makeArray[FetchResponseTopic](&r, flex, 3)
	for i := range m.Topics {
		t := &m.Topics[i]
		t.Topic, t.TopicID = readTopicNameOrID(&r, version, flex)
		t.Partitions = makeArray[FetchResponsePartition](&r, flex, 30)
		for j := range t.Partitions {
			t.Partitions[j].readFrom(&r, version, flex)
			if r.Err() != nil {
				break
			}
		}
		r.SkipTags(flex)
		if r.Err() != nil {
			break
		}
	}
	for n := r.Tags(flex); n > 0; n-- {
		tag, after := r.Tag()
		switch {
		case tag == tagFetchNodeEndpoints && version >= 16:
			m.NodeEndpoints = readNodeEndpoints(&r)
		default:
			r.SkipTag()
		}
		r.EndTag(after)
	}
	return closeReader(&r, KeyFetch, "response", version)
}

func (p *FetchResponsePartition) readFrom(r *wire.Reader, version int16, flex bool) {
	*p = FetchResponsePartition{
		LogStartOffset: -1, DivergingEpoch: NoEpochEndOffset, CurrentLeader: NoLeader,
		SnapshotID: NoEpochEndOffset, PreferredReadReplica: -1,
	}
	p.PartitionIndex = r.Int32()
	p.ErrorCode = ErrorCode(r.Int16())
	p.HighWatermark = r.Int64()
	p.LastStableOffset = r.Int64()
	if version >= 5 {
		p.LogStartOffset = r.Int64()
	}
	if n := nullableCount[AbortedTransaction](r, flex, 16); n >= 0 {
		p.AbortedTransactions = make([]AbortedTransaction, n)
	}
	for i := range p.AbortedTransactions {
		p.AbortedTransactions[i] = AbortedTransaction{ProducerID: r.Int64(), FirstOffset: r.Int64()}
		r.SkipTags(flex)
	}
	if version >= 11 {
		p.PreferredReadReplica = r.Int32()
	}
	p.Records = r.NullableBytes(flex)
	for n := r.Tags(flex); n > 0; n-- {
		tag, after := r.Tag()
		switch tag {
		case tagFetchDivergingEpoch:
			p.DivergingEpoch = EpochEndOffset{Epoch: r.Int32(), EndOffset: r.Int64()}
			r.SkipTags(true)
		case tagFetchCurrentLeader:
			p.CurrentLeader = readLeader(r)
		case tagFetchSnapshotID:
			p.SnapshotID.EndOffset = r.Int64()
			p.SnapshotID.Epoch = r.Int32()
			r.SkipTags(true)
		default:
			r.SkipTag()
		}
		r.EndTag(after)
	}
}
