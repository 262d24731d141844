package fieldcases

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"net"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/kafka-reservoir/producer"
	"github.com/kafka-reservoir/producer/internal/leak"
	"github.com/kafka-reservoir/producer/internal/simnet"
	"github.com/kafka-reservoir/producer/internal/testbroker"
	"github.com/kafka-reservoir/producer/protocol"
)

// T is the topic of most cases.
const T = "t"

// kafka is the producer that cases drive, of plain bytes.
type kafka = *producer.KafkaProducer[[]byte, []byte]

type record = producer.Record[[]byte, []byte]

// world is what a case plays in: a cluster and its producers on a network in memory, inside a synctest bubble, where time
// passes only while all goroutines wait. It keeps a book of every record.
type world struct {
	*testbroker.Server
	t       *testing.T
	network *simnet.Network

	// What a case's own faults make true, and no client can help.
	mayDouble  bool // a record may be in a log twice: no idempotence, or a broker that forgot
	mayLose    bool // acknowledged records may be missing: acks=0, a topic deleted, an unclean election
	mayReorder bool // records may be out of order: no idempotence with several requests in flight
	mayBreach  bool // the broker may complain of the client: it was made to lie

	mu        sync.Mutex
	producers []kafka
	closed    map[kafka]bool
	book      []*sent
	log       []logLine
	dials     []dial
}

// dial is one attempt to connect, as Config.Dial sees it.
type dial struct {
	address string
	at      time.Time
}

// sent is one record, and what the producer said of it.
type sent struct {
	record record
	from   string // who sent it, a goroutine that sends one record after another: order counts for each sender
	number int    // position in the book, and order of the calls of one sender

	mu    sync.Mutex
	times int
	meta  producer.RecordMetadata
	err   error
	at    time.Time
	done  chan struct{}
}

// play runs a case and the checks that all cases have in common (C1 to C8).
func play(t *testing.T, cfg testbroker.Config, f func(w *world)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		network := simnet.New(simnet.Link{})
		if cfg.Listen == nil {
			cfg.Listen = func(node int32) (net.Listener, error) { return network.Listen(fmt.Sprintf("broker-%d:9092", node)) }
		}
		if cfg.Topics == nil {
			cfg.Topics = []testbroker.Topic{{Name: T, Partitions: max(cfg.Partitions, 1)}}
		}
		server, err := testbroker.Start(cfg)
		require.NoError(t, err)
		defer func() { require.NoError(t, server.Close()) }()
		w := &world{Server: server, t: t, network: network, closed: map[kafka]bool{}}
		f(w)
		if !t.Failed() {
			w.check()
		}
	})
}

// t0 is the configuration that the cases assume, as change has it.
func (w *world) t0(change func(c *producer.Config)) producer.Config {
	c := producer.Config{
		BootstrapServers: w.Addrs(), Dial: w.dial, Logger: slog.New(logBook{w}),
		Linger: 5 * time.Millisecond, BatchSize: 16 << 10, BufferMemory: 32 << 20, MaxInFlight: 5,
		MaxBlock: time.Second, RequestTimeout: 500 * time.Millisecond, DeliveryTimeout: 3 * time.Second,
		RetryBackoff: 20 * time.Millisecond, RetryBackoffMax: 100 * time.Millisecond,
		ReconnectBackoff: 20 * time.Millisecond, ReconnectBackoffMax: 100 * time.Millisecond,
		ConnectionSetupTimeout: 300 * time.Millisecond, MetadataMaxAge: time.Minute, MetadataMaxIdle: time.Minute,
	}
	if change != nil {
		change(&c)
	}
	return c
}

// dial connects to an address of the network, and notes that it was tried. Names that end in .invalid are unknown.
func (w *world) dial(ctx context.Context, network, address string) (net.Conn, error) {
	w.mu.Lock()
	w.dials = append(w.dials, dial{address, time.Now()})
	w.mu.Unlock()
	if host, _, _ := net.SplitHostPort(address); strings.HasSuffix(host, ".invalid") {
		return nil, &net.OpError{Op: "dial", Net: network, Err: &net.DNSError{Err: "no such host", Name: host, IsNotFound: true}}
	}
	return w.network.Dial(ctx, network, address)
}

