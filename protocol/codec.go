package protocol

// Codec is a record batch's compression, as bits 0-2 of its attributes.
type Codec int8

// The codecs Kafka knows.
const (
	CodecNone Codec = iota
	CodecGzip
	CodecSnappy
	CodecLZ4
	CodecZstd
)

// String is the name that compression.type uses.
func (c Codec) String() string {
	switch c {
	case CodecNone:
		return "none"
	case CodecGzip:
		return "gzip"
	case CodecSnappy:
		return "snappy"
	case CodecLZ4:
		return "lz4"
	case CodecZstd:
		return "zstd"
	}
	return "unknown"
}

// Compressor compresses the records section of a batch. It is used by one goroutine at a time.
type Compressor interface {
	Codec() Codec
	// Compress appends to dst[:0] the compressed form of src, which is one stream cut into slabs,
	// and returns the extended slice. It keeps neither dst nor src.
	Compress(dst []byte, src [][]byte) ([]byte, error)
}
