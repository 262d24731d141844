package producer_test

import (
	"context"
	"flag"
	"fmt"
	"math/rand/v2"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/kafka-reservoir/producer"
	"github.com/kafka-reservoir/producer/internal/simnet"
	"github.com/kafka-reservoir/producer/internal/testbroker"
	"github.com/kafka-reservoir/producer/protocol"
)

// With more seeds, or another range: go test -run TestEveryRecordHasOneEnd -seeds 1000 -seed 25
var (
	firstSeed = flag.Uint64("seed", 0, "first seed of TestEveryRecordHasOneEnd")
	seeds     = flag.Uint64("seeds", 25, "number of seeds of TestEveryRecordHasOneEnd")
)

// trouble draws what happens to a Produce request or an InitProducerId: mostly nothing.
func trouble(rnd *rand.Rand) testbroker.Verdict {
	codes := []protocol.ErrorCode{
		protocol.NotLeaderOrFollower, protocol.UnknownTopicOrPartition, protocol.NotEnoughReplicas, protocol.RequestTimedOut,
		protocol.KafkaStorageError, protocol.CorruptMessage,
	}
	after := []protocol.ErrorCode{protocol.NotEnoughReplicasAfterAppend, protocol.RequestTimedOut, protocol.UnknownServerError}
	switch rnd.IntN(30) {
	case 0, 1, 2:
		return testbroker.Answer(codes[rnd.IntN(len(codes))])
	case 3:
		return testbroker.AnswerAfterAppend(after[rnd.IntN(2)])
	case 4:
		return testbroker.DropBefore()
	case 5:
		return testbroker.DropAfter()
	case 6:
		return testbroker.Verdict{Drop: testbroker.DropRST}
	case 7:
		return testbroker.MuteBefore()
	case 8:
		return testbroker.MuteAfter()
	case 9:
		return testbroker.Hold(time.Duration(rnd.IntN(4000)) * time.Millisecond) // may be later than the request timeout
	case 10:
		return testbroker.Verdict{Delay: time.Duration(rnd.IntN(4000)) * time.Millisecond}
	case 11:
		return testbroker.Verdict{Cut: 1 + rnd.IntN(20)}
	case 12:
		return testbroker.Verdict{Trickle: 1, TricklePause: 10 * time.Millisecond}
	case 13:
		return testbroker.Verdict{Throttle: time.Duration(rnd.IntN(500)) * time.Millisecond}
	case 14:
		return testbroker.Raw([]byte{0, 0, 0, 6, 1, 2, 3, 4, 5, 6})
	}
	return testbroker.Verdict{}
}

// EXT-06, EXT-07, S-102: whatever happens meanwhile, in whatever order, and whenever the producer is closed, each record
// has one end, told by its future and its callback alike; what was acknowledged is in the log, what is said to be certainly
// not written is not, and afterwards no goroutine is left and no memory is missing.
func TestEveryRecordHasOneEnd(t *testing.T) {
	for seed := *firstSeed; seed < *firstSeed+*seeds; seed++ {
		t.Run(fmt.Sprint("seed=", seed), func(t *testing.T) {
			rnd := rand.New(rand.NewPCG(seed, 1))
			var mu sync.Mutex // of faults
			faults := rand.New(rand.NewPCG(seed, 2))
			fault := func(r *testbroker.Request) testbroker.Verdict {
				mu.Lock()
				defer mu.Unlock()
				switch r.API {
				case protocol.KeyProduce, protocol.KeyInitProducerID:
					return trouble(faults)
				case protocol.KeyMetadata:
					if faults.IntN(10) == 0 {
						return testbroker.DropBefore()
					}
				}
				return testbroker.Verdict{}
			}
			cfg := testbroker.Config{Nodes: 3, Partitions: 4, AutoCreate: testbroker.AutoCreateAtOnce, Fault: fault, LeaderDelay: 20 * time.Millisecond}
			inLab(t, cfg, func(t *testing.T, l *lab) { oneEnd(t, l, rnd) })
		})
	}
}