// dialled are the times at which connections to an address were tried.
func (w *world) dialled(address string) []time.Time {
	w.mu.Lock()
	defer w.mu.Unlock()
	var times []time.Time
	for _, d := range w.dials {
		if d.address == address {
			times = append(times, d.at)
		}
	}
	return times
}

// producer makes a producer of t0, as change has it. It is closed and looked through at the end of the case.
func (w *world) producer(change func(c *producer.Config)) kafka {
	w.t.Helper()
	p, err := producer.New(w.t0(change), producer.Bytes(), producer.Bytes())
	require.NoError(w.t, err)
	w.mu.Lock()
	w.producers = append(w.producers, p)
	w.mu.Unlock()
	return p
}

// to is a record of text for a partition of T; a negative partition leaves the choice to the producer. Values have to
// be unique in their case, because records are told apart by them.
func to(partition int32, format string, args ...any) record {
	r := record{Topic: T, Value: fmt.Appendf(nil, format, args...)}
	if partition >= 0 {
		r.Partition = producer.OnPartition(partition)
	}
	return r
}

// send sends a record for the case's main sender.
func (w *world) send(p kafka, r record) *sent {
	return w.sendFrom("", context.Background(), p, r, nil)
}

// sendFrom sends a record for one of several senders, with the caller's ctx, and calls back after the book has noted the
// result. It returns when Send does.
func (w *world) sendFrom(from string, ctx context.Context, p kafka, r record, back producer.Callback) *sent {
	s := w.enter(from, r)
	p.SendFunc(ctx, r, func(m producer.RecordMetadata, err error) {
		s.settle(m, err)
		if back != nil {
			back(m, err)
		}
	})
	return s
}

// sendWait sends a record and waits for its future, as callers do that need the result.
func (w *world) sendWait(p kafka, r record) (producer.RecordMetadata, error) {
	s := w.enter("", r)
	m, err := p.Send(context.Background(), r).Wait(context.Background())
	s.settle(m, err)
	return m, err
}

