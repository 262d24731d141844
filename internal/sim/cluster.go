package sim

import (
	"fmt"
	"slices"
	"time"

	"github.com/kafka-reservoir/producer/internal/testbroker"
	"github.com/kafka-reservoir/producer/protocol"
)

// startCluster plans what will go wrong in the cluster.
func (c *chaos) startCluster() {
	c.every(LeaderMove, 10*time.Second, time.Second, c.moveLeaders)
	c.every(LeaderFlap, 10*time.Second, 2*time.Second, c.flapLeaders)
	c.every(StaleMetadata, 10*time.Second, 3*time.Second, c.stale)
	c.every(Leaderless, 10*time.Second, 3*time.Second, c.leaderless)
	c.every(BrokerBounce, 10*time.Second, 3*time.Second, c.bounce)
	c.every(OtherAddress, 10*time.Second, 3*time.Second, c.relocate)
	c.every(OtherCluster, 10*time.Second, 3*time.Second, c.strangers)
	c.every(ReplaceAll, 15*time.Second, 6*time.Second, c.replaceAll)
	c.every(RestartAll, 15*time.Second, 5*time.Second, c.restartAll)
	c.every(GoneForGood, 15*time.Second, 8*time.Second, c.goneForGood)
	c.every(RecreateTopic, 15*time.Second, 5*time.Second, c.recreate)
	c.every(Unclean, 10*time.Second, 3*time.Second, c.unclean)
	c.every(ExpireProducer, 10*time.Second, 2*time.Second, func(t *trigger) { c.expire(t, false) })
	c.every(Silence, 10*time.Second, 3*time.Second, c.silence)
	c.every(ExpireAndFlap, 10*time.Second, 2*time.Second, func(t *trigger) { c.expire(t, true) })
}

// silence has packets to and from a broker vanish for a while. Either side sends them again, so that they arrive when it is over, unless
// something on the way has forgotten the connection by then.
func (c *chaos) silence(t *trigger) {
	node := c.someNode(t)
	if node == 0 {
		return
	}
	s := c.w.Selector
	until := s.now + min(t.between(0, 3*c.p.Config.RequestTimeout), maxDelay)
	forgotten := t.chance(0.5)
	c.nodes[node-1].silent = until
	for _, k := range s.conns { // in any order: each by itself
		if k.to.c != c.w.Cluster || k.to.node != node {
			continue
		}
		if forgotten {
			k.hole = true
		} else {
			k.outward, k.inward = max(k.outward, until), max(k.inward, until)
		}
	}
}

// silent is how long it takes until a broker at this address hears of an attempt to connect: the attempt is repeated, at
// longer and longer intervals.
func (c *chaos) silent(at protocol.Node) time.Duration {
	to, now := c.w.Selector.places[place{at.Host, at.Port}], c.w.Selector.now
	if to.c != c.w.Cluster {
		return 0
	}
	after, until := time.Duration(0), c.nodes[to.node-1].silent
	for next := time.Second; now+after < until; next *= 2 {
		after += next
	}
	return after
}

// somePartition draws one; nil if its topic is not there at present.
func (c *chaos) somePartition(t *trigger) *partitionBook {
	parts := c.b.parts[t.IntN(len(c.b.parts))]
	p := parts[t.IntN(len(parts))]
	if c.w.Cluster.Partitions(p.topic) == 0 {
		return nil
	}
	return p
}

// somePartitions calls f for a few partitions, or for many.
func (c *chaos) somePartitions(t *trigger, f func(*partitionBook)) {
	for n := pick(t.draw, 1, 1, 2, 10); n > 0; n-- {
		if p := c.somePartition(t); p != nil {
			f(p)
		}
	}
}

// someNode draws one that is up; 0 if none is.
func (c *chaos) someNode(t *trigger) int32 {
	up := c.up()
	if len(up) == 0 {
		return 0
	}
	return up[t.IntN(len(up))]
}

