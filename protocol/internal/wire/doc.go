// Package wire holds the primitive types of Kafka's protocol: how each is appended to a buffer, and a
// [Reader] that takes them out of received bytes.
//
// Only package protocol calls it, from whatever goroutine encodes or decodes. Nothing here is shared,
// so nothing locks.
//
// Many types have two forms. Flexible versions of an API (KIP-482) write lengths as unsigned varints
// of length+1, 0 meaning null; the others write them as int16 (strings) or int32 (bytes, arrays), -1
// meaning null. Functions for such types take flex, which chooses the form.
package wire
