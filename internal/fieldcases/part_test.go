package fieldcases

import (
	"context"
	"fmt"
	"math"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/kafka-reservoir/producer"
	"github.com/kafka-reservoir/producer/internal/testbroker"
	"github.com/kafka-reservoir/producer/partitioner"
	"github.com/kafka-reservoir/producer/protocol"
)

// Which partition a record goes to, while brokers are slow or gone and topics grow.

// asks are the Metadata requests that name a topic, oldest first.
func (w *world) asks(topic string) []*testbroker.Request {
	return slices.DeleteFunc(w.requests(protocol.KeyMetadata), func(r *testbroker.Request) bool { return !slices.Contains(r.Topics, topic) })
}

// hash is where a key goes.
func hash(key []byte, partitions int) int32 {
	return (partitioner.Murmur2(key) & math.MaxInt32) % int32(partitions)
}

// FC-053: with a slow broker, each partition gets the same share of the records without a key when they are not spread by
// load, and the slow one gets less when they are; one whose broker takes nothing gets none soon, and its share again later.
func TestFC053SlowBroker(t *testing.T) {
	three := testbroker.Config{Nodes: 3, Topics: []testbroker.Topic{{Name: T, Leaders: []int32{1, 2, 3}}}, JournalLimit: -1}
	// rain sends n records of 100 bytes a millisecond for so long.
	rain := func(w *world, p kafka, n int, d time.Duration) (all []*sent) {
		for end := time.Now().Add(d); time.Now().Before(end); time.Sleep(time.Millisecond) {
			for range n {
				all = append(all, w.send(p, to(-1, "%0100d", len(w.book))))
			}
		}
		return all
	}
	// shares are what each partition got of them.
	shares := func(w *world, all []*sent) (share [3]float64) {
		for _, s := range all {
			m, err := s.wait()
			require.NoError(w.t, err)
			share[m.Partition] += 1 / float64(len(all))
		}
		return share
	}
	// The slow broker can take 200 KB a second, and a third of the rain is more than 350.
	for _, adaptive := range []bool{false, true} {
		t.Run(fmt.Sprint("adaptive=", adaptive), func(t *testing.T) {
			play(t, three, func(w *world) {
				p := w.producer(func(c *producer.Config) {
					// Each record moves on: the shares of few are as even as those of many.
					c.DisableAdaptivePartitioning, c.PartitionerStickyBytes = !adaptive, 1
				})
				w.warm(p, 0, 1, 2)
				w.Cluster().SetFault(func(r *testbroker.Request) testbroker.Verdict {
					if r.API == protocol.KeyProduce && r.Node == 3 {
						return testbroker.Hold(400 * time.Millisecond)
					}
					return testbroker.Verdict{}
				})
				share := shares(w, rain(w, p, 10, time.Second))
				if adaptive {
					assert.Less(t, share[2], 0.25)
					assert.InDelta(t, share[0], share[1], 0.05)
					return
				}
				for i := range share {
					assert.InDelta(t, 1.0/3, share[i], 0.05, "partition %d", i)
				}
			})
		})
	}
	t.Run("stalled", func(t *testing.T) {
		play(t, three, func(w *world) {
			p := w.producer(func(c *producer.Config) {
				c.PartitionerAvailabilityTimeout, c.PartitionerStickyBytes = 500*time.Millisecond, 400
				c.DeliveryTimeout, c.BufferMemory = 20*time.Second, 64<<20
			})
			w.warm(p, 0, 1, 2)
			w.network.BlackHole(w.Addr(3), true)
			rain(w, p, 5, time.Second)
			stalled := rain(w, p, 5, 500*time.Millisecond)
			w.network.BlackHole(w.Addr(3), false)
			back := rain(w, p, 5, time.Second)
			assert.Zero(t, shares(w, stalled)[2])
			assert.Greater(t, shares(w, back[len(back)/2:])[2], 0.2)
			w.acked(w.book...)
		})
	})
}

// FC-054: a partition that is not known yet is asked for, once if it is there by then; one that does not exist fails after
// MaxBlock with an error that names it and how many there are. Nobody else waits.
func TestFC054PartitionNotKnownYet(t *testing.T) {
	play(t, testbroker.Config{Partitions: 2}, func(w *world) {
		p := w.producer(func(c *producer.Config) { c.MaxBlock = 400 * time.Millisecond })
		w.warm(p, 0, 1)
		require.NoError(t, w.Cluster().AddPartitions(T, 3))
		asked := len(w.requests(protocol.KeyMetadata))
		w.acked(w.send(p, to(2, "new")))
		assert.Len(t, w.requests(protocol.KeyMetadata), asked+1)

		began := time.Now()
		go func() {
			s := w.sendFrom("nowhere", context.Background(), p, to(50, "nowhere"), nil)
			assert.Equal(t, 400*time.Millisecond, time.Since(began))
			_, err := s.wait()
			assert.ErrorIs(t, err, producer.ErrMetadataTimeout)
			assert.ErrorContains(t, err, "partition 50 of topic t")
			assert.ErrorContains(t, err, "3 partitions")
		}()
		for i := range 60 {
			w.within(0, "a Send to a partition that exists", func() { w.send(p, to(int32(i%3), "%d", i)) })
			time.Sleep(7 * time.Millisecond)
		}
		w.acked(slices.DeleteFunc(slices.Clone(w.book), func(s *sent) bool { return s.from == "nowhere" })...)
		synctest.Wait()
	})
}

// chooser is a Partitioner that does what it is told.
type chooser struct{ choice int32 }

func (c *chooser) Partition(string, []byte, []byte, partitioner.Partitions) int32 { return c.choice }

