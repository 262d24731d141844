package wire

import (
	"encoding/binary"
	"errors"
	"fmt"
	"strings"
)

// Errors that a Reader ends with, wrapped with the place where it happened. All of them mean that the
// bytes are not what their version of the message looks like.
var (
	ErrTruncated = errors.New("bytes end too early")
	ErrLength    = errors.New("impossible length")
	ErrNull      = errors.New("null where none may be")
	ErrVarint    = errors.New("varint too long")
	ErrTrailing  = errors.New("bytes left over")
	ErrMemory    = errors.New("would take too much memory")
)

// Reader takes values out of received bytes. The first error sticks: from then on every method returns
// a zero value, so a decoder checks once, at its end, with [Reader.Close].
//
// Claimed lengths and counts are held against the bytes that are there first. What is made of them in
// memory comes out of a budget in proportion to all bytes that were received (see [NewReader]), so that
// neither a claim nor a message of nothing but empty elements costs more than that (FC-129).
type Reader struct {
	src    []byte
	size   int // of src at first, to say where an error happened
	tail   int // bytes after the tagged field being read, see Tag
	err    error
	budget int             // bytes that may still be allocated
	ints   []int32         // free part of the block that Int32s cuts its results from
	text   strings.Builder // the block that short strings are cut from
}

// Fixed is what a message may take in memory whatever its size. It is less than the 4 KiB that are promised, since
// the message itself and an error are not counted.
const Fixed = 3 << 10

// NewReader starts at the beginning of src. The reader aliases src and never writes to it. It allocates at
// most factor bytes for each byte of src, and Fixed.
func NewReader(src []byte, factor int) Reader {
	return Reader{src: src, size: len(src), budget: factor*len(src) + Fixed}
}

// Grant adds n bytes to the budget: memory that the reader's owner has reason to spend.
func (r *Reader) Grant(n int) { r.budget += n }

// Reserve takes an allocation of n bytes from the budget, and fails the reader and reports false if it is too
// large for that. What is reserved is never less than what Go's allocator takes for n bytes.
func (r *Reader) Reserve(n int) bool {
	// The steps between its sizes: 16 up to 256, 32 up to 512, at most 3/16 up to 32 KiB, pages beyond.
	switch {
	case n <= 256:
		n = (n + 15) &^ 15
	case n <= 512:
		n = (n + 31) &^ 31
	case n <= 32<<10:
		n += 3 * n / 16
	default:
		n = (n + 8191) &^ 8191
	}
	if n > r.budget {
		r.fail(ErrMemory, n)
		return false
	}
	r.budget -= n
	return true
}

// Len is how many bytes are left, within the tagged field if one is being read.
func (r *Reader) Len() int { return len(r.src) }

// Rest is what is left to read; nil after an error. It aliases the source.
func (r *Reader) Rest() []byte { return r.src }

// Fail makes err the reader's error, unless it has one already.
func (r *Reader) Fail(err error) {
	if r.err == nil {
		r.err = err
	}
	r.src = nil
}

// Err is the first error, or nil.
func (r *Reader) Err() error { return r.err }

// Close reports the first error; bytes left over are one.
func (r *Reader) Close() error {
	if r.err == nil && len(r.src) > 0 {
		r.fail(ErrTrailing, len(r.src))
	}
	return r.err
}

// fail keeps the first error, with the value that was wrong and its place, and ends all reading.
func (r *Reader) fail(err error, value int) {
	if r.err == nil {
		r.err = fmt.Errorf("%w (%d) at byte %d of %d", err, value, r.size-r.tail-len(r.src), r.size)
	}
	r.src = nil
}

// take returns the next n bytes, or nil after an error. n is at most the largest int.
func (r *Reader) take(n int) []byte {
	if n < 0 {
		r.fail(ErrLength, n)
		return nil
	}
	if n > len(r.src) {
		r.fail(ErrTruncated, n)
		return nil
	}
	b := r.src[:n:n]
	r.src = r.src[n:]
	return b
}

// Bool reads one byte; any but 0 is true.
func (r *Reader) Bool() bool { return r.Int8() != 0 }

