package sender

import (
	"errors"
	"fmt"
	"time"

	"github.com/kafka-reservoir/producer/accumulator"
	"github.com/kafka-reservoir/producer/internal/mutants"
	"github.com/kafka-reservoir/producer/internal/prefetch"
	"github.com/kafka-reservoir/producer/netclient"
	"github.com/kafka-reservoir/producer/protocol"
)

// produceRequest is one Produce request from its making until its answer has come and no writer holds
// its bytes: whichever of the two is later lets it be used again.
type produceRequest struct {
	s        *Sender
	enc      protocol.ProduceEncoder
	node     int32
	version  int16
	batches  []*accumulator.ProducerBatch // grouped by topic, in the order of the request
	topics   []topicGroup
	bytes    int
	records  int
	found    []*accumulator.ProducerBatch // by the partitions of the answer, in its order
	measures bool                         // its node's minRTT anew
	released bool
	answered bool
}

// topicGroup is one topic of a request.
type topicGroup struct {
	topic *accumulator.Topic
	id    protocol.UUID
	first int // its batches are batches[first : first+n]
	n     int
}

// request takes a request to fill.
func (s *Sender) request() *produceRequest {
	if n := len(s.free); n > 0 {
		r := s.free[n-1]
		s.free = s.free[:n-1]
		return r
	}
	return &produceRequest{s: s}
}

// send makes one request of the drained batches and hands it to the node's connection.
func (s *Sender) send(node int32, version int16, now time.Time) {
	r := s.request()
	r.node, r.released, r.answered = node, false, false
	s.group(r, s.drained)
	if version >= 13 {
		// Topics go by id from here on; one whose id is not known yet has to go by name (java-producer 8).
		snapshot := s.md.Snapshot()
		for i := range r.topics {
			if t := snapshot.Topic(r.topics[i].topic.Name); t != nil {
				r.topics[i].id = t.ID
			}
			if r.topics[i].id.IsZero() {
				version = 12
			}
		}
	}
	r.version = version

	corr := s.client.NextCorrelationID()
	r.enc.Begin(protocol.RequestHeader{
		Key: protocol.KeyProduce, Version: version, CorrelationID: corr, ClientID: &s.cfg.ClientID,
	}, nil, s.cfg.Acks, int32(s.cfg.RequestTimeout.Milliseconds()), len(r.topics))
	r.bytes, r.records = 0, 0
	for i := range r.topics {
		g := &r.topics[i]
		r.enc.Topic(g.topic.Name, g.id, g.n)
		for _, b := range r.batches[g.first : g.first+g.n] {
			r.enc.Partition(b.Partition(), b.Slabs(), b.Size())
			b.Hold()
			if s.txn != nil {
				s.txn.Sent(b, node)
			}
			if s.cfg.MaxInFlight == 1 {
				s.acc.Mute(b)
			}
			r.records += int(b.Count())
			r.bytes += b.Size()
			s.countSent(b, now)
		}
	}
	s.cfg.Metrics.RecordsPerRequest.Observe(int64(r.records))
	f := s.flow(node)
	f.sent, r.measures = now, false
	if s.client.InFlightCount(node) == 0 {
		f.progress, r.measures = now, f.isStale(now)
		f.paused = f.paused || now.Sub(f.answer) >= flowWindow
	}
	s.client.Send(netclient.Request{
		Node: node, API: protocol.KeyProduce, Version: version, CorrelationID: corr,
		Frame: r.enc.Finish(), NoResponse: s.cfg.Acks == 0, Handler: r,
	}, now)
}

// group orders batches by topic, topics in the order of their first batch.
func (s *Sender) group(r *produceRequest, batches []*accumulator.ProducerBatch) {
	s.mark++
	r.topics = r.topics[:0]
	for _, b := range batches {
		t := b.Topic()
		if t.RequestMark != s.mark {
			t.RequestMark, t.RequestIndex = s.mark, len(r.topics)
			r.topics = append(r.topics, topicGroup{topic: t})
		}
		r.topics[t.RequestIndex].n++
	}
	first := 0
	for i := range r.topics {
		r.topics[i].first = first
		first += r.topics[i].n
		r.topics[i].n = 0
	}
	if cap(r.batches) < len(batches) {
		r.batches = make([]*accumulator.ProducerBatch, len(batches))
	}
	r.batches = r.batches[:len(batches)]
	for _, b := range batches {
		g := &r.topics[b.Topic().RequestIndex]
		r.batches[g.first+g.n] = b
		g.n++
	}
}

