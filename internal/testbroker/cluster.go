package testbroker

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/fnv"
	"slices"
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
	deleted  bool
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

// SetAddr sets the address under which a node is found in metadata from now on.
func (c *Cluster) SetAddr(node int32, host string, port int32) error {
	return c.change(func() error {
		n, err := c.nodeLocked(node)
		if err != nil {
			return err
		}
		n.host, n.port = host, port
		c.noteLocked(node, "is at %s:%d", host, port)
		return nil
	})
}

// SetGeneration changes a node's version, as an upgrade does. Connections that are open keep what they negotiated.
func (c *Cluster) SetGeneration(node int32, g *Generation) error {
	return c.change(func() error {
		n, err := c.nodeLocked(node)
		if err != nil {
			return err
		}
		n.generation = g
		return nil
	})
}

// CreateTopic creates a topic at once.
func (c *Cluster) CreateTopic(t Topic) error {
	return c.change(func() error { return c.createTopicLocked(t) })
}

// DeleteTopic deletes a topic with its records and producer state. Created again, it has another id.
func (c *Cluster) DeleteTopic(name string) error {
	return c.change(func() error {
		t := c.byName[name]
		if t == nil {
			return fmt.Errorf("%w: %s", ErrNoTopic, name)
		}
		delete(c.byName, name)
		delete(c.byID, t.id)
		c.topics = slices.DeleteFunc(c.topics, func(o *topic) bool { return o == t })
		for _, p := range t.partitions {
			p.deleted = true
			c.wakeFetchesLocked(p)
		}
		c.noteLocked(0, "topic %s deleted", name)
		return nil
	})
}

// RecreateTopic deletes a topic and creates it again under a new id, with leader epoch 0.
func (c *Cluster) RecreateTopic(t Topic) error {
	if err := c.DeleteTopic(t.Name); err != nil {
		return err
	}
	return c.CreateTopic(t)
}

// AddPartitions raises the partition count of a topic to count.
func (c *Cluster) AddPartitions(name string, count int) error {
	return c.change(func() error {
		t := c.byName[name]
		if t == nil {
			return fmt.Errorf("%w: %s", ErrNoTopic, name)
		}
		for i := len(t.partitions); i < count; i++ {
			c.addPartitionLocked(t, c.spreadLocked(i))
		}
		c.noteLocked(0, "topic %s has %d partitions", name, count)
		return nil
	})
}

// SetTopicError has Metadata and Produce answer code for a topic, whether it exists or not (for instance
// TopicAuthorizationFailed); protocol.None ends that.
func (c *Cluster) SetTopicError(name string, code protocol.ErrorCode) {
	_ = c.change(func() error {
		if code == protocol.None {
			delete(c.topicErrors, name)
		} else {
			c.topicErrors[name] = code
		}
		return nil
	})
}

// MoveLeader makes node the leader of a partition, with the next leader epoch; NoLeader leaves it without one.
// Records move along, and so does producer state, except as the node's LogModel says.
func (c *Cluster) MoveLeader(topic string, partition, node int32) error {
	return c.change(func() error {
		p, err := c.partitionLocked(topic, partition)
		if err != nil {
			return err
		}
		if node != NoLeader {
			if _, err := c.nodeLocked(node); err != nil {
				return err
			}
		}
		c.becomeLeaderLocked(p, node)
		return nil
	})
}

// UncleanElection makes node the leader although it lacks the last lost records, which are gone, with the producer state they made.
func (c *Cluster) UncleanElection(topic string, partition, node int32, lost int64) error {
	return c.change(func() error {
		p, err := c.partitionLocked(topic, partition)
		if err != nil {
			return err
		}
		if _, err := c.nodeLocked(node); err != nil {
			return err
		}
		p.log.truncateTo(max(p.log.end-lost, p.log.start))
		c.becomeLeaderLocked(p, node)
		return nil
	})
}

