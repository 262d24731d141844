package sim

import (
	"encoding/binary"
	"time"

	"github.com/kafka-reservoir/producer/internal/testbroker"
	"github.com/kafka-reservoir/producer/protocol"
)

// tap watches what the client hands over to its connections and what it gets back: the rules of the wire hold for what
// it can know, whatever becomes of it.
type tap struct {
	b   *Book
	ids map[protocol.UUID]string

	asked map[testbroker.ConnID]*dialogue
	seen  map[stampKey]*stamp
	ends  map[stampKey]bool // sequences behind batches that were sent
	state map[epochKey]*epochState

	quiet map[int32]time.Duration     // until when a node wants to be left alone
	up    map[int32]testbroker.ConnID // the connection of a node, once something was sent
	last  map[int32]time.Duration     // when something was sent to a node

	metadata, producerIDs, dials rate
	outOfOrder                   int // answers that said so
	news                         int // metadata answers

	req  protocol.ProduceRequest
	resp protocol.ProduceResponse
}

// dialogue is one connection's requests without an answer, oldest first.
type dialogue struct {
	q    []asked
	deaf bool // an answer could not be right: the client is about to hang up
}

type asked struct {
	node    int32
	api     protocol.APIKey
	version int16
	corr    int32
	acks    int16
	topics  int
	n       int // batches, those that nothing is known of included
	batches []sentBatch
}

// sentBatch is a batch in a request.
type sentBatch struct {
	part *partitionBook
	key  stampKey
}

// stampKey is what must stand for the same bytes for ever.
type stampKey struct {
	part     *partitionBook
	producer protocol.ProducerID
	sequence int32
}

type stamp struct {
	crc      uint32
	count    int32
	refused  bool // the last attempt was, in so many words: the sequence is free again
	floating int  // attempts without an answer, their connections gone
	waiting  int  // attempts that wait for their answers
	sends    int
}

type epochKey struct {
	part     *partitionBook
	producer protocol.ProducerID
}

type epochState struct {
	ackedBy  int32 // the leader that acknowledged a batch last; 0: none has
	inFlight int
}

func newTap(b *Book) *tap {
	return &tap{
		b: b, ids: map[protocol.UUID]string{}, asked: map[testbroker.ConnID]*dialogue{},
		seen: map[stampKey]*stamp{}, ends: map[stampKey]bool{}, up: map[int32]testbroker.ConnID{}, last: map[int32]time.Duration{}, state: map[epochKey]*epochState{}, quiet: map[int32]time.Duration{},
	}
}

// sent looks at a frame that is handed over.
func (t *tap) sent(node int32, c testbroker.ConnID, f protocol.Frame) {
	s := t.b.w.Selector
	raw := s.join(f.Buffers)
	defer func() { s.bufs = append(s.bufs, raw) }()
	t.b.digest.add(uint64(s.now), uint64(node), uint64(len(raw)), uint64(sum(f)))
	if len(raw) < 12 || int(binary.BigEndian.Uint32(raw)) != len(raw)-4 {
		t.b.violate("node %d: a frame of %d bytes with a wrong length", node, len(raw))
		return
	}
	frame := raw[4:]
	a := asked{
		node:    node,
		api:     protocol.APIKey(binary.BigEndian.Uint16(frame)),
		version: int16(binary.BigEndian.Uint16(frame[2:])),
		corr:    int32(binary.BigEndian.Uint32(frame[4:])),
	}
	if s.now < t.quiet[node] {
		t.b.violate("node %d: a request, though it wants to be left alone until %v", node, t.quiet[node])
	}
	t.up[node], t.last[node] = c, s.now
	d := t.asked[c]
	if d == nil {
		d = &dialogue{}
		t.asked[c] = d
	}
	switch a.api {
	case protocol.KeyMetadata:
		t.metadata.count(s.now, t.b, "metadata requests")
	case protocol.KeyInitProducerID:
		t.producerIDs.count(s.now, t.b, "InitProducerId requests")
	case protocol.KeyProduce:
		if !t.produce(&a, frame) {
			return
		}
		n := 1
		for i := range d.q {
			if d.q[i].api == protocol.KeyProduce {
				n++
			}
		}
		if limit := t.b.p.Config.MaxInFlight; n > limit && a.acks != 0 {
			t.b.violate("node %d: %d Produce requests in flight, %d are allowed", node, n, limit)
		}
		if a.acks == 0 {
			return // never answered
		}
	}
	d.q = append(d.q, a)
}