// lead makes node the leader of a partition.
func (c *chaos) lead(p *partitionBook, node int32) {
	if node > 0 && !c.isUp(node) {
		return
	}
	was, _ := c.w.Cluster.Leader(p.topic, p.partition)
	if was != node && c.p.Config.Cluster.Model != testbroker.Strict {
		c.b.forget(p) // the new leader knows no producers
	}
	_ = c.w.Cluster.MoveLeader(p.topic, p.partition, node) // the topic may be gone
}

func (c *chaos) moveLeaders(t *trigger) {
	c.somePartitions(t, func(p *partitionBook) {
		if node := c.someNode(t); node != 0 {
			c.lead(p, node)
		}
	})
}

func (c *chaos) flapLeaders(t *trigger) {
	c.somePartitions(t, func(p *partitionBook) {
		was, _ := c.w.Cluster.Leader(p.topic, p.partition)
		node := c.someNode(t)
		if was == testbroker.NoLeader || node == 0 {
			return
		}
		c.lead(p, node)
		for i := range 1 + t.IntN(4) {
			to := was
			if i%2 == 1 {
				to = node
			}
			c.later(time.Duration(i+1)*t.between(time.Millisecond, 300*time.Millisecond), func() {
				if c.isUp(to) {
					c.lead(p, to)
				}
			})
		}
	})
}

func (c *chaos) stale(t *trigger) {
	node := c.someNode(t)
	if node == 0 {
		return
	}
	_ = c.w.Cluster.FreezeMetadata(node)
	c.later(t.between(0, 5*time.Second), func() { _ = c.w.Cluster.ThawMetadata(node) })
	c.moveLeaders(t)
}

func (c *chaos) leaderless(t *trigger) {
	c.somePartitions(t, func(p *partitionBook) {
		was, _ := c.w.Cluster.Leader(p.topic, p.partition)
		if was == testbroker.NoLeader {
			return
		}
		_ = c.w.Cluster.MoveLeader(p.topic, p.partition, testbroker.NoLeader)
		c.later(t.between(0, 4*time.Second), func() { c.giveLeader(p, c.someNode(t)) })
	})
}

// giveLeader gives a partition a leader if it has none.
func (c *chaos) giveLeader(p *partitionBook, node int32) {
	if was, epoch := c.w.Cluster.Leader(p.topic, p.partition); was == testbroker.NoLeader && epoch >= 0 && node != 0 {
		c.lead(p, node)
	}
}

// forgetLed notes for the partitions that a node leads that their next leader may know no producers.
func (c *chaos) forgetLed(node int32) {
	if c.p.Config.Cluster.Model == testbroker.Strict {
		return
	}
	for _, parts := range c.b.parts {
		for _, p := range parts {
			if was, _ := c.w.Cluster.Leader(p.topic, p.partition); was == node || was == testbroker.NoLeader {
				c.b.forget(p)
			}
		}
	}
}

func (c *chaos) nodeDown(node int32) {
	c.forgetLed(node)
	_ = c.w.Cluster.NodeDown(node)
	c.nodes[node-1].down = true
}

func (c *chaos) isUp(node int32) bool { return !c.nodes[node-1].down }

// up lists the nodes that are up.
func (c *chaos) up() []int32 {
	var up []int32
	for i := range c.nodes {
		if !c.nodes[i].down {
			up = append(up, int32(i+1))
		}
	}
	return up
}

func (c *chaos) nodeUp(node int32) {
	if c.isGone(node) {
		return
	}
	c.forgetLed(testbroker.NoLeader)
	_ = c.w.Cluster.NodeUp(node)
	c.nodes[node-1].down = false
}

func (c *chaos) bounce(t *trigger) {
	if node := c.someNode(t); node != 0 {
		c.nodeDown(node)
		c.later(t.between(0, 6*time.Second), func() { c.nodeUp(node) })
	}
}

func (c *chaos) restartAll(t *trigger) {
	pause := pick(t.draw, 0, t.between(0, 3*time.Second))
	for i, node := range c.up() {
		c.w.Selector.In(time.Duration(i)*pause, func() {
			if c.over || !c.isUp(node) {
				return
			}
			c.nodeDown(node)
			c.later(t.between(0, 4*time.Second), func() { c.nodeUp(node) })
		})
	}
}

