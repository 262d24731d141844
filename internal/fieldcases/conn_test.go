package fieldcases

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"slices"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/kafka-reservoir/producer"
	"github.com/kafka-reservoir/producer/internal/simnet"
	"github.com/kafka-reservoir/producer/internal/testbroker"
	"github.com/kafka-reservoir/producer/protocol"
)

// Connections that are closed, lost, moved or never made.

// FC-092: a broker that closes idle connections costs nothing but a new connection: no error, no wait, no warning.
func TestFC092BrokerClosesIdleConnections(t *testing.T) {
	for name, how := range map[string]testbroker.Drop{"FIN": testbroker.DropFIN, "RST": testbroker.DropRST} {
		for _, acks := range []producer.Acks{producer.AcksAll, producer.AcksLeader} {
			// After 200 ms of peace; and a millisecond before the batch is sent, which lingers for 5 ms.
			for _, at := range []time.Duration{200 * time.Millisecond, 304 * time.Millisecond} {
				t.Run(fmt.Sprint(name, " acks ", acks, " at ", at), func(t *testing.T) {
					play(t, testbroker.Config{}, func(w *world) {
						p := w.producer(func(c *producer.Config) { c.Acks = acks })
						var all []*sent
						for i := range 30 {
							began := time.Now()
							all = append(all, w.send(p, to(0, "%d", i)))
							if i > 0 && at > 300*time.Millisecond {
								time.Sleep(at - 300*time.Millisecond)
								w.CloseConns(0, how)
							}
							w.acked(all[i])
							assert.Less(t, time.Since(began), 100*time.Millisecond)
							if at < 300*time.Millisecond {
								time.Sleep(at)
								w.CloseConns(0, how)
							}
							time.Sleep(300*time.Millisecond - time.Since(began))
						}
						assert.Len(t, w.values(0), 30)
						assert.GreaterOrEqual(t, len(w.dialled(w.Addr(1))), 30)
						assert.Empty(t, w.logged(slog.LevelWarn, ""))
					})
				})
			}
		}
	}
}

// FC-093: something on the way drops idle flows and tells nobody. Connections that we close first are not concerned; else the
// loss costs one request timeout, and the record survives.
func TestFC093IdleFlowsAreDroppedSilently(t *testing.T) {
	for _, tt := range []struct {
		name  string
		idle  time.Duration
		bound time.Duration
	}{
		{"ours is shorter", 300 * time.Millisecond, 100 * time.Millisecond},
		{"ours is longer", 10 * time.Second, time.Second},
	} {
		t.Run(tt.name, func(t *testing.T) {
			play(t, testbroker.Config{}, func(w *world) {
				p := w.producer(func(c *producer.Config) { c.ConnectionsMaxIdle, c.RequestTimeout = tt.idle, 400*time.Millisecond })
				w.warm(p, 0)
				used := time.Now()
				time.Sleep(500 * time.Millisecond)
				for _, c := range w.network.Conns(w.Addr(1)) {
					c.Stall(true)
				}
				time.Sleep(500 * time.Millisecond)
				began := time.Now()
				w.acked(w.send(p, to(0, "after")))
				took := time.Since(began)
				assert.Less(t, took, tt.bound)
				if tt.idle < time.Second {
					gone := slices.IndexFunc(w.Cluster().Journal(0), func(e testbroker.Entry) bool { return e.Kind == testbroker.EntryDisconnect })
					require.GreaterOrEqual(t, gone, 0)
					var last time.Time
					for _, e := range w.Cluster().Journal(0) {
						if e.Kind == testbroker.EntryDisconnect && e.At.Before(began) {
							last = e.At
						}
					}
					assert.Equal(t, used.Add(tt.idle), last, "closed by us, to the instant")
				} else {
					assert.GreaterOrEqual(t, took, 400*time.Millisecond, "the case is about a lost flow")
				}
				assert.Len(t, w.values(0), 2)
			})
		})
	}
}

