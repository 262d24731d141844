package fieldcases

import (
	"context"
	"fmt"
	"net"
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

// Latency, linger, fairness.

// FC-111: one record after the other takes a round trip each when the caller waits, and the small default linger more when it
// only hears of it.
func TestFC111OneByOne(t *testing.T) {
	const rtt = time.Millisecond
	network := simnet.New(simnet.Link{Latency: rtt / 2})
	listen := func(node int32) (net.Listener, error) { return network.Listen(fmt.Sprintf("broker-%d:9092", node)) }
	play(t, testbroker.Config{Listen: listen}, func(w *world) {
		w.network = network
		for linger, lag := range map[time.Duration]time.Duration{0: 5 * time.Millisecond, producer.NoLinger: 0} {
			p := w.producer(func(c *producer.Config) { c.Linger = linger })
			w.warm(p, 0)
			for i := range 200 {
				began := time.Now()
				w.acked(w.send(p, to(0, "heard of %v %d", linger, i)))
				assert.Equal(t, lag+rtt, time.Since(began))

				began = time.Now()
				r := to(0, "waited for %v %d", linger, i)
				_, err := w.sendWait(p, r)
				require.NoError(t, err)
				assert.Equal(t, rtt, time.Since(began))
			}
		}
	})
}

// FC-112: the first record of a producer, and of a topic, waits for nothing but the answers it needs.
func TestFC112FirstRecord(t *testing.T) {
	fault := func(*testbroker.Request) testbroker.Verdict { return testbroker.Hold(5 * time.Millisecond) }
	topics := []testbroker.Topic{{Name: T}, {Name: "second"}}
	play(t, testbroker.Config{Fault: fault, Topics: topics}, func(w *world) {
		for i := range 50 {
			p := w.producer(nil)
			w.within(60*time.Millisecond, "the first record", func() { w.acked(w.send(p, to(0, "%d", i))) })
			time.Sleep(time.Duration(i) * 7 * time.Millisecond) // nothing depends on when it is
			r := record{Topic: "second", Value: fmt.Append(nil, i)}
			w.within(30*time.Millisecond, "the first record of a topic", func() { w.acked(w.send(p, r)) })
			require.NoError(t, w.close(p, time.Second))
		}
	})
}

// FC-113: Flushes that have ended, were given up, or came with records that failed leave nothing behind: batches linger
// afterwards as they did before. (Commits come with transactions.)
func TestFC113FlushDoesNotEndLinger(t *testing.T) {
	play(t, testbroker.Config{}, func(w *world) {
		p := w.producer(func(c *producer.Config) { c.Linger = 100 * time.Millisecond })
		w.warm(p, 0)
		require.NoError(t, p.Flush(context.Background()))
		w.send(p, to(0, "flushed"))
		require.NoError(t, p.Flush(context.Background()))
		w.Cluster().SetFault(testbroker.Script(protocol.KeyProduce, testbroker.Hold(400*time.Millisecond), testbroker.Answer(protocol.InvalidRecord)))
		held := w.send(p, to(0, "held"))
		ctx, cancel := context.WithTimeout(context.Background(), 50*time.Millisecond)
		defer cancel()
		assert.ErrorIs(t, p.Flush(ctx), context.DeadlineExceeded)
		w.acked(held)
		refused := w.send(p, to(0, "refused"))
		require.NoError(t, p.Flush(context.Background()))
		_, err := refused.wait()
		assert.ErrorIs(t, err, producer.InvalidRecord)

		before, began := len(w.batches(0)), time.Now()
		var all []*sent
		for i := range 50 {
			all = append(all, w.send(p, to(0, "%d", i)))
			time.Sleep(time.Millisecond)
		}
		w.acked(all...)
		assert.Equal(t, 100*time.Millisecond, time.Since(began))
		batches := w.batches(0)[before:]
		require.Len(t, batches, 1)
		assert.EqualValues(t, 50, batches[0].Count)
	})
}

// FC-114: when somebody waits for memory, batches do not linger.
func TestFC114NobodyLingersWhileOthersWait(t *testing.T) {
	play(t, testbroker.Config{}, func(w *world) {
		p := w.producer(func(c *producer.Config) {
			c.Linger, c.DeliveryTimeout, c.BufferMemory = 10*time.Second, 20*time.Second, 16<<10 // five records
		})
		w.warm(p, 0)
		began := time.Now()
		var all []*sent
		for i := range 11 {
			w.within(200*time.Millisecond, "Send", func() { all = append(all, w.send(p, to(0, "%03000d", i))) })
		}
		require.NoError(t, p.Flush(context.Background()))
		w.acked(all...)
		assert.Less(t, time.Since(began), 500*time.Millisecond)
	})
}

// FC-115: Flush and Close send at once what lingers, and wait for no more than what was there.
func TestFC115FlushAndCloseDoNotLinger(t *testing.T) {
	play(t, testbroker.Config{Partitions: 3}, func(w *world) {
		p := w.producer(func(c *producer.Config) { c.Linger, c.DeliveryTimeout = 30*time.Second, time.Minute })
		sendThree := func(what string) (all []*sent) {
			for i := range int32(3) {
				all = append(all, w.send(p, to(i, "%s %d", what, i)))
			}
			return all
		}
		all := sendThree("flushed")
		w.within(100*time.Millisecond, "Flush", func() { require.NoError(t, p.Flush(context.Background())) })
		w.acked(all...)

		stop := make(chan struct{})
		stopped := make(chan struct{})
		go func() {
			defer close(stopped)
			for i := 0; ; i++ {
				select {
				case <-stop:
					return
				case <-time.After(100 * time.Microsecond):
					w.sendFrom("others", context.Background(), p, to(int32(i%3), "others %d", i), nil)
				}
			}
		}()
		for range 5 {
			w.within(200*time.Millisecond, "Flush", func() { require.NoError(t, p.Flush(context.Background())) })
			time.Sleep(20 * time.Millisecond)
		}
		close(stop)
		<-stopped

		all = sendThree("closed")
		w.within(200*time.Millisecond, "Close", func() { require.NoError(t, w.close(p, 5*time.Second)) })
		w.acked(all...)
	})
}

// FC-116: a batch that failed at a leader which is known to be another by then is sent to that one at once; with the same leader
// it waits for its back-off.
func TestFC116NewLeaderNeedsNoBackOff(t *testing.T) {
	late := testbroker.Verdict{Skip: true, Hold: 1500 * time.Millisecond, Code: protocol.NotLeaderOrFollower}
	gone := testbroker.Verdict{Skip: true, Hold: 1500 * time.Millisecond, Drop: testbroker.DropFIN}
	for name, verdict := range map[string]testbroker.Verdict{"refused": late, "dropped": gone} {
		for _, moves := range []bool{true, false} {
			t.Run(fmt.Sprint(name, ", the leader moves: ", moves), func(t *testing.T) {
				play(t, testbroker.Config{Nodes: 2, Partitions: 2}, func(w *world) {
					p := w.producer(func(c *producer.Config) {
						c.RetryBackoff, c.RetryBackoffMax, c.MetadataMaxAge = time.Second, time.Second, 100*time.Millisecond
						c.RequestTimeout, c.DeliveryTimeout = 3*time.Second, 10*time.Second
					})
					w.warm(p, 0, 1) // who has nothing in flight is asked for metadata
					w.Cluster().SetFault(testbroker.Script(protocol.KeyProduce, verdict))
					s := w.send(p, to(0, "a"))
					time.Sleep(50 * time.Millisecond)
					failed := time.Now().Add(1455 * time.Millisecond) // five of linger, and the hold, in which metadata is refreshed
					if moves {
						require.NoError(t, w.MoveLeader(T, 0, 2))
					}
					w.acked(s)
					synctest.Wait()
					all := w.requests(protocol.KeyProduce)
					again := all[len(all)-1]
					if moves {
						assert.EqualValues(t, 2, again.Node)
						assert.Less(t, again.At.Sub(failed), 50*time.Millisecond)
					} else {
						assert.EqualValues(t, 1, again.Node)
						assert.GreaterOrEqual(t, again.At.Sub(failed), 800*time.Millisecond)
					}
				})
			})
		}
	}
}
