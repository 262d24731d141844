package metrics

import (
	"sync"
	"sync/atomic"
	"time"
)

// The defaults of metrics.num.samples and metrics.sample.window.ms.
const (
	DefaultSamples = 2
	DefaultWindow  = 30 * time.Second
)

// Set is everything one producer counts. A field is named for the metric, whose name in Kafka is in its comment;
// a Counter is also the metric's rate, a Stat also its average and maximum. Times are nanoseconds.
type Set struct {
	// Records and batches.
	RecordSendTotal     Counter // record-send: records in requests that were handed to a connection, first time only
	RecordRetryTotal    Counter // record-retry: records sent again
	RecordErrorTotal    Counter // record-error: records that failed, before or after they were accepted
	RecordSize          Stat    // record-size: the largest record of each batch
	RecordQueueTime     Stat    // record-queue-time: from a batch's first record to its drain
	RecordsPerRequest   Stat    // records-per-request
	BatchSize           Stat    // batch-size: bytes of a batch on the wire
	BatchSplitTotal     Counter // batch-split
	CompressionRate     Stat    // compression-rate: use ObserveRatio(compressed, raw)
	RequestLatency      Stat    // request-latency: of Produce requests
	ProduceThrottleTime Stat    // produce-throttle-time

	// Memory.
	BufferTotalBytes     Gauge   // buffer-total-bytes
	BufferAvailableBytes Gauge   // buffer-available-bytes
	WaitingThreads       Gauge   // waiting-threads: callers waiting for memory
	BufferExhaustedTotal Counter // buffer-exhausted: records that failed for lack of memory
	BufferPoolWaitTime   Counter // bufferpool-wait-time-ns-total, and bufferpool-wait-ratio

	// Callers' time.
	FlushTime        Counter // flush-time-ns-total
	MetadataWaitTime Counter // metadata-wait-time-ns-total

	// Network.
	ConnectionCount         Gauge   // connection-count
	ConnectionCreationTotal Counter // connection-creation
	ConnectionCloseTotal    Counter // connection-close
	RequestsInFlight        Gauge   // requests-in-flight
	RequestTotal            Counter // request
	RequestSize             Stat    // request-size
	ResponseTotal           Counter // response
	OutgoingByteTotal       Counter // outgoing-byte
	IncomingByteTotal       Counter // incoming-byte
	SelectTotal             Counter // select: iterations of the sender
	IOWaitTime              Stat    // io-wait: time between two iterations, nearly all of it waiting

	windows
	metadataAt atomic.Pointer[time.Time] // when metadata was updated last, for metadata-age

	mu     sync.RWMutex // guards the maps
	topics map[string]*TopicSet
	nodes  map[int32]*NodeSet
}

// TopicSet is what is counted for one topic.
type TopicSet struct {
	RecordSendTotal  Counter // record-send
	RecordRetryTotal Counter // record-retry
	RecordErrorTotal Counter // record-error
	ByteTotal        Counter // byte: bytes of batches on the wire
	CompressionRate  Stat    // compression-rate
}

// NodeSet is what is counted for one broker.
type NodeSet struct {
	RequestTotal      Counter // request
	RequestSize       Stat    // request-size
	RequestLatency    Stat    // request-latency
	ResponseTotal     Counter // response
	OutgoingByteTotal Counter // outgoing-byte
	IncomingByteTotal Counter // incoming-byte
}

// New makes a Set with so many sample windows of that length; what is not positive means Kafka's default.
// now is the beginning of the first window.
func New(samples int, window time.Duration, now time.Time) *Set {
	if samples <= 0 {
		samples = DefaultSamples
	}
	if window <= 0 {
		window = DefaultWindow
	}
	s := &Set{topics: map[string]*TopicSet{}, nodes: map[int32]*NodeSet{}}
	s.windows.init(samples, window, now)
	s.adopt(s.all()...)
	return s
}

// OrNew is s, or a Set that nobody reads where s is nil.
func OrNew(s *Set) *Set {
	if s != nil {
		return s
	}
	return New(0, 0, time.Time{})
}

func (s *Set) all() []windowed {
	return []windowed{
		&s.RecordSendTotal, &s.RecordRetryTotal, &s.RecordErrorTotal, &s.RecordSize, &s.RecordQueueTime,
		&s.RecordsPerRequest, &s.BatchSize, &s.BatchSplitTotal, &s.CompressionRate, &s.RequestLatency,
		&s.ProduceThrottleTime, &s.BufferExhaustedTotal, &s.BufferPoolWaitTime, &s.FlushTime, &s.MetadataWaitTime,
		&s.ConnectionCreationTotal, &s.ConnectionCloseTotal, &s.RequestTotal, &s.RequestSize, &s.ResponseTotal,
		&s.OutgoingByteTotal, &s.IncomingByteTotal, &s.SelectTotal, &s.IOWaitTime,
	}
}

func (t *TopicSet) all() []windowed {
	return []windowed{&t.RecordSendTotal, &t.RecordRetryTotal, &t.RecordErrorTotal, &t.ByteTotal, &t.CompressionRate}
}

func (n *NodeSet) all() []windowed {
	return []windowed{
		&n.RequestTotal, &n.RequestSize, &n.RequestLatency, &n.ResponseTotal, &n.OutgoingByteTotal, &n.IncomingByteTotal,
	}
}

// MetadataUpdated notes a successful update of metadata.
func (s *Set) MetadataUpdated(now time.Time) { s.metadataAt.Store(&now) }

// MetadataAge is how long ago that was, whatever the wall clock did since; 0 before the first.
func (s *Set) MetadataAge(now time.Time) time.Duration {
	at := s.metadataAt.Load()
	if at == nil {
		return 0
	}
	return max(0, now.Sub(*at))
}

