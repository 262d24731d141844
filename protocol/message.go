package protocol

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
