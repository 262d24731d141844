package protocol

// ProduceRequest carries record batches to the leaders of their partitions.
//
// The client does not build it on its hot path (see [ProduceEncoder]); it is what a broker decodes.
type ProduceRequest struct {
	TransactionalID *string
	Acks            int16
	TimeoutMs       int32
	Topics          []ProduceRequestTopic
}

// ProduceRequestTopic is one topic of a [ProduceRequest], named up to v12 and by id from v13 on.
type ProduceRequestTopic struct {
	Name       string // v3 to v12
	ID         UUID   // v13
	Partitions []ProduceRequestPartition
}

// ProduceRequestPartition is one partition of a [ProduceRequestTopic].
type ProduceRequestPartition struct {
	Index   int32
	Records []byte // one record batch; nil is a null on the wire; aliases the decoded bytes
}
