package testbroker

import (
	"fmt"
	"slices"

	"github.com/kafka-reservoir/producer/protocol"
)

// change runs f, which changes what metadata tells, under the lock.
func (c *Cluster) change(f func() error) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.live = nil
	return f()
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

// UncleanElection makes node the leader although it lacks the last lost records, which are gone, with the producer
// state they made.
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
