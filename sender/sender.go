package sender

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"runtime/pprof"
	"sync/atomic"
	"time"

	"github.com/kafka-reservoir/producer/accumulator"
	"github.com/kafka-reservoir/producer/internal/metrics"
	"github.com/kafka-reservoir/producer/internal/mutants"
	"github.com/kafka-reservoir/producer/internal/txn"
	"github.com/kafka-reservoir/producer/metadata"
	"github.com/kafka-reservoir/producer/netclient"
	"github.com/kafka-reservoir/producer/protocol"
)

// Config is the sender's part of the producer's configuration.
type Config struct {
	ClientID        string
	Acks            int16 // -1: all in-sync replicas
	Idempotent      bool
	Retries         int // how often a batch may be sent again
	MaxInFlight     int // requests per node; 1 also keeps each partition to one batch in flight
	MaxRequestSize  int // bytes of batches in one request; a lone larger batch still goes
	RequestTimeout  time.Duration
	DeliveryTimeout time.Duration
	RetryBackoff    time.Duration
	Linger          time.Duration
	BufferMemory    int64
	Codec           protocol.Codec

	Logger  *slog.Logger // nil: silent
	Metrics *metrics.Set // nil: counted for nobody

	// Hooks, any of them nil.
	BatchDone func(topic string, partition int32, records, size, attempts int, offset int64, age time.Duration, err error)
	Retry     func(topic string, partition int32, records, attempts int, backoff time.Duration, err error)
}

// Client is what the sender needs of a network client; *netclient.NetworkClient is one.
type Client interface {
	NextCorrelationID() int32
	Version(node int32, key protocol.APIKey, minVersion, maxVersion int16) (int16, error)
	Ready(node protocol.Node, now time.Time) bool
	CanSend(node int32, now time.Time) bool
	Send(r netclient.Request, now time.Time)
	SendMessage(node int32, m protocol.Message, minVersion, maxVersion int16, h func(*netclient.Response), now time.Time) error
	InFlightCount(node int32) int
	InFlight() int
	LeastLoaded(now time.Time) (protocol.Node, bool)
	PollDelay(node int32, now time.Time) time.Duration
	Throttle(node int32, d time.Duration, now time.Time)
	Disconnect(node int32, why error, now time.Time)
	LastError(node int32) error
	Poll(now time.Time, timeout time.Duration) time.Time
	Look(now time.Time) time.Time
	SleepOn(now time.Time, timeout time.Duration)
	Wakeup()
	Close()
}

// Callbacks is what the sender needs of the goroutine that runs them; *Dispatcher is one.
type Callbacks interface {
	Close()
}

// Sender is the background goroutine of a producer (Java's class of the same name): it takes batches from
// the accumulator, sends them to the leaders of their partitions, and settles each by its answer.
type Sender struct {
	cfg    Config
	acc    *accumulator.RecordAccumulator
	client Client
	md     *metadata.Metadata
	disp   Callbacks
	txn    *txn.Manager     // nil: not idempotent
	gate   accumulator.Gate // txn, or nil

	turn turn
	// assisting: whoever has the turn is not Run. With the turn.
	assisting bool
	closing   atomic.Bool // drain, then end
	force     atomic.Bool // fail what is left, then end
	done      chan struct{}
	fatal     atomic.Pointer[error]

	// Owned by the goroutine.
	now       time.Time
	resp      protocol.ProduceResponse
	free      []*produceRequest
	drained   []*accumulator.ProducerBatch
	mark      uint64
	asked     *metadata.Snapshot // the snapshot in which unknown leaders were last asked for
	idPending bool               // InitProducerId is under way
	idRetryAt time.Time          // not again before
	idErr     error              // why there is none, as of the last attempt
	flows     map[int32]*flow
	several   time.Time // until then several callers count as waiting for records
	hasty     time.Time // until then letJoin does not give the processor up
	closed    bool
	abandoned int // records that a forced close has failed
}

