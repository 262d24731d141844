package protocol

import "github.com/kafka-reservoir/producer/protocol/internal/wire"

// Timestamps with a meaning of their own in a [ListOffsetsRequest].
const (
	LatestTimestamp          int64 = -1
	EarliestTimestamp        int64 = -2
	MaxTimestamp             int64 = -3 // v7
	EarliestLocalTimestamp   int64 = -4 // v8
	LatestTieredTimestamp    int64 = -5 // v9
	EarliestPendingTimestamp int64 = -6 // v11
)

// ListOffsetsRequest asks for the first offset at or after a timestamp.
type ListOffsetsRequest struct {
	ReplicaID      int32 // -1 for a consumer
	IsolationLevel int8  // v2
	Topics         []ListOffsetsRequestTopic
	TimeoutMs      int32 // v10
}

// ListOffsetsRequestTopic is one topic of a [ListOffsetsRequest].
type ListOffsetsRequestTopic struct {
	Name       string
	Partitions []ListOffsetsRequestPartition
}

// ListOffsetsRequestPartition is one partition of a [ListOffsetsRequestTopic].
type ListOffsetsRequestPartition struct {
	PartitionIndex     int32
	CurrentLeaderEpoch int32 // v4; -1 when not known
	Timestamp          int64
}

// ListOffsetsResponse is the answer to [ListOffsetsRequest].
type ListOffsetsResponse struct {
	ThrottleTimeMs int32 // v2
	Topics         []ListOffsetsResponseTopic
}

// ListOffsetsResponseTopic is one topic of a [ListOffsetsResponse].
type ListOffsetsResponseTopic struct {
	Name       string
	Partitions []ListOffsetsResponsePartition
}

// ListOffsetsResponsePartition is one partition of a [ListOffsetsResponseTopic].
type ListOffsetsResponsePartition struct {
	PartitionIndex int32
	ErrorCode      ErrorCode
	Timestamp      int64 // -1 when there is no such record
	Offset         int64 // -1 when there is no such record
	LeaderEpoch    int32 // v4; -1 when not known
}

// Key is KeyListOffsets.
func (*ListOffsetsRequest) Key() APIKey { return KeyListOffsets }

// AppendTo implements [Message].
func (m *ListOffsetsRequest) AppendTo(dst []byte, version int16) []byte {
	flex := flexibleToAppend(KeyListOffsets, version)
	dst = wire.AppendInt32(dst, m.ReplicaID)
	if version >= 2 {
		dst = wire.AppendInt8(dst, m.IsolationLevel)
	}
	dst = wire.AppendLen(dst, len(m.Topics), flex)
	for i := range m.Topics {
		t := &m.Topics[i]
		dst = wire.AppendString(dst, t.Name, flex)
		dst = wire.AppendLen(dst, len(t.Partitions), flex)
		for j := range t.Partitions {
			p := &t.Partitions[j]
			dst = wire.AppendInt32(dst, p.PartitionIndex)
			if version >= 4 {
				dst = wire.AppendInt32(dst, p.CurrentLeaderEpoch)
			}
			dst = wire.AppendInt64(dst, p.Timestamp)
			dst = wire.AppendNoTags(dst, flex)
		}
		dst = wire.AppendNoTags(dst, flex)
	}
	if version >= 10 {
		dst = wire.AppendInt32(dst, m.TimeoutMs)
	}
	return wire.AppendNoTags(dst, flex)
}

// ReadFrom implements [Message].
func (m *ListOffsetsRequest) ReadFrom(src []byte, version int16) error {
	r, flex := newRequestReader(src, KeyListOffsets, version)
	*m = ListOffsetsRequest{}
	m.ReplicaID = r.Int32()
	if version >= 2 {
		m.IsolationLevel = r.Int8()
	}
	m.Topics = makeArray[ListOffsetsRequestTopic](&r, flex, 3)
	for i := range m.Topics {
		t := &m.Topics[i]
		t.Name = r.String(flex)
		t.Partitions = makeArray[ListOffsetsRequestPartition](&r, flex, 12)
		for j := range t.Partitions {
			p := &t.Partitions[j]
			p.PartitionIndex = r.Int32()
			p.CurrentLeaderEpoch = -1
			if version >= 4 {
				p.CurrentLeaderEpoch = r.Int32()
			}
			p.Timestamp = r.Int64()
			r.SkipTags(flex)
		}
		r.SkipTags(flex)
		if r.Err() != nil {
			break
		}
	}
	if version >= 10 {
		m.TimeoutMs = r.Int32()
	}
	r.SkipTags(flex)
	return closeReader(&r, KeyListOffsets, "request", version)
}

// Key is KeyListOffsets.
func (*ListOffsetsResponse) Key() APIKey { return KeyListOffsets }

// AppendTo implements [Message].
func (m *ListOffsetsResponse) AppendTo(dst []byte, version int16) []byte {
	flex := flexibleToAppend(KeyListOffsets, version)
	if version >= 2 {
		dst = wire.AppendInt32(dst, m.ThrottleTimeMs)
	}
	dst = wire.AppendLen(dst, len(m.Topics), flex)
	for i := range m.Topics {
		t := &m.Topics[i]
		dst = wire.AppendString(dst, t.Name, flex)
		dst = wire.AppendLen(dst, len(t.Partitions), flex)
		for j := range t.Partitions {
			p := &t.Partitions[j]
			dst = wire.AppendInt32(dst, p.PartitionIndex)
			dst = wire.AppendInt16(dst, int16(p.ErrorCode))
			dst = wire.AppendInt64(dst, p.Timestamp)
			dst = wire.AppendInt64(dst, p.Offset)
			if version >= 4 {
				dst = wire.AppendInt32(dst, p.LeaderEpoch)
			}
			dst = wire.AppendNoTags(dst, flex)
		}
		dst = wire.AppendNoTags(dst, flex)
	}
	return wire.AppendNoTags(dst, flex)
}

// ReadFrom implements [Message].
func (m *ListOffsetsResponse) ReadFrom(src []byte, version int16) error {
	r, flex := newReader(src, KeyListOffsets, version)
	*m = ListOffsetsResponse{}
	if version >= 2 {
		m.ThrottleTimeMs = r.Int32()
	}
	m.Topics = makeArray[ListOffsetsResponseTopic](&r, flex, 3)
	for i := range m.Topics {
		t := &m.Topics[i]
		t.Name = r.String(flex)
		t.Partitions = makeArray[ListOffsetsResponsePartition](&r, flex, 22)
		for j := range t.Partitions {
			p := &t.Partitions[j]
			p.PartitionIndex = r.Int32()
			p.ErrorCode = ErrorCode(r.Int16())
			p.Timestamp = r.Int64()
			p.Offset = r.Int64()
			p.LeaderEpoch = -1
			if version >= 4 {
				p.LeaderEpoch = r.Int32()
			}
			r.SkipTags(flex)
		}
		r.SkipTags(flex)
		if r.Err() != nil {
			break
		}
	}
	r.SkipTags(flex)
	return closeReader(&r, KeyListOffsets, "response", version)
}
