package fieldcases

import (
	"fmt"
	"math/rand/v2"
	"runtime"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/kafka-reservoir/producer"
	"github.com/kafka-reservoir/producer/internal/testbroker"
	"github.com/kafka-reservoir/producer/protocol"
)

// Versions, answers that make no sense, and brokers that are not Kafka's.

// versionsAsked are the ApiVersions requests of each connection to a node, in order.
func (w *world) versionsAsked(node int32) [][]int16 {
	var all [][]int16
	at := map[testbroker.ConnID]int{}
	for _, r := range w.requests(protocol.KeyAPIVersions) {
		if r.Node != node {
			continue
		}
		if _, ok := at[r.Conn]; !ok {
			at[r.Conn] = len(all)
			all = append(all, nil)
		}
		all[at[r.Conn]] = append(all[at[r.Conn]], r.Version)
	}
	return all
}

// FC-125: a broker that does not know the newest ApiVersions is asked again in the version that it names, or the lowest, on the
// same connection: one round trip more, on each connection once. (One that hangs up after its answer:
// TestFC125BrokerHangsUpAfterItsAnswer of netclient.)
func TestFC125OlderThanTheQuestion(t *testing.T) {
	for _, tt := range []struct {
		name       string
		generation *testbroker.Generation
		asked      []int16
	}{
		{"says nothing of itself", testbroker.Kafka39.With(protocol.KeyAPIVersions, 0, 3), []int16{5, 3}},
		{"lists 0 to 2", testbroker.Kafka28.With(protocol.KeyAPIVersions, 0, 2), []int16{5, 2}},
		{"lists nothing, as before 2.4", testbroker.Kafka21, []int16{5, 0}},
		{"of 1.1", testbroker.Kafka11, []int16{5, 0}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			play(t, testbroker.Config{Generation: tt.generation}, func(w *world) {
				_, highest := protocol.KeyAPIVersions.Versions()
				tt.asked[0] = highest
				p := w.producer(nil)
				for i := range 20 {
					w.acked(w.send(p, to(0, "%d", i)))
				}
				asked := w.versionsAsked(1)
				require.Len(t, asked, 2, "to the bootstrap server and to the broker")
				for _, versions := range asked {
					assert.Equal(t, tt.asked, versions)
				}
				w.CloseConns(1, testbroker.DropFIN)
				w.acked(w.send(p, to(0, "over a new connection")))
				assert.Equal(t, tt.asked, w.versionsAsked(1)[2])
			})
		})
	}
}

// FC-126: a gateway that hangs up on the newest ApiVersions is asked for lower ones in later attempts; when it has learned more,
// that is found out with a later connection, and a broker that hung up once for another reason is not held to v0.
func TestFC126GatewayHangsUp(t *testing.T) {
	for name, how := range map[string]testbroker.Drop{"FIN": testbroker.DropFIN, "RST": testbroker.DropRST} {
		t.Run(name, func(t *testing.T) {
			var limit, drops atomic.Int32
			limit.Store(3)
			read := func(r testbroker.Partial) testbroker.ReadVerdict {
				if r.API == protocol.KeyAPIVersions && int32(r.Version) > limit.Load() {
					drops.Add(1)
					return testbroker.ReadVerdict{Drop: how}
				}
				return testbroker.ReadVerdict{}
			}
			play(t, testbroker.Config{FaultRead: read}, func(w *world) {
				_, highest := protocol.KeyAPIVersions.Versions()
				last := func() int16 {
					all := w.versionsAsked(1)
					return all[len(all)-1][0]
				}
				p := w.producer(nil)
				w.within(time.Second, "the first record", func() { w.acked(w.send(p, to(0, "a"))) })
				assert.LessOrEqual(t, len(w.dialled(w.Addr(1))), 2*3, "three attempts for each of two connections")
				assert.Equal(t, int16(3), last())
				synctest.Wait()
				assert.Equal(t, 2, p.Metrics().ConnectionCount)

				limit.Store(int32(highest))
				w.CloseConns(1, testbroker.DropFIN)
				w.acked(w.send(p, to(0, "b")))
				assert.Equal(t, highest, last(), "it has learned more")

				limit.Store(-1) // once, whatever is asked
				before := drops.Load()
				w.CloseConns(1, testbroker.DropFIN)
				s := w.send(p, to(0, "c"))
				for drops.Load() == before {
					time.Sleep(time.Millisecond)
				}
				limit.Store(int32(highest))
				w.acked(s)
				w.CloseConns(1, testbroker.DropFIN)
				w.acked(w.send(p, to(0, "d")))
				assert.Equal(t, highest, last())
			})
		})
	}
}