func (s *Sender) countSent(b *accumulator.ProducerBatch, now time.Time) {
	m, t, n := s.cfg.Metrics, s.cfg.Metrics.Topic(b.Topic().Name), int(b.Count())
	if b.Attempts() > 1 {
		m.RecordRetryTotal.Add(n)
		t.RecordRetryTotal.Add(n)
		return
	}
	m.RecordSendTotal.Add(n)
	m.BatchSize.Observe(int64(b.Size()))
	m.RecordSize.Observe(int64(b.MaxRecordSize()))
	m.RecordQueueTime.ObserveDuration(now.Sub(b.Created()))
	t.RecordSendTotal.Add(n)
	t.ByteTotal.Add(b.Size())
	if s.cfg.Codec != protocol.CodecNone {
		m.CompressionRate.ObserveRatio(b.Size(), b.RawSize())
		t.CompressionRate.ObserveRatio(b.Size(), b.RawSize())
	}
}

// HandleReleased implements netclient.Handler: the connection holds the request's bytes no longer.
func (r *produceRequest) HandleReleased() {
	for _, b := range r.batches {
		r.s.acc.Unhold(b, r.s.now)
	}
	r.released = true
	r.reuse()
}

// HandleResponse implements netclient.Handler.
func (r *produceRequest) HandleResponse(resp *netclient.Response) {
	s := r.s
	s.now = resp.Now
	switch {
	case resp.Err != nil:
		r.lost(resp)
	case s.cfg.Acks == 0:
		for _, b := range r.batches {
			s.landed(b)
			s.acknowledged(b, -1, -1, resp.Now)
		}
		s.flow(r.node).answered(resp.Now, resp.Now.Sub(resp.SentAt), r.bytes, r.records, r.measures)
	default:
		rtt := resp.Now.Sub(resp.SentAt)
		s.cfg.Metrics.RequestLatency.ObserveDuration(rtt)
		s.flow(r.node).answered(resp.Now, rtt, r.bytes, r.records, r.measures)
		if err := r.answer(resp); err != nil {
			// An answer that cannot be right ends the connection; what it was about is then in doubt.
			err = fmt.Errorf("produce response of node %d: %w", r.node, err)
			s.cfg.Logger.Warn("nonsense from a broker", "node", r.node, "corr", resp.CorrelationID, "err", err)
			s.client.Disconnect(r.node, err, resp.Now)
			resp.Err = fmt.Errorf("%w: %w", errNonsense, err)
			resp.Written = true // it was answered, whatever the news of its being sent says so far
			r.lost(resp)
		}
	}
	s.settleTxn(resp.Now)
	for _, b := range r.batches {
		s.acc.Recheck(b, resp.Now)
		b.Forget()
	}
	r.answered = true
	r.reuse()
}

var errNonsense = errors.New("the broker's answer made no sense")

// reuse gives the request back once nobody refers to it.
func (r *produceRequest) reuse() {
	if !r.released || !r.answered {
		return
	}
	clear(r.batches)
	r.batches = r.batches[:0]
	clear(r.topics)
	r.topics = r.topics[:0]
	clear(r.found)
	r.found = r.found[:0]
	r.enc.Reset()
	r.s.free = append(r.s.free, r)
}

// lost settles what a request without an answer means for the batches that have none yet.
func (r *produceRequest) lost(resp *netclient.Response) {
	s := r.s
	for _, b := range r.batches {
		if !b.InFlight() {
			continue // answered before the nonsense began
		}
		s.landed(b)
		if resp.Written {
			b.SetMayBeWritten(true)
			b.SetUnanswered(true)
			b.SetLostAt(resp.Now)
		}
		if b.Done() {
			continue
		}
		s.retryOrFail(b, resp.Err, "", nil, resp.Now)
	}
}

