package fieldcases

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
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

// Records lost, doubled or out of order: what becomes of batches that are refused, lost, moved, split or overdue. Sequences and epochs
// are in sequences_test.go, what takes many records and much trouble is in turmoil_test.go.

// produces is a fault for Produce requests, told how many there have been.
func produces(verdict func(n int, r *testbroker.Request) testbroker.Verdict) func(*testbroker.Request) testbroker.Verdict {
	n := 0
	return func(r *testbroker.Request) testbroker.Verdict {
		if r.API != protocol.KeyProduce {
			return testbroker.Verdict{}
		}
		n++
		return verdict(n, r)
	}
}

// oneEach gives each record a batch of its own.
func oneEach(c *producer.Config) { c.BatchSize = 1 }

// arrivals are the Produce requests that came in, with what became of them, oldest first.
func (w *world) arrivals() []testbroker.Entry {
	return slices.DeleteFunc(w.Cluster().Requests(), func(e testbroker.Entry) bool { return e.Request.API != protocol.KeyProduce })
}

// answered is how often a partition was answered code.
func (w *world) answered(code protocol.ErrorCode) (n int) {
	for _, e := range w.arrivals() {
		for _, r := range e.Results {
			if r.Answer == code {
				n++
			}
		}
	}
	return n
}

// numbers are the numbers from 0 to n-1 as text.
func numbers(n int) []string {
	all := make([]string, n)
	for i := range all {
		all[i] = fmt.Sprint(i)
	}
	return all
}

// outage has a node refuse connections and drop those it has.
func (w *world) outage(node int32, how testbroker.Drop) {
	w.t.Helper()
	require.NoError(w.t, w.Refuse(node))
	w.CloseConns(node, how)
}

// FC-001: a new leader that may know nothing of the producer has one batch at a time until it has acknowledged one, so that no later
// batch overtakes one that it refused.
func TestFC001OneBatchUntilTheNewLeaderAcknowledges(t *testing.T) {
	play(t, testbroker.Config{Nodes: 2, NodeModels: map[int32]testbroker.LogModel{2: testbroker.Legacy}}, func(w *world) {
		p := w.producer(func(c *producer.Config) { c.BatchSize, c.MetadataMaxAge = 150, 100*time.Millisecond })
		w.warm(p, 0)
		first := true
		w.Cluster().SetFault(produces(func(_ int, r *testbroker.Request) testbroker.Verdict {
			if r.Node == 2 && first {
				first = false
				return testbroker.Verdict{Code: protocol.NotLeaderOrFollower, Hold: 150 * time.Millisecond}
			}
			return testbroker.Verdict{}
		}))
		require.NoError(t, w.MoveLeader(T, 0, 2))
		time.Sleep(150 * time.Millisecond) // it is known: the first batch at the new leader is no retry
		var all []*sent
		for i := range 200 {
			all = append(all, w.send(p, to(0, "%d", i)))
			if i%20 == 0 {
				time.Sleep(2 * time.Millisecond)
			}
		}
		w.acked(all...)
		assert.Equal(t, numbers(200), w.values(0)[1:])
		assert.Zero(t, w.answered(protocol.OutOfOrderSequenceNumber))
		var due time.Time // when the last one was answered
		for _, e := range w.arrivals() {
			if e.Request.Node != 2 {
				continue
			}
			assert.False(t, e.At.Before(due), "a second batch at %v, before the answer at %v", e.At, due)
			if due = e.Answered; e.Results[0].Answer == protocol.None {
				break
			}
		}
	})
}

// FC-002: one place gives out sequences, so that what was parked behind a retry goes through it as well.
func TestFC002ParkedBatchesAreNumbered(t *testing.T) {
	play(t, testbroker.Config{Fault: testbroker.Script(protocol.KeyProduce, testbroker.DropBefore())}, func(w *world) {
		p := w.producer(nil)
		all := []*sent{w.send(p, to(0, "0"))}
		time.Sleep(10 * time.Millisecond) // dropped by now, and backing off
		for i := 1; i <= 5; i++ {
			all = append(all, w.send(p, to(0, "%d", i)))
			time.Sleep(6 * time.Millisecond)
		}
		w.acked(all...)
		assert.Equal(t, []string{"0", "1", "2", "3", "4", "5"}, w.values(0))
		next := int32(0)
		for _, b := range w.batches(0)[1:] { // the first came twice
			assert.True(t, b.ProducerID >= 0 && b.ProducerEpoch >= 0)
			assert.Equal(t, next, b.BaseSequence)
			next += b.Count
		}
	})
}

