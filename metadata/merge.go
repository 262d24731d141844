package metadata

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/kafka-reservoir/producer/internal/mutants"
	"github.com/kafka-reservoir/producer/protocol"
)

// reliableEpochs is the first version of Metadata whose leader epochs can be trusted: before, a broker that
// had just restarted could tell old ones.
const reliableEpochs = 9

// agreement is how many answers in a row make us believe what contradicts what we know: that a topic is
// gone, or that a leader epoch went back although the topic's id did not change. One answer is not enough,
// since a broker that lags behind gives it too (KIP-951 and KAFKA-12257 are about such brokers).
const agreement = 5

// seenEpoch is the newest leader epoch of a partition that was heard of. It outlives the topic's
// presence in the view.
type seenEpoch struct {
	epoch int32 // -1: none
	older int   // answers in a row with an older one
}

// errNoBrokers: an answer that names no brokers comes from one that is starting up.
var errNoBrokers = errors.New("the metadata answer lists no brokers")

// HandleResponse takes the answer to the request, which was sent in this version. Of resp it keeps
// strings and lists of nodes, which have memory of their own, and nothing else: topics in place are bytes of the
// connection's buffer, which the next answer overwrites. An error means that the answer was of no use; that is noted already.
func (m *Metadata) HandleResponse(version int16, resp *protocol.MetadataResponse, now time.Time) error {
	m.expire(now)
	m.mu.Lock()
	if m.closed {
		m.mu.Unlock()
		return ErrClosed
	}
	nodes := nodesOf(resp, m.snap.Load().nodes)
	err := resp.ErrorCode.Err()
	if err == nil && len(nodes) == 0 {
		err = errNoBrokers
	}
	if err == nil && m.pinned {
		err = m.checkClusterLocked(deref(resp.ClusterID))
	}
	if err == nil {
		if err = m.contradictionLocked(resp); err != nil {
			m.schedule.needFull = true // in an answer about all topics, none can be at odds with one that it leaves out
		}
	}
	if err != nil {
		m.failedLocked(err, now)
		m.mu.Unlock()
		return err
	}
	m.viewedLocked(deref(resp.ClusterID))
	old := m.snap.Load()
	mg := merge{m: m, version: version, old: old, now: now}
	next := mg.run(resp, nodes)
	m.unraised, m.lastErr = nil, nil
	m.schedule.succeeded(now, m.asked.full, mg.progress)
	m.schedule.needFull = m.schedule.needFull || mg.again
	m.asked = request{}
	m.onBoot = false
	m.publishLocked(next)
	m.dropRefusalsLocked(now)
	m.mu.Unlock()

	if next.clusterID != old.clusterID {
		m.log.Info("metadata: cluster id", "cluster_id", next.clusterID, "before", old.clusterID)
	}
	for _, t := range mg.complaints {
		m.log.Warn("metadata: topic", "topic", t.topic, "err", t.code)
	}
	if m.cfg.OnUpdate != nil {
		m.cfg.OnUpdate(next)
	}
	return nil
}

// contradictionLocked looks for a topic that the answer has twice, and for an id that two topics have: ids are never used again, and a topic cannot be
// renamed. Since ids, not names, are what records are sent under, one damaged letter of a name would put them into another topic.
func (m *Metadata) contradictionLocked(resp *protocol.MetadataResponse) error {
	ids := make(map[string]protocol.UUID, len(m.interest))
	names := make(map[protocol.UUID]string, len(m.interest))
	for rt := range resp.AllTopics() {
		name := deref(rt.Name)
		if m.interest[name] == nil {
			continue
		}
		if _, twice := ids[name]; twice {
			return fmt.Errorf("the metadata answer has topic %s twice", name)
		}
		ids[name] = rt.TopicID
		if rt.TopicID.IsZero() {
			continue
		}
		if other, twice := names[rt.TopicID]; twice {
			return fmt.Errorf("the metadata answer gives the topics %s and %s the same id, %x", other, name, rt.TopicID)
		}
		names[rt.TopicID] = name
	}
	for name, in := range m.interest {
		if _, answered := ids[name]; answered || in.id.IsZero() {
			continue
		}
		if other, taken := names[in.id]; taken {
			return fmt.Errorf("the metadata answer gives topic %s the id of %s, %x", other, name, in.id)
		}
	}
	return nil
}

