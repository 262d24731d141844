package producer

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"runtime"
	"sync"
	"sync/atomic"
	"time"

	"github.com/kafka-reservoir/producer/accumulator"
	"github.com/kafka-reservoir/producer/bufferpool"
	"github.com/kafka-reservoir/producer/internal/compress"
	"github.com/kafka-reservoir/producer/internal/metrics"
	"github.com/kafka-reservoir/producer/metadata"
	"github.com/kafka-reservoir/producer/netclient"
	"github.com/kafka-reservoir/producer/partitioner"
	"github.com/kafka-reservoir/producer/protocol"
	"github.com/kafka-reservoir/producer/sender"
)

// engine is everything below the types of keys and values: it wires the packages together, starts
// and stops their goroutines, and takes serialized records in.
type engine struct {
	cfg    settings
	set    *metrics.Set
	pool   *bufferpool.BufferPool
	acc    *accumulator.RecordAccumulator
	md     *metadata.Metadata
	client *netclient.NetworkClient
	sender *sender.Sender
	disp   *sender.Dispatcher
	part   partitioner.Partitioner
	// keyless: part is the built-in one, which leaves records without a key to the accumulator. Not to ask it saves 5 ns.
	keyless bool
	// maxRecord is the smaller of MaxRequestSize and BufferMemory.
	maxRecord int
	last      atomic.Pointer[accumulator.View] // the topic sent to last: saves two look-ups for most programs
	closing   atomic.Bool
	stopping  chan struct{} // closed when Close was called
	refusals  atomic.Int64  // callbacks of records that were not accepted, queued
	closed    chan struct{} // closed when nothing runs any more
	stop      sync.Once
}

// turn is the sender's Turn: the selector is made before the sender.
type turn struct{ e *engine }

func (t turn) Lock()   { t.e.sender.Turn().Lock() }
func (t turn) Unlock() { t.e.sender.Turn().Unlock() }

// assist is how a caller has a sender that sleeps look at what it has appended. It may do the sender's work itself where that is none of its locks' business and
// soon done: no code of the application's is called then (a Logger or a Trace hook could need what the caller of Send holds), and nothing is
// compressed.
func (e *engine) assist(wake func()) func() {
	if e.cfg.foreign || e.cfg.Compression != None {
		return wake
	}
	return func() { e.sender.Assist() }
}

