package producer

import (
	"time"

	"github.com/kafka-reservoir/producer/internal/metrics"
)

// Metrics is what a producer has counted, at one moment. The names in brackets are Kafka's (group
// producer-metrics). Rates, averages and maxima are over the sample windows of [Config.MetricsNumSamples].
type Metrics struct {
	// RecordSend counts records handed to a connection, each once (record-send-total, record-send-rate).
	RecordSend MetricRate
	// RecordRetry counts records sent again (record-retry-total, record-retry-rate).
	RecordRetry MetricRate
	// RecordError counts records that failed (record-error-total, record-error-rate).
	RecordError MetricRate
	// RecordSize is the size in bytes of the largest record of a batch (record-size-avg, record-size-max).
	RecordSize MetricStat
	// RecordQueueTime is from a batch's first record to its sending (record-queue-time-avg, record-queue-time-max).
	RecordQueueTime MetricTime
	// RecordsPerRequest is how many records a Produce request carries (records-per-request-avg).
	RecordsPerRequest MetricStat
	// BatchSize is the size in bytes of a batch on the wire (batch-size-avg, batch-size-max).
	BatchSize MetricStat
	// BatchSplit counts batches split because the broker found them too large (batch-split-total, batch-split-rate).
	BatchSplit MetricRate
	// CompressionRate is compressed by uncompressed size (compression-rate-avg).
	CompressionRate MetricStat
	// RequestLatency is from sending a Produce request to its answer (request-latency-avg, request-latency-max).
	RequestLatency MetricTime
	// ProduceThrottleTime is how long brokers asked to be left alone (produce-throttle-time-avg, produce-throttle-time-max).
	ProduceThrottleTime MetricTime

	// BufferTotalBytes is Config.BufferMemory (buffer-total-bytes).
	BufferTotalBytes int64
	// BufferAvailableBytes is what of it is free (buffer-available-bytes).
	BufferAvailableBytes int64
	// WaitingThreads is how many Sends wait for memory now (waiting-threads).
	WaitingThreads int
	// BufferExhausted counts records that failed for lack of memory (buffer-exhausted-total, buffer-exhausted-rate).
	BufferExhausted MetricRate
	// BufferPoolWaitTime is how long Sends have waited for memory, all together (bufferpool-wait-time-ns-total).
	BufferPoolWaitTime time.Duration
	// BufferPoolWaitRatio is the part of the time that makes up; above 1 when several Sends wait at once
	// (bufferpool-wait-ratio).
	BufferPoolWaitRatio float64
	// FlushTime is how long callers have spent in Flush (flush-time-ns-total).
	FlushTime time.Duration
	// MetadataWaitTime is how long Sends have waited for metadata (metadata-wait-time-ns-total).
	MetadataWaitTime time.Duration
	// MetadataAge is how old the metadata is; 0 before the first (metadata-age).
	MetadataAge time.Duration

	// ConnectionCount is how many connections are open (connection-count).
	ConnectionCount int
	// ConnectionCreation and ConnectionClose count connections opened and closed
	// (connection-creation-total, connection-creation-rate, connection-close-total, connection-close-rate).
	ConnectionCreation, ConnectionClose MetricRate
	// RequestsInFlight is how many requests are unanswered (requests-in-flight).
	RequestsInFlight int
	// Request and Response count requests sent and answers received, of all kinds; those that make a connection are left out
	// (request-total, request-rate, response-total, response-rate).
	Request, Response MetricRate
	// RequestSize is the size of a request in bytes (request-size-avg, request-size-max).
	RequestSize MetricStat
	// OutgoingBytes and IncomingBytes count what went over the network
	// (outgoing-byte-total, outgoing-byte-rate, incoming-byte-total, incoming-byte-rate).
	OutgoingBytes, IncomingBytes MetricRate
	// Select counts iterations of the sender (select-total, select-rate).
	Select MetricRate
	// IOWaitTime is the time between two iterations of the sender, nearly all of it waiting
	// (io-wait-time-ns-avg, io-wait-time-ns-total).
	IOWaitTime MetricTime

	// Topics has what is counted for each topic in use: until nothing was sent to it for MetadataMaxIdle
	// (group producer-topic-metrics).
	Topics map[string]TopicMetrics
	// Nodes has what is counted for each broker by its id, until it has left the cluster for a minute or two, and for bootstrap
	// servers as -1, -2, … (group producer-node-metrics).
	Nodes map[int32]NodeMetrics
}

// TopicMetrics is what is counted for one topic.
type TopicMetrics struct {
	// RecordSend, RecordRetry, RecordError: as in Metrics.
	RecordSend, RecordRetry, RecordError MetricRate
	// Bytes counts bytes of batches on the wire (byte-total, byte-rate).
	Bytes MetricRate
	// CompressionRate is compressed by uncompressed size (compression-rate).
	CompressionRate MetricStat
}

