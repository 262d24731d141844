package netclient

import (
	"cmp"
	"fmt"
	"log/slog"
	"math"
	"time"

	"github.com/kafka-reservoir/producer/internal/backoff"
	"github.com/kafka-reservoir/producer/internal/invariants"
	"github.com/kafka-reservoir/producer/protocol"
)

// Config is what a NetworkClient needs to know. It must not be changed after New.
type Config struct {
	// ClientID stands in the header of every request that the client builds (client.id).
	ClientID string
	// RequestTimeout is how long an answer may take (request.timeout.ms). Zero means 30s.
	RequestTimeout time.Duration
	// MaxInFlight is how many requests a node may have unanswered
	// (max.in.flight.requests.per.connection). Zero means 5.
	MaxInFlight int
	// ReconnectBackoff and ReconnectBackoffMax bound the pause between attempts to connect to a node
	// (reconnect.backoff.ms, reconnect.backoff.max.ms). Zero means 50ms and 1s.
	ReconnectBackoff, ReconnectBackoffMax time.Duration
	// ConnectionSetupTimeout and ConnectionSetupTimeoutMax bound how long an attempt may take
	// (socket.connection.setup.timeout.ms and .max.ms). Zero means 10s and 30s.
	ConnectionSetupTimeout, ConnectionSetupTimeoutMax time.Duration
	// ConnectionsMaxIdle is when a connection without requests is closed (connections.max.idle.ms).
	// Zero means 9m, less means never.
	ConnectionsMaxIdle time.Duration

	// Rand returns a number in [0, n). Nil means neither jitter nor spreading.
	Rand func(n int) int
	// Logger may be nil.
	Logger *slog.Logger

	// The hooks are called on the client's goroutine; each may be nil.

	// ConnectDone: an attempt to connect ended; err is nil when the connection is usable.
	ConnectDone func(node protocol.Node, took time.Duration, err error)
	// RequestSent: a request was handed to a connection; written is its size in bytes. RequestDone follows.
	RequestSent func(node int32, written int)
	// RequestDone: a request was answered, or will not be. written and read are sizes in bytes; err is
	// a failure of the connection, never of the answer's content.
	RequestDone func(node int32, api protocol.APIKey, version int16, written, read int, took time.Duration, err error)
	// Throttled: a node asked to be left alone for so long.
	Throttled func(node int32, d time.Duration)
	// NodeForgotten: nothing is known any more of a node that left the cluster a while ago.
	NodeForgotten func(node int32)
}

func (c Config) withDefaults() Config {
	c.RequestTimeout = cmp.Or(c.RequestTimeout, 30*time.Second)
	c.MaxInFlight = cmp.Or(c.MaxInFlight, 5)
	c.ReconnectBackoff = cmp.Or(c.ReconnectBackoff, 50*time.Millisecond)
	c.ReconnectBackoffMax = cmp.Or(c.ReconnectBackoffMax, time.Second)
	c.ConnectionSetupTimeout = cmp.Or(c.ConnectionSetupTimeout, 10*time.Second)
	c.ConnectionSetupTimeoutMax = cmp.Or(c.ConnectionSetupTimeoutMax, 30*time.Second)
	c.ConnectionsMaxIdle = cmp.Or(c.ConnectionsMaxIdle, 9*time.Minute)
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}
	return c
}

// Handler is told what became of a request.
type Handler interface {
	// HandleResponse is called exactly once for each Send, in Poll or Close. r and r.Body are valid
	// during the call only.
	HandleResponse(r *Response)
	// HandleReleased is called exactly once for each Send: from then on nothing refers to the frame's bytes.
	// It may come before or after HandleResponse.
	HandleReleased()
}

// Request is a request for one node.
type Request struct {
	Node          int32
	API           protocol.APIKey
	Version       int16
	CorrelationID int32 // from NextCorrelationID
	Frame         protocol.Frame
	// Timeout is how long the answer may take; zero means Config.RequestTimeout.
	Timeout time.Duration
	// NoResponse says that the broker will not answer (acks=0). HandleResponse comes with a nil Body when the
	// frame was written.
	NoResponse bool
	Handler    Handler
}

// Response is the answer to a request, or the reason why there is none.
type Response struct {
	Node          int32
	API           protocol.APIKey
	Version       int16
	CorrelationID int32
	// Body is what follows the response header; nil with an error, or for a request without answer.
	Body []byte
	// Err is nil, or a [*RequestError] of the kind ErrDisconnected or ErrRequestTimeout.
	Err error
	// Written says, with an error, that the frame left for the broker whole, so that it may have been acted on.
	// A frame that was cut off cannot have been.
	Written bool
	// SentAt is when Send was called, Now the time of the event.
	SentAt, Now time.Time
}

