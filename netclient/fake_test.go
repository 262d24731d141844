package netclient

import (
	"bytes"
	"errors"
	"io"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/kafka-reservoir/producer/protocol"
)

const ms = time.Millisecond

// t0 is when the tests begin. Their time is virtual: it passes in fakeSelector.Poll.
var t0 = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

var errReset = errors.New("connection reset")

// fakeSelector keeps the contract of Selector and does, at virtual times, what the test scripts.
type fakeSelector struct {
	t     *testing.T
	now   time.Time
	conns map[int32]*fakeConn
	queue []fakeEvent // in the order in which they were scheduled
	out   []Event
	woken bool
	shut  bool

	// What the client did.
	connects []fakeConnect
	polls    int
	stuck    bool // a Poll without limit and with nothing that could end it

	// What the network does by itself; each may be nil.
	onConnect func(node protocol.Node, timeout time.Duration)
	onSend    func(node int32, f fakeFrame)
	slowClose bool // Close is not followed by its events; the test calls gone
}

type fakeEvent struct {
	at time.Time
	Event
}

type fakeConnect struct {
	node    protocol.Node
	timeout time.Duration
	at      time.Time
}

type fakeConn struct {
	node     protocol.Node
	up       bool
	closed   bool // its end is in the queue
	byClient bool
	frames   []fakeFrame // accepted, neither Sent nor Dropped
	sent     []fakeFrame // Sent, not answered
}

type fakeFrame struct {
	id     int32
	header protocol.RequestHeader
	body   []byte
	notify bool
}

func newFakeSelector(t *testing.T) *fakeSelector {
	return &fakeSelector{t: t, now: t0, conns: make(map[int32]*fakeConn)}
}

func (f *fakeSelector) Connect(node protocol.Node, timeout time.Duration) {
	require.Nil(f.t, f.conns[node.ID], "connect to %v, which has a connection", node)
	require.False(f.t, f.shut)
	f.conns[node.ID] = &fakeConn{node: node}
	f.connects = append(f.connects, fakeConnect{node, timeout, f.now})
	if f.onConnect != nil {
		f.onConnect(node, timeout)
	}
}

func (f *fakeSelector) Send(node, id int32, frame protocol.Frame) {
	var raw []byte
	for _, b := range frame.Buffers {
		raw = append(raw, b...)
	}
	h, body, err := protocol.ReadRequestHeader(raw[4:])
	require.NoError(f.t, err)
	frm := fakeFrame{id: id, header: h, body: bytes.Clone(body), notify: frame.NotifySent}
	c := f.conns[node]
	if c == nil || !c.up || c.closed {
		f.schedule(0, Event{Kind: Dropped, Node: node, ID: id})
		return
	}
	c.frames = append(c.frames, frm)
	if f.onSend != nil {
		f.onSend(node, frm)
	}
}

func (f *fakeSelector) Close(node int32) {
	c := f.conns[node]
	if c == nil && slices.ContainsFunc(f.out, func(e Event) bool { return e.Kind == Disconnected && e.Node == node }) {
		return // the client has not come to that event yet
	}
	require.NotNil(f.t, c, "close of node %d, which has no connection", node)
	require.False(f.t, c.byClient, "node %d closed twice", node)
	c.byClient = true
	if c.closed { // its end lies in the future
		for i := range f.queue {
			if e := &f.queue[i]; e.Node == node && e.at.After(f.now) {
				e.at = f.now
			}
		}
		return
	}
	c.closed = true
	if !f.slowClose {
		f.gone(0, node, io.ErrClosedPipe)
	}
}

func (f *fakeSelector) Poll(now time.Time, timeout time.Duration) (time.Time, []Event) {
	require.False(f.t, f.shut, "poll after shutdown")
	require.False(f.t, now.Before(f.now), "time went back")
	f.now = now
	f.polls++
	next, ok := f.next()
	switch {
	case ok && !next.After(f.now), f.woken:
	case timeout < 0 && !ok:
		f.stuck = true
	case timeout < 0, ok && !next.After(f.now.Add(timeout)):
		f.now = next
	default:
		f.now = f.now.Add(timeout)
	}
	f.woken = false
	f.out = f.out[:0]
	f.queue = slices.DeleteFunc(f.queue, func(e fakeEvent) bool {
		if e.at.After(f.now) {
			return false
		}
		f.out = append(f.out, e.Event)
		return true
	})
	for _, e := range f.out {
		if e.Kind == Disconnected {
			delete(f.conns, e.Node)
		}
	}
	return f.now, f.out
}

func (f *fakeSelector) Wakeup() { f.woken = true }

func (f *fakeSelector) Shutdown() {
	f.shut = true
	f.queue = nil
}