// NodeDown takes a node away: its connections are closed, it leaves the metadata, and its partitions get another
// leader among their replicas that are up, or none.
func (c *Cluster) NodeDown(node int32) error {
	return c.change(func() error {
		n, err := c.nodeLocked(node)
		if err != nil || !n.up {
			return err
		}
		n.up = false
		c.noteLocked(node, "down")
		for _, k := range c.connsLocked() {
			if k.node == n {
				c.dropLocked(k, DropFIN)
			}
		}
		for _, t := range c.topics {
			for _, p := range t.partitions {
				if p.leader == node {
					c.becomeLeaderLocked(p, c.electLocked(p))
				}
			}
		}
		return nil
	})
}

// NodeUp brings a node back. It becomes the leader of those of its partitions that have none.
func (c *Cluster) NodeUp(node int32) error {
	return c.change(func() error {
		n, err := c.nodeLocked(node)
		if err != nil || n.up {
			return err
		}
		n.up = true
		c.noteLocked(node, "up")
		for _, t := range c.topics {
			for _, p := range t.partitions {
				if p.leader == NoLeader && slices.Contains(p.replicas, node) {
					c.becomeLeaderLocked(p, node)
				}
			}
		}
		return nil
	})
}

// closeConns ends the connections of a node, or of all nodes for 0.
func (c *Cluster) closeConns(node int32, how Drop) {
	_ = c.change(func() error {
		for _, k := range c.connsLocked() {
			if node == 0 || k.node.id == node {
				c.dropLocked(k, how)
			}
		}
		return nil
	})
}

// FreezeMetadata has a node go on answering Metadata with what is true now, until ThawMetadata.
func (c *Cluster) FreezeMetadata(node int32) error {
	return c.change(func() error {
		n, err := c.nodeLocked(node)
		if err != nil {
			return err
		}
		n.frozen = c.viewLocked()
		return nil
	})
}

// ThawMetadata ends FreezeMetadata.
func (c *Cluster) ThawMetadata(node int32) error {
	return c.change(func() error {
		n, err := c.nodeLocked(node)
		if err != nil {
			return err
		}
		n.frozen = nil
		return nil
	})
}

// ExpireProducers forgets the producer state of a partition, as brokers do after transactional.id.expiration.ms or
// when retention removed all of a producer's records.
func (c *Cluster) ExpireProducers(topic string, partition int32) error {
	return c.change(func() error {
		p, err := c.partitionLocked(topic, partition)
		if err != nil {
			return err
		}
		p.log.producers.expire()
		c.noteLocked(p.leader, "producers of %s-%d expired", topic, partition)
		return nil
	})
}

// PrimeProducer gives a partition the state of a producer whose next sequence is next.
func (c *Cluster) PrimeProducer(topic string, partition int32, id protocol.ProducerID, next int32) error {
	return c.change(func() error {
		p, err := c.partitionLocked(topic, partition)
		if err != nil {
			return err
		}
		p.log.producers.prime(id, next)
		return nil
	})
}

// DeleteRecords moves the log start offset of a partition up, as DeleteRecords and retention do.
func (c *Cluster) DeleteRecords(topic string, partition int32, before int64) error {
	return c.change(func() error {
		p, err := c.partitionLocked(topic, partition)
		if err != nil {
			return err
		}
		p.log.deleteBefore(before)
		return nil
	})
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

// change runs f, which changes what metadata tells, under the lock.
func (c *Cluster) change(f func() error) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.live = nil
	return f()
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

// electLocked is the first replica that is up, NoLeader if none is.
func (c *Cluster) electLocked(p *partition) int32 {
	for _, id := range p.replicas {
		if c.nodes[id-1].up {
			return id
		}
	}
	return NoLeader
}

// becomeLeaderLocked is the only place where a leader changes.
func (c *Cluster) becomeLeaderLocked(p *partition, node int32) {
	p.epoch++
	moved := p.leader != node
	p.leader = node
	p.readyAt = c.now.Add(c.cfg.LeaderDelay)
	if node != NoLeader {
		if !slices.Contains(p.replicas, node) {
			p.replicas = append(p.replicas, node)
		}
		if moved && c.nodes[node-1].model != Strict {
			p.log.producers.clear()
		}
	}
	c.live = nil
	c.noteLocked(node, "leads %s-%d, epoch %d", p.topic.name, p.index, p.epoch)
	c.wakeFetchesLocked(p)
}
