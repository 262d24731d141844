package producer_test

import (
	"bytes"
	"context"
	"fmt"
	"net"
	"runtime"
	"runtime/pprof"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/kafka-reservoir/producer"
	"github.com/kafka-reservoir/producer/internal/simnet"
	"github.com/kafka-reservoir/producer/internal/testbroker"
	"github.com/kafka-reservoir/producer/partitioner"
	"github.com/kafka-reservoir/producer/protocol"
)

// What the face promises about time: the whole producer and a cluster in a bubble, where time passes only when all
// are waiting, so that every bound is met to the nanosecond or not at all. A goroutine left behind fails the test.

// bubble runs f with a cluster on a network in memory.
func bubble(t *testing.T, cfg testbroker.Config, f func(t *testing.T, s *testbroker.Server, c producer.Config)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		network := simnet.New(simnet.Link{})
		cfg.Listen = func(node int32) (net.Listener, error) { return network.Listen(fmt.Sprintf("broker-%d:9092", node)) }
		s, err := testbroker.Start(cfg)
		require.NoError(t, err)
		f(t, s, producer.Config{BootstrapServers: s.Addrs(), Dial: network.Dial})
		s.Cluster().Check(t)
		require.NoError(t, s.Close())
	})
}

func newStrings(t *testing.T, c producer.Config) *producer.KafkaProducer[string, string] {
	t.Helper()
	p, err := producer.New(c, producer.String(), producer.String())
	require.NoError(t, err)
	return p
}

func text(topic, value string) producer.Record[string, string] {
	return producer.Record[string, string]{Topic: topic, Value: value}
}

// warmUp has the producer connected, its topic known and its partition's first batch acknowledged.
func warmUp(t *testing.T, p *producer.KafkaProducer[string, string], topic string) {
	t.Helper()
	_, err := p.Send(context.Background(), text(topic, "warm up")).Wait(context.Background())
	require.NoError(t, err)
}

// produceFault decides about Produce requests, and lets all others through.
func produceFault(f func() testbroker.Verdict) func(*testbroker.Request) testbroker.Verdict {
	return func(r *testbroker.Request) testbroker.Verdict {
		if r.API != protocol.KeyProduce {
			return testbroker.Verdict{}
		}
		return f()
	}
}

// FC-132: a default linger is 5 ms for those who hear of it later, NoLinger none; and who waits does not linger.
func TestLingerIsExact(t *testing.T) {
	bubble(t, testbroker.Config{}, func(t *testing.T, s *testbroker.Server, c producer.Config) {
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
			closed(t, p)
		}
	})
}

