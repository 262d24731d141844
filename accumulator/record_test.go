package accumulator

import (
	"encoding/hex"
	"fmt"
	"math"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/kafka-reservoir/producer/bufferpool"
	"github.com/kafka-reservoir/producer/protocol"
)

// reference encodes a batch in one piece, by the description of the format alone.
func reference(stamp protocol.BatchStamp, records ...Record) []byte {
	out := make([]byte, protocol.BatchHeaderSize)
	stamp.BaseTimestamp, stamp.MaxTimestamp = records[0].Timestamp, records[0].Timestamp
	for i, r := range records {
		stamp.MaxTimestamp = max(stamp.MaxTimestamp, r.Timestamp)
		body := []byte{0} // attributes
		body = appendVarint(body, r.Timestamp-stamp.BaseTimestamp)
		body = appendVarint(body, int64(i))
		body = appendNullable(body, r.Key)
		body = appendNullable(body, r.Value)
		body = appendVarint(body, int64(len(r.Headers)))
		for _, h := range r.Headers {
			body = appendNullable(body, []byte(h.Key))
			body = appendNullable(body, h.Value)
		}
		out = append(appendVarint(out, int64(len(body))), body...)
	}
	stamp.Count = int32(len(records))
	protocol.StampBatch([][]byte{out}, len(out), stamp)
	return out
}

// appendVarint is zig-zag encoding, one group of seven bits after the other.
func appendVarint(dst []byte, v int64) []byte {
	u := uint64(v) << 1
	if v < 0 {
		u = ^u
	}
	for u > 0x7f {
		dst = append(dst, byte(u)|0x80)
		u >>= 7
	}
	return append(dst, byte(u))
}

func appendNullable(dst, b []byte) []byte {
	if b == nil {
		return appendVarint(dst, -1)
	}
	return append(appendVarint(dst, int64(len(b))), b...)
}

var unstamped = protocol.BatchStamp{Producer: protocol.NoProducerID, BaseSequence: -1}

// batchOf appends records to one partition and drains them as one batch.
func (r *rig) batchOf(g Gate, records ...Record) *ProducerBatch {
	r.t.Helper()
	for _, rec := range records {
		r.record(orders, rec, nil)
	}
	r.a.BeginFlush()
	r.ready()
	got := r.a.Drain(nil, 1, 1, r.clock.peek(), g)
	r.a.EndFlush()
	require.Len(r.t, got, 1)
	require.EqualValues(r.t, len(records), got[0].Count())
	return got[0]
}

