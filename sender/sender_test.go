package sender_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/kafka-reservoir/producer/accumulator"
	"github.com/kafka-reservoir/producer/internal/sim"
	"github.com/kafka-reservoir/producer/internal/testbroker"
	"github.com/kafka-reservoir/producer/protocol"
)

// world is a simulated cluster and producer, with a book of what was sent and what came back.
type world struct {
	*sim.World
	t    *testing.T
	book map[string]*entry // by value
	sent []string
	done []string // values in the order of their callbacks
}

type entry struct {
	partition int32
	calls     int
	result    accumulator.Result
	err       error
}

func newWorld(t *testing.T, cfg sim.Config) *world {
	t.Helper()
	w, err := sim.New(cfg)
	require.NoError(t, err)
	return &world{World: w, t: t, book: map[string]*entry{}}
}

// topic creates a topic and fetches its metadata.
func (w *world) topic(name string, partitions int, leaders ...int32) {
	w.t.Helper()
	require.NoError(w.t, w.Cluster.CreateTopic(testbroker.Topic{Name: name, Partitions: partitions, Leaders: leaders}))
	require.NotNil(w.t, w.Topic(name))
}

// send appends a record whose value is its name.
func (w *world) send(topic string, partition int32, value string) {
	w.t.Helper()
	e := &entry{partition: partition}
	err := w.Append(topic, partition, nil, []byte(value), func(r accumulator.Result, err error) {
		e.calls++
		e.result, e.err = r, err
		w.done = append(w.done, value)
	})
	require.NoError(w.t, err)
	w.book[value] = e
	w.sent = append(w.sent, value)
}

func (w *world) sendN(topic string, partition int32, from, to int) {
	w.t.Helper()
	for i := from; i < to; i++ {
		w.send(topic, partition, fmt.Sprintf("%s-%d-%05d", topic, partition, i))
	}
}

// settle runs until everything is settled and checks that nothing is left behind.
func (w *world) settle() {
	w.t.Helper()
	require.True(w.t, w.Settle(time.Minute), "not settled after a minute")
	w.Run(50*time.Millisecond, func() bool { return false })
	w.check()
}

// check holds the book against the logs: the common checks of the field cases (C1-C5).
func (w *world) check() {
	w.t.Helper()
	w.Cluster.Check(w.t)
	stored := map[string]int{}
	for _, topic := range w.Cluster.TopicNames() {
		for p, records := range w.Cluster.AllRecords(topic) {
			for _, r := range records {
				v := string(r.Value)
				stored[v]++
				e := w.book[v]
				if e == nil {
					w.t.Errorf("%s-%d has %q, which nobody sent", topic, p, v)
					continue
				}
				if e.err == nil && e.result.Offset >= 0 && stored[v] == 1 {
					assert.Equal(w.t, r.Offset, e.result.Offset, "offset of %s", v)
				}
			}
		}
	}
	for v, e := range w.book {
		assert.Equal(w.t, 1, e.calls, "callbacks of %s", v)
		if e.err == nil {
			assert.GreaterOrEqual(w.t, stored[v], 1, "%s was acknowledged and is not stored", v)
		}
		if !w.Config.NotIdempotent && w.Config.Acks == -1 {
			assert.LessOrEqual(w.t, stored[v], 1, "%s is stored more than once", v)
		}
	}
	assert.Equal(w.t, w.Pool.Total(), w.Pool.Available(), "memory came back")
}

// values are a partition's log.
func (w *world) values(topic string, partition int32) []string {
	var out []string
	for _, r := range w.Cluster.Records(topic, partition) {
		out = append(out, string(r.Value))
	}
	return out
}

func (w *world) sentTo(topic string, partition int32) []string {
	var out []string
	for _, v := range w.sent {
		if w.book[v].partition == partition && v[:len(topic)] == topic {
			out = append(out, v)
		}
	}
	return out
}

// produces are the Produce requests of the journal.
func (w *world) produces() []*testbroker.Request {
	var out []*testbroker.Request
	for _, e := range w.Cluster.Requests() {
		if e.Request.API == protocol.KeyProduce {
			out = append(out, e.Request)
		}
	}
	return out
}

// S-70, S-81, S-82, S-88, SND-01: a record goes out in one Produce request and comes back with its offset.
func TestSendsOneRecord(t *testing.T) {
	w := newWorld(t, sim.Config{Cluster: testbroker.Config{Nodes: 1}})
	w.topic("t", 1)
	w.send("t", 0, "a")
	w.settle()
	require.Equal(t, []string{"a"}, w.values("t", 0))
	require.NoError(t, w.book["a"].err)
	require.Equal(t, int64(0), w.book["a"].result.Offset)
	require.Len(t, w.produces(), 1)
	require.Zero(t, w.Client.InFlight())
}

// S-77, S-88, SND-42, SND-16: several partitions of a node share a request, each with one batch, and
// sequences go on from batch to batch.
func TestOneBatchPerPartitionAndRequest(t *testing.T) {
	w := newWorld(t, sim.Config{Cluster: testbroker.Config{Nodes: 1}})
	w.topic("t", 3)
	for round := range 3 {
		for p := int32(0); p < 3; p++ {
			w.sendN("t", p, round*10, round*10+10)
		}
		w.settle()
	}
	requests := w.produces()
	require.Len(t, requests, 3)
	for round, r := range requests {
		require.Len(t, r.Batches, 3)
		seen := map[int32]bool{}
		for _, b := range r.Batches {
			require.False(t, seen[b.Partition])
			seen[b.Partition] = true
			require.Equal(t, int32(round*10), b.BaseSequence)
			require.Equal(t, int16(0), b.ProducerEpoch)
			require.Equal(t, int32(10), b.Count)
		}
	}
}

// appendEntry appends a record under an entry of the book; it fails where the accumulator does.
func (w *world) appendEntry(topic string, partition int32, value string, e *entry) error {
	err := w.Append(topic, partition, nil, []byte(value), func(r accumulator.Result, err error) {
		e.calls++
		e.result, e.err = r, err
		w.done = append(w.done, value)
	})
	if err == nil {
		w.book[value] = e
		w.sent = append(w.sent, value)
	}
	return err
}

// inOrder checks that a partition holds its records in the order in which they were sent.
func (w *world) inOrder(topic string, partition int32) {
	w.t.Helper()
	at := map[string]int{}
	for i, v := range w.sent {
		at[v] = i
	}
	last := -1
	for _, v := range w.values(topic, partition) {
		if at[v] < last {
			w.t.Errorf("%s-%d: %.20q stands behind a later record", topic, partition, v)
		}
		last = max(last, at[v])
	}
}