// S-01, S-31, S-61: Send hands over and returns while nothing is acknowledged; the socket is not its business.
func TestSendReturnsAtOnce(t *testing.T) {
	var mu sync.Mutex
	var writers []string
	bubble(t, testbroker.Config{Fault: produceFault(func() testbroker.Verdict { return testbroker.Hold(20 * time.Second) })},
		func(t *testing.T, s *testbroker.Server, c producer.Config) {
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
			closed(t, p)
			assert.Len(t, s.Cluster().Records("t", 0), 1000)
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

// S-02: the synchronous and the asynchronous way tell the same, once each.
func TestFutureAndCallbackAgree(t *testing.T) {
	bubble(t, testbroker.Config{}, func(t *testing.T, s *testbroker.Server, c producer.Config) {
		p := newStrings(t, c)
		m, err := p.Send(t.Context(), producer.Record[string, string]{Topic: "t", Key: "key", Value: "value"}).Wait(t.Context())
		require.NoError(t, err)
		told := make(chan producer.RecordMetadata, 2)
		p.SendFunc(t.Context(), producer.Record[string, string]{Topic: "t", Key: "key", Value: "value"}, func(m producer.RecordMetadata, err error) {
			assert.NoError(t, err)
			told <- m
		})
		closed(t, p)
		n := <-told
		assert.Empty(t, told, "once")
		assert.EqualValues(t, 0, m.Offset)
		assert.EqualValues(t, 1, n.Offset)
		assert.Equal(t, 3, m.KeySize)
		assert.Equal(t, 5, m.ValueSize)
		n.Offset, n.Timestamp = m.Offset, m.Timestamp
		assert.Equal(t, m, n)
	})
}

// KP-26, S-42, FC-132: a topic that never shows up costs MaxBlock, to the point; with NoMaxBlock nothing.
func TestMaxBlockIsExact(t *testing.T) {
	bubble(t, testbroker.Config{AutoCreate: testbroker.AutoCreateOff}, func(t *testing.T, s *testbroker.Server, c producer.Config) {
		for maxBlock, want := range map[time.Duration]time.Duration{0: time.Minute, 3 * time.Second: 3 * time.Second, producer.NoMaxBlock: 0} {
			c.MaxBlock = maxBlock
			p := newStrings(t, c)
			began := time.Now()
			_, err := p.Send(t.Context(), text("never", "v")).Wait(t.Context())
			assert.ErrorIs(t, err, producer.ErrMetadataTimeout)
			assert.ErrorContains(t, err, "topic never")
			assert.True(t, producer.IsRetriable(err))
			assert.Equal(t, want, time.Since(began), "MaxBlock %v", maxBlock)
			if maxBlock != producer.NoMaxBlock {
				assert.ErrorIs(t, err, producer.UnknownTopicOrPartition, "the cause")
			}
			closed(t, p)
		}
	})
}

// EXT-05: the caller's ctx ends the wait for metadata, and is the error.
func TestSendObeysItsContext(t *testing.T) {
	bubble(t, testbroker.Config{AutoCreate: testbroker.AutoCreateOff}, func(t *testing.T, s *testbroker.Server, c producer.Config) {
		p := newStrings(t, c)
		ctx, cancel := context.WithTimeout(t.Context(), 2*time.Second)
		defer cancel()
		began := time.Now()
		_, err := p.Send(ctx, text("never", "v")).Wait(t.Context())
		assert.ErrorIs(t, err, context.DeadlineExceeded)
		assert.Equal(t, 2*time.Second, time.Since(began))
		closed(t, p)
	})
}

// S-07, S-30: MaxBlock is one budget: what metadata took is not there for memory any more.
func TestMaxBlockIsShared(t *testing.T) {
	var refuse atomic.Bool
	fault := func(r *testbroker.Request) testbroker.Verdict {
		switch {
		case r.API == protocol.KeyProduce && refuse.Load():
			return testbroker.Answer(protocol.NotEnoughReplicas)
		case r.API == protocol.KeyMetadata && len(r.Topics) > 0 && strings.Contains(strings.Join(r.Topics, ","), "slow"):
			return testbroker.Verdict{Delay: 60 * time.Millisecond}
		}
		return testbroker.Verdict{}
	}
	topics := []testbroker.Topic{{Name: "t"}, {Name: "slow"}}
	bubble(t, testbroker.Config{Fault: fault, Topics: topics}, func(t *testing.T, s *testbroker.Server, c producer.Config) {
		c.BufferMemory, c.MaxBlock = 16<<10, 100*time.Millisecond
		c.RetryBackoff, c.RetryBackoffMax = 10*time.Second, 10*time.Second
		p := newStrings(t, c)
		warmUp(t, p, "t")
		refuse.Store(true)
		big := strings.Repeat("x", 6000)
		// Fill the memory: what it has to hold is refused, and waits for ten seconds to be sent again.
		var err error
		for err == nil {
			short, cancel := context.WithTimeout(t.Context(), time.Millisecond)
			done := make(chan error, 1)
			p.SendFunc(short, text("t", big), func(_ producer.RecordMetadata, err error) { done <- err })
			synctest.Wait()
			select {
			case err = <-done:
			default:
			}
			cancel()
		}
		assert.ErrorIs(t, err, context.DeadlineExceeded)

		began := time.Now()
		_, err = p.Send(t.Context(), text("slow", big)).Wait(t.Context())
		assert.ErrorIs(t, err, producer.ErrBufferExhausted)
		assert.True(t, producer.IsRetriable(err))
		assert.Equal(t, 100*time.Millisecond, time.Since(began))
		assert.EqualValues(t, 1, p.Metrics().BufferExhausted.Total)
		refuse.Store(false)
		closed(t, p)
	})
}

// S-27: a record without a time has the time when it was taken in, after the wait for metadata; one with a time
// keeps it, to the millisecond, however old.
func TestTimestamps(t *testing.T) {
	fault := func(r *testbroker.Request) testbroker.Verdict {
		if r.API == protocol.KeyMetadata && len(r.Topics) > 0 {
			return testbroker.Verdict{Delay: 3 * time.Second}
		}
		return testbroker.Verdict{}
	}
	bubble(t, testbroker.Config{Fault: fault, AutoCreate: testbroker.AutoCreateAtOnce}, func(t *testing.T, s *testbroker.Server, c producer.Config) {
		p := newStrings(t, c)
		began := time.Now()
		m, err := p.Send(t.Context(), text("t", "v")).Wait(t.Context())
		require.NoError(t, err)
		assert.Equal(t, began.Add(3*time.Second), m.Timestamp.In(began.Location()))
		old := text("t", "v")
		old.Timestamp = time.Date(1985, 10, 26, 1, 21, 0, 123_456_789, time.UTC)
		m, err = p.Send(t.Context(), old).Wait(t.Context())
		require.NoError(t, err)
		assert.Equal(t, old.Timestamp.Truncate(time.Millisecond), m.Timestamp.UTC())
		epoch := text("t", "v")
		epoch.Timestamp = time.Unix(0, 0)
		_, err = p.Send(t.Context(), epoch).Wait(t.Context())
		require.NoError(t, err)
		closed(t, p)
		records := s.Cluster().Records("t", 0)
		assert.Equal(t, old.Timestamp.UnixMilli(), records[1].Timestamp)
		assert.Zero(t, records[2].Timestamp)
	})
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
	bubble(t, testbroker.Config{Fault: fault, AutoCreate: testbroker.AutoCreateAtOnce}, func(t *testing.T, s *testbroker.Server, c producer.Config) {
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
		closed(t, p)
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

// partitionerFunc is a Partitioner of a function.
type partitionerFunc func(key, value []byte) int32

func (f partitionerFunc) Partition(_ string, key, value []byte, _ partitioner.Partitions) int32 {
	return f(key, value)
}

// S-33: an explicit partition is used although nobody leads it now, and the record waits for a leader.
func TestExplicitPartitionWithoutLeader(t *testing.T) {
	bubble(t, testbroker.Config{Nodes: 2, Replicas: 1, Topics: []testbroker.Topic{{Name: "t", Leaders: []int32{1, 2}}}},
		func(t *testing.T, s *testbroker.Server, c producer.Config) {
			p := newStrings(t, c)
			require.NoError(t, s.StopNode(2))
			r := text("t", "v")
			r.Partition = producer.OnPartition(1)
			f := p.Send(t.Context(), r)
			time.Sleep(10 * time.Second)
			select {
			case <-f.Done():
				t.Fatal("settled without a leader")
			default:
			}
			require.NoError(t, s.StartNode(2))
			m, err := f.Wait(t.Context())
			require.NoError(t, err)
			assert.EqualValues(t, 1, m.Partition)
			closed(t, p)
		})
}

// S-08, S-101, FC-131: a broker that never answers costs a connection every RequestTimeout, and the record ends with
// the delivery timeout, not before and not after; it may have been written.
func TestSilentBrokerEndsByDeliveryTimeout(t *testing.T) {
	var silent atomic.Bool
	bubble(t, testbroker.Config{Fault: produceFault(func() testbroker.Verdict {
		if silent.Load() {
			return testbroker.MuteBefore()
		}
		return testbroker.Verdict{}
	})}, func(t *testing.T, s *testbroker.Server, c producer.Config) {
		p := newStrings(t, c)
		warmUp(t, p, "t")
		silent.Store(true)
		before := len(produced(s))
		began := time.Now()
		_, err := p.Send(t.Context(), text("t", "v")).Wait(t.Context())
		assert.ErrorIs(t, err, producer.ErrDeliveryTimeout)
		assert.Equal(t, 2*time.Minute, time.Since(began))
		assert.True(t, producer.MayHaveBeenWritten(err))
		attempts := len(produced(s)) - before
		assert.GreaterOrEqual(t, attempts, 3, "one every 30 s")
		assert.LessOrEqual(t, attempts, 4)
		var story *producer.DeliveryError
		require.ErrorAs(t, err, &story)
		assert.Equal(t, attempts, story.Attempts)
		closed(t, p)
	})
}

// Close obeys its ctx: what is left fails with ErrForceClosed, its callback has run, and nothing of the producer's is left.
func TestCloseObeysItsContext(t *testing.T) {
	bubble(t, testbroker.Config{Fault: produceFault(testbroker.MuteBefore)}, func(t *testing.T, s *testbroker.Server, c producer.Config) {
		p := newStrings(t, c)
		var told []error
		for range 3 {
			p.SendFunc(t.Context(), text("t", "v"), func(_ producer.RecordMetadata, err error) { told = append(told, err) })
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		began := time.Now()
		err := p.Close(ctx)
		assert.ErrorIs(t, err, context.DeadlineExceeded)
		assert.Equal(t, time.Second, time.Since(began))
		require.Len(t, told, 3)
		for _, err := range told {
			assert.ErrorIs(t, err, producer.ErrForceClosed)
			assert.True(t, producer.MayHaveBeenWritten(err))
			assert.True(t, producer.IsFatal(err))
		}
		assert.Equal(t, p.Metrics().BufferTotalBytes, p.Metrics().BufferAvailableBytes)
	})
}

// Flush obeys its ctx too, and leaves the records alone.
func TestFlushObeysItsContext(t *testing.T) {
	bubble(t, testbroker.Config{Fault: produceFault(func() testbroker.Verdict { return testbroker.Hold(10 * time.Second) })},
		func(t *testing.T, s *testbroker.Server, c producer.Config) {
			p := newStrings(t, c)
			f := p.Send(t.Context(), text("t", "v"))
			ctx, cancel := context.WithTimeout(t.Context(), time.Second)
			defer cancel()
			began := time.Now()
			assert.ErrorIs(t, p.Flush(ctx), context.DeadlineExceeded)
			assert.Equal(t, time.Second, time.Since(began))
			_, err := f.Wait(t.Context())
			assert.NoError(t, err)
			closed(t, p)
		})
}

// KP-65, S-02: inside a callback, Send works, and Flush and Wait end with their ctx instead of never.
func TestCallbacksMayCallTheProducer(t *testing.T) {
	bubble(t, testbroker.Config{}, func(t *testing.T, s *testbroker.Server, c producer.Config) {
		p := newStrings(t, c)
		errs := make(chan error, 3)
		p.SendFunc(t.Context(), text("t", "1"), func(producer.RecordMetadata, error) {
			p.SendFunc(context.Background(), text("t", "2"), func(_ producer.RecordMetadata, err error) { errs <- err })
			ctx, cancel := context.WithTimeout(context.Background(), time.Second)
			defer cancel()
			errs <- p.Flush(ctx)
		})
		assert.ErrorIs(t, <-errs, context.DeadlineExceeded)
		assert.NoError(t, <-errs)
		closed(t, p)
		assert.Len(t, s.Cluster().Records("t", 0), 2)
	})
}

// KP-59: a Send that waits for metadata is told when the producer is closed.
func TestCloseWakesWaitingSends(t *testing.T) {
	bubble(t, testbroker.Config{AutoCreate: testbroker.AutoCreateOff}, func(t *testing.T, s *testbroker.Server, c producer.Config) {
		p := newStrings(t, c)
		failed := make(chan error, 1)
		go func() {
			_, err := p.Send(context.Background(), text("never", "v")).Wait(context.Background())
			failed <- err
		}()
		synctest.Wait()
		began := time.Now()
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		assert.NoError(t, p.Close(ctx))
		assert.ErrorIs(t, <-failed, producer.ErrClosed)
		assert.Zero(t, time.Since(began))
	})
}

// S-12, KP-14 in spirit: a broker that is too old is refused with a reason, at once, and nothing hangs.
func TestTooOldBroker(t *testing.T) {
	old := testbroker.Kafka44.With(protocol.KeyProduce, 0, 2)
	bubble(t, testbroker.Config{Generation: old}, func(t *testing.T, s *testbroker.Server, c producer.Config) {
		p := newStrings(t, c)
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
		defer cancel()
		_, err := p.Send(ctx, text("t", "v")).Wait(ctx)
		assert.ErrorIs(t, err, producer.UnsupportedVersion)
		assert.ErrorContains(t, err, "0.11")
		closed(t, p)
	})
}

// S-18: the sender's goroutine bears the client id, for profiles.
func TestSenderGoroutineIsLabelled(t *testing.T) {
	s := world(t, 1)
	p, err := producer.New(producer.Config{BootstrapServers: s.Addrs(), ClientID: "labelled"}, producer.String(), producer.String())
	require.NoError(t, err)
	_, err = p.Send(t.Context(), text("t", "v")).Wait(t.Context())
	require.NoError(t, err)
	var profile bytes.Buffer
	require.NoError(t, pprof.Lookup("goroutine").WriteTo(&profile, 1))
	assert.Contains(t, profile.String(), `"client_id":"labelled"`)
	closed(t, p)
}