// Int8 reads one byte.
func (r *Reader) Int8() int8 {
	if b := r.take(1); b != nil {
		return int8(b[0])
	}
	return 0
}

// Int16 reads two bytes.
func (r *Reader) Int16() int16 {
	if b := r.take(2); b != nil {
		return int16(binary.BigEndian.Uint16(b))
	}
	return 0
}

// Int32 reads four bytes.
func (r *Reader) Int32() int32 {
	if b := r.take(4); b != nil {
		return int32(binary.BigEndian.Uint32(b))
	}
	return 0
}

// Int64 reads eight bytes.
func (r *Reader) Int64() int64 {
	if b := r.take(8); b != nil {
		return int64(binary.BigEndian.Uint64(b))
	}
	return 0
}

// UUID reads sixteen bytes.
func (r *Reader) UUID() (v [16]byte) {
	copy(v[:], r.take(16))
	return v
}

// Uvarint reads an unsigned varint of at most 31 bits: the lengths, counts and tags of flexible
// versions. More bits than that are an error, so the result is never negative.
func (r *Reader) Uvarint() int {
	// One-byte values first: nearly all lengths and every empty tag section.
	if len(r.src) > 0 && r.src[0] < 0x80 {
		v := r.src[0]
		r.src = r.src[1:]
		return int(v)
	}
	return int(r.uvarint(31))
}

// Varint reads a zig-zag varint of at most 32 bits.
func (r *Reader) Varint() int32 {
	v := uint32(r.uvarint(32))
	return int32(v>>1) ^ -int32(v&1)
}

// Varlong reads a zig-zag varint of at most 64 bits.
func (r *Reader) Varlong() int64 {
	v := r.uvarint(64)
	return int64(v>>1) ^ -int64(v&1)
}

func (r *Reader) uvarint(bits uint) uint64 {
	var v uint64
	for i, shift := 0, uint(0); ; i, shift = i+1, shift+7 {
		if i == len(r.src) {
			r.fail(ErrTruncated, i+1)
			return 0
		}
		c := r.src[i]
		if shift+7 > bits && uint64(c) >= 1<<(bits-shift) {
			r.fail(ErrVarint, i+1)
			return 0
		}
		v |= uint64(c&0x7f) << shift
		if c < 0x80 {
			r.src = r.src[i+1:]
			return v
		}
	}
}

// length reads a length or count in its int32 or compact form; -1 is a null.
func (r *Reader) length(flex bool) int {
	if flex {
		return r.Uvarint() - 1
	}
	n := int(r.Int32())
	if n < -1 {
		r.fail(ErrLength, n)
		return -1
	}
	return n
}

// stringLength reads the length of a string; -1 is a null.
func (r *Reader) stringLength(flex bool) int {
	if flex {
		return r.Uvarint() - 1
	}
	n := int(r.Int16())
	if n < -1 {
		r.fail(ErrLength, n)
		return -1
	}
	return n
}

// StringBytes reads a string that may not be null and returns its bytes, which alias the source.
func (r *Reader) StringBytes(flex bool) []byte {
	n := r.stringLength(flex)
	if n < 0 {
		r.fail(ErrNull, n)
		return nil
	}
	return r.take(n)
}

// String reads a string that may not be null.
func (r *Reader) String(flex bool) string { return r.string(r.StringBytes(flex)) }

// Short strings are cut from blocks, which a string that is kept keeps: blocks are small.
const (
	textBlock = 256
	shortText = 32
)

func (r *Reader) string(b []byte) string {
	n := len(b)
	if n > shortText {
		if !r.Reserve(n) {
			return ""
		}
		return string(b)
	}
	if n > r.text.Cap()-r.text.Len() {
		size := min(textBlock, n+len(r.src))
		if !r.Reserve(size) {
			return ""
		}
		r.text = strings.Builder{}
		r.text.Grow(size)
	}
	r.text.Write(b)
	return r.text.String()[r.text.Len()-n:]
}

// NullableStringBytes reads a string and returns its bytes, which alias the source; nil is a null.
func (r *Reader) NullableStringBytes(flex bool) []byte {
	n := r.stringLength(flex)
	if n < 0 || r.err != nil {
		return nil
	}
	return r.take(n)
}

