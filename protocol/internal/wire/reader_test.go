package wire

import (
	"math"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func ptr[T any](v T) *T { return &v }

func TestRoundTripOfEveryType(t *testing.T) {
	for _, flex := range []bool{false, true} {
		var b []byte
		b = AppendBool(b, true)
		b = AppendBool(b, false)
		b = AppendInt8(b, -2)
		b = AppendInt16(b, math.MinInt16)
		b = AppendInt32(b, math.MinInt32)
		b = AppendInt64(b, math.MinInt64)
		b = AppendUvarint(b, math.MaxInt32)
		b = AppendString(b, "", flex)
		b = AppendString(b, strings.Repeat("x", 200), flex)
		b = AppendStringBytes(b, []byte("orders"), flex)
		b = AppendNullableString(b, nil, flex)
		b = AppendNullableString(b, ptr(""), flex)
		b = AppendNullableString(b, ptr("å"), flex)
		b = AppendNullableBytes(b, nil, flex)
		b = AppendNullableBytes(b, []byte{}, flex)
		b = AppendNullableBytes(b, []byte{1, 2}, flex)
		b = AppendInt32s(b, nil, flex)
		b = AppendInt32s(b, []int32{1, -1}, flex)
		b = AppendNullArray(b, flex)
		b = AppendLen(b, 3, flex)
		b = append(b, 7, 8, 9)
		b = AppendNoTags(b, flex)

		r := NewReader(b, 4)
		assert.True(t, r.Bool())
		assert.False(t, r.Bool())
		assert.Equal(t, int8(-2), r.Int8())
		assert.Equal(t, int16(math.MinInt16), r.Int16())
		assert.Equal(t, int32(math.MinInt32), r.Int32())
		assert.Equal(t, int64(math.MinInt64), r.Int64())
		assert.Equal(t, math.MaxInt32, r.Uvarint())
		assert.Equal(t, "", r.String(flex))
		assert.Equal(t, strings.Repeat("x", 200), r.String(flex))
		assert.Equal(t, []byte("orders"), r.StringBytes(flex))
		assert.Nil(t, r.NullableString(flex))
		assert.Equal(t, ptr(""), r.NullableString(flex))
		assert.Equal(t, ptr("å"), r.NullableString(flex))
		assert.Nil(t, r.NullableBytes(flex))
		assert.Equal(t, []byte{}, r.NullableBytes(flex))
		assert.Equal(t, []byte{1, 2}, r.NullableBytes(flex))
		assert.Equal(t, []int32{}, r.Int32s(flex))
		assert.Equal(t, []int32{1, -1}, r.Int32s(flex))
		assert.Equal(t, -1, r.NullableCount(flex, 1))
		assert.Equal(t, 3, r.Count(flex, 1))
		r.Int8()
		r.Int16()
		r.SkipTags(flex)
		require.NoError(t, r.Close(), "flex %v", flex)
	}
}

// DRC-05: varints and varlongs that are too long or cut off are errors.
func TestVarints(t *testing.T) {
	for _, tt := range []struct {
		name string
		src  []byte
		want int32
		err  error
	}{
		{"zero", []byte{0}, 0, nil},
		{"minus one", []byte{1}, -1, nil},
		{"largest", []byte{0xfe, 0xff, 0xff, 0xff, 0x0f}, math.MaxInt32, nil},
		{"smallest", []byte{0xff, 0xff, 0xff, 0xff, 0x0f}, math.MinInt32, nil},
		{"needless zero groups", []byte{0x82, 0x80, 0x00}, 1, nil},
		{"empty", nil, 0, ErrTruncated},
		{"cut off", []byte{0x80, 0x80}, 0, ErrTruncated},
		{"33 bits", []byte{0xff, 0xff, 0xff, 0xff, 0x1f}, 0, ErrVarint},
		{"six bytes", []byte{0x80, 0x80, 0x80, 0x80, 0x80, 0x01}, 0, ErrVarint},
		{"never ends", []byte{0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff}, 0, ErrVarint},
	} {
		t.Run(tt.name, func(t *testing.T) {
			r := NewReader(tt.src, 4)
			assert.Equal(t, tt.want, r.Varint())
			assert.ErrorIs(t, r.Close(), tt.err)
		})
	}
	for _, tt := range []struct {
		name string
		src  []byte
		want int64
		err  error
	}{
		{"largest", []byte{0xfe, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x01}, math.MaxInt64, nil},
		{"smallest", []byte{0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x01}, math.MinInt64, nil},
		{"65 bits", []byte{0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x02}, 0, ErrVarint},
		{"eleven bytes", []byte{0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x01}, 0, ErrVarint},
		{"cut off", []byte{0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff}, 0, ErrTruncated},
	} {
		t.Run(tt.name, func(t *testing.T) {
			r := NewReader(tt.src, 4)
			assert.Equal(t, tt.want, r.Varlong())
			assert.ErrorIs(t, r.Close(), tt.err)
		})
	}
	t.Run("uvarint of 32 bits", func(t *testing.T) {
		r := NewReader([]byte{0xff, 0xff, 0xff, 0xff, 0x08}, 4)
		assert.Zero(t, r.Uvarint())
		assert.ErrorIs(t, r.Close(), ErrVarint)
	})
}

// FC-129: lengths and counts that are negative, null where none may be, or beyond the bytes that are
// there, give an error, and the reader stays at it.
func TestImpossibleLengths(t *testing.T) {
	for _, tt := range []struct {
		name string
		src  []byte
		read func(r *Reader)
		err  error
	}{
		{"string null", []byte{0xff, 0xff}, func(r *Reader) { r.String(false) }, ErrNull},
		{"compact string null", []byte{0}, func(r *Reader) { r.String(true) }, ErrNull},
		{"string -2", []byte{0xff, 0xfe}, func(r *Reader) { r.String(false) }, ErrLength},
		{"nullable string -2", []byte{0xff, 0xfe}, func(r *Reader) { r.NullableString(false) }, ErrLength},
		{"string too long", []byte{0, 3, 'a', 'b'}, func(r *Reader) { r.String(false) }, ErrTruncated},
		{"nullable string too long", []byte{0, 3, 'a', 'b'}, func(r *Reader) { r.NullableString(false) }, ErrTruncated},
		{"compact string too long", []byte{0xff, 0xff, 0xff, 0xff, 0x07}, func(r *Reader) { r.String(true) }, ErrTruncated},
		{"bytes -2", []byte{0xff, 0xff, 0xff, 0xfe}, func(r *Reader) { r.NullableBytes(false) }, ErrLength},
		{"bytes too long", []byte{0x7f, 0xff, 0xff, 0xff, 1}, func(r *Reader) { r.NullableBytes(false) }, ErrTruncated},
		{"array null", []byte{0xff, 0xff, 0xff, 0xff}, func(r *Reader) { r.Count(false, 1) }, ErrNull},
		{"compact array null", []byte{0}, func(r *Reader) { r.Count(true, 1) }, ErrNull},
		{"array -2", []byte{0xff, 0xff, 0xff, 0xfe}, func(r *Reader) { r.NullableCount(false, 1) }, ErrLength},
		{"array too long", []byte{0, 0, 0, 2, 1, 2, 3}, func(r *Reader) { r.Count(false, 2) }, ErrLength},
		{"numbers too many", []byte{0x7f, 0xff, 0xff, 0xff, 0, 0, 0, 1}, func(r *Reader) { r.Int32s(false) }, ErrLength},
		{"record bytes -2", []byte{3}, func(r *Reader) { r.VarintBytes() }, ErrLength},
		{"record bytes too long", []byte{4, 1}, func(r *Reader) { r.VarintBytes() }, ErrTruncated},
		{"tags too many", []byte{2, 0, 0}, func(r *Reader) { r.SkipTags(true) }, ErrLength},
		{"tag too long", []byte{1, 0, 2, 1}, func(r *Reader) { r.SkipTags(true) }, ErrTruncated},
		{"number", []byte{1, 2, 3}, func(r *Reader) { r.Int32() }, ErrTruncated},
		{"uuid", make([]byte, 15), func(r *Reader) { r.UUID() }, ErrTruncated},
	} {
		t.Run(tt.name, func(t *testing.T) {
			r := NewReader(tt.src, 4)
			tt.read(&r)
			require.ErrorIs(t, r.Err(), tt.err)
			first := r.Err()
			assert.Zero(t, r.Len())
			assert.Zero(t, r.Int64())
			assert.Zero(t, r.String(true))
			assert.Nil(t, r.NullableString(true))
			assert.Nil(t, r.NullableBytes(true))
			assert.Zero(t, r.Count(true, 1))
			assert.Zero(t, r.Tags(true))
			r.SkipTag()
			r.EndTag([]byte{1})
			assert.Equal(t, first, r.Close(), "the first error sticks")
		})
	}
}

func TestTaggedFields(t *testing.T) {
	b := AppendUvarint(nil, 3)
	b = AppendTag(b, 0, 4)
	b = AppendInt32(b, 42)
	b = AppendTag(b, 900, 3)
	b = append(b, "abc"...)
	b = AppendTag(b, 901, 0)
	b = append(b, 5)

	r := NewReader(b, 4)
	var got int32
	for n := r.Tags(true); n > 0; n-- {
		tag, after := r.Tag()
		switch tag {
		case 0:
			got = r.Int32()
		default:
			r.SkipTag()
		}
		r.EndTag(after)
	}
	assert.Equal(t, int32(42), got)
	assert.Equal(t, int8(5), r.Int8())
	require.NoError(t, r.Close())

	// A known field may neither be longer than its value, nor reach beyond its end.
	for _, size := range []int{3, 5} {
		b := AppendUvarint(nil, 1)
		b = AppendTag(b, 0, size)
		b = append(b, 0, 0, 0, 42, 7, 7)
		r := NewReader(b, 4)
		r.Tags(true)
		_, after := r.Tag()
		r.Int32()
		r.EndTag(after)
		assert.Error(t, r.Err(), "size %d", size)
	}
}

func TestErrorsSayWhere(t *testing.T) {
	r := NewReader([]byte{0, 1, 0, 9, 'x'}, 4)
	r.Int16()
	r.String(false)
	assert.EqualError(t, r.Close(), "bytes end too early (9) at byte 4 of 5")

	r = NewReader([]byte{1, 0, 2, 9, 9, 0}, 4)
	r.Tags(true)
	_, after := r.Tag()
	r.EndTag(after)
	assert.EqualError(t, r.Close(), "bytes left over (2) at byte 3 of 6")
}

func TestInt32sAreIndependent(t *testing.T) {
	b := AppendInt32s(nil, []int32{1, 2}, false)
	b = AppendInt32s(b, []int32{3}, false)
	b = append(b, make([]byte, 64)...)
	r := NewReader(b, 4)
	first, second := r.Int32s(false), r.Int32s(false)
	_ = append(first, 9)
	assert.Equal(t, []int32{3}, second)
}
