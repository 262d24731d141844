package producer_test

import (
	"context"
	"fmt"
	"net"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/kafka-reservoir/producer"
	"github.com/kafka-reservoir/producer/internal/testbroker"
	"github.com/kafka-reservoir/producer/protocol"
)

// How a record gets to the log: acknowledgements, pipelines, connections that come and go.

// FC-132, S-13, KP-02: the zero Config is safe on the wire; what is asked for explicitly is what the broker sees, and a
// producer that is not idempotent never asks for a producer id.
func TestAcksOnTheWire(t *testing.T) {
	for _, tt := range []struct {
		name       string
		set        func(*producer.Config)
		acks       int16
		idempotent bool
	}{
		{"zero Config", func(*producer.Config) {}, -1, true},
		{"all, not idempotent", func(c *producer.Config) { c.DisableIdempotence = true }, -1, false},
		{"leader", func(c *producer.Config) { c.Acks = producer.AcksLeader }, 1, false},
		{"none", func(c *producer.Config) { c.Acks = producer.AcksNone }, 0, false},
		{"no retries", func(c *producer.Config) { c.Retries = producer.NoRetries }, -1, false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			inLab(t, testbroker.Config{}, func(t *testing.T, l *lab) {
				c := producer.Config{BootstrapServers: l.Addrs(), Dial: l.network.Dial}
				tt.set(&c)
				p, err := producer.New(c, producer.String(), producer.String())
				require.NoError(t, err)
				m, err := p.Send(t.Context(), producer.Record[string, string]{Topic: "t", Key: "k", Value: "v"}).Wait(t.Context())
				require.NoError(t, err)
				end(t, p)
				assert.Equal(t, tt.acks != 0, m.HasOffset(), "an offset only comes with an answer")
				for _, r := range requests(l.Cluster(), protocol.KeyProduce) {
					assert.Equal(t, tt.acks, r.Acks)
					for _, b := range r.Batches {
						assert.Equal(t, tt.idempotent, b.ProducerID >= 0)
					}
				}
				assert.Equal(t, tt.idempotent, len(requests(l.Cluster(), protocol.KeyInitProducerID)) > 0)
			})
		})
	}
}

// S-08, S-101, FC-131: a broker that never answers costs a connection every RequestTimeout, and the record ends with
// the delivery timeout, not before and not after; it may have been written.
func TestSilentBrokerEndsByDeliveryTimeout(t *testing.T) {
	inLab(t, testbroker.Config{}, func(t *testing.T, l *lab) {
		p := l.texts(t, nil)
		warmUp(t, p, "t")
		l.Cluster().SetFault(on(protocol.KeyProduce, testbroker.MuteBefore()))
		before := len(requests(l.Cluster(), protocol.KeyProduce))
		began := time.Now()
		_, err := p.Send(t.Context(), text("t", "v")).Wait(t.Context())
		assert.ErrorIs(t, err, producer.ErrDeliveryTimeout)
		assert.Equal(t, 2*time.Minute, time.Since(began))
		assert.True(t, producer.MayHaveBeenWritten(err))
		attempts := len(requests(l.Cluster(), protocol.KeyProduce)) - before
		assert.GreaterOrEqual(t, attempts, 3, "one every 30 s")
		assert.LessOrEqual(t, attempts, 4)
		var story *producer.DeliveryError
		require.ErrorAs(t, err, &story)
		assert.Equal(t, attempts, story.Attempts)
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
