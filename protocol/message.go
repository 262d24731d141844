package protocol

import (
	"fmt"
	"unsafe"

	"github.com/kafka-reservoir/producer/internal/invariants"
	"github.com/kafka-reservoir/producer/protocol/internal/wire"
)

// Message is the body of one request or response, without its header.
//
// Both directions exist for every message: the client encodes requests and decodes responses, the test
// broker does the reverse.
type Message interface {
	// Key is the API the message belongs to.
	Key() APIKey
	// AppendTo appends the body in the form of version, which must be in Key().Versions().
	// Fields that the version does not have are left out.
	AppendTo(dst []byte, version int16) []byte
	// ReadFrom replaces the whole receiver by what src says; fields that the version does not have
	// get Kafka's default. src must hold the body and nothing more. After an error the receiver's
	// contents are unspecified. Fields of type []byte alias src, everything else is copied.
	ReadFrom(src []byte, version int16) error
}

// What may be allocated for each byte decoded. A response comes from whoever answers at a broker's address,
// and 4 is what we allow a stranger (FC-129); for what was asked of it, more ([ProduceResponse.ReadAnswer]). Requests are decoded by the test broker alone, and topics with short
// names make them larger than that.
const (
	responseFactor = 4
	requestFactor  = 16
)

// newReader starts to decode the body of a response. A version that this package does not have makes a
// reader that has failed already.
func newReader(src []byte, key APIKey, version int16) (r wire.Reader, flex bool) {
	return newReaderOf(responseFactor, src, key, version)
}

// newRequestReader is newReader for a request.
func newRequestReader(src []byte, key APIKey, version int16) (r wire.Reader, flex bool) {
	return newReaderOf(requestFactor, src, key, version)
}

func newReaderOf(factor int, src []byte, key APIKey, version int16) (r wire.Reader, flex bool) {
	r = wire.NewReader(src, factor)
	if minVersion, maxVersion := key.Versions(); version < minVersion || version > maxVersion {
		r.Fail(UnsupportedVersion)
	}
	return r, key.Flexible(version)
}

// closeReader ends what newReader began; kind is "request" or "response".
func closeReader(r *wire.Reader, key APIKey, kind string, version int16) error {
	if err := r.Close(); err != nil {
		return fmt.Errorf("decode %v %s v%d: %w", key, kind, version, err)
	}
	return nil
}

// flexibleToAppend is Flexible for the encoders, whose callers have negotiated the version.
func flexibleToAppend(key APIKey, version int16) bool {
	if invariants.Enabled {
		minVersion, maxVersion := key.Versions()
		invariants.Check(version >= minVersion && version <= maxVersion, "message encoded in a version it does not have")
	}
	return key.Flexible(version)
}

// count reads the count of an array of T that may not be null, whose elements take at least minSize
// bytes each, and reserves the memory for them.
func count[T any](r *wire.Reader, flex bool, minSize int) int {
	return reserve[T](r, r.Count(flex, minSize))
}

// nullableCount is count for an array that may be null: -1.
func nullableCount[T any](r *wire.Reader, flex bool, minSize int) int {
	return reserve[T](r, r.NullableCount(flex, minSize))
}

func reserve[T any](r *wire.Reader, n int) int {
	var element T
	if n > 0 && !r.Reserve(n*int(unsafe.Sizeof(element))) { // n is at most the bytes that are left
		return 0
	}
	return n
}

// makeArray is count, and makes the array.
func makeArray[T any](r *wire.Reader, flex bool, minSize int) []T {
	return make([]T, count[T](r, flex, minSize))
}
