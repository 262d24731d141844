package producer_test

import (
	"fmt"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/kafka-reservoir/producer"
	"github.com/kafka-reservoir/producer/internal/testbroker"
	"github.com/kafka-reservoir/producer/protocol"
)

// What docs/what-happens-when.md says of brokers, leaders and topics, as the caller of Send sees it.

// delivered sends a record and demands that it is acknowledged within most.
func delivered(t *testing.T, p *producer.KafkaProducer[string, string], r producer.Record[string, string], most time.Duration) producer.RecordMetadata {
	t.Helper()
	began := time.Now()
	m, err := p.Send(t.Context(), r).Wait(t.Context())
	require.NoError(t, err)
	assert.LessOrEqual(t, time.Since(began), most)
	return m
}

// A broker dies while records flow: another replica leads, all records are delivered, once each and in order.
func TestBrokerDies(t *testing.T) {
	inLab(t, testbroker.Config{Nodes: 3, Topics: []testbroker.Topic{{Name: "t", Partitions: 1, Leaders: []int32{1}}}}, func(t *testing.T, l *lab) {
		p := l.texts(t, nil)
		warmUp(t, p, "t")
		told := newLedger()
		want := []string{"warm up"}
		for i := range 300 {
			if i == 100 {
				require.NoError(t, l.StopNode(1))
			}
			want = append(want, fmt.Sprint(i))
			p.SendFunc(t.Context(), text("t", fmt.Sprint(i)), told.callback(i))
			time.Sleep(time.Millisecond)
		}
		began := time.Now()
		require.NoError(t, p.Flush(t.Context()))
		assert.LessOrEqual(t, time.Since(began), time.Second)
		told.check(t, 300)
		assert.Empty(t, told.failures())
		end(t, p)
		assert.Equal(t, want, values(l.Cluster(), "t", 0))
	})
}

// Every broker is gone: a record of a known topic is kept until its DeliveryTimeout and fails as one that was never sent,
// with the address and what became of the attempts to connect. When the brokers are back, so is the producer.
func TestEveryBrokerIsGone(t *testing.T) {
	inLab(t, testbroker.Config{Nodes: 2}, func(t *testing.T, l *lab) {
		p := l.texts(t, func(c *producer.Config) { c.DeliveryTimeout, c.RequestTimeout = 20*time.Second, 5*time.Second })
		warmUp(t, p, "t")
		for node := range int32(2) {
			require.NoError(t, l.StopNode(node+1))
		}
		time.Sleep(time.Second) // the connections' ends are noticed
		began := time.Now()
		_, err := p.Send(t.Context(), text("t", "v")).Wait(t.Context())
		assert.Equal(t, 20*time.Second, time.Since(began))
		assert.ErrorIs(t, err, producer.ErrDeliveryTimeout)
		assert.False(t, producer.MayHaveBeenWritten(err))
		assert.True(t, producer.IsRetriable(err))
		assert.False(t, producer.IsFatal(err))
		for _, part := range []string{"t-0", "20s", "never sent", "broker-", "refused"} {
			assert.ErrorContains(t, err, part)
		}
		for node := range int32(2) {
			require.NoError(t, l.StartNode(node+1))
		}
		delivered(t, p, text("t", "again"), 2*time.Second)
		end(t, p)
	})
}

// A leader moves: the first refusal names the new one, or is asked about, and the record follows.
func TestLeaderMoves(t *testing.T) {
	inLab(t, testbroker.Config{Nodes: 2, Topics: []testbroker.Topic{{Name: "t", Partitions: 1, Leaders: []int32{1}}}}, func(t *testing.T, l *lab) {
		p := l.texts(t, nil)
		warmUp(t, p, "t")
		require.NoError(t, l.MoveLeader("t", 0, 2))
		delivered(t, p, text("t", "v"), 250*time.Millisecond)
		assert.EqualValues(t, 1, p.Metrics().RecordRetry.Total)
		end(t, p)
		assert.Equal(t, []string{"warm up", "v"}, values(l.Cluster(), "t", 0))
	})
}

// A broker falls silent, as when packets vanish: after RequestTimeout its connection is given up and the record sent
// again, as the same bytes.
func TestBrokerFallsSilent(t *testing.T) {
	inLab(t, testbroker.Config{}, func(t *testing.T, l *lab) {
		p := l.texts(t, nil)
		warmUp(t, p, "t")
		l.Cluster().SetFault(testbroker.Script(protocol.KeyProduce, testbroker.MuteAfter()))
		delivered(t, p, text("t", "v"), 30*time.Second+500*time.Millisecond)
		end(t, p)
		assert.Equal(t, []string{"warm up", "v"}, values(l.Cluster(), "t", 0))
	})
}

// An answer is lost with its connection: the record is sent again and recognised, so that it is in the log once.
func TestAnswerIsLost(t *testing.T) {
	inLab(t, testbroker.Config{}, func(t *testing.T, l *lab) {
		p := l.texts(t, nil)
		warmUp(t, p, "t")
		for _, v := range []testbroker.Verdict{testbroker.DropBefore(), testbroker.DropAfter(), {Cut: 9}} {
			l.Cluster().SetFault(testbroker.Script(protocol.KeyProduce, v))
			delivered(t, p, text("t", "v"), 500*time.Millisecond)
		}
		assert.Len(t, l.Cluster().Records("t", 0), 4)
		end(t, p)
	})
}

