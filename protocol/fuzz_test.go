package protocol

import (
	"encoding/binary"
	"hash/crc32"
	"io"
	"math"
	"runtime"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// What a decoder may allocate: so much for a byte received, and so much at all.
const (
	maxAllocPerByte = 16
	maxAllocFixed   = 8 << 10
)

// requireBounded runs decode, which gets n bytes to decode, and fails when it allocates more than the
// bound. Other goroutines allocate too, so only a run that is over the bound again and again counts.
func requireBounded(t testing.TB, n int, decode func()) {
	t.Helper()
	bound := uint64(maxAllocPerByte*n + maxAllocFixed)
	least := uint64(math.MaxUint64)
	for range 5 {
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		decode()
		runtime.ReadMemStats(&after)
		if least = min(least, after.TotalAlloc-before.TotalAlloc); least <= bound {
			return
		}
	}
	require.LessOrEqual(t, least, bound, "bytes allocated for %d bytes received", n)
}

// FC-129: any bytes whatever give a value or an error, in memory bounded by the bytes; and a value that was
// read can be written and read again.
func fuzzMessage(f *testing.F, name string) {
	minVersion, maxVersion := newMessage(name).Key().Versions()
	for golden, versions := range golden(f) {
		if base, _, _ := strings.Cut(golden, "/"); base == name {
			for v, b := range versions {
				f.Add(byte(v-minVersion), b)
			}
		}
	}
	for v := range maxVersion - minVersion + 1 {
		f.Add(byte(v), make([]byte, 64))
		f.Add(byte(v), []byte(strings.Repeat("\x01", 64)))
		f.Add(byte(v), []byte(strings.Repeat("\xff", 64)))
	}
	f.Fuzz(func(t *testing.T, version byte, src []byte) {
		v := minVersion + int16(version)%(maxVersion-minVersion+1)
		m := newMessage(name)
		err := m.ReadFrom(src, v)
		if crc32.ChecksumIEEE(src)%16 == 0 { // measuring takes far longer than decoding
			requireBounded(t, len(src), func() { _ = newMessage(name).ReadFrom(src, v) })
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
		requireBounded(t, len(b), func() {
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
		})
	})
}

// FC-129: the worst that a hostile broker can make of its bytes: elements as small as they get, and counts
// that promise as many more as the bytes could just hold, at any place.
func TestDecodersAllocateByBytesReceived(t *testing.T) {
	const size = 16 << 10
	for name := range goldenMessages {
		if strings.Contains(name, "/") {
			continue
		}
		key := newMessage(name).Key()
		minVersion, maxVersion := key.Versions()
		for v := minVersion; v <= maxVersion; v++ {
			if v > minVersion && v < maxVersion && key.Flexible(v) == key.Flexible(v-1) {
				continue
			}
			for skip := range 24 {
				for _, element := range []int{1, 3, 8, 18} {
					for _, filler := range []string{"\x00", "\x01"} {
						start, rest := strings.Repeat(filler, skip), strings.Repeat(filler, size)
						b := binary.AppendUvarint([]byte(start), uint64(size/element)+1)
						if !key.Flexible(v) {
							b = binary.BigEndian.AppendUint32([]byte(start), uint32(size/element))
						}
						b = append(b, rest...)
						requireBounded(t, len(b), func() { _ = newMessage(name).ReadFrom(b, v) })
					}
				}
			}
		}
	}
}
