package netclient

import (
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"net"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/kafka-reservoir/producer/internal/invariants"
	"github.com/kafka-reservoir/producer/internal/metrics"
	"github.com/kafka-reservoir/producer/protocol"
)

// TCPConfig is what a TCPSelector needs to know. The zero value is plaintext TCP with the defaults
// that the fields name.
type TCPConfig struct {
	// Dial opens a connection; nil means net.Dialer with keep-alive. It must return soon after ctx ends.
	// With a nil LookupHost it is given host names as they are configured or advertised, and resolves them.
	Dial func(ctx context.Context, network, address string) (net.Conn, error)
	// LookupHost resolves a host name, anew for every attempt to connect; all addresses are tried in
	// the order given. Nil means the system's resolver if Dial is nil too, and otherwise leaves names to Dial.
	LookupHost func(ctx context.Context, host string) ([]string, error)
	// TLS turns on TLS; nil means plaintext. It is copied for each connection, never written to, and
	// the host name of the node is filled in where ServerName is empty.
	TLS *tls.Config

	// AskCluster has every broker with an id say which cluster it belongs to before the connection counts as up:
	// one round trip more for each connection.
	AskCluster bool

	// ClientID stands in the header of the requests the selector makes itself (client.id).
	ClientID string
	// SoftwareName and SoftwareVersion tell the broker who we are (KIP-511). Empty means this library's name, and "unknown".
	SoftwareName, SoftwareVersion string

	// MaxResponseSize bounds a response frame; zero or less means 16 MiB.
	MaxResponseSize int
	// SendBuffer and ReceiveBuffer are the sizes of the socket's buffers (send.buffer.bytes,
	// receive.buffer.bytes); zero or less leaves them to the operating system.
	SendBuffer, ReceiveBuffer int
	// Linger bounds how long a closed connection that carried requests without responses (acks=0) is
	// kept half open, so that what was written reaches the broker; zero means 50ms, less than zero not at all.
	Linger time.Duration

	// Turn is held by whoever owns the client, but for the time that it sleeps in Poll: another goroutine that gets it then is the owner until it
	// gives it back. Nil: nobody else ever is.
	Turn sync.Locker
	// Assist is called, instead of waking the owner, by a reader that has a response while the owner sleeps. It handles that as the owner, or
	// calls Wakeup. Nil calls Wakeup.
	Assist func()

	// Metrics counts connections and bytes; nil counts them for nobody.
	Metrics *metrics.Set
}

const (
	defaultMaxResponseSize = 16 << 20
	defaultLinger          = 50 * time.Millisecond
)

func (c TCPConfig) withDefaults() TCPConfig {
	if c.Dial == nil {
		c.Dial = (&net.Dialer{}).DialContext // keep-alive is on by default
		if c.LookupHost == nil {
			c.LookupHost = net.DefaultResolver.LookupHost
		}
	}
	c.SoftwareName = cmp.Or(c.SoftwareName, "kafka-reservoir-producer")
	c.SoftwareVersion = cmp.Or(c.SoftwareVersion, "unknown")
	if c.MaxResponseSize <= 0 {
		c.MaxResponseSize = defaultMaxResponseSize
	}
	c.Linger = cmp.Or(c.Linger, defaultLinger)
	c.Metrics = metrics.OrNew(c.Metrics)
	return c
}

// errClosedHere ends the connections that this side closes.
var errClosedHere = errors.New("connection closed by this client")

// TCPSelector is the Selector for real networks: two goroutines per connection do the waiting, and
// everything they find out goes through one queue of events.
//
// There is one lock. It is held for a few instructions per frame, and never while anything waits or
// foreign code runs; a lock per connection was not worth the order that two locks would need.
type TCPSelector struct {
	cfg TCPConfig
	wg  sync.WaitGroup // every goroutine of the selector

	// Owned by the goroutine that owns the client.
	conns map[int32]*conn // from Connect until Poll has returned the Disconnected
	lost  map[int32]int   // attempts in a row in which the node hung up on ApiVersions (FC-126)
	out   []Event         // what the last Poll returned
	timer *time.Timer
	shut  bool

	calm calm // asked by readers and writers, decided by the owner

	mu     sync.Mutex // guards the fields below, and those that conn names
	events []Event
	free   [][]byte // payload buffers to use again
	polls  uint64   // how often Poll took the events
	full   []*conn  // readers that wait for the next Poll

	// woken says that the next, or the current, Poll must return; it is set under mu for an event, so
	// that a Poll which takes an event also takes its wake-up. A Poll that is about to sleep sets
	// sleeping and then looks at woken; a waker sets woken and then looks at sleeping: one of them sees
	// the other, and nobody pays for a signal that nobody waits for.
	woken    atomic.Bool
	sleeping atomic.Bool
	signal   chan struct{} // one slot
}

