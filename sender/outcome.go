package sender

import (
	"errors"
	"fmt"
	"time"

	"github.com/kafka-reservoir/producer/accumulator"
	"github.com/kafka-reservoir/producer/internal/mutants"
	"github.com/kafka-reservoir/producer/metadata"
	"github.com/kafka-reservoir/producer/protocol"
)

// outcome is what an answer means for its batch.
type outcome int

const (
	complete      outcome = iota
	completeBlind         // written, at an offset nobody knows
	retry                 // send it again, while the delivery timeout lasts
	split                 // too large: send it in parts
	fail
	failProducer // fail it, and the producer with it
	sequenceGap  // OUT_OF_ORDER_SEQUENCE
	producerGone // UNKNOWN_PRODUCER_ID
)

// decide is the table of java-producer 4.7: error code and batch -> what to do.
func decide(code protocol.ErrorCode, idempotent bool, records int32) outcome {
	switch code {
	case protocol.None:
		return complete
	case protocol.DuplicateSequenceNumber:
		if mutants.On(mutants.DuplicateFails) {
			return fail
		}
		return completeBlind
	case protocol.MessageTooLarge:
		if records > 1 {
			return split
		}
		return fail
	case protocol.OutOfOrderSequenceNumber:
		if idempotent {
			return sequenceGap
		}
		return fail
	case protocol.UnknownProducerID:
		if idempotent {
			return producerGone
		}
		return fail
	case protocol.ClusterAuthorizationFailed, protocol.TransactionalIDAuthorizationFailed, protocol.UnsupportedVersion,
		protocol.ProducerFenced, protocol.InvalidProducerIDMapping:
		if idempotent {
			return failProducer
		}
		return fail
	}
	if code.Retriable() {
		return retry
	}
	return fail
}

// unknownFate reports whether a refusal leaves open if the batch was written.
//
// With acks=all a leader that loses its office while it waits for the in-sync replicas answers NOT_LEADER_OR_FOLLOWER, or
// UNKNOWN_TOPIC_OR_PARTITION, after it has appended the batch, and the next leader may have it too.
func unknownFate(code protocol.ErrorCode, acks int16) bool {
	switch code {
	case protocol.NotLeaderOrFollower, protocol.UnknownTopicOrPartition, protocol.UnknownTopicID:
		return acks == -1
	case protocol.RequestTimedOut, protocol.NotEnoughReplicasAfterAppend, protocol.UnknownServerError,
		protocol.NetworkException, protocol.KafkaStorageError:
		return true
	}
	return false
}

// settle does what one partition's answer means for its batch.
func (s *Sender) settle(b *accumulator.ProducerBatch, p *protocol.ProduceResponsePartition, version int16, now time.Time) {
	code := p.ErrorCode
	if mutants.On(mutants.PartitionErrorIgnored) {
		code = protocol.None
	}
	if code.InvalidatesMetadata() {
		s.md.RequestUpdate()
	}
	if b.Done() {
		return // it ended while in flight; the answer only frees it (SND-49)
	}
	if unknownFate(code, s.cfg.Acks) {
		b.SetMayBeWritten(true)
	}
	message := ""
	if p.Details != nil && p.Details.ErrorMessage != nil {
		message = *p.Details.ErrorMessage
	}
	switch decide(code, s.txn != nil, b.Count()) {
	case complete:
		s.acknowledged(b, p.BaseOffset, p.LogAppendTimeMs, now)
	case completeBlind:
		s.acknowledged(b, -1, -1, now)
	case retry:
		s.retryOrFail(b, code, message, nil, now)
	case split:
		s.split(b, now)
	case sequenceGap:
		if !mutants.On(mutants.OutOfOrderForever) && !s.txn.OutOfOrder(b, now, s.cfg.RequestTimeout) {
			s.failBatch(b, code, message, nil, now)
			return
		}
		s.again(b, code, message, now)
	case producerGone:
		if !s.txn.Lost(b, p.LogStartOffset, version >= 5) {
			s.failBatch(b, code, message, nil, now)
			return
		}
		s.again(b, code, message, now)
	case failProducer:
		s.fail(fmt.Errorf("produce %v: %w", b.TopicPartition(), code))
		s.failBatch(b, code, message, nil, now)
	case fail:
		s.failBatch(b, code, message, s.recordErrors(b, p, code, message, now), now)
	}
}

// acknowledged ends a batch that was written.
func (s *Sender) acknowledged(b *accumulator.ProducerBatch, base, logAppend int64, now time.Time) {
	if b.Done() {
		return
	}
	b.SetMayBeWritten(false)
	if b.Attempts() > 1 && logAppend == b.MaxTimestamp() {
		// A broker that recognises a repeated batch answers with its last record's time as if that were the append time.
		logAppend = -1
	}
	if s.txn != nil {
		s.txn.Succeeded(b, base)
	}
	if s.cfg.BatchDone != nil {
		tp := b.TopicPartition()
		s.cfg.BatchDone(tp.Topic, tp.Partition, int(b.Count()), b.Size(), b.Attempts(), base, now.Sub(b.Created()), nil)
	}
	s.acc.Complete(b, base, logAppend)
	if mutants.On(mutants.ImplicitAck) {
		implicitAck(s, b, base, now)
	}
}

