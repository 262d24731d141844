package fieldcases

import (
	"context"
	"fmt"
	"runtime"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/kafka-reservoir/producer"
	"github.com/kafka-reservoir/producer/internal/testbroker"
	"github.com/kafka-reservoir/producer/protocol"
)

// Metadata: answers that are no answers, brokers that give none, and how often who is asked for what.

// questions are the Metadata requests that name any topic, oldest first. Those for none ask which cluster a broker belongs to.
func (w *world) questions() []*testbroker.Request {
	return slices.DeleteFunc(w.requests(protocol.KeyMetadata), func(r *testbroker.Request) bool { return len(r.Topics) == 0 })
}

// editMetadata is a fault that changes the answers to Metadata that when accepts.
func editMetadata(when func(r *testbroker.Request) bool, edit func(m *protocol.MetadataResponse)) func(r *testbroker.Request) testbroker.Verdict {
	return func(r *testbroker.Request) testbroker.Verdict {
		if r.API != protocol.KeyMetadata || !when(r) {
			return testbroker.Verdict{}
		}
		return testbroker.Verdict{Edit: func(m protocol.Message) { edit(m.(*protocol.MetadataResponse)) }}
	}
}

// noBrokers is what a broker knows that has just started.
func noBrokers(m *protocol.MetadataResponse) {
	m.Brokers = nil
	for i := range m.Topics {
		m.Topics[i].ErrorCode, m.Topics[i].Partitions = protocol.LeaderNotAvailable, nil
	}
}

// FC-061: an answer without brokers is no answer: what was known stays, and another broker is asked. If no other is known, it
// is asked again until MaxBlock is over.
func TestFC061BrokerThatKnowsNoBrokers(t *testing.T) {
	empty := editMetadata(func(r *testbroker.Request) bool { return r.Node == 2 }, noBrokers)
	play(t, testbroker.Config{Nodes: 3, Partitions: 3}, func(w *world) {
		p := w.producer(func(c *producer.Config) { c.MetadataMaxAge = 100 * time.Millisecond })
		w.warm(p, 0, 1, 2)
		w.Cluster().SetFault(empty)
		for i := range 400 {
			w.within(5*time.Millisecond, "a record, which lingers,", func() { w.acked(w.send(p, to(int32(i%3), "%d", i))) })
		}
		infos, err := p.PartitionsFor(context.Background(), T)
		require.NoError(t, err)
		for i, info := range infos {
			assert.EqualValues(t, i+1, info.Leader)
		}
		asked, useless := w.questions(), 0
		for i, q := range asked[:len(asked)-1] {
			if q.Node == 2 {
				useless++
				assert.NotEqual(t, int32(2), asked[i+1].Node)
			}
		}
		assert.Positive(t, useless, "of %d", len(asked))
	})
	play(t, testbroker.Config{Nodes: 3, Partitions: 3, Fault: empty}, func(w *world) {
		p := w.producer(func(c *producer.Config) { c.BootstrapServers = []string{w.Addr(2)} })
		took := w.within(time.Second, "a Send without a cluster", func() {
			_, err := w.send(p, to(0, "too early")).wait()
			assert.ErrorIs(t, err, producer.ErrMetadataTimeout)
		})
		assert.Equal(t, time.Second, took, "MaxBlock")
		asked := len(w.questions())
		assert.GreaterOrEqual(t, asked, 5)
		assert.LessOrEqual(t, asked, 17, "20 ms doubled up to 100 ms")
		w.Cluster().SetFault(nil)
		w.acked(w.send(p, to(0, "in time")))
	})
}

// FC-062: a leader that is not among the brokers is no leader yet: nothing is dialled for it, its records wait, and go soon
// after it is listed. Replicas that do not exist do not matter.
func TestFC062LeaderThatIsNotListed(t *testing.T) {
	var listed atomic.Bool
	fault := editMetadata(func(*testbroker.Request) bool { return true }, func(m *protocol.MetadataResponse) {
		if !listed.Load() {
			m.Brokers = slices.DeleteFunc(m.Brokers, func(b protocol.MetadataResponseBroker) bool { return b.NodeID == 3 })
		}
		for i := range m.Topics {
			for j := range m.Topics[i].Partitions {
				at := &m.Topics[i].Partitions[j]
				at.ReplicaNodes, at.IsrNodes, at.OfflineReplicas = []int32{at.LeaderID, 99}, []int32{98}, []int32{97}
			}
		}
	})
	play(t, testbroker.Config{Nodes: 3, Topics: []testbroker.Topic{{Name: T, Leaders: []int32{3, 1}}}, Fault: fault}, func(w *world) {
		p := w.producer(func(c *producer.Config) { c.BootstrapServers = c.BootstrapServers[:2] })
		w.warm(p, 1)
		waits := w.send(p, to(0, "waits"))
		for i := range 100 {
			w.within(5*time.Millisecond, "a record for the other partition, which lingers,", func() { w.acked(w.send(p, to(1, "%d", i))) })
		}
		assert.False(t, waits.known())
		assert.Empty(t, w.network.Conns(w.Addr(3)))
		listed.Store(true)
		w.within(300*time.Millisecond, "the record that waited", func() { w.acked(waits) })
	})
}

