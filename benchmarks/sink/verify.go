package sink

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"hash/crc32"
	"math"

	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
)

var (
	castagnoli   = crc32.MakeTable(crc32.Castagnoli)
	decompressor = kgo.DefaultDecompressor()
)

// verify decodes a whole batch, with another library's code than the one that this project encodes it with, and notes
// what is wrong with it.
func (s *Sink) verify(p *partition, index int32, batch []byte) {
	records, valueBytes, err := decode(batch)
	if err == nil {
		err = p.follow(batch)
	}
	if err != nil {
		s.fault("partition %d: %v", index, err)
		return
	}
	s.mu.Lock()
	s.stats.Verified += records
	s.stats.ValueBytes += valueBytes
	s.mu.Unlock()
}

// decode reads every record of a batch. They must be what the header says, to the byte.
func decode(batch []byte) (records, valueBytes int64, err error) {
	if got, want := crcOf(batch), binary.BigEndian.Uint32(batch[offCRC:]); got != want {
		return 0, 0, fmt.Errorf("CRC-32C is %08x, and the header says %08x", got, want)
	}
	var header kmsg.RecordBatch
	if err := header.ReadFrom(batch); err != nil {
		return 0, 0, fmt.Errorf("header: %w", err)
	}
	if header.NumRecords < 1 || header.LastOffsetDelta != header.NumRecords-1 {
		return 0, 0, fmt.Errorf("%d records, and the last one's offset delta is %d", header.NumRecords, header.LastOffsetDelta)
	}
	codec := kgo.CompressionCodecType(header.Attributes & 7)
	rest, err := decompressor.Decompress(header.Records, codec)
	if err != nil {
		return 0, 0, fmt.Errorf("codec %d: %w", codec, err)
	}
	var again []byte
	for i := range header.NumRecords {
		length, n := binary.Varint(rest)
		if n <= 0 || length < 0 || length > int64(len(rest)-n) {
			return 0, 0, fmt.Errorf("record %d of %d is longer than the batch", i, header.NumRecords)
		}
		var r kmsg.Record
		one := rest[:n+int(length)]
		rest = rest[len(one):]
		if err := r.ReadFrom(one); err != nil {
			return 0, 0, fmt.Errorf("record %d of %d: %w", i, header.NumRecords, err)
		}
		if again = r.AppendTo(again[:0]); !bytes.Equal(again, one) {
			return 0, 0, fmt.Errorf("record %d of %d has bytes that are in none of its fields", i, header.NumRecords)
		}
		if r.OffsetDelta != i {
			return 0, 0, fmt.Errorf("record %d of %d has offset delta %d", i, header.NumRecords, r.OffsetDelta)
		}
		valueBytes += int64(len(r.Value))
	}
	if len(rest) != 0 {
		return 0, 0, fmt.Errorf("%d bytes behind the last of %d records", len(rest), header.NumRecords)
	}
	return int64(header.NumRecords), valueBytes, nil
}

// follow checks that a batch has the sequence number behind the one before it. Nothing is lost here, so that nothing may
// be sent twice or left out.
func (p *partition) follow(batch []byte) error {
	var h kmsg.RecordBatch
	if err := h.ReadFrom(batch); err != nil {
		return err
	}
	if h.ProducerID < 0 {
		return nil // not idempotent
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	producer := producerEpoch{h.ProducerID, h.ProducerEpoch}
	if want := p.next[producer]; h.FirstSequence != want {
		return fmt.Errorf("producer %d, epoch %d: sequence %d where %d is next", h.ProducerID, h.ProducerEpoch, h.FirstSequence, want)
	}
	if p.next == nil {
		p.next = map[producerEpoch]int32{}
	}
	p.next[producer] = int32((int64(h.FirstSequence) + int64(h.NumRecords)) & math.MaxInt32)
	return nil
}

func crcOf(batch []byte) uint32 { return crc32.Checksum(batch[offChecked:], castagnoli) }