// FC-009, KAFKA-16012: NOT_LEADER with the new leader's name sends the batch there at once, and changes nothing for other nodes and partitions.
func TestFC009LeaderHintIsAPatch(t *testing.T) {
	const oneWay = 10 * time.Millisecond
	play(t, testbroker.Config{Nodes: 3, Topics: []testbroker.Topic{{Name: T, Leaders: []int32{1, 2, 3}}}}, func(w *world) {
		for _, a := range w.Addrs() {
			w.network.SetLink(a, simnet.Link{Latency: oneWay})
		}
		p := w.producer(func(c *producer.Config) { c.Linger = time.Millisecond })
		w.warm(p, 0, 1, 2)
		connects := func() map[int32]int {
			n := map[int32]int{}
			for _, e := range w.Cluster().Journal(0) {
				if e.Kind == testbroker.EntryConnect {
					n[e.Node]++
				}
			}
			return n
		}
		before := connects()
		require.NoError(t, w.MoveLeader(T, 0, 2))
		moved := w.send(p, to(0, "moved"))
		for i := range 40 { // traffic on the others, and on the one that moved
			for partition := range int32(3) {
				began := time.Now()
				s := w.send(p, to(partition, "%d-%d", partition, i))
				if partition > 0 {
					w.acked(s)
					assert.LessOrEqual(t, time.Since(began), 2*oneWay+time.Millisecond, "partition %d was interrupted", partition)
				}
			}
		}
		w.acked(moved)
		var at []time.Time
		conns := map[int32]map[testbroker.ConnID]bool{1: {}, 2: {}, 3: {}}
		for _, e := range w.arrivals() {
			conns[e.Request.Node][e.Request.Conn] = true
			if b := e.Request.Batches[0]; b.Partition == 0 && b.BaseSequence == 1 {
				at = append(at, e.At)
			}
		}
		require.Len(t, at, 2, "refused once")
		assert.Equal(t, 2*oneWay, at[1].Sub(at[0]), "no time for a Metadata request or a back-off")
		assert.Equal(t, before, connects())
		for node, c := range conns {
			assert.Len(t, c, 1, "connections of node %d that were produced to", node)
		}
		// Node 3 is known still.
		seen := len(w.requests(protocol.KeyMetadata))
		require.NoError(t, w.StopNode(2))
		w.acked(w.send(p, to(0, "after 0")), w.send(p, to(1, "after 1")), w.send(p, to(2, "after 2")))
		asked := w.requests(protocol.KeyMetadata)[seen:]
		assert.NotEmpty(t, asked)
		for _, r := range asked {
			assert.NotEqual(t, int32(2), r.Node)
		}
	})
}

// FC-012: an error that says "never sent" is the end of the record: it is out of the buffer and nothing of it arrives later.
func TestFC012NeverSentStaysUnsent(t *testing.T) {
	play(t, testbroker.Config{}, func(w *world) {
		p := w.producer(func(c *producer.Config) {
			c.RequestTimeout, c.DeliveryTimeout = 300*time.Millisecond, 400*time.Millisecond
		})
		_, err := p.PartitionsFor(context.Background(), T)
		require.NoError(t, err)
		w.outage(1, testbroker.DropFIN)
		ctx, cancel := context.WithTimeout(context.Background(), 100*time.Millisecond) // what the application has, it bounds nothing once Send returned
		defer cancel()
		began := time.Now()
		var all []*sent
		for i := range 100 {
			all = append(all, w.sendFrom("", ctx, p, to(0, "%d", i), nil))
		}
		for _, s := range all {
			_, err := s.wait()
			require.ErrorIs(t, err, producer.ErrDeliveryTimeout)
			assert.False(t, producer.MayHaveBeenWritten(err))
			assert.Equal(t, 400*time.Millisecond, s.at.Sub(began))
		}
		w.whole(p)
		require.NoError(t, w.Accept(1))
		time.Sleep(3 * time.Second)
		w.acked(w.send(p, to(0, "sentinel")))
		assert.Equal(t, []string{"sentinel"}, w.values(0))
	})
}

