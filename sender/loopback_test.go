package sender_test

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/kafka-reservoir/producer/accumulator"
	"github.com/kafka-reservoir/producer/bufferpool"
	"github.com/kafka-reservoir/producer/metadata"
	"github.com/kafka-reservoir/producer/netclient"
	"github.com/kafka-reservoir/producer/protocol"
	"github.com/kafka-reservoir/producer/sender"
)

// loopback is a sender with all that is above and below it, in one goroutine and on a clock of its own, with a client in place of the network
// that acknowledges each request in the next Poll and allocates nothing: for benchmarks and allocation ceilings.
type loopback struct {
	looks, wakes int
	onLook       func()        // in Look
	took         time.Duration // by each Poll

	*sender.Sender
	acc   *accumulator.RecordAccumulator
	disp  *sender.Dispatcher
	topic *accumulator.Topic
	md    *metadata.Topic

	partitions int // each gets a record in each round
	record     accumulator.Record
	now        time.Time

	// What was spent until the requests were handed over, and on their answers; only measured if timed is set.
	timed               bool
	began               time.Time
	building, answering time.Duration

	id     func(*netclient.Response) // waits for its producer id
	sent   []netclient.Request       // at most one
	idBody []byte
	body   []byte // what every Produce request is answered
	resp   netclient.Response
	corr   int32

	told    accumulator.Callback // each record's
	settled int                  // its calls
}

// newLoopback makes one whose rounds append a record of size bytes to each of partitions partitions, all led by one node, and send them.
func newLoopback(tb testing.TB, partitions, size int) *loopback {
	l := &loopback{partitions: partitions, now: time.UnixMilli(1_700_000_000_000), took: time.Millisecond}
	now := func() time.Time { return l.now }
	l.told = func(_ accumulator.Result, err error) {
		require.NoError(tb, err)
		l.settled++
	}
	l.disp = sender.NewSteppedDispatcher(32<<20, func() {})
	l.acc = accumulator.New(accumulator.Config{
		BatchSize: 16 << 10, DeliveryTimeout: 2 * time.Minute, RetryBackoff: 100 * time.Millisecond, RetryBackoffMax: time.Second,
		Pool: bufferpool.New(bufferpool.Config{Total: 32 << 20}), StickyThreshold: 64 << 10, Adaptive: true, Now: now, Wake: func() {},
		Done: func(b *accumulator.ProducerBatch) { l.disp.Enqueue(b) },
	})
	md := metadata.New(metadata.Config{MaxAge: time.Hour, MaxIdle: time.Hour, RetryBackoff: time.Second, RetryBackoffMax: time.Second})
	name, answer := "orders", protocol.ProduceResponse{Topics: []protocol.ProduceResponseTopic{{ID: protocol.UUID{1}}}}
	topic := protocol.MetadataResponseTopic{Name: &name, TopicID: protocol.UUID{1}}
	for p := range int32(partitions) {
		topic.Partitions = append(topic.Partitions, protocol.MetadataResponsePartition{PartitionIndex: p, LeaderID: 1})
		answer.Topics[0].Partitions = append(answer.Topics[0].Partitions, protocol.ProduceResponsePartition{
			Index: p, LogAppendTimeMs: -1, CurrentLeader: protocol.NoLeader,
		})
	}
	md.AddTopic(name, l.now)
	md.NewRequest(l.now)
	require.NoError(tb, md.HandleResponse(13, &protocol.MetadataResponse{
		Brokers: []protocol.MetadataResponseBroker{{NodeID: 1, Host: "broker", Port: 9092}}, Topics: []protocol.MetadataResponseTopic{topic},
	}, l.now))
	l.idBody = (&protocol.InitProducerIdResponse{ProducerID: 7}).AppendTo(nil, 5)
	l.topic, l.md = l.acc.Topic(name), md.Snapshot().Topic(name)
	l.record = accumulator.Record{Timestamp: -1, Value: make([]byte, size)}
	l.Sender = sender.New(sender.Config{
		ClientID: "bench", Acks: -1, Idempotent: true, Retries: 1<<31 - 1, MaxInFlight: 5, MaxRequestSize: 1 << 20,
		RequestTimeout: 30 * time.Second, DeliveryTimeout: 2 * time.Minute, RetryBackoff: 100 * time.Millisecond, BufferMemory: 32 << 20,
	}, l.acc, l, md, l.disp)
	tb.Cleanup(l.acc.Shutdown)
	// As long as the node's round trip is not known a request is small, and the answer here is that to one which has everything.
	l.partitions, l.body = 1, (&protocol.ProduceResponse{Topics: []protocol.ProduceResponseTopic{{ID: protocol.UUID{1}, Partitions: answer.Topics[0].Partitions[:1]}}}).AppendTo(nil, 13)
	l.round(tb)
	l.partitions, l.body = partitions, answer.AppendTo(nil, 13)
	return l
}

