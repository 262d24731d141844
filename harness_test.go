package producer_test

import (
	"context"
	"fmt"
	"net"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/kafka-reservoir/producer"
	"github.com/kafka-reservoir/producer/internal/leak"
	"github.com/kafka-reservoir/producer/internal/simnet"
	"github.com/kafka-reservoir/producer/internal/testbroker"
	"github.com/kafka-reservoir/producer/protocol"
)

// lab is a cluster on a network in memory, inside a synctest bubble: time passes only while all goroutines wait.
type lab struct {
	*testbroker.Server
	network *simnet.Network
	config  producer.Config // reaches the cluster; all else is default
}

// inLab runs f with a cluster. Afterwards nothing of a producer may run any more, and the cluster must not have
// seen anything improper.
func inLab(t *testing.T, cfg testbroker.Config, f func(t *testing.T, l *lab)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		network := simnet.New(simnet.Link{})
		cfg.Listen = func(node int32) (net.Listener, error) { return network.Listen(fmt.Sprintf("broker-%d:9092", node)) }
		s, err := testbroker.Start(cfg)
		require.NoError(t, err)
		defer func() {
			nothingRuns(t)
			s.Cluster().Check(t)
			require.NoError(t, s.Close())
		}()
		f(t, &lab{Server: s, network: network, config: producer.Config{BootstrapServers: s.Addrs(), Dial: network.Dial}})
	})
}

// texts makes a producer of strings; change may be nil.
func (l *lab) texts(t *testing.T, change func(c *producer.Config)) *producer.KafkaProducer[string, string] {
	t.Helper()
	c := l.config
	if change != nil {
		change(&c)
	}
	return newStrings(t, c)
}

// values are the values that a partition holds, in order.
func values(c *testbroker.Cluster, topic string, partition int32) []string {
	var all []string
	for _, r := range c.Records(topic, partition) {
		all = append(all, string(r.Value))
	}
	return all
}

// requests are those of one API that came in, oldest first.
func requests(c *testbroker.Cluster, key protocol.APIKey) []*testbroker.Request {
	var all []*testbroker.Request
	for _, e := range c.Requests() {
		if e.Request.API == key {
			all = append(all, e.Request)
		}
	}
	return all
}

// on is a fault for every request of one API.
func on(key protocol.APIKey, v testbroker.Verdict) func(*testbroker.Request) testbroker.Verdict {
	return func(r *testbroker.Request) testbroker.Verdict {
		if r.API == key {
			return v
		}
		return testbroker.Verdict{}
	}
}

// nothingRuns fails the test if a goroutine of a producer is left. Inside a bubble.
func nothingRuns(t *testing.T) {
	t.Helper()
	if t.Failed() {
		return // a test that was given up half way has not closed its producers
	}
	synctest.Wait() // one that was about to return has returned
	if left := leak.Goroutines(); len(left) > 0 {
		t.Errorf("%d goroutines left behind:\n%s", len(left), strings.Join(left, "\n\n"))
	}
}

// whole checks that all of a producer's memory is back where it belongs: the bytes of a settled record are, once the
// connection's writer has let go of them. Inside a bubble.
func whole(t *testing.T, p interface{ Metrics() producer.Metrics }) {
	t.Helper()
	synctest.Wait()
	m := p.Metrics()
	assert.Equal(t, m.BufferTotalBytes, m.BufferAvailableBytes, "memory is missing")
	assert.Zero(t, m.WaitingThreads)
}

// end closes a producer within a time that nothing but a hang can use up, and checks that nothing is left of it.
// Inside a bubble.
func end[K, V any](t *testing.T, p *producer.KafkaProducer[K, V]) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), time.Hour)
	defer cancel()
	require.NoError(t, p.Close(ctx))
	nothingRuns(t)
	whole(t, p)
}

// ledger counts what callbacks tell, for records that are numbered by partition. Any goroutine.
type ledger struct {
	mu     sync.Mutex
	order  map[int32][]int // numbers of the records, in the order of their callbacks
	times  map[int]int     // how often each was told
	errs   map[int]error
	offset map[int]int64
}

func newLedger() *ledger {
	return &ledger{order: map[int32][]int{}, times: map[int]int{}, errs: map[int]error{}, offset: map[int]int64{}}
}

// callback is the callback of record n.
func (l *ledger) callback(n int) producer.Callback {
	return func(m producer.RecordMetadata, err error) {
		l.mu.Lock()
		defer l.mu.Unlock()
		l.order[m.Partition] = append(l.order[m.Partition], n)
		l.times[n]++
		l.errs[n] = err
		l.offset[n] = m.Offset
	}
}

// check demands exactly one callback for each record up to n, in order within every partition. It is for records that
// were accepted: others are told of at once.
func (l *ledger) check(t *testing.T, n int) {
	t.Helper()
	l.once(t, n)
	l.mu.Lock()
	defer l.mu.Unlock()
	for partition, order := range l.order {
		for i := 1; i < len(order); i++ {
			if order[i] < order[i-1] {
				t.Errorf("partition %d: the callback of record %d came after that of %d", partition, order[i-1], order[i])
				break
			}
		}
	}
}

// once demands exactly one callback for each record up to n.
func (l *ledger) once(t *testing.T, n int) {
	t.Helper()
	l.mu.Lock()
	defer l.mu.Unlock()
	assert.Len(t, l.times, n, "records told of")
	for i, times := range l.times {
		if times != 1 {
			t.Errorf("record %d was told of %d times", i, times)
		}
	}
}

// failures are the errors that were told.
func (l *ledger) failures() []error {
	l.mu.Lock()
	defer l.mu.Unlock()
	var all []error
	for _, err := range l.errs {
		if err != nil {
			all = append(all, err)
		}
	}
	return all
}

// returned reports whether done is closed.
func returned(done <-chan struct{}) bool {
	select {
	case <-done:
		return true
	default:
		return false
	}
}

// async runs f on a goroutine of its own and returns a channel that is closed when it has returned.
func async(f func()) <-chan struct{} {
	done := make(chan struct{})
	go func() {
		defer close(done)
		f()
	}()
	return done
}

// recorder notes the calls of an interceptor.
type recorder struct {
	mu  sync.Mutex
	log []string
}

func (r *recorder) note(format string, args ...any) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.log = append(r.log, fmt.Sprintf(format, args...))
}

func (r *recorder) OnSend(ctx context.Context, rec *producer.Record[string, string]) context.Context {
	r.note("send %s", rec.Value)
	rec.Value += "!"
	return ctx
}

func (r *recorder) OnAcknowledgement(_ context.Context, m producer.RecordMetadata, err error) {
	r.note("ack %v %v", m, err != nil)
}

// newStrings makes a producer of strings.
func newStrings(t *testing.T, c producer.Config) *producer.KafkaProducer[string, string] {
	t.Helper()
	p, err := producer.New(c, producer.String(), producer.String())
	require.NoError(t, err)
	return p
}

func text(topic, value string) producer.Record[string, string] {
	return producer.Record[string, string]{Topic: topic, Value: value}
}

// warmUp has the producer connected, its topic known and its partition's first batch acknowledged.
func warmUp(t *testing.T, p *producer.KafkaProducer[string, string], topic string) {
	t.Helper()
	_, err := p.Send(context.Background(), text(topic, "warm up")).Wait(context.Background())
	require.NoError(t, err)
}
