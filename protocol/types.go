package protocol

import (
	"fmt"
	"net"
	"strconv"
	"time"
)

// TopicPartition names one partition of one topic.
type TopicPartition struct {
	Topic     string
	Partition int32
}

// String is the form Kafka's own tools print: topic-partition.
func (tp TopicPartition) String() string {
	return tp.Topic + "-" + strconv.Itoa(int(tp.Partition))
}

// Header is one record header. A nil Value is a null on the wire and differs from an empty one.
type Header struct {
	Key   string
	Value []byte
}

// Node is a broker as known from metadata. Bootstrap addresses, whose ids are not known yet, have negative ids.
type Node struct {
	ID   int32
	Host string
	Port int32
	Rack string
}

// Addr is host:port, with IPv6 hosts in brackets.
func (n Node) Addr() string { return net.JoinHostPort(n.Host, strconv.Itoa(int(n.Port))) }

// String is for logs: id (host:port).
func (n Node) String() string { return fmt.Sprintf("%d (%s)", n.ID, n.Addr()) }

// UUID is a topic id. The zero value means that none is known.
type UUID [16]byte

// IsZero reports whether no id is known.
func (u UUID) IsZero() bool { return u == UUID{} }

// ProducerID is what makes a producer idempotent: an id and its epoch. NoProducerID stands for none.
type ProducerID struct {
	ID    int64
	Epoch int16
}

// NoProducerID is written into batches of a producer that is not idempotent.
var NoProducerID = ProducerID{ID: -1, Epoch: -1}

// Valid reports whether p was given by a broker.
func (p ProducerID) Valid() bool { return p.ID >= 0 }

// Frame is one request as it goes on the wire, its length prefix included.
// Record batches are held by reference, so that they are never copied: who hands a Frame to a
// connection must leave the bytes alone until the connection says that it holds them no longer.
type Frame struct {
	Buffers net.Buffers
	Size    int // bytes in Buffers, length prefix included
	// NotifySent asks the connection to tell at once when the frame was written. It is for requests
	// without a response (acks=0), whose only news that is; for all others the news may wait until
	// something else happens, which saves a wake-up per request.
	NotifySent bool
}

// RecordMetadata is where a record went (Java's class of the same name).
type RecordMetadata struct {
	Topic     string
	Partition int32
	// Offset is -1 where it is unknown: with AcksNone, when a retry found the record written already, and for a record that failed.
	Offset int64
	// Timestamp is the record's own, or the broker's where the topic is configured to keep that one. Zero for a record that failed.
	Timestamp time.Time
	// KeySize and ValueSize are serialized sizes in bytes; -1 for null, and for a record that failed.
	KeySize   int
	ValueSize int
}

// HasOffset reports whether the offset is known.
func (m RecordMetadata) HasOffset() bool { return m.Offset >= 0 }

// String is topic-partition@offset.
func (m RecordMetadata) String() string {
	return fmt.Sprintf("%s-%d@%d", m.Topic, m.Partition, m.Offset)
}
