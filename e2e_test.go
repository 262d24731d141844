package producer_test

import (
	"encoding/binary"
	"fmt"
	"hash/fnv"
	"reflect"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/kafka-reservoir/producer"
	"github.com/kafka-reservoir/producer/internal/testbroker"
)

// The whole client over TCP. What depends on time is tested in bubbles; here it is about amounts, and about the schedules
// that only real sockets bring about.

func startBroker(t testing.TB, cfg testbroker.Config) *testbroker.Server {
	t.Helper()
	s, err := testbroker.Start(cfg)
	require.NoError(t, err)
	t.Cleanup(func() { s.Close() })
	return s
}

// patient has a producer wait for as long as a machine takes that is however busy: a call that hangs is go test's to find.
func patient(c producer.Config) producer.Config {
	c.MaxBlock, c.DeliveryTimeout = 24*time.Hour, 24*time.Hour
	return c
}

// sample is record i of a set in which keys, values, headers and times are of all kinds.
func sample(i int) producer.Record[[]byte, []byte] {
	h := fnv.New64a()
	_ = binary.Write(h, binary.BigEndian, int64(i))
	x := h.Sum64()
	r := producer.Record[[]byte, []byte]{Topic: "orders"}
	switch x % 5 {
	case 0: // null key: sticky
	case 1:
		r.Key = []byte{}
	default:
		r.Key = fmt.Appendf(nil, "key-%d", x%97)
	}
	switch x / 5 % 7 {
	case 0: // null value: a tombstone
	case 1:
		r.Value = []byte{}
	case 2:
		r.Value = []byte(strings.Repeat("long and easy to compress ", int(x/100%40)))
	default:
		r.Value = binary.BigEndian.AppendUint64(fmt.Appendf(nil, "value %d ", i), x) // not easy
	}
	// The last header numbers the record.
	for n := range x / 7 % 4 {
		r.Headers = append(r.Headers, []producer.Header{{Key: "null"}, {Key: "", Value: []byte("no key")}, {Key: "twice", Value: []byte{}}, {Key: "twice", Value: []byte("2")}}[n])
	}
	r.Headers = append(r.Headers, producer.Header{Key: "n", Value: fmt.Append(nil, i)})
	if x/11%3 == 0 {
		r.Timestamp = time.UnixMilli(int64(x % 1_700_000_000_000)) // any order, years apart, none in the future
	}
	return r
}

// Every record of 10,000 and more arrives once, byte for byte, where its result says, and in order within its partition,
// with every codec.
func TestSendAndReadBack(t *testing.T) {
	for _, codec := range []producer.Compression{producer.None, producer.Gzip, producer.Snappy, producer.LZ4, producer.Zstd} {
		t.Run(codec.String(), func(t *testing.T) {
			s := startBroker(t, testbroker.Config{Nodes: 3, Topics: []testbroker.Topic{{Name: "orders", Partitions: 6}}})
			p, err := producer.New(patient(producer.Config{BootstrapServers: s.Addrs(), Compression: codec}), producer.Bytes(), producer.Bytes())
			require.NoError(t, err)
			ctx := t.Context()
			const n = 10_000
			want := make([]producer.Record[[]byte, []byte], n)
			results := make([]producer.RecordMetadata, n)
			var told atomic.Int64
			for i := range n {
				want[i] = sample(i)
				p.SendFunc(ctx, want[i], func(m producer.RecordMetadata, err error) {
					if err != nil {
						t.Error(err)
					}
					results[i] = m
					told.Add(1)
				})
			}
			require.NoError(t, p.Flush(ctx))
			require.EqualValues(t, n, told.Load())
			require.NoError(t, p.Close(ctx))
			s.Cluster().Check(t)

			count := 0
			for partition, records := range s.Cluster().AllRecords("orders") {
				last := -1
				for offset, r := range records {
					count++
					i, err := strconv.Atoi(string(r.Headers[len(r.Headers)-1].Value))
					require.NoError(t, err)
					require.Greater(t, i, last, "offset %d of partition %d", offset, partition)
					last = i
					m := results[i]
					require.Equal(t, fmt.Sprintf("orders-%d@%d", partition, offset), m.String())
					require.Equal(t, r.Timestamp, m.Timestamp.UnixMilli())
					got := producer.Record[[]byte, []byte]{Topic: "orders", Key: r.Key, Value: r.Value, Headers: r.Headers}
					if !want[i].Timestamp.IsZero() {
						got.Timestamp = time.UnixMilli(r.Timestamp)
					}
					if !reflect.DeepEqual(want[i], got) {
						require.Equal(t, want[i], got, "record %d", i)
					}
				}
			}
			assert.Equal(t, n, count)
		})
	}
}

