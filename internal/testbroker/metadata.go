package testbroker

import (
	"slices"

	"github.com/kafka-reservoir/producer/protocol"
)

// view is what Metadata tells of the cluster at one moment; it is never changed.
type view struct {
	brokers    []protocol.MetadataResponseBroker
	controller int32
	topics     []protocol.MetadataResponseTopic // in order of creation
	byName     map[string]int
	byID       map[protocol.UUID]int
}

// viewLocked is the view of now.
func (c *Cluster) viewLocked() *view {
	if c.live != nil {
		return c.live
	}
	v := &view{controller: -1, byName: make(map[string]int, len(c.topics)), byID: make(map[protocol.UUID]int, len(c.topics))}
	for _, n := range c.nodes {
		if n.up {
			v.brokers = append(v.brokers, protocol.MetadataResponseBroker{NodeID: n.id, Host: n.host, Port: n.port})
			if v.controller < 0 {
				v.controller = n.id
			}
		}
	}
	for i, t := range c.topics {
		v.byName[t.name], v.byID[t.id] = i, i
		v.topics = append(v.topics, c.describeLocked(t))
	}
	c.live = v
	return v
}

func (c *Cluster) describeLocked(t *topic) protocol.MetadataResponseTopic {
	out := protocol.MetadataResponseTopic{
		Name: &t.name, TopicID: t.id, TopicAuthorizedOperations: protocol.AuthorizedOperationsUnknown,
	}
	for _, p := range t.partitions {
		part := protocol.MetadataResponsePartition{
			PartitionIndex: p.index, LeaderID: p.leader, LeaderEpoch: p.epoch, ReplicaNodes: slices.Clone(p.replicas),
			IsrNodes: []int32{}, OfflineReplicas: []int32{},
		}
		if p.leader == NoLeader {
			part.ErrorCode = protocol.LeaderNotAvailable
		}
		for _, id := range p.replicas {
			if c.nodes[id-1].up {
				part.IsrNodes = append(part.IsrNodes, id)
			} else {
				part.OfflineReplicas = append(part.OfflineReplicas, id)
			}
		}
		out.Partitions = append(out.Partitions, part)
	}
	return out
}

func (c *Cluster) metadataLocked(k *conn, j *job, b *protocol.MetadataRequest) protocol.Message {
	see := func() *view {
		if k.node.frozen != nil {
			return k.node.frozen
		}
		return c.viewLocked()
	}
	v := see()
	r := &protocol.MetadataResponse{
		Brokers:                     v.brokers,
		ClusterID:                   &c.cfg.ClusterID,
		ControllerID:                v.controller,
		ClusterAuthorizedOperations: protocol.AuthorizedOperationsUnknown,
	}
	if j.req.AllTopics {
		for i := range v.topics {
			if code := c.topicErrors[*v.topics[i].Name]; code == protocol.None {
				r.Topics = append(r.Topics, v.topics[i])
			}
		}
	}
	for i := range b.Topics {
		ask := &b.Topics[i]
		if ask.Name == nil {
			t := protocol.MetadataResponseTopic{
				ErrorCode: protocol.UnknownTopicID, TopicID: ask.TopicID, TopicAuthorizedOperations: protocol.AuthorizedOperationsUnknown,
			}
			if i, ok := v.byID[ask.TopicID]; ok {
				t = v.topics[i]
			}
			r.Topics = append(r.Topics, t)
			continue
		}
		r.Topics = append(r.Topics, c.metadataTopicLocked(k, see, *ask.Name, j.req.AllowAutoTopicCreation))
	}
	if code := j.verdict.Code; code != protocol.None {
		r.Topics = slices.Clone(r.Topics)
		for i := range r.Topics {
			r.Topics[i].ErrorCode, r.Topics[i].Partitions = code, nil
		}
	}
	if j.verdict.Edit != nil {
		r.Brokers = slices.Clone(r.Brokers) // the hook may change what it gets; the view must stay
		for i := range r.Topics {
			r.Topics[i].Partitions = slices.Clone(r.Topics[i].Partitions)
		}
	}
	return r
}

// metadataTopicLocked describes one topic by name, creating it where that is allowed.
func (c *Cluster) metadataTopicLocked(k *conn, see func() *view, name string, create bool) protocol.MetadataResponseTopic {
	failed := func(code protocol.ErrorCode) protocol.MetadataResponseTopic {
		return protocol.MetadataResponseTopic{
			ErrorCode: code, Name: &name, TopicAuthorizedOperations: protocol.AuthorizedOperationsUnknown,
		}
	}
	if code := c.topicErrors[name]; code != protocol.None {
		return failed(code)
	}
	v := see()
	if i, ok := v.byName[name]; ok {
		return v.topics[i]
	}
	switch {
	case !validTopic(name):
		return failed(protocol.InvalidTopicException)
	case !create || c.cfg.AutoCreate == AutoCreateOff:
		return failed(protocol.UnknownTopicOrPartition)
	case c.byName[name] != nil: // stale metadata
		return failed(protocol.UnknownTopicOrPartition)
	}
	_ = c.createTopicLocked(Topic{Name: name}) // cannot exist
	if c.cfg.AutoCreate == AutoCreateAtOnce {
		if v = see(); v != k.node.frozen {
			return v.topics[v.byName[name]]
		}
	}
	return failed(k.node.generation.AutoCreateCode)
}

// validTopic is Kafka's rule for topic names.
func validTopic(name string) bool {
	if name == "" || name == "." || name == ".." || len(name) > 249 {
		return false
	}
	for _, r := range name {
		switch {
		case r >= 'a' && r <= 'z', r >= 'A' && r <= 'Z', r >= '0' && r <= '9', r == '.', r == '_', r == '-':
		default:
			return false
		}
	}
	return true
}