// NetworkClient sends requests to nodes and hands out their answers. See the package documentation for
// its goroutine and its loop.
type NetworkClient struct {
	cfg         Config
	clientID    *string
	log         *slog.Logger
	sel         Selector
	md          MetadataUpdater
	rand        func(n int) int
	sleepsUntil time.Time // when the present, or last, Poll ends by itself
	reconnect   backoff.Exponential
	setup       backoff.Exponential
	budget      budget
	// slowConnect is when an attempt to connect stops being worth waiting for if another node can be tried.
	slowConnect time.Duration
	onMetadata  func(*Response)

	nodes    []*nodeConn // by id
	synced   []protocol.Node
	sweepAt  time.Time // when nodes that left the cluster may be forgotten; zero: there are none
	inFlight int       // requests without an answer, over all nodes
	corr     int32
	refused  []Request     // sent to nodes that were not ready
	late     []lateRelease // answered, but not released
	features finalizedFeatures

	fetching  bool      // a metadata request is in flight
	outdated  bool      // and its answer will be of no use: the nodes were given up meanwhile
	avoid     int32     // the node that was of no use for metadata last, or noNode
	lostSince time.Time // since when metadata is due and no node is connected; see isLost

	resp   Response // handed to handlers
	closed bool
}

// New returns a client without connections. It takes over sel, which Close shuts down.
func New(cfg Config, sel Selector, md MetadataUpdater) *NetworkClient {
	cfg = cfg.withDefaults()
	c := &NetworkClient{
		cfg:         cfg,
		clientID:    &cfg.ClientID,
		log:         cfg.Logger,
		sel:         sel,
		md:          md,
		rand:        cfg.Rand,
		reconnect:   backoff.Exponential{Initial: cfg.ReconnectBackoff, Max: cfg.ReconnectBackoffMax, Rand: cfg.Rand},
		setup:       backoff.Exponential{Initial: cfg.ConnectionSetupTimeout, Max: cfg.ConnectionSetupTimeoutMax, Rand: cfg.Rand},
		slowConnect: max(cfg.ReconnectBackoffMax, cfg.ConnectionSetupTimeout/10),
		features:    finalizedFeatures{epoch: -1},
		avoid:       noNode,
	}
	if c.rand == nil {
		c.rand = func(int) int { return 0 }
	}
	c.onMetadata = c.handleMetadata
	return c
}

// reservedCorrelationIDs at the top are what clients use inside a SASL re-authentication.
const reservedCorrelationIDs = 8

// NextCorrelationID returns an id that no request in flight has.
func (c *NetworkClient) NextCorrelationID() int32 {
	id := c.corr
	c.corr++
	if c.corr > math.MaxInt32-reservedCorrelationIDs {
		c.corr = 0
	}
	return id
}

// Version is the highest version of an API in [minVersion, maxVersion] that the node speaks. It fails with
// an [*UnsupportedVersionError] when there is none, and with ErrDisconnected when the node is not ready.
func (c *NetworkClient) Version(node int32, key protocol.APIKey, minVersion, maxVersion int16) (int16, error) {
	n := c.find(node)
	if n == nil || n.versions == nil {
		return 0, fmt.Errorf("node %d: %w", node, ErrDisconnected)
	}
	return n.versions.pick(key, minVersion, maxVersion)
}

// FinalizedFeature is the level of a feature that the cluster has agreed on, as far as brokers told.
func (c *NetworkClient) FinalizedFeature(name string) (level int16, ok bool) {
	return c.features.level(name)
}

// Ready reports whether a request can be sent to the node now. If it has no connection, one is begun, as
// soon as the back-off and the budget for attempts allow; Poll brings the news.
func (c *NetworkClient) Ready(node protocol.Node, now time.Time) bool {
	if c.closed {
		return false
	}
	n := c.ensure(node)
	n.moveTo(node, now, c.reconnect)
	switch {
	case n.state == nodeReady && sameAddress(n.addr, node):
		return c.canSend(n, now)
	case n.state == nodeIdle:
		if n.canConnect(now) && c.mayTry(n, now) {
			c.connect(n, node, now)
		}
	case !sameAddress(n.addr, node):
		c.close(n, errMoved, true)
	}
	return false
}

// CanSend reports whether a request can be sent to the node now: it is connected, not throttled, has
// less than MaxInFlight requests unanswered, and did not just close a connection that carried requests which are not answered, unless metadata was heard since.
func (c *NetworkClient) CanSend(node int32, now time.Time) bool {
	n := c.find(node)
	return n != nil && c.canSend(n, now)
}

func (c *NetworkClient) canSend(n *nodeConn, now time.Time) bool {
	return n.state == nodeReady && n.inFlight.waiting < c.cfg.MaxInFlight && !n.isThrottled(now) && !now.Before(n.doubted)
}

