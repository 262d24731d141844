package fieldcases

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/kafka-reservoir/producer"
	"github.com/kafka-reservoir/producer/internal/testbroker"
	"github.com/kafka-reservoir/producer/protocol"
)

// What of a record arrives: headers, nulls, times; and what becomes of those that a broker does not like.

// FC-047: times are cut to the millisecond once; the batch's first time is its first record's, its largest the true
// maximum; neither a retry nor a split changes any. A record without a time has that of its Send.
func TestFC047TimesAreCutOnce(t *testing.T) {
	for name, fault := range map[string]testbroker.Verdict{
		"plain": {}, "retried": testbroker.DropBefore(), "repeated": testbroker.DropAfter(), "split": testbroker.Answer(protocol.MessageTooLarge),
	} {
		t.Run(name, func(t *testing.T) {
			play(t, testbroker.Config{}, func(w *world) {
				p := w.producer(nil)
				w.warm(p, 0)
				w.Cluster().SetFault(testbroker.Script(protocol.KeyProduce, fault))
				time.Sleep(1500 * time.Microsecond)
				at := time.Now().Truncate(time.Millisecond)
				var all []*sent
				for i, d := range []time.Duration{900 * time.Microsecond, -5 * time.Second, 2000100 * time.Microsecond, 0} {
					r := to(0, "%d", i)
					r.Timestamp = at.Add(d)
					all = append(all, w.send(p, r))
				}
				time.Sleep(time.Millisecond)
				all = append(all, w.send(p, to(0, "none")))
				w.acked(all...)
				// The clock is read when a batch is opened and for every 16th record: here the last record's is 1 ms old.
				want := []int64{0, -5000, 2000, 0, 0}
				stored := w.Cluster().RecordsFrom(T, 0, 1)
				require.Len(t, stored, len(want))
				for i, ms := range want {
					assert.Equal(t, at.UnixMilli()+ms, stored[i].Timestamp, "record %d", i)
					m, _ := all[i].wait()
					assert.Equal(t, at.UnixMilli()+ms, m.Timestamp.UnixMilli(), "record %d", i)
				}
				for i, b := range w.batches(0)[1:] {
					if b.Count == 5 {
						assert.Equal(t, at.UnixMilli(), b.BaseTimestamp, "batch %d", i)
						assert.Equal(t, at.UnixMilli()+2000, b.MaxTimestamp, "batch %d", i)
						assert.Equal(t, w.batches(0)[1].CRC, b.CRC, "batch %d", i)
					}
				}
				assert.Equal(t, name == "split", len(w.batches(0)) > 3)
			})
		})
	}
}

// FC-048: null and empty are different everywhere, and arrive as what they were; headers keep their order and their
// repetitions, however many.
func TestFC048NullIsNotEmpty(t *testing.T) {
	var many []producer.Header
	for i := range 300 {
		many = append(many, producer.Header{Key: fmt.Sprint(i), Value: fmt.Append(nil, i)})
	}
	header := func(keys ...string) (all []producer.Header) {
		for i, k := range keys {
			all = append(all, producer.Header{Key: k, Value: fmt.Append(nil, i)})
		}
		return all
	}
	var records []record
	var topics []testbroker.Topic
	for _, key := range [][]byte{nil, {}, []byte("x")} {
		for _, value := range [][]byte{nil, {}, []byte("x")} {
			for _, headers := range [][]producer.Header{nil, {}, {{Key: "null"}}, {{Key: "empty", Value: []byte{}}}, header("a", "b", "a"), many} {
				name := fmt.Sprint("cell-", len(topics)) // values are not unique within a topic
				topics = append(topics, testbroker.Topic{Name: name, Partitions: 1})
				records = append(records, record{Topic: name, Key: key, Value: value, Headers: headers})
			}
		}
	}
	for _, codec := range []producer.Compression{producer.None, producer.Zstd} {
		play(t, testbroker.Config{Topics: topics}, func(w *world) {
			p := w.producer(func(c *producer.Config) { c.Compression = codec })
			for _, r := range records {
				w.acked(w.send(p, r))
				stored := w.Cluster().Records(r.Topic, 0)
				require.Len(t, stored, 1)
				assert.Empty(t, differs(r, stored[0])) // as the check of all cases does, for each record by name
				m, _ := w.book[len(w.book)-1].wait()
				for size, b := range map[int][]byte{m.KeySize: r.Key, m.ValueSize: r.Value} {
					assert.True(t, size == len(b) || size == -1 && b == nil, "%d of %v", size, b)
				}
			}
		})
	}
}

// FC-049: a header without a key has the empty string for one, never null; any bytes make a key.
func TestFC049HeaderWithoutKey(t *testing.T) {
	play(t, testbroker.Config{}, func(w *world) {
		p := w.producer(nil)
		room := make([]producer.Header, 1, 4) // pre-allocated, and one left as it was
		for i, headers := range [][]producer.Header{
			append(room, producer.Header{Key: "k", Value: []byte("v")}), {{}}, {{Key: "\xff\xfe\x80", Value: []byte("v")}},
		} {
			r := to(0, "%d", i)
			r.Headers = headers
			w.acked(w.send(p, r))
			stored := w.Cluster().RecordsFrom(T, 0, int64(i))[0]
			assert.Equal(t, headers, stored.Headers) // the broker finds fault with a negative length
		}
		assert.Len(t, w.requests(protocol.KeyProduce), 3)
	})
}

