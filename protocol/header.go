package protocol

import (
	"fmt"

	"github.com/kafka-reservoir/producer/protocol/internal/wire"
)

// RequestHeader stands before the body of every request.
type RequestHeader struct {
	Key           APIKey
	Version       int16
	CorrelationID int32
	ClientID      *string // nil is a null on the wire
}

// AppendRequestHeader appends h in the version that h.Key and h.Version call for: v2 for flexible
// versions, v1 for others. In both the client id is a string with an int16 length.
func AppendRequestHeader(dst []byte, h RequestHeader) []byte {
	dst = wire.AppendInt16(dst, int16(h.Key))
	dst = wire.AppendInt16(dst, h.Version)
	dst = wire.AppendInt32(dst, h.CorrelationID)
	dst = wire.AppendNullableString(dst, h.ClientID, false)
	return wire.AppendNoTags(dst, h.Key.Flexible(h.Version))
}

// ReadRequestHeader reads the header of a request and returns the body behind it. Keys and versions
// that this package does not know are no error here: a broker answers them.
func ReadRequestHeader(src []byte) (h RequestHeader, rest []byte, err error) {
	r := wire.NewReader(src, responseFactor)
	h.Key = APIKey(r.Int16())
	h.Version = r.Int16()
	h.CorrelationID = r.Int32()
	h.ClientID = r.NullableString(false)
	r.SkipTags(h.Key.Flexible(h.Version))
	if err := r.Err(); err != nil {
		return RequestHeader{}, nil, fmt.Errorf("decode request header: %w", err)
	}
	return h, r.Rest(), nil
}

// flexibleResponseHeader reports whether a response has header v1, the one with tagged fields.
// ApiVersions never has: a client must be able to read the answer before it knows what the broker
// speaks (KIP-511).
func flexibleResponseHeader(key APIKey, version int16) bool {
	return key != KeyAPIVersions && key.Flexible(version)
}

// AppendResponseHeader appends the header of the answer to a request of that key and version.
func AppendResponseHeader(dst []byte, key APIKey, version int16, correlationID int32) []byte {
	dst = wire.AppendInt32(dst, correlationID)
	return wire.AppendNoTags(dst, flexibleResponseHeader(key, version))
}

// ReadResponseHeader reads the header of the answer to a request of that key and version, and returns
// the body behind it.
func ReadResponseHeader(src []byte, key APIKey, version int16) (correlationID int32, rest []byte, err error) {
	r := wire.NewReader(src, responseFactor)
	correlationID = r.Int32()
	r.SkipTags(flexibleResponseHeader(key, version))
	if err := r.Err(); err != nil {
		return 0, nil, fmt.Errorf("decode response header of %v v%d: %w", key, version, err)
	}
	return correlationID, r.Rest(), nil
}