// A batch is too large for the topic, its records are not: it is sent in parts.
func TestBatchTooLargeForTheTopic(t *testing.T) {
	inLab(t, testbroker.Config{Topics: []testbroker.Topic{{Name: "t", Partitions: 1, MaxMessageBytes: 2000}}}, func(t *testing.T, l *lab) {
		p := l.texts(t, func(c *producer.Config) { c.Linger = 10 * time.Millisecond })
		warmUp(t, p, "t")
		told := newLedger()
		for i := range 40 {
			p.SendFunc(t.Context(), text("t", strings.Repeat("x", 300)), told.callback(i))
		}
		require.NoError(t, p.Flush(t.Context()))
		told.check(t, 40)
		assert.Empty(t, told.failures())
		assert.Positive(t, p.Metrics().BatchSplit.Total)
		end(t, p)
		assert.Len(t, l.Cluster().Records("t", 0), 41)
	})
}

// A topic is deleted and created anew: records go to the new one as soon as its leader is known.
func TestTopicIsCreatedAnew(t *testing.T) {
	inLab(t, testbroker.Config{Nodes: 2}, func(t *testing.T, l *lab) {
		p := l.texts(t, nil)
		warmUp(t, p, "t")
		require.NoError(t, l.Cluster().RecreateTopic(testbroker.Topic{Name: "t", Partitions: 1}))
		delivered(t, p, text("t", "v"), 2*time.Second)
		end(t, p)
		assert.Equal(t, []string{"v"}, values(l.Cluster(), "t", 0))
	})
}

// A topic is deleted for good: records that were accepted fail when DeliveryTimeout is over, later ones after MaxBlock.
func TestTopicIsDeleted(t *testing.T) {
	inLab(t, testbroker.Config{AutoCreate: testbroker.AutoCreateOff, Topics: []testbroker.Topic{{Name: "t", Partitions: 1}}}, func(t *testing.T, l *lab) {
		p := l.texts(t, func(c *producer.Config) {
			c.DeliveryTimeout, c.RequestTimeout, c.MaxBlock = 20*time.Second, 5*time.Second, 10*time.Second
		})
		warmUp(t, p, "t")
		require.NoError(t, l.Cluster().DeleteTopic("t"))
		began := time.Now()
		_, err := p.Send(t.Context(), text("t", "v")).Wait(t.Context())
		assert.ErrorIs(t, err, producer.ErrDeliveryTimeout)
		assert.Equal(t, 20*time.Second, time.Since(began))
		t.Log(err)
		began = time.Now()
		_, err = p.Send(t.Context(), text("t", "v")).Wait(t.Context())
		assert.ErrorIs(t, err, producer.ErrMetadataTimeout)
		assert.ErrorIs(t, err, producer.UnknownTopicOrPartition)
		assert.Equal(t, 10*time.Second, time.Since(began))
		t.Log(err)
		end(t, p)
	})
}

// Too few replicas are in sync: the record is sent again until there are enough, or DeliveryTimeout is over. Before the append
// it is certainly not in the log, after it it may be.
func TestTooFewReplicas(t *testing.T) {
	for _, tt := range []struct {
		code    protocol.ErrorCode
		written bool
	}{{protocol.NotEnoughReplicas, false}, {protocol.NotEnoughReplicasAfterAppend, true}} {
		inLab(t, testbroker.Config{}, func(t *testing.T, l *lab) {
			p := l.texts(t, func(c *producer.Config) { c.DeliveryTimeout, c.RequestTimeout = 20*time.Second, 5*time.Second })
			warmUp(t, p, "t")
			fault := testbroker.Answer(tt.code)
			fault.Append = tt.written
			l.Cluster().SetFault(on(protocol.KeyProduce, fault))
			began := time.Now()
			_, err := p.Send(t.Context(), text("t", "v")).Wait(t.Context())
			assert.ErrorIs(t, err, producer.ErrDeliveryTimeout)
			assert.ErrorIs(t, err, tt.code)
			assert.Equal(t, 20*time.Second, time.Since(began))
			assert.Equal(t, tt.written, producer.MayHaveBeenWritten(err))
			assert.True(t, producer.IsRetriable(err))
			l.Cluster().SetFault(nil)
			delivered(t, p, text("t", "w"), 2*time.Second)
			end(t, p)
		})
	}
}

// A broker throttles: nothing is sent to it meanwhile, records wait, and none fails.
func TestBrokerThrottles(t *testing.T) {
	inLab(t, testbroker.Config{}, func(t *testing.T, l *lab) {
		p := l.texts(t, nil)
		warmUp(t, p, "t")
		l.Cluster().SetFault(testbroker.Script(protocol.KeyProduce, testbroker.Verdict{Throttle: 3 * time.Second}))
		delivered(t, p, text("t", "v"), 100*time.Millisecond)
		began := time.Now()
		delivered(t, p, text("t", "w"), 3250*time.Millisecond)
		assert.GreaterOrEqual(t, time.Since(began), 2900*time.Millisecond)
		assert.Equal(t, 3*time.Second, p.Metrics().ProduceThrottleTime.Max)
		end(t, p)
	})
}

