package producer

import (
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"math"
	"unsafe"
)

// Serializer turns keys or values into bytes (key.serializer, value.serializer). It is called by the
// goroutine that called Send, from many goroutines at once.
//
// dst is empty, is not nil, and has room: a serializer that appends to it and returns the result
// allocates nothing. It may as well return bytes of its own, which the producer copies before Send
// returns and never changes. A nil result is a null (a tombstone, where it is the value); an empty result
// that is not nil is an empty one. dst must not be kept.
//
// h are the record's headers. The serializer may append to them or replace them; it must not change
// an element in place, because the caller owns it.
//
// An error fails the record with a [*SerializationError]; a panic passes through to the caller of Send.
type Serializer[T any] interface {
	Serialize(dst []byte, topic string, h *[]Header, v T) ([]byte, error)
}

// SerializerFunc makes a Serializer of a function that returns bytes of its own.
// A nil slice is a null.
type SerializerFunc[T any] func(v T) ([]byte, error)

// Serialize calls f.
func (f SerializerFunc[T]) Serialize(_ []byte, _ string, _ *[]Header, v T) ([]byte, error) {
	return f(v)
}

// direct is a Serializer whose values hold their bytes already, see bytesOf. They need no scratch buffer, touch no
// headers and cannot fail; the bytes must not be written to. A new one needs its case there.
type direct interface{ direct() }

// bytesOf is what a direct Serializer makes of *v, without calling it: the two calls are 1 % of a record (BenchmarkSendFunc, go1.26).
func bytesOf[T any](v *T) []byte {
	switch v := any(v).(type) {
	case *[]byte:
		return *v
	case *string:
		if *v == "" {
			return []byte{} // the data of an empty string may be nil, which would be a null
		}
		// The string's bytes without a copy, which would be made only to be copied into the batch and dropped. It is safe because nothing below writes to
		// a key or value, and nothing keeps it after Send.
		return unsafe.Slice(unsafe.StringData(*v), len(*v))
	case *struct{}:
		return nil
	}
	panic("a direct Serializer whose type bytesOf does not know")
}

// Bytes sends byte slices as they are; nil is a null.
func Bytes() Serializer[[]byte] { return bytesSerializer{} }

type bytesSerializer struct{}

func (bytesSerializer) Serialize(_ []byte, _ string, _ *[]Header, v []byte) ([]byte, error) {
	return v, nil
}

func (bytesSerializer) direct() {}

// String sends strings as they are, which is UTF-8 in most programs. "" is empty, not null.
func String() Serializer[string] { return stringSerializer{} }

type stringSerializer struct{}

func (stringSerializer) Serialize(dst []byte, _ string, _ *[]Header, v string) ([]byte, error) {
	return append(dst, v...), nil
}

func (stringSerializer) direct() {}

// Int32 sends 4 bytes, big-endian, as Java's IntegerSerializer.
func Int32() Serializer[int32] { return int32Serializer{} }

type int32Serializer struct{}

func (int32Serializer) Serialize(dst []byte, _ string, _ *[]Header, v int32) ([]byte, error) {
	return binary.BigEndian.AppendUint32(dst, uint32(v)), nil
}

// Int64 sends 8 bytes, big-endian, as Java's LongSerializer.
func Int64() Serializer[int64] { return int64Serializer{} }

type int64Serializer struct{}

func (int64Serializer) Serialize(dst []byte, _ string, _ *[]Header, v int64) ([]byte, error) {
	return binary.BigEndian.AppendUint64(dst, uint64(v)), nil
}

// Float64 sends the IEEE 754 bits, big-endian, as Java's DoubleSerializer; NaNs keep their payload.
func Float64() Serializer[float64] { return float64Serializer{} }

type float64Serializer struct{}

func (float64Serializer) Serialize(dst []byte, _ string, _ *[]Header, v float64) ([]byte, error) {
	return binary.BigEndian.AppendUint64(dst, math.Float64bits(v)), nil
}

// UUID sends the 36 characters of a UUID's usual form, as Java's UUIDSerializer.
func UUID() Serializer[[16]byte] { return uuidSerializer{} }

type uuidSerializer struct{}

func (uuidSerializer) Serialize(dst []byte, _ string, _ *[]Header, v [16]byte) ([]byte, error) {
	dst = append(hex.AppendEncode(dst, v[:4]), '-')
	dst = append(hex.AppendEncode(dst, v[4:6]), '-')
	dst = append(hex.AppendEncode(dst, v[6:8]), '-')
	dst = append(hex.AppendEncode(dst, v[8:10]), '-')
	return hex.AppendEncode(dst, v[10:]), nil
}

// JSON sends what [encoding/json.Marshal] makes of a value. A value whose JSON is null (a nil pointer, map
// or slice) becomes a null: a tombstone, as with Java's JSON serializers.
func JSON[T any]() Serializer[T] { return jsonSerializer[T]{} }

type jsonSerializer[T any] struct{}

func (jsonSerializer[T]) Serialize(_ []byte, _ string, _ *[]Header, v T) ([]byte, error) {
	b, err := json.Marshal(v)
	if err != nil || string(b) == "null" {
		return nil, err
	}
	return b, nil
}

// Null sends null, always: the serializer of records without keys, or of tombstones.
func Null() Serializer[struct{}] { return nullSerializer{} }

type nullSerializer struct{}

func (nullSerializer) Serialize([]byte, string, *[]Header, struct{}) ([]byte, error) {
	return nil, nil
}

func (nullSerializer) direct() {}
