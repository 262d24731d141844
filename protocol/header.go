package protocol

// RequestHeader stands before the body of every request.
type RequestHeader struct {
	Key           APIKey
	Version       int16
	CorrelationID int32
	ClientID      *string // nil is a null on the wire
}