// FC-055: a partition that cannot be, from the record or the Partitioner, fails that record alone, with an error that can be told.
func TestFC055ImpossiblePartition(t *testing.T) {
	play(t, testbroker.Config{Partitions: 3}, func(w *world) {
		c := &chooser{choice: 1}
		p := w.producer(func(config *producer.Config) { config.Partitioner = c })
		good := []*sent{w.send(p, to(-1, "chosen"))}
		refused := func(r record, says string) {
			_, err := w.send(p, r).wait()
			assert.ErrorIs(t, err, producer.ErrInvalidPartition)
			assert.ErrorContains(t, err, says)
			assert.False(t, producer.IsRetriable(err))
			assert.False(t, producer.IsFatal(err))
			assert.False(t, producer.MayHaveBeenWritten(err))
			good = append(good, w.send(p, to(0, "after %d", len(w.book))))
		}
		for _, n := range []int32{-5, -1, math.MinInt32} {
			r := to(-1, "%d", n)
			r.Partition = producer.OnPartition(n) // -1 too: unset is the zero value
			refused(r, "negative")
		}
		for _, n := range []int32{-2, math.MinInt32, 3, math.MaxInt32} {
			c.choice = n
			refused(to(-1, "chosen %d", n), fmt.Sprintf("partition %d of 3", n))
		}
		c.choice = partitioner.Any // -1: the producer chooses
		good = append(good, w.send(p, to(-1, "any")))
		w.acked(good...)
	})
}

// FC-056: a topic that grows is noticed by the regular refresh: records without a key reach the new partitions, and those
// with one are spread over all, while the old partitions go on in order.
func TestFC056TopicGrows(t *testing.T) {
	play(t, testbroker.Config{Nodes: 2, Partitions: 2}, func(w *world) {
		const age = 300 * time.Millisecond
		p := w.producer(func(c *producer.Config) { c.MetadataMaxAge, c.PartitionerStickyBytes = age, 1 })
		n := 0
		traffic := func(d time.Duration) (keyed []*sent) {
			for end := time.Now().Add(d); time.Now().Before(end); time.Sleep(5 * time.Millisecond) {
				n++
				w.send(p, to(-1, "null-%050d", n))
				r := to(-1, "keyed-%d", n)
				r.Key = fmt.Append(nil, "key-", n%50)
				keyed = append(keyed, w.send(p, r))
			}
			return keyed
		}
		lands := func(all []*sent, partitions int) {
			for _, s := range all {
				m, err := s.wait()
				require.NoError(t, err)
				assert.Equal(t, hash(s.record.Key, partitions), m.Partition)
			}
		}
		lands(traffic(time.Second), 2)
		require.NoError(t, w.Cluster().AddPartitions(T, 4))
		traffic(2 * age)
		for i := range int32(4) {
			assert.True(t, slices.ContainsFunc(w.values(i), func(v string) bool { return v[:4] == "null" }), "partition %d", i)
		}
		lands(traffic(time.Second), 4)
		w.acked(w.book...)
	})
}

// FC-057: partitions without a leader keep their records until there is one, with metadata requests that follow their back-off;
// records without a key go where there is a leader.
func TestFC057NoLeader(t *testing.T) {
	cluster := testbroker.Config{Nodes: 2, Partitions: 4}
	t.Run("anywhere", func(t *testing.T) {
		play(t, cluster, func(w *world) {
			p := w.producer(func(c *producer.Config) { c.DeliveryTimeout = 5 * time.Second })
			w.warm(p, 0, 1, 2, 3)
			for i := range int32(4) {
				require.NoError(t, w.MoveLeader(T, i, testbroker.NoLeader))
			}
			asked := len(w.requests(protocol.KeyMetadata))
			for i := range 80 {
				w.send(p, to(int32(i%5)-1, "%d", i))
				if i == 40 {
					w.calm(p, 400*time.Millisecond)
				}
				time.Sleep(5 * time.Millisecond)
			}
			assert.LessOrEqual(t, len(w.requests(protocol.KeyMetadata))-asked, 15)
			for i := range int32(4) {
				require.NoError(t, w.MoveLeader(T, i, i%2+1))
			}
			w.acked(w.book...)
		})
	})
	t.Run("one", func(t *testing.T) {
		play(t, cluster, func(w *world) {
			p := w.producer(func(c *producer.Config) { c.DeliveryTimeout = 5 * time.Second })
			w.warm(p, 0, 1, 2, 3)
			for i, at := 0, int32(-1); at != 1; i++ { // until records without a key stick to partition 1
				s := w.send(p, to(-1, "sticky-%01000d", i))
				m, err := s.wait()
				require.NoError(t, err)
				at = m.Partition
			}
			require.NoError(t, w.MoveLeader(T, 1, testbroker.NoLeader))
			keyed := to(-1, "keyed")
			for i := 0; keyed.Key == nil || hash(keyed.Key, 4) != 1; i++ {
				keyed.Key = fmt.Append(nil, "key-", i)
			}
			waits := w.send(p, keyed)
			time.Sleep(100 * time.Millisecond) // the broker has said that it does not lead it, and metadata that nobody does
			for i := range 100 {
				s := w.send(p, to(-1, "%050d", i))
				time.Sleep(5 * time.Millisecond)
				m, err := s.wait()
				require.NoError(t, err)
				assert.NotEqual(t, int32(1), m.Partition)
			}
			assert.False(t, waits.known())
			require.NoError(t, w.MoveLeader(T, 1, 2))
			w.acked(waits)
			m, _ := waits.wait()
			assert.EqualValues(t, 1, m.Partition)
		})
	})
}