// New makes a sender. Run has to be started.
func New(cfg Config, acc *accumulator.RecordAccumulator, client Client, md *metadata.Metadata, disp Callbacks) *Sender {
	if cfg.Logger == nil {
		cfg.Logger = slog.New(slog.DiscardHandler)
	}
	cfg.Metrics = metrics.OrNew(cfg.Metrics)
	s := &Sender{
		cfg: cfg, acc: acc, client: client, md: md, disp: disp,
		done: make(chan struct{}), flows: map[int32]*flow{},
	}
	s.turn.s = s
	s.turn.mu.Lock() // for Run, which has it but for the time that it sleeps
	if cfg.Idempotent {
		s.txn = txn.New(cfg.MaxInFlight, cfg.Logger)
		s.gate = s.txn
	}
	return s
}

// Run is the goroutine: it ends after InitiateClose, when everything is settled, or after ForceClose.
func (s *Sender) Run(now time.Time) {
	defer close(s.done)
	pprof.Do(context.Background(), pprof.Labels("kafka", "producer-network", "client_id", s.cfg.ClientID), func(context.Context) {
		for !s.closed {
			now = s.RunOnce(now)
		}
	})
	s.acc.Shutdown()
	s.client.Close()
	s.cfg.Metrics.RequestsInFlight.Set(0)
	s.md.Close()
	s.disp.Close()
}

// Done is closed when Run has returned. The callback goroutine may still be at work then.
func (s *Sender) Done() <-chan struct{} { return s.done }

// Closed reports whether the last iteration found nothing left to do after a close was asked for.
func (s *Sender) Closed() bool { return s.closed }

// Sequences is the state of idempotence, for tests; nil without it. It belongs to the sender's goroutine.
func (s *Sender) Sequences() *txn.Manager { return s.txn }

// Abandoned is how many records a forced close has failed. To be called when Done is closed.
func (s *Sender) Abandoned() int { return s.abandoned }

// Wakeup ends the sender's sleep. Any goroutine.
func (s *Sender) Wakeup() { s.client.Wakeup() }

// InitiateClose lets the sender end when everything that was accepted is settled. The accumulator must have been
// closed before. Any goroutine.
func (s *Sender) InitiateClose() {
	s.closing.Store(true)
	s.client.Wakeup()
}

// ForceClose makes the sender fail what is left with ErrForceClosed, and end. Any goroutine.
func (s *Sender) ForceClose() {
	s.force.Store(true)
	s.client.Wakeup()
}

// Err is why the producer is finished, or nil. Any goroutine.
func (s *Sender) Err() error {
	if e := s.fatal.Load(); e != nil {
		return *e
	}
	return nil
}

// fail puts the producer out of action: what is queued fails with err, and so will all later sends.
func (s *Sender) fail(err error) {
	if s.fatal.CompareAndSwap(nil, &err) {
		s.cfg.Logger.Error("the producer is finished", "err", err)
		if s.txn != nil {
			s.txn.Fail(err)
		}
	}
}

// maxSleep bounds a wait for nothing in particular.
const maxSleep = time.Minute

// RunOnce is one iteration: see what is ready, send it, end what is overdue, wait for what comes next. It
// returns the time afterwards.
func (s *Sender) RunOnce(now time.Time) time.Time {
	timeout := s.work(now)
	if timeout < 0 {
		return now
	}
	slept := now
	now = s.client.Poll(now, timeout)
	if s.turn.broken != nil {
		panic(fmt.Sprintf("the sender's work ended in a panic on another goroutine:\n%s", s.turn.broken))
	}
	s.acc.Awake()
	s.cfg.Metrics.SelectTotal.Add(1)
	s.cfg.Metrics.IOWaitTime.ObserveDuration(now.Sub(slept))
	return s.letJoin(now)
}

