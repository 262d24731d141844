package producer_test

import (
	"context"
	"fmt"
	"net"
	"runtime"
	"strings"
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

// The way from Send into the buffer: what it does, in what order, and what it wakes.

// FC-133: with a batch size of 1, which batch.size=0 means too, every record is a batch, Send returns, and records without keys use
// all partitions; records with keys go where those say. Where the broker has room for few, batches are split until they fit.
func TestFC133BatchSizeOne(t *testing.T) {
	zero, err := producer.FromProperties(map[string]string{"bootstrap.servers": "a:1", "batch.size": "0"})
	require.NoError(t, err)
	for _, codec := range []producer.Compression{producer.None, producer.Gzip, producer.Snappy, producer.LZ4, producer.Zstd} {
		for _, tt := range []struct {
			name  string
			size  int
			keyed bool
			limit int // of the topic
		}{
			{"1", 1, false, 0}, {"0", zero.BatchSize, false, 0}, {"keyed", 1, true, 0}, {"split", 16 << 10, false, 100},
		} {
			t.Run(codec.String()+" "+tt.name, func(t *testing.T) {
				inLab(t, testbroker.Config{Topics: []testbroker.Topic{{Name: "t", Partitions: 3, MaxMessageBytes: tt.limit}}}, func(t *testing.T, l *lab) {
					p := l.texts(t, func(c *producer.Config) {
						c.BatchSize, c.Compression, c.Linger, c.PartitionerIgnoreKeys = tt.size, codec, producer.NoLinger, !tt.keyed
					})
					n := 1000
					if tt.limit > 0 {
						n = 100 // each takes a few splits
					}
					for i := range n {
						began := time.Now()
						r := producer.Record[string, string]{Topic: "t", Key: fmt.Sprint(i % 50), Value: fmt.Sprint(i)}
						p.SendFunc(t.Context(), r, func(_ producer.RecordMetadata, err error) { assert.NoError(t, err) })
						if i > 0 {
							assert.Less(t, time.Since(began), 50*time.Millisecond)
						}
					}
					end(t, p)
					total := 0
					for i, records := range l.Cluster().AllRecords("t") {
						if tt.limit == 0 { // a partition is left at 64 KiB, or at the batch size
							assert.NotEmpty(t, records, "partition %d", i)
						}
						total += len(records)
					}
					assert.Equal(t, n, total)
					batches := 0
					for _, e := range l.Cluster().Requests() {
						for _, result := range e.Results {
							if result.Appended {
								batches++
							}
						}
					}
					if tt.limit == 0 {
						assert.Equal(t, n, batches)
					} else {
						assert.Greater(t, batches, n/5, "no more than four fit")
					}
				})
			})
		}
	}
}

// FC-134: the client id is on every request of every connection, byte for byte. Empty is producer-1, producer-2, … as in Java;
// one that the protocol has no room for is a ConfigError.
func TestFC134ClientIDOnEveryRequest(t *testing.T) {
	_, err := producer.New(producer.Config{BootstrapServers: []string{"a:1"}, ClientID: strings.Repeat("x", 32768)}, producer.String(), producer.String())
	var wrong *producer.ConfigError
	require.ErrorAs(t, err, &wrong)
	assert.Equal(t, "ClientID", wrong.Field)
	for _, id := range []string{"svc|ws_az=a,b=c", "ünï", strings.Repeat("x", 10_000), ""} {
		inLab(t, testbroker.Config{}, func(t *testing.T, l *lab) {
			p, err := producer.New(producer.Config{BootstrapServers: l.Addrs(), Dial: l.network.Dial, ClientID: id}, producer.String(), producer.String())
			require.NoError(t, err)
			_, err = p.Send(t.Context(), text("t", "v")).Wait(t.Context())
			require.NoError(t, err)
			end(t, p)
			seen := map[protocol.APIKey]bool{}
			for _, e := range l.Cluster().Requests() {
				if id == "" {
					assert.Regexp(t, `^producer-\d+$`, e.Request.ClientID)
					id = e.Request.ClientID // the same on all
				}
				assert.Equal(t, id, e.Request.ClientID)
				seen[e.Request.API] = true
			}
			for _, key := range []protocol.APIKey{protocol.KeyAPIVersions, protocol.KeyMetadata, protocol.KeyInitProducerID, protocol.KeyProduce} {
				assert.True(t, seen[key], "%v", key)
			}
		})
	}
}

// FC-132: a default linger is 5 ms for those who hear of it later, NoLinger none; and who waits does not linger.
func TestLingerIsExact(t *testing.T) {
	inLab(t, testbroker.Config{}, func(t *testing.T, l *lab) {
		c := l.config
		for linger, want := range map[time.Duration]time.Duration{0: 5 * time.Millisecond, producer.NoLinger: 0, 70 * time.Millisecond: 70 * time.Millisecond} {
			c.Linger = linger
			p := newStrings(t, c)
			warmUp(t, p, "t")
			began := time.Now()
			took := make(chan time.Duration, 1)
			p.SendFunc(t.Context(), text("t", "v"), func(_ producer.RecordMetadata, err error) {
				assert.NoError(t, err)
				took <- time.Since(began)
			})
			assert.Equal(t, want, <-took, "linger %v", linger)

			began = time.Now()
			_, err := p.Send(t.Context(), text("t", "v")).Wait(t.Context())
			require.NoError(t, err)
			assert.Zero(t, time.Since(began), "who waits does not linger, with %v", linger)
			end(t, p)
		}
	})
}

// S-01, S-31, S-61: Send hands over and returns while nothing is acknowledged; the socket is not its business.
func TestSendReturnsAtOnce(t *testing.T) {
	var mu sync.Mutex
	var writers []string
	inLab(t, testbroker.Config{Fault: on(protocol.KeyProduce, testbroker.Hold(20*time.Second))},
		func(t *testing.T, l *lab) {
			c := l.config
			dial := c.Dial
			c.Dial = func(ctx context.Context, network, addr string) (net.Conn, error) {
				conn, err := dial(ctx, network, addr)
				return watched{conn, func() {
					mu.Lock()
					defer mu.Unlock()
					writers = append(writers, ownStack())
				}}, err
			}
			c.RequestTimeout, c.DeliveryTimeout = time.Hour, 2*time.Hour
			p := newStrings(t, c)
			_, err := p.PartitionsFor(t.Context(), "t")
			require.NoError(t, err)
			began := time.Now()
			for range 1000 {
				p.SendFunc(t.Context(), text("t", "v"), nil)
			}
			assert.Zero(t, time.Since(began))
			end(t, p)
			assert.Len(t, l.Cluster().Records("t", 0), 1000)
		})
	require.NotEmpty(t, writers)
	for _, w := range writers {
		assert.NotContains(t, w, "SendFunc")
		assert.NotContains(t, w, "PartitionsFor")
	}
}

// watched tells who writes to a connection.
type watched struct {
	net.Conn
	see func()
}

func (w watched) Write(b []byte) (int, error) {
	w.see()
	return w.Conn.Write(b)
}

// ownStack is the stack of the calling goroutine.
func ownStack() string {
	var b [16 << 10]byte
	return string(b[:runtime.Stack(b[:], false)])
}

// S-23: interceptors, metadata, key, value, partitioner, in this order; the size is looked at last.
func TestOrderOfWorkInSend(t *testing.T) {
	log := &recorder{}
	fault := func(r *testbroker.Request) testbroker.Verdict {
		if r.API == protocol.KeyMetadata && len(r.Topics) > 0 {
			log.note("metadata")
		}
		return testbroker.Verdict{}
	}
	inLab(t, testbroker.Config{Fault: fault, AutoCreate: testbroker.AutoCreateAtOnce}, func(t *testing.T, l *lab) {
		c := l.config
		note := func(what string) producer.SerializerFunc[string] {
			return func(v string) ([]byte, error) {
				log.note("%s %s", what, v)
				return []byte(v), nil
			}
		}
		c.Partitioner = partitionerFunc(func(key, value []byte) int32 {
			log.note("partitioner %s %d", key, len(value))
			return 0
		})
		c.MaxRequestSize = 1000
		p, err := producer.New(c, note("key"), note("value"), producer.Interceptor[string, string](logging{log}))
		require.NoError(t, err)
		_, err = p.Send(t.Context(), producer.Record[string, string]{Topic: "t", Key: "k", Value: "v"}).Wait(t.Context())
		require.NoError(t, err)
		require.NoError(t, p.Flush(t.Context()))
		_, err = p.Send(t.Context(), producer.Record[string, string]{Topic: "t", Key: "k", Value: strings.Repeat("v", 1000)}).Wait(t.Context())
		require.Error(t, err)
		require.NoError(t, p.Flush(t.Context()))
		end(t, p)
		assert.Equal(t, []string{
			"onSend", "metadata", "key k", "value v", "partitioner k 1", "ack 0",
			"onSend", "key k", "value " + strings.Repeat("v", 1000), "partitioner k 1000", "ack -1",
		}, log.log)
	})
}

type logging struct{ log *recorder }

func (l logging) OnSend(ctx context.Context, _ *producer.Record[string, string]) context.Context {
	l.log.note("onSend")
	return ctx
}

func (l logging) OnAcknowledgement(_ context.Context, m producer.RecordMetadata, _ error) {
	l.log.note("ack %d", m.Offset)
}

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
