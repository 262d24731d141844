package protocol

import (
	"encoding/binary"
	"net"

	"github.com/kafka-reservoir/producer/internal/invariants"
	"github.com/kafka-reservoir/producer/protocol/internal/wire"
)

// ProduceEncoder writes Produce requests around record batches that it holds by reference. It is used
// again and again and then allocates nothing (TestProduceEncoderAllocs).
//
// One request is Begin, then for each topic Topic and its Partitions, then Finish. The counts given up
// front must come true. One goroutine uses an encoder at a time; between Finish and Reset it and the
// batches belong to whoever writes the frame.
type ProduceEncoder struct {
	version    int16
	flex       bool
	inTopic    bool
	topics     int // still to come
	partitions int // still to come in the current topic

	// own holds everything but the batches, end to end. It moves when it grows, so until Finish the
	// places where batches go in are kept as offsets, never as slices of it.
	own  []byte
	gaps []gap
	// slabs are the batches' slices, in the order of the gaps.
	slabs [][]byte
	size  int // bytes in slabs

	// buffers is the array behind the frame's net.Buffers. A writer eats those from the front, which
	// moves only its own slice: this one still begins at the beginning.
	buffers net.Buffers
}

// gap is a place between own bytes where a batch goes in.
type gap struct {
	at    int // offset in own
	slabs int // how many slices the batch has
}

// Begin starts a request with topics topics.
func (e *ProduceEncoder) Begin(h RequestHeader, transactionalID *string, acks int16, timeoutMs int32, topics int) {
	invariants.Check(len(e.own) == 0, "Begin without Reset")
	e.version = h.Version
	e.flex = flexibleToAppend(KeyProduce, h.Version)
	e.inTopic, e.topics, e.partitions = false, topics, 0

	b := append(e.own[:0], 0, 0, 0, 0) // length of the frame, known in Finish
	b = AppendRequestHeader(b, h)
	b = wire.AppendNullableString(b, transactionalID, e.flex)
	b = wire.AppendInt16(b, acks)
	b = wire.AppendInt32(b, timeoutMs)
	e.own = wire.AppendLen(b, topics, e.flex)
}

// Topic starts a topic with partitions partitions. Up to v12 it is named by name, from v13 on by id.
func (e *ProduceEncoder) Topic(name string, id UUID, partitions int) {
	e.endTopic()
	e.inTopic = true
	e.topics--
	e.partitions = partitions
	b := e.own
	if e.version >= 13 {
		invariants.Check(!id.IsZero(), "topic without an id")
		b = append(b, id[:]...)
	} else {
		b = wire.AppendString(b, name, e.flex)
	}
	e.own = wire.AppendLen(b, partitions, e.flex)
}

func (e *ProduceEncoder) endTopic() {
	invariants.Check(e.partitions == 0, "fewer partitions than the topic announced")
	if e.inTopic {
		e.own = wire.AppendNoTags(e.own, e.flex)
	}
	e.inTopic = false
}

// Partition adds a partition with one record batch: the slices of records end to end, which are size
// bytes together. The slices are kept by reference until Reset; records itself is not kept.
func (e *ProduceEncoder) Partition(index int32, records [][]byte, size int) {
	e.partitions--
	b := wire.AppendInt32(e.own, index)
	e.own = wire.AppendLen(b, size, e.flex)
	e.gaps = append(e.gaps, gap{at: len(e.own), slabs: len(records)})
	e.slabs = append(e.slabs, records...)
	e.size += size
	e.own = wire.AppendNoTags(e.own, e.flex)
}

// Finish ends the request and returns it, ready to be written. The frame is valid until Reset; writing
// it uses up its Buffers.
func (e *ProduceEncoder) Finish() Frame {
	e.endTopic()
	e.own = wire.AppendNoTags(e.own, e.flex)
	if invariants.Enabled {
		n := 0
		for _, s := range e.slabs {
			n += len(s)
		}
		invariants.Check(e.topics == 0, "topics missing")
		invariants.Check(n == e.size, "batches of another size than announced")
	}
	size := len(e.own) + e.size
	binary.BigEndian.PutUint32(e.own, uint32(size-4))

	buffers, slabs, from := e.buffers[:0], e.slabs, 0
	for _, g := range e.gaps {
		buffers = append(buffers, e.own[from:g.at:g.at])
		buffers = append(buffers, slabs[:g.slabs]...)
		slabs, from = slabs[g.slabs:], g.at
	}
	if from < len(e.own) { // after the last batch only flexible versions have bytes
		buffers = append(buffers, e.own[from:])
	}
	e.buffers = buffers
	return Frame{Buffers: buffers[:len(buffers):len(buffers)], Size: size}
}

// Reset makes the encoder ready for another request. It lets go of the batches and takes back the
// memory of the last frame, which nobody may hold any longer.
func (e *ProduceEncoder) Reset() {
	// An entry left behind would keep a batch's memory alive.
	clear(e.slabs)
	clear(e.buffers)
	e.own, e.gaps, e.slabs, e.buffers = e.own[:0], e.gaps[:0], e.slabs[:0], e.buffers[:0]
	e.inTopic, e.topics, e.partitions, e.size = false, 0, 0, 0
}
