package producer_test

import (
	"context"
	"fmt"
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

// Which partition a record goes to.

// keyPartition is where Java's producer puts a key.
func keyPartition(key string, partitions int) int32 {
	return (partitioner.Murmur2([]byte(key)) & 0x7fffffff) % int32(partitions)
}

// S-34, S-37: a key is hashed over all partitions, those without a leader included, and over as many as there are now:
// when the topic grows, keys move, because nothing remembers where they went.
func TestKeysAreHashedOverAllPartitions(t *testing.T) {
	inLab(t, testbroker.Config{Topics: []testbroker.Topic{{Name: "t", Partitions: 6}}}, func(t *testing.T, l *lab) {
		require.NoError(t, l.MoveLeader("t", 3, testbroker.NoLeader))
		p := l.texts(t, func(c *producer.Config) { c.MetadataMaxAge = time.Minute })
		type sent struct {
			producer.Future
			want int32
		}
		var all []sent
		send := func(partitions int) {
			for i := range 60 {
				key := fmt.Sprint("key-", i)
				all = append(all, sent{p.Send(t.Context(), producer.Record[string, string]{Topic: "t", Key: key, Value: key}), keyPartition(key, partitions)})
			}
		}
		send(6)
		require.NoError(t, l.MoveLeader("t", 3, 1))
		require.NoError(t, l.Cluster().AddPartitions("t", 7))
		time.Sleep(2 * time.Minute) // the metadata is older than MetadataMaxAge, and has been asked for anew
		send(7)
		for i, s := range all {
			m, err := s.Wait(t.Context())
			require.NoError(t, err)
			assert.Equal(t, s.want, m.Partition, "record %d", i)
		}
		end(t, p)
	})
}

// S-35: records without a key stay on a partition until it got PartitionerStickyBytes; RoundRobin changes with each.
func TestRecordsWithoutKeys(t *testing.T) {
	inLab(t, testbroker.Config{Topics: []testbroker.Topic{{Name: "sticky", Partitions: 4}, {Name: "round", Partitions: 4}, {Name: "keyed", Partitions: 4}}}, func(t *testing.T, l *lab) {
		const threshold, size = 150, 20
		send := func(p *producer.KafkaProducer[[]byte, []byte], topic string, key []byte) []int32 {
			var parts []int32
			for range 300 {
				m, err := p.Send(t.Context(), producer.Record[[]byte, []byte]{Topic: topic, Key: key, Value: make([]byte, size)}).Wait(t.Context())
				require.NoError(t, err)
				parts = append(parts, m.Partition)
			}
			return parts
		}
		c := l.config
		c.PartitionerStickyBytes = threshold
		p, err := producer.New(c, producer.Bytes(), producer.Bytes())
		require.NoError(t, err)
		run, used := 0, map[int32]bool{}
		parts := send(p, "sticky", nil)
		for i, part := range parts {
			used[part] = true
			if run++; i+1 < len(parts) && parts[i+1] != part {
				assert.GreaterOrEqual(t, run*(size+15), threshold, "moved on after %d records", run)
				run = 0
			}
		}
		assert.Len(t, used, 4)
		end(t, p)

		// partitioner.ignore.keys: a key does not matter.
		c.PartitionerIgnoreKeys = true
		p, err = producer.New(c, producer.Bytes(), producer.Bytes())
		require.NoError(t, err)
		used = map[int32]bool{}
		for _, part := range send(p, "keyed", []byte("always the same")) {
			used[part] = true
		}
		assert.Len(t, used, 4)
		end(t, p)

		// RR-01, RR-02: in turn, whether there are keys or not.
		c = l.config
		c.Partitioner = new(partitioner.RoundRobin)
		p, err = producer.New(c, producer.Bytes(), producer.Bytes())
		require.NoError(t, err)
		for i, part := range append(send(p, "round", nil), send(p, "round", []byte("k"))...) {
			assert.EqualValues(t, i%4, part)
		}
		end(t, p)
	})
}

// RR-01: a partition without a leader gets nothing while others have one; S-36: when none has, records are taken all
// the same and spread over all of them.
func TestPartitionsWithoutLeaders(t *testing.T) {
	for _, tt := range []struct {
		name string
		part partitioner.Partitioner
	}{{"RoundRobin", new(partitioner.RoundRobin)}, {"sticky", nil}} {
		t.Run(tt.name, func(t *testing.T) {
			inLab(t, testbroker.Config{Partitions: 4, Topics: []testbroker.Topic{{Name: "some"}, {Name: "none"}}}, func(t *testing.T, l *lab) {
				require.NoError(t, l.MoveLeader("some", 2, testbroker.NoLeader))
				for i := range int32(4) {
					require.NoError(t, l.MoveLeader("none", i, testbroker.NoLeader))
				}
				c := l.config
				c.Partitioner, c.PartitionerStickyBytes = tt.part, 100
				p, err := producer.New(c, producer.Null(), producer.Bytes())
				require.NoError(t, err)
				send := func(topic string) producer.Future {
					return p.Send(t.Context(), producer.Record[struct{}, []byte]{Topic: topic, Value: make([]byte, 20)})
				}
				var wait []producer.Future
				for range 400 {
					_, err := send("some").Wait(t.Context())
					require.NoError(t, err)
					wait = append(wait, send("none"))
				}
				for i := range int32(4) {
					n := len(l.Cluster().Records("some", i))
					assert.Equal(t, i == 2, n == 0, "partition %d has %d", i, n)
					require.NoError(t, l.MoveLeader("none", i, 1))
				}
				for _, f := range wait {
					_, err := f.Wait(t.Context())
					require.NoError(t, err)
				}
				for i := range int32(4) {
					assert.NotEmpty(t, l.Cluster().Records("none", i), "partition %d", i)
				}
				end(t, p)
			})
		})
	}
}

// S-33, S-44, KP-23, KP-27: an explicit partition that the topic does not have yet is waited for, within MaxBlock; the
// error of a wait in vain says how many there are.
func TestPartitionBeyondTheCount(t *testing.T) {
	inLab(t, testbroker.Config{Partitions: 2}, func(t *testing.T, l *lab) {
		p := l.texts(t, func(c *producer.Config) { c.MaxBlock = 10 * time.Second })
		warmUp(t, p, "t")
		r := text("t", "v")
		r.Partition = producer.OnPartition(2)

		began := time.Now()
		m, err := p.Send(t.Context(), r).Wait(t.Context())
		assert.ErrorIs(t, err, producer.ErrMetadataTimeout)
		assert.ErrorContains(t, err, "partition 2 of topic t")
		assert.ErrorContains(t, err, "2 partitions")
		assert.Equal(t, 10*time.Second, time.Since(began))
		assert.Equal(t, producer.RecordMetadata{Topic: "t", Partition: 2, Offset: -1, KeySize: -1, ValueSize: -1}, m)

		go func() {
			time.Sleep(3 * time.Second)
			assert.NoError(t, l.Cluster().AddPartitions("t", 3))
		}()
		began = time.Now()
		m, err = p.Send(t.Context(), r).Wait(t.Context())
		require.NoError(t, err)
		assert.EqualValues(t, 2, m.Partition)
		assert.GreaterOrEqual(t, time.Since(began), 3*time.Second)
		assert.LessOrEqual(t, time.Since(began), 5*time.Second, "found by the next look, at most RetryBackoffMax and its jitter later")
		end(t, p)
	})
}

// A Partitioner sees serialized key and value, null as nil, and may leave the choice to the producer.
func TestCustomPartitioner(t *testing.T) {
	inLab(t, testbroker.Config{Partitions: 3}, func(t *testing.T, l *lab) {
		var key, value []byte
		choice := int32(2)
		c := l.config
		c.Partitioner = partitionerFunc(func(k, v []byte) int32 {
			key, value = k, v
			return choice
		})
		p, err := producer.New(c, producer.Bytes(), producer.Bytes())
		require.NoError(t, err)
		m, err := p.Send(t.Context(), producer.Record[[]byte, []byte]{Topic: "t", Value: []byte{}}).Wait(t.Context())
		require.NoError(t, err)
		assert.EqualValues(t, 2, m.Partition)
		assert.Nil(t, key)
		assert.NotNil(t, value)
		assert.Empty(t, value)
		choice = partitioner.Any
		m, err = p.Send(t.Context(), producer.Record[[]byte, []byte]{Topic: "t", Key: []byte("k")}).Wait(t.Context())
		require.NoError(t, err)
		assert.GreaterOrEqual(t, m.Partition, int32(0))
		assert.Equal(t, "k", string(key))
		assert.Nil(t, value)
		choice = 99 // not asked about a record that names its partition
		m, err = p.Send(t.Context(), producer.Record[[]byte, []byte]{Topic: "t", Partition: producer.OnPartition(1)}).Wait(t.Context())
		require.NoError(t, err)
		assert.EqualValues(t, 1, m.Partition)
		end(t, p)
	})
}

// KP-38, S-38: PartitionsFor tells what metadata tells, waits for a topic as Send does, and refuses one without a name.
func TestPartitionsFor(t *testing.T) {
	inLab(t, testbroker.Config{Nodes: 3, Partitions: 3}, func(t *testing.T, l *lab) {
		p := l.texts(t, func(c *producer.Config) { c.MaxBlock = 5 * time.Second })
		infos, err := p.PartitionsFor(t.Context(), "t")
		require.NoError(t, err)
		require.Len(t, infos, 3)
		for i, info := range infos {
			assert.Equal(t, "t", info.Topic)
			assert.EqualValues(t, i, info.Partition)
			assert.EqualValues(t, i+1, info.Leader)
			assert.GreaterOrEqual(t, info.LeaderEpoch, int32(0))
			assert.Len(t, info.Replicas, 3)
			assert.Len(t, info.InSync, 3)
			assert.Empty(t, info.Offline)
		}
		_, err = p.PartitionsFor(t.Context(), "")
		assert.ErrorIs(t, err, producer.InvalidTopicException)
		ctx, cancel := context.WithCancelCause(t.Context())
		cancel(assert.AnError)
		_, err = p.PartitionsFor(ctx, "another")
		assert.ErrorIs(t, err, assert.AnError)
		l.Cluster().SetTopicError("another", protocol.UnknownTopicOrPartition)
		began := time.Now()
		_, err = p.PartitionsFor(t.Context(), "another")
		assert.ErrorIs(t, err, producer.ErrMetadataTimeout)
		assert.Equal(t, 5*time.Second, time.Since(began))
		failed := async(func() {
			_, err := p.PartitionsFor(context.Background(), "another")
			assert.ErrorIs(t, err, producer.ErrClosed)
		})
		synctest.Wait()
		end(t, p)
		<-failed
	})
}

// partitionerFunc is a Partitioner of a function.
type partitionerFunc func(key, value []byte) int32

func (f partitionerFunc) Partition(_ string, key, value []byte, _ partitioner.Partitions) int32 {
	return f(key, value)
}

// S-33: an explicit partition is used although nobody leads it now, and the record waits for a leader.
func TestExplicitPartitionWithoutLeader(t *testing.T) {
	inLab(t, testbroker.Config{Nodes: 2, Replicas: 1, Topics: []testbroker.Topic{{Name: "t", Leaders: []int32{1, 2}}}},
		func(t *testing.T, l *lab) {
			p := l.texts(t, nil)
			require.NoError(t, l.StopNode(2))
			r := text("t", "v")
			r.Partition = producer.OnPartition(1)
			f := p.Send(t.Context(), r)
			time.Sleep(10 * time.Second)
			select {
			case <-f.Done():
				t.Fatal("settled without a leader")
			default:
			}
			require.NoError(t, l.StartNode(2))
			m, err := f.Wait(t.Context())
			require.NoError(t, err)
			assert.EqualValues(t, 1, m.Partition)
			end(t, p)
		})
}