// FC-050: no time, and the zero one, mean now; 1970 itself is a time; what is before is refused. The result has the record's
// time, or the broker's where it tells one. The caller's record stays as it was.
func TestFC050TimesAtTheEdge(t *testing.T) {
	for _, appendTime := range []int64{-1, 1234567} {
		play(t, testbroker.Config{TimestampAfterMax: -1}, func(w *world) {
			w.Cluster().SetFault(func(r *testbroker.Request) testbroker.Verdict {
				return testbroker.Verdict{Edit: func(m protocol.Message) {
					if m, ok := m.(*protocol.ProduceResponse); ok {
						m.Topics[0].Partitions[0].LogAppendTimeMs = appendTime
					}
				}}
			})
			p := w.producer(nil)
			w.warm(p, 0)
			for name, tt := range map[string]struct {
				time    time.Time
				want    int64 // milliseconds; -1: now
				refused bool
			}{
				"unset":     {want: -1},
				"1970":      {time: time.Unix(0, 0), want: 0},
				"9999":      {time: time.Date(9999, 12, 31, 23, 59, 59, 0, time.UTC), want: 253402300799000},
				"-1 ms":     {time: time.Unix(0, -1e6), refused: true},
				"1969":      {time: time.Date(1969, 7, 20, 20, 17, 0, 0, time.UTC), refused: true},
				"year zero": {time: time.Time{}.Add(1), refused: true},
			} {
				requests := len(w.requests(protocol.KeyProduce))
				if tt.want < 0 {
					tt.want = time.Now().UnixMilli()
				}
				r := to(0, "%s", name)
				r.Timestamp = tt.time
				s := w.send(p, r)
				assert.Equal(t, tt.time, r.Timestamp)
				m, err := s.wait()
				if tt.refused {
					assert.ErrorIs(t, err, producer.InvalidTimestamp, name)
					assert.ErrorContains(t, err, "before 1970", name)
					assert.False(t, producer.IsRetriable(err), name)
					assert.Len(t, w.requests(protocol.KeyProduce), requests, name)
					continue
				}
				require.NoError(t, err, name)
				batches := w.batches(0)
				assert.Equal(t, tt.want, batches[len(batches)-1].BaseTimestamp, name)
				if appendTime >= 0 {
					tt.want = appendTime
				}
				assert.Equal(t, tt.want, m.Timestamp.UnixMilli(), name)
			}
		})
	}
}

// FC-051: what a broker finds wrong with a record is not tried again. The record that it named gets its words, the
// others are told that it was not them, before anything sent later is; what comes next takes their place.
func TestFC051RefusedRecords(t *testing.T) {
	for _, code := range []protocol.ErrorCode{protocol.InvalidRecord, protocol.InvalidTimestamp} {
		play(t, testbroker.Config{}, func(w *world) {
			text, whole := "no key", "x"
			p := w.producer(nil)
			w.warm(p, 0)
			w.Cluster().SetFault(testbroker.Script(protocol.KeyProduce, testbroker.Verdict{Hold: 5 * time.Millisecond, Code: code, Edit: func(m protocol.Message) {
				at := &m.(*protocol.ProduceResponse).Topics[0].Partitions[0]
				at.Details = &protocol.ProduceDetails{
					ErrorMessage: &whole,
					RecordErrors: []protocol.BatchIndexAndErrorMessage{{BatchIndex: 1, BatchIndexErrorMessage: &text}},
				}
			}}))
			var all []*sent
			told := 0
			for i := range 5 {
				all = append(all, w.sendFrom("", context.Background(), p, to(0, "%d", i), func(producer.RecordMetadata, error) { told++ }))
			}
			time.Sleep(6 * time.Millisecond) // longer than the linger: the batch is on its way
			good := w.sendFrom("", context.Background(), p, to(0, "good"), func(producer.RecordMetadata, error) { assert.Equal(t, 5, told) })
			w.acked(good)
			for i, s := range all {
				_, err := s.wait()
				if i == 1 {
					assert.ErrorIs(t, err, code)
					assert.ErrorContains(t, err, "no key")
					assert.NotErrorIs(t, err, producer.ErrBatchRefused)
					assert.False(t, producer.IsRetriable(err))
				} else {
					assert.ErrorIs(t, err, producer.ErrBatchRefused)
					assert.NotErrorIs(t, err, code)
					assert.True(t, producer.IsRetriable(err), "alone, or in better company, it would be written")
				}
				assert.False(t, producer.MayHaveBeenWritten(err))
			}
			batches := w.batches(0)
			require.Len(t, batches, 3, "warm-up, one attempt, the good one")
			if batches[2].ProducerEpoch == batches[1].ProducerEpoch {
				assert.Equal(t, batches[1].BaseSequence, batches[2].BaseSequence)
			} else {
				assert.Zero(t, batches[2].BaseSequence)
			}
		})
	}
}