// work is an iteration up to its sleep, and returns how long that may be; less than zero: there is to be none.
func (s *Sender) work(now time.Time) time.Duration {
	s.now = now
	until := now.Add(maxSleep)
	if s.cfg.DeliveryTimeout > 0 {
		// What comes in meanwhile may not wake the sender, if its node can take nothing, but it expires.
		until = now.Add(min(maxSleep, s.cfg.DeliveryTimeout))
	}
	sooner := func(t time.Time) {
		if !t.IsZero() && t.Before(until) {
			until = t
		}
	}

	if s.assisting && (s.force.Load() || s.closing.Load()) {
		s.client.Wakeup() // only Run ends the sender
		return maxSleep
	}
	if s.force.Load() {
		s.abortAll(now)
		s.closed = true
		return -1
	}
	if s.closing.Load() {
		s.acc.StartClosing()
		if !s.acc.HasIncomplete() {
			s.closed = true
			return -1
		}
	}

	s.refreshNodes(now)
	snapshot := s.md.Snapshot()
	if s.Err() != nil {
		s.failUndrained("", s.Err(), now)
	}
	ready := s.acc.Ready(snapshot, now)
	busy := ready.Busy && s.cfg.Linger > 0
	sooner(ready.Next)
	if len(ready.UnknownLeader) > 0 && !mutants.On(mutants.NoLeaderCached) {
		for _, t := range ready.UnknownLeader {
			s.md.AddTopic(t, now)
			if md := snapshot.Topic(t); md != nil && md.Err == protocol.TopicAuthorizationFailed {
				s.failUndrained(t, md.Err, now) // a Send would be told the same now (FC-024)
			}
		}
		if s.asked != snapshot {
			s.asked = snapshot
			s.md.RequestUpdate()
		}
	}
	if s.needsID() && (s.acc.HasUndrained() || len(ready.Nodes) > 0) {
		sooner(s.fetchProducerID(now))
	}
	for _, id := range ready.Nodes {
		node, ok := snapshot.Node(id)
		if !ok {
			continue // its partitions are about to be seen without a leader
		}
		if !s.client.Ready(node, now) {
			if d := s.client.PollDelay(id, now); d >= 0 && d < maxSleep {
				sooner(now.Add(d))
			}
			continue
		}
		sooner(s.sendTo(node.ID, now))
		if s.client.CanSend(id, now) {
			continue
		}
		if d := s.client.PollDelay(id, now); d >= 0 && d < maxSleep {
			sooner(now.Add(d))
		}
	}

	s.expire(now)
	if s.closing.Load() && !s.acc.HasIncomplete() {
		return -1 // the last batch ended just now: there is nothing left to sleep for
	}
	sooner(s.acc.NextExpiry(now))
	s.refreshNodes(now)
	sooner(s.steer(now))

	timeout := max(until.Sub(now), 0)
	if busy && s.client.InFlight() > 0 {
		// The batches that will be opened meanwhile then need not wake the sender: it wakes in time for them.
		timeout = min(timeout, s.cfg.Linger)
	}
	s.cfg.Metrics.RequestsInFlight.Set(int64(s.client.InFlight()))
	if !s.acc.PrepareSleep(now, now.Add(timeout)) {
		timeout = 0
	}
	return timeout
}

// refreshNodes notes, and tells the accumulator, which nodes could take a request, and how much keeps them busy.
func (s *Sender) refreshNodes(now time.Time) {
	for _, id := range s.acc.Nodes() {
		f := s.flow(id)
		s.acc.SetPipe(id, f.pipe())
		f.canSend, f.inFlight = s.client.CanSend(id, now) && !s.waits(id, f, now), s.client.InFlightCount(id)
		s.acc.SetNode(id, f.canSend, f.inFlight)
	}
}

// maxHold is how old the last request may be while what is due waits for the answer of a broker that is not far.
const maxHold = 100 * time.Millisecond

