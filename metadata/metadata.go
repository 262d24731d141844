package metadata

import (
	"cmp"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/kafka-reservoir/producer/internal/backoff"
	"github.com/kafka-reservoir/producer/protocol"
)

// Config is what Metadata needs to know. It must not be changed after New.
type Config struct {
	// Bootstrap are the addresses to begin with, and to go back to. Their ids do not matter: they become
	// -1, -2, ... in this order.
	Bootstrap []protocol.Node

	// MaxAge is when everything is asked anew although nothing went wrong (metadata.max.age.ms). Zero means 5m.
	MaxAge time.Duration
	// MaxIdle is when a topic that nobody sends to is forgotten (metadata.max.idle.ms). Zero means 5m.
	MaxIdle time.Duration
	// RetryBackoff and RetryBackoffMax bound the pauses between requests (retry.backoff.ms,
	// retry.backoff.max.ms). Zero means none.
	RetryBackoff, RetryBackoffMax time.Duration

	// NoRebootstrap keeps to the brokers once known, even if none can be reached
	// (metadata.recovery.strategy=none).
	NoRebootstrap bool
	// RebootstrapTrigger is how long a due update may fail before the bootstrap addresses are used again
	// (metadata.recovery.rebootstrap.trigger.ms). Zero or less means for ever.
	RebootstrapTrigger time.Duration
	// Rack is where we are: Topic.Local then lists the partitions led from there (client.rack). Empty: none are.
	Rack string
	// NoClusterCheck believes answers of another cluster than the first one met (metadata.cluster.check.enable=false).
	NoClusterCheck bool
	// NoAutoCreate keeps brokers from creating a topic because it was asked for (allow.auto.create.topics).
	NoAutoCreate bool

	// Rand returns a number in [0, n); nil means no jitter.
	Rand func(n int) int
	// Logger may be nil.
	Logger *slog.Logger

	// Wake makes the goroutine that owns the network client look at TimeToUpdate. It may be nil, is called
	// from any goroutine, and must not wait.
	Wake func()
	// InUse reports whether records for a topic are buffered; such a topic is not forgotten. It may be
	// nil, and is called on the sender's goroutine.
	InUse func(topic string) bool
	// OnForget is told of each topic that is forgotten since nobody used it. It may be nil, and is called on the sender's goroutine.
	OnForget func(topic string)
	// OnUpdate is told of each snapshot that came of an answer. It may be nil, and is called on the sender's goroutine.
	OnUpdate func(*Snapshot)
}

const (
	defaultMaxAge  = 5 * time.Minute
	defaultMaxIdle = 5 * time.Minute
)

// Metadata keeps the view of the cluster up to date.
type Metadata struct {
	cfg       Config
	log       *slog.Logger
	bootstrap []protocol.Node // by id; constant

	snap atomic.Pointer[Snapshot] // stored under mu

	mu        sync.Mutex // guards the fields below; nothing else is taken while held
	schedule  schedule
	interest  map[string]*interest
	newTopics int                // interests that no answer has mentioned yet
	refusals  map[string]refusal // what brokers refused lately
	onBoot    bool               // the snapshot's nodes are the bootstrap addresses, and what was known before
	asked     request            // the request in flight, if any
	lastErr   error              // why there is no newer answer; nil after an answer

	waiters  int           // goroutines in Await
	changed  chan struct{} // closed, and replaced, when they have something to look at
	fatal    error         // meets those who wait
	fatalSeq int           // and grows with each
	unraised error         // a fatal that met nobody is for the next one
	closed   bool
	cluster  string // the id of the cluster that the view is of; empty: nobody said one
	pinned   bool   // two answers agreed on cluster: no other is believed from then on
	doubted  bool   // a broker of the view contradicted it, before that
	deserted bool   // nobody may wait any more; updates go on
}

// interest is one topic that is asked for.
type interest struct {
	name  string // constant
	use   *lastUse
	isNew bool // no answer has mentioned it

	id     protocol.UUID // of the last answer without an error
	seen   []seenEpoch   // by partition
	misses int           // answers in a row that said the topic does not exist
}