// FC-095: a node is its id. With another address in the metadata the old connection is closed, what was in flight goes to the
// new address, and the old one is left alone, be it dead or another broker's by now; a node that is gone is not dialled.
func TestFC095NodeMoves(t *testing.T) {
	for _, reused := range []bool{false, true} {
		t.Run(fmt.Sprint("old address reused: ", reused), func(t *testing.T) {
			play(t, testbroker.Config{Nodes: 3, Partitions: 3}, func(w *world) {
				p := w.producer(func(c *producer.Config) { c.BatchSize, c.MetadataMaxAge = 1, 200*time.Millisecond })
				w.warm(p, 0, 1, 2)
				old := w.Addr(1)
				w.Cluster().SetFault(func(r *testbroker.Request) testbroker.Verdict {
					if r.API == protocol.KeyProduce && r.Node == 1 {
						return testbroker.Hold(450 * time.Millisecond) // done, but the answer comes too late
					}
					return testbroker.Verdict{}
				})
				var all []*sent
				for i := range 3 {
					all = append(all, w.send(p, to(0, "%d", i)))
				}
				time.Sleep(10 * time.Millisecond)
				synctest.Wait()
				assert.Len(t, w.batches(0), 4, "three in flight")
				require.NoError(t, w.Refuse(1))
				moved, err := w.network.Listen("moved:9092")
				require.NoError(t, err)
				require.NoError(t, w.StartNodeAt(1, moved))
				if reused {
					require.NoError(t, w.Refuse(2))
					other, err := w.network.Listen(old)
					require.NoError(t, err)
					require.NoError(t, w.StartNodeAt(2, other))
				}
				w.Cluster().SetFault(nil)
				time.Sleep(250 * time.Millisecond) // metadata is due meanwhile
				since := len(w.dialled(old))
				for i := range 12 {
					all = append(all, w.send(p, to(int32(i%3), "later %d", i)))
				}
				w.acked(all...)
				assert.Len(t, w.values(0), 8)
				assert.NotEmpty(t, w.dialled("moved:9092"))
				if !reused {
					assert.Equal(t, since, len(w.dialled(old)))
				}
				for _, r := range w.requests(protocol.KeyProduce) {
					for _, b := range r.Batches {
						leader, _ := w.Cluster().Leader(b.Topic, b.Partition)
						assert.Equal(t, leader, r.Node, "%v", r)
					}
				}

				require.NoError(t, w.StopNode(3))
				time.Sleep(250 * time.Millisecond)
				since = len(w.dialled(w.Addr(3)))
				for i := range 30 {
					w.acked(w.send(p, to(int32(i%3), "without %d", i)))
					time.Sleep(50 * time.Millisecond)
				}
				assert.Equal(t, since, len(w.dialled(w.Addr(3))))
			})
		})
	}
}

// FC-096: all brokers are replaced, under the same bootstrap name. The producer finds them without a restart. It does not write
// to another cluster, unless DisableClusterCheck says so: it tells which one it found, once, and by the error of each record.
func TestFC096ClusterIsReplaced(t *testing.T) {
	for _, tt := range []struct {
		name, id string
		anyway   bool
	}{
		{"same cluster", "", false},
		{"another cluster", "another", false},
		{"another cluster, no check", "another", true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			play(t, testbroker.Config{Nodes: 3, Partitions: 3}, func(w *world) { clusterIsReplaced(w, tt.id, tt.anyway) })
		})
	}
}

func clusterIsReplaced(w *world, id string, anyway bool) {
	t := w.t
	w.mayLose = true // what the first brokers have is not on the second ones
	first := w.Server
	var boot atomic.Value
	boot.Store(first.Addr(1))
	p := w.producer(func(c *producer.Config) {
		c.DeliveryTimeout, c.DisableClusterCheck = 10*time.Second, anyway
		c.RetryBackoffMax = 200 * time.Millisecond // each question to the wrong cluster takes some iterations of the sender
		c.BootstrapServers = []string{"boot:9092"}
		c.Dial = func(ctx context.Context, network, address string) (net.Conn, error) {
			if address == "boot:9092" {
				address = boot.Load().(string)
			}
			return w.dial(ctx, network, address)
		}
	})
	w.warm(p, 0, 1, 2)
	var all []*sent
	sendFor := func(d time.Duration) {
		for end := time.Now().Add(d); time.Now().Before(end); time.Sleep(20 * time.Millisecond) {
			all = append(all, w.send(p, to(int32(len(all)%3), "%d", len(all))))
		}
	}
	sendFor(500 * time.Millisecond)
	w.acked(all...)
	before := len(all)
	for node := range int32(3) {
		require.NoError(t, first.StopNode(node+1))
	}
	sendFor(time.Second)
	second, err := testbroker.Start(testbroker.Config{
		Nodes: 3, ClusterID: id, FirstProducerID: 2000, Topics: []testbroker.Topic{{Name: T, Partitions: 3}},
		Listen: func(node int32) (net.Listener, error) { return w.network.Listen(fmt.Sprintf("new-%d:9092", node)) },
	})
	require.NoError(t, err)
	t.Cleanup(func() { assert.NoError(t, second.Close()) })
	boot.Store(second.Addr(1))
	began := time.Now()
	next := w.send(p, to(0, "the first for the second cluster"))
	all = append(all, next)
	_, err = next.wait()
	if id != "" && !anyway {
		require.ErrorIs(t, err, producer.ErrDeliveryTimeout)
		assert.ErrorContains(t, err, `the broker belongs to cluster "another"`)
		assert.False(t, producer.MayHaveBeenWritten(err))
		assert.Empty(t, second.Cluster().Records(T, 0))
		assert.Len(t, w.logged(slog.LevelError, "wrong cluster"), 1)
		assert.Less(t, len(w.dialled("new-1:9092")), 200, "20 a second at most")
	} else {
		assert.NoError(t, err)
		assert.Less(t, time.Since(began), 100*time.Millisecond+300*time.Millisecond+time.Second)
		sendFor(2 * time.Second)
		w.acked(all...)
		stored := 0
		for partition := range int32(3) {
			stored += len(second.Cluster().Records(T, partition))
		}
		assert.Equal(t, len(all)-before, stored, "all since the end of the first brokers")
		if id != "" {
			assert.NotEmpty(t, w.logged(slog.LevelInfo, "cluster_id=another"))
		}
	}
	assert.LessOrEqual(t, p.Metrics().ConnectionCount, 4)
	w.Server = second
	first.Cluster().Check(t)
}