// sendTo sends a node what it can take. It returns when there may be more to send by the passing of time alone; zero: only an event brings that.
func (s *Sender) sendTo(node int32, now time.Time) time.Time {
	f := s.flow(node)
	for s.client.CanSend(node, now) {
		if s.waits(node, f, now) {
			return time.Time{}
		}
		limit, alone := s.cfg.MaxRequestSize, s.client.InFlightCount(node) == 0
		if alone && f.isStale(now) {
			limit = min(limit, s.acc.ProbeSize())
		}
		if !alone && !s.acc.WorthAnother(node) {
			if s.cfg.Linger == 0 {
				return time.Time{} // the answer on its way sends what has come together until then
			}
			// So it does where it is not far. Over a long way, or one that is not known yet, what has lingered waits no longer than that again.
			hold := s.cfg.Linger
			if f.minRTT != 0 && f.minRTT <= s.cfg.Linger {
				hold = max(hold, maxHold)
			}
			if until := f.sent.Add(hold); now.Before(until) {
				return until
			}
		}
		version, err := s.client.Version(node, protocol.KeyProduce, s.leastProduceVersion(), maxProduceVersion)
		if err != nil {
			if s.cfg.Codec == protocol.CodecZstd {
				err = fmt.Errorf("zstd needs Kafka 2.1 or newer; another Compression may do for this cluster: %w", err)
			}
			s.refuse(node, err, now)
			break
		}
		s.drained = s.acc.Drain(s.drained[:0], node, limit, now, s.gate)
		if len(s.drained) == 0 {
			break
		}
		s.send(node, version, now)
	}
	return time.Time{}
}

// maxProduceVersion is the newest version of Produce that is spoken.
const maxProduceVersion = 13

// leastProduceVersion is the oldest version of Produce that can carry what is sent: record batches, and zstd.
func (s *Sender) leastProduceVersion() int16 {
	if s.cfg.Codec == protocol.CodecZstd {
		return 7
	}
	return 3
}

// refuse fails what is ready for a node that cannot take it in any version.
func (s *Sender) refuse(node int32, err error, now time.Time) {
	for {
		s.drained = s.acc.Drain(s.drained[:0], node, math.MaxInt, now, nil)
		if len(s.drained) == 0 {
			return
		}
		for _, b := range s.drained {
			b.NotSent()
			if s.txn != nil {
				s.txn.Failed(b) // counts only if an earlier attempt gave it a sequence
			}
			s.end(b, s.verdict(b, err, nil, "", now), nil, now)
		}
		s.settleTxn(now)
	}
}

// expire ends the batches whose delivery timeout is over.
func (s *Sender) expire(now time.Time) {
	expired := s.acc.Expired(now)
	for _, b := range expired {
		if b.InFlight() {
			// Its bytes stay where they are until the writer has let go of them, and its answer, if it
			// still comes, tells nothing any more (KAFKA-19012, SND-49).
			b.SetMayBeWritten(true)
		}
		if s.txn != nil {
			s.txn.Failed(b)
		}
		last, message := s.lastAnswer(b, now), ""
		if _, answered := last.(protocol.ErrorCode); answered {
			message = b.LastMessage()
		}
		s.end(b, s.verdict(b, ErrDeliveryTimeout, last, message, now), nil, now)
	}
	if len(expired) > 0 {
		s.settleTxn(now)
	}
}

// lastAnswer is what an expired batch last met: the broker's answer, or why it could not be sent.
func (s *Sender) lastAnswer(b *accumulator.ProducerBatch, now time.Time) error {
	leader, why := int32(-1), s.md.LastError()
	t := s.md.Snapshot().Topic(b.TopicPartition().Topic)
	if t != nil {
		leader = t.Leader(b.Partition())
	}
	if leader >= 0 {
		why = s.client.LastError(leader)
	}
	since := func(err error) error {
		if why == nil || errors.Is(err, why) {
			return err
		}
		return fmt.Errorf("%w; since then: %w", err, why)
	}
	switch err := b.LastError(); {
	case errors.Is(err, netclient.ErrDisconnected), errors.Is(err, netclient.ErrRequestTimeout):
		return since(err)
	case err != nil:
		return err
	case t == nil || b.Attempts() > 0:
		return why
	case s.needsID() && s.idErr != nil:
		return since(fmt.Errorf("no producer id yet: %w", s.idErr))
	case leader < 0 && why != nil:
		return fmt.Errorf("%w; meanwhile: %w", protocol.LeaderNotAvailable, why)
	case leader < 0:
		return protocol.LeaderNotAvailable
	case why != nil:
		return why
	}
	return s.whyUnsent(b, leader, now)
}

