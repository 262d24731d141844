package protocol

import (
	"encoding/binary"
	"net"
)

// NewFrame encodes a whole request into one buffer of its own.
func NewFrame(h RequestHeader, m Message) Frame {
	b := make([]byte, 4, 128)
	b = AppendRequestHeader(b, h)
	b = m.AppendTo(b, h.Version)
	binary.BigEndian.PutUint32(b, uint32(len(b)-4))
	return Frame{Buffers: net.Buffers{b}, Size: len(b)}
}