// newEngine checks the settings and, unless something is wrong with them or with more, starts.
func newEngine(cfg Config, more error) (*engine, error) {
	set, err := cfg.resolve()
	if err = errors.Join(more, err); err != nil {
		return nil, err
	}
	if err := set.checkBootstrap(context.Background(), net.DefaultResolver.LookupHost); err != nil {
		return nil, err
	}
	for _, n := range set.notes {
		set.Logger.Info(n, "client_id", set.ClientID)
	}

	e := &engine{cfg: set, stopping: make(chan struct{}), closed: make(chan struct{}), part: set.Partitioner}
	e.maxRecord = int(min(int64(set.MaxRequestSize), set.BufferMemory))
	if e.part == nil {
		e.keyless = true
		e.part = partitioner.Default{IgnoreKeys: set.PartitionerIgnoreKeys}
	}
	e.set = metrics.New(set.MetricsNumSamples, set.MetricsSampleWindow, time.Now())
	e.set.BufferTotalBytes.Set(set.BufferMemory)
	wake := func() { e.client.Wakeup() }
	e.pool = bufferpool.New(bufferpool.Config{
		Total:       set.BufferMemory,
		OnWait:      wake,
		OnWaited:    func(d time.Duration) { e.set.BufferPoolWaitTime.Add(int(d)) },
		OnExhausted: func() { e.set.BufferExhaustedTotal.Add(1) },
	})
	e.disp = sender.NewDispatcher(set.BufferMemory)
	e.acc = accumulator.New(accumulator.Config{
		BatchSize:       min(set.BatchSize, set.MaxRequestSize),
		Linger:          set.Linger,
		DeliveryTimeout: set.DeliveryTimeout,
		RetryBackoff:    set.RetryBackoff,
		RetryBackoffMax: set.RetryBackoffMax,
		Codec:           set.Compression.codec(),
		NewCompressor: func() (protocol.Compressor, error) {
			return compress.New(set.Compression.codec(), set.CompressionLevel)
		},
		Decompress: func(codec protocol.Codec, src []byte, maxSize int) ([]byte, error) {
			return compress.Decompress(codec, nil, src, maxSize)
		},
		Sealers:             sealers(set.Config),
		Pool:                e.pool,
		StickyThreshold:     set.PartitionerStickyBytes,
		Stripes:             min(runtime.GOMAXPROCS(0), maxStripes),
		Adaptive:            !set.DisableAdaptivePartitioning,
		AvailabilityTimeout: set.PartitionerAvailabilityTimeout,
		Rand:                rand.IntN,
		Now:                 time.Now,
		Wake:                wake,
		Assist:              e.assist(wake),
		Logger:              set.Logger,
		Done:                func(b *accumulator.ProducerBatch) { e.disp.Enqueue(b) },
	})
	rack := ""
	if set.PartitionerRackAware {
		rack = set.ClientRack
	}
	e.md = metadata.New(metadata.Config{
		Bootstrap:          set.bootstrap,
		MaxAge:             set.MetadataMaxAge,
		MaxIdle:            set.MetadataMaxIdle,
		RetryBackoff:       set.RetryBackoff,
		RetryBackoffMax:    set.RetryBackoffMax,
		Rack:               rack,
		NoClusterCheck:     set.DisableClusterCheck,
		NoRebootstrap:      set.MetadataRecovery == NoRebootstrap,
		RebootstrapTrigger: set.MetadataRecoveryRebootstrapTrigger,
		Rand:               rand.IntN,
		Logger:             set.Logger,
		Wake:               wake,
		InUse:              e.acc.InUse,
		OnForget:           e.forget,
		OnUpdate:           func(*metadata.Snapshot) { e.set.MetadataUpdated(time.Now()) },
	})
	e.client = netclient.New(e.clientConfig(), netclient.NewTCPSelector(netclient.TCPConfig{
		Dial:            set.Dial,
		AskCluster:      !set.DisableClusterCheck,
		ClientID:        set.ClientID,
		SoftwareVersion: version(),
		MaxResponseSize: set.MaxResponseSize,
		SendBuffer:      set.SendBuffer,
		ReceiveBuffer:   set.ReceiveBuffer,
		Turn:            turn{e},
		Assist:          func() { e.sender.Assist() },
		Metrics:         e.set,
	}), e.md)
	e.sender = sender.New(sender.Config{
		ClientID:        set.ClientID,
		Acks:            set.Acks.wire(),
		Idempotent:      set.idempotent,
		Retries:         set.Retries,
		MaxInFlight:     set.MaxInFlight,
		MaxRequestSize:  set.MaxRequestSize,
		RequestTimeout:  set.RequestTimeout,
		DeliveryTimeout: set.DeliveryTimeout,
		RetryBackoff:    set.RetryBackoff,
		Linger:          set.Linger,
		BufferMemory:    set.BufferMemory,
		Codec:           set.Compression.codec(),
		Logger:          set.Logger,
		Metrics:         e.set,
		BatchDone:       set.Trace.BatchDone,
		Retry:           set.Trace.Retry,
	}, e.acc, e.client, e.md, e.disp)

	go e.sender.Run(time.Now()) // ends when close is called; Done reports it
	return e, nil
}

// forget drops what is kept of a topic that nobody has used for long, and would keep its metadata. The sender's goroutine.
func (e *engine) forget(topic string) {
	e.set.ForgetTopic(topic)
	e.acc.Forget(topic)
	if v := e.last.Load(); v != nil && v.Topic.Name == topic {
		e.last.CompareAndSwap(v, nil) // unless somebody has just come back to it, or gone on to another
	}
}

