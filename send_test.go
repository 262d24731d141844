package producer_test

import (
	"context"
	"encoding/binary"
	"fmt"
	"math"
	"net"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/kafka-reservoir/producer"
	"github.com/kafka-reservoir/producer/internal/testbroker"
	"github.com/kafka-reservoir/producer/protocol"
)

// What becomes of a record between Send and the log.

// S-31: a record that goes into an open batch does not wake the sender; the first of a batch does, and a full batch does.
func TestWhatWakesTheSender(t *testing.T) {
	inLab(t, testbroker.Config{}, func(t *testing.T, l *lab) {
		c := l.config
		c.Linger, c.DeliveryTimeout, c.BatchSize = 30*time.Second, time.Hour, 50_000
		p, err := producer.New(c, producer.Null(), producer.Bytes())
		require.NoError(t, err)
		send := func(size int) {
			p.SendFunc(t.Context(), producer.Record[struct{}, []byte]{Topic: "t", Value: make([]byte, size)}, nil)
			synctest.Wait()
		}
		_, err = p.Send(t.Context(), producer.Record[struct{}, []byte]{Topic: "t"}).Wait(t.Context())
		require.NoError(t, err)
		synctest.Wait()
		iterations := func() int64 { return p.Metrics().Select.Total }

		before := iterations()
		send(10)
		opened := iterations()
		assert.Greater(t, opened, before)
		for range 500 {
			send(10)
		}
		assert.Equal(t, opened, iterations())
		assert.Len(t, requests(l.Cluster(), protocol.KeyProduce), 1)
		for range 5 {
			send(9_000)
		}
		assert.Greater(t, iterations(), opened)
		assert.Len(t, requests(l.Cluster(), protocol.KeyProduce), 2, "the full batch is on its way, no time has passed")
		end(t, p)
	})
}

// S-17: with MaxInFlight 1 a partition never has two batches under way, and order holds without idempotence through
// refusals and lost requests; with more, requests are pipelined.
func TestMaxInFlight(t *testing.T) {
	for _, maxInFlight := range []int{1, 5} {
		t.Run(fmt.Sprint(maxInFlight), func(t *testing.T) {
			inLab(t, testbroker.Config{Partitions: 2}, func(t *testing.T, l *lab) {
				p := l.texts(t, func(c *producer.Config) {
					c.MaxInFlight, c.DisableIdempotence, c.BatchSize, c.Linger = maxInFlight, true, 1, producer.NoLinger
				})
				warmUp(t, p, "t")
				n := 0
				l.Cluster().SetFault(func(r *testbroker.Request) testbroker.Verdict {
					if n++; maxInFlight > 1 || r.API != protocol.KeyProduce {
						return testbroker.Verdict{Hold: time.Millisecond}
					}
					switch n % 10 {
					case 3:
						return testbroker.Answer(protocol.NotEnoughReplicas)
					case 7:
						return testbroker.DropBefore()
					}
					return testbroker.Verdict{}
				})
				const records = 200
				for i := range records {
					r := text("t", fmt.Sprintf("%04d", i))
					r.Partition = producer.OnPartition(int32(i % 2))
					p.SendFunc(t.Context(), r, nil)
				}
				end(t, p)
				var all []string
				for i := range int32(2) {
					part := slices.DeleteFunc(values(l.Cluster(), "t", i), func(v string) bool { return v == "warm up" })
					assert.IsIncreasing(t, part)
					all = append(all, part...)
				}
				assert.Len(t, all, records)
				most := l.Cluster().Stats().MaxInFlight
				if maxInFlight == 1 {
					assert.Equal(t, 1, most)
				} else {
					assert.Greater(t, most, 1)
					assert.LessOrEqual(t, most, maxInFlight)
				}
			})
		})
	}
}

// S-103: a connection that was idle for ConnectionsMaxIdle is closed; the next Send connects again, and loses nothing.
func TestIdleConnectionsAreClosed(t *testing.T) {
	inLab(t, testbroker.Config{}, func(t *testing.T, l *lab) {
		p := l.texts(t, func(c *producer.Config) { c.ConnectionsMaxIdle, c.MetadataMaxAge = 10*time.Second, time.Hour })
		warmUp(t, p, "t")
		assert.Positive(t, p.Metrics().ConnectionCount)
		for range 3 {
			time.Sleep(11 * time.Second)
			assert.Zero(t, p.Metrics().ConnectionCount)
			opened := l.Cluster().Stats().Connections
			_, err := p.Send(t.Context(), text("t", "v")).Wait(t.Context())
			require.NoError(t, err)
			assert.Greater(t, l.Cluster().Stats().Connections, opened)
		}
		m := p.Metrics()
		assert.Zero(t, m.RecordRetry.Total)
		assert.Equal(t, m.ConnectionCreation.Total, m.ConnectionClose.Total+int64(m.ConnectionCount))
		end(t, p)
	})
}

// S-90, S-02: without acknowledgements a record is done once it was written: no offset, no error of the broker's, and none
// of a broker that was never asked for an answer.
func TestAcksNoneIsDoneWhenWritten(t *testing.T) {
	inLab(t, testbroker.Config{Fault: on(protocol.KeyProduce, testbroker.Answer(protocol.InvalidRecord))}, func(t *testing.T, l *lab) {
		p := l.texts(t, func(c *producer.Config) { c.Acks = producer.AcksNone })
		told := newLedger()
		for i := range 100 {
			p.SendFunc(t.Context(), text("t", "v"), told.callback(i))
		}
		began := time.Now()
		require.NoError(t, p.Flush(t.Context()))
		assert.Zero(t, time.Since(began))
		told.check(t, 100)
		assert.Empty(t, told.failures())
		for _, offset := range told.offset {
			assert.EqualValues(t, -1, offset)
		}
		assert.Zero(t, p.Metrics().RequestsInFlight)
		end(t, p)
	})
}