// refusal is a broker's answer that a topic will not be described to us.
type refusal struct {
	code    protocol.ErrorCode
	version int       // of the snapshot that came with it
	until   time.Time // as long as it is repeated without asking
	count   int       // in a row
}

// request is what is asked of a broker.
type request struct {
	inFlight, full bool
}

// New returns Metadata that knows the bootstrap addresses.
func New(cfg Config) *Metadata {
	cfg.MaxAge = cmp.Or(cfg.MaxAge, defaultMaxAge)
	cfg.MaxIdle = cmp.Or(cfg.MaxIdle, defaultMaxIdle)
	m := &Metadata{
		cfg: cfg,
		log: cfg.Logger,
		schedule: schedule{
			maxAge: cfg.MaxAge,
			retry:  backoff.Exponential{Initial: cfg.RetryBackoff, Max: cfg.RetryBackoffMax, Rand: cfg.Rand},
		},
		interest: make(map[string]*interest),
		refusals: make(map[string]refusal),
		onBoot:   true,
		changed:  make(chan struct{}),
	}
	if m.log == nil {
		m.log = slog.New(slog.DiscardHandler)
	}
	m.bootstrap = slices.Clone(cfg.Bootstrap)
	for i := range m.bootstrap {
		m.bootstrap[i].ID = -1 - int32(i)
	}
	slices.Reverse(m.bootstrap)
	m.snap.Store(&Snapshot{nodes: m.bootstrap})
	return m
}

// Snapshot returns the current view.
func (m *Metadata) Snapshot() *Snapshot { return m.snap.Load() }

// RequestUpdate asks for an update of everything in use, as soon as the back-off allows. A request
// that is in flight does not count as that update, since it may have been answered before.
// The owner of the network client finds it when it looks next; it is not woken.
func (m *Metadata) RequestUpdate() {
	m.mu.Lock()
	m.schedule.needFull = true
	m.mu.Unlock()
}

// LastUpdate is when everything in use was last described by a broker; zero when it never was.
func (m *Metadata) LastUpdate() time.Time {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.schedule.lastFull
}

// WrongClusterError: a broker belongs to another cluster than the one this client began with. Its address was reused, or a
// bootstrap name points elsewhere now. What is sent there would be written into the wrong cluster and acknowledged.
type WrongClusterError struct {
	Want, Got string // cluster ids
}

func (e *WrongClusterError) Error() string {
	return fmt.Sprintf("the broker belongs to cluster %q, not to %q, which this producer writes to: an address was reused, and nothing was sent there; correct it, or make a new producer for the other cluster", e.Got, e.Want)
}

// Retriable reports that the right cluster may be found later.
func (e *WrongClusterError) Retriable() bool { return true }

// CheckCluster holds a cluster id against that of the cluster this client began with. It fails with a
// [*WrongClusterError]; an empty id says nothing.
func (m *Metadata) CheckCluster(id string) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if !m.pinned {
		return nil
	}
	return m.checkClusterLocked(id)
}

// ConfirmCluster is CheckCluster for what a broker of the view says itself, before anything is sent to it: that has to agree with the
// view also before the client has settled for a cluster, and settles it.
//
// One answer settles nothing: if it was damaged on its way, no broker would be the right one any more.
func (m *Metadata) ConfirmCluster(id string) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	err := m.checkClusterLocked(id)
	if err != nil {
		m.doubted = !m.pinned
	} else if id != "" && id == m.cluster {
		m.pinned = true
	}
	return err
}

func (m *Metadata) checkClusterLocked(id string) error {
	if id == "" || m.cluster == "" || id == m.cluster || m.cfg.NoClusterCheck {
		return nil
	}
	return &WrongClusterError{Want: m.cluster, Got: id}
}

// viewedLocked notes that a metadata answer, which is believed, named this cluster.
func (m *Metadata) viewedLocked(id string) {
	m.doubted = false
	switch id {
	case "":
	case m.cluster:
		m.pinned = true
	default:
		m.cluster = id
	}
}

