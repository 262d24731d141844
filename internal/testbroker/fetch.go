package testbroker

import (
	"slices"
	"time"

	"github.com/kafka-reservoir/producer/protocol"
)

// pendingFetch is a fetch that waits until there is enough to answer it with, or its time is over.
type pendingFetch struct {
	conn       *conn
	job        *job
	body       *protocol.FetchRequest
	partitions []*partition
	woken      bool // an event to answer it is on its way
}

// fetchLocked answers a fetch, or parks it: then it returns nil and the connection has it.
func (c *Cluster) fetchLocked(k *conn, j *job, b *protocol.FetchRequest) protocol.Message {
	enough, partitions := c.fetchableLocked(k, j, b)
	if enough || b.MaxWaitMs <= 0 {
		return c.fetchResponseLocked(k, j, b)
	}
	f := &pendingFetch{conn: k, job: j, body: b, partitions: partitions}
	k.parked = f
	for _, p := range partitions {
		p.fetches = append(p.fetches, f)
	}
	c.due.push(event{at: c.now.Add(time.Duration(b.MaxWaitMs) * time.Millisecond), kind: eventFetch, fetch: f})
	return nil
}

// fetchableLocked reports whether there is enough for an answer: MinBytes, or any error; and the partitions to
// wait for else.
func (c *Cluster) fetchableLocked(k *conn, j *job, b *protocol.FetchRequest) (bool, []*partition) {
	if j.verdict.Code != protocol.None {
		return true, nil
	}
	var partitions []*partition
	size := 0
	for i := range b.Topics {
		for n := range b.Topics[i].Partitions {
			ask := &b.Topics[i].Partitions[n]
			p, code := c.readableLocked(k, j, &b.Topics[i], ask)
			if code != protocol.None {
				return true, nil
			}
			size += p.log.sizeFrom(ask.FetchOffset, int(ask.PartitionMaxBytes))
			partitions = append(partitions, p)
		}
	}
	return size >= int(b.MinBytes), partitions
}

// wakeFetchesLocked has the fetches that wait for p look again. They are answered by an event, not from here: the
// caller may be in the middle of something.
func (c *Cluster) wakeFetchesLocked(p *partition) {
	for _, f := range p.fetches {
		if f.woken {
			continue
		}
		if enough, _ := c.fetchableLocked(f.conn, f.job, f.body); enough {
			f.woken = true
			c.due.push(event{at: c.now, kind: eventFetch, fetch: f})
		}
	}
}

// unparkLocked takes a fetch off its connection and partitions.
func (c *Cluster) unparkLocked(f *pendingFetch) {
	f.conn.parked = nil
	for _, p := range f.partitions {
		p.fetches = slices.DeleteFunc(p.fetches, func(o *pendingFetch) bool { return o == f })
	}
}

// finishFetchLocked answers a parked fetch, if it still is.
func (c *Cluster) finishFetchLocked(f *pendingFetch) {
	k := f.conn
	if k.parked != f {
		return
	}
	c.unparkLocked(f)
	k.running = true
	c.answerLocked(k, f.job, c.fetchResponseLocked(k, f.job, f.body))
	k.running = false
	c.serveLocked(k)
}

// readableLocked is the partition to fetch from, or why that cannot be.
func (c *Cluster) readableLocked(k *conn, j *job, t *protocol.FetchRequestTopic, ask *protocol.FetchRequestPartition) (*partition, protocol.ErrorCode) {
	name := t.Topic
	if j.req.Version >= 13 {
		top := c.byID[t.TopicID]
		if top == nil {
			return nil, protocol.UnknownTopicID
		}
		name = top.name
	}
	p, code := c.ledLocked(k, name, ask.Partition, ask.CurrentLeaderEpoch)
	if code == protocol.None && (ask.FetchOffset < p.log.start || ask.FetchOffset > p.log.end) {
		code = protocol.OffsetOutOfRange
	}
	return p, code
}

// ledLocked is a partition that the connection's node leads in the epoch that the client knows.
func (c *Cluster) ledLocked(k *conn, topic string, index, epoch int32) (*partition, protocol.ErrorCode) {
	if code := c.topicErrors[topic]; code != protocol.None {
		return nil, code
	}
	p, err := c.partitionLocked(topic, index)
	switch {
	case err != nil:
		return nil, protocol.UnknownTopicOrPartition
	case epoch >= 0 && epoch < p.epoch:
		return p, protocol.FencedLeaderEpoch
	case epoch > p.epoch:
		return p, protocol.UnknownLeaderEpoch
	case p.leader != k.node.id:
		return p, protocol.NotLeaderOrFollower
	}
	return p, protocol.None
}