// NodeMetrics is what is counted for one broker.
type NodeMetrics struct {
	// Request, Response, OutgoingBytes, IncomingBytes: as in Metrics.
	Request, Response, OutgoingBytes, IncomingBytes MetricRate
	// RequestSize is in bytes (request-size-avg, request-size-max).
	RequestSize MetricStat
	// RequestLatency is of Produce requests (request-latency-avg, request-latency-max).
	RequestLatency MetricTime
}

// MetricRate is a count since the producer was made, and its events per second lately.
type MetricRate struct {
	Total     int64
	PerSecond float64
}

// MetricStat is the average and the maximum of a value lately.
type MetricStat struct {
	Avg, Max float64
}

// MetricTime is the average and the maximum of a time lately, and its sum since the producer was made.
type MetricTime struct {
	Avg, Max, Total time.Duration
}

// snapshot reads set, whose windows end at now.
func snapshot(set *metrics.Set, now time.Time) Metrics {
	set.Tick(now)
	r := reader{set, now}
	responses := r.rate(&set.ResponseTotal) // before the requests: never more answers than questions
	m := Metrics{
		RecordSend:          r.rate(&set.RecordSendTotal),
		RecordRetry:         r.rate(&set.RecordRetryTotal),
		RecordError:         r.rate(&set.RecordErrorTotal),
		RecordSize:          r.stat(&set.RecordSize),
		RecordQueueTime:     r.time(&set.RecordQueueTime),
		RecordsPerRequest:   r.stat(&set.RecordsPerRequest),
		BatchSize:           r.stat(&set.BatchSize),
		BatchSplit:          r.rate(&set.BatchSplitTotal),
		CompressionRate:     r.ratio(&set.CompressionRate),
		RequestLatency:      r.time(&set.RequestLatency),
		ProduceThrottleTime: r.time(&set.ProduceThrottleTime),

		BufferTotalBytes:     set.BufferTotalBytes.Load(),
		BufferAvailableBytes: set.BufferAvailableBytes.Load(),
		WaitingThreads:       int(set.WaitingThreads.Load()),
		BufferExhausted:      r.rate(&set.BufferExhaustedTotal),
		BufferPoolWaitTime:   time.Duration(set.BufferPoolWaitTime.Load()),
		BufferPoolWaitRatio:  set.Ratio(&set.BufferPoolWaitTime, now),
		FlushTime:            time.Duration(set.FlushTime.Load()),
		MetadataWaitTime:     time.Duration(set.MetadataWaitTime.Load()),

		ConnectionCount:    int(set.ConnectionCount.Load()),
		ConnectionCreation: r.rate(&set.ConnectionCreationTotal),
		ConnectionClose:    r.rate(&set.ConnectionCloseTotal),
		RequestsInFlight:   int(set.RequestsInFlight.Load()),
		Request:            r.rate(&set.RequestTotal),
		Response:           responses,
		RequestSize:        r.stat(&set.RequestSize),
		OutgoingBytes:      r.rate(&set.OutgoingByteTotal),
		IncomingBytes:      r.rate(&set.IncomingByteTotal),
		Select:             r.rate(&set.SelectTotal),
		IOWaitTime:         r.time(&set.IOWaitTime),

		Topics: map[string]TopicMetrics{},
		Nodes:  map[int32]NodeMetrics{},
	}
	m.MetadataAge = set.MetadataAge(now)
	set.Topics(func(name string, t *metrics.TopicSet) {
		m.Topics[name] = TopicMetrics{
			RecordSend:      r.rate(&t.RecordSendTotal),
			RecordRetry:     r.rate(&t.RecordRetryTotal),
			RecordError:     r.rate(&t.RecordErrorTotal),
			Bytes:           r.rate(&t.ByteTotal),
			CompressionRate: r.ratio(&t.CompressionRate),
		}
	})
	set.Nodes(func(id int32, n *metrics.NodeSet) {
		responses := r.rate(&n.ResponseTotal)
		m.Nodes[id] = NodeMetrics{
			Request:        r.rate(&n.RequestTotal),
			Response:       responses,
			OutgoingBytes:  r.rate(&n.OutgoingByteTotal),
			IncomingBytes:  r.rate(&n.IncomingByteTotal),
			RequestSize:    r.stat(&n.RequestSize),
			RequestLatency: r.time(&n.RequestLatency),
		}
	})
	return m
}

// reader turns what a Set holds into what Metrics shows.
type reader struct {
	set *metrics.Set
	now time.Time
}

func (r reader) rate(c *metrics.Counter) MetricRate {
	return MetricRate{Total: c.Load(), PerSecond: r.set.Rate(c, r.now)}
}

func (r reader) stat(s *metrics.Stat) MetricStat {
	avg, top := r.set.AvgMax(s, r.now)
	return MetricStat{Avg: avg, Max: top}
}

func (r reader) ratio(s *metrics.Stat) MetricStat {
	m := r.stat(s)
	return MetricStat{Avg: m.Avg / metrics.RatioUnit, Max: m.Max / metrics.RatioUnit}
}

func (r reader) time(s *metrics.Stat) MetricTime {
	m := r.stat(s)
	return MetricTime{Avg: time.Duration(m.Avg), Max: time.Duration(m.Max), Total: time.Duration(s.Sum())}
}