var _ Selector = (*TCPSelector)(nil)

// NewTCPSelector returns a selector without connections. Shutdown must be called in the end.
func NewTCPSelector(cfg TCPConfig) *TCPSelector {
	return &TCPSelector{
		cfg:    cfg.withDefaults(),
		conns:  make(map[int32]*conn),
		lost:   make(map[int32]int),
		signal: make(chan struct{}, 1),
	}
}

// Connect implements [Selector]. A timeout of zero or less is no limit.
func (s *TCPSelector) Connect(node protocol.Node, timeout time.Duration) {
	if s.conns[node.ID] != nil || s.shut {
		invariants.Check(s.shut, "connect to node %v, which has a connection", node)
		return
	}
	c := &conn{
		sel:      s,
		node:     node,
		timeout:  timeout,
		wake:     make(chan struct{}, 1),
		room:     make(chan struct{}, 1),
		released: make(chan struct{}),
		lost:     s.lost[node.ID],
	}
	var ctx context.Context
	if timeout > 0 {
		ctx, c.cancel = context.WithTimeout(context.Background(), timeout)
	} else {
		ctx, c.cancel = context.WithCancel(context.Background())
	}
	s.conns[node.ID] = c
	s.wg.Go(func() { c.run(ctx) }) // ends with the connection; Close and Shutdown end that
}

// Send implements [Selector].
func (s *TCPSelector) Send(node, id int32, f protocol.Frame) {
	if s.shut {
		return
	}
	if invariants.Enabled {
		size := 0
		for _, b := range f.Buffers {
			size += len(b)
		}
		invariants.Check(size == f.Size, "frame %d says %d bytes and has %d", id, f.Size, size)
	}
	c := s.conns[node]
	s.mu.Lock()
	if c == nil || c.state == connecting || c.state == gone {
		s.refuseLocked(Event{Kind: Dropped, Node: node, ID: id})
		signal := s.wakeLocked()
		s.mu.Unlock()
		s.wakePoller(signal)
		return
	}
	q := queuedFrame{id: id, frame: f}
	c.oneWay = c.oneWay || f.NotifySent
	if c.state == up && c.quiet && !f.NotifySent {
		c.due++
		s.calm.expected.Add(1)
	}
	if c.state == up && c.direct != nil && f.Size <= maxDirect && c.idle && len(c.queue) == 0 {
		s.mu.Unlock()
		q.done = c.direct.write(f)
		c.out.count.add(q.done)
		s.mu.Lock()
		if q.done == f.Size {
			signal := s.sentLocked(c, &q)
			s.mu.Unlock()
			s.wakePoller(signal)
			return
		}
		if c.state == gone { // meanwhile
			s.refuseLocked(Event{Kind: Dropped, Node: node, ID: id})
			signal := s.wakeLocked()
			s.mu.Unlock()
			s.wakePoller(signal)
			return
		}
	}
	c.queue = append(c.queue, q)
	wake := c.idle
	c.idle = false
	s.mu.Unlock()
	if wake {
		poke(c.wake)
	}
}

// sentLocked reports a frame that the owner has written itself, before the Disconnected if the connection has ended meanwhile. It says whether the
// poller has to be signalled, as reportSentLocked.
func (s *TCPSelector) sentLocked(c *conn, q *queuedFrame) (signal bool) {
	e := Event{Kind: Sent, Node: c.node.ID, ID: q.id}
	if c.state == gone {
		s.refuseLocked(e)
	} else {
		s.events = append(s.events, e)
	}
	return c.notifiesLocked(q) && s.wakeLocked()
}

// refuseLocked adds the last word on a frame whose connection is gone: before the Disconnected, if the
// client has not seen that yet, since nothing may follow it.
func (s *TCPSelector) refuseLocked(e Event) {
	at := slices.IndexFunc(s.events, func(o Event) bool { return o.Kind == Disconnected && o.Node == e.Node })
	if at < 0 {
		at = len(s.events)
	}
	s.events = slices.Insert(s.events, at, e)
}

// Close implements [Selector].
func (s *TCPSelector) Close(node int32) {
	if c := s.conns[node]; c != nil {
		c.close()
	}
}

