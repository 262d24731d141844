package producer

import (
	"iter"
	"maps"
	"slices"
	"strconv"
	"time"
)

// MetricName is what Kafka's own producer calls one number of [Metrics], for dashboards made for it.
type MetricName struct {
	// Group is producer-metrics, producer-topic-metrics or producer-node-metrics.
	Group string
	// Name is the metric's name in its group, such as record-send-total.
	Name string
	// Tag is the topic, or node-<id>, that the number is about; empty in the group producer-metrics.
	Tag string
}

const (
	clientGroup = "producer-metrics"
	topicGroup  = "producer-topic-metrics"
	nodeGroup   = "producer-node-metrics"
)

// All yields every number under Kafka's name for it and in Kafka's unit: times are milliseconds, but nanoseconds
// where the name has ns in it and seconds for metadata-age. Topics and nodes come in order.
func (m Metrics) All() iter.Seq2[MetricName, float64] {
	return func(yield func(MetricName, float64) bool) {
		y := yielder{group: clientGroup, yield: yield, more: true}
		m.client(&y)
		y.group = topicGroup
		for _, topic := range slices.Sorted(maps.Keys(m.Topics)) {
			y.tag = topic
			m.Topics[topic].each(&y)
		}
		y.group = nodeGroup
		for _, id := range slices.Sorted(maps.Keys(m.Nodes)) {
			y.tag = "node-" + strconv.Itoa(int(id))
			m.Nodes[id].each(&y)
		}
	}
}

func (m Metrics) client(y *yielder) {
	y.rate("record-send", m.RecordSend)
	y.rate("record-retry", m.RecordRetry)
	y.rate("record-error", m.RecordError)
	y.stat("record-size", m.RecordSize)
	y.time("record-queue-time", m.RecordQueueTime)
	y.value("records-per-request-avg", m.RecordsPerRequest.Avg)
	y.stat("batch-size", m.BatchSize)
	y.rate("batch-split", m.BatchSplit)
	y.value("compression-rate-avg", m.CompressionRate.Avg)
	y.time("request-latency", m.RequestLatency)
	y.time("produce-throttle-time", m.ProduceThrottleTime)

	y.value("buffer-total-bytes", float64(m.BufferTotalBytes))
	y.value("buffer-available-bytes", float64(m.BufferAvailableBytes))
	y.value("waiting-threads", float64(m.WaitingThreads))
	y.rate("buffer-exhausted", m.BufferExhausted)
	y.value("bufferpool-wait-time-ns-total", float64(m.BufferPoolWaitTime))
	y.value("bufferpool-wait-ratio", m.BufferPoolWaitRatio)
	y.value("flush-time-ns-total", float64(m.FlushTime))
	y.value("metadata-wait-time-ns-total", float64(m.MetadataWaitTime))
	y.value("metadata-age", m.MetadataAge.Seconds())

	y.value("connection-count", float64(m.ConnectionCount))
	y.rate("connection-creation", m.ConnectionCreation)
	y.rate("connection-close", m.ConnectionClose)
	y.value("requests-in-flight", float64(m.RequestsInFlight))
	y.rate("request", m.Request)
	y.rate("response", m.Response)
	y.stat("request-size", m.RequestSize)
	y.rate("outgoing-byte", m.OutgoingBytes)
	y.rate("incoming-byte", m.IncomingBytes)
	y.rate("select", m.Select)
	y.value("io-wait-time-ns-avg", float64(m.IOWaitTime.Avg))
	y.value("io-wait-time-ns-total", float64(m.IOWaitTime.Total))
}

func (t TopicMetrics) each(y *yielder) {
	y.rate("record-send", t.RecordSend)
	y.rate("record-retry", t.RecordRetry)
	y.rate("record-error", t.RecordError)
	y.rate("byte", t.Bytes)
	y.value("compression-rate", t.CompressionRate.Avg)
}

func (n NodeMetrics) each(y *yielder) {
	y.rate("request", n.Request)
	y.rate("response", n.Response)
	y.rate("outgoing-byte", n.OutgoingBytes)
	y.rate("incoming-byte", n.IncomingBytes)
	y.stat("request-size", n.RequestSize)
	y.time("request-latency", n.RequestLatency)
}

// yielder yields until it is told to stop.
type yielder struct {
	group, tag string
	yield      func(MetricName, float64) bool
	more       bool
}

func (y *yielder) value(name string, v float64) {
	y.more = y.more && y.yield(MetricName{Group: y.group, Name: name, Tag: y.tag}, v)
}

func (y *yielder) rate(name string, r MetricRate) {
	y.value(name+"-total", float64(r.Total))
	y.value(name+"-rate", r.PerSecond)
}

func (y *yielder) stat(name string, s MetricStat) {
	y.value(name+"-avg", s.Avg)
	y.value(name+"-max", s.Max)
}

func (y *yielder) time(name string, t MetricTime) {
	y.value(name+"-avg", float64(t.Avg)/float64(time.Millisecond))
	y.value(name+"-max", float64(t.Max)/float64(time.Millisecond))
}
