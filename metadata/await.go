package metadata

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/kafka-reservoir/producer/protocol"
)

var (
	// ErrTimeout: a topic, or a partition of it, did not become known in time (max.block.ms). The error
	// itself is a [*TimeoutError].
	ErrTimeout = errors.New("metadata timeout")
	// ErrClosed: Metadata was closed.
	ErrClosed error = closedError{}
)

type closedError struct{}

func (closedError) Error() string { return "metadata: closed" }
func (closedError) Fatal() bool   { return true }

// TimeoutError says what did not become known in time. errors.Is(err, ErrTimeout) finds it, and the
// cause as well.
type TimeoutError struct {
	Topic string
	// Partition is the one that was waited for; negative when any would have done.
	Partition int32
	// Partitions is how many the topic was known to have; zero when the topic was not known.
	Partitions int
	Waited     time.Duration
	// Answered: some broker has described the cluster before.
	Answered bool
	// Cause is the last thing that went wrong meanwhile, the topic's error or a connection's; it may be nil.
	Cause error
}

func (e *TimeoutError) Error() string {
	s := fmt.Sprintf("topic %s not present in metadata after %v", e.Topic, e.Waited)
	if e.Partitions > 0 {
		s = fmt.Sprintf("partition %d of topic %s, which has %d partitions, not present in metadata after %v",
			e.Partition, e.Topic, e.Partitions, e.Waited)
	}
	if e.Cause != nil {
		s += ": " + e.Cause.Error()
	}
	switch what := protocol.Advice(e.Cause); {
	case what != "":
		s += ": " + what
	case e.Partitions > 0:
		s += ": use one that is there, or add partitions to the topic"
	case e.Cause == nil && e.Answered:
		s += ": the brokers are asked for it, and have not said yet; wait longer (MaxBlock, max.block.ms), or send again"
	case e.Cause == nil:
		s += ": no broker has answered yet; look at BootstrapServers (bootstrap.servers), or wait longer (MaxBlock, max.block.ms)"
	}
	return s
}

// Unwrap returns ErrTimeout and the cause.
func (e *TimeoutError) Unwrap() []error {
	if e.Cause == nil {
		return []error{ErrTimeout}
	}
	return []error{ErrTimeout, e.Cause}
}

// Retriable reports that the same may succeed later.
func (e *TimeoutError) Retriable() bool { return true }

// Await returns a topic once its partitions are known, including the given one unless that is negative.
// It asks for the topic if need be and waits for at most maxWait; zero or less means not at all, but the
// question is asked. now is the time at which it is called.
//
// It fails with a [*TimeoutError]; with [protocol.InvalidTopicException] or
// [protocol.TopicAuthorizationFailed], wrapped, when a broker refuses the topic; with what SetFatal was
// given; with [ErrClosed]; or with the error of ctx. Any goroutine may call it.
func (m *Metadata) Await(ctx context.Context, topic string, partition int32, now time.Time, maxWait time.Duration) (*Topic, error) {
	if t := m.Snapshot().Topic(topic); t.has(partition) {
		t.Touch(now)
		return t, nil
	}
	if reason := invalidName(topic); reason != "" {
		return nil, fmt.Errorf("topic %.300q: %s: %w", topic, reason, protocol.InvalidTopicException)
	}
	w := wait{topic: topic, partition: partition, now: now, maxWait: maxWait}
	m.enter(&w)
	defer m.leave()
	if maxWait > 0 {
		w.start = time.Now()
		timer := time.NewTimer(maxWait)
		defer timer.Stop()
		w.over = timer.C
	}
	for {
		t, changed, err := m.look(&w)
		if t != nil || err != nil {
			return t, err
		}
		if m.cfg.Wake != nil {
			m.cfg.Wake()
		}
		if maxWait <= 0 {
			return nil, m.timedOut(&w)
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return nil, m.cancelled(&w, context.Cause(ctx))
		case <-w.over:
			if t := m.Snapshot().Topic(topic); t.has(partition) {
				return t, nil
			}
			return nil, m.timedOut(&w)
		}
		w.now = now.Add(time.Since(w.start))
	}
}