// FC-013, KAFKA-9312, KAFKA-19479: Flush waits for records: those of a batch that is split are waited for through all its parts.
func TestFC013FlushWaitsForTheParts(t *testing.T) {
	play(t, testbroker.Config{Topics: []testbroker.Topic{{Name: T, Partitions: 1, MaxMessageBytes: 1000}}}, func(w *world) {
		w.Cluster().SetFault(produces(func(_ int, r *testbroker.Request) testbroker.Verdict {
			if r.Batches[0].Size <= 1000 {
				return testbroker.Hold(200 * time.Millisecond)
			}
			return testbroker.Verdict{}
		}))
		p := w.producer(func(c *producer.Config) { c.DeliveryTimeout = 10 * time.Second })
		var told int
		var mu sync.Mutex
		value := strings.Repeat("x", 300-2)
		var want []string
		for i := range 40 {
			w.sendFrom("", context.Background(), p, to(0, "%02d%s", i, value), func(_ producer.RecordMetadata, err error) {
				mu.Lock()
				defer mu.Unlock()
				assert.NoError(t, err)
				told++
			})
			want = append(want, fmt.Sprintf("%02d%s", i, value))
		}
		require.NoError(t, p.Flush(context.Background()))
		mu.Lock()
		assert.Equal(t, 40, told, "callbacks before Flush returned")
		mu.Unlock()
		w.within(0, "a second Flush", func() { require.NoError(t, p.Flush(context.Background())) })
		assert.Equal(t, int32(40), w.batches(0)[0].Count)
		assert.Equal(t, want, w.values(0))
		for i, r := range w.Cluster().Records(T, 0) {
			assert.Equal(t, int32(i), r.Sequence)
			assert.Equal(t, int16(0), r.ProducerEpoch)
		}
	})
}

// FC-014, KAFKA-19012: the memory of a batch that has expired is not used again while a connection may still read it: what a slow broker
// finally reads is what was sent.
func TestFC014MemoryOfAnExpiredBatchIsNotReused(t *testing.T) {
	topics := []testbroker.Topic{{Name: "a", Leaders: []int32{1}}, {Name: "b", Leaders: []int32{2}}}
	play(t, testbroker.Config{Nodes: 2, Topics: topics}, func(w *world) {
		w.network.SetLink(w.Addr(1), simnet.Link{Buffer: 1 << 10})
		p := w.producer(func(c *producer.Config) { // batches are larger than what a connection without writev copies
			c.BatchSize, c.BufferMemory, c.MaxBlock = 128<<10, 3*128<<10, 2*time.Second
			c.RequestTimeout, c.DeliveryTimeout = 300*time.Millisecond, 400*time.Millisecond
		})
		filling := func(topic string, i, size int) record {
			return record{Topic: topic, Value: fmt.Appendf(nil, "%s-%d %s", topic, i, strings.Repeat(topic, size))}
		}
		late := 0
		for i := range 20 { // the timing is exact: each round has what 500 were to hit
			for _, topic := range w.Cluster().TopicNames() {
				w.acked(w.send(p, record{Topic: topic, Value: fmt.Appendf(nil, "warm %d", i)}))
			}
			w.Cluster().SetFault(produces(func(n int, r *testbroker.Request) testbroker.Verdict {
				if r.Node == 1 && n == 1 {
					return testbroker.Verdict{Code: protocol.NotEnoughReplicas, Hold: 150 * time.Millisecond}
				}
				return testbroker.Verdict{}
			}))
			began := time.Now()
			a := w.send(p, filling("a", i, 120_000))
			time.Sleep(160 * time.Millisecond) // refused, and backing off
			conns := w.network.Conns(w.Addr(1))
			slow := conns[len(conns)-1]
			slow.Stall(true)
			_, err := a.wait()
			require.ErrorIs(t, err, producer.ErrDeliveryTimeout)
			require.True(t, producer.MayHaveBeenWritten(err))
			require.Equal(t, 400*time.Millisecond, time.Since(began))
			for j := range 6 {
				w.acked(w.send(p, filling("b", 10*i+j, 120_000)))
			}
			require.Less(t, time.Since(began), 460*time.Millisecond, "node 1's request has not timed out")
			_, end := w.Cluster().Offsets("a", 0)
			slow.Stall(false)
			time.Sleep(time.Millisecond)
			if _, now := w.Cluster().Offsets("a", 0); now > end {
				late++
			}
			time.Sleep(500 * time.Millisecond)
		}
		assert.Positive(t, late, "some were read to the end after they had expired")
	})
}