// round appends a record to each partition and lets the sender run until all of it is acknowledged and the callbacks have run.
func (l *loopback) round(tb testing.TB) {
	for p := range int32(l.partitions) {
		l.record.Partition = p
		if _, _, err := l.acc.Append(context.Background(), l.topic, l.md, &l.record, l.told, false, 0); err != nil {
			tb.Fatal(err)
		}
	}
	for l.acc.HasIncomplete() {
		if l.timed {
			l.began = time.Now()
		}
		l.RunOnce(l.now)
	}
	for l.disp.Step() {
	}
}

// What follows implements sender.Client.

func (l *loopback) NextCorrelationID() int32 { l.corr++; return l.corr }
func (l *loopback) Version(int32, protocol.APIKey, int16, int16) (int16, error) {
	return 13, nil
}
func (l *loopback) Ready(protocol.Node, time.Time) bool         { return true }
func (l *loopback) CanSend(int32, time.Time) bool               { return len(l.sent) == 0 }
func (l *loopback) InFlightCount(int32) int                     { return len(l.sent) }
func (l *loopback) InFlight() int                               { return len(l.sent) }
func (l *loopback) LeastLoaded(time.Time) (protocol.Node, bool) { return protocol.Node{ID: 1}, true }
func (l *loopback) PollDelay(int32, time.Time) time.Duration    { return time.Minute }
func (l *loopback) Throttle(int32, time.Duration, time.Time)    {}
func (l *loopback) Disconnect(_ int32, why error, _ time.Time)  { panic(why) }
func (l *loopback) LastError(int32) error                       { return nil }
func (l *loopback) SleepOn(time.Time, time.Duration)            {}
func (l *loopback) Look(now time.Time) time.Time {
	l.looks++
	if l.onLook != nil {
		l.onLook()
	}
	return l.Poll(now, 0)
}
func (l *loopback) Wakeup() { l.wakes++ }
func (l *loopback) Close()  {}

func (l *loopback) SendMessage(_ int32, _ protocol.Message, _, _ int16, h func(*netclient.Response), _ time.Time) error {
	l.id = h
	return nil
}

func (l *loopback) Send(r netclient.Request, now time.Time) {
	if l.timed {
		l.building += time.Since(l.began)
	}
	l.resp.SentAt = now
	l.sent = append(l.sent, r)
}

func (l *loopback) Poll(now time.Time, _ time.Duration) time.Time {
	l.now = now.Add(l.took)
	if l.id != nil {
		l.id(&netclient.Response{Node: 1, Version: 5, Body: l.idBody, Now: l.now})
		l.id = nil
	}
	for len(l.sent) > 0 {
		r := l.sent[0]
		l.sent = l.sent[:0]
		began := l.began
		if l.timed {
			began = time.Now()
		}
		l.resp = netclient.Response{Node: r.Node, API: r.API, Version: r.Version, CorrelationID: r.CorrelationID, Body: l.body, SentAt: l.resp.SentAt, Now: l.now}
		r.Handler.HandleReleased()
		r.Handler.HandleResponse(&l.resp)
		if l.timed {
			l.answering += time.Since(began)
		}
	}
	return l.now
}