// implicitAck is the planted bug of that name; nil without the build tag.
var implicitAck func(s *Sender, b *accumulator.ProducerBatch, base int64, now time.Time)

// retryOrFail sends a batch again if it has retries left.
func (s *Sender) retryOrFail(b *accumulator.ProducerBatch, err error, message string, perRecord func(int) error, now time.Time) {
	if b.Attempts() <= s.cfg.Retries {
		s.again(b, err, message, now)
		return
	}
	s.failBatch(b, err, message, perRecord, now)
}

// again puts a batch back, to be sent once its back-off is over, or ends it if its time is up: then that is the cause, and err the last answer.
func (s *Sender) again(b *accumulator.ProducerBatch, err error, message string, now time.Time) {
	b.SetLastError(err, message)
	if now.Sub(b.Created()) >= s.cfg.DeliveryTimeout {
		if s.txn != nil {
			s.txn.Failed(b)
		}
		s.end(b, s.verdict(b, ErrDeliveryTimeout, err, message, now), nil, now)
		return
	}
	s.acc.Reenqueue(b, now)
	tp := b.TopicPartition()
	s.cfg.Logger.Warn("batch will be sent again", "topic", tp.Topic, "partition", tp.Partition,
		"records", b.Count(), "attempt", b.Attempts(), "err", err)
	if s.cfg.Retry != nil {
		s.cfg.Retry(tp.Topic, tp.Partition, int(b.Count()), b.Attempts(), b.RetryAt().Sub(now), err)
	}
}

// failBatch ends a batch that will not be sent again.
func (s *Sender) failBatch(b *accumulator.ProducerBatch, err error, message string, perRecord func(int) error, now time.Time) {
	if s.txn != nil {
		s.txn.Failed(b)
	}
	s.end(b, s.verdict(b, err, nil, message, now), perRecord, now)
}

// split sends a batch in parts. It costs no attempt.
func (s *Sender) split(b *accumulator.ProducerBatch, now time.Time) {
	n := b.Count()
	tp := b.TopicPartition()
	if s.txn != nil {
		// The parts take the batch's sequences: the broker has refused them, so that no bytes stand for them yet.
		s.txn.Splitting(b)
	}
	parts, err := s.acc.SplitAndReenqueue(b, now)
	if err != nil {
		s.failBatch(b, errors.Join(protocol.MessageTooLarge, err), "", nil, now)
		return
	}
	if s.txn != nil {
		s.txn.Split(b, parts)
		s.acc.RecheckAll(now)
	}
	s.cfg.Metrics.BatchSplitTotal.Add(1)
	s.cfg.Logger.Warn("batch was too large for the broker and is sent in parts", "topic", tp.Topic,
		"partition", tp.Partition, "records", n, "parts", len(parts))
}

// recordErrors gives each record its own error where the broker named those at fault (KIP-467, SND-47).
// nil: all have the batch's.
func (s *Sender) recordErrors(b *accumulator.ProducerBatch, p *protocol.ProduceResponsePartition, code protocol.ErrorCode, message string, now time.Time) func(int) error {
	if p.Details == nil || len(p.Details.RecordErrors) == 0 {
		return nil
	}
	named := make(map[int]error, len(p.Details.RecordErrors))
	for _, r := range p.Details.RecordErrors {
		cause, text := error(protocol.InvalidRecord), message
		if len(p.Details.RecordErrors) == 1 {
			cause = code
		}
		if r.BatchIndexErrorMessage != nil {
			text = *r.BatchIndexErrorMessage
		}
		named[int(r.BatchIndex)] = s.verdict(b, cause, nil, text, now)
	}
	others := error(s.verdict(b, ErrBatchRefused, nil, "", now))
	return func(i int) error {
		if err, ok := named[i]; ok {
			return err
		}
		return others
	}
}

// takeHints applies what a response says about new leaders (KIP-951): only what is newer than what is known.
func (s *Sender) takeHints(r *produceRequest) {
	var hints []metadata.LeaderHint
	k := -1
	for i := range s.resp.Topics {
		t := &s.resp.Topics[i]
		for j := range t.Partitions {
			k++
			p := &t.Partitions[j]
			if p.CurrentLeader.LeaderID < 0 || p.CurrentLeader.LeaderEpoch < 0 {
				continue
			}
			if p.ErrorCode != protocol.NotLeaderOrFollower && p.ErrorCode != protocol.FencedLeaderEpoch {
				continue
			}
			hints = append(hints, metadata.LeaderHint{
				Topic: r.found[k].TopicPartition().Topic, Partition: p.Index,
				LeaderID: p.CurrentLeader.LeaderID, LeaderEpoch: p.CurrentLeader.LeaderEpoch,
			})
		}
	}
	if len(hints) == 0 {
		return
	}
	nodes := make([]protocol.Node, 0, len(s.resp.NodeEndpoints))
	for _, e := range s.resp.NodeEndpoints {
		n := protocol.Node{ID: e.NodeID, Host: e.Host, Port: e.Port}
		if e.Rack != nil {
			n.Rack = *e.Rack
		}
		nodes = append(nodes, n)
	}
	s.md.UpdateLeaders(hints, nodes)
}