// produce looks at a Produce request.
func (t *tap) produce(a *asked, frame []byte) bool {
	_, body, err := protocol.ReadRequestHeader(frame)
	if err == nil {
		err = t.req.ReadFrom(body, a.version)
	}
	if err != nil {
		t.b.violate("a Produce request that does not decode: %v", err)
		return false
	}
	a.acks, a.topics = t.req.Acks, len(t.req.Topics)
	for i := range t.req.Topics {
		topic := &t.req.Topics[i]
		name := topic.Name
		if a.version >= 13 {
			name = t.ids[topic.ID]
		}
		for j := range topic.Partitions {
			a.n++
			p := t.b.find(name, topic.Partitions[j].Index)
			h, err := protocol.ReadBatchHeader(topic.Partitions[j].Records)
			if p == nil || err != nil {
				if t.b.p.Levels[FuzzedMetadata] == Off { // which may name topics and partitions that there are not
					t.b.violate("a batch for %s-%d: %v", name, topic.Partitions[j].Index, err)
				}
				continue
			}
			t.batch(a, p, h)
		}
	}
	return true
}

// batch checks the rules for one batch on its way.
func (t *tap) batch(a *asked, p *partitionBook, h protocol.BatchHeader) {
	id := protocol.ProducerID{ID: h.ProducerID, Epoch: h.ProducerEpoch}
	if !id.Valid() {
		if t.b.p.idempotent() {
			t.b.violate("a batch for %v without a producer id", p)
		}
		return
	}
	key := stampKey{p, id, h.BaseSequence}
	s := t.seen[key]
	switch {
	case s == nil:
		s = &stamp{}
		t.seen[key] = s
		s.crc, s.count = h.CRC, h.Count
	case s.crc != h.CRC || s.count != h.Count:
		if !s.refused || s.floating > 0 {
			t.b.violate("other bytes than before for %v, producer %d/%d, sequence %d, though their fate is not known", p, id.ID, id.Epoch, h.BaseSequence)
		}
		*s = stamp{crc: h.CRC, count: h.Count}
	}
	s.refused = false
	s.sends++
	s.waiting++
	st := t.epoch(p, id)
	if p.stamp != id {
		t.b.newEpoch(p, id)
	}
	p.onWire++
	if h.BaseSequence != 0 && s.sends == 1 && !t.ends[key] && t.b.p.Levels[FuzzedMetadata] == Off { // which hides some batches from us
		t.b.violate("a batch of %v, producer %d/%d, with sequence %d, where no batch before it ends", p, id.ID, id.Epoch, h.BaseSequence)
	}
	t.ends[stampKey{p, id, protocol.AddSequence(h.BaseSequence, h.Count)}] = true
	st.inFlight++
	if st.ackedBy != a.node && st.inFlight > 1 {
		t.b.violate("%d batches of %v in flight to node %d under producer %d/%d, of which it has not acknowledged any yet",
			st.inFlight, p, a.node, id.ID, id.Epoch)
	}
	if st.inFlight > 5 {
		t.b.violate("%d batches of %v in flight: brokers remember five", st.inFlight, p)
	}
	a.batches = append(a.batches, sentBatch{p, key})
}

// isNew reports whether a batch is sent for the first time, as far as its stamp tells.
func (t *tap) isNew(b *testbroker.Batch) bool {
	s := t.seen[stampKey{t.b.find(b.Topic, b.Partition), protocol.ProducerID{ID: b.ProducerID, Epoch: b.ProducerEpoch}, b.BaseSequence}]
	return b.ProducerID < 0 || s != nil && s.sends == 1
}