// S-68, MRB-01, MRB-03, MRB-04, MRB-07, MRB-08, MRB-09, DRB-02, DRB-03, DRC-01: a batch is byte for byte what the format says: keys,
// values and header values that are null, empty and neither; repeated header keys; timestamps that go back and far
// ahead; plain, and stamped with a sequence that wraps. (Of what Java's builder refuses, nothing can be asked for: there is
// one format, every codec goes with it, and no control batch is ever written; MRB-05 is about older formats.)
func TestBatchBytes(t *testing.T) {
	records := []Record{
		{Timestamp: 1700000000000, Key: []byte("key"), Value: []byte("value"), Headers: []protocol.Header{{Key: "trace", Value: []byte{1, 2, 3}}, {Key: "trace"}, {Value: []byte{}}}},
		{Timestamp: 1700000000005},
		{Timestamp: 1699999999000, Key: []byte{}, Value: make([]byte, 200)},
		{Timestamp: 0, Value: []byte{}},
		{Timestamp: 1700000000000 + math.MaxInt32, Key: []byte("далеко"), Headers: []protocol.Header{{Key: "ключ", Value: []byte("значение")}}},
	}
	for _, tt := range []struct {
		name string
		id   protocol.ProducerID
		seq  int32
	}{
		{"plain", protocol.NoProducerID, -1},
		{"idempotent", protocol.ProducerID{ID: 77, Epoch: 3}, 10},
		{"sequence wraps", protocol.ProducerID{ID: math.MaxInt64, Epoch: math.MaxInt16}, math.MaxInt32 - 2},
	} {
		t.Run(tt.name, func(t *testing.T) {
			r := newRig(t, withLinger(time.Hour))
			r.lead(orders, 1)
			var g Gate
			if tt.id.Valid() {
				stamping := newGate()
				stamping.id, stamping.next[0] = tt.id, tt.seq
				g = stamping
			}
			b := r.batchOf(g, records...)
			want := reference(protocol.BatchStamp{Producer: tt.id, BaseSequence: tt.seq}, records...)
			assert.Equal(t, hex.EncodeToString(want), hex.EncodeToString(joined(b)))

			h, got := r.read(b)
			assert.Equal(t, records[0].Timestamp, h.BaseTimestamp)
			assert.Equal(t, records[4].Timestamp, h.MaxTimestamp)
			assert.EqualValues(t, -1, h.PartitionLeaderEpoch)
			assert.EqualValues(t, len(records)-1, h.LastOffsetDelta)
			assert.False(t, h.IsTransactional() || h.IsControl() || h.IsLogAppendTime())
			assert.Equal(t, tt.id.Valid(), b.Stamped())
			for i, rec := range records {
				assert.Equal(t, rec.Timestamp, h.Timestamp(got[i]))
				assert.Equal(t, rec.Key, got[i].Key)
				assert.Equal(t, rec.Value, got[i].Value)
				assert.Equal(t, rec.Headers, got[i].Headers)
				wantSeq := int32(-1)
				if tt.id.Valid() {
					wantSeq = protocol.AddSequence(tt.seq, int32(i))
				}
				assert.Equal(t, wantSeq, h.Sequence(got[i]))
			}
			r.completeAll([]*ProducerBatch{b})
			r.empty()
		})
	}
}

// S-68, DRB-02, DRC-01: the same bytes as Kafka's own classes write (protocol/testdata/Golden.java has made them).
func TestBatchBytesAreKafkas(t *testing.T) {
	r := newRig(t, withLinger(time.Hour))
	r.lead(orders, 1)
	b := r.batchOf(nil, Record{Timestamp: 1700000000000, Key: []byte("key"), Value: []byte("value")})
	assert.Equal(t, "000000000000000000000040ffffffff02db5e9cdd0000000000000000018bcfe568000000018bcfe56800"+
		"ffffffffffffffffffffffffffff000000011c000000066b65790a76616c756500", hex.EncodeToString(joined(b)))

	g := newGate()
	g.id, g.next[0] = protocol.ProducerID{ID: 77, Epoch: 3}, math.MaxInt32
	b = r.batchOf(g,
		Record{Timestamp: 1700000000000, Key: []byte("key"), Value: []byte("value"), Headers: []protocol.Header{{Key: "trace", Value: []byte{1, 2, 3}}, {Key: "trace"}, {Value: []byte{}}}},
		Record{Timestamp: 1700000000005},
		Record{Timestamp: 1699999999000, Key: []byte{}, Value: make([]byte, 200)})
	assert.Equal(t, "000000020000018bcfe568000000018bcfe56805000000000000004d00037fffffff0000000342000000066b65790a76616c7565"+
		"060a7472616365060102030a74726163650100000c000a02010100a00300cf0f04009003"+strings.Repeat("00", 201),
		hex.EncodeToString(joined(b)[23:])) // behind checksum and attributes: Kafka's batch was transactional
}

// DRB-11: sequences wrap from MaxInt32 to 0, from batch to batch too.
func TestSequenceWraps(t *testing.T) {
	r := newRig(t)
	r.lead(orders, 1)
	g := newGate()
	g.next[0] = math.MaxInt32 - 1
	for _, want := range []int32{math.MaxInt32 - 1, 1, 4} {
		b := r.batchOf(g, Record{Timestamp: 1}, Record{Timestamp: 1}, Record{Timestamp: 1})
		assert.Equal(t, want, b.Sequence())
		r.a.Complete(b, 0, -1)
	}
}