func oneEnd(t *testing.T, l *lab, rnd *rand.Rand) {
	for _, addr := range l.Addrs() {
		link := simnet.Link{Latency: time.Duration(rnd.IntN(3)*rnd.IntN(10)) * time.Millisecond}
		if rnd.IntN(3) == 0 {
			link.Bandwidth, link.Buffer, link.Segment = 10_000+rnd.IntN(100_000), 1000+rnd.IntN(10_000), 1+rnd.IntN(1000)
		}
		l.network.SetLink(addr, link)
	}
	if rnd.IntN(3) == 0 { // batches will have to be split
		require.NoError(t, l.Cluster().CreateTopic(testbroker.Topic{Name: "t1", MaxMessageBytes: 500 + rnd.IntN(1500)}))
	}
	p := l.texts(t, func(c *producer.Config) {
		c.RequestTimeout, c.DeliveryTimeout, c.MaxBlock = 2*time.Second, 15*time.Second, 5*time.Second
		c.BatchSize = 200 + rnd.IntN(4000)
		c.Linger = []time.Duration{producer.NoLinger, time.Millisecond, 50 * time.Millisecond}[rnd.IntN(3)]
		c.MaxInFlight = 1 + rnd.IntN(5)
		c.Compression = producer.Compression(rnd.IntN(5))
		if rnd.IntN(3) == 0 {
			c.BufferMemory = 32 << 10
		}
	})
	const senders, each = 4, 60
	told := newLedger()
	type sent struct {
		value  string
		future producer.Future
	}
	byValue := make([]sent, 2*senders*each) // the odd ones by future
	var wg sync.WaitGroup
	for s := range senders {
		rnd := rand.New(rand.NewPCG(rnd.Uint64(), 3))
		wg.Go(func() {
			for i := range each {
				n := 2 * (s*each + i)
				ctx, cancel := context.Background(), context.CancelFunc(func() {})
				if rnd.IntN(10) == 0 {
					ctx, cancel = context.WithTimeout(ctx, time.Duration(rnd.IntN(100))*time.Millisecond)
				}
				topic := "t" + strconv.Itoa(rnd.IntN(2))
				record := func(n int) producer.Record[string, string] {
					byValue[n].value = fmt.Sprintf("%06d%s", n, strings.Repeat("x", rnd.IntN(300)))
					r := producer.Record[string, string]{Topic: topic, Key: fmt.Sprint(rnd.IntN(20)), Value: byValue[n].value}
					if rnd.IntN(4) == 0 {
						r.Partition = producer.OnPartition(int32(rnd.IntN(4)))
					}
					return r
				}
				p.SendFunc(ctx, record(n), told.callback(n))
				byValue[n+1].future = p.Send(ctx, record(n+1))
				cancel()
				if rnd.IntN(4) == 0 {
					time.Sleep(time.Duration(rnd.IntN(300)) * time.Millisecond)
				}
			}
		})
	}
	operator := rand.New(rand.NewPCG(rnd.Uint64(), 4))
	wg.Go(func() {
		rnd := operator
		for range 10 {
			time.Sleep(time.Duration(rnd.IntN(1000)) * time.Millisecond)
			switch rnd.IntN(6) {
			case 0:
				_ = l.MoveLeader("t0", int32(rnd.IntN(4)), int32(1+rnd.IntN(3)))
			case 1:
				node := int32(1 + rnd.IntN(3))
				_ = l.StopNode(node)
				time.Sleep(time.Duration(rnd.IntN(1000)) * time.Millisecond)
				_ = l.StartNode(node)
			case 2:
				ctx, cancel := context.WithTimeout(context.Background(), time.Duration(rnd.IntN(1000))*time.Millisecond)
				_ = p.Flush(ctx)
				cancel()
			case 3:
				l.CloseConns(0, testbroker.DropRST)
			case 4:
				addr := l.Addr(int32(1 + rnd.IntN(3)))
				l.network.BlackHole(addr, true)
				time.Sleep(time.Duration(rnd.IntN(5000)) * time.Millisecond)
				l.network.BlackHole(addr, false)
			case 5:
				_, _ = p.PartitionsFor(context.Background(), "t1")
			}
		}
	})
	if rnd.IntN(2) == 0 {
		wg.Wait()
	} else {
		time.Sleep(time.Duration(rnd.IntN(5000)) * time.Millisecond)
	}
	ctx, cancel := context.WithTimeout(context.Background(), time.Duration(rnd.IntN(20_000))*time.Millisecond)
	_ = p.Close(ctx)
	cancel()
	nothingRuns(t)
	whole(t, p)
	wg.Wait()
	require.NoError(t, p.Close(context.Background()))

	time.Sleep(10 * time.Second) // what the network still carries has arrived
	written := map[string]int{}
	for _, topic := range []string{"t0", "t1"} {
		for _, part := range l.Cluster().AllRecords(topic) {
			for _, r := range part {
				written[string(r.Value)]++
			}
		}
	}
	for n, s := range byValue {
		var err error
		if n%2 == 0 {
			if told.times[n] != 1 {
				t.Errorf("record %d was told of %d times", n, told.times[n])
			}
			err = told.errs[n]
		} else {
			if !returned(s.future.Done()) {
				t.Errorf("record %d has no end", n)
				continue
			}
			_, err = s.future.Wait(t.Context())
		}
		copies := written[s.value]
		switch {
		case err == nil:
			assert.Equal(t, 1, copies, "record %d was acknowledged", n)
		case !producer.MayHaveBeenWritten(err):
			assert.Zero(t, copies, "record %d: %v", n, err)
		default:
			assert.LessOrEqual(t, copies, 1, "record %d: %v", n, err)
		}
	}
}

