package testbroker

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/fnv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/kafka-reservoir/producer/protocol"
)

// Errors of the methods that change a cluster.
var (
	ErrNoTopic     = errors.New("testbroker: no such topic")
	ErrNoPartition = errors.New("testbroker: no such partition")
	ErrNoNode      = errors.New("testbroker: no such node")
	ErrTopicExists = errors.New("testbroker: topic exists")
)

// NoLeader is the node to move a leader to so that a partition has none.
const NoLeader int32 = -1

// Cluster is a Kafka cluster without network and clock. See the package comment.
type Cluster struct {
	cfg Config // complete and never changed after NewCluster

	hookMu sync.Mutex // held during calls of hooks, so that these need no lock; taken before mu
	fault  atomic.Pointer[func(*Request) Verdict]

	decodings sync.Pool // see batch.go

	mu          sync.Mutex // guards everything below
	now         time.Time  // the latest time given to Handle or Tick
	nodes       []*node    // node id i is at i-1
	topics      []*topic   // in order of creation
	byName      map[string]*topic
	byID        map[protocol.UUID]*topic
	created     int // topics created so far, deleted ones included
	live        *view
	nextPID     int64
	txnPIDs     map[string]protocol.ProducerID
	conns       map[ConnID]*conn
	requests    int64
	due         dueQueue
	actions     []Action // being collected by the running call
	journal     journal
	violations  []*Violation
	topicErrors map[string]protocol.ErrorCode

	// sink takes the actions instead of the caller of Handle, Open and Tick. It is called under the lock and must
	// do no more than queue them. The server sets it before it starts.
	sink func(Action)
}

type node struct {
	id         int32
	host       string
	port       int32
	up         bool
	generation *Generation
	model      LogModel
	frozen     *view // what it answers to Metadata while it is stale; nil when it is not
}

type topic struct {
	name            string
	id              protocol.UUID
	maxMessageBytes int
	logAppendTime   bool
	partitions      []*partition
}

type partition struct {
	topic    *topic
	index    int32
	leader   int32 // NoLeader when there is none
	epoch    int32
	replicas []int32
	readyAt  time.Time // the leader refuses records before that
	log      *partitionLog
	seen     *seenBatches
	fetches  []*pendingFetch // parked fetches that wait for records here
}

// NewCluster builds a cluster with all nodes up. Node addresses are those of a fictitious host until SetAddr.
func NewCluster(cfg Config) *Cluster {
	cfg = cfg.withDefaults()
	c := &Cluster{
		cfg:         cfg,
		byName:      make(map[string]*topic),
		byID:        make(map[protocol.UUID]*topic),
		txnPIDs:     make(map[string]protocol.ProducerID),
		conns:       make(map[ConnID]*conn),
		topicErrors: make(map[string]protocol.ErrorCode),
		nextPID:     cfg.FirstProducerID,
	}
	c.SetFault(cfg.Fault)
	c.journal.limit = cfg.JournalLimit
	for id := int32(1); id <= int32(cfg.Nodes); id++ {
		n := &node{id: id, host: fmt.Sprintf("node%d.test", id), port: 9092, up: true, generation: cfg.Generation, model: cfg.Model}
		if g := cfg.NodeGenerations[id]; g != nil {
			n.generation = g
		}
		if m, ok := cfg.NodeModels[id]; ok {
			n.model = m
		}
		c.nodes = append(c.nodes, n)
	}
	for _, t := range cfg.Topics {
		if err := c.createTopicLocked(t); err != nil {
			panic(err) // two topics of one name in a Config: a mistake in the test
		}
	}
	return c
}

// SetFault replaces Config.Fault; nil lets all requests through.
func (c *Cluster) SetFault(fault func(*Request) Verdict) {
	if fault == nil {
		c.fault.Store(nil)
		return
	}
	c.fault.Store(&fault)
}

// NodeIDs are the ids of all nodes, up or down.
func (c *Cluster) NodeIDs() []int32 {
	ids := make([]int32, len(c.nodes))
	for i, n := range c.nodes {
		ids[i] = n.id
	}
	return ids
}