// NullableString reads a string; nil is a null.
func (r *Reader) NullableString(flex bool) *string {
	b := r.NullableStringBytes(flex)
	if b == nil || !r.Reserve(16) {
		return nil
	}
	s := r.string(b)
	return &s
}

// NullableBytes reads bytes, which alias the source; nil is a null.
func (r *Reader) NullableBytes(flex bool) []byte {
	n := r.length(flex)
	if n < 0 || r.err != nil {
		return nil
	}
	return r.take(n)
}

// VarintBytes reads the key or value of a record, which aliases the source: a zig-zag length and
// bytes; nil is a null.
func (r *Reader) VarintBytes() []byte {
	n := r.Varint()
	if n == -1 || r.err != nil {
		return nil
	}
	return r.take(int(n))
}

// Count reads the count of an array that may not be null, whose elements take at least minSize bytes
// each. A count that what is left cannot hold is an error.
func (r *Reader) Count(flex bool, minSize int) int {
	n := r.NullableCount(flex, minSize)
	if n < 0 {
		r.fail(ErrNull, n)
		return 0
	}
	return n
}

// NullableCount is Count for an array that may be null: -1. After an error it is 0.
func (r *Reader) NullableCount(flex bool, minSize int) int {
	n := r.length(flex)
	if r.err != nil {
		return 0
	}
	if n > len(r.src)/minSize {
		r.fail(ErrLength, n)
		return 0
	}
	return n
}

// Int32s reads an array of numbers that may not be null.
func (r *Reader) Int32s(flex bool) []int32 {
	n := r.Count(flex, 4)
	if n == 0 {
		return []int32{}
	}
	// A metadata response has three short arrays for every partition of a cluster. Cut from one block,
	// they cost an allocation in a hundred; the block is never larger than what is left could fill.
	if n > len(r.ints) {
		size := max(n, min(len(r.src)/8, 256))
		if !r.Reserve(4 * size) {
			return nil
		}
		r.ints = make([]int32, size)
	}
	v := r.ints[:n:n]
	r.ints = r.ints[n:]
	for i := range v {
		v[i] = int32(binary.BigEndian.Uint32(r.src[4*i:]))
	}
	r.src = r.src[4*n:]
	return v
}

// SkipInt32s passes over an array of numbers that may not be null.
func (r *Reader) SkipInt32s(flex bool) { r.take(4 * r.Count(flex, 4)) }

// Tags reads how many tagged fields follow. They are read by
//
//	for n := r.Tags(flex); n > 0; n-- {
//		tag, after := r.Tag()
//		switch tag {
//		case 0:
//			…
//		default:
//			r.SkipTag()
//		}
//		r.EndTag(after)
//	}
//
// In versions that are not flexible there are none.
func (r *Reader) Tags(flex bool) int {
	if !flex {
		return 0
	}
	n := r.Uvarint()
	if n > len(r.src)/2 { // a tag and a size take a byte each
		r.fail(ErrLength, n)
		return 0
	}
	return n
}

// Tag begins a tagged field. Until EndTag the reader ends where the field ends.
func (r *Reader) Tag() (tag int, after []byte) {
	tag = r.Uvarint()
	n := r.Uvarint()
	if n > len(r.src) {
		r.fail(ErrTruncated, n)
	}
	if r.err != nil {
		return 0, nil
	}
	after = r.src[n:]
	r.src = r.src[:n:n]
	r.tail += len(after)
	return tag, after
}

// SkipTag passes over a field that the caller does not know.
func (r *Reader) SkipTag() { r.src = r.src[len(r.src):] }

// EndTag goes on after a tagged field, with what Tag returned. Bytes of the field that were not read
// are an error.
func (r *Reader) EndTag(after []byte) {
	if r.err != nil {
		return
	}
	if len(r.src) > 0 {
		r.fail(ErrTrailing, len(r.src))
		return
	}
	r.src = after
	r.tail -= len(after)
}

// SkipTags passes over a whole section of tagged fields, none of which the caller knows.
func (r *Reader) SkipTags(flex bool) {
	for n := r.Tags(flex); n > 0; n-- {
		_, after := r.Tag()
		r.SkipTag()
		r.EndTag(after)
	}
}