// whyUnsent is what a batch waited for that never went out, though nothing has failed on the way to its leader; nil: it was not its turn.
func (s *Sender) whyUnsent(b *accumulator.ProducerBatch, leader int32, now time.Time) error {
	node, _ := s.md.Snapshot().Node(leader)
	unanswered := s.client.InFlightCount(leader)
	switch {
	case s.needsID() && s.idPending:
		return errors.New("no producer id yet: InitProducerId is not answered")
	case s.needsID():
		return errors.New("no producer id yet: no broker could be asked for one")
	case s.flow(leader).answer.After(b.Created()):
		return nil // others went out
	case unanswered > 0:
		return fmt.Errorf("node %v has answered nothing all the while, and owes %d answers", node, unanswered)
	case !s.client.CanSend(leader, now):
		return fmt.Errorf("node %v took no request: it is not connected yet, or it throttles", node)
	}
	return nil
}

func (s *Sender) needsID() bool { return s.txn != nil && s.txn.NeedsID() }

// failUndrained fails what waits, of one topic or, for "", of all: the topic may not be written to, or the producer was put out of
// action. What is in flight still gets its answer.
func (s *Sender) failUndrained(topic string, err error, now time.Time) {
	failed := s.acc.Undrained(topic, now)
	for _, b := range failed {
		if s.txn != nil {
			s.txn.Failed(b) // retries among them have sequences
		}
		s.end(b, s.verdict(b, err, nil, "", now), nil, now)
	}
	if len(failed) > 0 {
		s.settleTxn(now)
	}
}

// abortAll fails everything that is left, for a forced close.
func (s *Sender) abortAll(now time.Time) {
	for _, b := range s.acc.Incomplete(now) {
		if b.InFlight() {
			b.SetMayBeWritten(true)
		}
		if s.txn != nil {
			s.txn.Failed(b) // or it would look at the batch again, when the connections end
		}
		s.abandoned += int(b.Count())
		s.end(b, s.verdict(b, ErrForceClosed, b.LastError(), b.LastMessage(), now), nil, now)
	}
}

// verdict makes the error that a batch's records are told.
func (s *Sender) verdict(b *accumulator.ProducerBatch, cause, last error, message string, now time.Time) *DeliveryError {
	e := &DeliveryError{
		TopicPartition: b.TopicPartition(), Cause: cause, Last: last, Message: message,
		Attempts: b.Attempts(), Age: max(now.Sub(b.Created()), 0), Written: b.MayBeWritten() || b.Tainted(),
	}
	e.Queued = e.Age
	if b.Attempts() > 0 {
		e.Queued = max(b.Drained().Sub(b.Created()), 0)
	}
	return e
}

// end fails a batch. The one way out for batches that were not acknowledged.
func (s *Sender) end(b *accumulator.ProducerBatch, err error, perRecord func(i int) error, now time.Time) {
	tp := b.TopicPartition()
	n := int(b.Count())
	s.cfg.Metrics.RecordErrorTotal.Add(n)
	s.cfg.Metrics.Topic(tp.Topic).RecordErrorTotal.Add(n)
	s.cfg.Logger.Error("records lost", "topic", tp.Topic, "partition", tp.Partition, "records", n, "attempt", b.Attempts(), "err", err)
	if s.cfg.BatchDone != nil {
		s.cfg.BatchDone(tp.Topic, tp.Partition, n, b.Size(), b.Attempts(), -1, now.Sub(b.Created()), err)
	}
	s.acc.Fail(b, err, perRecord)
}