// SER-01, S-24: what the built-in serializers make of a value is what the log has.
func TestSerializersEndToEnd(t *testing.T) {
	inLab(t, testbroker.Config{}, func(t *testing.T, l *lab) {
		type order struct {
			ID   int    `json:"id"`
			Name string `json:"name,omitempty"`
		}
		at := int64(0)
		check := func(key, value []byte) {
			t.Helper()
			r := l.Cluster().RecordsFrom("t", 0, at)
			require.Len(t, r, 1)
			at++
			assert.Equal(t, key, r[0].Key)
			assert.Equal(t, value, r[0].Value)
		}
		id := [16]byte{0x12, 0x3e, 0x45, 0x67, 0xe8, 0x9b, 0x12, 0xd3, 0xa4, 0x56, 0x42, 0x66, 0x14, 0x17, 0x40, 0x00}
		sendOne(t, l, producer.Int32(), producer.Int64(), -2, math.MaxInt64)
		check([]byte{0xff, 0xff, 0xff, 0xfe}, binary.BigEndian.AppendUint64(nil, math.MaxInt64))
		sendOne(t, l, producer.Float64(), producer.UUID(), -0.5, id)
		check(binary.BigEndian.AppendUint64(nil, math.Float64bits(-0.5)), []byte("123e4567-e89b-12d3-a456-426614174000"))
		sendOne(t, l, producer.Null(), producer.JSON[order](), struct{}{}, order{ID: 7})
		check(nil, []byte(`{"id":7}`))
		sendOne(t, l, producer.String(), producer.Bytes(), "", nil)
		check([]byte{}, nil)
		sendOne(t, l, producer.Bytes(), producer.String(), nil, "ünï\x00")
		check(nil, []byte("ünï\x00"))
	})
}

func sendOne[K, V any](t *testing.T, l *lab, key producer.Serializer[K], value producer.Serializer[V], k K, v V) {
	t.Helper()
	p, err := producer.New(l.config, key, value)
	require.NoError(t, err)
	_, err = p.Send(t.Context(), producer.Record[K, V]{Topic: "t", Key: k, Value: v}).Wait(t.Context())
	require.NoError(t, err)
	end(t, p)
}

// S-03: producers of one program have nothing to do with each other: ids of their own, and order within each.
func TestTwoProducers(t *testing.T) {
	inLab(t, testbroker.Config{Partitions: 2}, func(t *testing.T, l *lab) {
		var wg sync.WaitGroup
		for n := range 2 {
			wg.Go(func() {
				p := l.texts(t, nil)
				told := newLedger()
				for i := range 300 {
					p.SendFunc(context.Background(), producer.Record[string, string]{Topic: "t", Key: fmt.Sprint(i % 7), Value: fmt.Sprintf("%d %05d", n, i)}, told.callback(i))
					if i%20 == n {
						time.Sleep(time.Millisecond)
					}
				}
				assert.NoError(t, p.Close(context.Background()))
				told.check(t, 300)
				assert.Empty(t, told.failures())
			})
		}
		wg.Wait()
		ids := map[string]bool{}
		for _, r := range requests(l.Cluster(), protocol.KeyProduce) {
			ids[r.ClientID] = true
		}
		assert.Len(t, ids, 2)
		total := 0
		for i := range int32(2) {
			own := map[byte][]string{}
			for _, v := range values(l.Cluster(), "t", i) {
				own[v[0]] = append(own[v[0]], v)
				total++
			}
			assert.IsIncreasing(t, own['0'])
			assert.IsIncreasing(t, own['1'])
		}
		assert.Equal(t, 600, total)
	})
}

// Config.Dial is given the names and ports that the cluster tells, and its errors are the story of a record that cannot be
// delivered.
func TestDialIsUsed(t *testing.T) {
	inLab(t, testbroker.Config{Nodes: 2, Partitions: 2}, func(t *testing.T, l *lab) {
		var mu sync.Mutex
		dialled := map[string]bool{}
		p := l.texts(t, func(c *producer.Config) {
			c.BootstrapServers = c.BootstrapServers[:1]
			c.Dial = func(ctx context.Context, network, addr string) (net.Conn, error) {
				mu.Lock()
				defer mu.Unlock()
				assert.Equal(t, "tcp", network)
				dialled[addr] = true
				if addr == l.Addr(2) {
					return nil, fmt.Errorf("no way to %s", addr)
				}
				return l.network.Dial(ctx, network, addr)
			}
			c.DeliveryTimeout, c.RequestTimeout = 10*time.Second, 5*time.Second
		})
		for part := range int32(2) {
			r := text("t", "v")
			r.Partition = producer.OnPartition(part)
			_, err := p.Send(t.Context(), r).Wait(t.Context())
			if part == 1 {
				assert.ErrorIs(t, err, producer.ErrDeliveryTimeout)
				assert.ErrorContains(t, err, "no way to broker-2:9092")
				assert.False(t, producer.MayHaveBeenWritten(err))
			} else {
				assert.NoError(t, err)
			}
		}
		mu.Lock()
		assert.True(t, dialled[l.Addr(2)])
		mu.Unlock()
		end(t, p)
	})
}