// FC-063: a broker that was asked for metadata and is silent holds that up for RequestTimeout at most, and not at all when its
// connection ends; then another one is asked.
func TestFC063SilentBroker(t *testing.T) {
	for _, reset := range []bool{false, true} {
		// Before Produce v10 a broker does not say who leads instead of it, so that metadata has to be asked for.
		play(t, testbroker.Config{Nodes: 3, Topics: []testbroker.Topic{{Name: T, Leaders: []int32{2, 1}}}, Generation: testbroker.Kafka28}, func(w *world) {
			p := w.producer(nil)
			w.warm(p, 0, 1)
			var silent atomic.Int32 // how often node 1 was asked
			w.Cluster().SetFault(func(r *testbroker.Request) testbroker.Verdict {
				if r.API == protocol.KeyMetadata && r.Node == 1 && len(r.Topics) > 0 {
					silent.Add(1)
					return testbroker.MuteBefore()
				}
				return testbroker.Verdict{}
			})
			for i := 0; silent.Load() < 3; i++ { // whom it asks is left to chance
				require.Less(t, i, 100)
				before, asked := silent.Load(), len(w.questions())
				require.NoError(t, w.MoveLeader(T, 0, int32(3-i%2)))
				began := time.Now()
				s := w.send(p, to(0, "%d", i))
				limit := 600 * time.Millisecond
				if reset {
					limit = 100 * time.Millisecond
					time.Sleep(50 * time.Millisecond)
					w.CloseConns(1, testbroker.DropRST)
				}
				w.acked(s)
				assert.LessOrEqual(t, time.Since(began), time.Second)
				if silent.Load() > before {
					all := w.questions()[asked:]
					require.Greater(t, len(all), 1)
					assert.EqualValues(t, 1, all[0].Node)
					assert.NotEqualValues(t, 1, all[1].Node)
					assert.LessOrEqual(t, all[1].At.Sub(all[0].At), limit)
				}
				w.warm(p, 1) // connected again
			}
		})
	}
}

// FC-064: only topics in use are asked for, a new one alone and at once, and one that is not used any more no longer; answers
// about others leave nothing behind. (MetadataMaxIdle is at least 5 s: all times are its.)
func TestFC064OnlyTopicsInUse(t *testing.T) {
	play(t, testbroker.Config{Topics: []testbroker.Topic{{Name: "a"}, {Name: "b"}, {Name: "c"}}}, func(w *world) {
		p := w.producer(func(c *producer.Config) { c.MetadataMaxIdle, c.MetadataMaxAge = 5*time.Second, 2*time.Second })
		use := func(d time.Duration, topics ...string) {
			for end := time.Now().Add(d); time.Now().Before(end); time.Sleep(500 * time.Millisecond) {
				for _, topic := range topics {
					w.acked(w.send(p, record{Topic: topic, Value: fmt.Append(nil, len(w.book))}))
				}
			}
		}
		time.Sleep(time.Second) // nobody has sent anything
		use(10*time.Second, "a", "b")
		use(time.Millisecond, "c")
		use(10*time.Second, "a", "b", "c")
		use(20*time.Second, "b", "c")
		all := w.requests(protocol.KeyMetadata)
		assert.Empty(t, all[0].Topics)
		for _, r := range all {
			assert.False(t, r.AllTopics)
		}
		var changes []string // questions that differ from the one before
		for _, r := range w.questions() {
			if q := fmt.Sprint(r.Topics); len(changes) == 0 || changes[len(changes)-1] != q {
				changes = append(changes, q)
			}
		}
		assert.Equal(t, []string{"[a]", "[b]", "[a b]", "[c]", "[a b c]", "[b c]"}, changes)
		assert.InDelta(t, 20+5, len(w.questions()), 3, "every two seconds")

		// 50,000 topics that nobody asked about.
		heap := func() int64 {
			var m runtime.MemStats
			runtime.GC()
			runtime.ReadMemStats(&m)
			return int64(m.HeapAlloc)
		}
		before := heap()
		var told atomic.Int32
		w.Cluster().SetFault(editMetadata(func(r *testbroker.Request) bool { return len(r.Topics) > 0 }, func(m *protocol.MetadataResponse) {
			for i := range 50_000 {
				foreign := m.Topics[0]
				name := fmt.Sprint("foreign-", i)
				foreign.Name, foreign.TopicID = &name, protocol.UUID{byte(i), byte(i >> 8), 1}
				m.Topics = append(m.Topics, foreign)
			}
			told.Add(1)
		}))
		use(5*time.Second, "b", "c")
		assert.Positive(t, told.Load())
		w.Cluster().SetFault(nil)
		use(5*time.Second, "b", "c") // what was pooled for large answers may go
		assert.Less(t, heap()-before, int64(2<<20))
	})
}