func (c *chaos) goneForGood(t *trigger) {
	if up := c.up(); len(up) > 1 {
		node := up[t.IntN(len(up))]
		c.down = append(c.down, node)
		c.nodeDown(node)
	}
}

// relocate has a broker restart at another address, or two change places.
func (c *chaos) relocate(t *trigger) {
	up := c.up()
	if len(up) == 0 {
		return
	}
	a := up[t.IntN(len(up))]
	if len(up) > 1 && t.chance(0.4) {
		if b := up[t.IntN(len(up))]; a != b {
			hostA, hostB := c.host(a), c.host(b)
			c.nodeDown(a)
			c.nodeDown(b)
			c.settle(a, hostB)
			c.settle(b, hostA)
			c.back(t, func() { c.nodeUp(a); c.nodeUp(b) })
			return
		}
	}
	old := c.host(a)
	c.nodeDown(a)
	c.addr++
	c.settle(a, fmt.Sprintf("elsewhere-%d", c.addr))
	if t.chance(0.5) {
		c.w.Selector.Occupy(old, 9092, nil, 0)
	}
	c.back(t, func() { c.nodeUp(a) })
}

// back has nodes come back: after a while, or before anybody could be told that they are away.
func (c *chaos) back(t *trigger, up func()) {
	if t.chance(0.5) {
		up()
		return
	}
	c.later(t.between(0, time.Second), up)
}

// strangers has a broker of another cluster, with topics of the same names, at the address that one of ours has left.
func (c *chaos) strangers(t *trigger) {
	up := c.up()
	if len(up) == 0 {
		return
	}
	if c.other == nil {
		c.other = testbroker.NewCluster(testbroker.Config{
			ClusterID: "another-cluster", Partitions: 64, Generation: c.p.Config.Cluster.Generation, JournalLimit: -1,
		})
		_ = c.other.SetAddr(1, "stranger", 9092)
		c.w.Selector.Occupy("stranger", 9092, c.other, 1)
		for _, name := range c.b.topics {
			_ = c.other.CreateTopic(testbroker.Topic{Name: name})
		}
	}
	node := up[t.IntN(len(up))]
	old := c.host(node)
	c.nodeDown(node)
	if t.chance(0.5) {
		c.addr++
		c.settle(node, fmt.Sprintf("elsewhere-%d", c.addr))
	}
	c.w.Selector.Occupy(old, 9092, c.other, 1)
	c.later(t.between(0, 4*time.Second), func() {
		if c.host(node) == old {
			c.settle(node, old)
		} else {
			c.w.Selector.Occupy(old, 9092, nil, 0)
		}
		c.nodeUp(node)
	})
}

func (c *chaos) host(node int32) string { return c.nodes[node-1].host }

// settle has a node live at host from now on. Its bootstrap name follows it, as a name service sees to.
func (c *chaos) settle(node int32, host string) {
	_ = c.w.Cluster.SetAddr(node, host, 9092)
	c.nodes[node-1].host = host
	c.w.Selector.Occupy(host, 9092, c.w.Cluster, node)
}

// replaceAll replaces one broker after the other by new ones.
func (c *chaos) replaceAll(t *trigger) {
	var spares []int32
	for _, id := range c.w.Cluster.NodeIDs() {
		if !c.isUp(id) && !c.isGone(id) {
			spares = append(spares, id)
		}
	}
	pause := t.between(10*time.Millisecond, time.Second)
	for i, old := range c.up() {
		if i >= len(spares) {
			return
		}
		c.w.Selector.In(time.Duration(i)*pause, func() {
			if c.over || !c.isUp(old) {
				return
			}
			c.addr++
			c.settle(spares[i], fmt.Sprintf("replacement-%d", c.addr))
			c.nodeUp(spares[i])
			for _, parts := range c.b.parts {
				for _, p := range parts {
					if was, _ := c.w.Cluster.Leader(p.topic, p.partition); was == old {
						c.lead(p, spares[i])
					}
				}
			}
			c.nodeDown(old)
			c.w.Selector.Occupy(bootstrapHost(old), 9092, c.w.Cluster, spares[i])
		})
	}
}

