package sim

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/kafka-reservoir/producer/accumulator"
	"github.com/kafka-reservoir/producer/internal/testbroker"
	"github.com/kafka-reservoir/producer/protocol"
	"github.com/kafka-reservoir/producer/sender"
)

// suspect is a run in which nothing happens but what a test makes up, to see that the checkers see it.
type suspect struct {
	*run
	p0, p1 *partitionBook
	corr   int32
}

func newSuspect(change func(*Plan)) *suspect {
	p := &Plan{
		Seed: 1, Nodes: 2, Topics: 1, Partitions: 2, Bandwidth: 1 << 20, MaxLatency: time.Millisecond, Rate: 10, Senders: 1, Burst: 1,
		Config: Config{
			Cluster:     testbroker.Config{Nodes: 2, Generation: testbroker.Kafka39, AutoCreate: testbroker.AutoCreateOff},
			MaxInFlight: 3, BatchSize: 1000, MaxRequestSize: 10_000, BufferMemory: 64 << 10, Linger: -1,
			DeliveryTimeout: 2 * time.Second, RequestTimeout: time.Second, RetryBackoff: 100 * time.Millisecond, RetryBackoffMax: time.Second,
			ReconnectBackoff: 50 * time.Millisecond, ReconnectBackoffMax: time.Second,
		},
	}
	if change != nil {
		change(p)
	}
	r := &run{p: p, rand: stream(p.Seed, 3)}
	r.build()
	return &suspect{run: r, p0: r.b.parts[0][0], p1: r.b.parts[0][1]}
}

// record is one that was accepted for a partition.
func (s *suspect) record(p *partitionBook) *record {
	r := s.b.newRecord()
	r.valueSize, r.keySize = 20, 3
	s.b.accept(r, p)
	return r
}

// store puts what looks like a record into a log.
func (s *suspect) store(p *partitionBook, r *record) {
	s.b.take(p, s.stored(p, r))
}

func (s *suspect) stored(p *partitionBook, r *record) *testbroker.Record {
	return &testbroker.Record{
		Offset: int64(len(p.log)), Timestamp: Start.UnixMilli(), Key: r.key(), Value: r.value(nil), ProducerID: 1000, Sequence: int32(len(p.log)),
	}
}

// end calls a record back.
func (s *suspect) end(r *record, offset int64, err error) {
	s.w.SettledAt = s.w.Selector.Since()
	r.OnCompletion(accumulator.Result{
		Topic: r.part.topic, Partition: r.part.partition, Offset: offset, KeySize: r.keySize, ValueSize: r.valueSize,
	}, err)
}

// acked is a record that is stored and acknowledged.
func (s *suspect) acked(p *partitionBook) *record {
	r := s.record(p)
	s.store(p, r)
	s.end(r, int64(len(p.log)-1), nil)
	return r
}

// send hands over a Produce request of one batch.
func (s *suspect) send(node int32, conn testbroker.ConnID, p *partitionBook, epoch int16, sequence int32, value string) {
	body := protocol.RecordBodySize(0, 0, nil, []byte(value), nil)
	b := protocol.AppendRecord(make([]byte, protocol.BatchHeaderSize), body, 0, 0, nil, []byte(value), nil)
	protocol.StampBatch([][]byte{b}, len(b), protocol.BatchStamp{Count: 1, Producer: protocol.ProducerID{ID: 1000, Epoch: epoch}, BaseSequence: sequence})
	req := &protocol.ProduceRequest{Acks: -1, TimeoutMs: 1000, Topics: []protocol.ProduceRequestTopic{{
		Name: p.topic, Partitions: []protocol.ProduceRequestPartition{{Index: p.partition, Records: b}},
	}}}
	s.corr++
	s.tap.sent(node, conn, protocol.NewFrame(protocol.RequestHeader{Key: protocol.KeyProduce, Version: 9, CorrelationID: s.corr}, req))
}

// answer answers the oldest request of a connection.
func (s *suspect) answer(conn testbroker.ConnID, code protocol.ErrorCode) {
	d := s.tap.asked[conn]
	s.tap.answer(d.q[0].node, &d.q[0].batches[0], code)
	d.q = d.q[1:]
}

