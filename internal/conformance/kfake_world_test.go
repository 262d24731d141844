package conformance

import (
	"context"
	"encoding/binary"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kbin"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/kafka-reservoir/producer"
	"github.com/kafka-reservoir/producer/internal/simnet"
)

// What a world sends: to each partition, bursts of records a tenth of a second apart.
const (
	topic        = "numbers"
	partitions   = 6
	bursts       = 40
	burst        = 20
	perPartition = bursts * burst
)

// requestTimeout is the producer's. What is late is later than that.
const requestTimeout = 2 * time.Second

// recovery bounds the time from the end of the disturbance to the last acknowledgement: what is on its way may have to
// time out twice, and queues of all this time have to be sent.
const recovery = 3 * requestTimeout

// fate is what becomes of an answer.
type fate int

const (
	arrives   fate = iota
	cut            // half of it arrives, and the connection ends
	lost           // nothing arrives, and the connection ends
	swallowed      // nothing arrives, and the connection stays
	late           // it arrives after the request has timed out
)

// world is a kfake cluster on a network in memory. Inside a synctest bubble.
type world struct {
	*kfake.Cluster
	network *simnet.Network

	// Of the goroutine that disturbs.
	random     *rand.Rand
	replacedAt time.Time // when a node was replaced last

	mu     sync.Mutex
	fates  []fate                   // of the next answers, whichever they are
	ask    func(kmsg.Request) error // an error closes the connection of a request before it is carried out; nil lets all through
	faults []*kfake.FaultHandle
}

// newWorld starts a cluster of three nodes.
func newWorld(t *testing.T, seed uint64, opts ...kfake.Opt) *world {
	t.Helper()
	w := &world{network: simnet.New(simnet.Link{Latency: time.Millisecond}), random: rand.New(rand.NewPCG(seed, 0))}
	opts = append([]kfake.Opt{
		kfake.NumBrokers(3),
		kfake.SeedTopics(partitions, topic),
		kfake.ListenFn(func(_, address string) (net.Listener, error) {
			l, err := w.network.Listen(address)
			return listener{l, w}, err
		}),
	}, opts...)
	c, err := kfake.NewCluster(opts...)
	require.NoError(t, err)
	w.Cluster = c
	c.Control(func(r kmsg.Request) (kmsg.Response, error, bool) {
		c.KeepControl()
		w.mu.Lock()
		defer w.mu.Unlock()
		if w.ask == nil {
			return nil, nil, false
		}
		err := w.ask(r)
		return nil, err, err != nil
	})
	return w
}

// heal ends what disturbs.
func (w *world) heal() {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, f := range w.faults {
		f.Remove()
	}
	w.fates, w.ask = nil, nil
}

// fault installs a fault of kfake until it has happened or heal is called.
func (w *world) fault(f kfake.Fault) {
	h := w.Fault(f)
	w.mu.Lock()
	defer w.mu.Unlock()
	w.faults = append(w.faults, h)
}

// answers decides on the answers to come.
func (w *world) answers(fates ...fate) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.fates = append(w.fates, fates...)
}

// requests has f asked about each request from now on.
func (w *world) requests(f func(kmsg.Request) error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.ask = f
}

func (w *world) nextFate() fate {
	w.mu.Lock()
	defer w.mu.Unlock()
	if len(w.fates) == 0 {
		return arrives
	}
	f := w.fates[0]
	w.fates = w.fates[1:]
	return f
}

// listener hands out connections whose answers have a fate.
type listener struct {
	net.Listener
	w *world
}

func (l listener) Accept() (net.Conn, error) {
	c, err := l.Listener.Accept()
	if err != nil {
		return nil, err
	}
	return brokerConn{c, l.w}, nil
}

// brokerConn is a broker's side of a connection. kfake writes an answer at once.
type brokerConn struct {
	net.Conn
	w *world
}

func (c brokerConn) Write(b []byte) (int, error) {
	switch c.w.nextFate() {
	case cut:
		n, _ := c.Conn.Write(b[:len(b)/2])
		_ = c.Close()
		return n, net.ErrClosed
	case lost:
		_ = c.Close()
		return 0, net.ErrClosed
	case swallowed:
		return len(b), nil
	case late:
		time.Sleep(requestTimeout + 500*time.Millisecond)
	}
	return c.Conn.Write(b)
}