// Interrupt makes everybody in Await fail with ErrClosed, now and from now on. Updates go on: a producer that is closing still has to
// find the leaders of what it was given.
func (m *Metadata) Interrupt() {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.deserted = true
	m.wakeWaitersLocked()
}

// Close makes everybody in Await return with ErrClosed.
func (m *Metadata) Close() {
	m.mu.Lock()
	defer m.mu.Unlock()
	if !m.closed {
		m.closed = true
		close(m.changed) // for good
	}
}

// AddTopic puts a topic into the interest set, or marks it as used if it is there. A topic that is
// added makes an update due at once. It belongs to the sender's goroutine, which has records for topics
// that were forgotten, or whose leaders are not known (S-75).
func (m *Metadata) AddTopic(topic string, now time.Time) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if r, ok := m.refusals[topic]; ok && m.interest[topic] == nil && now.Before(r.until) {
		return // asking again at once would make a loop of requests
	}
	m.addLocked(topic, now)
}

func (m *Metadata) addLocked(topic string, now time.Time) *interest {
	in := m.interest[topic]
	if in == nil {
		in = &interest{name: topic}
		m.interest[topic] = in
		if t := m.snap.Load().Topic(topic); t.has(-1) {
			// Forgotten a moment ago and still in the view: as if it had never been (MD-31).
			in.use, in.id = t.use, t.ID
			for i := range t.partitions {
				in.epochOf(int32(i)).epoch = t.partitions[i].LeaderEpoch
			}
		} else {
			in.use, in.isNew = &lastUse{base: now}, true
			m.newTopics++
			m.schedule.forNewTopic()
		}
	}
	in.use.touch(now)
	return in
}

// answered notes that an answer has mentioned the topic.
func (m *Metadata) answeredLocked(in *interest) {
	if in.isNew {
		in.isNew = false
		m.newTopics--
	}
}

func (m *Metadata) forgetLocked(in *interest) {
	m.answeredLocked(in)
	delete(m.interest, in.name)
}

// expire forgets the topics that are idle, unless they still have records or no answer yet.
func (m *Metadata) expire(now time.Time) {
	m.mu.Lock()
	var idle []*interest
	for _, in := range m.interest {
		if !in.isNew && in.use.idleFor(now) >= m.cfg.MaxIdle {
			idle = append(idle, in)
		}
	}
	m.mu.Unlock()
	if len(idle) == 0 {
		return
	}
	slices.SortFunc(idle, func(a, b *interest) int { return cmp.Compare(a.name, b.name) })
	for _, in := range idle {
		if m.cfg.InUse != nil && m.cfg.InUse(in.name) {
			in.use.touch(now)
		}
	}
	m.mu.Lock()
	forgotten := idle[:0]
	for _, in := range idle {
		// Looked at again: somebody may have come back to the topic meanwhile (MD-31).
		if in.use.idleFor(now) >= m.cfg.MaxIdle && m.interest[in.name] == in {
			m.forgetLocked(in)
			forgotten = append(forgotten, in)
		}
	}
	m.mu.Unlock()
	if m.cfg.OnForget != nil {
		for _, in := range forgotten {
			m.cfg.OnForget(in.name)
		}
	}
}

// Nodes lists the nodes that may be asked, by id.
func (m *Metadata) Nodes() []protocol.Node { return m.Snapshot().nodes }

// TimeToUpdate is how long until a request may be sent; zero when it is due.
func (m *Metadata) TimeToUpdate(now time.Time) time.Duration {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.schedule.timeToUpdate(now, m.newTopics > 0)
}

// NewRequest returns the request to send now: for the new topics only if that is all that is needed,
// otherwise for all in use. HandleResponse or HandleFailure must follow before the next one.
func (m *Metadata) NewRequest(now time.Time) *protocol.MetadataRequest {
	m.expire(now)
	m.mu.Lock()
	defer m.mu.Unlock()
	s := &m.schedule
	full := s.needFull || s.expired(now)
	if s.expired(now) {
		s.equivalent = 0 // asking because of age is no sign that answers do not help
	}
	if full {
		s.needFull = false
	}
	m.asked = request{inFlight: true, full: full}
	req := &protocol.MetadataRequest{
		Topics:                 []protocol.MetadataRequestTopic{}, // nil would mean all there are
		AllowAutoTopicCreation: !m.cfg.NoAutoCreate,
	}
	for _, in := range m.interest {
		if full || in.isNew {
			req.Topics = append(req.Topics, protocol.MetadataRequestTopic{Name: &in.name})
		}
	}
	slices.SortFunc(req.Topics, func(a, b protocol.MetadataRequestTopic) int { return cmp.Compare(*a.Name, *b.Name) })
	return req
}