func (s *suspect) pass(d time.Duration) {
	for until := s.w.Selector.Since() + d; s.w.Selector.Since() < until; {
		s.w.Selector.Poll(s.w.Selector.Now(), until-s.w.Selector.Since())
	}
}

func failed(attempts int, written bool, cause error) error {
	return &sender.DeliveryError{Cause: cause, Attempts: attempts, Age: 3 * time.Second, Written: written}
}

// Delivery 5.5, one by one: each rule has a breach that its checker tells, and something much like it that is none.
func TestCheckersSee(t *testing.T) {
	expired := failed(0, false, sender.ErrDeliveryTimeout)
	for _, tt := range []struct {
		rule   string
		change func(*Plan)
		do     func(s *suspect)
		says   string // empty: nothing is wrong
	}{
		{"1", nil, func(s *suspect) { s.acked(s.p0) }, ""},
		{"1", nil, func(s *suspect) { s.end(s.record(s.p0), 0, nil) }, "acknowledged at offset 0 and not stored"},
		{"1", nil, func(s *suspect) {
			a, b := s.record(s.p0), s.record(s.p0)
			s.store(s.p0, a)
			s.store(s.p0, b)
			s.end(a, 1, nil)
		}, "acknowledged at offset 1, where another one is"},
		{"1", nil, func(s *suspect) {
			r := s.record(s.p0)
			stored := s.stored(s.p0, r)
			stored.Value[len(stored.Value)-1]++
			s.b.take(s.p0, stored)
		}, "with other bytes"},
		{"1", nil, func(s *suspect) { s.store(s.p1, s.record(s.p0)) }, "which was sent to topic-0-0"},
		{"1", nil, func(s *suspect) {
			s.b.take(s.p0, &testbroker.Record{Timestamp: Start.UnixMilli(), Value: []byte("by nobody, surely")})
		}, "something that nobody sent"},
		{"1", nil, func(s *suspect) {
			r := s.record(s.p0)
			s.store(s.p0, r)
			s.end(r, -1, nil)
		}, "acknowledged without an offset"},
		{"1", nil, func(s *suspect) {
			r := s.record(s.p0)
			s.store(s.p0, r)
			r.OnCompletion(accumulator.Result{Topic: "topic-0", Partition: 1, KeySize: 3, ValueSize: 20}, nil)
		}, "acknowledged for topic-0-1, sent to topic-0-0"},
		{"1", nil, func(s *suspect) {
			r := s.record(s.p0)
			r.future = accumulator.Failed("topic-0", 0, expired)
			r.done = r.future.Done()
			s.end(r, -1, expired)
		}, "the future says"}, // another partition, or size
		{"1", nil, func(s *suspect) {
			r := s.record(s.p0)
			r.done = make(chan struct{})
			s.end(r, -1, expired)
		}, "its future is not done"},

		{"2", nil, func(s *suspect) { s.store(s.p0, s.acked(s.p0)) }, "for the second time"},
		{"2", nil, func(s *suspect) {
			a, b := s.record(s.p0), s.record(s.p0)
			s.store(s.p0, b)
			s.store(s.p0, a)
		}, "number 1, stands at offset 1 behind number 2"},
		{"2", func(p *Plan) { p.Config.NotIdempotent = true }, func(s *suspect) { s.store(s.p0, s.acked(s.p0)) }, ""},

		{"3", nil, func(s *suspect) {
			r := s.acked(s.p0)
			s.end(r, r.offset, nil)
		}, "2 callbacks"},
		{"3", nil, func(s *suspect) {
			s.record(s.p0)
			s.b.finish()
		}, "0 callbacks"},
		{"3", nil, func(s *suspect) {
			a, b := s.record(s.p0), s.record(s.p0)
			s.store(s.p0, a)
			s.store(s.p0, b)
			s.end(b, 1, nil)
			s.end(a, 0, nil)
		}, "callback 1 after 2"},
		{"3", nil, func(s *suspect) {
			s.b.closed = true
			s.acked(s.p0)
		}, "after Close had returned"},
		{"3", nil, func(s *suspect) {
			r := s.record(s.p0)
			s.pass(2200 * time.Millisecond)
			s.end(r, -1, expired)
		}, ""},
		{"3", nil, func(s *suspect) {
			r := s.record(s.p0)
			s.pass(2300 * time.Millisecond)
			s.end(r, -1, expired)
		}, "beyond the delivery timeout"},
		{"3", nil, func(s *suspect) {
			s.record(s.p0)
			s.pass(2300 * time.Millisecond)
			s.check()
		}, "no callback 2.3s after it was accepted"},

		{"4", nil, func(s *suspect) {
			s.send(1, 1, s.p0, 0, 0, "a")
			s.answer(1, protocol.None)
			s.send(1, 1, s.p0, 0, 1, "b")
			s.send(1, 1, s.p0, 0, 2, "c")
		}, ""},
		{"4", nil, func(s *suspect) {
			s.send(1, 1, s.p0, 0, 0, "a")
			s.tap.ended(1, 1)
			s.send(1, 2, s.p0, 0, 0, "b")
		}, "other bytes than before"},
		{"4", nil, func(s *suspect) {
			s.send(1, 1, s.p0, 0, 0, "a")
			s.answer(1, protocol.MessageTooLarge)
			s.send(1, 1, s.p0, 0, 0, "b")
		}, ""},
		{"4", nil, func(s *suspect) { s.send(1, 1, s.p0, 0, 7, "a") }, "where no batch before it ends"},
		{"4", nil, func(s *suspect) {
			s.send(1, 1, s.p0, 0, 0, "a")
			s.send(1, 1, s.p0, 0, 1, "b")
		}, "has not acknowledged any yet"},
		{"4", nil, func(s *suspect) {
			s.send(1, 1, s.p0, 0, 0, "a")
			s.answer(1, protocol.None)
			s.send(2, 2, s.p0, 0, 1, "b")
			s.send(2, 2, s.p0, 0, 2, "c") // another leader
		}, "has not acknowledged any yet"},
		{"4", nil, func(s *suspect) {
			s.send(1, 1, s.p0, 0, 0, "a")
			s.send(1, 1, s.p0, 1, 0, "b")
		}, "while 1 under 1000/0 wait for their answers"},
		{"4", nil, func(s *suspect) {
			s.send(1, 1, s.p0, 0, 0, "a")
			s.tap.ended(1, 1)
			s.store(s.p0, s.record(s.p0))
			s.send(1, 1, s.p0, 1, 0, "b")
		}, "is stored and not settled"},
		{"4", nil, func(s *suspect) {
			s.send(1, 1, s.p0, 0, 0, "a")
			s.answer(1, protocol.None)
			for i := range int32(4) {
				s.send(1, 1, s.p0, 0, 1+i, "b")
			}
		}, "4 Produce requests in flight, 3 are allowed"},

		{"5", nil, func(s *suspect) { s.check() }, ""},
		{"5", nil, func(s *suspect) {
			_, ok := s.w.Pool.TryAllocate(nil, 1, false)
			require.True(t, ok)
			s.check()
		}, "are not given back"},

		{"6", nil, func(s *suspect) { s.end(s.record(s.p0), -1, errors.New("no")) }, "says nothing of its fate"},
		{"6", nil, func(s *suspect) {
			s.end(s.record(s.p0), -1, &sender.DeliveryError{Cause: sender.ErrDeliveryTimeout, Age: time.Second})
		}, "its time was up after 1s of 2s"},
		{"6", nil, func(s *suspect) { s.end(s.record(s.p0), -1, failed(1, false, protocol.NotLeaderOrFollower)) }, "a patient client need not fail for"},
		{"6", nil, func(s *suspect) {
			r := s.record(s.p0)
			s.store(s.p0, r)
			s.end(r, -1, failed(1, false, sender.ErrDeliveryTimeout))
			s.b.finish()
		}, "said not to have been written"},
		{"6", nil, func(s *suspect) {
			r := s.record(s.p0)
			s.store(s.p0, r)
			s.end(r, -1, failed(1, true, sender.ErrDeliveryTimeout))
			s.b.finish()
		}, ""},
		{"6", nil, func(s *suspect) { s.end(s.record(s.p0), -1, failed(1, false, sender.ErrForceClosed)) }, "nobody forced one"},

		{"7", nil, func(s *suspect) {
			s.pass(time.Second)
			s.b.wellAt = s.w.Selector.Since()
			s.b.allowed = s.recoveryTime()
			s.acked(s.p0)
			s.acked(s.p1)
			s.recovered(true)
		}, ""},
		{"7", nil, func(s *suspect) {
			s.pass(time.Second)
			s.b.wellAt = s.w.Selector.Since()
			s.b.allowed = s.recoveryTime()
			s.acked(s.p0)
			s.recovered(true)
		}, "topic-0-1: no progress"},
		{"7", nil, func(s *suspect) {
			s.pass(time.Second)
			s.b.wellAt = s.w.Selector.Since()
			s.b.allowed = s.recoveryTime()
			a, b := s.record(s.p0), s.record(s.p1)
			s.pass(s.b.allowed + time.Millisecond)
			s.store(s.p0, a)
			s.end(a, 0, nil)
			s.store(s.p1, b)
			s.end(b, 0, nil)
			s.recovered(true)
		}, "no progress"},
		{"7", nil, func(s *suspect) {
			s.pass(time.Second)
			s.b.wellAt = s.w.Selector.Since()
			s.b.allowed = time.Millisecond
			r := s.record(s.p0)
			s.pass(2100 * time.Millisecond)
			s.end(r, -1, expired)
		}, "though the cluster was well since"},

		{"8", nil, func(s *suspect) {
			for range s.tap.metadata.limit {
				s.tap.metadata.count(0, s.b, "metadata requests")
			}
			s.tap.metadata.count(time.Second, s.b, "metadata requests")
		}, ""},
		{"8", nil, func(s *suspect) {
			for range s.tap.metadata.limit + 1 {
				s.tap.metadata.count(0, s.b, "metadata requests")
			}
		}, "a storm: 13 metadata requests"},

		{"9", nil, func(s *suspect) {
			for range 150 {
				s.record(s.p0).valueSize = 1000
				s.b.bytes += 980
			}
			s.check()
		}, "bytes of records are open"},
	} {
		s := newSuspect(tt.change)
		tt.do(s)
		all := strings.Join(s.b.violations, "\n")
		if tt.says == "" {
			assert.Empty(t, all, "rule %s", tt.rule)
		} else {
			assert.Contains(t, all, tt.says, "rule %s", tt.rule)
		}
	}
}

