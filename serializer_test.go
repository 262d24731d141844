package producer

import (
	"encoding/hex"
	"errors"
	"math"
	"testing"
	"unsafe"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// scratchBytes is what the engine hands to a serializer: empty, not nil, with room.
func scratchBytes() []byte { return make([]byte, 0, 64) }

func serialize[T any](t *testing.T, s Serializer[T], v T) []byte {
	t.Helper()
	b, err := s.Serialize(scratchBytes(), "topic", new([]Header), v)
	require.NoError(t, err)
	return b
}

// SER-01, SER-05: what Java's serializers make of the same values; big-endian, NaNs with their payload.
func TestBuiltInSerializers(t *testing.T) {
	hexOf := func(b []byte) string { return hex.EncodeToString(b) }
	assert.Equal(t, "00ff", hexOf(serialize(t, Bytes(), []byte{0, 255})))
	assert.Equal(t, "6bc3a4", hexOf(serialize(t, String(), "kä")))
	assert.Equal(t, "0000002a", hexOf(serialize(t, Int32(), 42)))
	assert.Equal(t, "80000000", hexOf(serialize(t, Int32(), math.MinInt32)))
	assert.Equal(t, "fffffffffffffffe", hexOf(serialize(t, Int64(), -2)))
	assert.Equal(t, "3ff8000000000000", hexOf(serialize(t, Float64(), 1.5)))
	assert.Equal(t, "7ff8000000000abc", hexOf(serialize(t, Float64(), math.Float64frombits(0x7ff8000000000abc))))
	assert.Equal(t, "8000000000000000", hexOf(serialize(t, Float64(), math.Copysign(0, -1))))
	id := [16]byte{0x12, 0x3e, 0x45, 0x67, 0xe8, 0x9b, 0x12, 0xd3, 0xa4, 0x56, 0x42, 0x66, 0x14, 0x17, 0x40, 0x00}
	assert.Equal(t, "123e4567-e89b-12d3-a456-426614174000", string(serialize(t, UUID(), id)))
	type value struct {
		A string
		B []int
	}
	assert.Equal(t, `{"A":"x","B":[1,2]}`, string(serialize(t, JSON[value](), value{"x", []int{1, 2}})))
}

// SER-01: nil is null in all built-ins that have a nil, and an empty value is not.
func TestBuiltInSerializersNull(t *testing.T) {
	assert.Nil(t, serialize(t, Bytes(), nil))
	assert.Equal(t, []byte{}, serialize(t, Bytes(), []byte{}))
	assert.Equal(t, []byte{}, serialize(t, String(), ""))
	assert.Nil(t, serialize(t, JSON[*int](), nil))
	assert.Nil(t, serialize(t, JSON[map[string]int](), nil))
	assert.Equal(t, []byte("{}"), serialize(t, JSON[map[string]int](), map[string]int{}))
	assert.Nil(t, serialize(t, Null(), struct{}{})) // SER-06: there is no other value of that type
}

// SER-02, SER-04, SER-07: types without a built-in go through the adapter; its nil is null.
func TestSerializerFunc(t *testing.T) {
	boolean := SerializerFunc[*bool](func(v *bool) ([]byte, error) {
		switch {
		case v == nil:
			return nil, nil
		case *v:
			return []byte{1}, nil
		}
		return []byte{0}, nil
	})
	yes, no := true, false
	assert.Nil(t, serialize(t, Serializer[*bool](boolean), nil))
	assert.Equal(t, []byte{1}, serialize(t, Serializer[*bool](boolean), &yes))
	assert.Equal(t, []byte{0}, serialize(t, Serializer[*bool](boolean), &no))

	broken := errors.New("broken")
	_, err := SerializerFunc[int](func(int) ([]byte, error) { return nil, broken }).Serialize(scratchBytes(), "t", nil, 1)
	assert.ErrorIs(t, err, broken)
	_, err = JSON[chan int]().Serialize(scratchBytes(), "t", nil, make(chan int))
	assert.Error(t, err)
}

// The built-ins that hold their bytes show them without a copy, and agree with Serialize.
func TestDirectSerializers(t *testing.T) {
	testDirect(t, Bytes(), nil, []byte{}, []byte("value"))
	testDirect(t, String(), "", "value")
	testDirect(t, Null(), struct{}{})
	for _, s := range []any{Int32(), Int64(), Float64(), UUID(), JSON[string](), SerializerFunc[string](nil)} {
		_, is := s.(direct)
		assert.False(t, is, "%T", s)
	}

	b, s := []byte("value"), "value"
	assert.Same(t, &b[0], &bytesOf(&b)[0])
	assert.Same(t, unsafe.StringData(s), &bytesOf(&s)[0])
	assert.Panics(t, func() { bytesOf(new(int)) }, "not sent as null")
}

func testDirect[T any](t *testing.T, s Serializer[T], values ...T) {
	assert.Implements(t, (*direct)(nil), s)
	for _, v := range values {
		want, err := s.Serialize(scratchBytes(), "t", new([]Header), v)
		require.NoError(t, err)
		assert.Equal(t, want, bytesOf(&v), "%T of %q: also whether it is nil", s, v)
	}
}

// S-24: the error names topic and side, and keeps the cause.
func TestSerializationError(t *testing.T) {
	cause := errors.New("cannot")
	err := error(&SerializationError{Topic: "orders", Part: "value", Err: cause})
	assert.Equal(t, "serialize the value of a record for topic orders, which was not sent: cannot", err.Error())
	assert.ErrorIs(t, err, cause)
	assert.False(t, IsRetriable(err))
	assert.False(t, MayHaveBeenWritten(err))
}

func TestBuiltInSerializersDoNotAllocate(t *testing.T) {
	dst := scratchBytes()
	h := new([]Header)
	id := [16]byte{1}
	value, empty := "value", ""
	i32, i64, f64, uuid, str := Int32(), Int64(), Float64(), UUID(), String()
	assert.Zero(t, testing.AllocsPerRun(100, func() {
		_, _ = i32.Serialize(dst, "t", h, 1)
		_, _ = i64.Serialize(dst, "t", h, 1)
		_, _ = f64.Serialize(dst, "t", h, 1)
		_, _ = uuid.Serialize(dst, "t", h, id)
		_, _ = str.Serialize(dst, "t", h, "value")
		_ = bytesOf(&value)
		_ = bytesOf(&empty)
	}))
}