func (t *tap) epoch(p *partitionBook, id protocol.ProducerID) *epochState {
	st := t.state[epochKey{p, id}]
	if st == nil {
		st = &epochState{}
		t.state[epochKey{p, id}] = st
	}
	return st
}

// received looks at an answer.
func (t *tap) received(node int32, c testbroker.ConnID, payload []byte) {
	d := t.asked[c]
	if d == nil || d.deaf || len(d.q) == 0 {
		return
	}
	a := d.q[0]
	corr, body, err := protocol.ReadResponseHeader(payload, a.api, a.version)
	if err != nil || corr != a.corr {
		d.deaf = true
		return
	}
	var throttle int32
	switch a.api {
	case protocol.KeyProduce:
		if t.resp.ReadAnswer(body, a.version, a.topics, a.n) != nil || !t.answers(&a) {
			d.deaf = true // the client believes nothing of it, and is done with the request
			t.lost(&a)
			d.q = append(d.q[:0], d.q[1:]...)
			return
		}
		if a.version >= 6 {
			throttle = t.resp.ThrottleTimeMs
		}
	case protocol.KeyMetadata:
		var resp protocol.MetadataResponse
		if resp.ReadFrom(body, a.version) != nil {
			d.deaf = true
			return
		}
		t.news++
		if a.version >= 6 {
			throttle = resp.ThrottleTimeMs
		}
	}
	if throttle > 0 {
		until := t.b.w.Selector.now + min(time.Duration(throttle)*time.Millisecond, time.Minute)
		t.quiet[node] = max(t.quiet[node], until)
		t.afterThrottle(node, c, until)
	}
	d.q = append(d.q[:0], d.q[1:]...)
}

// afterThrottle sees to it that a node is sent to again when it wants to be: if its connection is still the same, and a record
// has waited for it all the time, with nothing of its partition on its way.
func (t *tap) afterThrottle(node int32, c testbroker.ConnID, until time.Duration) {
	cfg := &t.b.w.Config
	slack := 2*time.Second + max(cfg.Linger, 0) + cfg.RetryBackoffMax
	if t.b.p.Levels[NoProducerID] != Off {
		return // then that may be what is waited for
	}
	if node < 0 {
		return // a bootstrap server, which leads nothing: its number is that of no leader
	}
	s := t.b.w.Selector
	s.In(until-s.now, func() {
		v := t.b.w.Metadata.Snapshot()
		s.In(slack, func() {
			if t.up[node] != c || t.last[node] >= until || t.quiet[node] > until || t.b.closed || t.b.forced ||
				t.busy() || t.b.w.Metadata.Snapshot() != v {
				return
			}
			for i, name := range t.b.topics {
				topic := v.Topic(name)
				for k, p := range t.b.parts[i] {
					if topic == nil || topic.Leader(int32(k)) != node || len(p.open) == 0 {
						continue
					}
					if r := p.open[0]; r.accepted < until {
						t.b.violate("node %d: nothing is sent to it since its throttle ended at %v, though record %d of %v waits", node, until, r.id, p)
						return
					}
				}
			}
		})
	})
}

// busy reports whether any request waits for its answer.
func (t *tap) busy() bool {
	for _, d := range t.asked {
		if len(d.q) > 0 {
			return true
		}
	}
	return false
}

// answers takes in a Produce response. False: it is not one to this request.
func (t *tap) answers(a *asked) bool {
	n := 0
	for i := range t.resp.Topics {
		n += len(t.resp.Topics[i].Partitions)
	}
	if n != a.n {
		return false
	}
	for i := range t.resp.Topics {
		topic := &t.resp.Topics[i]
		name := string(topic.Name)
		if a.version >= 13 {
			name = t.ids[topic.ID]
		}
		for j := range topic.Partitions {
			p := t.b.find(name, topic.Partitions[j].Index)
			for k := range a.batches {
				if a.batches[k].part == p {
					t.answer(a.node, &a.batches[k], topic.Partitions[j].ErrorCode)
					break
				}
			}
		}
	}
	return true
}

