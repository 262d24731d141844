package metadata

import (
	"context"
	"errors"
	"log/slog"
	"time"

	"github.com/kafka-reservoir/producer/protocol"
)

// The declarations; bodies follow.

var (
	ErrTimeout = errors.New("metadata timeout")
	ErrClosed  = errors.New("metadata closed")
)

type TimeoutError struct {
	Topic      string
	Partition  int32 // -1: any
	Partitions int   // known partitions; 0 when the topic is not known
	Waited     time.Duration
	Cause      error // the last thing that went wrong, or nil
}

func (e *TimeoutError) Error() string   { panic("stub") }
func (e *TimeoutError) Unwrap() []error { panic("stub") }

type Config struct {
	Bootstrap          []protocol.Node // ids are replaced by -1, -2, ...
	MaxAge             time.Duration
	MaxIdle            time.Duration
	RetryBackoff       time.Duration
	RetryBackoffMax    time.Duration
	NoRebootstrap      bool
	RebootstrapTrigger time.Duration
	NoAutoCreate       bool
	Rand               func(n int) int
	Logger             *slog.Logger
	Wake               func()
	InUse              func(topic string) bool // sender goroutine: topic has buffered records, keep it
	OnUpdate           func(*Snapshot)
}

type Metadata struct{}

func New(cfg Config) *Metadata { panic("stub") }

// Any goroutine.
func (m *Metadata) Snapshot() *Snapshot { panic("stub") }
func (m *Metadata) Await(ctx context.Context, topic string, partition int32, now time.Time, maxWait time.Duration) (*Topic, error) {
	panic("stub")
}
func (m *Metadata) RequestUpdate()         { panic("stub") }
func (m *Metadata) LastSuccess() time.Time { panic("stub") }
func (m *Metadata) Close()                 { panic("stub") }

// Sender goroutine.
func (m *Metadata) Nodes() []protocol.Node                             { panic("stub") }
func (m *Metadata) TimeToUpdate(now time.Time) time.Duration           { panic("stub") }
func (m *Metadata) NewRequest(now time.Time) *protocol.MetadataRequest { panic("stub") }
func (m *Metadata) HandleResponse(version int16, resp *protocol.MetadataResponse, now time.Time) error {
	panic("stub")
}
func (m *Metadata) HandleFailure(err error, now time.Time)     { panic("stub") }
func (m *Metadata) HandleDisconnect(err error)                 { panic("stub") }
func (m *Metadata) SetFatal(err error)                         { panic("stub") }
func (m *Metadata) Rebootstrap(now time.Time, force bool) bool { panic("stub") }
func (m *Metadata) AddTopic(topic string, now time.Time)       { panic("stub") }

type LeaderHint struct {
	Topic                            string
	Partition, LeaderID, LeaderEpoch int32
}

func (m *Metadata) UpdateLeaders(hints []LeaderHint, nodes []protocol.Node) []protocol.TopicPartition {
	panic("stub")
}

type Snapshot struct{}

func (s *Snapshot) Version() int                        { panic("stub") }
func (s *Snapshot) ClusterID() string                   { panic("stub") }
func (s *Snapshot) Topic(name string) *Topic            { panic("stub") }
func (s *Snapshot) TopicByID(id protocol.UUID) *Topic   { panic("stub") }
func (s *Snapshot) Node(id int32) (protocol.Node, bool) { panic("stub") }
func (s *Snapshot) Nodes() []protocol.Node              { panic("stub") }

type Topic struct {
	Name     string
	ID       protocol.UUID
	Err      protocol.ErrorCode
	Internal bool
}

type Partition struct {
	Index                  int32
	Leader                 int32
	LeaderEpoch            int32
	Err                    protocol.ErrorCode
	Replicas, ISR, Offline []int32
}

func (t *Topic) Count() int                   { panic("stub") }
func (t *Topic) Available() []int32           { panic("stub") }
func (t *Topic) Partition(i int32) *Partition { panic("stub") }
func (t *Topic) Leader(i int32) int32         { panic("stub") }
func (t *Topic) LeaderEpoch(i int32) int32    { panic("stub") }
func (t *Topic) Touch(now time.Time)          { panic("stub") }
