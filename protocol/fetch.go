package protocol

import "github.com/kafka-reservoir/producer/protocol/internal/wire"

// FetchRequest asks for record batches.
type FetchRequest struct {
	ClusterID       *string      // v12
	ReplicaID       int32        // to v14; -1 for a consumer
	ReplicaState    ReplicaState // v15; NoReplica for a consumer
	MaxWaitMs       int32
	MinBytes        int32
	MaxBytes        int32
	IsolationLevel  int8
	SessionID       int32 // v7; 0 when there is no session
	SessionEpoch    int32 // v7; -1 when there is no session
	Topics          []FetchRequestTopic
	ForgottenTopics []ForgottenTopic // v7
	RackID          string           // v11
}

// ReplicaState says which follower is fetching.
type ReplicaState struct {
	ReplicaID    int32
	ReplicaEpoch int64
}

// NoReplica is the replica state of a consumer.
var NoReplica = ReplicaState{ReplicaID: -1, ReplicaEpoch: -1}

// FetchRequestTopic is one topic of a [FetchRequest], named up to v12 and by id from v13 on.
type FetchRequestTopic struct {
	Topic      string // to v12
	TopicID    UUID   // v13
	Partitions []FetchRequestPartition
}

// FetchRequestPartition is one partition of a [FetchRequestTopic].
type FetchRequestPartition struct {
	Partition          int32
	CurrentLeaderEpoch int32 // v9; -1 when not known
	FetchOffset        int64
	LastFetchedEpoch   int32 // v12; -1 when not known
	LogStartOffset     int64 // v5; -1 for a consumer
	PartitionMaxBytes  int32
	ReplicaDirectoryID UUID  // v17
	HighWatermark      int64 // v18; NoHighWatermark for a consumer
}

// NoHighWatermark is what a consumer, which has none, has in a fetch request.
const NoHighWatermark int64 = 1<<63 - 1

// ForgottenTopic names partitions to take out of a fetch session.
type ForgottenTopic struct {
	Topic      string // v7 to v12
	TopicID    UUID   // v13
	Partitions []int32
}

// Tags of the request's optional fields.
const (
	tagFetchClusterID          = 0 // in the request
	tagFetchReplicaState       = 1
	tagFetchReplicaDirectoryID = 0 // in a partition
	tagFetchHighWatermark      = 1
)

// Key is KeyFetch.
func (*FetchRequest) Key() APIKey { return KeyFetch }

