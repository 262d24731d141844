package protocol

import (
	"iter"

	"github.com/kafka-reservoir/producer/internal/invariants"
	"github.com/kafka-reservoir/producer/protocol/internal/wire"
)

// MetadataRequest asks for brokers, and for topics with their partitions and leaders.
type MetadataRequest struct {
	// Topics to describe. From v1 on nil means all topics and an empty list means none;
	// v0 cannot say none: there both mean all.
	Topics                             []MetadataRequestTopic
	AllowAutoTopicCreation             bool // v4; earlier versions always allow it
	IncludeClusterAuthorizedOperations bool // v8 to v10
	IncludeTopicAuthorizedOperations   bool // v8
}

// MetadataRequestTopic names a topic by its name or, from v12 on, by its id with a nil name.
type MetadataRequestTopic struct {
	TopicID UUID    // v10
	Name    *string // nullable from v10 on
}

// AuthorizedOperationsUnknown stands where authorized operations were not asked for.
const AuthorizedOperationsUnknown int32 = -1 << 31

// MetadataResponse is the answer to [MetadataRequest].
type MetadataResponse struct {
	ThrottleTimeMs              int32 // v3
	Brokers                     []MetadataResponseBroker
	ClusterID                   *string // v2
	ControllerID                int32   // v1; -1 when there is none
	Topics                      []MetadataResponseTopic
	ClusterAuthorizedOperations int32     // v8 to v10; AuthorizedOperationsUnknown when not asked for
	ErrorCode                   ErrorCode // v13

	inPlace inPlace // the topics, after ReadInPlace
}

// inPlace is an array that was checked, and is decoded when somebody goes through it.
type inPlace struct {
	src     []byte
	count   int
	version int16
}

// MetadataResponseBroker is one broker of the cluster.
type MetadataResponseBroker struct {
	NodeID int32
	Host   string
	Port   int32
	Rack   *string // v1
}

// MetadataResponseTopic is one topic of a [MetadataResponse].
type MetadataResponseTopic struct {
	ErrorCode                 ErrorCode
	Name                      *string // nullable from v12 on
	TopicID                   UUID    // v10
	IsInternal                bool    // v1
	Partitions                []MetadataResponsePartition
	TopicAuthorizedOperations int32 // v8; AuthorizedOperationsUnknown when not asked for

	inPlace inPlace // the partitions, after ReadInPlace
}

// MetadataResponsePartition is one partition of a [MetadataResponseTopic].
type MetadataResponsePartition struct {
	ErrorCode       ErrorCode
	PartitionIndex  int32
	LeaderID        int32 // -1 when there is none
	LeaderEpoch     int32 // v7; -1 when not known
	ReplicaNodes    []int32
	IsrNodes        []int32
	OfflineReplicas []int32 // v5
}

// Key is KeyMetadata.
func (*MetadataRequest) Key() APIKey { return KeyMetadata }

// AppendTo implements [Message].
func (m *MetadataRequest) AppendTo(dst []byte, version int16) []byte {
	flex := flexibleToAppend(KeyMetadata, version)
	if m.Topics == nil && version >= 1 {
		dst = wire.AppendNullArray(dst, flex)
	} else {
		dst = wire.AppendLen(dst, len(m.Topics), flex)
	}
	for i := range m.Topics {
		t := &m.Topics[i]
		if version >= 10 {
			dst = append(dst, t.TopicID[:]...)
		}
		switch {
		case t.Name == nil && version < 10:
			dst = wire.AppendString(dst, "", flex)
		default:
			dst = wire.AppendNullableString(dst, t.Name, flex)
		}
		dst = wire.AppendNoTags(dst, flex)
	}
	if version >= 4 {
		dst = wire.AppendBool(dst, m.AllowAutoTopicCreation)
	}
	if version >= 8 && version <= 10 {
		dst = wire.AppendBool(dst, m.IncludeClusterAuthorizedOperations)
	}
	if version >= 8 {
		dst = wire.AppendBool(dst, m.IncludeTopicAuthorizedOperations)
	}
	return wire.AppendNoTags(dst, flex)
}

// ReadFrom implements [Message].
func (m *MetadataRequest) ReadFrom(src []byte, version int16) error {
	r, flex := newRequestReader(src, KeyMetadata, version)
	*m = MetadataRequest{AllowAutoTopicCreation: true}
	n := 0
	if version >= 1 {
		n = nullableCount[MetadataRequestTopic](&r, flex, 2)
	} else if n = count[MetadataRequestTopic](&r, flex, 2); n == 0 {
		n = -1 // v0 says all topics by an empty list
	}
	if n >= 0 {
		m.Topics = make([]MetadataRequestTopic, n)
	}
	for i := range m.Topics {
		t := &m.Topics[i]
		if version >= 10 {
			t.TopicID = r.UUID()
			t.Name = r.NullableString(flex)
		} else {
			name := r.String(flex)
			t.Name = &name
		}
		r.SkipTags(flex)
	}
	if version >= 4 {
		m.AllowAutoTopicCreation = r.Bool()
	}
	if version >= 8 && version <= 10 {
		m.IncludeClusterAuthorizedOperations = r.Bool()
	}
	if version >= 8 {
		m.IncludeTopicAuthorizedOperations = r.Bool()
	}
	r.SkipTags(flex)
	return closeReader(&r, KeyMetadata, "request", version)
}

