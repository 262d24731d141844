package sink

import (
	"encoding/binary"
	"errors"
)

// produce reads a Produce request and appends its answer, behind the correlation id. It reports whether the client wants
// one (with acks=0 it does not). Errors stay in f.
func (s *Sink) produce(f *frame, version int16, size int, answer []byte) ([]byte, bool) {
	if version < 3 || version > 13 {
		f.err = errors.New("this version of Produce is not served")
		return answer, false
	}
	flexible := version >= 9
	f.tags(flexible)
	if flexible {
		answer = append(answer, 0) // the header's tags
	}
	f.skip(f.stringLength(flexible)) // transactional id
	acks := f.int16()
	f.int32() // timeout
	var batches, records int64
	topics := f.length(flexible)
	answer = appendLength(answer, topics, flexible)
	for ; topics > 0 && f.err == nil; topics-- {
		var known bool
		answer, known = topicOf(f, version, answer)
		partitions := f.length(flexible)
		answer = appendLength(answer, partitions, flexible)
		for ; partitions > 0 && f.err == nil; partitions-- {
			index := f.int32()
			length := f.length(flexible)
			offset, code := int64(-1), int16(unknownTopicOrPartition)
			if p := s.partition(known, index); p != nil {
				b, r := s.batches(f, p, index, length)
				batches += b
				records += r
				offset, code = p.offset.Add(r)-r, 0
			} else {
				f.skip(length)
			}
			f.tags(flexible)
			answer = appendPartition(answer, version, index, code, offset)
		}
		f.tags(flexible)
		if flexible {
			answer = append(answer, 0)
		}
	}
	f.tags(flexible)
	answer = binary.BigEndian.AppendUint32(answer, 0) // throttle time
	if flexible {
		answer = append(answer, 0)
	}
	s.add(version, int64(size)+4, batches, records)
	return answer, acks != 0
}

// topicOf reads the name or id of a topic, says it again in the answer, and reports whether it is the one there is.
func topicOf(f *frame, version int16, answer []byte) ([]byte, bool) {
	if version >= 13 {
		id := [16]byte(f.bytes(16))
		return append(answer, id[:]...), id == topicID
	}
	n := f.stringLength(version >= 9)
	if n < 0 || n > 249 {
		f.err = errShort
		return answer, false
	}
	if version >= 9 {
		answer = binary.AppendUvarint(answer, uint64(n+1))
	} else {
		answer = binary.BigEndian.AppendUint16(answer, uint16(n))
	}
	name := f.bytes(n)
	return append(answer, name...), string(name) == Topic
}

func appendLength(b []byte, n int, flexible bool) []byte {
	if flexible {
		return binary.AppendUvarint(b, uint64(n+1))
	}
	return binary.BigEndian.AppendUint32(b, uint32(n))
}

func appendPartition(b []byte, version int16, index int32, code int16, offset int64) []byte {
	b = binary.BigEndian.AppendUint32(b, uint32(index))
	b = binary.BigEndian.AppendUint16(b, uint16(code))
	b = binary.BigEndian.AppendUint64(b, uint64(offset))
	b = binary.BigEndian.AppendUint64(b, ^uint64(0)) // log append time: none
	if version >= 5 {
		b = binary.BigEndian.AppendUint64(b, 0) // log start offset
	}
	switch {
	case version >= 9:
		b = append(b, 1, 0, 0) // no record errors, no message, no tags
	case version == 8:
		b = append(b, 0, 0, 0, 0, 0xff, 0xff)
	}
	return b
}

// The header of a batch, and where in it stands what is read here.
const (
	headerSize   = 61
	offLength    = 8 // counts from behind itself
	offMagic     = 16
	offCRC       = 17
	offChecked   = 21 // from here on the CRC counts
	offNumRecord = 57
)

// batches reads the batches of one partition: their headers, and the rest if it shall be verified.
func (s *Sink) batches(f *frame, p *partition, index int32, length int) (batches, records int64) {
	for length > 0 && f.err == nil {
		if length < headerSize {
			f.err = errors.New("a batch is shorter than its header")
			return batches, records
		}
		header := [headerSize]byte(f.bytes(headerSize))
		size := offLength + 4 + int(int32(binary.BigEndian.Uint32(header[offLength:])))
		if f.err == nil && (header[offMagic] != 2 || size < headerSize || size > length) {
			f.err = errors.New("this is no batch of records in format 2, or it is longer than the request says")
			return batches, records
		}
		if s.cfg.Verify {
			s.verify(p, index, append(header[:], f.copyOf(size-headerSize)...))
		} else {
			f.skip(size - headerSize)
		}
		length -= size
		batches++
		records += int64(binary.BigEndian.Uint32(header[offNumRecord:]))
	}
	return batches, records
}
