package protocol

import (
	"encoding/binary"
	"hash/crc32"
	"io"
	"math"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// FC-129: what a decoder of a response may allocate: 4 bytes for a byte received, and 4 KiB. Requests are decoded by
// the test broker alone, for which it is enough that the memory is bounded by the bytes.
const (
	responseAllocPerByte, responseAllocFixed = 4, 4 << 10
	requestAllocPerByte, requestAllocFixed   = 16, 8 << 10
)

// allocated is how many bytes decode allocates. Others allocate too, so the least of a few runs counts; it
// stops as soon as a run stays within enough.
func allocated(enough uint64, decode func()) uint64 {
	least := uint64(math.MaxUint64)
	for range 5 {
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		decode()
		runtime.ReadMemStats(&after)
		if least = min(least, after.TotalAlloc-before.TotalAlloc); least <= enough {
			break
		}
	}
	return least
}

// boundFor is what a message of n bytes may allocate.
func boundFor(name string, n int) uint64 {
	if strings.HasSuffix(name, "Request") {
		return uint64(requestAllocPerByte*n + requestAllocFixed)
	}
	return uint64(responseAllocPerByte*n + responseAllocFixed)
}

// requireBounded fails when decoding src allocates more than it may.
func requireBounded(t testing.TB, name string, src []byte, version int16) {
	t.Helper()
	bound := boundFor(name, len(src))
	least := allocated(bound, func() { _ = decodeAsClient(newMessage(name), src, version) })
	require.LessOrEqual(t, least, bound, "bytes allocated for %d bytes of %s v%d", len(src), name, version)
	if name != "ProduceResponse" {
		return
	}
	const topics, partitions = 50, 150
	bound += topics*80 + partitions*60 // as ReadAnswer promises
	least = allocated(bound, func() { _ = new(ProduceResponse).ReadAnswer(src, version, topics, partitions) })
	require.LessOrEqual(t, least, bound, "bytes allocated for %d bytes of %s v%d, %d topics and %d partitions being asked about", len(src), name, version, topics, partitions)
}

// decodeAsClient decodes the way that the client does: metadata in place, and through all of it.
func decodeAsClient(m Message, src []byte, version int16) error {
	md, ok := m.(*MetadataResponse)
	if !ok {
		return m.ReadFrom(src, version)
	}
	if err := md.ReadInPlace(src, version); err != nil {
		return err
	}
	for t := range md.AllTopics() {
		for range t.AllPartitions() {
		}
	}
	return nil
}

// seed is a message to begin fuzzing with, whole or not.
type seed struct {
	version int16
	src     []byte
}

// realAnswers goes through testdata/answers: what brokers from 0.11 to 4.4 said to integration/cmd/answers.
func realAnswers(t testing.TB, take func(name string, version int16, b []byte)) {
	t.Helper()
	files, err := filepath.Glob("testdata/answers/*.txt")
	require.NoError(t, err)
	require.NotEmpty(t, files)
	for _, file := range files {
		readMessages(t, file, take)
	}
}

// seeds has for each version what Kafka's own classes make of a message, what real brokers said, and bytes that
// are no message.
func seeds(t testing.TB, name string) (all []seed) {
	minVersion, maxVersion := newMessage(name).Key().Versions()
	for golden, versions := range golden(t) {
		if base, _, _ := strings.Cut(golden, "/"); base == name {
			for v, b := range versions {
				all = append(all, seed{v, b})
			}
		}
	}
	realAnswers(t, func(answer string, v int16, b []byte) {
		if answer == name {
			all = append(all, seed{v, b})
		}
	})
	for v := minVersion; v <= maxVersion; v++ {
		for _, b := range []string{"\x00", "\x01", "\xff"} {
			all = append(all, seed{v, []byte(strings.Repeat(b, 64))})
		}
	}
	return all
}

// FC-129: any bytes whatever give a value or an error, in memory bounded by the bytes; and a value that was
// read can be written and read again.
func fuzzMessage(f *testing.F, name string) {
	minVersion, maxVersion := newMessage(name).Key().Versions()
	for _, s := range seeds(f, name) {
		f.Add(byte(s.version-minVersion), s.src)
	}
	f.Fuzz(func(t *testing.T, version byte, src []byte) {
		v := minVersion + int16(version)%(maxVersion-minVersion+1)
		m := newMessage(name)
		err := m.ReadFrom(src, v)
		if crc32.ChecksumIEEE(src)%16 == 0 { // measuring takes far longer than decoding
			requireBounded(t, name, src, v)
		}
		if err != nil {
			return
		}
		b := m.AppendTo(nil, v)
		again := newMessage(name)
		require.NoError(t, again.ReadFrom(b, v))
		require.Equal(t, b, again.AppendTo(nil, v))
	})
}

func FuzzApiVersionsRequest(f *testing.F)      { fuzzMessage(f, "ApiVersionsRequest") }
func FuzzApiVersionsResponse(f *testing.F)     { fuzzMessage(f, "ApiVersionsResponse") }
func FuzzMetadataRequest(f *testing.F)         { fuzzMessage(f, "MetadataRequest") }
func FuzzMetadataResponse(f *testing.F)        { fuzzMessage(f, "MetadataResponse") }
func FuzzProduceRequest(f *testing.F)          { fuzzMessage(f, "ProduceRequest") }
func FuzzProduceResponse(f *testing.F)         { fuzzMessage(f, "ProduceResponse") }
func FuzzInitProducerIdRequest(f *testing.F)   { fuzzMessage(f, "InitProducerIdRequest") }
func FuzzInitProducerIdResponse(f *testing.F)  { fuzzMessage(f, "InitProducerIdResponse") }
func FuzzListOffsetsRequest(f *testing.F)      { fuzzMessage(f, "ListOffsetsRequest") }
func FuzzListOffsetsResponse(f *testing.F)     { fuzzMessage(f, "ListOffsetsResponse") }
func FuzzFetchRequest(f *testing.F)            { fuzzMessage(f, "FetchRequest") }
func FuzzFetchResponse(f *testing.F)           { fuzzMessage(f, "FetchResponse") }
func FuzzFindCoordinatorRequest(f *testing.F)  { fuzzMessage(f, "FindCoordinatorRequest") }
func FuzzFindCoordinatorResponse(f *testing.F) { fuzzMessage(f, "FindCoordinatorResponse") }

// FuzzProduceResponseReused is the client's way: one response that is decoded into again and again. What
// it held before must make no difference.
func FuzzProduceResponseReused(f *testing.F) {
	minVersion, maxVersion := KeyProduce.Versions()
	for v, b := range golden(f)["ProduceResponse"] {
		f.Add(byte(v-minVersion), b, b)
		f.Add(byte(v-minVersion), b, b[:len(b)/2])
	}
	f.Fuzz(func(t *testing.T, version byte, first, second []byte) {
		v := minVersion + int16(version)%(maxVersion-minVersion+1)
		var used, fresh ProduceResponse
		_ = used.ReadFrom(first, v)
		err := used.ReadFrom(second, v)
		require.Equal(t, fresh.ReadFrom(second, v), err)
		if err == nil {
			require.Equal(t, fresh.AppendTo(nil, v), used.AppendTo(nil, v))
		}
	})
}

func FuzzRequestHeader(f *testing.F) {
	for name, versions := range golden(f) {
		if strings.HasPrefix(name, "RequestHeader") {
			for _, b := range versions {
				f.Add(b)
			}
		}
	}
	f.Fuzz(func(t *testing.T, src []byte) {
		h, rest, err := ReadRequestHeader(src)
		if err != nil {
			return
		}
		again, _, err := ReadRequestHeader(AppendRequestHeader(nil, h))
		require.NoError(t, err)
		require.Equal(t, h, again)
		require.LessOrEqual(t, len(rest), len(src))
	})
}

func FuzzResponseHeader(f *testing.F) {
	f.Add(int16(3), int16(9), []byte{0, 0, 0, 1, 0, 5})
	f.Add(int16(18), int16(3), []byte{0, 0, 0, 1, 0, 5})
	f.Add(int16(0), int16(9), []byte{0, 0, 0, 1, 1, 9, 2, 1, 2, 5})
	f.Fuzz(func(t *testing.T, key, version int16, src []byte) {
		id, rest, err := ReadResponseHeader(src, APIKey(key), version)
		if err == nil {
			require.Equal(t, int32(binary.BigEndian.Uint32(src)), id)
			require.LessOrEqual(t, len(rest), len(src))
		}
	})
}

// FuzzRecordBatch reads a batch as a broker does: header, checksum (made right, or nothing would come
// through), records.
func FuzzRecordBatch(f *testing.F) {
	for name, versions := range golden(f) {
		if strings.HasPrefix(name, "RecordBatch") {
			f.Add(versions[2])
		}
	}
	f.Add(makeBatch(idempotent))
	f.Fuzz(func(t *testing.T, src []byte) {
		_ = VerifyCRC(src)
		h, err := ReadBatchHeader(src)
		if err != nil || h.Size() != len(src) {
			return
		}
		b := append([]byte(nil), src...)
		SetLogAppendTime(b, 5)
		require.NoError(t, VerifyCRC(b))
		// Brokers read these, the client does not: a header is twenty times as large in memory as at least on the wire.
		bound := uint64(requestAllocPerByte*len(b) + requestAllocFixed)
		require.LessOrEqual(t, allocated(bound, func() {
			r := NewRecordReader(b[BatchHeaderSize:], h.Count)
			n := int32(0)
			for _, err = r.Next(); err == nil; _, err = r.Next() {
				n++
			}
			if err == io.EOF {
				require.Equal(t, h.Count, n)
			} else {
				require.ErrorIs(t, err, InvalidRecord)
			}
		}), bound)
	})
}