// Delivery rule 12: doubt is not forgotten. A batch whose first attempt was lost on the way may still arrive there, however
// definite the answer to the second one was: here a slow broker appends both batches long after they were given up.
func TestDoubtIsNotForgotten(t *testing.T) {
	inLab(t, testbroker.Config{Topics: []testbroker.Topic{{Name: "t"}}}, func(t *testing.T, l *lab) {
		p := l.texts(t, func(c *producer.Config) {
			c.RequestTimeout, c.DeliveryTimeout, c.Linger = 2*time.Second, 15*time.Second, time.Millisecond
			c.RetryBackoff = 100 * time.Millisecond
		})
		warmUp(t, p, "t")
		attempts := map[int32]int{}
		l.Cluster().SetFault(func(r *testbroker.Request) testbroker.Verdict {
			if r.API != protocol.KeyProduce {
				return testbroker.Verdict{}
			}
			seq := r.Batches[0].BaseSequence
			switch attempts[seq]++; {
			case seq == 1 && attempts[seq] == 1:
				return testbroker.Verdict{Delay: 20 * time.Second} // and all that follows on the connection
			case seq == 1:
				return testbroker.Answer(protocol.NotEnoughReplicas)
			}
			return testbroker.Verdict{}
		})
		first := p.Send(t.Context(), text("t", "first"))
		time.Sleep(50 * time.Millisecond)
		second := p.Send(t.Context(), text("t", "second"))
		_, err := first.Wait(t.Context())
		assert.True(t, producer.MayHaveBeenWritten(err), "%v", err)
		_, err = second.Wait(t.Context())
		assert.ErrorIs(t, err, producer.OutOfOrderSequenceNumber)
		assert.True(t, producer.MayHaveBeenWritten(err), "%v", err)
		time.Sleep(10 * time.Second)
		assert.Equal(t, []string{"warm up", "first", "second"}, values(l.Cluster(), "t", 0))
		end(t, p)
	})
}
