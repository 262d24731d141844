package metadata

import (
	"cmp"
	"slices"
	"sync/atomic"
	"time"

	"github.com/kafka-reservoir/producer/protocol"
)

// Snapshot is one view of the cluster. It never changes, so whoever holds one sees nodes and leaders
// that belong together.
type Snapshot struct {
	version   int
	clusterID string
	nodes     []protocol.Node // by id
	topics    map[string]*Topic
	ids       map[protocol.UUID]*Topic
}

// Version grows with every change of the view; two snapshots of one version are the same.
func (s *Snapshot) Version() int { return s.version }

// ClusterID is the cluster's id, empty as long as no broker told it.
func (s *Snapshot) ClusterID() string { return s.clusterID }

// Topic returns what is known of a topic, or nil.
func (s *Snapshot) Topic(name string) *Topic { return s.topics[name] }

// TopicByID returns the topic that had this id when the snapshot was made, or nil.
func (s *Snapshot) TopicByID(id protocol.UUID) *Topic { return s.ids[id] }

// Nodes lists the brokers by id. Before the first answer these are the bootstrap addresses under negative ids; after
// a rebootstrap they are in front of brokers known before. The slice must not be changed.
func (s *Snapshot) Nodes() []protocol.Node { return s.nodes }

// Node returns a broker by its id.
func (s *Snapshot) Node(id int32) (protocol.Node, bool) { return findNode(s.nodes, id) }

func findNode(nodes []protocol.Node, id int32) (protocol.Node, bool) {
	i, ok := slices.BinarySearchFunc(nodes, id, func(n protocol.Node, id int32) int { return cmp.Compare(n.ID, id) })
	if !ok {
		return protocol.Node{}, false
	}
	return nodes[i], true
}

// index fills ids from topics.
func (s *Snapshot) index() {
	s.ids = make(map[protocol.UUID]*Topic, len(s.topics))
	for _, t := range s.topics {
		if !t.ID.IsZero() {
			s.ids[t.ID] = t
		}
	}
}

// Topic is one topic of a [Snapshot]. It is a partitioner.Partitions. Except for Touch it never changes.
type Topic struct {
	Name string
	// ID is the topic's id, zero when the broker that answered does not know of ids.
	ID protocol.UUID
	// Err is the error of the last answer about this topic. Where it is one that passes, what was known
	// before is kept beside it.
	Err      protocol.ErrorCode
	Internal bool

	partitions []Partition // by index
	leaders    []int32     // by index: the leader if it is a known node, otherwise -1
	available  []int32     // the partitions with a leader
	local      []int32     // those whose leader is in our rack; empty without Config.Rack
	use        *lastUse
}

// Partition is one partition of a [Topic].
type Partition struct {
	Index int32
	// Leader is the id that the answer named; -1 when there is none. Whether it is a known node is for
	// [Topic.Leader] to say.
	Leader int32
	// LeaderEpoch counts the partition's leaders; -1 when brokers do not tell it, or not reliably.
	LeaderEpoch int32
	Err         protocol.ErrorCode
	// Node ids. The slices must not be changed.
	Replicas, ISR, Offline []int32
}

// absent stands where the answer skipped a partition.
var absent = Partition{Index: -1, Leader: -1, LeaderEpoch: -1}

// Count is the number of partitions, those without a leader included.
func (t *Topic) Count() int { return len(t.partitions) }

// Available lists the partitions that have a leader which is a known node. It must not be changed.
func (t *Topic) Available() []int32 { return t.available }

// Local lists the partitions whose leader is in Config.Rack: none, where that is empty (KIP-1123). It must not be changed.
func (t *Topic) Local() []int32 { return t.local }

// Partition returns a partition, or nil when it is not known.
func (t *Topic) Partition(i int32) *Partition {
	if uint32(i) >= uint32(len(t.partitions)) || t.partitions[i].Index != i {
		return nil
	}
	return &t.partitions[i]
}

// Leader is the node that leads a partition, or -1 when it has no leader or that node is not known.
func (t *Topic) Leader(i int32) int32 {
	if uint32(i) < uint32(len(t.leaders)) {
		return t.leaders[i]
	}
	return -1
}

// LeaderEpoch is the epoch of a partition's leader, or -1.
func (t *Topic) LeaderEpoch(i int32) int32 {
	if uint32(i) < uint32(len(t.partitions)) {
		return t.partitions[i].LeaderEpoch
	}
	return -1
}

// Touch marks the topic as used at now, so that it stays in the interest set. It costs one atomic store.
func (t *Topic) Touch(now time.Time) { t.use.touch(now) }

// has reports whether records for a partition (negative: for any) can be placed. t may be nil.
func (t *Topic) has(partition int32) bool {
	return t != nil && len(t.partitions) > 0 && int(partition) < len(t.partitions)
}

// resolve returns t with its leaders looked up in nodes; t itself if nothing changes by that.
func (t *Topic) resolve(nodes []protocol.Node, rack string) *Topic {
	leaders := make([]int32, len(t.partitions))
	available := make([]int32, 0, len(t.partitions))
	var local []int32
	for i := range t.partitions {
		leaders[i] = -1
		if p := &t.partitions[i]; p.Leader >= 0 {
			if n, ok := findNode(nodes, p.Leader); ok {
				leaders[i] = p.Leader
				available = append(available, int32(i))
				if rack != "" && n.Rack == rack {
					local = append(local, int32(i))
				}
			}
		}
	}
	if t.leaders != nil && slices.Equal(t.leaders, leaders) && slices.Equal(t.local, local) {
		return t
	}
	c := *t
	c.leaders, c.available, c.local = leaders, available, local
	return &c
}

// equal reports whether two views of one topic say the same.
func (t *Topic) equal(o *Topic) bool {
	return t.ID == o.ID && t.Err == o.Err && t.Internal == o.Internal && t.use == o.use &&
		slices.Equal(t.leaders, o.leaders) && slices.Equal(t.local, o.local) && slices.EqualFunc(t.partitions, o.partitions, equalPartition)
}

func equalPartition(a, b Partition) bool {
	return a.Index == b.Index && a.Leader == b.Leader && a.LeaderEpoch == b.LeaderEpoch && a.Err == b.Err &&
		slices.Equal(a.Replicas, b.Replicas) && slices.Equal(a.ISR, b.ISR) && slices.Equal(a.Offline, b.Offline)
}

// lastUse is when a topic was last used. All snapshots share the one of their topic.
type lastUse struct {
	base time.Time    // constant
	at   atomic.Int64 // nanoseconds since base, on the monotonic clock
}

func (u *lastUse) touch(now time.Time) { u.at.Store(int64(now.Sub(u.base))) }
func (u *lastUse) idleFor(now time.Time) time.Duration {
	return now.Sub(u.base) - time.Duration(u.at.Load())
}