// Key is KeyMetadata.
func (*MetadataResponse) Key() APIKey { return KeyMetadata }

// AppendTo implements [Message].
func (m *MetadataResponse) AppendTo(dst []byte, version int16) []byte {
	flex := flexibleToAppend(KeyMetadata, version)
	if version >= 3 {
		dst = wire.AppendInt32(dst, m.ThrottleTimeMs)
	}
	dst = wire.AppendLen(dst, len(m.Brokers), flex)
	for i := range m.Brokers {
		b := &m.Brokers[i]
		dst = wire.AppendInt32(dst, b.NodeID)
		dst = wire.AppendString(dst, b.Host, flex)
		dst = wire.AppendInt32(dst, b.Port)
		if version >= 1 {
			dst = wire.AppendNullableString(dst, b.Rack, flex)
		}
		dst = wire.AppendNoTags(dst, flex)
	}
	if version >= 2 {
		dst = wire.AppendNullableString(dst, m.ClusterID, flex)
	}
	if version >= 1 {
		dst = wire.AppendInt32(dst, m.ControllerID)
	}
	dst = wire.AppendLen(dst, len(m.Topics), flex)
	for i := range m.Topics {
		dst = m.Topics[i].appendTo(dst, version, flex)
	}
	if version >= 8 && version <= 10 {
		dst = wire.AppendInt32(dst, m.ClusterAuthorizedOperations)
	}
	if version >= 13 {
		dst = wire.AppendInt16(dst, int16(m.ErrorCode))
	}
	return wire.AppendNoTags(dst, flex)
}

func (t *MetadataResponseTopic) appendTo(dst []byte, version int16, flex bool) []byte {
	dst = wire.AppendInt16(dst, int16(t.ErrorCode))
	switch {
	case t.Name == nil && version < 12:
		dst = wire.AppendString(dst, "", flex)
	default:
		dst = wire.AppendNullableString(dst, t.Name, flex)
	}
	if version >= 10 {
		dst = append(dst, t.TopicID[:]...)
	}
	if version >= 1 {
		dst = wire.AppendBool(dst, t.IsInternal)
	}
	dst = wire.AppendLen(dst, len(t.Partitions), flex)
	for i := range t.Partitions {
		p := &t.Partitions[i]
		dst = wire.AppendInt16(dst, int16(p.ErrorCode))
		dst = wire.AppendInt32(dst, p.PartitionIndex)
		dst = wire.AppendInt32(dst, p.LeaderID)
		if version >= 7 {
			dst = wire.AppendInt32(dst, p.LeaderEpoch)
		}
		dst = wire.AppendInt32s(dst, p.ReplicaNodes, flex)
		dst = wire.AppendInt32s(dst, p.IsrNodes, flex)
		if version >= 5 {
			dst = wire.AppendInt32s(dst, p.OfflineReplicas, flex)
		}
		dst = wire.AppendNoTags(dst, flex)
	}
	if version >= 8 {
		dst = wire.AppendInt32(dst, t.TopicAuthorizedOperations)
	}
	return wire.AppendNoTags(dst, flex)
}

// ReadFrom implements [Message]. Topics and partitions of few bytes become ten times as large as they were: bytes
// of a stranger are for [MetadataResponse.ReadInPlace].
func (m *MetadataResponse) ReadFrom(src []byte, version int16) error {
	if err := m.ReadInPlace(src, version); err != nil {
		return err
	}
	topics := make([]MetadataResponseTopic, 0, m.inPlace.count)
	for t := range m.AllTopics() {
		t.Partitions = make([]MetadataResponsePartition, 0, t.inPlace.count)
		for p := range t.AllPartitions() {
			t.Partitions = append(t.Partitions, *p)
		}
		t.inPlace = inPlace{}
		topics = append(topics, *t)
	}
	m.Topics, m.inPlace = topics, inPlace{}
	return nil
}

