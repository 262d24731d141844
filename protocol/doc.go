// Package protocol is Kafka's wire format: requests and responses in every version this producer speaks,
// record batches, error codes.
//
// Of this package only [ErrorCode] with its constants is covered by the module's promise of
// compatibility, together with the plain structs the root package shows ([Header], [TopicPartition]).
// The rest serves the engine and may change in any release.
//
// # Who calls what
//
// Messages are plain values. The sender goroutine encodes requests ([NewFrame], [ProduceEncoder]) and
// decodes responses; the test broker does the reverse. Nothing here starts a goroutine, waits, asks the
// clock or locks, and no value may be used by two goroutines at a time, with one exception: the frame
// of a request belongs to the connection that writes it until that says it is done.
//
// # Messages
//
// There is one file per API, with the structs of its request and response and both directions of each,
// written by hand from Kafka's message definitions and compared, in every version, with another
// implementation (internal/conformance). Struct and field names are Kafka's. A comment such as "v5"
// says from which version on a field exists; without one it is in all of them. Fields that a version
// does not have are left out when it is written and get Kafka's default when it is read.
//
// The zero value of a field is not always Kafka's default: who builds a message sets -1, [NoLeader] and
// the like where the comments name them.
//
// Null and empty differ where the protocol lets them: a nil *string is a null, and so is a nil slice in
// a field whose comment says so. In all other fields nil and empty slices mean the same.
//
// # Bytes from the network
//
// Decoders are total. Whatever the bytes, they return a value or an error and never panic; every length
// and count is held against the bytes that are there before memory is set aside for it, so that what a
// decoder allocates is bounded by what was received (16 bytes for each byte, and 8 KiB), not by what was
// claimed; bytes left over are an error, because they mean that the other side wrote something else than
// was read.
package protocol
