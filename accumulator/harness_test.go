package accumulator

import (
	"context"
	"fmt"
	"io"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/kafka-reservoir/producer/bufferpool"
	"github.com/kafka-reservoir/producer/internal/compress"
	"github.com/kafka-reservoir/producer/metadata"
	"github.com/kafka-reservoir/producer/partitioner"
	"github.com/kafka-reservoir/producer/protocol"
)

const (
	ms  = time.Millisecond
	kib = 1 << 10

	orders = "orders" // the topic of tests that need but one
	anyOf  = partitioner.Any
)

// t0 is when the tests begin.
var t0 = time.UnixMilli(1_700_000_000_000)

// clock is the time of a test: it stands still unless moved, and counts how often it was asked.
type clock struct {
	ns    atomic.Int64 // since t0
	reads atomic.Int64
}

func (c *clock) now() time.Time {
	c.reads.Add(1)
	return c.peek()
}

func (c *clock) peek() time.Time         { return t0.Add(time.Duration(c.ns.Load())) }
func (c *clock) advance(d time.Duration) { c.ns.Add(int64(d)) }

// rig is an accumulator with everything around it made by hand. The test plays the sender: it calls ready
// and drain, and settles what it drained.
type rig struct {
	t     testing.TB
	a     *RecordAccumulator
	pool  *bufferpool.BufferPool
	clock clock
	wakes atomic.Int64 // calls of Config.Wake

	// The cluster as the test has made it, and the view of it that the sender has.
	md     *metadata.Metadata
	topics []protocol.MetadataResponseTopic
	snap   *metadata.Snapshot

	peek func() time.Time // the time as cluster and sender have it: clock's, or the bubble's

	one  int32          // the cluster has this node alone; 0: many
	full map[int32]bool // nodes that can take no request
	busy map[int32]int  // requests in flight, by node
}

// newRig makes an accumulator of 16 KiB batches without linger over a pool of 1 MiB, unless set says otherwise,
// and a cluster without topics.
func newRig(t testing.TB, set ...func(*Config)) *rig {
	r := &rig{t: t, full: map[int32]bool{}, busy: map[int32]int{}}
	r.peek = r.clock.peek
	seeded := rand.New(rand.NewPCG(1, 2))
	var mu sync.Mutex
	cfg := Config{
		BatchSize: 16 * kib, DeliveryTimeout: 2 * time.Minute,
		RetryBackoff: 100 * ms, RetryBackoffMax: time.Second,
		Rand: func(n int) int {
			mu.Lock()
			defer mu.Unlock()
			return seeded.IntN(n)
		},
		Now:  r.clock.now,
		Wake: func() { r.wakes.Add(1) },
		Done: func(b *ProducerBatch) { b.Run() },
	}
	cfg.NewCompressor = func() (protocol.Compressor, error) { return compress.New(cfg.Codec, 0) }
	cfg.Decompress = func(codec protocol.Codec, src []byte, maxSize int) ([]byte, error) {
		return compress.Decompress(codec, nil, src, maxSize)
	}
	for _, f := range set {
		f(&cfg)
	}
	if cfg.Pool == nil {
		cfg.Pool = bufferpool.New(bufferpool.Config{Total: 1 << 20, OnWait: cfg.Wake})
	}
	r.pool = cfg.Pool
	r.a = New(cfg)
	r.md = metadata.New(metadata.Config{})
	t.Cleanup(r.a.Shutdown)
	return r
}

func withBatch(n int) func(*Config)            { return func(c *Config) { c.BatchSize = n } }
func withLinger(d time.Duration) func(*Config) { return func(c *Config) { c.Linger = d } }
func withCodec(codec protocol.Codec) func(*Config) {
	return func(c *Config) { c.Codec = codec }
}
func withPool(total int64) func(*Config) {
	return func(c *Config) { c.Pool = bufferpool.New(bufferpool.Config{Total: total, OnWait: c.Wake}) }
}

// lead makes a topic of partitions led by these nodes (-1: by none) under epoch 1, and tells the sender.
func (r *rig) lead(topic string, nodes ...int32) *metadata.Topic {
	parts := make([]protocol.MetadataResponsePartition, len(nodes))
	for i, node := range nodes {
		parts[i] = protocol.MetadataResponsePartition{PartitionIndex: int32(i), LeaderID: node, LeaderEpoch: 1}
	}
	return r.describe(topic, parts)
}