func (t *tap) answer(node int32, b *sentBatch, code protocol.ErrorCode) {
	st, s := t.landed(b)
	switch code {
	case protocol.None, protocol.DuplicateSequenceNumber:
		st.ackedBy = node
	case protocol.RequestTimedOut, protocol.NotEnoughReplicasAfterAppend, protocol.UnknownServerError, protocol.NetworkException,
		protocol.KafkaStorageError:
		s.floating++
	case protocol.OutOfOrderSequenceNumber:
		t.outOfOrder++
		b.part.gapAt = t.b.w.Selector.now
		s.refused = true
		s.floating = 0 // what is missing before it will not come any more
	case protocol.UnknownProducerID:
		b.part.gapAt = t.b.w.Selector.now
		s.refused = true
	default:
		s.refused = true
	}
}

// landed takes in that no answer to a batch is waited for any more.
func (t *tap) landed(b *sentBatch) (*epochState, *stamp) {
	st, s := t.epoch(b.part, b.key.producer), t.seen[b.key]
	st.inFlight--
	s.waiting--
	b.part.onWire--
	return st, s
}

// newEpoch takes in that a partition goes on under another producer id or epoch. All that was sent under the one before must
// be resolved: what is on its way, or in the log without the producer's knowing, would be there twice.
func (b *Book) newEpoch(p *partitionBook, id protocol.ProducerID) {
	was := p.stamp
	p.stamp = id
	if !was.Valid() {
		return
	}
	if p.onWire > 0 {
		b.violate("a batch of %v under producer %d/%d, while %d under %d/%d wait for their answers", p, id.ID, id.Epoch, p.onWire, was.ID, was.Epoch)
	}
	b.scan(p)
	for _, r := range p.open {
		if r.number > p.settled && r.copies > 0 && !p.forgiven(r) {
			b.violate("a batch of %v under producer %d/%d, though record %d, sent under %d/%d, is stored and not settled", p, id.ID, id.Epoch, r.id, was.ID, was.Epoch)
			return
		}
	}
}

// ended takes in that a connection is over.
func (t *tap) ended(node int32, c testbroker.ConnID) {
	if t.up[node] == c {
		delete(t.up, node)
	}
	d := t.asked[c]
	if d == nil {
		return
	}
	for i := range d.q {
		t.lost(&d.q[i])
	}
	delete(t.asked, c)
}

// lost takes in that a request will have no answer.
func (t *tap) lost(a *asked) {
	for i := range a.batches {
		_, s := t.landed(&a.batches[i])
		s.floating++
	}
}

// dropped takes in that a frame was not written whole: nobody has read it.
func (t *tap) dropped(_ int32, c testbroker.ConnID, corr int32) {
	d := t.asked[c]
	if d == nil {
		return
	}
	for i := range d.q {
		if d.q[i].corr != corr {
			continue
		}
		for k := range d.q[i].batches {
			_, s := t.landed(&d.q[i].batches[k])
			s.refused = true
		}
		d.q = append(d.q[:i], d.q[i+1:]...)
		return
	}
}

// rate counts how often something happens, and complains when it is too often.
type rate struct {
	limit int             // within a second
	times []time.Duration // of the last second
}

func (r *rate) count(now time.Duration, b *Book, what string) {
	old := 0
	for old < len(r.times) && now-r.times[old] >= time.Second {
		old++
	}
	r.times = append(r.times[:0], r.times[old:]...)
	r.times = append(r.times, now)
	if len(r.times) > r.limit {
		b.violate("a storm: %d %s within a second, %d are allowed", len(r.times), what, r.limit)
		r.times = r.times[:0]
	}
}
