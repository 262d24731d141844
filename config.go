package producer

import (
	"context"
	"crypto/tls"
	"log/slog"
	"net"
	"time"

	"github.com/kafka-reservoir/producer/partitioner"
	"github.com/kafka-reservoir/producer/protocol"
	"github.com/kafka-reservoir/producer/sasl"
)

// Acks says how many copies of a record must exist before the broker acknowledges it (acks).
type Acks int8

const (
	// AcksAll waits for all in-sync replicas. It is the only setting that survives the loss of a leader,
	// and the one that idempotence needs.
	AcksAll Acks = iota
	// AcksLeader waits for the leader's own log only.
	AcksLeader
	// AcksNone does not wait: a record counts as done once it was written to the socket, and its
	// offset is unknown (-1). Errors of the broker are never seen.
	AcksNone
)

// String is the value that acks has in Java's configuration.
func (a Acks) String() string {
	switch a {
	case AcksAll:
		return "all"
	case AcksLeader:
		return "1"
	case AcksNone:
		return "0"
	}
	return "unknown"
}

// wire is the value of the Produce request's acks field.
func (a Acks) wire() int16 {
	switch a {
	case AcksLeader:
		return 1
	case AcksNone:
		return 0
	}
	return -1
}

// Compression is the codec of record batches (compression.type).
type Compression int8

const (
	// None sends batches as they are.
	None Compression = iota
	// Gzip is read by everybody, and slow: Zstd is smaller for the same CPU.
	Gzip
	// Snappy is fast and every broker knows it.
	Snappy
	// LZ4 is fast, with a better ratio than Snappy on most data.
	LZ4
	// Zstd has the best ratio for its cost; brokers before 2.1 do not know it.
	Zstd
)

// String is the value that compression.type has in Java's configuration.
func (c Compression) String() string { return c.codec().String() }

// codec is the same in the wire's numbers, which happen to be equal.
func (c Compression) codec() protocol.Codec { return protocol.Codec(c) }

// MetadataRecovery says what to do when no known broker can be reached (metadata.recovery.strategy).
type MetadataRecovery int8

const (
	// Rebootstrap starts again from BootstrapServers.
	Rebootstrap MetadataRecovery = iota
	// NoRebootstrap goes on trying the brokers last known.
	NoRebootstrap
)

// String is the value that metadata.recovery.strategy has in Java's configuration.
func (m MetadataRecovery) String() string {
	switch m {
	case Rebootstrap:
		return "rebootstrap"
	case NoRebootstrap:
		return "none"
	}
	return "unknown"
}

// Constants that say "none" where a zero means the default.
const (
	// NoLinger is the Linger that never waits for a batch to fill.
	NoLinger time.Duration = -1
	// NoMaxBlock is the MaxBlock that never waits: Send fails at once when the topic is not known yet
	// or the buffer is full.
	NoMaxBlock time.Duration = -1
	// NoMaxIdle is the ConnectionsMaxIdle that keeps idle connections open.
	NoMaxIdle time.Duration = -1
	// NoRetries is the Retries that never sends a batch twice. It turns idempotence off.
	NoRetries = -1
	// OSDefault is the SendBuffer and ReceiveBuffer that leaves the size to the operating system, as zero does (Java's -1).
	OSDefault = -1
)