// FC-127: Produce names topics by id only where it has all of them; a zero id never goes out.
func TestFC127TopicIDs(t *testing.T) {
	var hide atomic.Int32 // how many of the topics have no id in the metadata
	fault := func(r *testbroker.Request) testbroker.Verdict {
		if r.API != protocol.KeyMetadata {
			return testbroker.Verdict{}
		}
		return testbroker.Verdict{Edit: func(m protocol.Message) {
			for i, t := range m.(*protocol.MetadataResponse).Topics {
				if hide.Load() == 2 || hide.Load() == 1 && *t.Name == "second" {
					m.(*protocol.MetadataResponse).Topics[i].TopicID = protocol.UUID{}
				}
			}
		}}
	}
	topics := []testbroker.Topic{{Name: T}, {Name: "second"}}
	both := func(w *world, p kafka, what string) (version int16) {
		before := len(w.requests(protocol.KeyProduce))
		w.acked(w.send(p, to(0, "%s", what)), w.send(p, record{Topic: "second", Value: []byte(what)}))
		all := w.requests(protocol.KeyProduce)
		require.Len(w.t, all, before+1, "both in one request")
		for _, b := range all[before].Batches {
			assert.Equal(w.t, all[before].Version >= 13, !b.TopicID.IsZero())
			assert.NotEmpty(w.t, b.Topic)
		}
		return all[before].Version
	}
	t.Run("no version of Metadata with ids", func(t *testing.T) {
		play(t, testbroker.Config{Generation: testbroker.Kafka44.With(protocol.KeyMetadata, 0, 9), Topics: topics}, func(w *world) {
			p := w.producer(nil)
			w.warm(p, 0)
			w.acked(w.send(p, record{Topic: "second", Value: []byte("warm")}))
			assert.EqualValues(t, 12, both(w, p, "a"))
		})
	})
	t.Run("ids that are zero", func(t *testing.T) {
		play(t, testbroker.Config{Fault: fault, Topics: topics}, func(w *world) {
			hide.Store(2)
			p := w.producer(func(c *producer.Config) { c.MetadataMaxAge = 100 * time.Millisecond })
			w.warm(p, 0)
			w.acked(w.send(p, record{Topic: "second", Value: []byte("warm")}))
			assert.EqualValues(t, 12, both(w, p, "none has one"))
			hide.Store(1)
			time.Sleep(300 * time.Millisecond)
			assert.EqualValues(t, 12, both(w, p, "one has one"))
			hide.Store(0)
			time.Sleep(300 * time.Millisecond)
			assert.EqualValues(t, 13, both(w, p, "both have one"))
		})
	})
}

