package fieldcases

import (
	"context"
	"fmt"
	"maps"
	"math"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/kafka-reservoir/producer"
	"github.com/kafka-reservoir/producer/internal/testbroker"
	"github.com/kafka-reservoir/producer/protocol"
)

// What the metrics tell.

// sane demands that all numbers of a snapshot can be.
func (w *world) sane(m producer.Metrics) {
	w.t.Helper()
	for name, v := range m.All() {
		if math.IsNaN(v) || math.IsInf(v, 0) || v < 0 || v > 1e15 {
			w.t.Errorf("%v is %v", name, v)
		}
	}
	if m.Response.Total > m.Request.Total {
		w.t.Errorf("%d answers to %d requests", m.Response.Total, m.Request.Total)
	}
}

// FC-135: numbers that cannot be told yet are zero; averages are of the events they name; a snapshot adds up, at any moment.
func TestFC135MetricsAddUp(t *testing.T) {
	play(t, testbroker.Config{}, func(w *world) {
		var failed atomic.Int64
		p := w.producer(func(c *producer.Config) {
			c.Trace = &producer.Trace{RequestDone: func(_ int32, _ string, _ int16, _, _ int, _ time.Duration, err error) {
				if err != nil {
					failed.Add(1)
				}
			}}
		})
		synctest.Wait()
		w.sane(p.Metrics())
		assert.Zero(t, p.Metrics().ProduceThrottleTime)

		stop := make(chan struct{})
		var watcher sync.WaitGroup
		watcher.Go(func() {
			for {
				select {
				case <-stop:
					return
				case <-time.After(100 * time.Microsecond):
					w.sane(p.Metrics())
				}
			}
		})
		for i := range 10 {
			w.acked(w.send(p, to(0, "%d", i)))
		}
		for i := range 2 {
			throttle := []time.Duration{100 * time.Millisecond, 300 * time.Millisecond}[i]
			w.Cluster().SetFault(testbroker.Script(protocol.KeyProduce, testbroker.Verdict{Throttle: throttle}))
			w.acked(w.send(p, to(0, "throttled %d", i)))
			time.Sleep(throttle)
		}
		m := p.Metrics()
		assert.Equal(t, producer.MetricTime{Avg: 200 * time.Millisecond, Max: 300 * time.Millisecond, Total: 400 * time.Millisecond}, m.ProduceThrottleTime, "two of them")

		adds := func() {
			t.Helper()
			synctest.Wait()
			m := p.Metrics()
			assert.Equal(t, m.Request.Total, m.Response.Total+int64(m.RequestsInFlight)+failed.Load())
		}
		adds()
		w.Cluster().SetFault(testbroker.Script(protocol.KeyProduce, testbroker.Hold(200*time.Millisecond), testbroker.DropBefore()))
		held := w.send(p, to(0, "held"))
		time.Sleep(50 * time.Millisecond)
		assert.Equal(t, 1, p.Metrics().RequestsInFlight)
		adds()
		w.acked(held)
		w.acked(w.send(p, to(0, "dropped")))
		assert.Positive(t, failed.Load())
		adds()
		close(stop)
		watcher.Wait()
	})
}

// FC-136: connections that come and go are no records: without any, nothing is buffered and Flush returns at once. With some held,
// memory is held and Flush waits until the last is settled, through retries and splits.
func TestFC136OnlyRecordsCount(t *testing.T) {
	play(t, testbroker.Config{Topics: []testbroker.Topic{{Name: T, MaxMessageBytes: 600}}}, func(w *world) {
		p := w.producer(func(c *producer.Config) { c.DeliveryTimeout = time.Minute })
		_, err := p.PartitionsFor(context.Background(), T)
		require.NoError(t, err)
		for range 100 {
			w.CloseConns(0, testbroker.DropRST)
			time.Sleep(10 * time.Millisecond)
			w.within(10*time.Millisecond, "Flush", func() { require.NoError(t, p.Flush(context.Background())) })
			w.whole(p)
		}

		w.Cluster().SetFault(testbroker.Script(protocol.KeyProduce,
			testbroker.Hold(50*time.Millisecond), testbroker.Answer(protocol.NotEnoughReplicas), testbroker.DropBefore(), testbroker.DropAfter()))
		const k = 20
		settled := func() (n int) {
			for _, s := range w.book {
				if s.known() {
					n++
				}
			}
			return n
		}
		for i := range k {
			w.send(p, to(0, "%0100d", i)) // together too large for the broker
		}
		flushed := make(chan struct{})
		go func() {
			defer close(flushed)
			assert.NoError(t, p.Flush(context.Background()))
			assert.Equal(t, k, settled(), "Flush waits for all of them")
		}()
		for settled() < k {
			if m := p.Metrics(); m.BatchSplit.Total == 0 && settled() == 0 { // parts of split batches are not the buffer's
				assert.Less(t, m.BufferAvailableBytes, m.BufferTotalBytes, "with %d settled", settled())
			}
			select {
			case <-flushed:
				assert.Equal(t, k, settled())
			default:
			}
			time.Sleep(time.Millisecond)
		}
		<-flushed
		w.acked(w.book...)
		assert.Positive(t, p.Metrics().BatchSplit.Total)
		assert.Positive(t, p.Metrics().RecordRetry.Total)
	})
}

