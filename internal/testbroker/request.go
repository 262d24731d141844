package testbroker

import (
	"encoding/binary"
	"fmt"
	"time"

	"github.com/kafka-reservoir/producer/protocol"
)

// parsed is a request after the strict look at its bytes, which needs no lock.
type parsed struct {
	req  *Request
	body protocol.Message
	// fate is what to do with a request that cannot be carried out.
	fate  fate
	fault string // the breach, empty for a proper request
}

type fate int

const (
	fateServe       fate = iota
	fateClose            // close the connection
	fateSilent           // never answer
	fateUnsupported      // an ApiVersions version that is too new
)

// parse looks at a frame strictly. The result points into it.
func (c *Cluster) parse(node int32, conn ConnID, frame []byte, now time.Time) parsed {
	req := &Request{At: now, Node: node, Conn: conn, Size: len(frame)}
	p := parsed{req: req}
	if len(frame) < 8 {
		return p.breach(fateClose, "a frame of %d bytes", len(frame))
	}
	req.API = protocol.APIKey(binary.BigEndian.Uint16(frame))
	req.Version = int16(binary.BigEndian.Uint16(frame[2:]))
	req.CorrelationID = int32(binary.BigEndian.Uint32(frame[4:]))

	g := c.generation(node)
	away := fateClose
	if g.SilentUnknown {
		away = fateSilent
	}
	minVersion, maxVersion, ok := g.Range(req.API)
	switch {
	case !ok && req.API == protocol.KeyAPIVersions:
		p.fate = away // that is how a client finds out: no breach
		return p
	case !ok:
		return p.breach(away, "an API that Kafka %s was not said to know", g.Name)
	case req.API == protocol.KeyAPIVersions && req.Version > maxVersion:
		p.fate = fateUnsupported // KIP-511: the client tries the newest version it has
		return p
	case req.Version < minVersion || req.Version > maxVersion:
		return p.breach(away, "version %d, but Kafka %s has %d to %d", req.Version, g.Name, minVersion, maxVersion)
	}
	p.body = newRequestBody(req.API)
	if lo, hi := req.API.Versions(); p.body == nil || req.Version < lo || req.Version > hi {
		return p.breach(fateClose, "version %d, advertised but not served", req.Version)
	}

	header, rest, err := protocol.ReadRequestHeader(frame)
	if err != nil {
		return p.breach(fateClose, "request header: %v", err)
	}
	if header.ClientID != nil {
		req.ClientID = *header.ClientID
	}
	if err := p.body.ReadFrom(rest, req.Version); err != nil {
		return p.breach(fateClose, "body: %v", err)
	}
	req.Body = p.body
	switch b := p.body.(type) {
	case *protocol.ProduceRequest:
		c.parseProduce(&p, b, g, now)
	case *protocol.MetadataRequest:
		req.AllTopics = b.Topics == nil || req.Version == 0 && len(b.Topics) == 0
		req.AllowAutoTopicCreation = b.AllowAutoTopicCreation || req.Version < 4
		for _, t := range b.Topics {
			if t.Name != nil {
				req.Topics = append(req.Topics, *t.Name)
			}
		}
	}
	return p
}

func (p parsed) breach(f fate, format string, args ...any) parsed {
	p.fate = f
	p.fault = fmt.Sprintf(format, args...)
	return p
}

func newRequestBody(key protocol.APIKey) protocol.Message {
	switch key {
	case protocol.KeyProduce:
		return new(protocol.ProduceRequest)
	case protocol.KeyFetch:
		return new(protocol.FetchRequest)
	case protocol.KeyListOffsets:
		return new(protocol.ListOffsetsRequest)
	case protocol.KeyMetadata:
		return new(protocol.MetadataRequest)
	case protocol.KeyFindCoordinator:
		return new(protocol.FindCoordinatorRequest)
	case protocol.KeyAPIVersions:
		return new(protocol.ApiVersionsRequest)
	case protocol.KeyInitProducerID:
		return new(protocol.InitProducerIdRequest)
	}
	return nil
}

func (c *Cluster) parseProduce(p *parsed, b *protocol.ProduceRequest, g *Generation, now time.Time) {
	req := p.req
	req.Acks = b.Acks
	n := 0
	for i := range b.Topics {
		n += len(b.Topics[i].Partitions)
	}
	req.Batches = make([]Batch, 0, n)
	rules := batchRules{version: req.Version, generation: g, maxTimestamp: -1, decodings: &c.decodings}
	after := c.cfg.TimestampAfterMax
	if after == 0 {
		after = g.TimestampAfterMax
	}
	if after > 0 {
		rules.maxTimestamp = now.Add(after).UnixMilli()
	}
	for i := range b.Topics {
		t := &b.Topics[i]
		name := t.Name
		if req.Version >= 13 {
			name = c.topicName(t.ID)
		}
		for j := range t.Partitions {
			records := t.Partitions[j].Records
			check, err := checkBatch(records, rules)
			h := check.header
			req.Batches = append(req.Batches, Batch{
				Topic: name, TopicID: t.ID, Partition: t.Partitions[j].Index,
				Size: len(records), Count: h.Count,
				ProducerID: h.ProducerID, ProducerEpoch: h.ProducerEpoch, BaseSequence: h.BaseSequence,
				Codec: h.Codec(), Transactional: h.IsTransactional(),
				BaseTimestamp: h.BaseTimestamp, MaxTimestamp: h.MaxTimestamp, CRC: h.CRC,
				Raw: records, Err: err, check: check,
			})
			last := &req.Batches[len(req.Batches)-1]
			if err != nil && p.fault == "" {
				p.fault = fmt.Sprintf("%s-%d: %v", name, last.Partition, err)
			}
			if check.closes {
				p.fate = fateClose
			}
			if p.fault == "" && repeated(req.Batches) {
				p.fault = fmt.Sprintf("%s-%d twice in one request", name, last.Partition)
			}
		}
	}
	if n == 0 {
		p.fault = "no partition at all"
	}
}

// repeated reports whether the last batch is for the same partition as one before it. Requests have few partitions
// or are rare: a map was not worth its making.
func repeated(batches []Batch) bool {
	last := &batches[len(batches)-1]
	for i := range batches[:len(batches)-1] {
		b := &batches[i]
		if b.Partition == last.Partition && b.TopicID == last.TopicID && b.Topic == last.Topic {
			return true
		}
	}
	return false
}

func (c *Cluster) generation(node int32) *Generation {
	c.mu.Lock()
	defer c.mu.Unlock()
	n, err := c.nodeLocked(node)
	if err != nil {
		return c.cfg.Generation
	}
	return n.generation
}

func (c *Cluster) topicName(id protocol.UUID) string {
	c.mu.Lock()
	defer c.mu.Unlock()
	if t := c.byID[id]; t != nil {
		return t.name
	}
	return ""
}