// only makes the cluster one of a single node.
func (r *rig) only(node int32) {
	r.one = node
	r.describe(*r.topics[0].Name, r.topics[0].Partitions)
}

// move gives a partition another leader under a new epoch (-1: epochs are not known).
func (r *rig) move(topic string, partition, node, epoch int32) {
	for _, t := range r.topics {
		if *t.Name == topic {
			p := &t.Partitions[partition]
			p.LeaderID, p.LeaderEpoch = node, epoch
			r.describe(topic, t.Partitions)
		}
	}
}

// describe replaces what the cluster says of a topic.
func (r *rig) describe(topic string, parts []protocol.MetadataResponsePartition) *metadata.Topic {
	r.t.Helper()
	described := protocol.MetadataResponseTopic{Name: &topic, TopicID: protocol.UUID{1, byte(len(topic)), topic[0]}, Partitions: parts}
	known := false
	for i := range r.topics {
		if *r.topics[i].Name == topic {
			r.topics[i], known = described, true
		}
	}
	if !known {
		r.topics = append(r.topics, described)
	}
	resp := &protocol.MetadataResponse{}
	for id := range int32(10) {
		if r.one > 0 && id != r.one {
			continue
		}
		rack := []string{"even", "odd"}[id%2]
		resp.Brokers = append(resp.Brokers, protocol.MetadataResponseBroker{NodeID: id, Host: "broker", Port: 9092 + id, Rack: &rack})
	}
	for i := range r.topics {
		// The response is kept by metadata: each gets partitions of its own.
		t := r.topics[i]
		t.Partitions = append([]protocol.MetadataResponsePartition(nil), t.Partitions...)
		resp.Topics = append(resp.Topics, t)
	}
	now := r.peek()
	r.md.AddTopic(topic, now)
	r.md.NewRequest(now)
	require.NoError(r.t, r.md.HandleResponse(13, resp, now))
	r.snap = r.md.Snapshot()
	return r.snap.Topic(topic)
}

// record appends r to a topic; it fails the test if that fails.
func (r *rig) record(topic string, rec Record, cb Callback) Handle {
	r.t.Helper()
	h, err := r.try(topic, rec, cb, 0)
	require.NoError(r.t, err)
	return h
}

func (r *rig) try(topic string, rec Record, cb Callback, maxWait time.Duration) (Handle, error) {
	h, _, err := r.a.Append(context.Background(), r.a.Topic(topic), r.snap.Topic(topic), &rec, cb, true, maxWait)
	return h, err
}

// put appends a value of n bytes to a partition of orders, stamped with the clock.
func (r *rig) put(partition int32, n int) Handle {
	r.t.Helper()
	return r.record(orders, Record{Partition: partition, Timestamp: -1, Value: make([]byte, n)}, nil)
}

// ready is the sender's look at what there is.
func (r *rig) ready() ReadyResult {
	for _, id := range r.a.Nodes() {
		r.a.SetNode(id, !r.full[id], r.busy[id])
	}
	return r.a.Ready(r.snap, r.peek())
}

// readyNodes are the nodes that ready says have something to be sent.
func (r *rig) readyNodes() []int32 {
	return append([]int32{}, r.ready().Nodes...)
}

// drain takes one request's worth for a node, after a look.
func (r *rig) drain(node int32) []*ProducerBatch {
	r.ready()
	return r.drainUpTo(node, 1<<20)
}

func (r *rig) drainUpTo(node int32, maxBytes int) []*ProducerBatch {
	return r.a.Drain(nil, node, maxBytes, r.peek(), nil)
}

// drainOne is drain where exactly one batch must come.
func (r *rig) drainOne(node int32) *ProducerBatch {
	r.t.Helper()
	got := r.drain(node)
	require.Len(r.t, got, 1)
	return got[0]
}

// requeue puts a drained batch back after a failed attempt.
func (r *rig) requeue(b *ProducerBatch) { r.a.Reenqueue(b, r.peek()) }

// completeAll completes batches, as if each partition's log were empty.
func (r *rig) completeAll(batches []*ProducerBatch) {
	for _, b := range batches {
		r.a.Complete(b, 0, -1)
	}
}

