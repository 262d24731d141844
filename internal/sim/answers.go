package sim

import (
	"encoding/binary"
	"slices"
	"time"

	"github.com/kafka-reservoir/producer/internal/testbroker"
	"github.com/kafka-reservoir/producer/protocol"
)

// opened decides about a new connection.
func (c *chaos) opened(int32, testbroker.ConnID) testbroker.ConnVerdict {
	if c.active() {
		switch {
		case c.fires(AcceptClose, 8):
			return testbroker.ConnVerdict{Drop: testbroker.DropFIN}
		case c.fires(DeafBroker, 4):
			return testbroker.ConnVerdict{Stall: true}
		}
	}
	return testbroker.ConnVerdict{}
}

// refusals are errors that say that nothing was written.
var refusals = []protocol.ErrorCode{
	protocol.NotEnoughReplicas, protocol.LeaderNotAvailable, protocol.CorruptMessage, protocol.NotLeaderOrFollower,
	protocol.UnknownTopicOrPartition,
}

// doubts are errors after which a batch may be in the log. A leader that has to step down while it waits for its
// followers says NOT_LEADER_OR_FOLLOWER of a batch that the next one may well have.
var doubts = []protocol.ErrorCode{
	protocol.RequestTimedOut, protocol.NotEnoughReplicasAfterAppend, protocol.NetworkException, protocol.KafkaStorageError,
	protocol.UnknownServerError,
	protocol.NotLeaderOrFollower, protocol.UnknownTopicOrPartition, // these two with acks=all only, see doubt
}

// doubt draws one of them.
func (c *chaos) doubt(t *trigger) protocol.ErrorCode {
	if !c.p.Config.AcksNone && c.p.Config.Acks != 1 {
		return pick(t.draw, doubts...)
	}
	return pick(t.draw, doubts[:5]...)
}

// request decides about a request that reached a broker.
func (c *chaos) request(r *testbroker.Request) (v testbroker.Verdict) {
	if !c.active() {
		return v
	}
	produce := r.API == protocol.KeyProduce
	switch {
	case c.fires(DropBefore, 1):
		return testbroker.DropBefore()
	case c.fires(DropAfter, 1):
		return testbroker.DropAfter()
	case c.fires(CutAnswer, 1):
		v.Cut = 1 + c.kind[CutAnswer].IntN(40)
		return v
	case c.fires(Swallow, 0.5):
		if c.kind[Swallow].chance(0.5) {
			return testbroker.MuteAfter()
		}
		return testbroker.MuteBefore()
	case c.hostile(&v, r):
		return v
	case produce && c.first(&v, r):
		return v
	case c.fires(HostileAfter, 1):
		answer := pick(c.kind[HostileAfter].draw, alert, page)
		v.Rewrite = func([]byte) []byte { return answer }
		return v
	}
	if c.fires(HoldAnswer, 1) {
		v.Hold = c.kind[HoldAnswer].wait(c)
	}
	if c.fires(DelayAppend, 1) {
		v.Delay = c.kind[DelayAppend].wait(c)
	}
	if c.fires(Throttle, 1) {
		t := &c.kind[Throttle]
		v.Throttle = t.between(time.Millisecond, maxThrottle).Truncate(time.Millisecond)
		v.ThrottleOnly = t.chance(0.5)
	}
	if produce && c.fires(OtherOrder, 5) {
		v.Shuffle = c.kind[OtherOrder].Shuffle
	}
	switch {
	case r.API == protocol.KeyInitProducerID && c.fires(NoProducerID, 40):
		v.Code = pick(c.kind[NoProducerID].draw, protocol.CoordinatorNotAvailable, protocol.NotCoordinator, protocol.CoordinatorLoadInProgress)
	case r.API == protocol.KeyMetadata && c.fires(MetadataCode, 20):
		v.Code = pick(c.kind[MetadataCode].draw, protocol.LeaderNotAvailable, protocol.UnknownTopicOrPartition, protocol.RequestTimedOut,
			protocol.UnknownServerError)
	case !produce:
	case c.fires(AnyRetriable, 1):
		v.Code = pick(c.kind[AnyRetriable].draw, retriable...)
	case c.fires(RefuseCode, 1):
		v.Code = pick(c.kind[RefuseCode].draw, refusals...)
	case c.fires(DoubtCode, 1):
		v.Code, v.Append = c.doubt(&c.kind[DoubtCode]), true
	case c.fires(PartialCode, 2):
		c.partial(&v, r)
	case c.fires(TooLarge, 1):
		// Single records stay: nothing could be done about them. So do batches that were sent before: what was not too large then
		// is not now, and could be in the log.
		for i := range r.Batches {
			if b := &r.Batches[i]; b.Count > 1 && c.tap.isNew(b) {
				v.Partitions = append(v.Partitions, testbroker.PartitionVerdict{Topic: b.Topic, Partition: b.Partition, Code: protocol.MessageTooLarge})
			}
		}
	default:
		c.repeated(&v, r)
	}
	return v
}

// retriable are all codes after which a request may be repeated.
var retriable = func() (codes []protocol.ErrorCode) {
	for c := protocol.None; c < 1000; c++ {
		if c.Retriable() {
			codes = append(codes, c)
		}
	}
	return codes
}()

