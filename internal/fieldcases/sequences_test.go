package fieldcases

import (
	"context"
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/kafka-reservoir/producer"
	"github.com/kafka-reservoir/producer/internal/testbroker"
	"github.com/kafka-reservoir/producer/protocol"
)

// Sequences and epochs: which batch gets which, and when they begin anew.

// stamp is where a batch stands in its partition's sequence.
type stamp struct {
	epoch    int16
	sequence int32
}

// stamps are those of the batches that came in for a partition of T, in order, repeats included.
func (w *world) stamps(partition int32) []stamp {
	var all []stamp
	for _, b := range w.batches(partition) {
		all = append(all, stamp{b.ProducerEpoch, b.BaseSequence})
	}
	return all
}

// FC-003: records that expire without having been sent take no sequences with them.
func TestFC003UnsentRecordsUseNoSequences(t *testing.T) {
	play(t, testbroker.Config{Partitions: 2}, func(w *world) {
		p := w.producer(nil)
		w.warm(p, 1) // there is a producer id
		w.outage(1, testbroker.DropFIN)
		var all []*sent
		for i := range 5 {
			all = append(all, w.send(p, to(0, "r%d", i)))
		}
		time.Sleep(3 * time.Second * 3 / 2)
		for _, s := range all {
			require.True(t, s.known())
			assert.ErrorIs(t, s.err, producer.ErrDeliveryTimeout)
			assert.False(t, producer.MayHaveBeenWritten(s.err))
		}
		require.NoError(t, w.Accept(1))
		w.acked(w.send(p, to(0, "r5")))
		assert.Equal(t, []stamp{{0, 0}}, w.stamps(0), "at the first attempt")
		assert.Equal(t, []string{"r5"}, w.values(0))
	})
}

// FC-004: a batch expires and nobody knows whether it was written: its sequence is burnt, and what comes after it goes on under the next epoch.
func TestFC004ExpiredInDoubt(t *testing.T) {
	for name, silence := range map[string]testbroker.Verdict{"not appended": testbroker.MuteBefore(), "appended": testbroker.MuteAfter()} {
		t.Run(name, func(t *testing.T) {
			play(t, testbroker.Config{}, func(w *world) {
				p := w.producer(func(c *producer.Config) { c.DeliveryTimeout = 800 * time.Millisecond })
				w.acked(w.send(p, to(0, "b0")))
				w.Cluster().SetFault(produces(func(_ int, r *testbroker.Request) testbroker.Verdict {
					if b := r.Batches[0]; b.ProducerEpoch == 0 && b.BaseSequence == 1 {
						return silence
					}
					return testbroker.Verdict{}
				}))
				b1 := w.send(p, to(0, "b1"))
				time.Sleep(600 * time.Millisecond) // sent twice by now
				b2 := w.send(p, to(0, "b2"))
				began := time.Now()
				_, err := b1.wait()
				assert.ErrorIs(t, err, producer.ErrDeliveryTimeout)
				assert.True(t, producer.MayHaveBeenWritten(err))
				assert.Equal(t, 200*time.Millisecond, time.Since(began))
				w.acked(b2)
				assert.Equal(t, []stamp{{0, 0}, {0, 1}, {0, 1}, {1, 0}}, w.stamps(0))
				want := []string{"b0", "b2"}
				if !silence.Skip {
					want = []string{"b0", "b1", "b2"}
				}
				assert.Equal(t, want, w.values(0))
			})
		})
	}
}