// Leader is the leader and leader epoch of a partition; NoLeader if it has none.
func (c *Cluster) Leader(topic string, partition int32) (node, epoch int32) {
	c.mu.Lock()
	defer c.mu.Unlock()
	p, err := c.partitionLocked(topic, partition)
	if err != nil {
		return NoLeader, -1
	}
	return p.leader, p.epoch
}

// TopicID is the id of a topic, zero if there is no such topic.
func (c *Cluster) TopicID(name string) protocol.UUID {
	c.mu.Lock()
	defer c.mu.Unlock()
	if t := c.byName[name]; t != nil {
		return t.id
	}
	return protocol.UUID{}
}

// Partitions is the partition count of a topic, 0 if there is no such topic.
func (c *Cluster) Partitions(name string) int {
	c.mu.Lock()
	defer c.mu.Unlock()
	if t := c.byName[name]; t != nil {
		return len(t.partitions)
	}
	return 0
}

// TopicNames are the names of all topics, in order of creation.
func (c *Cluster) TopicNames() []string {
	c.mu.Lock()
	defer c.mu.Unlock()
	names := make([]string, len(c.topics))
	for i, t := range c.topics {
		names[i] = t.name
	}
	return names
}

func (c *Cluster) nodeLocked(id int32) (*node, error) {
	if id < 1 || int(id) > len(c.nodes) {
		return nil, fmt.Errorf("%w: %d", ErrNoNode, id)
	}
	return c.nodes[id-1], nil
}

func (c *Cluster) partitionLocked(topic string, partition int32) (*partition, error) {
	t := c.byName[topic]
	if t == nil {
		return nil, fmt.Errorf("%w: %s", ErrNoTopic, topic)
	}
	if partition < 0 || int(partition) >= len(t.partitions) {
		return nil, fmt.Errorf("%w: %s-%d", ErrNoPartition, topic, partition)
	}
	return t.partitions[partition], nil
}

func (c *Cluster) createTopicLocked(spec Topic) error {
	if c.byName[spec.Name] != nil {
		return fmt.Errorf("%w: %s", ErrTopicExists, spec.Name)
	}
	count := spec.Partitions
	if count == 0 {
		count = max(c.cfg.Partitions, len(spec.Leaders))
	}
	c.created++
	t := &topic{
		name:            spec.Name,
		id:              topicID(c.cfg.ClusterID, spec.Name, c.created),
		maxMessageBytes: spec.MaxMessageBytes,
		logAppendTime:   spec.LogAppendTime,
	}
	for i := range count {
		leader := c.spreadLocked(i)
		if i < len(spec.Leaders) {
			leader = spec.Leaders[i]
		}
		c.addPartitionLocked(t, leader)
	}
	c.topics = append(c.topics, t)
	c.byName[t.name] = t
	c.byID[t.id] = t
	c.live = nil
	c.noteLocked(0, "topic %s created with %d partitions, id %x", t.name, count, t.id)
	return nil
}

// topicID makes an id that depends on nothing but its arguments.
func topicID(cluster, name string, n int) protocol.UUID {
	h := fnv.New128a()
	fmt.Fprintf(h, "%s/%s/%d", cluster, name, n)
	var id protocol.UUID
	copy(id[:], h.Sum(nil))
	binary.BigEndian.PutUint16(id[6:], 0x4000|binary.BigEndian.Uint16(id[6:])&0x0fff) // version 4
	id[8] = 0x80 | id[8]&0x3f
	return id
}

// spreadLocked is the node that leads partition i of a new topic: those that are up, in turn.
func (c *Cluster) spreadLocked(i int) int32 {
	for off := range c.nodes {
		if n := c.nodes[(i+off)%len(c.nodes)]; n.up {
			return n.id
		}
	}
	return NoLeader
}

func (c *Cluster) addPartitionLocked(t *topic, leader int32) {
	p := &partition{
		topic:   t,
		index:   int32(len(t.partitions)),
		leader:  leader,
		readyAt: c.now.Add(c.cfg.LeaderDelay),
		log:     newPartitionLog(c.cfg.RetentionBytes, c.cfg.DiscardRecords),
		seen:    newSeenBatches(),
	}
	first := int(max(leader, 1)) - 1
	for i := range c.cfg.Replicas {
		p.replicas = append(p.replicas, c.nodes[(first+i)%len(c.nodes)].id)
	}
	t.partitions = append(t.partitions, p)
}
