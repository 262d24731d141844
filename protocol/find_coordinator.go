package protocol

import "github.com/kafka-reservoir/producer/protocol/internal/wire"

// The kinds of coordinator in a [FindCoordinatorRequest].
const (
	CoordinatorGroup       int8 = 0
	CoordinatorTransaction int8 = 1
	CoordinatorShare       int8 = 2
)

// FindCoordinatorRequest asks which broker coordinates a group or a transactional id.
type FindCoordinatorRequest struct {
	CoordinatorKey  string   // to v3
	KeyType         int8     // v1
	CoordinatorKeys []string // v4
}

// FindCoordinatorResponse is the answer to [FindCoordinatorRequest].
type FindCoordinatorResponse struct {
	ThrottleTimeMs int32         // v1
	ErrorCode      ErrorCode     // to v3
	ErrorMessage   *string       // v1 to v3
	NodeID         int32         // to v3
	Host           string        // to v3
	Port           int32         // to v3
	Coordinators   []Coordinator // v4
}

// Coordinator is the answer for one key of a batched [FindCoordinatorRequest].
type Coordinator struct {
	Key          string
	NodeID       int32
	Host         string
	Port         int32
	ErrorCode    ErrorCode
	ErrorMessage *string
}

// Key is KeyFindCoordinator.
func (*FindCoordinatorRequest) Key() APIKey { return KeyFindCoordinator }

// AppendTo implements [Message].
func (m *FindCoordinatorRequest) AppendTo(dst []byte, version int16) []byte {
	flex := flexibleToAppend(KeyFindCoordinator, version)
	if version <= 3 {
		dst = wire.AppendString(dst, m.CoordinatorKey, flex)
	}
	if version >= 1 {
		dst = wire.AppendInt8(dst, m.KeyType)
	}
	if version >= 4 {
		dst = wire.AppendLen(dst, len(m.CoordinatorKeys), flex)
		for _, k := range m.CoordinatorKeys {
			dst = wire.AppendString(dst, k, flex)
		}
	}
	return wire.AppendNoTags(dst, flex)
}

// ReadFrom implements [Message].
func (m *FindCoordinatorRequest) ReadFrom(src []byte, version int16) error {
	r, flex := newRequestReader(src, KeyFindCoordinator, version)
	*m = FindCoordinatorRequest{}
	if version <= 3 {
		m.CoordinatorKey = r.String(flex)
	}
	if version >= 1 {
		m.KeyType = r.Int8()
	}
	if version >= 4 {
		m.CoordinatorKeys = makeArray[string](&r, flex, 1)
		for i := range m.CoordinatorKeys {
			m.CoordinatorKeys[i] = r.String(flex)
		}
	}
	r.SkipTags(flex)
	return closeReader(&r, KeyFindCoordinator, "request", version)
}

// Key is KeyFindCoordinator.
func (*FindCoordinatorResponse) Key() APIKey { return KeyFindCoordinator }

// AppendTo implements [Message].
func (m *FindCoordinatorResponse) AppendTo(dst []byte, version int16) []byte {
	flex := flexibleToAppend(KeyFindCoordinator, version)
	if version >= 1 {
		dst = wire.AppendInt32(dst, m.ThrottleTimeMs)
	}
	if version <= 3 {
		dst = wire.AppendInt16(dst, int16(m.ErrorCode))
		if version >= 1 {
			dst = wire.AppendNullableString(dst, m.ErrorMessage, flex)
		}
		dst = wire.AppendInt32(dst, m.NodeID)
		dst = wire.AppendString(dst, m.Host, flex)
		dst = wire.AppendInt32(dst, m.Port)
	}
	if version >= 4 {
		dst = wire.AppendLen(dst, len(m.Coordinators), flex)
		for i := range m.Coordinators {
			c := &m.Coordinators[i]
			dst = wire.AppendString(dst, c.Key, flex)
			dst = wire.AppendInt32(dst, c.NodeID)
			dst = wire.AppendString(dst, c.Host, flex)
			dst = wire.AppendInt32(dst, c.Port)
			dst = wire.AppendInt16(dst, int16(c.ErrorCode))
			dst = wire.AppendNullableString(dst, c.ErrorMessage, flex)
			dst = wire.AppendNoTags(dst, flex)
		}
	}
	return wire.AppendNoTags(dst, flex)
}

// ReadFrom implements [Message].
func (m *FindCoordinatorResponse) ReadFrom(src []byte, version int16) error {
	r, flex := newReader(src, KeyFindCoordinator, version)
	*m = FindCoordinatorResponse{}
	if version >= 1 {
		m.ThrottleTimeMs = r.Int32()
	}
	if version <= 3 {
		m.ErrorCode = ErrorCode(r.Int16())
		if version >= 1 {
			m.ErrorMessage = r.NullableString(flex)
		}
		m.NodeID = r.Int32()
		m.Host = r.String(flex)
		m.Port = r.Int32()
	}
	if version >= 4 {
		m.Coordinators = makeArray[Coordinator](&r, flex, 14)
		for i := range m.Coordinators {
			c := &m.Coordinators[i]
			c.Key = r.String(flex)
			c.NodeID = r.Int32()
			c.Host = r.String(flex)
			c.Port = r.Int32()
			c.ErrorCode = ErrorCode(r.Int16())
			c.ErrorMessage = r.NullableString(flex)
			r.SkipTags(flex)
		}
	}
	r.SkipTags(flex)
	return closeReader(&r, KeyFindCoordinator, "response", version)
}