// empty requires that nothing is left: no batch, and all memory is back.
func (r *rig) empty() {
	r.t.Helper()
	assert.False(r.t, r.a.HasIncomplete(), "incomplete batches")
	assert.Equal(r.t, r.pool.Total(), r.pool.Available(), "memory that did not come back")
	shares := []*share{r.a.s.parked}
	for _, n := range r.a.s.ordered {
		shares = append(shares, n.share)
		assert.Zero(r.t, n.flight, "memory on its way to node %d", n.id)
	}
	assert.Zero(r.t, r.a.s.flight, "memory on its way")
	for _, sh := range shares {
		assert.Zero(r.t, sh.unsent.Load(), "bytes counted as unsent for %v", sh)
		assert.Zero(r.t, sh.waiting.Load(), "appends counted as waiting for %v", sh)
	}
}

// joined is a batch as it would go over the wire.
func joined(b *ProducerBatch) []byte {
	var out []byte
	for _, s := range b.Slabs() {
		out = append(out, s...)
	}
	return out
}

// read decodes a drained batch as a broker would, its checksum included.
func (r *rig) read(b *ProducerBatch) (protocol.BatchHeader, []protocol.RecordView) {
	r.t.Helper()
	h, records, err := decode(joined(b))
	require.NoError(r.t, err)
	require.Equal(r.t, b.Size(), h.Size())
	require.Equal(r.t, b.Count(), h.Count)
	return h, records
}

func decode(raw []byte) (protocol.BatchHeader, []protocol.RecordView, error) {
	h, err := protocol.ReadBatchHeader(raw)
	if err != nil {
		return h, nil, err
	}
	if h.Size() != len(raw) {
		return h, nil, fmt.Errorf("the header says %d bytes, there are %d", h.Size(), len(raw))
	}
	if err := protocol.VerifyCRC(raw); err != nil {
		return h, nil, err
	}
	body := raw[protocol.BatchHeaderSize:]
	if h.Codec() != protocol.CodecNone {
		if body, err = compress.Decompress(h.Codec(), nil, body, 64<<20); err != nil {
			return h, nil, err
		}
	}
	var records []protocol.RecordView
	reader := protocol.NewRecordReader(body, h.Count)
	for {
		v, err := reader.Next()
		if err == io.EOF {
			return h, records, nil
		}
		if err != nil {
			return h, nil, err
		}
		if int(v.OffsetDelta) != len(records) {
			return h, nil, fmt.Errorf("record %d has offset delta %d", len(records), v.OffsetDelta)
		}
		records = append(records, v)
	}
}

// values are the records' values, as text.
func (r *rig) values(b *ProducerBatch) []string {
	r.t.Helper()
	_, records := r.read(b)
	var out []string
	for _, v := range records {
		out = append(out, string(v.Value))
	}
	return out
}

// told is a callback that keeps what it was told.
type told struct {
	results []Result
	errs    []error
}

func (c *told) OnCompletion(res Result, err error) {
	c.results = append(c.results, res)
	c.errs = append(c.errs, err)
}

// partitionsOf are the partitions of drained batches, in order.
func partitionsOf(batches []*ProducerBatch) []int32 {
	out := []int32{}
	for _, b := range batches {
		out = append(out, b.Partition())
	}
	return out
}

// gate is an idempotence that the test decides: closed partitions are held, all others are stamped with
// sequences that go on.
type gate struct {
	closed map[int32]bool
	id     protocol.ProducerID
	next   map[int32]int32
	asked  []int32
}

func newGate() *gate {
	return &gate{closed: map[int32]bool{}, next: map[int32]int32{}, id: protocol.ProducerID{ID: 7, Epoch: 1}}
}

func (g *gate) Next(b *ProducerBatch, _ int32) *ProducerBatch {
	g.asked = append(g.asked, b.Partition())
	if g.closed[b.Partition()] {
		return nil
	}
	return b
}

func (g *gate) Prefetch(any) {}

func (g *gate) Stamp(b *ProducerBatch) {
	b.SetProducer(g.id, g.next[b.Partition()])
	g.next[b.Partition()] = protocol.AddSequence(g.next[b.Partition()], b.Count())
}

// noise is n bytes that do not compress.
func noise(n int) []byte {
	out := make([]byte, n)
	_, _ = rand.NewChaCha8([32]byte{1}).Read(out)
	return out
}

// deque finds the queue of a partition as an append does.
func (a *RecordAccumulator) deque(t *Topic, partition int32, count int) *deque {
	if d := t.deque(partition); d != nil {
		return d
	}
	return a.newDeque(t, partition, count)
}
