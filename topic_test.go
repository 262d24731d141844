package producer_test

import (
	"context"
	"fmt"
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

// What Send has to know of a topic first: when it asks, whom, for what, and what it costs.

// asksFor are the Metadata requests that name a topic.
func asksFor(c *testbroker.Cluster, topic string) []*testbroker.Request {
	return slices.DeleteFunc(requests(c, protocol.KeyMetadata), func(r *testbroker.Request) bool { return !slices.Contains(r.Topics, topic) })
}

// S-15, S-39, S-45, S-47: nothing but the bootstrap addresses is known before the first Send, which asks at once, however
// long it might linger; only topics that were sent to are asked for, and brokers may create them.
func TestMetadataIsAskedForTopicsInUse(t *testing.T) {
	inLab(t, testbroker.Config{Nodes: 3, AutoCreate: testbroker.AutoCreateAtOnce, Topics: []testbroker.Topic{{Name: "unused"}}}, func(t *testing.T, l *lab) {
		p := l.texts(t, func(c *producer.Config) {
			c.Linger, c.DeliveryTimeout, c.BootstrapServers = time.Hour, 2*time.Hour, c.BootstrapServers[1:2]
		})
		time.Sleep(time.Second)
		for _, r := range l.Cluster().Requests() {
			assert.EqualValues(t, 2, r.Node, "nobody knows another broker yet")
			assert.Empty(t, r.Request.Topics)
		}
		began := time.Now()
		f := p.Send(t.Context(), text("a", "v"))
		assert.Zero(t, time.Since(began))
		p.SendFunc(t.Context(), text("b", "v"), nil)
		assert.Zero(t, time.Since(began))
		_, err := f.Wait(t.Context())
		require.NoError(t, err)
		time.Sleep(20 * time.Minute) // several refreshes
		named := map[string]bool{}
		for _, r := range requests(l.Cluster(), protocol.KeyMetadata) {
			assert.False(t, r.AllTopics)
			// A request for no topic asks which cluster the broker belongs to.
			assert.True(t, r.AllowAutoTopicCreation || len(r.Topics) == 0)
			for _, topic := range r.Topics {
				named[topic] = true
			}
		}
		assert.Equal(t, map[string]bool{"a": true, "b": true}, named)
		end(t, p)
	})
}

// S-40, KP-23, KP-24: a topic that is known costs no request and no wait, not even while its regular refresh is under
// way and takes long.
func TestKnownTopicCostsNoWait(t *testing.T) {
	inLab(t, testbroker.Config{}, func(t *testing.T, l *lab) {
		p := l.texts(t, func(c *producer.Config) { c.MetadataMaxAge, c.MaxBlock = time.Minute, producer.NoMaxBlock })
		_, err := p.Send(t.Context(), text("t", "v")).Wait(t.Context())
		require.ErrorIs(t, err, producer.ErrMetadataTimeout, "not known yet, and no time to ask")
		time.Sleep(time.Second) // the question was asked all the same
		asked := len(asksFor(l.Cluster(), "t"))
		for range 100 {
			_, err := p.Send(t.Context(), text("t", "v")).Wait(t.Context())
			require.NoError(t, err)
		}
		assert.Len(t, asksFor(l.Cluster(), "t"), asked)
		l.Cluster().SetFault(on(protocol.KeyMetadata, testbroker.Hold(20*time.Second)))
		time.Sleep(time.Minute + time.Second)
		assert.Len(t, asksFor(l.Cluster(), "t"), asked+1, "a refresh is under way")
		began := time.Now()
		f := p.Send(t.Context(), text("t", "v"))
		assert.Zero(t, time.Since(began))
		_, err = f.Wait(t.Context())
		assert.NoError(t, err)
		end(t, p)
	})
}

// KP-28, KP-29, S-41: a topic that does not exist is asked for again and again, with a back-off, until it is there or
// MaxBlock is over; each answer in between is one look.
func TestTopicAppearsWhileSendWaits(t *testing.T) {
	inLab(t, testbroker.Config{AutoCreate: testbroker.AutoCreateOff}, func(t *testing.T, l *lab) {
		p := l.texts(t, nil)
		go func() {
			time.Sleep(10 * time.Second)
			assert.NoError(t, l.Cluster().CreateTopic(testbroker.Topic{Name: "late"}))
		}()
		began := time.Now()
		f := p.Send(t.Context(), text("late", "v"))
		waited := time.Since(began)
		assert.GreaterOrEqual(t, waited, 10*time.Second)
		assert.LessOrEqual(t, waited, 11200*time.Millisecond, "RetryBackoffMax and its jitter")
		_, err := f.Wait(t.Context())
		require.NoError(t, err)
		looks := len(asksFor(l.Cluster(), "late"))
		assert.GreaterOrEqual(t, looks, 10)
		assert.LessOrEqual(t, looks, 32, "100 ms, 200 ms, then a tenth of the time so far, up to 1 s")
		assert.Equal(t, waited, p.Metrics().MetadataWaitTime) // MET-01
		end(t, p)
	})
}

// A record may be sent before its topic exists, where brokers create topics; Kafka's way of doing it takes two answers.
func TestTopicIsCreatedBySend(t *testing.T) {
	for name, how := range map[string]testbroker.AutoCreate{"at once": testbroker.AutoCreateAtOnce, "like Kafka": testbroker.AutoCreateLikeKafka} {
		t.Run(name, func(t *testing.T) {
			inLab(t, testbroker.Config{Nodes: 3, Partitions: 3, AutoCreate: how, LeaderDelay: 50 * time.Millisecond}, func(t *testing.T, l *lab) {
				p := l.texts(t, nil)
				began := time.Now()
				_, err := p.Send(t.Context(), text("new", "v")).Wait(t.Context())
				require.NoError(t, err)
				assert.Less(t, time.Since(began), time.Second)
				end(t, p)
			})
		})
	}
}

// S-43, KP-58: a topic that is refused fails its records at once instead of after MaxBlock, does no harm to others, and
// works once the right is given; a name that no topic can have is not even asked for.
func TestRefusedTopics(t *testing.T) {
	inLab(t, testbroker.Config{}, func(t *testing.T, l *lab) {
		p := l.texts(t, nil)
		warmUp(t, p, "good")
		for topic, code := range map[string]protocol.ErrorCode{"secret": producer.TopicAuthorizationFailed, "strange": producer.InvalidTopicException} {
			l.Cluster().SetTopicError(topic, code)
			began := time.Now()
			_, err := p.Send(t.Context(), text(topic, "v")).Wait(t.Context())
			assert.ErrorIs(t, err, code)
			assert.ErrorContains(t, err, topic)
			assert.False(t, producer.IsRetriable(err))
			assert.False(t, producer.IsFatal(err))
			assert.Zero(t, time.Since(began))
			_, err = p.Send(t.Context(), text("good", "v")).Wait(t.Context())
			assert.NoError(t, err)
			asked := len(asksFor(l.Cluster(), topic))
			time.Sleep(20 * time.Minute)
			assert.Len(t, asksFor(l.Cluster(), topic), asked, "it is not in use")

			l.Cluster().SetTopicError(topic, protocol.None)
			_, err = p.Send(t.Context(), text(topic, "v")).Wait(t.Context())
			assert.NoError(t, err)
		}
		for _, name := range []string{"with space", "..", "a/b", "ünï", string(make([]byte, 300)), fmt.Sprintf("%0250d", 1)} {
			began := time.Now()
			_, err := p.Send(t.Context(), text(name, "v")).Wait(t.Context())
			assert.ErrorIs(t, err, producer.InvalidTopicException, "%.20q", name)
			assert.Zero(t, time.Since(began))
			assert.Empty(t, asksFor(l.Cluster(), name))
		}
		end(t, p)
	})
}

// S-48: however many Sends wait, one Metadata request is under way at a time.
func TestOneMetadataRequestAtATime(t *testing.T) {
	hold := on(protocol.KeyMetadata, testbroker.Hold(50*time.Millisecond))
	inLab(t, testbroker.Config{Nodes: 3, AutoCreate: testbroker.AutoCreateAtOnce, Fault: hold}, func(t *testing.T, l *lab) {
		p := l.texts(t, nil)
		var wg sync.WaitGroup
		for i := range 40 {
			wg.Go(func() {
				time.Sleep(time.Duration(i) * 10 * time.Millisecond)
				_, err := p.Send(t.Context(), text(fmt.Sprint("topic-", i), "v")).Wait(t.Context())
				assert.NoError(t, err)
			})
		}
		wg.Wait()
		var free time.Time
		asked := 0
		for _, e := range l.Cluster().Requests() {
			if e.Request.API == protocol.KeyMetadata && len(e.Request.Topics) > 0 {
				asked++
				assert.False(t, e.At.Before(free), "asked at %v, while the one before was answered at %v", e.At, free)
				free = e.Answered
			}
		}
		assert.Less(t, asked, 20)
		end(t, p)
	})
}

// S-46: whoever has the least to do is asked.
func TestMetadataIsAskedOfTheLeastLoaded(t *testing.T) {
	inLab(t, testbroker.Config{Nodes: 2, AutoCreate: testbroker.AutoCreateAtOnce, Topics: []testbroker.Topic{
		{Name: "on1", Leaders: []int32{1}}, {Name: "on2", Leaders: []int32{2}},
	}}, func(t *testing.T, l *lab) {
		p := l.texts(t, nil)
		warmUp(t, p, "on1")
		warmUp(t, p, "on2")
		l.Cluster().SetFault(testbroker.Script(protocol.KeyProduce, testbroker.Hold(10*time.Second)))
		f := p.Send(t.Context(), text("on1", "v"))
		done := f.Done() // in flight without linger
		synctest.Wait()
		for i := range 10 {
			topic := fmt.Sprint("new-", i)
			began := time.Now()
			p.SendFunc(t.Context(), text(topic, "v"), nil)
			assert.Zero(t, time.Since(began))
			for _, r := range asksFor(l.Cluster(), topic) {
				assert.EqualValues(t, 2, r.Node)
			}
		}
		assert.False(t, returned(done))
		end(t, p)
	})
}

// S-52, KP-25, KP-30: a topic that nobody uses for MetadataMaxIdle is no longer asked for; used again, it is waited for
// again, by Send and by PartitionsFor.
func TestIdleTopicIsForgotten(t *testing.T) {
	inLab(t, testbroker.Config{Topics: []testbroker.Topic{{Name: "idle"}, {Name: "busy"}}}, func(t *testing.T, l *lab) {
		p := l.texts(t, func(c *producer.Config) { c.MetadataMaxIdle, c.MetadataMaxAge = 20*time.Second, 10*time.Second })
		use := []func() error{
			func() error {
				_, err := p.Send(t.Context(), text("idle", "v")).Wait(t.Context())
				return err
			},
			func() error {
				_, err := p.PartitionsFor(t.Context(), "idle")
				return err
			},
		}
		for i := range 4 {
			asked := len(asksFor(l.Cluster(), "idle"))
			require.NoError(t, use[i%2]())
			assert.Greater(t, len(asksFor(l.Cluster(), "idle")), asked, "use %d", i)
			for range 9 {
				time.Sleep(10 * time.Second)
				_, err := p.Send(t.Context(), text("busy", "v")).Wait(t.Context())
				require.NoError(t, err)
			}
			all := requests(l.Cluster(), protocol.KeyMetadata)
			last := all[len(all)-1].Topics
			assert.Contains(t, last, "busy")
			assert.NotContains(t, last, "idle")
		}
		end(t, p)
	})
}

// KP-71: with names that cannot be resolved, Send and PartitionsFor say so, each after its own MaxBlock, again and again.
func TestUnresolvableBootstrap(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p, err := producer.New(producer.Config{
			BootstrapServers: []string{"kafka.example:9092"}, DeferBootstrapResolve: true, MaxBlock: 7 * time.Second,
			Dial: func(context.Context, string, string) (net.Conn, error) {
				return nil, &net.OpError{Op: "dial", Net: "tcp", Err: &net.DNSError{Err: "no such host", Name: "kafka.example", IsNotFound: true}}
			},
		}, producer.String(), producer.String())
		require.NoError(t, err)
		for range 3 {
			for _, try := range []func() error{
				func() error { _, err := p.Send(t.Context(), text("t", "v")).Wait(t.Context()); return err },
				func() error { _, err := p.PartitionsFor(t.Context(), "t"); return err },
			} {
				began := time.Now()
				err := try()
				assert.ErrorIs(t, err, producer.ErrMetadataTimeout)
				assert.ErrorContains(t, err, "kafka.example")
				assert.ErrorContains(t, err, "no such host")
				assert.Equal(t, 7*time.Second, time.Since(began))
			}
		}
		end(t, p)
	})
}

// KP-26, S-42, FC-132: a topic that never shows up costs MaxBlock, to the point; with NoMaxBlock nothing.
func TestMaxBlockIsExact(t *testing.T) {
	inLab(t, testbroker.Config{AutoCreate: testbroker.AutoCreateOff}, func(t *testing.T, l *lab) {
		c := l.config
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
			end(t, p)
		}
	})
}

// EXT-05: the caller's ctx ends the wait for metadata, and is the error.
func TestSendObeysItsContext(t *testing.T) {
	inLab(t, testbroker.Config{AutoCreate: testbroker.AutoCreateOff}, func(t *testing.T, l *lab) {
		p := l.texts(t, nil)
		ctx, cancel := context.WithTimeout(t.Context(), 2*time.Second)
		defer cancel()
		began := time.Now()
		_, err := p.Send(ctx, text("never", "v")).Wait(t.Context())
		assert.ErrorIs(t, err, context.DeadlineExceeded)
		assert.Equal(t, 2*time.Second, time.Since(began))
		end(t, p)
	})
}