// next is the time of the first event.
func (f *fakeSelector) next() (t time.Time, ok bool) {
	for _, e := range f.queue {
		if !ok || e.at.Before(t) {
			t, ok = e.at, true
		}
	}
	return t, ok
}

// schedule lets an event happen after a delay.
func (f *fakeSelector) schedule(after time.Duration, e Event) {
	f.queue = append(f.queue, fakeEvent{f.now.Add(after), e})
}

// up lets a node's attempt to connect succeed.
func (f *fakeSelector) up(after time.Duration, node int32, versions *protocol.ApiVersionsResponse) {
	f.conns[node].up = true
	f.schedule(after, Event{Kind: Connected, Node: node, Versions: versions})
}

// gone ends a connection, or an attempt, for a reason: what is not sent is dropped.
func (f *fakeSelector) gone(after time.Duration, node int32, err error) {
	c := f.conns[node]
	c.closed = true
	for _, frm := range c.frames {
		f.schedule(after, Event{Kind: Dropped, Node: node, ID: frm.id})
	}
	c.frames = nil
	f.schedule(after, Event{Kind: Disconnected, Node: node, Err: err})
}

// write lets the oldest frame be sent, and returns it.
func (f *fakeSelector) write(after time.Duration, node int32) fakeFrame {
	c := f.conns[node]
	require.NotEmpty(f.t, c.frames, "node %d has no frame to write", node)
	frm := c.frames[0]
	c.frames = c.frames[1:]
	c.sent = append(c.sent, frm)
	f.schedule(after, Event{Kind: Sent, Node: node, ID: frm.id})
	return frm
}

// receive lets a payload arrive.
func (f *fakeSelector) receive(after time.Duration, node int32, payload []byte) {
	f.schedule(after, Event{Kind: Received, Node: node, Payload: payload})
}

// answer lets the oldest frame be sent and answered.
func (f *fakeSelector) answer(after time.Duration, node int32, m protocol.Message) {
	c := f.conns[node]
	if len(c.frames) > 0 {
		f.write(after, node)
	}
	frm := c.sent[0]
	c.sent = c.sent[1:]
	f.receive(after, node, payload(frm, m))
}

// payload is m as the answer to a frame, which it need not fit.
func payload(frm fakeFrame, m protocol.Message) []byte {
	h := frm.header
	_, highest := m.Key().Versions()
	return m.AppendTo(protocol.AppendResponseHeader(nil, h.Key, h.Version, h.CorrelationID), min(h.Version, highest))
}

// apis is an answer to ApiVersions of a broker of today.
func apis(changes ...protocol.ApiVersion) *protocol.ApiVersionsResponse {
	resp := &protocol.ApiVersionsResponse{
		FinalizedFeaturesEpoch: -1,
		ApiKeys: []protocol.ApiVersion{
			{ApiKey: protocol.KeyProduce, MinVersion: 3, MaxVersion: 13},
			{ApiKey: protocol.KeyMetadata, MinVersion: 0, MaxVersion: 13},
			{ApiKey: protocol.KeyAPIVersions, MinVersion: 0, MaxVersion: 4},
			{ApiKey: protocol.KeyInitProducerID, MinVersion: 0, MaxVersion: 5},
		},
	}
	for _, ch := range changes {
		i := slices.IndexFunc(resp.ApiKeys, func(v protocol.ApiVersion) bool { return v.ApiKey == ch.ApiKey })
		switch {
		case i < 0:
			resp.ApiKeys = append(resp.ApiKeys, ch)
		case ch.MaxVersion < 0:
			resp.ApiKeys = slices.Delete(resp.ApiKeys, i, i+1)
		default:
			resp.ApiKeys[i] = ch
		}
	}
	return resp
}

// fakeMetadata is a MetadataUpdater that does what the test says.
var errWrongCluster = errors.New("wrong cluster")

type fakeMetadata struct {
	cluster string // what CheckCluster expects; empty: anything
	nodes   []protocol.Node
	dueAt   time.Time // zero: never
	pause   time.Duration

	requests    int
	responses   []*protocol.MetadataResponse
	failures    []error
	disconnects []error
	fatal       []error
	refuse      error // what HandleResponse returns
	boot        []protocol.Node
	asked       []bool // Rebootstrap: force
	trigger     bool   // Rebootstrap goes back without force
}

func (m *fakeMetadata) Nodes() []protocol.Node { return m.nodes }

func (m *fakeMetadata) TimeToUpdate(now time.Time) time.Duration {
	if m.dueAt.IsZero() {
		return forever
	}
	return max(m.dueAt.Sub(now), 0)
}