// first has something happen to batches that are the first of their producer's epoch in a partition.
func (c *chaos) first(v *testbroker.Verdict, r *testbroker.Request) bool {
	var firsts []testbroker.PartitionVerdict
	for i := range r.Batches {
		if b := &r.Batches[i]; b.ProducerID >= 0 && b.BaseSequence == 0 {
			firsts = append(firsts, testbroker.PartitionVerdict{Topic: b.Topic, Partition: b.Partition})
		}
	}
	if len(firsts) == 0 || !c.fires(FirstWrite, 30) {
		return false
	}
	t := &c.kind[FirstWrite]
	switch t.IntN(4) {
	case 0:
		for i := range firsts {
			firsts[i].Code = pick(t.draw, refusals...)
		}
		v.Partitions = firsts
	case 1:
		*v = testbroker.DropBefore()
	case 2:
		*v = testbroker.DropAfter()
	case 3:
		v.Delay = t.wait(c)
	}
	return true
}

// What servers of another kind say.
var (
	alert = []byte{0x15, 3, 3, 0, 2, 2, 70}
	page  = []byte("HTTP/1.1 400 Bad Request\r\nConnection: close\r\n\r\n")
)

// partial answers errors for some partitions of a request.
func (c *chaos) partial(v *testbroker.Verdict, r *testbroker.Request) {
	t := &c.kind[PartialCode]
	for i := range r.Batches {
		if t.chance(0.5) {
			continue
		}
		b := &r.Batches[i]
		pv := testbroker.PartitionVerdict{Topic: b.Topic, Partition: b.Partition}
		if t.chance(0.5) {
			pv.Code = pick(t.draw, refusals...)
		} else {
			pv.Code, pv.Append = c.doubt(t), true
		}
		v.Partitions = append(v.Partitions, pv)
	}
}

// repeated answers DUPLICATE_SEQUENCE_NUMBER to a batch that is in the log already, as some brokers do.
func (c *chaos) repeated(v *testbroker.Verdict, r *testbroker.Request) {
	if c.kind[DuplicateCode].level == Off || len(r.Batches) != 1 {
		return
	}
	b := &r.Batches[0]
	p := c.b.find(b.Topic, b.Partition)
	if p == nil || b.ProducerID < 0 {
		return
	}
	leader, _ := c.w.Cluster.Leader(b.Topic, b.Partition)
	c.b.scan(p)
	if leader != r.Node || !p.has(b) || !c.fires(DuplicateCode, 10) {
		return
	}
	v.Partitions = []testbroker.PartitionVerdict{{Topic: b.Topic, Partition: b.Partition, Code: protocol.DuplicateSequenceNumber}}
}

// has reports whether the batch is the last one in the log.
func (p *partitionBook) has(b *testbroker.Batch) bool {
	return p.tail.id == protocol.ProducerID{ID: b.ProducerID, Epoch: b.ProducerEpoch} &&
		p.tail.sequence == protocol.AddSequence(b.BaseSequence, b.Count-1)
}

// hostile answers with bytes that cannot be right.
func (c *chaos) hostile(v *testbroker.Verdict, r *testbroker.Request) bool {
	raw := func(b []byte) bool {
		*v = testbroker.Raw(b)
		return true
	}
	rewrite := func(f func(frame []byte) []byte) bool {
		v.Rewrite = f
		return true
	}
	switch {
	case c.fires(TLSAlert, 1):
		return raw(alert)
	case c.fires(HTTPAnswer, 1):
		return raw(page)
	case c.fires(HugeFrame, 1):
		return rewrite(func(f []byte) []byte { return append([]byte{0x7f, 0xff, 0xff, 0xff}, f[4:]...) })
	case c.fires(NegativeFrame, 1):
		return rewrite(func(f []byte) []byte { return append([]byte{0xff, 0xff, 0xff, 0xf0}, f[4:]...) })
	case c.fires(WrongCorrelation, 1):
		d := c.kind[WrongCorrelation].draw
		last := c.w.Selector.lastReply(r.Conn)
		return rewrite(func(f []byte) []byte {
			if last != nil && d.chance(0.5) {
				return append(slices.Clone(last), f...) // the answer before once more
			}
			if len(f) >= 8 {
				binary.BigEndian.PutUint32(f[4:], binary.BigEndian.Uint32(f[4:])+1+uint32(d.IntN(3)))
			}
			return f
		})
	case c.fires(TruncatedBody, 1):
		d := c.kind[TruncatedBody].draw
		return rewrite(func(f []byte) []byte {
			if len(f) > 9 {
				f = f[:8+d.IntN(len(f)-8)]
				binary.BigEndian.PutUint32(f, uint32(len(f)-4))
			}
			return f
		})
	case r.API == protocol.KeyInitProducerID:
		// What follows would leave an answer that can be read, and says something else.
		return false
	case c.fires(HugeArray, 1):
		return rewrite(func(f []byte) []byte {
			for i := 8; i < min(len(f), 20); i++ {
				f[i] = 0x7f
			}
			return f
		})
	case c.fires(FuzzedAnswer, 1):
		d := c.kind[FuzzedAnswer].draw
		return rewrite(func(f []byte) []byte {
			for i := 8; i < len(f); i++ {
				f[i] = byte(d.Uint32())
			}
			return f
		})
	case r.API == protocol.KeyMetadata && c.fires(FuzzedMetadata, 8):
		d := c.kind[FuzzedMetadata].draw
		return rewrite(func(f []byte) []byte {
			for range 1 + d.IntN(3) {
				// Behind the throttle time: the client would believe that, and be right to.
				if len(f) > 13 {
					f[13+d.IntN(len(f)-13)] ^= 1 << d.IntN(8)
				}
			}
			return f
		})
	}
	return false
}
