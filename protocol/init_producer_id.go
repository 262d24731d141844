package protocol

import "github.com/kafka-reservoir/producer/protocol/internal/wire"

// InitProducerIdRequest asks for a producer id and epoch.
type InitProducerIdRequest struct {
	TransactionalID      *string // nil for a producer that is only idempotent
	TransactionTimeoutMs int32
	ProducerID           int64 // v3; -1 asks for a new id
	ProducerEpoch        int16 // v3; -1 asks for a new id
}

// InitProducerIdResponse is the answer to [InitProducerIdRequest].
type InitProducerIdResponse struct {
	ThrottleTimeMs int32
	ErrorCode      ErrorCode
	ProducerID     int64 // -1 with an error
	ProducerEpoch  int16
}

// Key is KeyInitProducerID.
func (*InitProducerIdRequest) Key() APIKey { return KeyInitProducerID }

// AppendTo implements [Message].
func (m *InitProducerIdRequest) AppendTo(dst []byte, version int16) []byte {
	flex := flexibleToAppend(KeyInitProducerID, version)
	dst = wire.AppendNullableString(dst, m.TransactionalID, flex)
	dst = wire.AppendInt32(dst, m.TransactionTimeoutMs)
	if version >= 3 {
		dst = wire.AppendInt64(dst, m.ProducerID)
		dst = wire.AppendInt16(dst, m.ProducerEpoch)
	}
	return wire.AppendNoTags(dst, flex)
}

// ReadFrom implements [Message].
func (m *InitProducerIdRequest) ReadFrom(src []byte, version int16) error {
	r, flex := newRequestReader(src, KeyInitProducerID, version)
	*m = InitProducerIdRequest{ProducerID: -1, ProducerEpoch: -1}
	m.TransactionalID = r.NullableString(flex)
	m.TransactionTimeoutMs = r.Int32()
	if version >= 3 {
		m.ProducerID = r.Int64()
		m.ProducerEpoch = r.Int16()
	}
	r.SkipTags(flex)
	return closeReader(&r, KeyInitProducerID, "request", version)
}

// Key is KeyInitProducerID.
func (*InitProducerIdResponse) Key() APIKey { return KeyInitProducerID }

// AppendTo implements [Message].
func (m *InitProducerIdResponse) AppendTo(dst []byte, version int16) []byte {
	flex := flexibleToAppend(KeyInitProducerID, version)
	dst = wire.AppendInt32(dst, m.ThrottleTimeMs)
	dst = wire.AppendInt16(dst, int16(m.ErrorCode))
	dst = wire.AppendInt64(dst, m.ProducerID)
	dst = wire.AppendInt16(dst, m.ProducerEpoch)
	return wire.AppendNoTags(dst, flex)
}

// ReadFrom implements [Message].
func (m *InitProducerIdResponse) ReadFrom(src []byte, version int16) error {
	r, flex := newReader(src, KeyInitProducerID, version)
	m.ThrottleTimeMs = r.Int32()
	m.ErrorCode = ErrorCode(r.Int16())
	m.ProducerID = r.Int64()
	m.ProducerEpoch = r.Int16()
	r.SkipTags(flex)
	return closeReader(&r, KeyInitProducerID, "response", version)
}