// wait is one call of Await.
type wait struct {
	topic     string
	partition int32
	now       time.Time // of the last look
	maxWait   time.Duration
	start     time.Time
	over      <-chan time.Time

	asked    int // version of the snapshot when it was asked
	fatalSeq int
	unraised error // a fatal from before
}

func (m *Metadata) enter(w *wait) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.waiters++
	w.asked = m.snap.Load().version
	w.fatalSeq = m.fatalSeq
	w.unraised, m.unraised = m.unraised, nil
}

func (m *Metadata) leave() {
	m.mu.Lock()
	m.waiters--
	m.mu.Unlock()
}

// look returns the topic or an error if there is one to return. Otherwise it asks for the topic and
// returns what to wait for.
func (m *Metadata) look(w *wait) (*Topic, <-chan struct{}, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	s := m.snap.Load()
	switch r, refused := m.refusals[w.topic]; {
	case m.closed, m.deserted:
		return nil, nil, ErrClosed
	case s.Topic(w.topic).has(w.partition):
		s.Topic(w.topic).Touch(w.now)
		return s.Topic(w.topic), nil, nil
	case w.unraised != nil:
		return nil, nil, w.unraised
	case m.fatalSeq != w.fatalSeq:
		return nil, nil, m.fatal
	case refused && (r.version > w.asked || w.now.Before(r.until)):
		return nil, nil, describe(w.topic, r.code)
	}
	if in := m.addLocked(w.topic, w.now); !in.isNew {
		m.schedule.needFull = true
	}
	return nil, m.changed, nil
}

// describe is the error of a topic that brokers do not describe.
func describe(topic string, code protocol.ErrorCode) error {
	if what := protocol.Advice(code); what != "" {
		return fmt.Errorf("topic %s: %w: %s", topic, code, what)
	}
	return fmt.Errorf("topic %s: %w", topic, code)
}

func (m *Metadata) timedOut(w *wait) error {
	partitions, cause := m.reason(w)
	return &TimeoutError{
		Topic: w.topic, Partition: w.partition, Partitions: partitions, Waited: max(w.maxWait, 0),
		Answered: !m.LastUpdate().IsZero(), Cause: cause,
	}
}

func (m *Metadata) cancelled(w *wait, err error) error {
	if _, cause := m.reason(w); cause != nil {
		return fmt.Errorf("wait for metadata of topic %s: %w; so far: %w", w.topic, err, cause)
	}
	return fmt.Errorf("wait for metadata of topic %s: %w", w.topic, err)
}

// reason is what keeps the topic from being known, as far as that is known.
func (m *Metadata) reason(w *wait) (partitions int, cause error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if t := m.snap.Load().Topic(w.topic); t != nil {
		partitions = t.Count()
		cause = t.Err.Err()
	}
	switch {
	case cause == nil:
		cause = m.lastErr
	case m.lastErr != nil:
		cause = fmt.Errorf("%w; then: %w", cause, m.lastErr)
	}
	return partitions, cause
}

// maxTopicName is Kafka's limit, which leaves room for a suffix in a file's name.
const maxTopicName = 249

// invalidName says what is wrong with a topic's name, or nothing. Brokers have the same rules; a name
// that breaks them need not be asked for.
func invalidName(name string) string {
	switch {
	case name == "":
		return "the name is empty"
	case name == "." || name == "..":
		return "the name must not be . or .."
	case len(name) > maxTopicName:
		return fmt.Sprintf("the name has %d characters, more than %d", len(name), maxTopicName)
	}
	for i := 0; i < len(name); i++ {
		switch c := name[i]; {
		case 'a' <= c && c <= 'z', 'A' <= c && c <= 'Z', '0' <= c && c <= '9', c == '.', c == '_', c == '-':
		default:
			return "the name has characters other than letters, digits, dot, underscore and hyphen"
		}
	}
	return ""
}
