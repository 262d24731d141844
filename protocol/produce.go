package protocol

import "github.com/kafka-reservoir/producer/protocol/internal/wire"

// ProduceRequest carries record batches to the leaders of their partitions.
//
// The client does not build it on its hot path (see [ProduceEncoder]); it is what a broker decodes.
type ProduceRequest struct {
	TransactionalID *string
	Acks            int16
	TimeoutMs       int32
	Topics          []ProduceRequestTopic
}

// ProduceRequestTopic is one topic of a [ProduceRequest], named up to v12 and by id from v13 on.
type ProduceRequestTopic struct {
	Name       string // v3 to v12
	ID         UUID   // v13
	Partitions []ProduceRequestPartition
}

// ProduceRequestPartition is one partition of a [ProduceRequestTopic].
type ProduceRequestPartition struct {
	Index   int32
	Records []byte // one record batch; nil is a null on the wire; aliases the decoded bytes
}

// Key is KeyProduce.
func (*ProduceRequest) Key() APIKey { return KeyProduce }

// AppendTo implements [Message].
func (m *ProduceRequest) AppendTo(dst []byte, version int16) []byte {
	flex := flexibleToAppend(KeyProduce, version)
	dst = wire.AppendNullableString(dst, m.TransactionalID, flex)
	dst = wire.AppendInt16(dst, m.Acks)
	dst = wire.AppendInt32(dst, m.TimeoutMs)
	dst = wire.AppendLen(dst, len(m.Topics), flex)
	for i := range m.Topics {
		t := &m.Topics[i]
		if version >= 13 {
			dst = append(dst, t.ID[:]...)
		} else {
			dst = wire.AppendString(dst, t.Name, flex)
		}
		dst = wire.AppendLen(dst, len(t.Partitions), flex)
		for j := range t.Partitions {
			p := &t.Partitions[j]
			dst = wire.AppendInt32(dst, p.Index)
			dst = wire.AppendNullableBytes(dst, p.Records, flex)
			dst = wire.AppendNoTags(dst, flex)
		}
		dst = wire.AppendNoTags(dst, flex)
	}
	return wire.AppendNoTags(dst, flex)
}

// ReadFrom implements [Message].
func (m *ProduceRequest) ReadFrom(src []byte, version int16) error {
	r, flex := newRequestReader(src, KeyProduce, version)
	*m = ProduceRequest{}
	m.TransactionalID = r.NullableString(flex)
	m.Acks = r.Int16()
	m.TimeoutMs = r.Int32()
	m.Topics = makeArray[ProduceRequestTopic](&r, flex, 3)
	for i := range m.Topics {
		t := &m.Topics[i]
		if version >= 13 {
			t.ID = r.UUID()
		} else {
			t.Name = r.String(flex)
		}
		t.Partitions = makeArray[ProduceRequestPartition](&r, flex, 6)
		for j := range t.Partitions {
			p := &t.Partitions[j]
			p.Index = r.Int32()
			p.Records = r.NullableBytes(flex)
			r.SkipTags(flex)
		}
		r.SkipTags(flex)
		if r.Err() != nil {
			break
		}
	}
	r.SkipTags(flex)
	return closeReader(&r, KeyProduce, "request", version)
}