// Topic is the topic's set, made when it is first asked for. Who counts often keeps the pointer.
func (s *Set) Topic(name string) *TopicSet {
	s.mu.RLock()
	t := s.topics[name]
	s.mu.RUnlock()
	if t != nil {
		return t
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if t = s.topics[name]; t == nil {
		t = new(TopicSet)
		s.adopt(t.all()...)
		s.topics[name] = t
	}
	return t
}

// Node is the broker's set, made when it is first asked for. Who counts often keeps the pointer.
func (s *Set) Node(id int32) *NodeSet {
	s.mu.RLock()
	n := s.nodes[id]
	s.mu.RUnlock()
	if n != nil {
		return n
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if n = s.nodes[id]; n == nil {
		n = new(NodeSet)
		s.adopt(n.all()...)
		s.nodes[id] = n
	}
	return n
}

// ForgetTopic drops the set of a topic that is not in use any more. Pointers to it stay good but are not read.
func (s *Set) ForgetTopic(name string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if t := s.topics[name]; t != nil {
		s.disown(t.all()...)
		delete(s.topics, name)
	}
}

// ForgetNode drops the set of a broker that is gone.
func (s *Set) ForgetNode(id int32) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if n := s.nodes[id]; n != nil {
		s.disown(n.all()...)
		delete(s.nodes, id)
	}
}

// Topics calls f for every topic, in no order.
func (s *Set) Topics(f func(name string, t *TopicSet)) {
	for name, t := range clone(&s.mu, s.topics) {
		f(name, t)
	}
}

// Nodes calls f for every broker, in no order.
func (s *Set) Nodes(f func(id int32, n *NodeSet)) {
	for id, n := range clone(&s.mu, s.nodes) {
		f(id, n)
	}
}

// clone copies m, so that nothing of the caller's runs with the lock held.
func clone[K comparable, V any](mu *sync.RWMutex, m map[K]V) map[K]V {
	mu.RLock()
	defer mu.RUnlock()
	c := make(map[K]V, len(m))
	for k, v := range m {
		c[k] = v
	}
	return c
}

// windows moves the sample windows of a Set on.
type windows struct {
	length time.Duration
	epoch  time.Time    // windows start at epoch + n x length
	next   atomic.Int64 // when the current window ends, as nanoseconds after epoch: lets Tick leave early

	winMu  sync.Mutex // guards the fields below, and the windows inside of every member. Taken after Set.mu
	starts []int64    // when each window began, in nanoseconds after epoch, newest first
	member map[windowed]struct{}
}

// windowed is a Counter or a Stat.
type windowed interface {
	init(samples int)
	shift(by int)
}

func (w *windows) init(samples int, length time.Duration, now time.Time) {
	w.length, w.epoch = length, now
	w.next.Store(int64(length))
	w.starts = make([]int64, samples)
	w.member = map[windowed]struct{}{}
}

func (w *windows) adopt(all ...windowed) {
	w.winMu.Lock()
	defer w.winMu.Unlock()
	for _, m := range all {
		m.init(len(w.starts))
		w.member[m] = struct{}{}
	}
}

func (w *windows) disown(all ...windowed) {
	w.winMu.Lock()
	defer w.winMu.Unlock()
	for _, m := range all {
		delete(w.member, m)
	}
}

// Tick says what time it is. Any goroutine.
func (w *windows) Tick(now time.Time) {
	t := int64(now.Sub(w.epoch))
	if t < w.next.Load() {
		return
	}
	w.winMu.Lock()
	defer w.winMu.Unlock()
	by := (t-w.next.Load())/int64(w.length) + 1
	if by <= 0 {
		return // another Tick was quicker
	}
	end := w.next.Load() + by*int64(w.length)
	n := int(min(by, int64(len(w.starts))))
	for m := range w.member {
		m.shift(n)
	}
	shift(w.starts, n, 0)
	for i := range n {
		w.starts[i] = end - int64(i+1)*int64(w.length)
	}
	w.next.Store(end)
}

// Rate is c's events per second over the windows up to now.
func (w *windows) Rate(c *Counter, now time.Time) float64 {
	w.winMu.Lock()
	defer w.winMu.Unlock()
	n, elapsed := w.sinceLocked(c, now)
	if elapsed <= 0 {
		return 0
	}
	return float64(n) / elapsed.Seconds()
}

// Ratio is the part of the time up to now that c, which counts nanoseconds, makes up. It may be above 1 where
// several goroutines add to c.
func (w *windows) Ratio(c *Counter, now time.Time) float64 {
	return w.Rate(c, now) / float64(time.Second)
}

// AvgMax is the average and the maximum of what s observed over the windows; zeros if nothing was.
func (w *windows) AvgMax(s *Stat, now time.Time) (avg, highest float64) {
	w.winMu.Lock()
	defer w.winMu.Unlock()
	n, _ := w.sinceLocked(&s.count, now)
	if n <= 0 {
		return 0, 0
	}
	sum, _ := w.sinceLocked(&s.sum, now)
	top := s.max.Load()
	for _, m := range s.maxima {
		top = max(top, m)
	}
	return float64(sum) / float64(n), float64(top)
}

// sinceLocked is what c counted since the oldest window began, and how long ago that was. winMu must be held.
func (w *windows) sinceLocked(c *Counter, now time.Time) (int64, time.Duration) {
	oldest := len(w.starts) - 1
	return c.total.Load() - c.starts[oldest], now.Sub(w.epoch) - time.Duration(w.starts[oldest])
}