// FC-065: one lost connection costs a few requests for metadata and no more; a topic that does not exist is asked for with
// growing pauses; however many partitions are refused, one request is under way at a time.
func TestFC065NeedsEnd(t *testing.T) {
	play(t, testbroker.Config{Nodes: 2, Partitions: 2, AutoCreate: testbroker.AutoCreateOff}, func(w *world) {
		p := w.producer(func(c *producer.Config) { c.RetryBackoffMax, c.MaxBlock = 200*time.Millisecond, 5*time.Second })
		w.warm(p, 0, 1)
		asked := len(w.requests(protocol.KeyMetadata))
		w.Cluster().SetFault(testbroker.Script(protocol.KeyProduce, testbroker.DropBefore()))
		for i := range 500 {
			w.acked(w.send(p, to(int32(i%2), "%d", i)))
			time.Sleep(5 * time.Millisecond)
		}
		incident := len(w.requests(protocol.KeyMetadata)) - asked
		assert.Positive(t, incident)
		assert.LessOrEqual(t, incident, 3)

		_, err := w.send(p, record{Topic: "missing", Value: []byte("v")}).wait()
		assert.ErrorIs(t, err, producer.ErrMetadataTimeout)
		looks := w.asks("missing")
		assert.LessOrEqual(t, len(looks), 34, "pauses are at most 200 ms, and at least 160")
		assert.GreaterOrEqual(t, len(looks), 20)
		for i, want := range []time.Duration{20, 40, 80, 160, 200, 200} { // give or take 20 %
			assert.InDelta(t, want*time.Millisecond, looks[i+1].At.Sub(looks[i].At), float64(want*time.Millisecond/5), "look %d", i)
		}
	})
	play(t, testbroker.Config{Nodes: 2, Partitions: 16}, func(w *world) {
		p := w.producer(func(c *producer.Config) { c.DeliveryTimeout = 10 * time.Second })
		w.warm(p, 0, 1)
		var calm atomic.Bool
		w.Cluster().SetFault(func(r *testbroker.Request) testbroker.Verdict {
			switch {
			case r.API == protocol.KeyProduce && !calm.Load():
				return testbroker.Answer(protocol.NotLeaderOrFollower)
			case r.API == protocol.KeyMetadata:
				return testbroker.Hold(50 * time.Millisecond)
			}
			return testbroker.Verdict{}
		})
		for i := range 160 {
			w.send(p, to(int32(i%16), "%d", i))
			time.Sleep(10 * time.Millisecond)
		}
		calm.Store(true)
		w.acked(w.book...)
		var free time.Time
		questions := 0
		for _, e := range w.Cluster().Requests() {
			if e.Request.API == protocol.KeyMetadata && len(e.Request.Topics) > 0 {
				questions++
				assert.False(t, e.At.Before(free))
				free = e.Answered
			}
		}
		assert.LessOrEqual(t, questions, 20)
	})
}

// FC-066: a topic that was quiet for longer than it is kept is there again at its next Send, with one question; one with a
// record that lingers is kept. (MetadataMaxIdle is at least 5 s: the case's times are taken 25-fold.)
func TestFC066QuietTopic(t *testing.T) {
	play(t, testbroker.Config{Topics: []testbroker.Topic{{Name: "a"}, {Name: "b"}, {Name: "lingers"}}, JournalLimit: 100_000}, func(w *world) {
		p := w.producer(func(c *producer.Config) {
			c.MetadataMaxIdle, c.MetadataMaxAge = 5*time.Second, 3750*time.Millisecond
		})
		slow := w.producer(func(c *producer.Config) {
			c.MetadataMaxIdle, c.MetadataMaxAge, c.Linger, c.DeliveryTimeout = 5*time.Second, 3750*time.Millisecond, 50*time.Second, time.Minute
		})
		put := func(p kafka, topic string) *sent {
			return w.send(p, record{Topic: topic, Value: fmt.Append(nil, len(w.book))})
		}
		w.acked(put(p, "a"), put(p, "b"))
		began := time.Now()
		lingers := put(slow, "lingers")
		for range 100 {
			for range 10 {
				w.acked(put(p, "a"))
				time.Sleep(1500 * time.Millisecond)
			}
			asked := len(w.asks("b"))
			w.within(100*time.Millisecond, "a record for the quiet topic", func() { w.acked(put(p, "b")) })
			require.Len(t, w.asks("b"), asked+1)
		}
		w.acked(lingers)
		assert.Equal(t, 50*time.Second, lingers.at.Sub(began))
	})
}
