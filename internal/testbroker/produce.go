package testbroker

import (
	"github.com/kafka-reservoir/producer/protocol"
)

// produceLocked appends what a Produce request brings. drop says that the connection has to be closed: with acks 0
// that is the only way to tell of an error (S-90).
func (c *Cluster) produceLocked(k *conn, j *job, b *protocol.ProduceRequest) (resp protocol.Message, drop bool) {
	r := &protocol.ProduceResponse{Topics: make([]protocol.ProduceResponseTopic, len(b.Topics))}
	results := make([]Result, len(j.req.Batches))
	n := 0
	for i := range b.Topics {
		t := &b.Topics[i]
		r.Topics[i] = protocol.ProduceResponseTopic{
			Name:       []byte(t.Name),
			ID:         t.ID,
			Partitions: make([]protocol.ProduceResponsePartition, len(t.Partitions)),
		}
		for p := range t.Partitions {
			out := &r.Topics[i].Partitions[p]
			results[n] = c.produceBatchLocked(k, j, &j.req.Batches[n], t.Partitions[p].Records, out)
			if out.ErrorCode != protocol.None {
				drop = j.req.Acks == 0
			}
			c.hintLocked(j, &j.req.Batches[n], out, r)
			n++
		}
	}
	j.entry.Results = results
	if j.req.Acks == 0 {
		return nil, drop
	}
	return r, false
}

// produceBatchLocked does one partition, fault script included, and fills in its part of the response.
func (c *Cluster) produceBatchLocked(k *conn, j *job, b *Batch, raw []byte, out *protocol.ProduceResponsePartition) Result {
	v := &j.verdict
	code, appends := v.Code, v.Append
	for i := range v.Partitions {
		if p := &v.Partitions[i]; p.Topic == b.Topic && p.Partition == b.Partition {
			code, appends = p.Code, p.Append
		}
	}
	*out = protocol.ProduceResponsePartition{
		Index: b.Partition, BaseOffset: -1, LogAppendTimeMs: -1, LogStartOffset: -1, CurrentLeader: protocol.NoLeader,
	}
	p, res := c.findLocked(k, b, j.req.Acks)
	asked := code == protocol.None || appends
	var appendTime int64 = -1
	if res.Code == protocol.None && asked && !v.Skip {
		res, appendTime = c.appendLocked(k, p, b, raw)
	}
	res.Answer = res.Code
	if code != protocol.None {
		res.Answer = code
	}
	if p != nil {
		c.noteSeenLocked(k, j, p, b, res)
		switch res.Answer {
		case protocol.None, protocol.UnknownProducerID, protocol.OutOfOrderSequenceNumber, protocol.InvalidProducerEpoch, protocol.InvalidRecord:
			out.LogStartOffset = p.log.start
		}
		if v.Skip && res.Answer == protocol.None {
			res.BaseOffset = p.log.end // the lie that was asked for
		}
	}
	out.ErrorCode = res.Answer
	if res.Answer == protocol.None {
		out.BaseOffset, out.LogAppendTimeMs = res.BaseOffset, appendTime
	} else if b.check.code == res.Answer {
		out.Details = &protocol.ProduceDetails{RecordErrors: b.check.recordErrors}
		if b.Err != nil {
			text := b.Err.Error()
			out.Details.ErrorMessage = &text
		}
	}
	return res
}

// findLocked is the partition that a batch is for, and the reason when it cannot take it. The order is Kafka's.
func (c *Cluster) findLocked(k *conn, b *Batch, acks int16) (*partition, Result) {
	refuse := func(code protocol.ErrorCode) Result { return Result{Code: code, BaseOffset: -1} }
	if acks < -1 || acks > 1 {
		return nil, refuse(protocol.InvalidRequiredAcks)
	}
	if code := c.topicErrors[b.Topic]; code != protocol.None && b.Topic != "" {
		return nil, refuse(code)
	}
	t := c.byName[b.Topic]
	if !b.TopicID.IsZero() || b.Topic == "" { // v13
		if t = c.byID[b.TopicID]; t == nil {
			return nil, refuse(protocol.UnknownTopicID)
		}
	}
	if t == nil || b.Partition < 0 || int(b.Partition) >= len(t.partitions) {
		return nil, refuse(protocol.UnknownTopicOrPartition)
	}
	p := t.partitions[b.Partition]
	switch {
	case p.leader != k.node.id || p.readyAt.After(c.now):
		return p, refuse(protocol.NotLeaderOrFollower)
	case b.check.code != protocol.None:
		return p, refuse(b.check.code)
	case b.Size > c.maxMessageBytesLocked(t, k.node):
		return p, refuse(protocol.MessageTooLarge)
	case b.Transactional:
		return p, refuse(protocol.InvalidTxnState)
	}
	return p, Result{BaseOffset: -1}
}

