package fieldcases

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/kafka-reservoir/producer"
	"github.com/kafka-reservoir/producer/internal/testbroker"
	"github.com/kafka-reservoir/producer/protocol"
)

// Topics with impossible names, that do not exist yet, or exist again.

// FC-058: a name that cannot be fails at once, whether the producer or the broker says so, and is not asked for again;
// others do not notice.
func TestFC058ImpossibleNames(t *testing.T) {
	play(t, testbroker.Config{AutoCreate: testbroker.AutoCreateAtOnce}, func(w *world) {
		p := w.producer(func(c *producer.Config) { c.MaxBlock, c.MetadataMaxAge = 30*time.Second, time.Second })
		w.warm(p, 0)
		good := func() {
			w.within(5*time.Millisecond, "a record for a good topic, which lingers,", func() { w.acked(w.sendFrom("good", context.Background(), p, to(0, "good-%d", len(w.book)), nil)) })
		}
		refused := func(name string) {
			w.within(0, "the refusal", func() {
				_, err := w.send(p, record{Topic: name, Value: []byte(name)}).wait()
				assert.ErrorIs(t, err, producer.InvalidTopicException, "%.20q", name)
				assert.False(t, producer.IsRetriable(err))
			})
		}
		for _, name := range []string{"", ".", "..", "a b", "a/b", "a*", strings.Repeat("x", 250), "tschüß"} {
			refused(name)
			good()
			assert.Empty(t, w.asks(name))
		}
		w.Cluster().SetTopicError("strange", protocol.InvalidTopicException)
		refused("strange")
		assert.Len(t, w.asks("strange"), 1)
		long := strings.Repeat("x", 249)
		w.acked(w.send(p, record{Topic: long, Value: []byte("249")}))
		asked := len(w.asks(T))
		time.Sleep(5 * time.Second) // refreshes
		assert.Greater(t, len(w.asks(T)), asked+3)
		assert.Len(t, w.asks("strange"), 1)
		good()
	})
}

// FC-059: a topic that was deleted and made anew is another topic, whose epochs begin again, known by its id or, where there
// are none, by enough answers that agree. Records go on there, in order and once.
func TestFC059TopicMadeAnew(t *testing.T) {
	for _, g := range []*testbroker.Generation{testbroker.Kafka44, testbroker.Kafka28, testbroker.Kafka11} { // Metadata v13, v11, v5
		t.Run(g.Name, func(t *testing.T) {
			play(t, testbroker.Config{Nodes: 2, Generation: g, AutoCreate: testbroker.AutoCreateOff}, func(w *world) {
				w.mayLose = true // with the old topic
				for range 6 {
					require.NoError(t, w.MoveLeader(T, 0, 2))
					require.NoError(t, w.MoveLeader(T, 0, 1))
				}
				p := w.producer(func(c *producer.Config) { c.DeliveryTimeout = 5 * time.Second })
				w.warm(p, 0)
				var all []*sent
				traffic := func(over func() bool) {
					for !over() {
						all = append(all, w.send(p, to(-1, "%d", len(w.book))))
						time.Sleep(5 * time.Millisecond)
					}
				}
				during := func(d time.Duration) func() bool {
					end := time.Now().Add(d)
					return func() bool { return !time.Now().Before(end) }
				}
				traffic(during(100 * time.Millisecond))
				w.acked(all...)

				asked := len(w.asks(T))
				require.NoError(t, w.Cluster().DeleteTopic(T))
				traffic(func() bool { return len(w.asks(T)) >= asked+3 }) // three answers that there is none
				require.NoError(t, w.Cluster().CreateTopic(testbroker.Topic{Name: T, Partitions: 1, Leaders: []int32{2}}))
				began := time.Now()
				traffic(func() bool { return len(w.values(0)) > 0 })
				assert.LessOrEqual(t, time.Since(began), time.Second)
				traffic(during(time.Second))
				w.acked(all[len(all)-100:]...)
				var fatal []error
				for _, s := range all {
					if _, err := s.wait(); producer.IsFatal(err) {
						fatal = append(fatal, err)
					}
				}
				assert.Empty(t, fatal)
				assert.Greater(t, len(w.values(0)), 200)
			})
		})
	}
}

// FC-060: a topic that the broker makes on demand gets its first record after ordinary back-offs, whatever the order of the
// answers in the meantime; the request says that it may be made. One that is never made fails after MaxBlock, with the
// broker's reason. (No setting has the request say otherwise, as in Java; package metadata could.)
func TestFC060TopicMadeOnDemand(t *testing.T) {
	const name = "new"
	play(t, testbroker.Config{AutoCreate: testbroker.AutoCreateAtOnce}, func(w *world) {
		codes := []protocol.ErrorCode{protocol.UnknownTopicOrPartition, protocol.LeaderNotAvailable, protocol.LeaderNotAvailable}
		var refused atomic.Bool
		w.Cluster().SetFault(func(r *testbroker.Request) testbroker.Verdict {
			switch {
			case r.API == protocol.KeyMetadata && slices.Contains(r.Topics, name) && len(codes) > 0:
				code := codes[0]
				codes = codes[1:]
				return testbroker.Answer(code)
			case r.API == protocol.KeyProduce && refused.CompareAndSwap(false, true):
				return testbroker.Answer(protocol.UnknownTopicOrPartition)
			}
			return testbroker.Verdict{}
		})
		p := w.producer(nil)
		w.within(4*100*time.Millisecond+200*time.Millisecond, "the first record", func() {
			w.acked(w.send(p, record{Topic: name, Value: []byte("first")}))
		})
		assert.True(t, refused.Load())
		assert.GreaterOrEqual(t, len(w.asks(name)), 4)
		for _, r := range w.asks(name) {
			assert.True(t, r.AllowAutoTopicCreation)
		}
		time.Sleep(time.Second) // the refusal had it asked for once more, and perhaps not by then
		asked := len(w.asks(name))
		w.acked(w.send(p, record{Topic: name, Value: []byte("second")}))
		assert.Len(t, w.asks(name), asked)
	})
	play(t, testbroker.Config{AutoCreate: testbroker.AutoCreateOff}, func(w *world) {
		p := w.producer(nil)
		took := w.within(time.Second, "the failure", func() {
			_, err := w.send(p, record{Topic: name, Value: []byte("never")}).wait()
			assert.ErrorIs(t, err, producer.ErrMetadataTimeout)
			assert.ErrorIs(t, err, producer.UnknownTopicOrPartition)
			assert.ErrorContains(t, err, fmt.Sprint("topic ", name))
			assert.True(t, producer.IsRetriable(err))
		})
		assert.Equal(t, time.Second, took, "MaxBlock")
	})
}
