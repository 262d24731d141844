package testbroker

import "github.com/kafka-reservoir/producer/protocol"

// producerWindow is how many batches of a producer a log remembers, to recognize repeats.
const producerWindow = 5

// producerStates is what one log knows of idempotent producers. The cluster's lock guards it.
type producerStates struct {
	byID    map[int64]*producerState
	expired map[int64]bool // known once and forgotten
}

type producerState struct {
	epoch   int16
	next    int32           // the only sequence that may come next in this epoch
	batches []rememberedRun // the last ones of this epoch, oldest first
}

// rememberedRun is where a batch was put.
type rememberedRun struct {
	base, last int32 // sequences
	offset     int64
	appendTime int64
}

// sequenceVerdict is what a log makes of a batch's producer id, epoch and sequence.
type sequenceVerdict struct {
	code      protocol.ErrorCode
	duplicate *rememberedRun // the batch is a repeat of this one
}

// check judges a batch and changes nothing. The order of the questions is Kafka's (ProducerAppendInfo): a repeat
// is recognized before anything is held against it.
func (s *producerStates) check(model LogModel, id protocol.ProducerID, sequence, count int32) sequenceVerdict {
	st := s.byID[id.ID]
	if st == nil {
		switch {
		case sequence == 0 || model == Legacy:
			return sequenceVerdict{}
		case model == Forgetful || s.expired[id.ID]:
			return sequenceVerdict{code: protocol.UnknownProducerID}
		}
		return sequenceVerdict{code: protocol.OutOfOrderSequenceNumber}
	}
	switch {
	case id.Epoch < st.epoch:
		return sequenceVerdict{code: protocol.InvalidProducerEpoch}
	case id.Epoch > st.epoch:
		if sequence != 0 {
			return sequenceVerdict{code: protocol.OutOfOrderSequenceNumber}
		}
		return sequenceVerdict{}
	}
	last := protocol.AddSequence(sequence, count-1)
	for i := range st.batches {
		if b := &st.batches[i]; b.base == sequence && b.last == last {
			return sequenceVerdict{duplicate: b}
		}
	}
	if sequence != st.next {
		return sequenceVerdict{code: protocol.OutOfOrderSequenceNumber}
	}
	return sequenceVerdict{}
}

// record remembers a batch that was appended.
func (s *producerStates) record(id protocol.ProducerID, sequence, count int32, offset, appendTime int64) {
	st := s.byID[id.ID]
	if st == nil {
		if s.byID == nil {
			s.byID = make(map[int64]*producerState)
		}
		st = &producerState{epoch: id.Epoch, batches: make([]rememberedRun, 0, producerWindow)}
		s.byID[id.ID] = st
		delete(s.expired, id.ID)
	}
	if id.Epoch != st.epoch {
		st.epoch = id.Epoch
		st.batches = st.batches[:0]
	}
	if len(st.batches) == producerWindow {
		copy(st.batches, st.batches[1:])
		st.batches = st.batches[:producerWindow-1]
	}
	st.batches = append(st.batches, rememberedRun{
		base:       sequence,
		last:       protocol.AddSequence(sequence, count-1),
		offset:     offset,
		appendTime: appendTime,
	})
	st.next = protocol.AddSequence(sequence, count)
}

// clear forgets all, and that there was anything to forget.
func (s *producerStates) clear() {
	s.byID = nil
	s.expired = nil
}

// expire forgets all, and remembers who was known.
func (s *producerStates) expire() {
	if s.expired == nil {
		s.expired = make(map[int64]bool)
	}
	for id := range s.byID {
		s.expired[id] = true
	}
	s.byID = nil
}

// prime has id continue at next, with no batch to recognize repeats of.
func (s *producerStates) prime(id protocol.ProducerID, next int32) {
	if s.byID == nil {
		s.byID = make(map[int64]*producerState)
	}
	s.byID[id.ID] = &producerState{epoch: id.Epoch, next: next, batches: make([]rememberedRun, 0, producerWindow)}
}