// FC-128: each broker is spoken to in the highest version that it knows, also in the middle of an upgrade; one that lacks what is
// needed is told of at once, with the API and both ranges, and nothing is given up silently.
func TestFC128GenerationsOfBrokers(t *testing.T) {
	record := func(partition int32, what string) record {
		r := to(partition, "%s", what)
		r.Headers = []producer.Header{{Key: "h", Value: []byte("v")}}
		return r
	}
	for generation, version := range map[*testbroker.Generation]int16{
		testbroker.Kafka011: 3, testbroker.Kafka11: 5, testbroker.Kafka21: 7, testbroker.Kafka28: 9,
		testbroker.Kafka39: 11, testbroker.Kafka40: 12, testbroker.Kafka44: 13,
	} {
		t.Run(generation.Name, func(t *testing.T) {
			play(t, testbroker.Config{Generation: generation}, func(w *world) {
				p := w.producer(nil)
				w.acked(w.send(p, record(0, "a")))
				for _, r := range w.requests(protocol.KeyProduce) {
					assert.Equal(t, version, r.Version)
					assert.GreaterOrEqual(t, r.Batches[0].ProducerID, int64(0), "idempotent")
				}
				for _, e := range w.Cluster().Requests() {
					lowest, highest, ok := generation.Range(e.Request.API)
					if e.Request.API != protocol.KeyAPIVersions {
						assert.True(t, ok && lowest <= e.Request.Version && e.Request.Version <= highest, "%v", e.Request)
					}
				}
			})
		})
	}
	t.Run("mixed", func(t *testing.T) {
		play(t, testbroker.Config{Nodes: 3, Partitions: 3, NodeGenerations: map[int32]*testbroker.Generation{
			1: testbroker.Kafka011, 2: testbroker.Kafka21,
		}}, func(w *world) {
			p := w.producer(nil)
			want := map[int32][]int16{1: {3}, 2: {7}, 3: {12, 13}} // 13 once ids are known, which only the third tells
			for i := range int32(30) {
				w.acked(w.send(p, record(i%3, fmt.Sprint(i))))
			}
			for _, r := range w.requests(protocol.KeyProduce) {
				assert.Contains(t, want[r.Node], r.Version, "%v", r)
			}
			require.NoError(t, w.Cluster().SetGeneration(1, testbroker.Kafka44)) // upgraded: its connections end with that
			w.CloseConns(1, testbroker.DropFIN)
			w.acked(w.send(p, record(0, "upgraded")))
			all := w.requests(protocol.KeyProduce)
			assert.Contains(t, []int16{12, 13}, all[len(all)-1].Version)
		})
	})
	t.Run("zstd before 2.1", func(t *testing.T) {
		play(t, testbroker.Config{Generation: testbroker.Kafka11}, func(w *world) {
			p := w.producer(func(c *producer.Config) { c.Compression = producer.Zstd })
			_, err := w.send(p, record(0, "a")).wait()
			assert.ErrorIs(t, err, producer.UnsupportedVersion)
			assert.ErrorContains(t, err, "zstd needs Kafka 2.1 or newer")
			assert.ErrorContains(t, err, "offers Produce v0 to v5, this client needs v7 to v13")
			assert.NotContains(t, err.Error(), "0.11")
			assert.Empty(t, w.requests(protocol.KeyProduce))
		})
	})
	for _, disable := range []bool{false, true} {
		t.Run(fmt.Sprint("0.10, idempotence disabled: ", disable), func(t *testing.T) {
			play(t, testbroker.Config{Generation: testbroker.Kafka010}, func(w *world) {
				p := w.producer(func(c *producer.Config) { c.DisableIdempotence = disable })
				began := time.Now()
				_, err := w.send(p, record(0, "a")).wait()
				assert.Less(t, time.Since(began), 200*time.Millisecond, "no retry")
				assert.ErrorIs(t, err, producer.UnsupportedVersion)
				assert.ErrorContains(t, err, "0.11")
				if disable {
					assert.ErrorContains(t, err, "offers Produce v0 to v2, this client needs v3 to v13")
				}
				assert.False(t, producer.IsRetriable(err))
				assert.Empty(t, w.requests(protocol.KeyProduce))
			})
		})
	}
}

// FC-129, second half (the first are the fuzz targets of protocol, metadata and netclient): answers of a working cluster, damaged
// so that they cannot be right. Each costs its connection; all records are stored once and acknowledged, and memory stays small.
func TestFC129DamagedAnswers(t *testing.T) {
	chance := rand.New(rand.NewPCG(129, 1))
	var damaged, calm atomic.Int64
	fault := func(r *testbroker.Request) testbroker.Verdict {
		if calm.Load() > 0 || chance.IntN(20) > 0 {
			return testbroker.Verdict{}
		}
		api, version, corr := r.API, r.Version, r.CorrelationID
		return testbroker.Verdict{Rewrite: func(frame []byte) []byte {
			damaged.Add(1)
			return damage(chance, frame, api, version, corr)
		}}
	}
	play(t, testbroker.Config{Nodes: 3, Partitions: 6, Fault: fault, JournalLimit: 100_000}, func(w *world) {
		p := w.producer(func(c *producer.Config) { c.DeliveryTimeout = 20 * time.Second })
		var memory runtime.MemStats
		runtime.ReadMemStats(&memory)
		least := memory.HeapAlloc
		for i := range 1000 { // half a minute
			w.send(p, to(int32(i%6), "%d", i))
			time.Sleep(30 * time.Millisecond)
			if i%20 == 0 {
				runtime.ReadMemStats(&memory)
				least = min(least, memory.HeapAlloc)
				require.Less(t, memory.HeapAlloc-least, uint64(64<<20))
			}
		}
		w.acked(w.book...)
		calm.Store(1)
		assert.Greater(t, damaged.Load(), int64(40))
		assert.GreaterOrEqual(t, w.Cluster().Stats().Connections, damaged.Load(), "each damaged answer costs its connection")
	})
}

