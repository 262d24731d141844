package testbroker

import (
	"net"
	"time"
)

// Being written: bodies follow.

// Action is something to do now on a connection.
type Action struct {
	Conn  ConnID
	Node  int32
	Kind  ActionKind
	Bytes []byte // for Write: what to write, kept by nobody else
}

// ActionKind says what to do.
type ActionKind int

const (
	// Write writes Bytes, in the order of the actions.
	Write ActionKind = iota
	// CloseFIN closes the connection in the ordinary way, after what was written before.
	CloseFIN
	// CloseRST resets it.
	CloseRST
	// Stall stops reading from it and leaves it open.
	Stall
)

// Open tells the cluster of a new connection to node.
func (c *Cluster) Open(node int32, conn ConnID, now time.Time) []Action { panic("todo") }

// Closed tells the cluster that a connection is gone. What it asked for and is delayed is done all the same.
func (c *Cluster) Closed(conn ConnID, now time.Time) { panic("todo") }

// Handle takes one request frame, without its length prefix, that came to node over conn (opened before, or by this), and
// returns what to do now. The frame may be reused afterwards; the actions are valid until the next call of Handle, Open or Tick.
func (c *Cluster) Handle(node int32, conn ConnID, frame []byte, now time.Time) []Action {
	panic("todo")
}

// Tick returns what has become due.
func (c *Cluster) Tick(now time.Time) []Action { panic("todo") }

// NextTick is when Tick should be called next; ok is false when nothing is waiting.
func (c *Cluster) NextTick() (at time.Time, ok bool) { panic("todo") }

// Records are the records that a partition holds.
func (c *Cluster) Records(topic string, partition int32) []Record { panic("todo") }

// Offsets are the log start and log end offset of a partition.
func (c *Cluster) Offsets(topic string, partition int32) (start, end int64) { panic("todo") }

// Journal is a copy of what the journal holds from entry number since on.
func (c *Cluster) Journal(since int64) []Entry { panic("todo") }

// Violations are the breaches of the protocol so far.
func (c *Cluster) Violations() []*Violation { panic("todo") }

// TakeViolations is Violations, and forgets them: for tests that mean to breach.
func (c *Cluster) TakeViolations() []*Violation { panic("todo") }

// Check reports violations as errors of a test.
func (c *Cluster) Check(t TestingT) { panic("todo") }

// TestingT is what Check needs of a *testing.T.
type TestingT interface {
	Helper()
	Errorf(format string, args ...any)
}

// Violation is a breach of the protocol by a client. It is an error.
type Violation struct {
	At      time.Time
	Request *Request // may be nil
	Text    string
}

func (v *Violation) Error() string { return v.Text }

// Server is a Cluster on listeners.
type Server struct{ c *Cluster }

// Start starts a cluster with all nodes listening.
func Start(cfg Config) (*Server, error) { panic("todo") }

// Cluster is the core.
func (s *Server) Cluster() *Cluster { return s.c }

// Addrs are host:port of all nodes, in order of their ids; those of nodes that are down included.
func (s *Server) Addrs() []string { panic("todo") }

// StopNode stops listening, closes the node's connections and takes it out of the cluster (NodeDown).
func (s *Server) StopNode(node int32) error { panic("todo") }

// StartNode brings a node back on its old address.
func (s *Server) StartNode(node int32) error { panic("todo") }

// StartNodeAt brings a node back, or up, on another listener.
func (s *Server) StartNodeAt(node int32, l Listener) error { panic("todo") }

// Listener is a net.Listener.
type Listener = net.Listener

// CloseConns closes the connections of a node, or of all for 0.
func (s *Server) CloseConns(node int32, how Drop) { panic("todo") }

// MoveLeader moves a partition's leader; see [Cluster.MoveLeader].
func (s *Server) MoveLeader(topic string, partition, node int32) error { panic("todo") }

// Close stops everything and waits until no goroutine of the server runs.
func (s *Server) Close() error { panic("todo") }

// Generation is a Kafka version to stand in for.
type Generation struct{ Name string }

// The generations known.
var (
	Kafka44  = &Generation{Name: "4.4.0"}
	Kafka40  = &Generation{Name: "4.0.0"}
	Kafka39  = &Generation{Name: "3.9.1"}
	Kafka28  = &Generation{Name: "2.8.2"}
	Kafka21  = &Generation{Name: "2.1.1"}
	Kafka11  = &Generation{Name: "1.1.1"}
	Kafka011 = &Generation{Name: "0.11.0.3"}
	Kafka010 = &Generation{Name: "0.10.2.2"}
	Kafka09  = &Generation{Name: "0.9.0.1"}
)

type (
	dueQueue     struct{ pushed int64 }
	journal      struct{ limit int }
	view         struct{}
	conn         struct{ node *node }
	pendingFetch struct{}
	partitionLog struct {
		start, end int64
		producers  producerStates
	}
	producerStates struct{}
	seenBatches    struct{}
	batchCheck     struct{}
)

func (producerStates) clear()                                {}
func (producerStates) expire()                               {}
func (producerStates) prime(protocolID any, n int32)         {}
func (l *partitionLog) truncateTo(int64)                     {}
func (l *partitionLog) deleteBefore(int64)                   {}
func newPartitionLog(int64, bool) *partitionLog              { return nil }
func newSeenBatches() *seenBatches                           { return nil }
func (c *Cluster) noteLocked(node int32, f string, a ...any) {}
func (c *Cluster) connsLocked() []*conn                      { return nil }
func (c *Cluster) dropLocked(*conn, Drop)                    {}
func (c *Cluster) viewLocked() *view                         { return nil }
func (c *Cluster) wakeFetchesLocked(*partition)              {}
func (c Config) withDefaults() Config                        { return c }
