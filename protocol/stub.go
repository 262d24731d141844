package protocol

func AppendRequestHeader(dst []byte, h RequestHeader) []byte                 { panic("stub") }
func ReadRequestHeader(src []byte) (h RequestHeader, rest []byte, err error) { panic("stub") }
func AppendResponseHeader(dst []byte, key APIKey, version int16, correlationID int32) []byte {
	panic("stub")
}
func ReadResponseHeader(src []byte, key APIKey, version int16) (correlationID int32, rest []byte, err error) {
	panic("stub")
}
func NewFrame(h RequestHeader, m Message) Frame { panic("stub") }

type ProduceEncoder struct{}

func (e *ProduceEncoder) Begin(h RequestHeader, transactionalID *string, acks int16, timeoutMs int32, topics int) {
	panic("stub")
}
func (e *ProduceEncoder) Topic(name string, id UUID, partitions int)        { panic("stub") }
func (e *ProduceEncoder) Partition(index int32, records [][]byte, size int) { panic("stub") }
func (e *ProduceEncoder) Finish() Frame                                     { panic("stub") }
func (e *ProduceEncoder) Reset()                                            { panic("stub") }

func (r *ApiVersionsResponse) Range(key APIKey) (minVersion, maxVersion int16, ok bool) {
	panic("stub")
}

// ProduceRequest checks, for brokers.
func CheckProduceRecords(version int16, records []byte) (BatchHeader, error) { panic("stub") }

func ReadBatchHeader(b []byte) (BatchHeader, error) { panic("stub") }
func (h BatchHeader) Codec() Codec                  { panic("stub") }
func (h BatchHeader) Size() int                     { panic("stub") }
func (h BatchHeader) IsTransactional() bool         { panic("stub") }
func (h BatchHeader) IsControl() bool               { panic("stub") }
func (h BatchHeader) LastOffset() int64             { panic("stub") }
func (h BatchHeader) LastSequence() int32           { panic("stub") }
func VerifyCRC(b []byte) error                      { panic("stub") }
func SetBaseOffset(b []byte, offset int64)          { panic("stub") }
func SetPartitionLeaderEpoch(b []byte, epoch int32) { panic("stub") }
func SetLogAppendTime(b []byte, timestamp int64)    { panic("stub") }

type RecordReader struct{}

func NewRecordReader(records []byte, count int32) *RecordReader { panic("stub") }
func (r *RecordReader) Next() (RecordView, error)               { panic("stub") }

func (*ApiVersionsRequest) Key() APIKey                                 { return KeyAPIVersions }
func (m *ApiVersionsRequest) AppendTo(dst []byte, version int16) []byte { panic("stub") }
func (m *ApiVersionsRequest) ReadFrom(src []byte, version int16) error  { panic("stub") }

func (*ApiVersionsResponse) Key() APIKey                                 { return KeyAPIVersions }
func (m *ApiVersionsResponse) AppendTo(dst []byte, version int16) []byte { panic("stub") }
func (m *ApiVersionsResponse) ReadFrom(src []byte, version int16) error  { panic("stub") }

func (*MetadataRequest) Key() APIKey                                 { return KeyMetadata }
func (m *MetadataRequest) AppendTo(dst []byte, version int16) []byte { panic("stub") }
func (m *MetadataRequest) ReadFrom(src []byte, version int16) error  { panic("stub") }

func (*MetadataResponse) Key() APIKey                                 { return KeyMetadata }
func (m *MetadataResponse) AppendTo(dst []byte, version int16) []byte { panic("stub") }
func (m *MetadataResponse) ReadFrom(src []byte, version int16) error  { panic("stub") }

func (*ProduceRequest) Key() APIKey                                 { return KeyProduce }
func (m *ProduceRequest) AppendTo(dst []byte, version int16) []byte { panic("stub") }
func (m *ProduceRequest) ReadFrom(src []byte, version int16) error  { panic("stub") }

func (*ProduceResponse) Key() APIKey                                 { return KeyProduce }
func (m *ProduceResponse) AppendTo(dst []byte, version int16) []byte { panic("stub") }
func (m *ProduceResponse) ReadFrom(src []byte, version int16) error  { panic("stub") }

func (*InitProducerIdRequest) Key() APIKey                                 { return KeyInitProducerID }
func (m *InitProducerIdRequest) AppendTo(dst []byte, version int16) []byte { panic("stub") }
func (m *InitProducerIdRequest) ReadFrom(src []byte, version int16) error  { panic("stub") }

func (*InitProducerIdResponse) Key() APIKey                                 { return KeyInitProducerID }
func (m *InitProducerIdResponse) AppendTo(dst []byte, version int16) []byte { panic("stub") }
func (m *InitProducerIdResponse) ReadFrom(src []byte, version int16) error  { panic("stub") }

func (*ListOffsetsRequest) Key() APIKey                                 { return KeyListOffsets }
func (m *ListOffsetsRequest) AppendTo(dst []byte, version int16) []byte { panic("stub") }
func (m *ListOffsetsRequest) ReadFrom(src []byte, version int16) error  { panic("stub") }

func (*ListOffsetsResponse) Key() APIKey                                 { return KeyListOffsets }
func (m *ListOffsetsResponse) AppendTo(dst []byte, version int16) []byte { panic("stub") }
func (m *ListOffsetsResponse) ReadFrom(src []byte, version int16) error  { panic("stub") }

func (*FetchRequest) Key() APIKey                                 { return KeyFetch }
func (m *FetchRequest) AppendTo(dst []byte, version int16) []byte { panic("stub") }
func (m *FetchRequest) ReadFrom(src []byte, version int16) error  { panic("stub") }

func (*FetchResponse) Key() APIKey                                 { return KeyFetch }
func (m *FetchResponse) AppendTo(dst []byte, version int16) []byte { panic("stub") }
func (m *FetchResponse) ReadFrom(src []byte, version int16) error  { panic("stub") }

func (*FindCoordinatorRequest) Key() APIKey                                 { return KeyFindCoordinator }
func (m *FindCoordinatorRequest) AppendTo(dst []byte, version int16) []byte { panic("stub") }
func (m *FindCoordinatorRequest) ReadFrom(src []byte, version int16) error  { panic("stub") }

func (*FindCoordinatorResponse) Key() APIKey                                 { return KeyFindCoordinator }
func (m *FindCoordinatorResponse) AppendTo(dst []byte, version int16) []byte { panic("stub") }
func (m *FindCoordinatorResponse) ReadFrom(src []byte, version int16) error  { panic("stub") }