// nodesOf returns the brokers of an answer by id; old itself if they are the same.
func nodesOf(resp *protocol.MetadataResponse, old []protocol.Node) []protocol.Node {
	nodes := make([]protocol.Node, 0, len(resp.Brokers))
	for i := range resp.Brokers {
		if mutants.On(mutants.OldAddressKept) {
			if was, known := findNode(old, resp.Brokers[i].NodeID); known {
				nodes = append(nodes, was)
				continue
			}
		}
		if b := &resp.Brokers[i]; b.NodeID >= 0 {
			nodes = append(nodes, protocol.Node{ID: b.NodeID, Host: b.Host, Port: b.Port, Rack: deref(b.Rack)})
		}
	}
	return normalized(nodes, old)
}

// normalized sorts nodes and keeps the first of each id; it returns old if that says the same.
func normalized(nodes, old []protocol.Node) []protocol.Node {
	slices.SortStableFunc(nodes, func(a, b protocol.Node) int { return cmp.Compare(a.ID, b.ID) })
	nodes = slices.CompactFunc(nodes, func(a, b protocol.Node) bool { return a.ID == b.ID })
	if slices.Equal(nodes, old) {
		return old
	}
	return nodes
}

func deref(s *string) string {
	if s == nil {
		return ""
	}
	return *s
}

// dropRefusalsLocked forgets refusals that were not repeated.
func (m *Metadata) dropRefusalsLocked(now time.Time) {
	for topic, r := range m.refusals {
		if now.Sub(r.until) > refusalKept {
			delete(m.refusals, topic)
		}
	}
}

const (
	// refusalMin is how long a refusal is repeated without asking, at least.
	refusalMin = 100 * time.Millisecond
	// refusalKept is how long it is remembered afterwards, so that the pause can grow.
	refusalKept = 2 * time.Second
)

// merge is the making of one snapshot out of the one before and an answer. Metadata.mu is held.
type merge struct {
	m       *Metadata
	version int16
	old     *Snapshot
	now     time.Time

	progress   bool // the answer says something new and good
	again      bool // it does not say enough
	complaints []complaint
}

// complaint is a topic's error that was not there before.
type complaint struct {
	topic string
	code  protocol.ErrorCode
}

func (g *merge) run(resp *protocol.MetadataResponse, nodes []protocol.Node) *Snapshot {
	next := &Snapshot{clusterID: g.old.clusterID, nodes: nodes, topics: make(map[string]*Topic, len(g.m.interest))}
	if resp.ClusterID != nil {
		next.clusterID = *resp.ClusterID
	}
	if next.clusterID != g.old.clusterID {
		// Another cluster counts anew. (The first answer meets nothing that could be reset.)
		for _, in := range g.m.interest {
			in.seen = nil
		}
	}
	g.progress = !slices.Equal(nodes, g.old.nodes)
	for rt := range resp.AllTopics() {
		in := g.m.interest[deref(rt.Name)]
		if in == nil {
			continue // not asked for, or forgotten meanwhile
		}
		g.m.answeredLocked(in)
		before := g.old.topics[in.name]
		t := g.topic(in, rt, before)
		if t == nil {
			continue
		}
		t = t.resolve(nodes, g.m.cfg.Rack)
		if before != nil && before.equal(t) {
			t = before
		} else if t.Err == protocol.None {
			g.progress = true
		}
		next.topics[in.name] = t
	}
	for name, in := range g.m.interest {
		// What the answer does not mention stays as it was.
		if t := g.old.topics[name]; t != nil && next.topics[name] == nil && t.use == in.use {
			next.topics[name] = t.resolve(nodes, g.m.cfg.Rack)
		}
	}
	return next
}