// reset breaks all connections to a broker.
func (w *world) reset(address string) {
	for _, c := range w.network.Conns(address) {
		c.Reset()
	}
}

// stored reads a partition with Fetch requests of our own: the values, by offset.
func (w *world) stored(t *testing.T, partition int32) []string {
	t.Helper()
	info := w.PartitionInfo(topic, partition)
	require.NotNil(t, info)
	var all []string
	for _, address := range w.ListenAddrs() {
		conn, err := w.network.Dial(context.Background(), "tcp", address)
		require.NoError(t, err)
		for int64(len(all)) < info.HighWatermark {
			req := kmsg.NewPtrFetchRequest()
			req.SetVersion(4) // kfake's first
			req.MaxBytes = 64 << 20
			rt := kmsg.NewFetchRequestTopic()
			rt.Topic = topic
			rp := kmsg.NewFetchRequestTopicPartition()
			rp.Partition, rp.FetchOffset, rp.PartitionMaxBytes = partition, int64(len(all)), 64<<20
			rt.Partitions = append(rt.Partitions, rp)
			req.Topics = append(req.Topics, rt)
			res := kmsg.NewPtrFetchResponse()
			roundTrip(t, conn, req, res)
			p := res.Topics[0].Partitions[0]
			if p.ErrorCode == kerr.NotLeaderForPartition.Code {
				break
			}
			require.NoError(t, kerr.ErrorForCode(p.ErrorCode))
			before := len(all)
			all = appendValues(t, all, p.RecordBatches)
			require.Greater(t, len(all), before, "a fetch below the end brought nothing")
		}
		require.NoError(t, conn.Close())
	}
	require.Len(t, all, int(info.HighWatermark), "records read of partition %d", partition)
	return all
}

// roundTrip sends a request with a plain header and reads its answer.
func roundTrip(t *testing.T, conn net.Conn, req kmsg.Request, res kmsg.Response) {
	t.Helper()
	_, err := conn.Write(kmsg.NewRequestFormatter().AppendRequest(nil, req, 7))
	require.NoError(t, err)
	size := make([]byte, 4)
	_, err = io.ReadFull(conn, size)
	require.NoError(t, err)
	body := make([]byte, binary.BigEndian.Uint32(size))
	_, err = io.ReadFull(conn, body)
	require.NoError(t, err)
	res.SetVersion(req.GetVersion())
	require.NoError(t, res.ReadFrom(body[4:]))
}

// appendValues adds the values of uncompressed batches, whose offsets must go on where all ends.
func appendValues(t *testing.T, all []string, batches []byte) []string {
	t.Helper()
	for len(batches) > 0 {
		var b kmsg.RecordBatch
		size := 12 + int(binary.BigEndian.Uint32(batches[8:]))
		require.NoError(t, b.ReadFrom(batches[:size]))
		batches = batches[size:]
		require.Equal(t, int64(len(all)), b.FirstOffset)
		records := b.Records
		for range b.NumRecords {
			n, used := kbin.Varint(records)
			var r kmsg.Record
			require.NoError(t, r.ReadFrom(records[:used+int(n)]))
			records = records[used+int(n):]
			all = append(all, string(r.Value))
		}
	}
	return all
}

// value is the i-th record of a partition.
func value(partition int32, i int) string { return fmt.Sprintf("%d/%d/%040d", partition, i, i) }

// told is what callbacks told of one partition.
type told struct {
	mu      sync.Mutex
	order   []int   // records, in the order of their callbacks
	offsets []int64 // by record; -1 where it failed
	errs    map[int]error
}

func (p *told) callback(i int) producer.Callback {
	return func(m producer.RecordMetadata, err error) {
		p.mu.Lock()
		defer p.mu.Unlock()
		p.order = append(p.order, i)
		if err != nil {
			p.errs[i] = err
			return
		}
		p.offsets[i] = m.Offset
	}
}