// FC-098: an IPv6 address that the cluster advertises is dialled with brackets. (What may stand in the configuration is
// TestFC098Addresses of the root package.)
func TestFC098AdvertisedIPv6(t *testing.T) {
	network := simnet.New(simnet.Link{})
	play(t, testbroker.Config{Listen: func(int32) (net.Listener, error) { return network.Listen("[::1]:9092") }}, func(w *world) {
		w.network = network
		p := w.producer(func(c *producer.Config) { c.BootstrapServers = []string{"[::1]:9092"} })
		w.warm(p, 0)
		assert.Len(t, w.dialled("[::1]:9092"), 2, "as bootstrap server and as node 1")
	})
}

// FC-099: one bootstrap name that resolves is enough; a warning names the other. (New fails when none does: see
// TestFC099OneNameIsEnough of the root package.)
func TestFC099OneBootstrapNameIsUnknown(t *testing.T) {
	play(t, testbroker.Config{}, func(w *world) {
		const bad = "bad.invalid:9092"
		for i := range 10 { // which server is asked first is left to chance
			p := w.producer(func(c *producer.Config) { c.BootstrapServers = []string{bad, w.Addr(1)} })
			began := time.Now()
			w.acked(w.send(p, to(0, "%d", i)))
			assert.Less(t, time.Since(began), 100*time.Millisecond)
		}
		assert.Len(t, w.logged(slog.LevelWarn, bad), len(w.dialled(bad)))
	})
}

// FC-100: the cluster advertises an address that cannot be reached from here. Other partitions work; the records of that node
// end with an error that says which node, which address, who named it, and what is wrong; it is well once the address is.
func TestFC100AdvertisedAddressIsUnreachable(t *testing.T) {
	for name, host := range map[string]string{"unknown": "nope.invalid", "black hole": "10.9.9.9"} {
		t.Run(name, func(t *testing.T) {
			play(t, testbroker.Config{Nodes: 2, Partitions: 2}, func(w *world) {
				bad := host + ":9092"
				w.network.BlackHole("10.9.9.9:9092", true)
				require.NoError(t, w.Cluster().SetAddr(2, host, 9092))
				p := w.producer(func(c *producer.Config) {
					c.BootstrapServers = c.BootstrapServers[:1]
					c.RetryBackoff, c.RetryBackoffMax = 100*time.Millisecond, time.Second
					c.ReconnectBackoff, c.ReconnectBackoffMax = 50*time.Millisecond, time.Second
					c.ConnectionSetupTimeoutMax = 900 * time.Millisecond // three times the first, as by default
				})
				w.warm(p, 0)
				var lost []*sent
				for i := range 250 { // five seconds
					began := time.Now()
					s := w.send(p, to(0, "%d", i))
					if i%50 == 0 && i < 100 {
						lost = append(lost, w.send(p, to(1, "lost %d", i)))
					}
					w.acked(s)
					assert.Less(t, time.Since(began), 20*time.Millisecond)
					time.Sleep(20*time.Millisecond - time.Since(began))
				}
				assert.LessOrEqual(t, len(w.dialled(bad)), 12)
				for _, s := range lost {
					_, err := s.wait()
					require.ErrorIs(t, err, producer.ErrDeliveryTimeout)
					for _, part := range []string{"node 2", bad, "metadata"} {
						assert.ErrorContains(t, err, part)
					}
					assert.False(t, producer.MayHaveBeenWritten(err))
					if host == "nope.invalid" {
						var dns *net.DNSError
						assert.ErrorAs(t, err, &dns)
					} else {
						var timeout net.Error
						assert.ErrorIs(t, err, context.DeadlineExceeded)
						assert.True(t, errors.As(err, &timeout) && timeout.Timeout())
					}
				}
				assert.Len(t, w.logged(slog.LevelWarn, "cannot connect"), 1, "once, not for every attempt")

				require.NoError(t, w.Cluster().SetAddr(2, "broker-2", 9092))
				began := time.Now()
				w.acked(w.send(p, to(1, "well again")))
				assert.Less(t, time.Since(began), 2500*time.Millisecond)
			})
		})
	}
}