// settleTxn lets the epoch move on where it may, and looks again at the partitions that waited for it.
func (s *Sender) settleTxn(now time.Time) {
	if s.txn == nil {
		return
	}
	for b := s.txn.Unplaceable(); b != nil; b = s.txn.Unplaceable() {
		s.acc.Withdraw(b, now)
		s.failBatch(b, protocol.OutOfOrderSequenceNumber, "", nil, now)
	}
	if s.txn.Settle() {
		s.acc.RecheckAll(now)
	}
}

// fetchProducerID asks for a producer id, unless that is under way. It returns when to try again.
func (s *Sender) fetchProducerID(now time.Time) time.Time {
	if s.idPending {
		return time.Time{}
	}
	if s.idRetryAt.After(now) {
		return s.idRetryAt
	}
	node, ok := s.client.LeastLoaded(now)
	if !ok {
		return now.Add(s.cfg.RetryBackoff)
	}
	if !s.client.Ready(node, now) || !s.client.CanSend(node.ID, now) {
		if d := s.client.PollDelay(node.ID, now); d > 0 && d < maxSleep {
			return now.Add(d)
		}
		return time.Time{} // its connection is under way: an event
	}
	req := &protocol.InitProducerIdRequest{TransactionTimeoutMs: math.MaxInt32, ProducerID: -1, ProducerEpoch: -1}
	err := s.client.SendMessage(node.ID, req, 0, 5, s.producerIDAnswered, now)
	if err != nil {
		s.idRefused(err, now)
		return s.idRetryAt
	}
	s.idPending = true
	return time.Time{}
}

func (s *Sender) producerIDAnswered(r *netclient.Response) {
	s.idPending = false
	s.now = r.Now
	var resp protocol.InitProducerIdResponse
	err := r.Err
	if err == nil {
		if err = resp.ReadFrom(r.Body, r.Version); err != nil {
			s.client.Disconnect(r.Node, fmt.Errorf("producer id from node %d: %w", r.Node, err), r.Now)
		}
	}
	if err == nil && resp.ThrottleTimeMs > 0 && r.Version >= 1 {
		s.client.Throttle(r.Node, time.Duration(resp.ThrottleTimeMs)*time.Millisecond, r.Now)
	}
	if err == nil && resp.ErrorCode != protocol.None {
		err = resp.ErrorCode
	}
	if err == nil && (resp.ProducerID < 0 || resp.ProducerEpoch < 0) {
		err = protocol.UnknownServerError
	}
	if err != nil {
		s.idRefused(err, r.Now)
		return
	}
	s.idErr = nil
	s.txn.SetID(protocol.ProducerID{ID: resp.ProducerID, Epoch: resp.ProducerEpoch})
	s.acc.RecheckAll(r.Now)
}

// idRefused decides what a failed InitProducerId means: try again, or, where that is of no use, tell
// those who wait. A later send tries again: the right may have been given meanwhile (SND-14).
func (s *Sender) idRefused(err error, now time.Time) {
	s.idRetryAt, s.idErr = now.Add(s.cfg.RetryBackoff), err
	var code protocol.ErrorCode
	var unsupported *netclient.UnsupportedVersionError
	switch {
	case errors.As(err, &unsupported):
	case errors.As(err, &code) && !code.Retriable():
	default:
		s.cfg.Logger.Warn("producer id not available yet", "err", err)
		return
	}
	s.failUndrained("", &initError{err}, now)
}

// initError says that records could not be sent because the producer got no id.
type initError struct{ err error }

func (e *initError) Error() string {
	var old *netclient.UnsupportedVersionError
	if errors.As(e.err, &old) {
		return "no producer id: " + e.err.Error()
	}
	return "no producer id, which an idempotent producer needs (DisableIdempotence does without): " + e.err.Error()
}
func (e *initError) Unwrap() error { return e.err }