func (e *engine) clientConfig() netclient.Config {
	set, trace := e.cfg, e.cfg.Trace
	return netclient.Config{
		ClientID:                  set.ClientID,
		RequestTimeout:            set.RequestTimeout,
		MaxInFlight:               set.MaxInFlight,
		ReconnectBackoff:          set.ReconnectBackoff,
		ReconnectBackoffMax:       set.ReconnectBackoffMax,
		ConnectionSetupTimeout:    set.ConnectionSetupTimeout,
		ConnectionSetupTimeoutMax: set.ConnectionSetupTimeoutMax,
		ConnectionsMaxIdle:        set.ConnectionsMaxIdle,
		Rand:                      rand.IntN,
		Logger:                    set.Logger,
		ConnectDone: func(n protocol.Node, took time.Duration, err error) {
			if trace.ConnectDone != nil {
				trace.ConnectDone(n.ID, n.Addr(), took, err)
			}
		},
		NodeForgotten: e.set.ForgetNode,
		RequestSent: func(node int32, written int) {
			n := e.set.Node(node)
			e.set.RequestTotal.Add(1)
			e.set.RequestSize.Observe(int64(written))
			n.RequestTotal.Add(1)
			n.RequestSize.Observe(int64(written))
		},
		RequestDone: func(node int32, api protocol.APIKey, version int16, written, read int, took time.Duration, err error) {
			if read > 0 { // without acknowledgements there is no answer, and no error either
				n := e.set.Node(node)
				e.set.ResponseTotal.Add(1)
				n.ResponseTotal.Add(1)
				if api == protocol.KeyProduce {
					n.RequestLatency.ObserveDuration(took)
				}
			}
			if trace.RequestDone != nil {
				trace.RequestDone(node, api.String(), version, written, read, took, err)
			}
		},
		Throttled: func(node int32, d time.Duration) {
			e.set.ProduceThrottleTime.ObserveDuration(d)
			if trace.Throttled != nil {
				trace.Throttled(node, d)
			}
		},
	}
}

// topic finds a topic's view, waiting for its metadata if need be. It returns what is left of MaxBlock.
func (e *engine) topic(ctx context.Context, name string, partition Partition) (*accumulator.View, time.Duration, error) {
	snapshot := e.md.Snapshot()
	if v := e.last.Load(); v != nil && v.Version == snapshot.Version() && v.Topic.Name == name && int(partition.plusOne) <= v.Metadata.Count() &&
		partition.plusOne >= 0 && !e.closing.Load() {
		return v, e.cfg.MaxBlock, nil
	}
	return e.lookUp(ctx, name, partition)
}

// lookUp is topic, when it is not the one sent to last.
func (e *engine) lookUp(ctx context.Context, name string, partition Partition) (*accumulator.View, time.Duration, error) {
	switch {
	case e.closing.Load():
		return nil, 0, ErrClosed
	case name == "":
		return nil, 0, fmt.Errorf("record without a topic: %w", InvalidTopicException)
	case partition.plusOne < 0:
		return nil, 0, fmt.Errorf("record for topic %s: a partition must not be negative; leave Partition out to have one chosen: %w", name, ErrInvalidPartition)
	}
	snapshot := e.md.Snapshot()
	md := snapshot.Topic(name)
	maxWait := e.cfg.MaxBlock
	if md == nil || md.Count() == 0 || int(partition.plusOne) > md.Count() {
		began := time.Now()
		var err error
		md, err = e.md.Await(ctx, name, partition.plusOne-1, began, maxWait)
		waited := time.Since(began)
		e.set.MetadataWaitTime.Add(int(waited))
		if err != nil {
			if errors.Is(err, metadata.ErrClosed) {
				err = ErrClosed
			}
			return nil, 0, err
		}
		if maxWait > 0 {
			// What is left is at least a moment: no memory means something else than no time.
			maxWait = max(maxWait-waited, 1)
		}
		// The view is of one moment: a newer snapshot has its own topic, perhaps with more partitions.
		snapshot = e.md.Snapshot()
		if newer := snapshot.Topic(name); newer != nil && newer.Count() >= max(md.Count(), 1) {
			md = newer
		}
	}
	t := e.acc.Topic(name)
	v := t.View.Load()
	if v == nil || v.Version != snapshot.Version() || v.Metadata != md {
		v = &accumulator.View{Version: snapshot.Version(), Metadata: md, Topic: t}
		t.View.Store(v)
	}
	e.last.Store(v)
	return v, maxWait, nil
}