// MRB-14, S-80: a batch that is stamped anew has header and checksum rewritten, and the records as they were.
func TestStampAgain(t *testing.T) {
	r := newRig(t)
	r.lead(orders, 1)
	g := newGate()
	records := []Record{{Timestamp: 5, Key: []byte("a"), Value: noise(20 * kib)}, {Timestamp: 6, Value: []byte("b")}}
	b := r.batchOf(g, records[0])
	first := hex.EncodeToString(joined(b))
	r.requeue(b)
	r.clock.advance(time.Second)
	got := r.a.Drain(nil, 1, 1<<20, r.clock.peek(), g)
	require.Empty(t, got, "in back-off")
	r.ready()
	require.Equal(t, []*ProducerBatch{b}, r.a.Drain(nil, 1, 1<<20, r.clock.peek(), g))
	assert.Equal(t, first, hex.EncodeToString(joined(b)), "sent again as it is, sequence included")

	r.requeue(b)
	r.clock.advance(time.Second)
	next := protocol.ProducerID{ID: 7, Epoch: 2}
	b.SetProducer(next, 40)
	require.Equal(t, []*ProducerBatch{b}, r.drain(1))
	assert.Equal(t, next, b.Producer())
	assert.Equal(t, hex.EncodeToString(reference(protocol.BatchStamp{Producer: next, BaseSequence: 40}, records[0])), hex.EncodeToString(joined(b)))
	b.SetProducer(protocol.NoProducerID, -1)
	assert.False(t, b.Stamped())
	r.requeue(b)
	r.clock.advance(time.Second)
	r.drainOne(1)
	assert.Equal(t, hex.EncodeToString(reference(unstamped, records[0])), hex.EncodeToString(joined(b)))
	r.completeAll([]*ProducerBatch{b})
	r.empty()
}

// Records of all sizes around the ends of slabs, alone and behind others, are the same bytes in a chain of slabs as in
// one piece; so are keys and headers that lie across an end.
func TestRecordsAcrossSlabs(t *testing.T) {
	var edges []int
	for _, edge := range []int{0, bufferpool.SmallSlabSize, bufferpool.SlabSize, bufferpool.SmallSlabSize + bufferpool.SlabSize, 3 * bufferpool.SlabSize} {
		for n := edge - 90; n <= edge+12; n++ {
			if n >= 0 {
				edges = append(edges, n)
			}
		}
	}
	bytes := noise(64 * kib)
	shapes := map[string]func(n int) []Record{
		"value": func(n int) []Record { return []Record{{Timestamp: 9, Value: bytes[:n]}} },
		"key and value": func(n int) []Record {
			return []Record{{Timestamp: 9, Key: bytes[:n/2], Value: bytes[n/2 : n]}}
		},
		"behind another": func(n int) []Record {
			return []Record{{Timestamp: 9, Value: bytes[:n]}, {Timestamp: 1 << 40, Key: bytes[:20], Value: bytes[100:160]}, {Timestamp: 3, Value: bytes[:1]}}
		},
		"headers": func(n int) []Record {
			return []Record{{Timestamp: 9, Value: bytes[:n]}, {Timestamp: 8, Headers: []protocol.Header{
				{Key: "first", Value: bytes[:7]}, {Key: "null"}, {Key: strings.Repeat("long", 10), Value: []byte{}}, {Key: "", Value: bytes[:30]},
			}}}
		},
	}
	for name, shape := range shapes {
		t.Run(name, func(t *testing.T) {
			r := newRig(t, withBatch(256*kib), withLinger(time.Hour))
			r.lead(orders, 1)
			for _, n := range edges {
				records := shape(n)
				b := r.batchOf(nil, records...)
				want := reference(unstamped, records...)
				require.Equal(t, want, joined(b), "n=%d", n)
				require.Equal(t, len(want), b.Size())
				for _, s := range b.Slabs()[:len(b.Slabs())-1] {
					require.Equal(t, cap(s), len(s), "only the last slab may have room left")
				}
				r.a.Complete(b, 0, -1)
			}
			r.empty()
		})
	}
}

