package accumulator

import (
	"fmt"
	"time"

	"github.com/kafka-reservoir/producer/internal/mutants"
	"github.com/kafka-reservoir/producer/protocol"
)

// SplitAndReenqueue divides a batch that the broker found too large into batches of about half its
// size, which take its place: in the queue, in the incomplete set, with its deadline, its sequences and its
// futures (java-producer 4.4, KAFKA-19479). The batch itself ends, without a word to its records.
// It returns the parts, in order. The sender's, with the batch popped and answered.
//
// The parts' memory is not the pool's: the sender cannot wait, and what they replace is given back in
// the same moment (ACC-20).
func (a *RecordAccumulator) SplitAndReenqueue(b *ProducerBatch, now time.Time) ([]*ProducerBatch, error) {
	raw, err := a.records(b)
	if err != nil {
		return nil, fmt.Errorf("split of a batch for %v: %w", b.d.tp, err)
	}
	// Half of it, so that splitting again ends in single records after a bounded number of steps (ACC-31);
	// less where batch.size is, which is what a batch was meant to have.
	half := (b.rawSize - protocol.BatchHeaderSize + 1) / 2
	target := min(half, a.cfg.BatchSize)
	if b.size > protocol.BatchHeaderSize {
		// Or at once into what a batch of the topic may have, as the parts before it have found out.
		fits := b.d.topic.fits.refused(b.size, now.Sub(a.epoch)) - protocol.BatchHeaderSize
		target = min(target, int(int64(fits)*int64(b.rawSize-protocol.BatchHeaderSize)/int64(b.size-protocol.BatchHeaderSize)))
	}
	target = max(target, b.maxRecord) + protocol.BatchHeaderSize

	var parts []*ProducerBatch
	var results []splitPart
	r := protocol.NewRecordReader(raw, int32(len(b.slots)))
	for i := range b.slots {
		rec, err := r.Next()
		if err != nil {
			return nil, fmt.Errorf("split of a batch for %v: record %d: %w", b.d.tp, i, err)
		}
		s := &b.slots[i]
		var p *ProducerBatch
		if len(parts) > 0 {
			p = parts[len(parts)-1]
		}
		var body, size int
		if p != nil {
			body = protocol.RecordBodySize(s.timestamp-p.baseTS, int32(len(p.slots)), rec.Key, rec.Value, rec.Headers)
			size = protocol.RecordSize(body)
		}
		if p == nil || p.size+size > target {
			p = a.newPart(b, int32(i), target, s.timestamp)
			parts = append(parts, p)
			if b.res != nil {
				p.res = a.newResult(b.d, target)
				results = append(results, splitPart{first: int32(i), r: p.res})
			}
			body = protocol.RecordBodySize(0, 0, rec.Key, rec.Value, rec.Headers)
			size = protocol.RecordSize(body)
		}
		p.appendRecord(body, size, s.timestamp, &Record{Key: rec.Key, Value: rec.Value, Headers: rec.Headers}, s.cb)
	}

	if raw := b.rawSize - protocol.BatchHeaderSize; b.codec != protocol.CodecNone && raw > 0 {
		b.d.topic.ratio.reset(float64(b.size-protocol.BatchHeaderSize) / float64(raw))
	}
	w := a.seal.spare.Get().(*sealer)
	for _, p := range parts {
		p.rawSize = p.size
		p.state.Store(int32(stateSealing))
		if p.codec != protocol.CodecNone {
			a.compress(w, p)
		}
		p.state.Store(int32(stateSealed))
	}
	a.seal.spare.Put(w)

	a.incomplete.replace(b, parts)
	if b.res != nil {
		b.res.become(results)
	}
	d := b.d
	d.mu.Lock()
	for _, p := range parts {
		d.insert(p)
	}
	d.untold.replace(b, parts)
	d.mu.Unlock()
	if a.cfg.OnSplit != nil {
		a.cfg.OnSplit(b, len(parts))
	}
	b.state.Store(int32(stateDone))
	b.callbacks, b.res = false, nil
	if b.sends == 0 {
		a.release(b)
	}
	if !d.muted {
		a.classify(d, now)
	}
	return parts, nil
}

// newPart makes a batch for a part of b, beginning with b's record first.
func (a *RecordAccumulator) newPart(b *ProducerBatch, first int32, size int, timestamp int64) *ProducerBatch {
	p := &ProducerBatch{a: a, d: b.d, id: b.id, sub: b.sub + first, isSplit: true, tainted: b.tainted || b.mayBeWritten}
	p.slabs = [][]byte{make([]byte, protocol.BatchHeaderSize, size)}
	p.size = protocol.BatchHeaderSize
	p.created, p.baseTS, p.maxTS = b.created, timestamp, timestamp
	p.codec = a.cfg.Codec
	p.limit = size
	p.leaderEpoch, p.dirty = b.leaderEpoch, true
	if b.stamped {
		if mutants.On(mutants.SplitRenumbered) {
			first /= 2
		}
		p.SetProducer(b.producer, protocol.AddSequence(b.sequence, first))
	}
	p.refs.Store(1)
	return p
}

// records are b's records, uncompressed, in one piece.
func (a *RecordAccumulator) records(b *ProducerBatch) ([]byte, error) {
	joined := make([]byte, 0, b.size)
	for _, s := range b.slabs[:b.at+1] {
		joined = append(joined, s...)
	}
	joined = joined[protocol.BatchHeaderSize:]
	if b.codec == protocol.CodecNone {
		return joined, nil
	}
	return a.cfg.Decompress(b.codec, joined, b.rawSize)
}
