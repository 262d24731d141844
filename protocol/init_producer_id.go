package protocol

// InitProducerIdRequest asks for a producer id and epoch.
type InitProducerIdRequest struct {
	TransactionalID      *string // nil for a producer that is only idempotent
	TransactionTimeoutMs int32
	ProducerID           int64 // v3; -1 asks for a new id
	ProducerEpoch        int16 // v3; -1 asks for a new id
}

// InitProducerIdResponse is the answer to [InitProducerIdRequest].
type InitProducerIdResponse struct {
	ThrottleTimeMs int32
	ErrorCode      ErrorCode
	ProducerID     int64 // -1 with an error
	ProducerEpoch  int16
}
