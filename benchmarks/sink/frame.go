package sink

import (
	"bufio"
	"encoding/binary"
	"errors"
	"io"
	"net"
	"syscall"
)

// A request is read through a small buffer: most of what is in the socket behind a field is records, and those that are
// not in the buffer yet need not be copied into it.
const bufferSize = 4 << 10

// Requests larger than any client here sends are somebody else's bytes.
const maxFrame = 128 << 20

// frame reads one request after the other from a connection, a field at a time. The first error stays, and all later
// reads yield zeros.
type frame struct {
	r    *bufio.Reader
	conn syscall.RawConn
	left int // of the request
	err  error
}

var errShort = errors.New("a length goes beyond the end of the request")

func newFrame(c *net.TCPConn) (*frame, error) {
	raw, err := c.SyscallConn()
	if err != nil {
		return nil, err
	}
	return &frame{r: bufio.NewReaderSize(c, bufferSize), conn: raw}, nil
}

// next begins the next request and returns its size. At the end of the connection it is io.EOF.
func (f *frame) next() (int, error) {
	f.left = 4
	size := int(f.int32())
	if f.err == nil && (size < 8 || size > maxFrame) {
		f.err = errors.New("this is no size of a request")
	}
	f.left = size
	return size, f.err
}

// end is called when a request was read.
func (f *frame) end() error {
	if f.err == nil && f.left != 0 {
		f.err = errors.New("bytes are left at the end of the request")
	}
	return f.err
}

// bytes are the next n, valid until the next read. n must not exceed bufferSize.
func (f *frame) bytes(n int) []byte {
	if f.err == nil && n > f.left {
		f.err = errShort
	}
	if f.err == nil {
		b, err := f.r.Peek(n)
		if err == nil {
			_, _ = f.r.Discard(n)
			f.left -= n
			return b
		}
		f.err = err
	}
	return make([]byte, n)
}

func (f *frame) int16() int16 { return int16(binary.BigEndian.Uint16(f.bytes(2))) }
func (f *frame) int32() int32 { return int32(binary.BigEndian.Uint32(f.bytes(4))) }

func (f *frame) uvarint() int {
	n := 0
	for shift := 0; shift < 35; shift += 7 {
		b := f.bytes(1)[0]
		n |= int(b&0x7f) << shift
		if b < 0x80 {
			return n
		}
	}
	f.err = errors.New("a varint is too long")
	return 0
}

// length is that of an array or of record bytes, -1 for null; stringLength that of a string.
func (f *frame) length(flexible bool) int {
	if flexible {
		return f.uvarint() - 1
	}
	return int(f.int32())
}

func (f *frame) stringLength(flexible bool) int {
	if flexible {
		return f.uvarint() - 1
	}
	return int(f.int16())
}

// tags skips tagged fields.
func (f *frame) tags(flexible bool) {
	if !flexible {
		return
	}
	for n := f.uvarint(); n > 0 && f.err == nil; n-- {
		f.uvarint()
		f.skip(f.uvarint())
	}
}

// copyOf are the next n bytes, however many.
func (f *frame) copyOf(n int) []byte {
	if f.err == nil && (n < 0 || n > f.left) {
		f.err = errShort
	}
	if f.err != nil {
		return nil
	}
	b := make([]byte, n)
	_, f.err = io.ReadFull(f.r, b)
	f.left -= n
	return b
}

// skip drops n bytes, within the kernel if it can. None for a null, whose length is -1.
func (f *frame) skip(n int) {
	if f.err == nil && n > f.left {
		f.err = errShort
	}
	if f.err != nil || n <= 0 {
		return
	}
	f.left -= n
	buffered, _ := f.r.Discard(min(n, f.r.Buffered()))
	if n -= buffered; n <= bufferSize/2 {
		_, f.err = f.r.Discard(n)
		return
	}
	f.err = discard(f.conn, f.r, n)
}