func (m *fakeMetadata) NewRequest(time.Time) *protocol.MetadataRequest {
	m.requests++
	m.dueAt = time.Time{}
	return &protocol.MetadataRequest{Topics: []protocol.MetadataRequestTopic{}, AllowAutoTopicCreation: true}
}

func (m *fakeMetadata) HandleResponse(_ int16, resp *protocol.MetadataResponse, now time.Time) error {
	m.responses = append(m.responses, resp)
	if m.refuse != nil {
		m.dueAt = now.Add(m.pause)
	}
	return m.refuse
}

func (m *fakeMetadata) HandleFailure(err error, now time.Time) {
	m.failures = append(m.failures, err)
	m.dueAt = now.Add(m.pause)
}

func (m *fakeMetadata) HandleDisconnect(err error) { m.disconnects = append(m.disconnects, err) }
func (m *fakeMetadata) CheckCluster(id string) error {
	if m.cluster != "" && id != "" && id != m.cluster {
		return errWrongCluster
	}
	return nil
}
func (m *fakeMetadata) ConfirmCluster(id string) error { return m.CheckCluster(id) }
func (m *fakeMetadata) SetFatal(err error)             { m.fatal = append(m.fatal, err) }

func (m *fakeMetadata) Rebootstrap(_ time.Time, force bool) bool {
	m.asked = append(m.asked, force)
	if m.boot == nil || !force && !m.trigger {
		return false
	}
	m.nodes, m.boot, m.trigger = m.boot, nil, false
	return true
}

// nodes are brokers under the given ids.
func nodes(ids ...int32) []protocol.Node {
	var ns []protocol.Node
	for _, id := range ids {
		ns = append(ns, protocol.Node{ID: id, Host: "host", Port: 9000 + id})
	}
	return ns
}

// rig is a client over the fakes. Jitter is off, so all times are exact.
type rig struct {
	*NetworkClient
	t   *testing.T
	sel *fakeSelector
	md  *fakeMetadata
	now time.Time
}

func newRig(t *testing.T, cfg Config, ids ...int32) *rig {
	sel, md := newFakeSelector(t), &fakeMetadata{nodes: nodes(ids...)}
	return &rig{New(cfg, sel, md), t, sel, md, t0}
}

// poll runs Poll for at most d.
func (r *rig) poll(d time.Duration) {
	r.t.Helper()
	r.now = r.Poll(r.now, d)
}

// pass lets d of time pass, however many polls that takes.
func (r *rig) pass(d time.Duration) {
	r.t.Helper()
	for end := r.now.Add(d); r.now.Before(end); {
		r.poll(end.Sub(r.now))
	}
}

// connect makes a node ready.
func (r *rig) connect(id int32) {
	r.t.Helper()
	require.False(r.t, r.Ready(r.node(id), r.now))
	r.sel.up(0, id, apis())
	r.poll(0)
	require.True(r.t, r.Ready(r.node(id), r.now), "node %d is not ready", id)
}

func (r *rig) node(id int32) protocol.Node { return nodes(id)[0] }

func (r *rig) state(id int32) nodeState {
	if n := r.find(id); n != nil {
		return n.state
	}
	return nodeIdle
}

// outcome is what a request came to.
type outcome struct {
	name      string
	log       *[]string // in the order of HandleResponse
	responses int
	released  int
	resp      Response
	body      []byte
	then      func(*Response)
}

func (o *outcome) HandleResponse(r *Response) {
	o.responses++
	o.resp = *r
	o.body = bytes.Clone(r.Body)
	if o.log != nil {
		*o.log = append(*o.log, o.name)
	}
	if o.then != nil {
		o.then(r)
	}
}

func (o *outcome) HandleReleased() { o.released++ }

// pending requires that no answer came yet.
func (o *outcome) pending(t *testing.T) {
	t.Helper()
	require.Zero(t, o.responses, "answered: %v", o.resp.Err)
}

// done requires exactly one answer and one release, and returns the answer.
func (o *outcome) done(t *testing.T) Response {
	t.Helper()
	require.Equal(t, 1, o.responses, "answers")
	require.Equal(t, 1, o.released, "releases")
	return o.resp
}

// send sends a request that the fake broker may answer with anything.
func (r *rig) send(id int32, o *outcome, edit ...func(*Request)) int32 {
	corr := r.NextCorrelationID()
	req := Request{
		Node: id, API: protocol.KeyInitProducerID, Version: 4, CorrelationID: corr, Handler: o,
		Frame: protocol.NewFrame(protocol.RequestHeader{Key: protocol.KeyInitProducerID, Version: 4, CorrelationID: corr}, &protocol.InitProducerIdRequest{}),
	}
	for _, e := range edit {
		e(&req)
	}
	r.Send(req, r.now)
	return corr
}

var pidAnswer = &protocol.InitProducerIdResponse{ProducerID: 7}
