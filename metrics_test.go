package producer

import (
	"reflect"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"

	"github.com/kafka-reservoir/producer/internal/metrics"
)

func TestMetricsSnapshot(t *testing.T) {
	start := time.Date(2030, 1, 1, 0, 0, 0, 0, time.UTC)
	now := start.Add(10 * time.Second)
	set := metrics.New(2, 30*time.Second, start)
	set.RecordSendTotal.Add(100)
	set.RequestLatency.ObserveDuration(2 * time.Millisecond)
	set.RequestLatency.ObserveDuration(4 * time.Millisecond)
	set.CompressionRate.ObserveRatio(1, 4)
	set.BufferTotalBytes.Set(1000)
	set.BufferPoolWaitTime.Add(int(5 * time.Second))
	set.MetadataUpdated(start.Add(4 * time.Second))
	set.WaitingThreads.Add(2)
	set.Topic("b").ByteTotal.Add(50)
	set.Topic("a").RecordErrorTotal.Add(1)
	set.Node(1).RequestTotal.Add(3)

	m := snapshot(set, now)
	assert.Equal(t, MetricRate{Total: 100, PerSecond: 10}, m.RecordSend)
	assert.Equal(t, MetricTime{Avg: 3 * time.Millisecond, Max: 4 * time.Millisecond, Total: 6 * time.Millisecond}, m.RequestLatency)
	assert.InDelta(t, 0.25, m.CompressionRate.Avg, 1e-9)
	assert.EqualValues(t, 1000, m.BufferTotalBytes)
	assert.Equal(t, 5*time.Second, m.BufferPoolWaitTime)
	assert.InDelta(t, 0.5, m.BufferPoolWaitRatio, 1e-9)
	assert.Equal(t, 6*time.Second, m.MetadataAge)
	assert.Equal(t, 2, m.WaitingThreads)
	assert.Equal(t, MetricRate{Total: 50, PerSecond: 5}, m.Topics["b"].Bytes)
	assert.EqualValues(t, 3, m.Nodes[1].Request.Total)

	values := map[MetricName]float64{}
	var order []string
	for name, v := range m.All() {
		values[name] = v
		if name.Tag != "" && (len(order) == 0 || order[len(order)-1] != name.Tag) {
			order = append(order, name.Tag)
		}
	}
	assert.Equal(t, []string{"a", "b", "node-1"}, order)
	for name, want := range map[MetricName]float64{
		{"producer-metrics", "record-send-total", ""}:             100,
		{"producer-metrics", "record-send-rate", ""}:              10,
		{"producer-metrics", "request-latency-avg", ""}:           3,
		{"producer-metrics", "request-latency-max", ""}:           4,
		{"producer-metrics", "bufferpool-wait-time-ns-total", ""}: 5e9,
		{"producer-metrics", "metadata-age", ""}:                  6,
		{"producer-topic-metrics", "byte-total", "b"}:             50,
		{"producer-topic-metrics", "record-error-total", "a"}:     1,
		{"producer-node-metrics", "request-total", "node-1"}:      3,
	} {
		got, ok := values[name]
		assert.True(t, ok, "%v", name)
		assert.InDelta(t, want, got, 1e-9, "%v", name)
	}

	n := 0
	for range m.All() {
		if n++; n == 3 {
			break
		}
	}
	assert.Equal(t, 3, n, "stops when told to")
}

// Every number of java-producer's table of metrics that exists so far is there, under its name.
func TestMetricsHaveKafkasNames(t *testing.T) {
	set := metrics.New(0, 0, time.Time{})
	set.Topic("t")
	set.Node(1)
	have := map[string]bool{}
	for name := range snapshot(set, time.Unix(1, 0)).All() {
		have[name.Group+" "+name.Name] = true
	}
	for group, names := range map[string][]string{
		"producer-metrics": {
			"waiting-threads", "buffer-total-bytes", "buffer-available-bytes", "bufferpool-wait-ratio",
			"bufferpool-wait-time-ns-total", "buffer-exhausted-rate", "buffer-exhausted-total", "batch-size-avg",
			"batch-size-max", "compression-rate-avg", "record-queue-time-avg", "record-queue-time-max",
			"request-latency-avg", "request-latency-max", "produce-throttle-time-avg", "produce-throttle-time-max",
			"record-send-rate", "record-send-total", "records-per-request-avg", "record-retry-rate", "record-retry-total",
			"record-error-rate", "record-error-total", "record-size-avg", "record-size-max", "requests-in-flight",
			"metadata-age", "batch-split-rate", "batch-split-total", "flush-time-ns-total", "metadata-wait-time-ns-total",
			"connection-count", "connection-creation-rate", "connection-creation-total", "connection-close-rate",
			"connection-close-total", "outgoing-byte-rate", "outgoing-byte-total", "incoming-byte-rate",
			"incoming-byte-total", "request-rate", "request-total", "request-size-avg", "request-size-max",
			"response-rate", "response-total", "select-rate", "select-total", "io-wait-time-ns-avg", "io-wait-time-ns-total",
		},
		"producer-node-metrics": {
			"request-rate", "request-total", "request-size-avg", "request-size-max", "outgoing-byte-rate",
			"outgoing-byte-total", "response-rate", "response-total", "incoming-byte-rate", "incoming-byte-total",
			"request-latency-avg", "request-latency-max",
		},
		"producer-topic-metrics": {
			"record-send-rate", "record-send-total", "byte-rate", "byte-total", "compression-rate", "record-retry-rate",
			"record-retry-total", "record-error-rate", "record-error-total",
		},
	} {
		for _, name := range names {
			assert.True(t, have[group+" "+name], "%s %s", group, name)
		}
	}
}

// Nothing of the Set is forgotten by the snapshot: whatever is counted shows up.
func TestMetricsShowEverythingCounted(t *testing.T) {
	start := time.Date(2030, 1, 1, 0, 0, 0, 0, time.UTC)
	now := start.Add(time.Second)
	typ := reflect.TypeFor[metrics.Set]()
	for i := range typ.NumField() {
		if !typ.Field(i).IsExported() {
			continue
		}
		set := metrics.New(0, 0, start)
		before := snapshot(set, now)
		switch f := reflect.ValueOf(set).Elem().Field(i).Addr().Interface().(type) {
		case *metrics.Counter:
			f.Add(5)
		case *metrics.Gauge:
			f.Set(5)
		case *metrics.Stat:
			f.Observe(5)
		}
		assert.NotEqual(t, before, snapshot(set, now), typ.Field(i).Name)
	}
}