// AppendTo implements [Message].
func (m *FetchRequest) AppendTo(dst []byte, version int16) []byte {
	flex := flexibleToAppend(KeyFetch, version)
	if version <= 14 {
		dst = wire.AppendInt32(dst, m.ReplicaID)
	}
	dst = wire.AppendInt32(dst, m.MaxWaitMs)
	dst = wire.AppendInt32(dst, m.MinBytes)
	dst = wire.AppendInt32(dst, m.MaxBytes)
	dst = wire.AppendInt8(dst, m.IsolationLevel)
	if version >= 7 {
		dst = wire.AppendInt32(dst, m.SessionID)
		dst = wire.AppendInt32(dst, m.SessionEpoch)
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
	if version >= 7 {
		dst = wire.AppendLen(dst, len(m.ForgottenTopics), flex)
		for i := range m.ForgottenTopics {
			t := &m.ForgottenTopics[i]
			dst = appendTopicNameOrID(dst, t.Topic, t.TopicID, version, flex)
			dst = wire.AppendInt32s(dst, t.Partitions, flex)
			dst = wire.AppendNoTags(dst, flex)
		}
	}
	if version >= 11 {
		dst = wire.AppendString(dst, m.RackID, flex)
	}
	if !flex {
		return dst
	}
	return m.appendTags(dst, version)
}

// appendTopicNameOrID appends what names a topic: since v13 its id.
func appendTopicNameOrID(dst []byte, name string, id UUID, version int16, flex bool) []byte {
	if version >= 13 {
		return append(dst, id[:]...)
	}
	return wire.AppendString(dst, name, flex)
}

func (m *FetchRequest) appendTags(dst []byte, version int16) []byte {
	replica := version >= 15 && m.ReplicaState != NoReplica
	tags := 0
	if m.ClusterID != nil {
		tags++
	}
	if replica {
		tags++
	}
	dst = wire.AppendUvarint(dst, uint64(tags))
	if m.ClusterID != nil {
		id := wire.AppendNullableString(nil, m.ClusterID, true)
		dst = append(wire.AppendTag(dst, tagFetchClusterID, len(id)), id...)
	}
	if replica {
		dst = wire.AppendTag(dst, tagFetchReplicaState, 13)
		dst = wire.AppendInt32(dst, m.ReplicaState.ReplicaID)
		dst = wire.AppendInt64(dst, m.ReplicaState.ReplicaEpoch)
		dst = wire.AppendNoTags(dst, true)
	}
	return dst
}

func (p *FetchRequestPartition) appendTo(dst []byte, version int16, flex bool) []byte {
	dst = wire.AppendInt32(dst, p.Partition)
	if version >= 9 {
		dst = wire.AppendInt32(dst, p.CurrentLeaderEpoch)
	}
	dst = wire.AppendInt64(dst, p.FetchOffset)
	if version >= 12 {
		dst = wire.AppendInt32(dst, p.LastFetchedEpoch)
	}
	if version >= 5 {
		dst = wire.AppendInt64(dst, p.LogStartOffset)
	}
	dst = wire.AppendInt32(dst, p.PartitionMaxBytes)
	if !flex {
		return dst
	}

	directory := version >= 17 && !p.ReplicaDirectoryID.IsZero()
	watermark := version >= 18 && p.HighWatermark != NoHighWatermark
	tags := 0
	if directory {
		tags++
	}
	if watermark {
		tags++
	}
	dst = wire.AppendUvarint(dst, uint64(tags))
	if directory {
		dst = append(wire.AppendTag(dst, tagFetchReplicaDirectoryID, 16), p.ReplicaDirectoryID[:]...)
	}
	if watermark {
		dst = wire.AppendInt64(wire.AppendTag(dst, tagFetchHighWatermark, 8), p.HighWatermark)
	}
	return dst
}

// ReadFrom implements [Message].
func (m *FetchRequest) ReadFrom(src []byte, version int16) error {
	r, flex := newRequestReader(src, KeyFetch, version)
	*m = FetchRequest{ReplicaID: -1, ReplicaState: NoReplica, SessionEpoch: -1}
	if version <= 14 {
		m.ReplicaID = r.Int32()
	}
	m.MaxWaitMs = r.Int32()
	m.MinBytes = r.Int32()
	m.MaxBytes = r.Int32()
	m.IsolationLevel = r.Int8()
	if version >= 7 {
		m.SessionID = r.Int32()
		m.SessionEpoch = r.Int32()
	}
	m.Topics = makeArray[FetchRequestTopic](&r, flex, 3)
	for i := range m.Topics {
		t := &m.Topics[i]
		t.Topic, t.TopicID = readTopicNameOrID(&r, version, flex)
		t.Partitions = makeArray[FetchRequestPartition](&r, flex, 16)
		for j := range t.Partitions {
			t.Partitions[j].readFrom(&r, version, flex)
		}
		r.SkipTags(flex)
		if r.Err() != nil {
			break
		}
	}
	if version >= 7 {
		m.ForgottenTopics = makeArray[ForgottenTopic](&r, flex, 3)
		for i := range m.ForgottenTopics {
			t := &m.ForgottenTopics[i]
			t.Topic, t.TopicID = readTopicNameOrID(&r, version, flex)
			t.Partitions = r.Int32s(flex)
			r.SkipTags(flex)
		}
	}
	if version >= 11 {
		m.RackID = r.String(flex)
	}
	for n := r.Tags(flex); n > 0; n-- {
		tag, after := r.Tag()
		switch {
		case tag == tagFetchClusterID:
			m.ClusterID = r.NullableString(true)
		case tag == tagFetchReplicaState && version >= 15:
			m.ReplicaState = ReplicaState{ReplicaID: r.Int32(), ReplicaEpoch: r.Int64()}
			r.SkipTags(true)
		default:
			r.SkipTag()
		}
		r.EndTag(after)
	}
	return closeReader(&r, KeyFetch, "request", version)
}

func readTopicNameOrID(r *wire.Reader, version int16, flex bool) (name string, id UUID) {
	if version >= 13 {
		return "", r.UUID()
	}
	return r.String(flex), UUID{}
}

func (p *FetchRequestPartition) readFrom(r *wire.Reader, version int16, flex bool) {
	*p = FetchRequestPartition{CurrentLeaderEpoch: -1, LastFetchedEpoch: -1, LogStartOffset: -1, HighWatermark: NoHighWatermark}
	p.Partition = r.Int32()
	if version >= 9 {
		p.CurrentLeaderEpoch = r.Int32()
	}
	p.FetchOffset = r.Int64()
	if version >= 12 {
		p.LastFetchedEpoch = r.Int32()
	}
	if version >= 5 {
		p.LogStartOffset = r.Int64()
	}
	p.PartitionMaxBytes = r.Int32()
	for n := r.Tags(flex); n > 0; n-- {
		tag, after := r.Tag()
		switch {
		case tag == tagFetchReplicaDirectoryID && version >= 17:
			p.ReplicaDirectoryID = r.UUID()
		case tag == tagFetchHighWatermark && version >= 18:
			p.HighWatermark = r.Int64()
		default:
			r.SkipTag()
		}
		r.EndTag(after)
	}
}
