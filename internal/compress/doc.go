// Package compress holds Kafka's four codecs, in the forms that Java clients and brokers write and read.
//
// A compressor ([New]) belongs to one goroutine at a time: a sealer of the accumulator, or an application goroutine
// that compresses its own batch. It is made warm by its first use and allocates nothing in steady state, starts no
// goroutine, and keeps no reference to what it was given. [Footprint] says what it holds, so that its users can
// bound how many there are.
//
// The decoders ([Decompress], [Decoder]) are for whoever reads batches: the test broker, which gets bytes from
// any client, and tests. They are total: any bytes give data or an error, and the output never exceeds the given
// limit. Where there is a choice they are not the encoder's library, so that an error of one is not hidden by the
// same error in the other.
//
// What a batch holds, by codec:
//
//   - gzip: a stream of RFC 1952.
//   - snappy: the framing of Java's SnappyOutputStream ("xerial"): a header of 16 bytes, then blocks of up to
//     32 KiB of input, each behind its length (4 bytes, big-endian). Raw snappy is read too, never written.
//   - lz4: the LZ4 frame format with independent blocks of up to 64 KiB and no checksum but the header's.
//   - zstd: one frame with its content size and no checksum.
//
// No checksums inside, because the batch has a CRC over all of it.
//
// It is the only package that imports third-party modules.
package compress