// damage changes an answer until it cannot be one to this request any more.
func damage(chance *rand.Rand, frame []byte, api protocol.APIKey, version int16, corr int32) []byte {
	for {
		b := append([]byte(nil), frame...)
		for range 1 + chance.IntN(4) {
			at := 4 + chance.IntN(len(b)-4)
			switch chance.IntN(4) {
			case 0:
				b[at] ^= 1 << chance.IntN(8)
			case 1:
				b[at] = 0xff
			case 2: // cut
				b = b[:at]
			case 3: // something in between
				b = append(b[:at], append([]byte{byte(chance.Uint32())}, b[at:]...)...)
			}
			if len(b) < 8 {
				break
			}
		}
		size := len(b) - 4
		b[0], b[1], b[2], b[3] = byte(size>>24), byte(size>>16), byte(size>>8), byte(size)
		if chance.IntN(10) == 0 {
			b[0] = 0x80 | byte(chance.Uint32()) // a negative length, which no body follows
		}
		if b[0] != 0 || !plausible(b[4:], api, version, corr) {
			return b
		}
	}
}

func plausible(b []byte, api protocol.APIKey, version int16, corr int32) bool {
	got, body, err := protocol.ReadResponseHeader(b, api, version)
	if err != nil || got != corr {
		return false
	}
	var m protocol.Message
	switch api {
	case protocol.KeyProduce:
		m = new(protocol.ProduceResponse)
	case protocol.KeyMetadata:
		m = new(protocol.MetadataResponse)
	case protocol.KeyInitProducerID:
		m = new(protocol.InitProducerIdResponse)
	case protocol.KeyAPIVersions:
		m = new(protocol.ApiVersionsResponse)
	default:
		return true
	}
	return m.ReadFrom(body, version) == nil
}

// FC-130: answers of gateways: a partition that is missing, one that is there twice, odd codes. Each partition gets one verdict. (An
// answer that names other partitions than it was asked for is not believed at all: its connection is closed, and all of it is
// asked for again. What was stored already is recognised by its sequence.)
func TestFC130OddAnswers(t *testing.T) {
	odd := func(edit func(r *protocol.ProduceResponse)) testbroker.Verdict {
		return testbroker.Verdict{
			Partitions: []testbroker.PartitionVerdict{{Topic: T, Partition: 2, Code: protocol.ReplicaNotAvailable}},
			Edit:       func(m protocol.Message) { edit(m.(*protocol.ProduceResponse)) },
		}
	}
	find := func(r *protocol.ProduceResponse, partition int32) int {
		for i, p := range r.Topics[0].Partitions {
			if p.Index == partition {
				return i
			}
		}
		return -1
	}
	for name, verdict := range map[string]testbroker.Verdict{
		"only code 9": odd(func(*protocol.ProduceResponse) {}),
		"P1 is missing": odd(func(r *protocol.ProduceResponse) {
			i := find(r, 1)
			r.Topics[0].Partitions = append(r.Topics[0].Partitions[:i:i], r.Topics[0].Partitions[i+1:]...)
		}),
		"P1 is there twice": odd(func(r *protocol.ProduceResponse) {
			r.Topics[0].Partitions = append(r.Topics[0].Partitions, r.Topics[0].Partitions[find(r, 1)])
		}),
	} {
		t.Run(name, func(t *testing.T) {
			play(t, testbroker.Config{Partitions: 3}, func(w *world) {
				p := w.producer(nil)
				w.warm(p, 0, 1, 2)
				w.Cluster().SetFault(testbroker.Script(protocol.KeyProduce, verdict))
				asked := len(w.requests(protocol.KeyMetadata))
				before := len(w.requests(protocol.KeyProduce))
				var all []*sent
				for partition := range int32(3) {
					all = append(all, w.send(p, to(partition, "%d", partition)))
				}
				w.acked(all...)
				require.Len(t, w.requests(protocol.KeyProduce)[before].Batches, 3)
				for partition := range int32(3) {
					assert.Len(t, w.values(partition), 2)
				}
				assert.Greater(t, len(w.requests(protocol.KeyMetadata)), asked, "metadata is refreshed")
			})
		})
	}
	t.Run("code -1", func(t *testing.T) {
		play(t, testbroker.Config{}, func(w *world) {
			p := w.producer(nil)
			w.warm(p, 0)
			w.Cluster().SetFault(testbroker.Script(protocol.KeyProduce, testbroker.Answer(protocol.UnknownServerError)))
			before := len(w.batches(0))
			_, err := w.send(p, to(0, "a")).wait()
			assert.ErrorIs(t, err, protocol.UnknownServerError)
			assert.False(t, producer.IsRetriable(err))
			assert.Len(t, w.batches(0), before+1, "one attempt")
			w.acked(w.send(p, to(0, "b")))
			w.whole(p)
		})
	})
}
