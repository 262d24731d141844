package sim

import (
	"context"
	"log/slog"
	"math/rand/v2"
	"time"

	"github.com/kafka-reservoir/producer/accumulator"
	"github.com/kafka-reservoir/producer/bufferpool"
	"github.com/kafka-reservoir/producer/internal/compress"
	"github.com/kafka-reservoir/producer/internal/metrics"
	"github.com/kafka-reservoir/producer/internal/testbroker"
	"github.com/kafka-reservoir/producer/metadata"
	"github.com/kafka-reservoir/producer/netclient"
	"github.com/kafka-reservoir/producer/partitioner"
	"github.com/kafka-reservoir/producer/protocol"
	"github.com/kafka-reservoir/producer/sender"
)

// Config is what a World may differ in. Zeros mean the producer's defaults, scaled to short tests: see withDefaults.
type Config struct {
	Cluster testbroker.Config
	Seed    uint64

	Acks            int16 // of the wire; 0 means -1 unless AcksNone
	AcksNone        bool
	NotIdempotent   bool
	Retries         int // 0: unbounded, negative: none
	MaxInFlight     int
	Linger          time.Duration // negative: none
	BatchSize       int
	BufferMemory    int64
	MaxRequestSize  int
	LeastPipe       int64 // of the accumulator
	DeliveryTimeout time.Duration
	RequestTimeout  time.Duration
	RetryBackoff    time.Duration
	RetryBackoffMax time.Duration
	MetadataMaxAge  time.Duration
	MetadataMaxIdle time.Duration
	Codec           protocol.Codec
	Sticky          int

	ReconnectBackoff, ReconnectBackoffMax time.Duration // zeros: those of RetryBackoff
	SetupTimeout, SetupTimeoutMax         time.Duration // of a connection
	IdleTimeout                           time.Duration // of a connection; 0: the client's default
	RebootstrapTrigger                    time.Duration
	Bootstrap                             func(node int32) string // the name by which a node is in the bootstrap list; nil: its own
	WallClock                             bool                    // the client's times have a wall clock that can be wrong: Selector.Skew

	Logger *slog.Logger // of the engine; nil: silent

	// Callbacks has callbacks run by a simulated goroutine, one batch at a time, each so much later than it could. Nil: they
	// run at once, within the sender.
	Callbacks func() time.Duration

	Retry func(topic string, partition int32, records, attempts int, backoff time.Duration, err error)

	// Assists says, of each thing that comes for a sender that sleeps, whether whoever brings it runs an iteration in the sender's place. Nil: nobody
	// ever does.
	Assists func() bool
}

func (c Config) withDefaults() Config {
	set := func(d *time.Duration, v time.Duration) {
		if *d == 0 {
			*d = v
		}
	}
	if c.Acks == 0 && !c.AcksNone {
		c.Acks = -1
	}
	if c.Retries == 0 {
		c.Retries = 1<<31 - 1
	}
	c.Retries = max(c.Retries, 0)
	if c.MaxInFlight == 0 {
		c.MaxInFlight = 5
	}
	set(&c.Linger, 5*time.Millisecond)
	c.Linger = max(c.Linger, 0)
	if c.BatchSize == 0 {
		c.BatchSize = 16 << 10
	}
	if c.BufferMemory == 0 {
		c.BufferMemory = 32 << 20
	}
	if c.MaxRequestSize == 0 {
		c.MaxRequestSize = 1 << 20
	}
	set(&c.DeliveryTimeout, 3*time.Second)
	set(&c.RequestTimeout, 500*time.Millisecond)
	set(&c.RetryBackoff, 20*time.Millisecond)
	set(&c.RetryBackoffMax, 100*time.Millisecond)
	set(&c.MetadataMaxAge, time.Minute)
	set(&c.MetadataMaxIdle, time.Minute)
	set(&c.ReconnectBackoff, c.RetryBackoff)
	set(&c.ReconnectBackoffMax, c.RetryBackoffMax)
	set(&c.SetupTimeout, 300*time.Millisecond)
	set(&c.SetupTimeoutMax, time.Second)
	set(&c.RebootstrapTrigger, 5*time.Minute)
	return c
}