// play sends numbered records while disturb is called again and again, heals the world, and returns what was told of
// each partition when all callbacks have run. Each record must have been told of once, in order, and by the time that
// recovery may take.
func (w *world) play(t *testing.T, change func(*producer.Config), disturb func(*world)) [partitions]*told {
	t.Helper()
	cfg := producer.Config{
		BootstrapServers: w.ListenAddrs(),
		Dial:             w.network.Dial,
		RequestTimeout:   requestTimeout,
		BatchSize:        400, // four records: a burst has five batches
		// A connection that is not answered is given up as soon as a request is.
		ConnectionSetupTimeout: requestTimeout, ConnectionSetupTimeoutMax: requestTimeout,
	}
	if change != nil {
		change(&cfg)
	}
	p, err := producer.New(cfg, producer.String(), producer.String())
	require.NoError(t, err)
	var all [partitions]*told
	var sending sync.WaitGroup
	for n := range all {
		all[n] = &told{errs: map[int]error{}, offsets: slices.Repeat([]int64{-1}, perPartition)}
		sending.Go(func() {
			for i := range perPartition {
				if i%burst == 0 {
					time.Sleep(100 * time.Millisecond)
				}
				p.SendFunc(context.Background(), producer.Record[string, string]{
					Topic: topic, Partition: producer.OnPartition(int32(n)), Value: value(int32(n), i),
				}, all[n].callback(i))
			}
		})
	}
	// Sending may wait for what is disturbed.
	for end := time.Now().Add(bursts * 100 * time.Millisecond); time.Now().Before(end); {
		time.Sleep(time.Duration(20+w.random.IntN(200)) * time.Millisecond)
		if disturb != nil {
			disturb(w)
		}
	}
	w.heal()
	healed := time.Now()
	sending.Wait()
	require.NoError(t, p.Flush(context.Background()))
	took := time.Since(healed)
	assert.LessOrEqual(t, took, recovery, "time from the end of the disturbance to the last acknowledgement")
	m := p.Metrics()
	t.Logf("%v after the end of the disturbance; %d records sent, %d of them again, %d errors, %d splits",
		took, int(m.RecordSend.Total), int(m.RecordRetry.Total), int(m.RecordError.Total), int(m.BatchSplit.Total))
	require.NoError(t, p.Close(context.Background()))
	for n, p := range all {
		require.Len(t, p.order, perPartition, "callbacks of partition %d", n)
		require.True(t, slices.IsSorted(p.order), "callbacks of partition %d were out of order", n)
		require.Len(t, slices.Compact(slices.Clone(p.order)), perPartition, "records of partition %d were told of twice", n)
	}
	return all
}

// inWorld runs a test in a bubble, with a world that is gone afterwards.
func inWorld(t *testing.T, seed uint64, opts []kfake.Opt, f func(t *testing.T, w *world)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, seed, opts...)
		defer func() {
			w.Close()
			time.Sleep(2 * requestTimeout) // until late answers have been written to nobody
		}()
		f(t, w)
	})
}

// allStored demands that every record was acknowledged, and that each is in the log once, in order, at the offset that
// it was acknowledged with.
func (w *world) allStored(t *testing.T, all [partitions]*told) {
	t.Helper()
	for n, p := range all {
		if len(p.errs) > 0 {
			t.Errorf("partition %d: %d records failed, one of them: %v", n, len(p.errs), firstOf(p.errs))
		}
		assert.Equal(t, perPartition, len(w.stored(t, int32(n))), "records in partition %d", n)
	}
	w.honest(t, all)
}

// honest demands of what was told that it is true: what is acknowledged is in the log, at the offset that was told; what
// failed is not, unless it was said that it may be; nothing is there twice, and all in order.
func (w *world) honest(t *testing.T, all [partitions]*told) {
	t.Helper()
	for n, p := range all {
		at := make(map[int]int) // record to offset
		last := -1
		for offset, v := range w.stored(t, int32(n)) {
			var partition, i int
			_, err := fmt.Sscanf(v, "%d/%d/", &partition, &i)
			require.NoError(t, err)
			require.Equal(t, value(int32(n), i), v, "offset %d of partition %d", offset, n)
			require.Greater(t, i, last, "offset %d of partition %d: a record that is there already, or out of order", offset, n)
			at[i], last = offset, i
		}
		for i, told := range p.offsets {
			offset, stored := at[i]
			switch err := p.errs[i]; {
			case err == nil && (!stored || told != int64(offset)):
				t.Fatalf("partition %d: record %d was acknowledged at offset %d; is there: %v, at %d", n, i, told, stored, offset)
			case err != nil && stored && !producer.MayHaveBeenWritten(err):
				t.Fatalf("partition %d: record %d failed for good, and is at offset %d: %v", n, i, offset, err)
			}
		}
	}
}

// firstOf is one of the errors.
func firstOf(errs map[int]error) error {
	for _, err := range errs {
		return err
	}
	return nil
}