// A broker has forgotten the producer (its state expired): the producer goes on under a new epoch, and nobody notices.
func TestBrokerForgetsTheProducer(t *testing.T) {
	inLab(t, testbroker.Config{}, func(t *testing.T, l *lab) {
		p := l.texts(t, nil)
		warmUp(t, p, "t")
		require.NoError(t, l.Cluster().ExpireProducers("t", 0))
		delivered(t, p, text("t", "v"), time.Second)
		end(t, p)
		assert.Equal(t, []string{"warm up", "v"}, values(l.Cluster(), "t", 0))
	})
}

// A leader that lacks the last records takes over (unclean election): what was acknowledged is gone, which no producer can
// know, and the next records are delivered.
func TestUncleanElection(t *testing.T) {
	inLab(t, testbroker.Config{Nodes: 2, Topics: []testbroker.Topic{{Name: "t", Partitions: 1, Leaders: []int32{1}}}}, func(t *testing.T, l *lab) {
		p := l.texts(t, nil)
		warmUp(t, p, "t")
		for i := range 5 {
			delivered(t, p, text("t", fmt.Sprint(i)), time.Second)
		}
		require.NoError(t, l.Cluster().UncleanElection("t", 0, 2, 2))
		delivered(t, p, text("t", "5"), time.Second)
		end(t, p)
		assert.Equal(t, []string{"warm up", "0", "1", "2", "5"}, values(l.Cluster(), "t", 0))
	})
}

// The address of a broker belongs to another cluster by now: nothing is written there.
func TestAddressOfAnotherCluster(t *testing.T) {
	inLab(t, testbroker.Config{Nodes: 2, ClusterID: "ours", Topics: []testbroker.Topic{{Name: "t", Partitions: 1, Leaders: []int32{2}}}}, func(t *testing.T, l *lab) {
		theirs, err := testbroker.Start(testbroker.Config{ClusterID: "theirs", Topics: []testbroker.Topic{{Name: "t", Partitions: 1}},
			Listen: func(int32) (net.Listener, error) { return l.network.Listen("elsewhere:9092") }})
		require.NoError(t, err)
		defer theirs.Close()
		require.NoError(t, l.Cluster().SetAddr(2, "elsewhere", 9092))
		p := l.texts(t, func(c *producer.Config) {
			c.BootstrapServers, c.DeliveryTimeout, c.RequestTimeout = c.BootstrapServers[:1], 20*time.Second, 5*time.Second
		})
		_, err = p.Send(t.Context(), text("t", "v")).Wait(t.Context())
		assert.ErrorIs(t, err, producer.ErrDeliveryTimeout)
		assert.False(t, producer.MayHaveBeenWritten(err))
		t.Log(err)
		assert.ErrorContains(t, err, "elsewhere:9092")
		assert.ErrorContains(t, err, "theirs")
		assert.Empty(t, theirs.Cluster().Records("t", 0))

		require.NoError(t, l.Cluster().SetAddr(2, "broker-2", 9092))
		delivered(t, p, text("t", "w"), 5*time.Second)
		end(t, p)
	})
}

// The cluster does not let the producer be idempotent: it is finished, and says how to go on.
func TestNoRightToBeIdempotent(t *testing.T) {
	inLab(t, testbroker.Config{Fault: on(protocol.KeyInitProducerID, testbroker.Answer(protocol.ClusterAuthorizationFailed))}, func(t *testing.T, l *lab) {
		p := l.texts(t, nil)
		_, err := p.Send(t.Context(), text("t", "v")).Wait(t.Context())
		assert.ErrorIs(t, err, producer.ClusterAuthorizationFailed)
		assert.True(t, producer.IsFatal(err))
		assert.False(t, producer.MayHaveBeenWritten(err))
		t.Log(err)
		end(t, p)
	})
}

// Not allowed to write to a topic that may be described: the broker's verdict on the record.
func TestNotAllowedToWrite(t *testing.T) {
	inLab(t, testbroker.Config{}, func(t *testing.T, l *lab) {
		p := l.texts(t, nil)
		warmUp(t, p, "t")
		l.Cluster().SetFault(on(protocol.KeyProduce, testbroker.Answer(protocol.TopicAuthorizationFailed)))
		_, err := p.Send(t.Context(), text("t", "v")).Wait(t.Context())
		assert.ErrorIs(t, err, producer.TopicAuthorizationFailed)
		assert.ErrorContains(t, err, "t-0")
		assert.False(t, producer.IsRetriable(err))
		assert.False(t, producer.IsFatal(err))
		assert.False(t, producer.MayHaveBeenWritten(err))
		t.Log(err)
		l.Cluster().SetFault(nil)
		delivered(t, p, text("t", "w"), time.Second)
		end(t, p)
	})
}