// ReadInPlace is ReadFrom without Topics: they are checked, to the last byte, but stay in src, which must
// not change for as long as [MetadataResponse.AllTopics] is called.
func (m *MetadataResponse) ReadInPlace(src []byte, version int16) error {
	r, flex := newReader(src, KeyMetadata, version)
	*m = MetadataResponse{ControllerID: -1, ClusterAuthorizedOperations: AuthorizedOperationsUnknown}
	if version >= 3 {
		m.ThrottleTimeMs = r.Int32()
	}
	m.Brokers = makeArray[MetadataResponseBroker](&r, flex, 10)
	for i := range m.Brokers {
		b := &m.Brokers[i]
		b.NodeID = r.Int32()
		b.Host = r.String(flex)
		b.Port = r.Int32()
		if version >= 1 {
			b.Rack = r.NullableString(flex)
		}
		r.SkipTags(flex)
	}
	if version >= 2 {
		m.ClusterID = r.NullableString(flex)
	}
	if version >= 1 {
		m.ControllerID = r.Int32()
	}
	m.inPlace = inPlace{count: r.Count(flex, 8), version: version, src: r.Rest()}
	var t MetadataResponseTopic
	for range m.inPlace.count {
		t.readFrom(&r, version, flex)
		if r.Err() != nil {
			break
		}
	}
	m.inPlace.src = m.inPlace.src[:len(m.inPlace.src)-r.Len()]
	if version >= 8 && version <= 10 {
		m.ClusterAuthorizedOperations = r.Int32()
	}
	if version >= 13 {
		m.ErrorCode = ErrorCode(r.Int16())
	}
	r.SkipTags(flex)
	return closeReader(&r, KeyMetadata, "response", version)
}

// AllTopics goes through the topics, whether they are in Topics or in place. Those in place have no Partitions
// but AllPartitions, and each is overwritten by the next.
func (m *MetadataResponse) AllTopics() iter.Seq[*MetadataResponseTopic] {
	return func(yield func(*MetadataResponseTopic) bool) {
		for i := range m.Topics {
			if !yield(&m.Topics[i]) {
				return
			}
		}
		r, flex := m.inPlace.reader()
		var t MetadataResponseTopic
		for range m.inPlace.count {
			t.Name = nil
			if name := t.readFrom(&r, m.inPlace.version, flex); name != nil {
				s := string(name)
				t.Name = &s
			}
			if r.Err() != nil {
				invariants.Check(false, "topics that were checked do not decode: %v", r.Err())
				return // rather none than one that nobody named
			}
			if !yield(&t) {
				return
			}
		}
	}
}

// NumPartitions is how many partitions AllPartitions goes through.
func (t *MetadataResponseTopic) NumPartitions() int { return len(t.Partitions) + t.inPlace.count }

// AllPartitions goes through the partitions, whether they are in Partitions or in place. Those in place are
// overwritten by the next, their lists of nodes are not.
func (t *MetadataResponseTopic) AllPartitions() iter.Seq[*MetadataResponsePartition] {
	return func(yield func(*MetadataResponsePartition) bool) {
		for i := range t.Partitions {
			if !yield(&t.Partitions[i]) {
				return
			}
		}
		r, flex := t.inPlace.reader()
		var p MetadataResponsePartition
		for range t.inPlace.count {
			p.readFrom(&r, t.inPlace.version, flex, true)
			if r.Err() != nil {
				// The check needed no memory, the lists do. Partition 0, led by node 0 at epoch 0, would look like an answer.
				invariants.Check(false, "partitions that were checked do not decode: %v", r.Err())
				return
			}
			if !yield(&p) {
				return
			}
		}
	}
}

func (a inPlace) reader() (r wire.Reader, flex bool) {
	return wire.NewReader(a.src, responseFactor), KeyMetadata.Flexible(a.version)
}

// readFrom reads all but the name, which it returns, and leaves the partitions in place.
func (t *MetadataResponseTopic) readFrom(r *wire.Reader, version int16, flex bool) (name []byte) {
	t.ErrorCode = ErrorCode(r.Int16())
	if version >= 12 {
		name = r.NullableStringBytes(flex)
	} else {
		name = r.StringBytes(flex)
	}
	if version >= 10 {
		t.TopicID = r.UUID()
	}
	if version >= 1 {
		t.IsInternal = r.Bool()
	}
	t.inPlace = inPlace{count: r.Count(flex, 18), version: version, src: r.Rest()}
	var p MetadataResponsePartition
	for range t.inPlace.count {
		p.readFrom(r, version, flex, false)
	}
	t.inPlace.src = t.inPlace.src[:len(t.inPlace.src)-r.Len()]
	t.TopicAuthorizedOperations = AuthorizedOperationsUnknown
	if version >= 8 {
		t.TopicAuthorizedOperations = r.Int32()
	}
	r.SkipTags(flex)
	return name
}

// readFrom reads a partition, its lists of nodes only if they are wanted.
func (p *MetadataResponsePartition) readFrom(r *wire.Reader, version int16, flex, lists bool) {
	p.ErrorCode = ErrorCode(r.Int16())
	p.PartitionIndex = r.Int32()
	p.LeaderID = r.Int32()
	p.LeaderEpoch = -1
	if version >= 7 {
		p.LeaderEpoch = r.Int32()
	}
	if lists {
		p.ReplicaNodes = r.Int32s(flex)
		p.IsrNodes = r.Int32s(flex)
	} else {
		r.SkipInt32s(flex)
		r.SkipInt32s(flex)
	}
	switch {
	case version >= 5 && lists:
		p.OfflineReplicas = r.Int32s(flex)
	case version >= 5:
		r.SkipInt32s(flex)
	}
	r.SkipTags(flex)
}