// enter puts a record into the book.
func (w *world) enter(from string, r record) *sent {
	s := &sent{record: r, from: from, done: make(chan struct{})}
	s.record.Key, s.record.Value, s.record.Headers = bytes.Clone(r.Key), bytes.Clone(r.Value), slices.Clone(r.Headers)
	for i, h := range r.Headers {
		s.record.Headers[i].Value = bytes.Clone(h.Value)
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	s.number = len(w.book)
	w.book = append(w.book, s)
	return s
}

// settle notes a result.
func (s *sent) settle(m producer.RecordMetadata, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.times++
	if s.times == 1 {
		s.meta, s.err, s.at = m, err, time.Now()
		close(s.done)
	}
}

// note puts a record into the book that a case has sent by itself and knows the result of.
func (w *world) note(r record, from string, m producer.RecordMetadata, err error) {
	s := &sent{record: r, from: from, number: len(w.book), times: 1, meta: m, err: err, done: make(chan struct{})}
	close(s.done)
	w.book = append(w.book, s)
}

// wait returns when the record's result is known, in no more than a day.
func (s *sent) wait() (producer.RecordMetadata, error) {
	select {
	case <-s.done:
	case <-time.After(24 * time.Hour):
		return producer.RecordMetadata{}, fmt.Errorf("record %q has no result after a day", s.record.Value)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.meta, s.err
}

// known reports whether the record's result is known.
func (s *sent) known() bool {
	select {
	case <-s.done:
		return true
	default:
		return false
	}
}

// acked demands that all records are acknowledged, and waits for them.
func (w *world) acked(all ...*sent) {
	w.t.Helper()
	for _, s := range all {
		_, err := s.wait()
		require.NoError(w.t, err, "record %q", s.record.Value)
	}
}

// warm has the producer connected, its topic known, and the first batch of a partition of T acknowledged.
func (w *world) warm(p kafka, partitions ...int32) {
	w.t.Helper()
	for _, partition := range partitions {
		w.acked(w.send(p, to(partition, "warm-%d-%d", len(w.book), partition)))
	}
}

// close closes a producer within limit, and notes that it is.
func (w *world) close(p kafka, limit time.Duration) error {
	ctx, cancel := context.WithTimeout(context.Background(), limit)
	defer cancel()
	err := p.Close(ctx)
	w.mu.Lock()
	w.closed[p] = true
	w.mu.Unlock()
	return err
}

// requests are those of one API that came in, oldest first.
func (w *world) requests(key protocol.APIKey) []*testbroker.Request {
	var all []*testbroker.Request
	for _, e := range w.Cluster().Requests() {
		if e.Request.API == key {
			all = append(all, e.Request)
		}
	}
	return all
}

// batches are those of one partition of T in the Produce requests that came in, oldest first.
func (w *world) batches(partition int32) []testbroker.Batch {
	var all []testbroker.Batch
	for _, r := range w.requests(protocol.KeyProduce) {
		for _, b := range r.Batches {
			if b.Topic == T && b.Partition == partition {
				all = append(all, b)
			}
		}
	}
	return all
}

// values are what a partition of T holds, in order.
func (w *world) values(partition int32) []string {
	var all []string
	for _, r := range w.Cluster().Records(T, partition) {
		all = append(all, string(r.Value))
	}
	return all
}

// within demands that f takes at most limit.
func (w *world) within(limit time.Duration, what string, f func()) time.Duration {
	w.t.Helper()
	begin := time.Now()
	f()
	took := time.Since(begin)
	if took > limit {
		w.t.Errorf("%s took %v, more than %v", what, took, limit)
	}
	return took
}

// calm demands that the producer does not spin for so long: fewer than 50 iterations of the sender a second (C8). One for each request for metadata
// does not count: a reader that takes an answer for a sender that sleeps has to wake it if the next one is due before its sleep would end.
func (w *world) calm(p kafka, d time.Duration) {
	w.t.Helper()
	before, asked := p.Metrics().Select.Total, len(w.requests(protocol.KeyMetadata))
	time.Sleep(d)
	n := p.Metrics().Select.Total - before - int64(len(w.requests(protocol.KeyMetadata))-asked)
	if float64(n) > 50*max(d.Seconds(), 1) {
		w.t.Errorf("the sender spins: %d iterations in %v", n, d)
	}
}

// check is what every case has to show besides its own text.
func (w *world) check() {
	w.t.Helper()
	for _, s := range w.book { // C1
		if _, err := s.wait(); err != nil && !s.known() {
			w.t.Fatal(err)
		}
	}
	synctest.Wait()
	for _, p := range w.producers {
		if w.closed[p] {
			continue
		}
		w.whole(p)             // C5
		w.calm(p, time.Second) // C8
		// C6
		w.within(200*time.Millisecond, "Close with nothing to do", func() { require.NoError(w.t, w.close(p, time.Minute)) })
	}
	synctest.Wait() // what was on its way when Close began has arrived
	before := len(w.Cluster().Requests())
	connections := w.Cluster().Stats().Connections
	time.Sleep(time.Second)
	synctest.Wait()
	if left := leak.Goroutines(); len(left) > 0 {
		w.t.Errorf("%d goroutines left behind:\n%s", len(left), strings.Join(left, "\n\n"))
	}
	if n := len(w.Cluster().Requests()); n != before {
		w.t.Errorf("%d requests after Close", n-before)
	}
	if n := w.Cluster().Stats().Connections; n != connections {
		w.t.Errorf("%d connections after Close", n-connections)
	}
	for _, p := range w.producers {
		w.whole(p)
	}
	failed := false
	for _, s := range w.book {
		failed = failed || s.err != nil
		if s.times != 1 {
			w.t.Errorf("record %q was told of %d times", s.record.Value, s.times)
		}
	}
	if lines := w.logged(slog.LevelError, ""); len(lines) > 0 && !failed { // C7
		w.t.Errorf("nothing failed, and yet the log has errors: %s", strings.Join(lines, "; "))
	}
	w.checkLogs()
	if !w.mayBreach {
		w.Cluster().Check(w.t) // C4, and all that the broker demands of a client
	}
}

// whole demands that all memory is back and nobody waits for it (C5).
func (w *world) whole(p kafka) {
	w.t.Helper()
	synctest.Wait()
	m := p.Metrics()
	if m.BufferAvailableBytes != m.BufferTotalBytes || m.WaitingThreads != 0 {
		w.t.Errorf("%d of %d bytes are free, and %d calls wait", m.BufferAvailableBytes, m.BufferTotalBytes, m.WaitingThreads)
	}
}

// checkLogs holds the logs against the book (C2, C3).
func (w *world) checkLogs() {
	w.t.Helper()
	byValue := map[string]*sent{}
	for _, s := range w.book {
		id := s.record.Topic + "\x00" + string(s.record.Value)
		if byValue[id] != nil {
			w.t.Fatalf("value %q was sent twice to %s: the harness cannot tell such records apart", s.record.Value, s.record.Topic)
		}
		byValue[id] = s
	}
	found := map[*sent][]string{} // where its copies are
	for _, topic := range w.Cluster().TopicNames() {
		for partition, records := range w.Cluster().AllRecords(topic) {
			last := map[string]*sent{}
			for _, r := range records {
				at := fmt.Sprintf("%s-%d@%d", topic, partition, r.Offset)
				s := byValue[topic+"\x00"+string(r.Value)]
				if s == nil {
					w.t.Errorf("%s: nobody sent %q", at, r.Value)
					continue
				}
				if diff := differs(s.record, r); diff != "" {
					w.t.Errorf("%s: %s", at, diff)
				}
				if n, ok := s.record.Partition.Number(); ok && n != int32(partition) {
					w.t.Errorf("%s: was sent to partition %d", at, n)
				}
				first := len(found[s]) == 0
				found[s] = append(found[s], at)
				if before := last[s.from]; first && before != nil && before.number > s.number && !w.mayReorder {
					w.t.Errorf("%s: %q comes after %q, which was sent later", at, s.record.Value, before.record.Value)
				}
				if first {
					last[s.from] = s
				}
			}
		}
	}
	for _, s := range w.book {
		copies := found[s]
		if len(copies) > 1 && !w.mayDouble {
			w.t.Errorf("%q is stored %d times: %v", s.record.Value, len(copies), copies)
		}
		switch {
		case s.err == nil && !w.mayLose:
			if len(copies) == 0 {
				w.t.Errorf("%q was acknowledged as %v and is not stored", s.record.Value, s.meta)
			} else if s.meta.HasOffset() && !slices.Contains(copies, s.meta.String()) {
				w.t.Errorf("%q was acknowledged as %v and is stored as %v", s.record.Value, s.meta, copies)
			}
		case s.err != nil && !producer.MayHaveBeenWritten(s.err) && len(copies) > 0:
			w.t.Errorf("%q is said never to have been written and is stored as %v: %v", s.record.Value, copies, s.err)
		}
	}
}

// differs says what is not as it was sent; empty if all is.
func differs(was record, is testbroker.Record) string {
	switch {
	case !same(was.Key, is.Key):
		return fmt.Sprintf("the key of %q is %q, and was %q", is.Value, is.Key, was.Key)
	case !same(was.Value, is.Value):
		return fmt.Sprintf("the value is %q, and was %q", is.Value, was.Value)
	case !was.Timestamp.IsZero() && was.Timestamp.UnixMilli() != is.Timestamp:
		return fmt.Sprintf("the time of %q is %d, and was %d", is.Value, is.Timestamp, was.Timestamp.UnixMilli())
	case !slices.EqualFunc(was.Headers, is.Headers, func(a, b protocol.Header) bool { return a.Key == b.Key && same(a.Value, b.Value) }):
		return fmt.Sprintf("the headers of %q are %v, and were %v", is.Value, is.Headers, was.Headers)
	}
	return ""
}

// same tells nil from empty.
func same(a, b []byte) bool { return (a == nil) == (b == nil) && bytes.Equal(a, b) }

// logBook is a log that the world keeps.
type logBook struct{ w *world }

type logLine struct {
	level slog.Level
	text  string // message key=value …
}

func (logBook) Enabled(_ context.Context, level slog.Level) bool { return level >= slog.LevelInfo }
func (l logBook) WithAttrs([]slog.Attr) slog.Handler             { return l }
func (l logBook) WithGroup(string) slog.Handler                  { return l }
func (l logBook) Handle(_ context.Context, r slog.Record) error {
	line := logLine{r.Level, r.Message}
	r.Attrs(func(a slog.Attr) bool {
		line.text += " " + a.String()
		return true
	})
	l.w.mu.Lock()
	defer l.w.mu.Unlock()
	l.w.log = append(l.w.log, line)
	return nil
}

// logged are the lines of one level that contain text, as "message key=value …".
func (w *world) logged(level slog.Level, text string) []string {
	w.mu.Lock()
	defer w.mu.Unlock()
	var lines []string
	for _, l := range w.log {
		if l.level == level && strings.Contains(l.text, text) {
			lines = append(lines, l.text)
		}
	}
	return lines
}
