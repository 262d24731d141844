package faultrun

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"hash/fnv"

	"github.com/kafka-reservoir/producer/partitioner"
)

// What every run works with.
const (
	topic      = "faults"
	partitions = 6
	senders    = 4
)

// id numbers a record: its sender, and its number among the records of that one.
type id uint64

func newID(sender, seq int) id { return id(sender)<<32 | id(seq) }

func (i id) sender() int { return int(i >> 32) }
func (i id) seq() int    { return int(i & 0xffffffff) }

// String is sender/number.
func (i id) String() string { return fmt.Sprintf("%d/%d", i.sender(), i.seq()) }

// anywhere says that the partition is for the producer to choose.
const anywhere = -1

// partition is where the record has to go: sender 0 has no keys, sender 1 has, and the others name the partition.
func (i id) partition() int32 {
	switch i.sender() {
	case 0:
		return anywhere
	case 1:
		return partitioner.Murmur2(i.key()) & 0x7fffffff % partitions
	}
	return int32(i.seq() % partitions)
}

func (i id) key() []byte {
	if i.sender() != 1 {
		return nil
	}
	return fmt.Appendf(nil, "key %d", i.seq()%61)
}

// A value begins with eight bytes: a mark, and the record's id in the lower 44 bits.
const (
	mark   uint64 = 0xfa017 << 44
	idBits uint64 = 1<<44 - 1
)

// filler is what values are filled up with.
var filler = func() []byte {
	b := make([]byte, 1<<13)
	h := fnv.New64a()
	for i := 0; i < len(b); i += 8 {
		h.Write([]byte{byte(i)})
		binary.BigEndian.PutUint64(b[i:], h.Sum64())
	}
	return b
}()

// appendValue puts together what the record carries: its number, and bytes that depend on it, up to most.
func (i id) appendValue(b []byte, most int) []byte {
	h := (uint64(i) + 1) * 0x9e3779b97f4a7c15
	size := int(h>>20) % most
	at := int(h>>8) % (len(filler) - most)
	b = binary.BigEndian.AppendUint64(b, mark|uint64(i))
	return append(b, filler[at:at+size]...)
}

// identify finds out which record a stored value is; whole says whether all of it is as it was sent.
func identify(key, value []byte, most int) (i id, known, whole bool) {
	if len(value) < 8 {
		return 0, false, false
	}
	head := binary.BigEndian.Uint64(value)
	i = id(head & idBits)
	if head&^idBits != mark || i.sender() >= senders {
		return 0, false, false
	}
	return i, true, bytes.Equal(value, i.appendValue(nil, most)) && bytes.Equal(key, i.key())
}