// World is a cluster and one producer's engine, in one goroutine. The engine is the real one: accumulator, sender,
// network client, metadata and sequence state; only the connections and the time are simulated.
type World struct {
	Config   Config
	Cluster  *testbroker.Cluster
	Selector *Selector
	Pool     *bufferpool.BufferPool
	Acc      *accumulator.RecordAccumulator
	Metadata *metadata.Metadata
	Client   *netclient.NetworkClient
	Sender   *sender.Sender
	Disp     *sender.Dispatcher // nil unless Config.Callbacks is set
	Metrics  *metrics.Set
	Rand     *rand.Rand

	// Settled is told of every batch that is settled, in the order of the records of its partition. May be nil.
	Settled func(tp protocol.TopicPartition, records int32)

	// Assisted is called after each iteration, or several, of somebody who assists. May be nil.
	Assisted func()

	// SettledAt is, during a callback, when its record was settled, since the start.
	SettledAt time.Duration

	now time.Time
}

// Start is when every world begins.
var Start = time.Date(2030, 1, 1, 0, 0, 0, 0, time.UTC)

// New makes a world.
func New(cfg Config) (*World, error) {
	cfg = cfg.withDefaults()
	if cfg.Cluster.Nodes == 0 {
		cfg.Cluster.Nodes = 1
	}
	cluster := testbroker.NewCluster(cfg.Cluster)
	if err := Place(cluster); err != nil {
		return nil, err
	}
	w := &World{Config: cfg, Cluster: cluster}
	w.Rand = rand.New(rand.NewPCG(cfg.Seed, 1))
	intN := func(n int) int { return w.Rand.IntN(n) }
	w.Selector = NewSelector(cluster, Start)
	w.Selector.WallClock = cfg.WallClock
	w.now = w.Selector.Now()
	w.Metrics = metrics.New(2, 30*time.Second, w.now)
	wake := w.Selector.Wakeup
	var callbacks sender.Callbacks = idle{}
	if cfg.Callbacks != nil {
		w.Disp = sender.NewSteppedDispatcher(cfg.BufferMemory, func() { w.Selector.In(0, w.runCallbacks) })
		callbacks = w.Disp
		w.runCallbacks() // asleep from the start
	}
	w.Pool = bufferpool.New(bufferpool.Config{Total: cfg.BufferMemory, OnWait: wake})
	var bootstrap []protocol.Node
	for i, id := range cluster.NodeIDs() {
		host, port := Address(id)
		if cfg.Bootstrap != nil {
			host = cfg.Bootstrap(id)
			w.Selector.Occupy(host, port, cluster, id)
		}
		bootstrap = append(bootstrap, protocol.Node{ID: int32(-1 - i), Host: host, Port: port})
	}
	sticky := cfg.Sticky
	if sticky == 0 {
		sticky = cfg.BatchSize
	}
	w.Acc = accumulator.New(accumulator.Config{
		BatchSize: min(cfg.BatchSize, cfg.MaxRequestSize), Linger: cfg.Linger, DeliveryTimeout: cfg.DeliveryTimeout,
		RetryBackoff: cfg.RetryBackoff, RetryBackoffMax: cfg.RetryBackoffMax,
		Codec:         cfg.Codec,
		NewCompressor: func() (protocol.Compressor, error) { return compress.New(cfg.Codec, compress.DefaultLevel) },
		Decompress: func(codec protocol.Codec, src []byte, maxSize int) ([]byte, error) {
			return compress.Decompress(codec, nil, src, maxSize)
		},
		Pool: w.Pool, StickyThreshold: sticky, LeastPipe: cfg.LeastPipe, Adaptive: true, Rand: intN,
		Now:    w.Selector.Now,
		Logger: cfg.Logger,
		Wake:   wake,
		Assist: w.appended,
		Done:   w.done,
	})
	w.Metadata = metadata.New(metadata.Config{
		Bootstrap: bootstrap, MaxAge: cfg.MetadataMaxAge, MaxIdle: cfg.MetadataMaxIdle,
		RetryBackoff: cfg.RetryBackoff, RetryBackoffMax: cfg.RetryBackoffMax, RebootstrapTrigger: cfg.RebootstrapTrigger,
		Rand: intN, Wake: wake, InUse: w.Acc.InUse, Logger: cfg.Logger,
	})
	w.Client = netclient.New(netclient.Config{
		ClientID: "sim", RequestTimeout: cfg.RequestTimeout, MaxInFlight: cfg.MaxInFlight,
		ReconnectBackoff: cfg.ReconnectBackoff, ReconnectBackoffMax: cfg.ReconnectBackoffMax,
		ConnectionSetupTimeout: cfg.SetupTimeout, ConnectionSetupTimeoutMax: cfg.SetupTimeoutMax,
		ConnectionsMaxIdle: cfg.IdleTimeout, Rand: intN, Logger: cfg.Logger,
	}, w.Selector, w.Metadata)
	w.Sender = sender.New(sender.Config{
		ClientID: "sim", Acks: cfg.Acks, Idempotent: !cfg.NotIdempotent && cfg.Acks == -1 && cfg.Retries > 0,
		Retries: cfg.Retries, MaxInFlight: cfg.MaxInFlight, MaxRequestSize: cfg.MaxRequestSize,
		RequestTimeout: cfg.RequestTimeout, DeliveryTimeout: cfg.DeliveryTimeout, RetryBackoff: cfg.RetryBackoff,
		Linger: cfg.Linger, BufferMemory: cfg.BufferMemory, Codec: cfg.Codec, Metrics: w.Metrics, Retry: cfg.Retry,
		Logger: cfg.Logger,
	}, w.Acc, w.Client, w.Metadata, callbacks)
	if cfg.Assists != nil {
		w.Selector.Assist = w.assist
	}
	return w, nil
}