// FC-137: what is counted by topic and by node is kept as long as they are in use, so that a producer that writes to ever new
// topics of ever new brokers does not grow; the client's own totals go on.
func TestFC137LabelsAreForgotten(t *testing.T) {
	const rounds, topics, swaps = 40, 50, 14 // nodes are replaced every third round
	play(t, testbroker.Config{Nodes: 3 * (swaps + 1), JournalLimit: 100}, func(w *world) {
		for node := int32(4); node <= 3*(swaps+1); node++ {
			require.NoError(t, w.StopNode(node))
		}
		p := w.producer(func(c *producer.Config) {
			c.BootstrapServers = c.BootstrapServers[:1]
			c.MetadataMaxIdle, c.MetadataMaxAge, c.ConnectionsMaxIdle = 5*time.Second, 5*time.Second, 30*time.Second // the least there is
			c.Logger = nil
		})
		stop := make(chan struct{})
		var watcher sync.WaitGroup
		watcher.Go(func() { // a scraper
			last := p.Metrics()
			for {
				select {
				case <-stop:
					return
				case <-time.After(3 * time.Second):
				}
				m := p.Metrics()
				for name, was := range last.Topics {
					if is, ok := m.Topics[name]; ok && is.RecordSend.Total < was.RecordSend.Total {
						t.Errorf("%s goes backwards", name)
					}
				}
				for id, was := range last.Nodes {
					if is, ok := m.Nodes[id]; ok && is.Request.Total < was.Request.Total {
						t.Errorf("node %d goes backwards", id)
					}
				}
				last = m
			}
		})
		var acked atomic.Int64
		first := int32(1) // of the three nodes that are up
		heap := map[int]uint64{}
		for round := range rounds {
			if round%3 == 2 {
				for i := range int32(3) {
					require.NoError(t, w.StartNode(first+3+i))
				}
				time.Sleep(6 * time.Second) // metadata has them by now
				for i := range int32(3) {
					require.NoError(t, w.StopNode(first+i))
				}
				first += 3
			}
			for i := range topics {
				name := fmt.Sprintf("tenant-%d-%d", round, i)
				require.NoError(t, w.Cluster().CreateTopic(testbroker.Topic{Name: name, Partitions: 1, Leaders: []int32{first + int32(i%3)}}))
				for n := range 2 {
					p.SendFunc(context.Background(), record{Topic: name, Value: fmt.Append(nil, n)}, func(_ producer.RecordMetadata, err error) {
						if assert.NoError(t, err) {
							acked.Add(1)
						}
					})
				}
			}
			require.NoError(t, p.Flush(context.Background()))
			time.Sleep(6 * time.Second)
			if round >= 3 {
				for i := range topics { // what is forgotten by now, so that the cluster does not grow either
					require.NoError(t, w.Cluster().DeleteTopic(fmt.Sprintf("tenant-%d-%d", round-3, i)))
				}
			}
			m := p.Metrics()
			assert.LessOrEqual(t, len(m.Topics), 3*topics)
			assert.LessOrEqual(t, len(m.Nodes), 3*8+1, "those of two minutes")
			if round == 20 || round == rounds-1 {
				var memory runtime.MemStats
				runtime.GC()
				runtime.GC() // what lies in pools for others to use goes in the second only
				runtime.ReadMemStats(&memory)
				heap[round] = memory.HeapAlloc
			}
		}
		assert.EqualValues(t, 2*topics*rounds, acked.Load())
		time.Sleep(3 * time.Minute)
		close(stop)
		watcher.Wait()
		m := p.Metrics()
		assert.LessOrEqual(t, len(m.Topics), topics)
		for id := range maps.Keys(m.Nodes) {
			assert.True(t, id < 0 || id >= first, "node %d is gone", id)
		}
		assert.EqualValues(t, 2*topics*rounds, m.RecordSend.Total)
		t.Logf("%+d bytes from topic 1050 to 2000", int64(heap[rounds-1])-int64(heap[20]))
		assert.InDelta(t, float64(heap[20]), float64(heap[rounds-1]), 1<<20, "queues and sequences stay, under a kilobyte a topic")
		for _, name := range w.Cluster().TopicNames() { // the book does not have their records
			require.NoError(t, w.Cluster().DeleteTopic(name))
		}
	})
}