// topic is what the answer makes of a topic; nil when the view shall not have it.
func (g *merge) topic(in *interest, rt *protocol.MetadataResponseTopic, before *Topic) *Topic {
	code := rt.ErrorCode
	if code != protocol.None && (before == nil || before.Err != code) {
		g.complaints = append(g.complaints, complaint{in.name, code})
	}
	switch code {
	case protocol.None:
		delete(g.m.refusals, in.name)
		in.misses = 0
		return g.partitions(in, rt, before)
	case protocol.InvalidTopicException:
		// Such a name never becomes right, so it is not asked for again unless somebody insists (FC-058).
		g.refuse(in.name, code)
		g.m.forgetLocked(in)
		return nil
	case protocol.TopicAuthorizationFailed:
		g.refuse(in.name, code)
		return &Topic{Name: in.name, Err: code, use: in.use}
	}
	if code.InvalidatesMetadata() {
		g.again = true
	}
	in.misses++
	if code != protocol.UnknownTopicOrPartition {
		in.misses = 0
	}
	t := &Topic{Name: in.name, Err: code, use: in.use}
	if before != nil && in.misses < agreement {
		// It may be that the broker does not know yet. Records go on to the leader we know, who knows for sure.
		t.ID, t.Internal, t.partitions = before.ID, before.Internal, before.partitions
	}
	return t
}

// refuse remembers that a broker will not describe the topic, for everybody who waits for it.
func (g *merge) refuse(topic string, code protocol.ErrorCode) {
	r := g.m.refusals[topic]
	if r.code != code {
		r = refusal{code: code}
	}
	r.version = g.old.version + 1
	r.until = g.now.Add(max(g.m.schedule.retry.Delay(r.count), refusalMin))
	r.count++
	g.m.refusals[topic] = r
}

// partitions is what the answer makes of a topic's partitions.
func (g *merge) partitions(in *interest, rt *protocol.MetadataResponseTopic, before *Topic) *Topic {
	// A topic with another id is another topic. An id that appears for the first time counts as
	// another one too: what was known before may have been of the topic's predecessor.
	reset := !rt.TopicID.IsZero() && rt.TopicID != in.id
	in.id = rt.TopicID
	if reset {
		in.seen = nil
	}
	t := &Topic{Name: in.name, ID: rt.TopicID, Internal: rt.IsInternal, use: in.use}
	// Indexes are dense in every Kafka so far. Gaps are put up with, as long as they do not cost more
	// memory than the answer did.
	limit := int32(min(2*rt.NumPartitions()+16, 1<<24))
	for rp := range rt.AllPartitions() {
		if rp.PartitionIndex < 0 || rp.PartitionIndex >= limit {
			continue
		}
		for int(rp.PartitionIndex) >= len(t.partitions) {
			t.partitions = append(t.partitions, absent)
		}
		var was *Partition
		if before != nil {
			was = before.Partition(rp.PartitionIndex)
		}
		if p, ok := g.partition(in, rp, was); ok {
			t.partitions[rp.PartitionIndex] = p
		}
		if rp.ErrorCode.InvalidatesMetadata() && !mutants.On(mutants.NoLeaderCached) {
			g.again = true
		}
	}
	return t
}

