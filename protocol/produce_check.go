package protocol

import "fmt"

// CheckProduceRecords makes the checks a broker makes on the records of one partition before it looks
// at them closer: since v3 a Produce request has exactly one record batch of format v2 for a partition,
// and zstd is allowed from v7 on. The error is an InvalidRecord, a CorruptMessage or an
// UnsupportedCompressionType. The checksum and the records are not looked at.
func CheckProduceRecords(version int16, records []byte) (BatchHeader, error) {
	if len(records) == 0 {
		return BatchHeader{}, fmt.Errorf("produce v%d: no record batch: %w", version, InvalidRecord)
	}
	h, err := ReadBatchHeader(records)
	if err != nil {
		return BatchHeader{}, fmt.Errorf("produce v%d: %w", version, err)
	}
	switch {
	case h.Size() > len(records):
		return BatchHeader{}, fmt.Errorf("produce v%d: record batch of %d bytes in %d: %w", version, h.Size(), len(records), CorruptMessage)
	case h.Size() < len(records):
		return BatchHeader{}, fmt.Errorf("produce v%d: %d bytes after the one record batch allowed: %w", version, len(records)-h.Size(), InvalidRecord)
	case h.Codec() > CodecZstd, h.Codec() == CodecZstd && version < 7:
		return BatchHeader{}, fmt.Errorf("produce v%d: codec %d: %w", version, h.Codec(), UnsupportedCompressionType)
	}
	return h, nil
}

// ProducerFlags reports whether any batch of the request has a producer id, and whether any belongs to
// a transaction. Batches whose header cannot be read count for neither.
func (m *ProduceRequest) ProducerFlags() (idempotent, transactional bool) {
	for i := range m.Topics {
		for _, p := range m.Topics[i].Partitions {
			h, err := ReadBatchHeader(p.Records)
			if err != nil {
				continue
			}
			idempotent = idempotent || h.ProducerID >= 0
			transactional = transactional || h.IsTransactional()
		}
	}
	return idempotent, transactional
}