// HandleFailure notes that the request brought no answer, because of err.
func (m *Metadata) HandleFailure(err error, now time.Time) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.failedLocked(err, now)
}

func (m *Metadata) failedLocked(err error, now time.Time) {
	if m.asked.full {
		m.schedule.needFull = true
	}
	m.asked = request{}
	m.lastErr = err
	m.schedule.failed(now)
}

// HandleDisconnect notes that a connection was lost, or could not be made. The reason may be that the
// view is wrong, so an update is needed.
func (m *Metadata) HandleDisconnect(err error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.lastErr = err
	m.schedule.needFull = true
}

// LastError is what has gone wrong since the last good answer: a connection that was lost or could not be made, or an answer of no
// use. Nil if nothing has.
func (m *Metadata) LastError() error {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.lastErr
}

// SetFatal makes everybody in Await return with err; if nobody is there, the next one does. It is for
// what a new attempt will hardly cure, such as refused credentials.
func (m *Metadata) SetFatal(err error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.lastErr = err
	if m.waiters == 0 {
		m.unraised = err
		return
	}
	m.fatal = err
	m.fatalSeq++
	m.wakeWaitersLocked()
}

func (m *Metadata) wakeWaitersLocked() {
	if !m.closed {
		close(m.changed)
		m.changed = make(chan struct{})
	}
}

// publishLocked makes s the current view.
func (m *Metadata) publishLocked(s *Snapshot) {
	s.version = m.snap.Load().version + 1
	s.index()
	m.snap.Store(s)
	m.wakeWaitersLocked()
}

// Rebootstrap is asked whenever an update is due, and goes back to the bootstrap addresses if that is called
// for: with force, since no known node can be asked or a broker demands it, and otherwise if an update has
// been due for the trigger's time. It reports whether it did; connections to the former nodes are of no
// use then. Topics stay known, without leaders, so that records for them go on being accepted.
//
// Former nodes at other addresses stay in the list: where the bootstrap addresses are out of date, which nobody notices
// for as long as the brokers known from them are reached, these are the only ones that can help.
func (m *Metadata) Rebootstrap(now time.Time, force bool) bool {
	m.mu.Lock()
	done := m.rebootstrapLocked(now, force)
	m.mu.Unlock()
	if done {
		m.log.Info("metadata: back to the bootstrap servers", "forced", force)
	}
	return done
}

func (m *Metadata) rebootstrapLocked(now time.Time, force bool) bool {
	s := &m.schedule
	if s.waiting.IsZero() {
		s.waiting = now
	}
	if t := m.cfg.RebootstrapTrigger; t > 0 && now.Sub(s.waiting) >= t {
		force = true
	}
	if !force {
		return false
	}
	s.waiting = now
	if m.cfg.NoRebootstrap && !m.doubted || m.onBoot || m.closed {
		return false // in doubt, the client has never really been in
	}
	old := m.snap.Load()
	former := slices.DeleteFunc(slices.Clone(old.nodes), func(n protocol.Node) bool {
		return slices.ContainsFunc(m.bootstrap, func(b protocol.Node) bool { return b.Host == n.Host && b.Port == n.Port })
	})
	next := &Snapshot{
		clusterID: old.clusterID,
		nodes:     slices.Concat(m.bootstrap, former), // by id: those of bootstrap are negative
		topics:    make(map[string]*Topic, len(old.topics)),
	}
	for name, t := range old.topics {
		next.topics[name] = t.resolve(m.bootstrap, m.cfg.Rack)
	}
	m.onBoot = true
	s.needFull = true
	m.publishLocked(next)
	return true
}