// FC-005: errors 7 and 20 leave open whether the batch was written. Its sequence never comes with other bytes, also when the record is
// given up. (Here the end of the caller's ctx does not give it up: Send has returned.)
func TestFC005SequenceInDoubtIsNotGivenAway(t *testing.T) {
	for _, code := range []protocol.ErrorCode{protocol.RequestTimedOut, protocol.NotEnoughReplicasAfterAppend} {
		for _, retries := range []int{1, 0} {
			t.Run(fmt.Sprintf("%v/retries=%d", code.Name(), retries), func(t *testing.T) {
				play(t, testbroker.Config{}, func(w *world) {
					w.Cluster().SetFault(testbroker.Script(protocol.KeyProduce, testbroker.AnswerAfterAppend(code), testbroker.Answer(protocol.NotLeaderOrFollower)))
					p := w.producer(func(c *producer.Config) { c.Retries = retries })
					ctx, cancel := context.WithCancel(context.Background())
					a := w.sendFrom("", ctx, p, to(0, "A"), nil)
					time.Sleep(7 * time.Millisecond) // answered once
					cancel()
					_, err := a.wait()
					if retries > 0 {
						require.ErrorIs(t, err, protocol.NotLeaderOrFollower)
						assert.True(t, producer.MayHaveBeenWritten(err))
					} else {
						require.NoError(t, err)
					}
					w.acked(w.send(p, to(0, "B")))
					assert.Equal(t, []string{"A", "B"}, w.values(0))
				})
			})
		}
	}
}

// FC-006: a partition's sequences outlive its metadata: the topic vanishes from it, and comes back.
func TestFC006SequencesOutliveMetadata(t *testing.T) {
	for _, answers := range []int64{3, 10} { // with 10 the topic is taken for gone
		t.Run(fmt.Sprint(answers), func(t *testing.T) {
			play(t, testbroker.Config{Nodes: 2}, func(w *world) {
				p := w.producer(func(c *producer.Config) { oneEach(c); c.MetadataMaxAge = 100 * time.Millisecond })
				var all []*sent
				send := func(n int) {
					for range n {
						all = append(all, w.send(p, to(0, "%d", len(all))))
						w.acked(all[len(all)-1])
					}
				}
				send(10)
				var unknown atomic.Int64
				w.Cluster().SetFault(func(r *testbroker.Request) testbroker.Verdict {
					if r.API == protocol.KeyMetadata && len(r.Topics) > 0 && unknown.Add(1) <= answers {
						return testbroker.Answer(protocol.UnknownTopicOrPartition)
					}
					return testbroker.Verdict{}
				})
				for unknown.Load() < answers {
					time.Sleep(time.Millisecond)
				}
				send(5)
				assert.Equal(t, numbers(15), w.values(0))
				next := w.stamps(0)[10]
				assert.True(t, next == stamp{0, 10} || next.epoch > 0 && next.sequence == 0, "%v", next)
				for i, s := range all {
					assert.Equal(t, int64(i), s.meta.Offset)
				}
			})
		})
	}
}

// FC-007, KAFKA-12152: one partition's gap moves the epoch on once; the others adopt it when their turn comes, and begin at 0.
func TestFC007OneGapMovesTheEpochOnce(t *testing.T) {
	play(t, testbroker.Config{Partitions: 4}, func(w *world) {
		p := w.producer(nil)
		for range 3 {
			w.warm(p, 0, 1, 2, 3)
		}
		w.Cluster().SetFault(testbroker.Script(protocol.KeyProduce, testbroker.Answer(protocol.OutOfOrderSequenceNumber)))
		w.acked(w.send(p, to(0, "refused")))
		for range 2 { // the second goes on where the first began
			for partition := range int32(4) {
				w.acked(w.send(p, to(partition, "after-%d-%d", partition, len(w.book))))
			}
		}
		assert.Equal(t, 1, w.answered(protocol.OutOfOrderSequenceNumber))
		assert.Equal(t, []stamp{{0, 0}, {0, 1}, {0, 2}, {0, 3}, {1, 0}, {1, 1}, {1, 2}}, w.stamps(0))
		for partition := int32(1); partition < 4; partition++ {
			assert.Equal(t, []stamp{{0, 0}, {0, 1}, {0, 2}, {1, 0}, {1, 1}}, w.stamps(partition))
		}
		assert.Len(t, w.requests(protocol.KeyInitProducerID), 1)
	})
}