// append chooses the partition, checks the size, and puts the record into the accumulator.
func (e *engine) append(ctx context.Context, v *accumulator.View, r *accumulator.Record, cb Callback, future bool, maxWait time.Duration) Future {
	topic := v.Topic.Name
	if err := e.sender.Err(); err != nil {
		return e.refuse(topic, r.Partition, cb, err, future)
	}
	if r.Partition < 0 && (r.Key != nil || !e.keyless) {
		r.Partition = e.part.Partition(topic, r.Key, r.Value, v.Metadata)
		if n := v.Metadata.Count(); r.Partition != partitioner.Any && (r.Partition < 0 || int(r.Partition) >= n) {
			return e.refuse(topic, -1, cb, fmt.Errorf("record for topic %s: the partitioner chose partition %d of %d, which are counted from 0: %w", topic, r.Partition, n, ErrInvalidPartition), future)
		}
	}
	if size := protocol.MaxRecordSize(r.Key, r.Value, r.Headers); size > e.maxRecord {
		err := &RecordTooLargeError{Topic: topic, Size: size, Limit: e.cfg.MaxRequestSize, Setting: "MaxRequestSize"}
		if int64(err.Limit) > e.cfg.BufferMemory {
			err.Limit, err.Setting = int(e.cfg.BufferMemory), "BufferMemory"
		}
		return e.refuse(topic, r.Partition, cb, err, future)
	}
	if e.disp.Full() {
		var err error
		if maxWait, err = e.awaitCallbacks(ctx, maxWait); err != nil {
			return e.refuse(topic, r.Partition, cb, err, future)
		}
	}
	h, partition, err := e.acc.Append(ctx, v.Topic, v.Metadata, r, accumulator.Callback(cb), future, maxWait)
	if err != nil {
		return e.refuse(topic, partition, cb, err, future)
	}
	return Future{h}
}

// maxRefusals is how many callbacks of records that were never accepted may wait. They hold nothing of the buffer, so that nothing
// else would bound them while a callback blocks.
const maxRefusals = 100_000

// awaitCallbacks holds a Send up while too much waits for its callbacks, lest that becomes ever more. What was accepted is
// sent meanwhile, and a Send inside a callback is not held up: nothing that a callback waits for may wait for callbacks.
// It returns what is left of maxWait.
func (e *engine) awaitCallbacks(ctx context.Context, maxWait time.Duration) (time.Duration, error) {
	if e.disp.InCallback() {
		return maxWait, nil
	}
	began := time.Now()
	if maxWait > 0 {
		timer := time.NewTimer(maxWait)
		defer timer.Stop()
		for {
			room := e.disp.Room()
			if room == nil {
				return max(maxWait-time.Since(began), 1), nil
			}
			select {
			case <-room:
				continue
			case <-ctx.Done():
				return 0, fmt.Errorf("waiting for callbacks to return: %w", context.Cause(ctx))
			case <-e.stopping:
				return 0, ErrClosed
			case <-timer.C:
			}
			break
		}
	}
	e.set.BufferExhaustedTotal.Add(1)
	return 0, fmt.Errorf("more than %d bytes of records have waited for %v for their callbacks to return: make the callbacks faster, or raise BufferMemory: %w",
		e.cfg.BufferMemory, time.Since(began).Round(time.Millisecond), ErrBufferExhausted)
}

// refusal is the callback of a record that was never accepted, on its way to the callback goroutine.
type refusal struct {
	e   *engine
	cb  Callback
	m   RecordMetadata
	err error
}

func (r refusal) Run() {
	r.e.refusals.Add(-1)
	r.cb(r.m, r.err)
}

// refuse ends a record that was not accepted.
func (e *engine) refuse(topic string, partition int32, cb Callback, err error, future bool) Future {
	e.set.RecordErrorTotal.Add(1)
	if errors.Is(err, accumulator.ErrClosed) {
		err = ErrClosed
	}
	if cb != nil {
		r := refusal{e, cb, RecordMetadata{Topic: topic, Partition: max(partition, -1), Offset: -1, KeySize: -1, ValueSize: -1}, err}
		if e.refusals.Add(1) > maxRefusals || !e.disp.Enqueue(r) {
			r.Run() // too many wait already, or the callback goroutine has ended with Close: nobody else is left to tell
		}
	}
	if !future {
		return Future{}
	}
	return Future{accumulator.Failed(topic, max(partition, -1), err)}
}