// The same with batches made at random.
func TestRandomBatches(t *testing.T) {
	rng := rand.New(rand.NewPCG(3, 4))
	bytes := noise(64 * kib)
	some := func(limit int) []byte {
		switch rng.IntN(8) {
		case 0:
			return nil
		case 1:
			return []byte{}
		}
		from := rng.IntN(1000)
		return bytes[from : from+rng.IntN(limit)]
	}
	r := newRig(t, withBatch(512*kib), withLinger(time.Hour))
	r.lead(orders, 1)
	for range 300 {
		var records []Record
		limit := []int{2, 50, 700, 5000}[rng.IntN(4)]
		for range 1 + rng.IntN(40) {
			rec := Record{Timestamp: t0.UnixMilli() + int64(rng.IntN(1000)) - 500, Key: some(limit), Value: some(limit)}
			for range rng.IntN(3) {
				rec.Headers = append(rec.Headers, protocol.Header{Key: string(some(limit/4 + 2)), Value: some(limit/4 + 2)})
			}
			records = append(records, rec)
		}
		b := r.batchOf(nil, records...)
		require.Equal(t, reference(unstamped, records...), joined(b))
		require.Equal(t, b.Size(), b.RawSize())
		r.a.Complete(b, 0, -1)
	}
	r.empty()
}

// DRB-04, S-26: the size that is computed before a record is written is the size that it has; the bound for a record
// alone in a batch is one, and no more than the framing above it.
func TestSizesAreExact(t *testing.T) {
	for _, key := range [][]byte{nil, {}, make([]byte, 63), make([]byte, 64), make([]byte, 8191), make([]byte, 8192)} {
		for _, value := range [][]byte{nil, {}, make([]byte, 1), make([]byte, 9000)} {
			for _, headers := range [][]protocol.Header{nil, {{Key: "k", Value: nil}}, {{Key: "", Value: []byte{}}, {Key: strings.Repeat("h", 100), Value: make([]byte, 70)}}} {
				r := newRig(t, withBatch(1))
				r.lead(orders, 1)
				rec := Record{Timestamp: 1, Key: key, Value: value, Headers: headers}
				r.record(orders, rec, nil)
				b := r.drainOne(1)
				size := protocol.BatchHeaderSize + protocol.RecordSize(protocol.RecordBodySize(0, 0, key, value, headers))
				assert.Equal(t, len(reference(unstamped, rec)), size)
				assert.Equal(t, size, b.Size())
				assert.Equal(t, size-protocol.BatchHeaderSize, b.MaxRecordSize())
				bound := protocol.MaxRecordSize(key, value, headers)
				assert.LessOrEqual(t, size, bound)
				assert.LessOrEqual(t, bound-size, protocol.MaxRecordOverhead+2*5*len(headers))
			}
		}
	}
}

// MRB-02: a batch that got no record is never seen by anybody, and its memory is not taken.
func TestNoEmptyBatch(t *testing.T) {
	r := newRig(t, withPool(16*kib))
	md := r.lead(orders, 1)
	topic := r.a.Topic(orders)
	for _, value := range [][]byte{make([]byte, 17*kib), noise(100 * kib)} {
		_, err := r.try(orders, Record{Timestamp: -1, Value: value}, nil, 0)
		require.Error(t, err)
	}
	assert.Zero(t, r.a.deque(topic, 0, md.Count()).len())
	assert.Empty(t, r.drain(1))
	assert.False(t, r.a.HasUndrained())
	r.empty()
}

// MRB-09, DRB-07: the checksum covers everything behind it: any bit that changes is found.
func TestChecksumCoversTheBatch(t *testing.T) {
	r := newRig(t)
	r.lead(orders, 1)
	raw := joined(r.batchOf(nil, Record{Timestamp: 1, Key: []byte("k"), Value: noise(3 * kib)}))
	require.NoError(t, protocol.VerifyCRC(raw))
	for _, at := range []int{17, 21, 30, 57, 61, 62, 1000, len(raw) - 1} {
		raw[at] ^= 0x10
		assert.Error(t, protocol.VerifyCRC(raw), fmt.Sprint("byte ", at))
		raw[at] ^= 0x10
	}
	raw[12] ^= 0xff // the leader's epoch is the broker's to write
	assert.NoError(t, protocol.VerifyCRC(raw))
}