// partition decides between the answer about a partition and what was known of it, by the leader epochs;
// ok is false when neither can be used.
func (g *merge) partition(in *interest, rp *protocol.MetadataResponsePartition, was *Partition) (p Partition, ok bool) {
	p = Partition{
		Index: rp.PartitionIndex, Leader: max(rp.LeaderID, -1), LeaderEpoch: rp.LeaderEpoch, Err: rp.ErrorCode,
		Replicas: rp.ReplicaNodes, ISR: rp.IsrNodes, Offline: rp.OfflineReplicas,
	}
	seen := in.epochOf(p.Index)
	if g.version < reliableEpochs || p.LeaderEpoch < 0 {
		p.LeaderEpoch = -1
		*seen = seenEpoch{epoch: -1}
		return p, true
	}
	if p.LeaderEpoch >= seen.epoch || seen.older+1 >= agreement || mutants.On(mutants.OlderEpochAccepted) {
		*seen = seenEpoch{epoch: p.LeaderEpoch}
		return p, true
	}
	seen.older++
	if was == nil {
		return Partition{}, false
	}
	if was.LeaderEpoch < seen.epoch {
		g.again = true // we know that there is a newer leader, and neither the answer nor we know who
	}
	return *was, true
}

// epochOf returns the entry of a partition.
func (in *interest) epochOf(partition int32) *seenEpoch {
	for int(partition) >= len(in.seen) {
		in.seen = append(in.seen, seenEpoch{epoch: -1})
	}
	return &in.seen[partition]
}

// LeaderHint is what a broker that does not lead a partition says about who does (KIP-951).
type LeaderHint struct {
	Topic       string
	Partition   int32
	LeaderID    int32
	LeaderEpoch int32
}

// UpdateLeaders takes leader hints, and the nodes that came with them, into the view, without asking
// anybody. It returns the partitions whose leader changed. Hints that are not newer than what is known
// are passed over; one that names a node nobody knows makes an update needed. It belongs to the sender's
// goroutine.
func (m *Metadata) UpdateLeaders(hints []LeaderHint, nodes []protocol.Node) []protocol.TopicPartition {
	m.mu.Lock()
	defer m.mu.Unlock()
	old := m.snap.Load()
	if m.closed || m.onBoot {
		return nil
	}
	known := slices.DeleteFunc(slices.Clone(nodes), func(n protocol.Node) bool { return n.ID < 0 })
	known = normalized(append(known, old.nodes...), old.nodes) // the hint's address wins

	var changed []protocol.TopicPartition
	edited := make(map[string]*Topic)
	for _, h := range hints {
		if !m.isNewsLocked(old, h, known) {
			continue
		}
		t := edited[h.Topic]
		if t == nil {
			c := *old.topics[h.Topic]
			t = &c
			t.partitions = slices.Clone(t.partitions)
			edited[h.Topic] = t
		}
		p := &t.partitions[h.Partition]
		if p.LeaderEpoch >= h.LeaderEpoch {
			continue // the same partition, twice
		}
		p.Leader, p.LeaderEpoch, p.Err = h.LeaderID, h.LeaderEpoch, protocol.None
		changed = append(changed, protocol.TopicPartition{Topic: h.Topic, Partition: h.Partition})
	}
	if len(changed) == 0 {
		return nil
	}
	next := &Snapshot{clusterID: old.clusterID, nodes: known, topics: make(map[string]*Topic, len(old.topics))}
	for name, t := range old.topics {
		if e := edited[name]; e != nil {
			t = e
		}
		next.topics[name] = t.resolve(known, m.cfg.Rack)
	}
	m.publishLocked(next)
	return changed
}

// isNewsLocked reports whether a hint shall be applied, and notes its epoch.
func (m *Metadata) isNewsLocked(old *Snapshot, h LeaderHint, nodes []protocol.Node) bool {
	in, t := m.interest[h.Topic], old.topics[h.Topic]
	if in == nil || t == nil || h.LeaderID < 0 || h.LeaderEpoch < 0 {
		return false
	}
	p := t.Partition(h.Partition)
	if p == nil || p.LeaderEpoch < 0 || h.LeaderEpoch <= p.LeaderEpoch {
		return false
	}
	seen := in.epochOf(h.Partition)
	if h.LeaderEpoch < seen.epoch {
		return false
	}
	*seen = seenEpoch{epoch: h.LeaderEpoch}
	if _, ok := findNode(nodes, h.LeaderID); !ok {
		m.schedule.needFull = true
		return false
	}
	return true
}
