package producer_test

import (
	"context"
	"encoding/binary"
	"fmt"
	"io"
	"net"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/kafka-reservoir/producer"
	"github.com/kafka-reservoir/producer/internal/testbroker"
	"github.com/kafka-reservoir/producer/protocol"
)

// sink is a cluster for benchmarks and allocation ceilings: connections in memory to brokers that acknowledge batches
// without looking into them, on the goroutine that writes, and that allocate nothing for it. What is measured is then the producer, where
// the strict test broker would take several times as long over each record. That answers everything but Produce.
type sink struct {
	cluster *testbroker.Cluster

	mu   sync.Mutex // guards next
	next testbroker.ConnID
}

// toSink is a configuration that leads to a new sink of three brokers with the topic "t".
func toSink(t testing.TB, partitions int) producer.Config {
	s := &sink{cluster: testbroker.NewCluster(testbroker.Config{
		Nodes: 3, Partitions: partitions, AutoCreate: testbroker.AutoCreateAtOnce, JournalLimit: -1,
		Topics: []testbroker.Topic{{Name: "t"}},
	})}
	for _, id := range s.cluster.NodeIDs() {
		require.NoError(t, s.cluster.SetAddr(id, "broker", id))
	}
	return producer.Config{BootstrapServers: []string{"broker:1"}, Dial: s.dial}
}

func (s *sink) dial(_ context.Context, _, addr string) (net.Conn, error) {
	_, port, err := net.SplitHostPort(addr)
	if err != nil {
		return nil, err
	}
	node, err := strconv.Atoi(port)
	if err != nil {
		return nil, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.next++
	c := &sinkConn{s: s, node: int32(node), id: s.next}
	c.filled.L = &c.mu
	return c, nil
}

// sinkConn is the client's end of a connection.
type sinkConn struct {
	s    *sink
	node int32
	id   testbroker.ConnID

	// Owned by the writer.
	frame []byte // what has come of a request
	reply protocol.ProduceResponse

	mu     sync.Mutex // guards the fields below
	filled sync.Cond
	out    []byte // what is to be read, out[at:]
	at     int
	closed bool
}

// Write takes requests, and answers each when its last byte has come.
func (c *sinkConn) Write(b []byte) (int, error) {
	c.frame = append(c.frame, b...)
	used := 0
	for {
		rest := c.frame[used:]
		if len(rest) < 4 || len(rest) < 4+int(binary.BigEndian.Uint32(rest)) {
			break
		}
		size := 4 + int(binary.BigEndian.Uint32(rest))
		if err := c.answer(rest[4:size]); err != nil {
			return 0, err
		}
		used += size
	}
	c.frame = c.frame[:copy(c.frame, c.frame[used:])]
	return len(b), nil
}

func (c *sinkConn) answer(request []byte) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed {
		return net.ErrClosed
	}
	if protocol.APIKey(binary.BigEndian.Uint16(request)) == protocol.KeyProduce {
		c.acknowledge(request)
	} else {
		for _, a := range c.s.cluster.Handle(c.node, c.id, request, time.Now()) {
			if a.Kind == testbroker.Write {
				c.out = append(c.out, a.Bytes...)
			}
		}
	}
	c.filled.Signal()
	return nil
}

// acknowledge answers a Produce request of version 13: the fields up to the batches are read, the batches passed over.
func (c *sinkConn) acknowledge(request []byte) {
	r := cursor{request}
	if r.next(2); binary.BigEndian.Uint16(r.next(2)) != 13 {
		panic("the sink knows Produce v13 only")
	}
	correlation := r.next(4)
	r.next(int(binary.BigEndian.Uint16(r.next(2)))) // client id
	r.next(1)                                       // tags
	r.next(1 + 2 + 4)                               // no transactional id; acks, timeout
	topics := c.reply.Topics[:0]
	for range r.length() {
		topics = extend(topics)
		t := &topics[len(topics)-1]
		t.ID, t.Partitions = protocol.UUID(r.next(16)), t.Partitions[:0]
		for range r.length() {
			t.Partitions = append(t.Partitions, protocol.ProduceResponsePartition{
				Index: int32(binary.BigEndian.Uint32(r.next(4))), LogAppendTimeMs: -1, CurrentLeader: protocol.NoLeader,
			})
			r.next(r.length()) // the batch
			r.next(1)          // tags
		}
		r.next(1)
	}
	c.reply.Topics = topics
	start := len(c.out)
	c.out = append(c.out, 0, 0, 0, 0)
	c.out = append(c.out, correlation...)
	c.out = c.reply.AppendTo(append(c.out, 0), 13)
	binary.BigEndian.PutUint32(c.out[start:], uint32(len(c.out)-start-4))
}

// extend makes s one longer, with whatever stood there before.
func extend[T any](s []T) []T {
	if len(s) < cap(s) {
		return s[:len(s)+1]
	}
	var zero T
	return append(s, zero)
}

// cursor reads a request from front to end. A request that is not whole makes it panic.
type cursor struct{ b []byte }

func (r *cursor) next(n int) []byte {
	b := r.b[:n]
	r.b = r.b[n:]
	return b
}

// length is that of a compact array or string.
func (r *cursor) length() int {
	v, n := binary.Uvarint(r.b)
	r.next(n)
	return int(v) - 1
}

func (c *sinkConn) Read(b []byte) (int, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for c.at == len(c.out) {
		if c.closed {
			return 0, io.EOF
		}
		c.filled.Wait()
	}
	n := copy(b, c.out[c.at:])
	if c.at += n; c.at == len(c.out) {
		c.out, c.at = c.out[:0], 0
	}
	return n, nil
}

func (c *sinkConn) Close() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.closed = true
	c.filled.Broadcast()
	return nil
}

func (c *sinkConn) LocalAddr() net.Addr              { return sinkAddr("client") }
func (c *sinkConn) RemoteAddr() net.Addr             { return sinkAddr(fmt.Sprintf("broker:%d", c.node)) }
func (c *sinkConn) SetDeadline(time.Time) error      { return nil }
func (c *sinkConn) SetReadDeadline(time.Time) error  { return nil }
func (c *sinkConn) SetWriteDeadline(time.Time) error { return nil }

type sinkAddr string

func (sinkAddr) Network() string  { return "tcp" }
func (a sinkAddr) String() string { return string(a) }
