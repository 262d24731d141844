package testbroker

import (
	"net"
	"time"

	"github.com/kafka-reservoir/producer/protocol"
)

// Config says what cluster to build. Its zero value is one Kafka 4.4 node that creates topics of one partition
// on demand.
type Config struct {
	// Nodes is how many brokers there are; their ids are 1 to Nodes. Zero means 1.
	Nodes int
	// Partitions is the partition count of topics that do not say their own. Zero means 1.
	Partitions int
	// Replicas is how many nodes hold each partition: who may become leader when a node goes down.
	// Zero means 3, or all nodes if there are fewer.
	Replicas int
	// Topics exist from the start.
	Topics []Topic
	// AutoCreate says what becomes of topics that are asked for and do not exist.
	AutoCreate AutoCreate
	// ClusterID is empty for a fixed default.
	ClusterID string
	// Generation is the Kafka version to stand in for: the API versions that are advertised and accepted, and
	// the details that differ between versions. Nil means Kafka44. NodeGenerations has exceptions, for
	// clusters in the middle of an upgrade.
	Generation      *Generation
	NodeGenerations map[int32]*Generation
	// Model says how logs treat a producer id that they do not know.
	Model LogModel
	// NodeModels has exceptions for partitions led by the given nodes.
	NodeModels map[int32]LogModel

	// MaxMessageBytes bounds a batch (message.max.bytes). Zero means what the Generation has by default.
	MaxMessageBytes int
	// MaxRequestBytes bounds a frame (socket.request.max.bytes); the connection of a larger one is closed. Zero
	// means 100 MiB.
	MaxRequestBytes int
	// TimestampAfterMax refuses records that are further in the future. Zero means what the Generation has by
	// default (an hour from 4.0 on), negative means no limit.
	TimestampAfterMax time.Duration
	// LeaderDelay is how long a partition refuses records with NOT_LEADER_OR_FOLLOWER although metadata already
	// names its leader, as KRaft brokers do for some milliseconds after a topic was created or a leader moved.
	LeaderDelay time.Duration
	// FirstProducerID is the first id to give out. Zero means 1000.
	FirstProducerID int64

	// RetentionBytes is how many bytes of batches a partition keeps; the oldest go first and the log start
	// offset moves. Zero means 64 MiB, negative means no limit.
	RetentionBytes int64
	// DiscardRecords forgets the bytes of each batch after it was checked, for load tests: offsets, counts and
	// producer state go on, but nothing can be fetched.
	DiscardRecords bool
	// JournalLimit is how many entries the journal keeps. Zero means 10,000; negative means none.
	JournalLimit int

	// Fault decides about every request, after it was parsed and before it is carried out; nil lets all
	// through. One call is made at a time, so it may keep plain state. It may call any method of the
	// Cluster except Handle, Open, Closed and Tick, and must not block.
	Fault func(*Request) Verdict
	// FaultOpen decides about every new connection; nil accepts all. Same rules as Fault.
	FaultOpen func(node int32, conn ConnID) ConnVerdict

	// Listen makes the listener of a node, for Start and StartNode only; nil listens on a free loopback port (and on
	// the same port again when the node comes back).
	Listen func(node int32) (net.Listener, error)
	// FaultRead decides, for Start only, what to do with a request of which only a part has been read: see Partial.
	// Nil reads all. It is called by the connection's goroutine and must be safe for that.
	FaultRead func(Partial) ReadVerdict
}

// Topic is one topic to create.
type Topic struct {
	Name       string
	Partitions int // zero means Config.Partitions
	// Leaders has the leader of each partition; nil spreads them over the nodes, partition 0 on node 1.
	Leaders []int32
	// MaxMessageBytes bounds a batch in this topic (max.message.bytes). Zero means Config.MaxMessageBytes.
	MaxMessageBytes int
	// LogAppendTime has the broker's time replace that of the records (message.timestamp.type).
	LogAppendTime bool
}

// AutoCreate says what becomes of topics that are asked for and do not exist.
type AutoCreate int

const (
	// AutoCreateLikeKafka creates the topic; the answer that caused it says LEADER_NOT_AVAILABLE (or
	// UNKNOWN_TOPIC_OR_PARTITION, from 4.0 on), and the next one has the topic.
	AutoCreateLikeKafka AutoCreate = iota
	// AutoCreateAtOnce creates the topic and has it in the same answer.
	AutoCreateAtOnce
	// AutoCreateOff refuses such topics.
	AutoCreateOff
)

// LogModel says how a log treats the batches of idempotent producers. All models remember the last five batches of
// a producer id and answer a repeat with its first offset, demand that sequences continue within an epoch (after
// 2147483647 comes 0) and that a higher epoch starts at 0, and fence lower epochs.
type LogModel int

const (
	// Strict has a producer id that the log never saw start at 0, whatever else is OUT_OF_ORDER_SEQUENCE_NUMBER.
	// A producer id that was known and expired gets UNKNOWN_PRODUCER_ID. Producer state moves with the leader.
	Strict LogModel = iota
	// Legacy accepts any first sequence of a producer id without state, and the state is lost when the leader moves to
	// such a node: what Apache brokers do after leader moves and expiry.
	Legacy
	// Forgetful answers UNKNOWN_PRODUCER_ID to a producer id without state whose batch does not start at 0, and
	// state is lost when the leader moves to such a node: brokers before 2.5.
	Forgetful
)

// ConnID names a connection; the server never uses one twice.
type ConnID int64

// Record is a record as a log holds it.
type Record struct {
	Offset    int64
	Timestamp int64 // milliseconds since the epoch
	Key       []byte
	Value     []byte
	Headers   []protocol.Header

	ProducerID    int64
	ProducerEpoch int16
	Sequence      int32 // -1 without idempotence
	Codec         protocol.Codec
	LeaderEpoch   int32
}

// withDefaults fills in what is zero. Slices and maps are used as they are.
func (c Config) withDefaults() Config {
	setDefault(&c.Nodes, 1)
	setDefault(&c.Partitions, 1)
	setDefault(&c.Replicas, 3)
	c.Replicas = min(c.Replicas, c.Nodes)
	setDefault(&c.ClusterID, "testbroker-cluster-001") // as long as a real one
	if c.Generation == nil {
		c.Generation = Kafka44
	}
	setDefault(&c.MaxRequestBytes, 100<<20)
	setDefault(&c.FirstProducerID, 1000)
	setDefault(&c.RetentionBytes, 64<<20)
	setDefault(&c.JournalLimit, 10_000)
	return c
}

func setDefault[T comparable](field *T, value T) {
	var zero T
	if *field == zero {
		*field = value
	}
}