// FC-017: the broker's ordinary troubles are retried, with fresh metadata where leadership is in doubt; all else is an error of its own
// type, and so is what nobody has heard of.
func TestFC017WhatIsRetried(t *testing.T) {
	type fate struct {
		code            protocol.ErrorCode
		retry, metadata bool
	}
	var fates []fate
	for _, c := range []protocol.ErrorCode{2, 7, 19, 20, 75} {
		fates = append(fates, fate{c, true, false})
	}
	for _, c := range []protocol.ErrorCode{3, 5, 6, 9, 56, 74, 100} {
		fates = append(fates, fate{c, true, true})
	}
	for _, c := range []protocol.ErrorCode{10, 17, 18, 21, 29, 31, 32, 76, 87, 9999} {
		fates = append(fates, fate{c, false, false})
	}
	for _, f := range fates {
		t.Run(fmt.Sprintf("%d %v", f.code, f.code.Name()), func(t *testing.T) {
			play(t, testbroker.Config{}, func(w *world) {
				p := w.producer(nil)
				w.warm(p, 0)
				w.Cluster().SetFault(testbroker.Script(protocol.KeyProduce, testbroker.Answer(f.code)))
				_, err := w.send(p, to(0, "v")).wait()
				attempts := w.arrivals()[1:]
				if !f.retry {
					var code producer.ErrorCode
					require.ErrorAs(t, err, &code)
					assert.Equal(t, f.code, code)
					assert.Len(t, attempts, 1)
					return
				}
				require.NoError(t, err)
				require.Len(t, attempts, 2)
				asked := false
				for _, e := range w.Cluster().Requests() {
					asked = asked || e.Request.API == protocol.KeyMetadata && e.Number > attempts[0].Number && e.Number < attempts[1].Number
				}
				if f.metadata {
					assert.True(t, asked, "no Metadata request before the second attempt")
				}
			})
		})
	}
}

// FC-021: only the answer to a batch itself says what became of it: the next one's success proves nothing.
func TestFC021NoSuccessByNeighbours(t *testing.T) {
	for _, tt := range []struct {
		name             string
		idempotent, warm bool
	}{{"not idempotent", false, true}, {"idempotent", true, false}, {"idempotent, leader known", true, true}} {
		t.Run(tt.name, func(t *testing.T) {
			play(t, testbroker.Config{Nodes: 2, Model: testbroker.Legacy}, func(w *world) {
				w.mayReorder, w.mayDouble = !tt.idempotent, !tt.idempotent
				w.network.SetLink(w.Addr(1), simnet.Link{Latency: 5 * time.Millisecond})
				p := w.producer(func(c *producer.Config) {
					oneEach(c)
					c.Linger, c.DisableIdempotence = time.Millisecond, !tt.idempotent
				})
				if tt.warm {
					w.warm(p, 0)
				}
				w.Cluster().SetFault(testbroker.Script(protocol.KeyProduce,
					testbroker.Answer(protocol.NotLeaderOrFollower), testbroker.Answer(protocol.NotLeaderOrFollower)))
				var all []*sent
				for i := range 3 {
					value := fmt.Sprint(i)
					all = append(all, w.sendFrom("", context.Background(), p, to(0, "%s", value), func(producer.RecordMetadata, error) {
						assert.Contains(t, w.values(0), value, "it was reported and is not there")
					}))
				}
				if tt.warm {
					synctest.Wait()
					assert.Equal(t, 3, p.Metrics().RequestsInFlight)
				}
				w.acked(all...)
				offsets := map[int64]bool{}
				for _, s := range all {
					assert.False(t, offsets[s.meta.Offset], "offset %d twice", s.meta.Offset)
					offsets[s.meta.Offset] = true
				}
				log := w.values(0)
				if tt.warm {
					log = log[1:]
				}
				if tt.idempotent {
					assert.Equal(t, numbers(3), log)
				} else {
					assert.Equal(t, "2", log[0], "the third was there first")
				}
			})
		})
	}
}