func (e *engine) flush(ctx context.Context) error {
	began := time.Now()
	defer func() { e.set.FlushTime.Add(int(time.Since(began))) }()
	e.acc.BeginFlush()
	defer e.acc.EndFlush()
	if err := e.acc.AwaitFlush(ctx); err != nil {
		return fmt.Errorf("flush: records are not acknowledged yet, and go on being sent: %w", err)
	}
	if err := e.disp.Await(ctx); err != nil {
		return fmt.Errorf("flush: all records are settled, and callbacks have not returned yet: %w", err)
	}
	return nil
}

// closeGrace is how long a close that ran out of time waits for a callback that is running.
const closeGrace = 50 * time.Millisecond

func (e *engine) close(ctx context.Context) error {
	e.closing.Store(true)
	e.stop.Do(func() {
		close(e.stopping)
		e.acc.Close()
		e.md.Interrupt()
		if ctx.Err() != nil {
			e.sender.ForceClose() // first: there is no time to send anything more
		}
		e.sender.InitiateClose()
		go func() { // ends with the callback goroutine; closed reports it
			<-e.sender.Done()
			<-e.disp.Done()
			close(e.closed)
		}()
	})
	select {
	case <-e.closed:
		return nil
	case <-ctx.Done():
		select {
		case <-e.closed: // also when both are true, it is closed
			return nil
		default:
		}
	}
	e.sender.ForceClose()
	<-e.sender.Done()
	failed := e.sender.Abandoned()
	select {
	case <-e.closed:
	case <-time.After(closeGrace):
		if failed == 0 {
			return fmt.Errorf("close: a callback is still running, and the records behind it are not told of yet; all records are settled: make the callback faster, or give Close more time: %w", context.Cause(ctx))
		}
		return fmt.Errorf("close: a callback is still running, and the records behind it are not told of yet; %d records were not acknowledged in time: %w", failed, context.Cause(ctx))
	}
	if failed == 0 {
		return fmt.Errorf("close: all records are settled and told of, but their callbacks took longer than Close was given: %w", context.Cause(ctx))
	}
	return fmt.Errorf("close: %d records that were not acknowledged in time have failed with ErrForceClosed; give Close more time: %w", failed, context.Cause(ctx))
}

func (e *engine) partitionsFor(ctx context.Context, topic string) ([]PartitionInfo, error) {
	v, _, err := e.lookUp(ctx, topic, Partition{})
	if err != nil {
		return nil, err
	}
	infos := make([]PartitionInfo, v.Metadata.Count())
	for i := range infos {
		p := v.Metadata.Partition(int32(i))
		infos[i] = PartitionInfo{
			Topic: topic, Partition: int32(i), Leader: v.Metadata.Leader(int32(i)), LeaderEpoch: v.Metadata.LeaderEpoch(int32(i)),
		}
		if p != nil {
			infos[i].Replicas = append([]int32(nil), p.Replicas...)
			infos[i].InSync = append([]int32(nil), p.ISR...)
			infos[i].Offline = append([]int32(nil), p.Offline...)
		}
	}
	return infos, nil
}

func (e *engine) metrics() Metrics {
	e.set.BufferAvailableBytes.Set(e.pool.Available())
	e.set.WaitingThreads.Set(int64(e.pool.Waiting()))
	return snapshot(e.set, time.Now())
}

// maxStripes bounds the partitions that records without a key go to at a time.
const maxStripes = 4

// compressorMemory bounds what the compressors of one producer hold.
const compressorMemory = 48 << 20

// sealers is how many goroutines compress: as many as can run. One fewer, so that the application has a processor to itself, leaves it four
// batches of five to compress itself: on two processors that was up to 20 % fewer records a second and 4 to 10 % more CPU, by codec. At high levels
// the encoders' memory is what bounds them (zstd 7 and up takes 7 MiB each; FC-038).
func sealers(c Config) int {
	if c.Compression == None {
		return 0
	}
	n := runtime.GOMAXPROCS(0)
	if each := compress.Footprint(c.Compression.codec(), c.CompressionLevel); each > 0 {
		n = min(n, int(max(compressorMemory/each, 1)))
	}
	return n
}