// Config holds every setting of a producer. The zero value of a field means its default; only
// BootstrapServers must be given. The name in brackets is the same setting in Java's producer, which
// [FromProperties] reads. [New] copies the Config, so that later changes have no effect; the slices,
// pointers and interfaces in it must not be changed while a producer uses them.
//
// Where a duration or a count may also be "none", a constant says so ([NoLinger], [NoRetries], …): a
// plain zero never does. All other negative values are refused.
type Config struct {
	// BootstrapServers are the addresses to find the cluster by, each host:port, IPv6 hosts in brackets
	// (bootstrap.servers). They are only a way in: the brokers used afterwards are those the cluster names.
	// Required. An address given twice is refused.
	BootstrapServers []string
	// DeferBootstrapResolve lets New succeed although no bootstrap host name can be resolved yet
	// (bootstrap.resolve.timeout.ms above 0). Names are then looked up at every attempt to connect, and a Send is
	// bounded by MaxBlock as it is with brokers that cannot be reached.
	// By default New fails when not one name resolves. With Dial set, New never looks names up.
	DeferBootstrapResolve bool
	// ClientID is sent with every request, byte for byte, and names the producer in brokers' logs, quotas and
	// metrics (client.id). At most 32767 bytes.
	// Empty means producer-<TransactionalID>, or producer-1, producer-2, … in the order of creation.
	ClientID string
	// ClientRack is where this producer runs, in the brokers' terms (client.rack). Empty means unknown.
	// Only PartitionerRackAware makes use of it.
	ClientRack string

	// Acks is what must have happened to a record before it counts as written (acks).
	// Zero means AcksAll. With AcksLeader and AcksNone the producer is not idempotent.
	Acks Acks
	// DisableIdempotence gives up the protection against duplicates and reordering by retries
	// (enable.idempotence=false). By default the producer is idempotent, unless Acks or Retries rule it out.
	DisableIdempotence bool
	// Retries is how often a batch may be sent again (retries).
	// Zero means without bound, and DeliveryTimeout ends it; NoRetries means never.
	Retries int
	// MaxInFlight is how many requests a connection may have unanswered (max.in.flight.requests.per.connection).
	// Zero means 5, which is also the most an idempotent producer may have. With 1, a partition has one batch in
	// flight, which keeps the order of a producer that is not idempotent.
	MaxInFlight int

	// DeliveryTimeout bounds the time from Send to the record's result, with all queueing and retries
	// (delivery.timeout.ms). It is the only thing that ends a record once it was accepted.
	// Zero means 2m, or Linger + RequestTimeout where that is more; a value below that sum is refused.
	DeliveryTimeout time.Duration
	// RequestTimeout is how long to wait for the answer to one request (request.timeout.ms). When it is over, the
	// connection is closed and the batches in it are sent again. Zero means 30s.
	RequestTimeout time.Duration
	// MaxBlock bounds what Send waits for metadata and memory together, besides its ctx (max.block.ms). It also
	// bounds PartitionsFor. Zero means 60s; NoMaxBlock means not to wait at all.
	MaxBlock time.Duration

	// Linger is how long an open batch may wait for company (linger.ms). A full batch, and one that a Wait or a
	// Flush is waiting for, does not linger. Zero means 5ms; NoLinger means not to wait.
	Linger time.Duration
	// BatchSize bounds a batch in bytes, as estimated after compression (batch.size). It is a bound, not a
	// reservation: memory is taken in pieces as records come. A record larger than that gets a batch of its own;
	// 1 gives every record a batch of its own.
	// Zero means 512 KiB (Java: 16 KiB, because it reserves the whole batch). More than MaxRequestSize counts as MaxRequestSize.
	BatchSize int
	// BufferMemory bounds the memory of records that were accepted and not yet acknowledged (buffer.memory):
	// open batches, compressed ones and those in flight. Send waits when it is used up. Zero means 32 MiB; the least is 16 KiB.
	BufferMemory int64
	// MaxRequestSize bounds a record before compression, and what one Produce request may carry
	// (max.request.size). Zero means 1 MiB.
	MaxRequestSize int

	// Compression is the codec of record batches (compression.type). Zero means None.
	Compression Compression
	// CompressionLevel is the codec's level (compression.gzip.level 1 to 9, compression.lz4.level 1 to 17,
	// compression.zstd.level -131072 to 22). Zero means the codec's default: gzip 2 (Java's 6 makes batches 10 to 15 %
	// smaller and takes several times the CPU), lz4 9, zstd 3. Refused with None and Snappy, which have none.
	CompressionLevel int

	// Partitioner chooses the partition of records that name none (partitioner.class).
	// Nil means the built-in one: records with a key go by its hash, as in Java; records without one stay on a
	// partition until it got PartitionerStickyBytes, and prefer partitions with short queues (KIP-794).
	Partitioner partitioner.Partitioner
	// PartitionerStickyBytes is how much a partition gets before records without a key move on to the next.
	// Zero means 64 KiB, or BatchSize where that is less (Java: batch.size).
	PartitionerStickyBytes int
	// PartitionerIgnoreKeys lets the built-in partitioner treat every record as one without a key
	// (partitioner.ignore.keys). Default off.
	PartitionerIgnoreKeys bool
	// DisableAdaptivePartitioning gives every partition the same share of records without a key, however long its
	// queue (partitioner.adaptive.partitioning.enable=false).
	DisableAdaptivePartitioning bool
	// PartitionerAvailabilityTimeout is how long a broker may take nothing before records without a key avoid its
	// partitions (partitioner.availability.timeout.ms). Zero means that they never do. Needs adaptive partitioning.
	PartitionerAvailabilityTimeout time.Duration
	// PartitionerRackAware lets records without a key go to partitions led from ClientRack, as long as there are any
	// (partitioner.rack.aware, KIP-1123). Default off.
	PartitionerRackAware bool

	// RetryBackoff is the wait before a batch or a metadata request is sent again; it doubles with every failure, give or
	// take 20 % (retry.backoff.ms). Beyond 150 (a batch) or 200ms (metadata) it grows to no more than a tenth of the time since the first failure, which
	// Java does not do: what is well again after two seconds is not waited for a third one. Zero means 100ms.
	RetryBackoff time.Duration
	// RetryBackoffMax bounds that wait (retry.backoff.max.ms). Zero means 1s. Where RetryBackoff is more, the wait is
	// always RetryBackoffMax.
	RetryBackoffMax time.Duration
	// ReconnectBackoff is the wait before a broker is connected again; it doubles with every failure, give or take
	// 20 % (reconnect.backoff.ms). For a broker that was there before it grows more slowly beyond 380ms (240ms if it takes connections
	// and breaks them off), as RetryBackoff does. There are at most 20 attempts a second over all brokers, or about one for each of more than twenty: waits may be
	// longer for that. Zero means 50ms.
	ReconnectBackoff time.Duration
	// ReconnectBackoffMax bounds that wait (reconnect.backoff.max.ms). Zero means 1s, or ReconnectBackoff where that
	// is set: the wait then does not grow.
	ReconnectBackoffMax time.Duration
	// ConnectionSetupTimeout bounds one attempt to connect, up to the first answer of the broker; it doubles with
	// every failure, give or take 20 % (socket.connection.setup.timeout.ms). Zero means 10s.
	ConnectionSetupTimeout time.Duration
	// ConnectionSetupTimeoutMax bounds that (socket.connection.setup.timeout.max.ms). Zero means 30s.
	ConnectionSetupTimeoutMax time.Duration
	// ConnectionsMaxIdle closes a connection that was not used for so long (connections.max.idle.ms).
	// Zero means 9m, below the broker's own 10m; NoMaxIdle means never.
	ConnectionsMaxIdle time.Duration
	// SendBuffer is the size of the kernel's send buffer (send.buffer.bytes). Zero and OSDefault leave it to the operating
	// system, which makes it as large as the way to the broker needs; Java's 131072 lets about 260 KB through in a round trip.
	SendBuffer int
	// ReceiveBuffer is the size of the kernel's receive buffer (receive.buffer.bytes). Zero and OSDefault leave it to the
	// operating system; in Java it is 32768.
	ReceiveBuffer int
	// MaxResponseSize bounds what a broker may answer in one piece; a larger answer ends the connection.
	// Zero means 16 MiB. Java has no such bound for a producer.
	MaxResponseSize int

	// MetadataMaxAge is the age at which metadata is fetched anew without any sign of change (metadata.max.age.ms).
	// Zero means 5m.
	MetadataMaxAge time.Duration
	// MetadataMaxIdle is how long a topic nobody sends to stays known (metadata.max.idle.ms). Zero means 5m; the least is 5s.
	MetadataMaxIdle time.Duration
	// MetadataRecovery is what to do when no known broker can be reached (metadata.recovery.strategy). Zero means Rebootstrap.
	MetadataRecovery MetadataRecovery
	// MetadataRecoveryRebootstrapTrigger is how long metadata may fail before BootstrapServers are asked again
	// (metadata.recovery.rebootstrap.trigger.ms). Zero means 5m.
	MetadataRecoveryRebootstrapTrigger time.Duration
	// DisableClusterCheck goes on writing to brokers although they say that they belong to another cluster than the one
	// first met (metadata.cluster.check.enable=false). By default such a broker is left, and BootstrapServers are asked
	// again: an address that was reused must not get this cluster's records. The check costs each new connection a round trip.
	DisableClusterCheck bool

	// TransactionalID makes the producer transactional (transactional.id). Empty means that it is not.
	// This release does not support transactions and refuses it.
	TransactionalID string
	// TransactionTimeout is after how long the coordinator ends a transaction by itself (transaction.timeout.ms).
	// Zero means 60s. Refused without TransactionalID.
	TransactionTimeout time.Duration

	// TLS encrypts all connections (security.protocol=SSL or SASL_SSL, ssl.*). Nil means no encryption.
	// This release does not support TLS and refuses it.
	TLS *tls.Config
	// SASL is how the producer proves who it is (security.protocol=SASL_SSL or SASL_PLAINTEXT, sasl.*). Nil means not at all.
	// This release does not support SASL and refuses it.
	SASL sasl.Mechanism
	// AllowPlaintextCredentials sends SASL credentials although the connection is not encrypted
	// (security.protocol=SASL_PLAINTEXT). Default off: such a Config is refused.
	AllowPlaintextCredentials bool

	// MetricsNumSamples and MetricsSampleWindow say over which time rates, averages and maxima are taken: so many
	// windows of that length (metrics.num.samples, metrics.sample.window.ms). Zero means 2 windows of 30s.
	MetricsNumSamples int
	// MetricsSampleWindow: see MetricsNumSamples.
	MetricsSampleWindow time.Duration

	// Dial opens connections; addr is host:port as the cluster names its brokers. Nil means a net.Dialer with keep-alive.
	Dial func(ctx context.Context, network, addr string) (net.Conn, error)
	// Logger gets connection states at Info, retries at Warn, lost records at Error; never a line per record, never a
	// record's content or a credential. Nil means silence.
	Logger *slog.Logger
	// Trace is told about connections, requests and batches as they end. Nil means nobody is.
	Trace *Trace

	// explicit is what FromProperties found spelt out; only there does a default differ from the same value given.
	explicit explicitSettings
}

// explicitSettings remembers which Java properties were given where a contradiction is an error only then.
type explicitSettings struct {
	idempotence bool // enable.idempotence=true
}
