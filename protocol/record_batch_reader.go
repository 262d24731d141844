package protocol

// BatchHeader is the header of a record batch v2.
type BatchHeader struct {
	BaseOffset           int64
	BatchLength          int32 // bytes after this field: the batch's size less 12
	PartitionLeaderEpoch int32
	Magic                int8
	CRC                  uint32
	Attributes           int16
	LastOffsetDelta      int32
	BaseTimestamp        int64
	MaxTimestamp         int64
	ProducerID           int64
	ProducerEpoch        int16
	BaseSequence         int32
	Count                int32
}

// RecordView is one record, lying in the bytes it was read from.
type RecordView struct {
	Attributes     int8
	TimestampDelta int64
	OffsetDelta    int32
	Key            []byte   // nil is a null
	Value          []byte   // nil is a null
	Headers        []Header // Value aliases the bytes read, Key does not
}
