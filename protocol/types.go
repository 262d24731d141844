package protocol

import (
	"fmt"
	"net"
	"strconv"
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