// PollDelay is how long until the node may become able to be sent to by the passing of time alone: the rest
// of a back-off, of the wait for a place in the budget for attempts, of a throttle or a doubt, zero when it could be connected now, practically for ever when only an
// event can change it.
func (c *NetworkClient) PollDelay(node int32, now time.Time) time.Duration {
	if n := c.find(node); n != nil {
		return n.delay(now)
	}
	return 0
}

// InFlightCount is how many requests of the node are unanswered.
func (c *NetworkClient) InFlightCount(node int32) int {
	if n := c.find(node); n != nil {
		return n.inFlight.waiting
	}
	return 0
}

// InFlight is how many requests are unanswered.
func (c *NetworkClient) InFlight() int { return c.inFlight }

// LastError is why the node's last connection, or attempt to make one, failed. It is nil when the node
// is connected or was never tried.
func (c *NetworkClient) LastError(node int32) error {
	if n := c.find(node); n != nil {
		return n.lastErr
	}
	return nil
}

// connect begins an attempt. n is idle, past its back-off, and may try.
func (c *NetworkClient) connect(n *nodeConn, addr protocol.Node, now time.Time) {
	patience := c.setup.Delay(n.attempts)
	for _, m := range c.nodes {
		if m != n && sameAddress(m.at, n.at) && m.place.Equal(n.place) {
			m.place = time.Time{} // it was for all of them
		}
	}
	n.becomeConnecting(addr, now, patience)
	c.budget.note(now)
	c.log.Debug("connecting", "node", addr.ID, "addr", addr.Addr(), "timeout", patience)
	c.sel.Connect(addr, patience)
}

// close ends a connection, or an attempt, if there is one. What is in flight fails when it has ended.
func (c *NetworkClient) close(n *nodeConn, why error, planned bool) {
	if n.state == nodeConnecting || n.state == nodeReady {
		n.becomeClosing(why, planned)
		c.sel.Close(n.addr.ID)
	}
}

// Disconnect closes the connection of a node whose answers make no sense, or that is to be left for another
// reason. Nothing more is read from it. Its requests fail with ErrDisconnected in a later Poll, and the
// node is in back-off then. Without a connection it does nothing.
func (c *NetworkClient) Disconnect(node int32, why error, now time.Time) {
	if n := c.find(node); n != nil && n.state != nodeIdle {
		n.deaf = true
		if why == nil {
			why = errAsked
		}
		c.close(n, why, false)
	}
}

// Send sends a request to a node for which CanSend holds. It takes over the frame until HandleReleased.
// After Close it does nothing.
func (c *NetworkClient) Send(r Request, now time.Time) {
	if c.closed {
		return
	}
	n := c.find(r.Node)
	if n == nil || n.state != nodeReady {
		invariants.Check(false, "%v sent to node %d, which is not ready", r.API, r.Node)
		c.refused = append(c.refused, r) // answered by Poll: handlers do not run in Send
		c.sel.Wakeup()
		return
	}
	timeout := cmp.Or(r.Timeout, c.cfg.RequestTimeout)
	n.inFlight.push(pending{
		handler: r.Handler, api: r.API, version: r.Version, corr: r.CorrelationID, size: r.Frame.Size,
		sentAt: now, timeout: timeout, deadline: now.Add(timeout), noResponse: r.NoResponse,
	})
	c.inFlight++
	if c.cfg.RequestSent != nil {
		c.cfg.RequestSent(r.Node, r.Frame.Size)
	}
	n.usedAt = now
	n.oneWay = n.oneWay || r.NoResponse
	r.Frame.NotifySent = r.Frame.NotifySent || r.NoResponse
	c.sel.Send(r.Node, r.CorrelationID, r.Frame)
}

// funcHandler is a Handler for requests whose frame nobody wants back.
type funcHandler func(*Response)

func (f funcHandler) HandleResponse(r *Response) { f(r) }
func (funcHandler) HandleReleased()              {}

// SendMessage builds and sends a request in the highest version in [minVersion, maxVersion] that the node
// speaks. h is called once with the answer, unless an error is returned (see Version).
func (c *NetworkClient) SendMessage(node int32, m protocol.Message, minVersion, maxVersion int16, h func(*Response), now time.Time) error {
	version, err := c.Version(node, m.Key(), minVersion, maxVersion)
	if err != nil {
		return err
	}
	corr := c.NextCorrelationID()
	c.Send(Request{
		Node: node, API: m.Key(), Version: version, CorrelationID: corr,
		Frame:   protocol.NewFrame(protocol.RequestHeader{Key: m.Key(), Version: version, CorrelationID: corr, ClientID: c.clientID}, m),
		Handler: funcHandler(h),
	}, now)
	return nil
}

// Wakeup makes the current Poll, or the next one, return. Any goroutine may call it.
func (c *NetworkClient) Wakeup() { c.sel.Wakeup() }