// assist has somebody else than the sender's goroutine run an iteration, while that sleeps.
func (w *World) assist() bool {
	if !w.Config.Assists() {
		return false
	}
	turn := w.Sender.Turn()
	turn.Unlock()
	w.Sender.Assist()
	turn.Lock()
	if w.Assisted != nil {
		w.Assisted()
	}
	return true
}

// appended is what an append calls that would assist, or wake, the sender.
func (w *World) appended() {
	if !w.Selector.Appended() {
		w.Sender.Assist() // the turn is taken: it leaves word
	}
}

// done takes a batch that is settled.
func (w *World) done(b *accumulator.ProducerBatch) {
	if w.Settled != nil {
		w.Settled(b.TopicPartition(), b.Count())
	}
	d := settled{w, b, w.Selector.Since()}
	if w.Disp == nil {
		d.Run()
		return
	}
	w.Disp.Enqueue(d)
}

// settled is a batch on its way to the callback goroutine.
type settled struct {
	w  *World
	b  *accumulator.ProducerBatch
	at time.Duration
}

func (s settled) RawSize() int { return s.b.RawSize() }

func (s settled) Run() {
	s.w.SettledAt = s.at
	s.b.Run()
}

// runCallbacks is a turn of the callback goroutine.
func (w *World) runCallbacks() {
	if w.Disp.Step() {
		w.Selector.In(w.Config.Callbacks(), w.runCallbacks)
	}
}

// idle stands in for the callback goroutine: callbacks run at once.
type idle struct{}

func (idle) Close() {}

// Now is the virtual time.
func (w *World) Now() time.Time { return w.Selector.Now() }

// maxSpins is how many iterations may take no time before the sender counts as spinning.
const maxSpins = 10_000

// Step runs one iteration of the sender.
func (w *World) Step() { w.now = w.Sender.RunOnce(w.now) }

// Run runs the sender until done says so, or d of virtual time is over. It reports whether done did.
func (w *World) Run(d time.Duration, done func() bool) bool {
	end := w.now.Add(d)
	w.Selector.At(end, func() {})
	spins, was := 0, w.now
	for !done() {
		if w.now.After(was) {
			spins, was = 0, w.now
		} else if spins++; spins > maxSpins {
			panic("simulation: the sender spins: no time passes")
		}
		if !w.now.Before(end) || w.Sender.Closed() {
			return done()
		}
		w.Step()
	}
	return true
}

// Settle runs until nothing is incomplete.
func (w *World) Settle(d time.Duration) bool {
	return w.Run(d, func() bool { return !w.Acc.HasIncomplete() })
}

// Topic waits for a topic's metadata, which takes iterations of the sender.
func (w *World) Topic(name string) *metadata.Topic {
	var t *metadata.Topic
	w.Run(time.Minute, func() bool {
		w.Metadata.AddTopic(name, w.Now())
		t = w.Metadata.Snapshot().Topic(name)
		return t != nil && t.Count() > 0
	})
	return t
}

// Append appends a record, without waiting for anything. Partition -1 is the sticky one.
func (w *World) Append(topic string, partition int32, key, value []byte, cb func(accumulator.Result, error)) error {
	md := w.Metadata.Snapshot().Topic(topic)
	if md == nil {
		return metadata.ErrTimeout
	}
	r := accumulator.Record{Partition: partition, Timestamp: -1, Key: key, Value: value}
	if partition < 0 {
		r.Partition = partitioner.Default{}.Partition(topic, key, value, md)
	}
	_, _, err := w.Acc.Append(context.Background(), w.Acc.Topic(topic), md, &r, cb, false, 0)
	return err
}