func (c *Cluster) fetchResponseLocked(k *conn, j *job, b *protocol.FetchRequest) protocol.Message {
	r := &protocol.FetchResponse{Topics: make([]protocol.FetchResponseTopic, len(b.Topics))}
	room := int(b.MaxBytes)
	empty := true
	for i := range b.Topics {
		t := &b.Topics[i]
		r.Topics[i] = protocol.FetchResponseTopic{
			Topic: t.Topic, TopicID: t.TopicID,
			Partitions: make([]protocol.FetchResponsePartition, len(t.Partitions)),
		}
		for n := range t.Partitions {
			ask := &t.Partitions[n]
			p, code := c.readableLocked(k, j, t, ask)
			if j.verdict.Code != protocol.None {
				code = j.verdict.Code
			}
			out := &r.Topics[i].Partitions[n]
			*out = protocol.FetchResponsePartition{
				PartitionIndex: ask.Partition, ErrorCode: code,
				HighWatermark: -1, LastStableOffset: -1, LogStartOffset: -1,
				DivergingEpoch: protocol.NoEpochEndOffset, CurrentLeader: protocol.NoLeader, SnapshotID: protocol.NoEpochEndOffset,
				PreferredReadReplica: -1,
				Records:              []byte{},
			}
			if p != nil && p.leader == k.node.id {
				out.HighWatermark, out.LastStableOffset, out.LogStartOffset = p.log.end, p.log.end, p.log.start
			} else if p != nil && p.leader != NoLeader && j.req.Version >= 12 {
				out.CurrentLeader = protocol.LeaderIDAndEpoch{LeaderID: p.leader, LeaderEpoch: p.epoch}
			}
			if code == protocol.None {
				// The first batch goes out whatever the limits are, or a consumer could not get past it.
				out.Records = p.log.read(nil, ask.FetchOffset, min(int(ask.PartitionMaxBytes), room), empty)
				room = max(room-len(out.Records), 0)
				empty = empty && len(out.Records) == 0
				if out.Records == nil {
					out.Records = []byte{}
				}
			}
		}
	}
	return r
}

func (c *Cluster) listOffsetsLocked(k *conn, j *job, b *protocol.ListOffsetsRequest) protocol.Message {
	r := &protocol.ListOffsetsResponse{Topics: make([]protocol.ListOffsetsResponseTopic, len(b.Topics))}
	for i := range b.Topics {
		t := &b.Topics[i]
		r.Topics[i] = protocol.ListOffsetsResponseTopic{
			Name: t.Name, Partitions: make([]protocol.ListOffsetsResponsePartition, len(t.Partitions)),
		}
		for n := range t.Partitions {
			ask := &t.Partitions[n]
			out := &r.Topics[i].Partitions[n]
			*out = protocol.ListOffsetsResponsePartition{PartitionIndex: ask.PartitionIndex, Timestamp: -1, Offset: -1, LeaderEpoch: -1}
			p, code := c.ledLocked(k, t.Name, ask.PartitionIndex, ask.CurrentLeaderEpoch)
			if p != nil && p.readyAt.After(c.now) {
				code = protocol.NotLeaderOrFollower
			}
			if j.verdict.Code != protocol.None {
				code = j.verdict.Code
			}
			if out.ErrorCode = code; code != protocol.None {
				continue
			}
			out.Offset, out.Timestamp = p.log.lookup(ask.Timestamp)
			if out.Offset >= 0 {
				out.LeaderEpoch = p.epoch
			}
		}
	}
	return r
}

// lookup is what ListOffsets answers: the offset and timestamp for one of its special timestamps, or of the first
// record that is not older; -1, -1 when there is none.
func (l *partitionLog) lookup(timestamp int64) (offset, found int64) {
	switch timestamp {
	case protocol.LatestTimestamp:
		return l.end, -1
	case protocol.EarliestTimestamp, protocol.EarliestLocalTimestamp:
		return l.start, -1
	case protocol.LatestTieredTimestamp, protocol.EarliestPendingTimestamp:
		return -1, -1
	}
	best := int64(-1)
	for i := range l.batches {
		b := &l.batches[i]
		if timestamp == protocol.MaxTimestamp {
			best = max(best, b.maxTimestamp)
			continue
		}
		if b.maxTimestamp >= timestamp {
			if offset, found = l.firstAtOrAfter(b, timestamp); offset >= 0 {
				return offset, found
			}
		}
	}
	if best < 0 {
		return -1, -1
	}
	return l.lookup(best)
}

func (l *partitionLog) firstAtOrAfter(b *storedBatch, timestamp int64) (offset, found int64) {
	records, err := decodeBatch(nil, b, l.start)
	if err != nil {
		return -1, -1 // cannot be: the batch was checked when it came
	}
	for i := range records {
		if records[i].Timestamp >= timestamp {
			return records[i].Offset, records[i].Timestamp
		}
	}
	return -1, -1
}