// Poll implements [Selector].
//
// The news that a frame was sent wakes nobody by itself, unless [protocol.Frame.NotifySent] asks for it or
// its response came before: it is returned with whatever comes next, in general the response.
func (s *TCPSelector) Poll(now time.Time, timeout time.Duration) (time.Time, []Event) {
	if timeout != 0 && !s.woken.Load() && !s.shut {
		s.wait(timeout)
	}
	s.mu.Lock()
	s.woken.Store(false)
	s.recycleLocked(s.out)
	clear(s.out)
	s.out, s.events = s.events, s.out[:0]
	s.polls++
	full := s.full
	s.full = nil // rare: a reader has to be far ahead
	s.mu.Unlock()

	for _, c := range full {
		poke(c.room)
	}
	for i := range s.out {
		switch e := &s.out[i]; e.Kind {
		case Connected:
			delete(s.lost, e.Node)
		case Disconnected:
			s.forget(s.conns[e.Node])
		}
	}
	if t := time.Now(); t.After(now) {
		now = t
	}
	return now, s.out
}

// forget ends the book-keeping for a connection that is gone.
func (s *TCPSelector) forget(c *conn) {
	if c == nil {
		return // Shutdown was faster
	}
	delete(s.conns, c.node.ID)
	if c.lost > 0 && c.sock == nil { // never up
		s.lost[c.node.ID] = c.lost
	}
}

// wait returns when there is something to return from Poll for, or timeout is over.
func (s *TCPSelector) wait(timeout time.Duration) {
	s.sleeping.Store(true)
	if s.cfg.Turn != nil {
		s.cfg.Turn.Unlock()
		defer s.cfg.Turn.Lock()
	}
	defer s.sleeping.Store(false)
	var end time.Time // of timeout, once it was divided
	for {
		nap := timeout
		if s.calm.watch() && (timeout < 0 || timeout > monitorNap) {
			nap = monitorNap
			if timeout > 0 && end.IsZero() {
				end = time.Now().Add(timeout)
			}
		}
		if s.sleep(nap) || nap == timeout {
			return
		}
		if timeout > 0 {
			if timeout = time.Until(end); timeout <= 0 {
				return
			}
		}
	}
}

// sleep reports whether it was ended by a wake-up. A negative timeout is without limit.
func (s *TCPSelector) sleep(timeout time.Duration) (woken bool) {
	var over <-chan time.Time
	if timeout > 0 {
		if s.timer == nil {
			s.timer = time.NewTimer(timeout)
		} else {
			s.timer.Reset(timeout)
		}
		defer s.timer.Stop()
		over = s.timer.C
	}
	for !s.woken.Load() { // a signal may be left over from an earlier Poll
		select {
		case <-s.signal:
		case <-over:
			return false
		}
	}
	return true
}

// Wakeup implements [Selector]. It signals although a wake-up may be due already: who noted that may have left the signal to an assistant, and this
// is the assistant.
func (s *TCPSelector) Wakeup() {
	s.woken.Store(true)
	s.wakePoller(s.sleeping.Load())
}

// wakeLocked notes that Poll must return and reports whether it must be signalled, which is done by
// wakePoller once s.mu is free. It needs the lock only to be one with an event.
func (s *TCPSelector) wakeLocked() bool { return !s.woken.Swap(true) && s.sleeping.Load() }

func (s *TCPSelector) wakePoller(signal bool) {
	if signal {
		poke(s.signal)
	}
}

// poke puts something into a channel of one slot, unless there is something already.
func poke(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}

// Shutdown implements [Selector].
func (s *TCPSelector) Shutdown() {
	s.shut = true
	for _, c := range s.conns {
		c.close()
	}
	s.wg.Wait()
	clear(s.conns)
	s.mu.Lock()
	s.events, s.out, s.free, s.full = nil, nil, nil, nil
	s.mu.Unlock()
}

// Payload buffers go from the reader to the client and, one Poll later, back. They are kept within
// these bounds; a bigger one (metadata of a large cluster) is rare and left to the garbage collector.
const (
	minPayloadCap  = 4 << 10
	maxPayloadKept = 64 << 10
	maxBuffersKept = 64
)

// recycleLocked takes back the payloads of the events that the client is done with.
func (s *TCPSelector) recycleLocked(events []Event) {
	for i := range events {
		if p := events[i].Payload; cap(p) >= minPayloadCap && cap(p) <= maxPayloadKept && len(s.free) < maxBuffersKept {
			s.free = append(s.free, p[:0])
		}
	}
}

// bufferLocked returns a buffer for the next payload, or nil.
func (s *TCPSelector) bufferLocked() []byte {
	n := len(s.free)
	if n == 0 {
		return nil
	}
	b := s.free[n-1]
	s.free[n-1] = nil
	s.free = s.free[:n-1]
	return b
}
