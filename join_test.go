package producer_test

import (
	"context"
	"fmt"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/kafka-reservoir/producer"
	"github.com/kafka-reservoir/producer/internal/simnet"
	"github.com/kafka-reservoir/producer/internal/testbroker"
	"github.com/kafka-reservoir/producer/protocol"
)

// Callers that each wait for their record before they send the next one come to share requests: all of them, not half now and half while those are away.
// (With a linger they mostly do, but groups that are out of step may stay so: several requests may be in flight then.)
func TestWaitingCallersShareRequests(t *testing.T) {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(1)) // who runs when decides what is shared
	for _, callers := range []int{1, 2, 16} {
		t.Run(fmt.Sprint(callers), func(t *testing.T) {
			inLab(t, testbroker.Config{}, func(t *testing.T, l *lab) {
				for _, addr := range l.Addrs() {
					l.network.SetLink(addr, simnet.Link{Latency: time.Millisecond})
				}
				const rounds = 50
				p := l.texts(t, func(c *producer.Config) { c.Linger = producer.NoLinger })
				var wg sync.WaitGroup
				for i := range callers {
					wg.Go(func() {
						time.Sleep(time.Duration(i) * 100 * time.Microsecond) // they do not begin together
						for range rounds {
							_, err := p.Send(context.Background(), producer.Record[string, string]{Topic: "t", Value: "v"}).Wait(context.Background())
							assert.NoError(t, err)
						}
					})
				}
				wg.Wait()
				got := len(requests(l.Cluster(), protocol.KeyProduce))
				require.NotZero(t, got)
				assert.LessOrEqual(t, got, rounds*3/2)
				end(t, p)
			})
		})
	}
}

// A caller that waits for its record before it sends the next one finds the sender awake: an iteration handles the answer and sends the next record, not one each.
func TestLoneCallerTakesOneIteration(t *testing.T) {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(1)) // who runs when decides
	for name, linger := range map[string]time.Duration{"no linger": producer.NoLinger, "linger": 0} {
		t.Run(name, func(t *testing.T) {
			inLab(t, testbroker.Config{}, func(t *testing.T, l *lab) {
				const rounds = 100
				p := l.texts(t, func(c *producer.Config) { c.Linger = linger })
				send := func() {
					_, err := p.Send(context.Background(), producer.Record[string, string]{Topic: "t", Value: "v"}).Wait(context.Background())
					require.NoError(t, err)
				}
				send() // what happens once
				before := p.Metrics().Select.Total
				for range rounds {
					send()
				}
				assert.InDelta(t, rounds, p.Metrics().Select.Total-before, rounds/10)
				end(t, p)
			})
		})
	}
}

// What a node may have waiting shrinks when it is well, and with that what is enough to be sent before linger: batches that are enough now go now. (It was looked at
// before the bound was set, and they slept through their linger.)
func TestFirstBurstDoesNotLinger(t *testing.T) {
	inLab(t, testbroker.Config{Topics: []testbroker.Topic{{Name: "t", Partitions: 4}}}, func(t *testing.T, l *lab) {
		for _, addr := range l.Addrs() {
			l.network.SetLink(addr, simnet.Link{Latency: 5 * time.Millisecond})
		}
		p := l.texts(t, func(c *producer.Config) { c.Linger = 10 * time.Second })
		began := time.Now()
		var first atomic.Int64
		for i := range int32(300) {
			p.SendFunc(context.Background(), producer.Record[string, string]{Topic: "t", Partition: producer.OnPartition(i % 4), Value: strings.Repeat("v", 1000)}, func(_ producer.RecordMetadata, err error) {
				assert.NoError(t, err)
				first.CompareAndSwap(0, int64(time.Since(began)))
			})
		}
		time.Sleep(5 * time.Second)
		assert.NotZero(t, first.Load())
		assert.Less(t, time.Duration(first.Load()), time.Second)
		end(t, p)
	})
}