func (c *chaos) isGone(node int32) bool { return slices.Contains(c.down, node) }

// bootstrapHost is the name by which a node is in the bootstrap list: one of a name service, not the node's own.
func bootstrapHost(node int32) string { return fmt.Sprintf("bootstrap-%d", node) }

func (c *chaos) recreate(t *trigger) {
	i := t.IntN(len(c.b.topics))
	name := c.b.topics[i]
	if c.w.Cluster.Partitions(name) == 0 {
		return
	}
	for _, p := range c.b.parts[i] {
		if c.p.Config.Cluster.Model != testbroker.Strict {
			c.b.forget(p)
		}
		c.b.scan(p)
		c.b.truncated(p, 0)
	}
	_ = c.w.Cluster.DeleteTopic(name)
	c.later(pick(t.draw, 0, 0, t.between(0, 3*time.Second)), func() { c.createTopic(i) })
}

// createTopic creates one of the topics.
func (c *chaos) createTopic(i int) {
	name := c.b.topics[i]
	if c.w.Cluster.Partitions(name) > 0 {
		return
	}
	if err := c.w.Cluster.CreateTopic(testbroker.Topic{Name: name, Partitions: len(c.b.parts[i])}); err != nil {
		c.b.violate("simulation: %v", err)
	}
	c.tap.ids[c.w.Cluster.TopicID(name)] = name
}

func (c *chaos) unclean(t *trigger) {
	c.somePartitions(t, func(p *partitionBook) {
		node := c.someNode(t)
		if node == 0 {
			return
		}
		c.b.scan(p)
		if c.p.Config.Cluster.Model != testbroker.Strict || c.p.lateRequests() {
			// What a producer sent under an epoch that the log forgot can be on its way still.
			c.b.forget(p)
		}
		lost := int64(pick(t.draw, 0, 1, 1+t.IntN(20), 1+t.IntN(1000)))
		_ = c.w.Cluster.UncleanElection(p.topic, p.partition, node, lost)
		_, end := c.w.Cluster.Offsets(p.topic, p.partition)
		c.b.truncated(p, end)
	})
}

func (c *chaos) expire(t *trigger, flap bool) {
	c.somePartitions(t, func(p *partitionBook) {
		c.b.forget(p)
		_ = c.w.Cluster.ExpireProducers(p.topic, p.partition)
		if node := c.someNode(t); flap && node != 0 {
			c.lead(p, node)
		}
	})
}

// repair gives every partition a leader and every node that is not gone for good its life back.
func (c *chaos) repair() {
	for i := range c.b.topics {
		c.createTopic(i)
	}
	for id := int32(1); int(id) <= c.p.Nodes; id++ {
		_ = c.w.Cluster.ThawMetadata(id)
		if !c.isGone(id) && c.p.Spares == 0 {
			c.nodeUp(id)
		}
	}
	up := c.up()
	if len(up) == 0 {
		c.down = nil // nobody would call that well
		for id := int32(1); int(id) <= c.p.Nodes; id++ {
			c.nodeUp(id)
		}
		up = c.up()
	}
	for i, id := range c.w.Cluster.NodeIDs() { // a name service tells of nodes that there are
		if !c.isUp(id) {
			c.w.Selector.Occupy(bootstrapHost(id), 9092, c.w.Cluster, up[i%len(up)])
		}
	}
	for _, parts := range c.b.parts {
		for i, p := range parts {
			c.giveLeader(p, up[i%len(up)])
		}
	}
}

// allGone takes every node away for good.
func (c *chaos) allGone() {
	c.down = c.w.Cluster.NodeIDs()
	for _, id := range c.down {
		c.nodeDown(id)
	}
}