func (c *Cluster) maxMessageBytesLocked(t *topic, n *node) int {
	switch {
	case t.maxMessageBytes > 0:
		return t.maxMessageBytes
	case c.cfg.MaxMessageBytes > 0:
		return c.cfg.MaxMessageBytes
	}
	return n.generation.MaxMessageBytes
}

// appendLocked asks the producer state and appends.
func (c *Cluster) appendLocked(k *conn, p *partition, b *Batch, raw []byte) (Result, int64) {
	id := protocol.ProducerID{ID: b.ProducerID, Epoch: b.ProducerEpoch}
	if id.Valid() {
		v := p.log.producers.check(k.node.model, id, b.BaseSequence, b.Count)
		if v.duplicate != nil {
			p.log.duplicates++
			return Result{BaseOffset: v.duplicate.offset, Duplicate: true}, v.duplicate.appendTime
		}
		if v.code != protocol.None {
			return Result{Code: v.code, BaseOffset: -1}, -1
		}
	}
	var appendTime int64 = -1
	if p.topic.logAppendTime {
		appendTime = c.now.UnixMilli()
	}
	base := p.log.append(raw, b.check.header, p.epoch, appendTime)
	c.wakeFetchesLocked(p)
	return Result{BaseOffset: base, Appended: true}, appendTime
}

// noteSeenLocked holds the client to delivery's second rule: what may be in a log under a sequence stays what it
// is. A batch that was refused in a way that leaves no doubt may come again with other bytes (split, for
// instance).
func (c *Cluster) noteSeenLocked(k *conn, j *job, p *partition, b *Batch, res Result) {
	if b.ProducerID < 0 || b.check.code != protocol.None {
		return
	}
	key := seenKey{protocol.ProducerID{ID: b.ProducerID, Epoch: b.ProducerEpoch}, b.BaseSequence}
	value := seenValue{b.CRC, b.Count}
	if p.seen.differs(key, value) {
		c.breachLocked(j.req, "%s-%d: other bytes than before for producer id %d, epoch %d, sequence %d",
			b.Topic, b.Partition, b.ProducerID, b.ProducerEpoch, b.BaseSequence)
		return
	}
	v := &j.verdict
	unheard := k.gone || k.muted || v.Mute || v.Drop != DropNot || v.Cut > 0 || v.Rewrite != nil || v.Edit != nil || j.req.Acks == 0
	if res.Appended || res.Duplicate || unheard || ambiguous(res.Answer) {
		p.seen.add(key, value)
	}
}

// ambiguous reports whether a code leaves open whether the batch was written.
func ambiguous(code protocol.ErrorCode) bool {
	switch code {
	case protocol.UnknownServerError, protocol.RequestTimedOut, protocol.NetworkException,
		protocol.NotEnoughReplicasAfterAppend, protocol.KafkaStorageError,
		// With acks=all also after the append, when leadership is lost while it waits for the replicas.
		protocol.NotLeaderOrFollower, protocol.UnknownTopicOrPartition, protocol.UnknownTopicID:
		return true
	}
	return false
}

// hintLocked says who leads now, to those who came to the wrong node (KIP-951).
func (c *Cluster) hintLocked(j *job, b *Batch, out *protocol.ProduceResponsePartition, r *protocol.ProduceResponse) {
	if j.req.Version < 10 || out.ErrorCode != protocol.NotLeaderOrFollower && out.ErrorCode != protocol.FencedLeaderEpoch {
		return
	}
	p, err := c.partitionLocked(b.Topic, b.Partition)
	if err != nil || p.leader == NoLeader {
		return
	}
	out.CurrentLeader = protocol.LeaderIDAndEpoch{LeaderID: p.leader, LeaderEpoch: p.epoch}
	for i := range r.NodeEndpoints {
		if r.NodeEndpoints[i].NodeID == p.leader {
			return
		}
	}
	n, err := c.nodeLocked(p.leader)
	if err != nil {
		return
	}
	r.NodeEndpoints = append(r.NodeEndpoints, protocol.NodeEndpoint{NodeID: n.id, Host: n.host, Port: n.port})
}
