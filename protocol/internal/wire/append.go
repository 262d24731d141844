package wire

import "encoding/binary"

// AppendBool appends 1 for true and 0 for false.
func AppendBool(dst []byte, v bool) []byte {
	if v {
		return append(dst, 1)
	}
	return append(dst, 0)
}

// AppendInt8 appends one byte.
func AppendInt8(dst []byte, v int8) []byte { return append(dst, byte(v)) }

// AppendInt16 appends v, big-endian like every fixed-size number here.
func AppendInt16(dst []byte, v int16) []byte { return binary.BigEndian.AppendUint16(dst, uint16(v)) }

// AppendInt32 appends v.
func AppendInt32(dst []byte, v int32) []byte { return binary.BigEndian.AppendUint32(dst, uint32(v)) }

// AppendInt64 appends v.
func AppendInt64(dst []byte, v int64) []byte { return binary.BigEndian.AppendUint64(dst, uint64(v)) }

// AppendUvarint appends v, 7 bits a byte, least significant first.
func AppendUvarint(dst []byte, v uint64) []byte { return binary.AppendUvarint(dst, v) }

// AppendString appends a string that may not be null.
func AppendString(dst []byte, s string, flex bool) []byte {
	if flex {
		dst = binary.AppendUvarint(dst, uint64(len(s))+1)
	} else {
		dst = binary.BigEndian.AppendUint16(dst, uint16(len(s)))
	}
	return append(dst, s...)
}

// AppendStringBytes is AppendString for a string that is held as bytes.
func AppendStringBytes(dst, s []byte, flex bool) []byte {
	if flex {
		dst = binary.AppendUvarint(dst, uint64(len(s))+1)
	} else {
		dst = binary.BigEndian.AppendUint16(dst, uint16(len(s)))
	}
	return append(dst, s...)
}

// AppendNullableString appends a string, or a null for nil.
func AppendNullableString(dst []byte, s *string, flex bool) []byte {
	if s != nil {
		return AppendString(dst, *s, flex)
	}
	if flex {
		return append(dst, 0)
	}
	return append(dst, 0xff, 0xff)
}

// AppendNullableBytes appends bytes, or a null for nil.
func AppendNullableBytes(dst, b []byte, flex bool) []byte {
	if b == nil {
		return AppendNullArray(dst, flex)
	}
	return append(AppendLen(dst, len(b), flex), b...)
}

// AppendLen appends the length of bytes, or the count of an array, that is not null.
func AppendLen(dst []byte, n int, flex bool) []byte {
	if flex {
		return binary.AppendUvarint(dst, uint64(n)+1)
	}
	return binary.BigEndian.AppendUint32(dst, uint32(n))
}

// AppendNullArray appends what stands for null bytes or a null array.
func AppendNullArray(dst []byte, flex bool) []byte {
	if flex {
		return append(dst, 0)
	}
	return append(dst, 0xff, 0xff, 0xff, 0xff)
}

// AppendInt32s appends an array of numbers; nil is an empty one.
func AppendInt32s(dst []byte, v []int32, flex bool) []byte {
	dst = AppendLen(dst, len(v), flex)
	for _, n := range v {
		dst = binary.BigEndian.AppendUint32(dst, uint32(n))
	}
	return dst
}

// AppendNoTags ends a struct that has no tagged fields to write: one byte in flexible versions,
// nothing in others.
func AppendNoTags(dst []byte, flex bool) []byte {
	if flex {
		return append(dst, 0)
	}
	return dst
}

// AppendTag appends what stands before a tagged field of size bytes.
func AppendTag(dst []byte, tag, size int) []byte {
	dst = binary.AppendUvarint(dst, uint64(tag))
	return binary.AppendUvarint(dst, uint64(size))
}