// The first figures of delivery 4 are for these settings: what a world adds is what its own settings cost.
func TestRecoveryTime(t *testing.T) {
	const step = 50 * time.Microsecond
	for _, tt := range []struct {
		fault Kind
		want  time.Duration
	}{
		{LeaderMove, 250 * time.Millisecond},
		{RefuseCode, 250 * time.Millisecond},
		{BreakAnswer, 300 * time.Millisecond},
		{NegativeFrame, 300 * time.Millisecond},
		{BrokerBounce, 500 * time.Millisecond},
		{OtherAddress, 500 * time.Millisecond},
		{AcceptClose, time.Second},
		{Silence, 2500 * time.Millisecond},
		{Swallow, 2500 * time.Millisecond},
	} {
		s := newSuspect(func(p *Plan) {
			p.Levels[tt.fault] = Often
			c := &p.Config
			c.RetryBackoff, c.RetryBackoffMax = 80*time.Millisecond, 80*time.Millisecond
			c.ReconnectBackoff, c.ReconnectBackoffMax = 80*time.Millisecond, 80*time.Millisecond
			c.RequestTimeout, c.SetupTimeoutMax = 2*time.Second, time.Second
			p.MaxLatency = step
		})
		assert.Equal(t, tt.want+10*step, s.recoveryTime(), tt.fault.String())
	}
}