// landed notes that b's answer is no longer due.
func (s *Sender) landed(b *accumulator.ProducerBatch) {
	b.Landed()
	if s.txn != nil {
		s.txn.Landed(b)
	}
	if s.cfg.MaxInFlight == 1 {
		s.acc.Unmute(b, s.now)
	}
}

// answer goes through a response. Every batch of the request must be answered, once, and nothing else.
func (r *produceRequest) answer(resp *netclient.Response) error {
	s := r.s
	if err := s.resp.ReadAnswer(resp.Body, resp.Version, len(r.topics), len(r.batches)); err != nil {
		return err
	}
	if err := r.matches(); err != nil {
		return err // before anything is settled: a wrong answer must not be half believed
	}
	if s.resp.ThrottleTimeMs > 0 {
		d := time.Duration(s.resp.ThrottleTimeMs) * time.Millisecond
		if resp.Version >= 6 {
			s.client.Throttle(r.node, d, resp.Now) // and its hook counts it
		} else {
			s.cfg.Metrics.ProduceThrottleTime.ObserveDuration(d) // the broker has waited by itself
		}
	}
	s.takeHints(r)
	if mutants.On(mutants.MatchedByOrder) {
		copy(r.found, r.batches)
	}
	k := 0
	for i := range s.resp.Topics {
		t := &s.resp.Topics[i]
		for j := range t.Partitions {
			b := r.found[k]
			k++
			s.landed(b)
			s.settle(b, &t.Partitions[j], resp.Version, resp.Now)
		}
	}
	return nil
}

// matches checks that the response names exactly the request's batches, and notes in found which partition of the answer means which. Brokers
// answer in the order they were asked, so that the first look hits; a search for each would be quadratic.
func (r *produceRequest) matches() error {
	s := r.s
	r.found = r.found[:0]
	s.mark++
	topic := 0
	for i := range s.resp.Topics {
		t := &s.resp.Topics[i]
		g := r.group(t, topic)
		if g < 0 {
			return fmt.Errorf("it names topic %s %x, which was not asked for", t.Name, t.ID)
		}
		topic = g + 1
		batches := r.batches[r.topics[g].first : r.topics[g].first+r.topics[g].n]
		next := 0
		for j := range t.Partitions {
			if far := j + prefetch.Ahead; far < len(batches) {
				batches[far].Prefetch()
			}
			if near := j + prefetch.Ahead/2; near < len(batches) {
				batches[near].PrefetchQueue()
			}
			index := t.Partitions[j].Index
			k := next
			if k >= len(batches) || batches[k].Partition() != index {
				for k = 0; k < len(batches) && batches[k].Partition() != index; k++ {
				}
			}
			if k == len(batches) {
				return fmt.Errorf("it names partition %d of topic %s, which was not asked for", index, r.topics[g].topic.Name)
			}
			next = k + 1
			b := batches[k]
			if b.Mark == s.mark {
				return fmt.Errorf("it names %v twice", b.TopicPartition())
			}
			b.Mark = s.mark
			r.found = append(r.found, b)
		}
	}
	if len(r.found) != len(r.batches) {
		return fmt.Errorf("it answers %d of %d partitions", len(r.found), len(r.batches))
	}
	return nil
}

// group is which of the request's topics a response's topic is, looking at guess first; -1: none.
func (r *produceRequest) group(t *protocol.ProduceResponseTopic, guess int) int {
	if guess < len(r.topics) && r.is(guess, t) {
		return guess
	}
	for i := range r.topics {
		if r.is(i, t) {
			return i
		}
	}
	return -1
}

func (r *produceRequest) is(i int, t *protocol.ProduceResponseTopic) bool {
	if r.version >= 13 {
		return r.topics[i].id == t.ID
	}
	return string(t.Name) == r.topics[i].topic.Name
}