// Many goroutines send, wait, flush, while connections break, leaders move and nodes restart: nothing is lost, doubled or
// reordered.
func TestManyGoroutines(t *testing.T) {
	s := startBroker(t, testbroker.Config{Nodes: 3, Topics: []testbroker.Topic{{Name: "a", Partitions: 4}, {Name: "b", Partitions: 3}}})
	p, err := producer.New(patient(producer.Config{
		BootstrapServers: s.Addrs(), Compression: producer.LZ4, BatchSize: 8 << 10, BufferMemory: 1 << 20,
		RetryBackoff: 5 * time.Millisecond, ReconnectBackoff: 5 * time.Millisecond, ReconnectBackoffMax: 20 * time.Millisecond,
	}), producer.Int64(), producer.String())
	require.NoError(t, err)
	ctx := t.Context()
	const senders, each = 12, 1000
	const callbacks = senders * each * 99 / 100 // the others are waited for
	value := strings.Repeat("some words that are the same each time ", 3)
	var told atomic.Int64
	var wg sync.WaitGroup
	for g := range senders {
		wg.Go(func() {
			last := -1 // of the callbacks of this goroutine's records, which share a key and so a partition
			for i := range each {
				r := producer.Record[int64, string]{Topic: string("ab"[g%2]), Key: int64(g), Value: fmt.Sprintf("%02d %06d %s", g, i, value)}
				if i%100 == 99 {
					_, err := p.Send(ctx, r).Wait(ctx)
					assert.NoError(t, err)
				} else {
					p.SendFunc(ctx, r, func(_ producer.RecordMetadata, err error) {
						if err != nil || i <= last {
							t.Errorf("record %d of %d, after %d: %v", i, g, last, err)
						}
						last = i
						told.Add(1)
					})
				}
				if i%300 == 299 {
					assert.NoError(t, p.Flush(ctx))
				}
			}
		})
	}
	// progress sends until so many callbacks have run, or all: the senders may be through.
	progress := func(to int64) {
		for told.Load() < min(to, callbacks) {
			_, _ = p.PartitionsFor(ctx, "a")
			_, err := p.Send(ctx, producer.Record[int64, string]{Topic: "b", Key: 1000, Value: "progress"}).Wait(ctx)
			require.NoError(t, err)
		}
	}
	for i := range int32(6) {
		progress(int64(i) * senders * each / 8)
		switch i % 3 {
		case 0:
			s.CloseConns(0, testbroker.DropRST)
		case 1:
			require.NoError(t, s.MoveLeader("a", i%4, 1+(i+1)%3))
			require.NoError(t, s.MoveLeader("b", i%3, 1+(i+2)%3))
		case 2:
			require.NoError(t, s.StopNode(1+i%3))
			progress(told.Load() + 100)
			require.NoError(t, s.StartNode(1+i%3))
		}
	}
	wg.Wait()
	require.NoError(t, p.Close(ctx))
	m := p.Metrics()
	assert.Equal(t, m.BufferTotalBytes, m.BufferAvailableBytes)
	assert.EqualValues(t, callbacks, told.Load())
	s.Cluster().Check(t)

	count := 0
	for _, topic := range []string{"a", "b"} {
		for i := range s.Cluster().AllRecords(topic) {
			last := map[string]string{}
			for _, v := range values(s.Cluster(), topic, int32(i)) {
				if v == "progress" {
					continue
				}
				count++
				g := v[:2]
				if v <= last[g] {
					t.Errorf("%s-%d: %.9q after %.9q", topic, i, v, last[g])
				}
				last[g] = v
			}
		}
	}
	assert.Equal(t, senders*each, count)
}
