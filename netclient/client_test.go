package netclient

import (
	"errors"
	"math"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/kafka-reservoir/producer/internal/invariants"
	"github.com/kafka-reservoir/producer/protocol"
)

// NC-02, S-93, S-99, S-102: requests are pipelined up to the limit; each answer goes to the handler of its request, by
// correlation id, in the order of sending, and each handler hears of it once.
func TestRequestsAreAnsweredInOrder(t *testing.T) {
	var calls []string
	r := newRig(t, Config{RequestDone: func(node int32, api protocol.APIKey, version int16, written, read int, took time.Duration, err error) {
		assert.Equal(t, []any{int32(1), protocol.KeyInitProducerID, int16(4)}, []any{node, api, version})
		assert.Positive(t, written)
		assert.Positive(t, read)
		assert.Equal(t, 7*ms, took)
		assert.NoError(t, err)
		calls = append(calls, "hook")
	}}, 1)
	r.connect(1)
	var os [5]outcome
	var ids [5]int32
	for i := range os {
		require.True(t, r.CanSend(1, r.now))
		os[i] = outcome{name: string(rune('a' + i)), log: &calls}
		ids[i] = r.send(1, &os[i])
	}
	assert.False(t, r.CanSend(1, r.now), "5 are in flight")
	assert.False(t, r.Ready(r.node(1), r.now))
	assert.Equal(t, 5, r.InFlightCount(1))
	assert.Equal(t, 5, r.InFlight())
	assert.Zero(t, r.InFlightCount(2))
	assert.Equal(t, forever, r.PollDelay(1, r.now))
	for i := range os {
		r.sel.answer(7*ms, 1, &protocol.InitProducerIdResponse{ProducerID: int64(i)})
	}
	r.pass(7 * ms)
	assert.Equal(t, []string{"hook", "a", "hook", "b", "hook", "c", "hook", "d", "hook", "e"}, calls)
	for i := range os {
		resp := os[i].done(t)
		assert.NoError(t, resp.Err)
		assert.Equal(t, ids[i], resp.CorrelationID)
		assert.Equal(t, t0, resp.SentAt)
		assert.Equal(t, t0.Add(7*ms), resp.Now)
		var got protocol.InitProducerIdResponse
		require.NoError(t, got.ReadFrom(os[i].body, resp.Version))
		assert.EqualValues(t, i, got.ProducerID)
	}
	assert.Zero(t, r.InFlight())
	assert.True(t, r.CanSend(1, r.now))
}

// S-93, FC-134: SendMessage picks the version and builds the frame, client id included.
func TestSendMessage(t *testing.T) {
	r := newRig(t, Config{ClientID: "ünï|=,"}, 1)
	r.connect(1)
	called := 0
	require.NoError(t, r.SendMessage(1, &protocol.InitProducerIdRequest{TransactionTimeoutMs: 9, ProducerID: -1, ProducerEpoch: -1}, 0, 3, func(resp *Response) {
		called++
		assert.NoError(t, resp.Err)
	}, r.now))
	frm := r.sel.conns[1].frames[0]
	assert.Equal(t, protocol.KeyInitProducerID, frm.header.Key)
	assert.EqualValues(t, 3, frm.header.Version)
	assert.Equal(t, "ünï|=,", *frm.header.ClientID)
	assert.Equal(t, frm.id, frm.header.CorrelationID)
	assert.False(t, frm.notify)
	var req protocol.InitProducerIdRequest
	require.NoError(t, req.ReadFrom(frm.body, 3))
	assert.EqualValues(t, 9, req.TransactionTimeoutMs)
	r.sel.answer(0, 1, pidAnswer)
	r.poll(0)
	assert.Equal(t, 1, called)
	assert.ErrorIs(t, r.SendMessage(2, &protocol.InitProducerIdRequest{}, 0, 3, nil, r.now), ErrDisconnected)
}

// NC-01: a request for a node that is not ready is a mistake of the caller. It panics under the invariants tag and
// is otherwise answered like one whose connection is gone, but not before Poll.
func TestSendToUnreadyNode(t *testing.T) {
	for _, reach := range []func(r *rig){
		func(*rig) {},
		func(r *rig) { r.Ready(r.node(1), r.now) },
		func(r *rig) { r.connect(1); r.Disconnect(1, errReset, r.now) },
	} {
		r := newRig(t, Config{}, 1)
		reach(r)
		assert.NoError(t, r.LastError(7))
		var o outcome
		if invariants.Enabled {
			assert.Panics(t, func() { r.send(1, &o) })
			continue
		}
		r.send(1, &o)
		o.pending(t)
		r.poll(time.Hour)
		resp := o.done(t)
		assert.ErrorIs(t, resp.Err, ErrDisconnected)
		assert.False(t, resp.Written)
		assert.Zero(t, r.InFlight())
		assert.Equal(t, t0, r.now, "at once")
	}
}

// S-90: a request without an answer is done when its frame was written, and the selector is asked to say so at
// once; if it was not written, it fails with the connection.
func TestNoResponse(t *testing.T) {
	oneWay := func(r *Request) { r.NoResponse = true }
	r := newRig(t, Config{}, 1)
	r.connect(1)
	var first, second, lost outcome
	r.send(1, &first, oneWay)
	r.send(1, &second)
	assert.True(t, r.sel.conns[1].frames[0].notify)
	assert.False(t, r.sel.conns[1].frames[1].notify)
	r.poll(0)
	first.pending(t)
	r.sel.write(0, 1)
	r.poll(0)
	resp := first.done(t)
	assert.NoError(t, resp.Err)
	assert.Nil(t, resp.Body)
	assert.True(t, resp.Written)
	assert.Equal(t, 1, r.InFlight())

	r.sel.conns[1].sent = nil
	r.sel.answer(0, 1, pidAnswer) // of the second one
	r.send(1, &lost, oneWay)
	r.sel.gone(0, 1, errReset)
	r.poll(0)
	assert.NoError(t, second.done(t).Err)
	resp = lost.done(t)
	assert.ErrorIs(t, resp.Err, ErrDisconnected)
	assert.False(t, resp.Written)
}

// S-100, FC-129: an answer that cannot be right ends the connection, whatever comes behind it, and what is in flight
// fails as being of unknown fate. The node is tried again after the back-off.
func TestNonsenseIsNotBelieved(t *testing.T) {
	for _, tt := range []struct {
		name  string
		bytes func(frm fakeFrame) []byte
		text  string
	}{
		{"wrong correlation id", func(frm fakeFrame) []byte {
			frm.header.CorrelationID += 1
			return payload(frm, pidAnswer)
		}, "correlation id"},
		{"no header", func(fakeFrame) []byte { return []byte{0, 0} }, "response to InitProducerId v4"},
		{"empty", func(fakeFrame) []byte { return nil }, "response to InitProducerId v4"},
		{"HTTP", func(fakeFrame) []byte { return []byte("HTTP/1.1 400 Bad Request") }, "response to InitProducerId v4"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			r := newRig(t, Config{}, 1)
			r.connect(1)
			var order []string
			a, b, c := outcome{name: "a", log: &order}, outcome{name: "b", log: &order}, outcome{name: "c", log: &order}
			r.send(1, &a)
			r.send(1, &b)
			r.send(1, &c)
			r.sel.receive(0, 1, tt.bytes(r.sel.write(0, 1)))
			r.sel.receive(0, 1, payload(r.sel.write(0, 1), pidAnswer))
			r.poll(0)
			a.pending(t)
			assert.Equal(t, nodeClosing, r.state(1))
			r.poll(0)
			assert.Equal(t, []string{"a", "b", "c"}, order)
			for _, o := range []*outcome{&a, &b, &c} {
				resp := o.done(t)
				assert.ErrorIs(t, resp.Err, ErrDisconnected)
				assert.NotErrorIs(t, resp.Err, ErrRequestTimeout)
				assert.ErrorContains(t, resp.Err, tt.text)
				assert.Nil(t, resp.Body)
			}
			assert.True(t, a.resp.Written)
			assert.True(t, b.resp.Written)
			assert.False(t, c.resp.Written)
			assert.Equal(t, 50*ms, r.PollDelay(1, r.now))
			assert.Zero(t, r.InFlight())
		})
	}
}

// S-100: an answer to nothing is nonsense too.
func TestAnswerToNothing(t *testing.T) {
	r := newRig(t, Config{}, 1)
	r.connect(1)
	r.sel.receive(0, 1, []byte{0, 0, 0, 1})
	r.poll(0)
	r.poll(0)
	assert.Equal(t, nodeIdle, r.state(1))
	assert.ErrorContains(t, r.LastError(1), "no request was waiting")
}

// FC-129, S-100: a body that its handler cannot decode ends the connection in the same way: answers that
// lie behind it in the same Poll are not believed.
func TestHandlerFindsNonsense(t *testing.T) {
	r := newRig(t, Config{}, 1)
	r.connect(1)
	bad := errors.New("left-over bytes")
	a := outcome{then: func(resp *Response) { r.Disconnect(resp.Node, bad, resp.Now) }}
	var b outcome
	r.send(1, &a)
	r.send(1, &b)
	r.sel.answer(0, 1, pidAnswer)
	r.sel.answer(0, 1, pidAnswer)
	r.poll(0)
	b.pending(t)
	r.poll(0)
	assert.NoError(t, a.done(t).Err)
	assert.ErrorIs(t, b.done(t).Err, bad)
}

// NC-05, NC-20, S-102: when the user closes a node, or the broker does, each request in flight gets one answer, in
// the order of sending, and the node is not ready. Nobody else's requests are touched.
func TestConnectionEndsWithRequests(t *testing.T) {
	for _, byUser := range []bool{true, false} {
		r := newRig(t, Config{}, 1, 2)
		r.connect(1)
		r.connect(2)
		var order []string
		a, b, other := outcome{name: "a", log: &order}, outcome{name: "b", log: &order}, outcome{name: "other", log: &order}
		r.send(1, &a)
		r.send(2, &other)
		r.send(1, &b)
		r.sel.write(0, 1)
		if byUser {
			r.Disconnect(1, errReset, r.now)
		} else {
			r.sel.gone(0, 1, errReset)
		}
		r.poll(0)
		assert.Equal(t, []string{"a", "b"}, order)
		assert.ErrorIs(t, a.done(t).Err, errReset)
		assert.ErrorIs(t, b.done(t).Err, errReset)
		assert.EqualError(t, b.resp.Err, "InitProducerId to node 1 (host:9001): disconnected before the answer: connection reset")
		assert.True(t, a.resp.Written)
		assert.False(t, b.resp.Written, "a frame that was not written is known not to be")
		assert.False(t, r.Ready(r.node(1), r.now))
		assert.Equal(t, 1, r.InFlight())
		assert.Equal(t, []error{errReset}, r.md.disconnects, "the view may be wrong")
		other.pending(t)
	}
}

// S-101, S-102, NC-09, FC-101: the first request that is not answered in time closes its connection. It has timed
// out, the others are disconnected; metadata is asked for, and the node is tried again.
func TestRequestTimeout(t *testing.T) {
	r := newRig(t, Config{RequestTimeout: time.Second}, 1)
	r.connect(1)
	var order []string
	a, b := outcome{name: "a", log: &order}, outcome{name: "b", log: &order}
	r.send(1, &a)
	r.pass(400 * ms)
	r.send(1, &b)
	r.sel.write(0, 1)
	r.sel.write(0, 1)
	r.poll(-1)
	r.poll(-1)
	assert.Equal(t, t0.Add(time.Second), r.now, "to the instant")
	a.pending(t)
	r.poll(0)
	assert.Equal(t, []string{"a", "b"}, order)
	assert.ErrorIs(t, a.done(t).Err, ErrRequestTimeout)
	assert.NotErrorIs(t, a.resp.Err, ErrDisconnected)
	assert.ErrorIs(t, b.done(t).Err, ErrDisconnected)
	assert.NotErrorIs(t, b.resp.Err, ErrRequestTimeout)
	assert.ErrorContains(t, b.resp.Err, "closed, since InitProducerId v4 was not answered within 1s")
	assert.Len(t, r.md.disconnects, 1)
	assert.Equal(t, 50*ms, r.PollDelay(1, r.now))
	assert.False(t, r.sel.stuck)
	var retriable *RequestError
	require.ErrorAs(t, a.resp.Err, &retriable)
	assert.True(t, retriable.Retriable())
}

// NC-09, IFR-03: a request may have a timeout of its own, shorter than that of an older one.
func TestRequestTimeoutOfItsOwn(t *testing.T) {
	r := newRig(t, Config{RequestTimeout: time.Minute}, 1)
	r.connect(1)
	var a, b outcome
	r.send(1, &a)
	r.send(1, &b, func(req *Request) { req.Timeout = time.Second })
	r.pass(time.Second)
	r.poll(0)
	assert.ErrorIs(t, a.done(t).Err, ErrDisconnected)
	assert.ErrorIs(t, b.done(t).Err, ErrRequestTimeout)
}

// S-101: an answer that comes while the connection is being closed for a timeout is an answer all the same.
func TestLateAnswerCounts(t *testing.T) {
	r := newRig(t, Config{RequestTimeout: time.Second}, 1)
	r.connect(1)
	r.sel.slowClose = true
	var a, b outcome
	r.send(1, &a)
	r.send(1, &b)
	r.pass(time.Second)
	r.poll(0)
	require.Equal(t, nodeClosing, r.state(1))
	r.sel.answer(0, 1, pidAnswer)
	r.sel.gone(0, 1, errReset)
	r.poll(0)
	assert.NoError(t, a.done(t).Err)
	assert.ErrorIs(t, b.done(t).Err, ErrRequestTimeout)
}

// FC-108 and the like: a socket that takes nothing fails requests without answers too.
func TestNoResponseTimesOut(t *testing.T) {
	r := newRig(t, Config{RequestTimeout: time.Second}, 1)
	r.connect(1)
	var o outcome
	r.send(1, &o, func(req *Request) { req.NoResponse = true })
	r.pass(time.Second)
	r.poll(0)
	assert.ErrorIs(t, o.done(t).Err, ErrRequestTimeout)
	assert.ErrorContains(t, o.resp.Err, "was not taken by the broker within 1s")
	assert.False(t, o.resp.Written)
}

// FC-106: the largest timeout is no timeout.
func TestHugeRequestTimeout(t *testing.T) {
	r := newRig(t, Config{RequestTimeout: math.MaxInt64, ConnectionsMaxIdle: math.MaxInt64, ConnectionSetupTimeout: math.MaxInt64, ConnectionSetupTimeoutMax: math.MaxInt64}, 1)
	r.connect(1)
	var o outcome
	r.send(1, &o)
	r.pass(24 * time.Hour)
	o.pending(t)
	assert.Less(t, r.sel.polls, 10)
}

// NC-12, CCS-07, FC-079: a throttled node takes no requests until the time is over; other nodes do.
func TestThrottle(t *testing.T) {
	var hook []time.Duration
	r := newRig(t, Config{Throttled: func(node int32, d time.Duration) {
		assert.EqualValues(t, 1, node)
		hook = append(hook, d)
	}}, 1, 2)
	r.connect(1)
	r.connect(2)
	r.Throttle(1, 100*ms, r.now)
	assert.False(t, r.Ready(r.node(1), r.now))
	assert.Equal(t, 100*ms, r.PollDelay(1, r.now))
	assert.True(t, r.CanSend(2, r.now))
	r.pass(60 * ms)
	assert.Equal(t, 40*ms, r.PollDelay(1, r.now))
	assert.False(t, r.CanSend(1, r.now))

	r.Throttle(1, 20*ms, r.now)
	assert.Equal(t, 40*ms, r.PollDelay(1, r.now), "never moved earlier")
	r.Throttle(1, 70*ms, r.now)
	assert.Equal(t, 70*ms, r.PollDelay(1, r.now))
	r.Throttle(1, 0, r.now)
	r.Throttle(1, -5, r.now)
	r.Throttle(9, time.Second, r.now)
	r.pass(70 * ms)
	assert.True(t, r.Ready(r.node(1), r.now))
	assert.Equal(t, []time.Duration{100 * ms, 20 * ms, 70 * ms}, hook)
}

// S-21: every throttle is told, those that callers find in answers to Produce and the one in an answer to ApiVersions alike.
func TestThrottlesAreTold(t *testing.T) {
	var told []time.Duration
	r := newRig(t, Config{Throttled: func(_ int32, d time.Duration) { told = append(told, d) }}, 1)
	r.Ready(r.node(1), r.now)
	resp := apis()
	resp.ThrottleTimeMs = 400
	r.sel.up(0, 1, resp)
	r.poll(0)
	for _, d := range []time.Duration{100, 200, 300} {
		r.Throttle(1, d*ms, r.now)
	}
	assert.Equal(t, []time.Duration{400 * ms, 100 * ms, 200 * ms, 300 * ms}, told)
}

// A throttle that only damage can explain is cut to a minute.
func TestThrottleIsBounded(t *testing.T) {
	r := newRig(t, Config{}, 1)
	r.connect(1)
	r.Throttle(1, math.MaxInt32*ms, r.now)
	assert.Equal(t, time.Minute, r.PollDelay(1, r.now))
}

// NC-11, FC-078: requests that are in flight while the node throttles get as much more time; overlapping
// throttles count once.
func TestThrottleExtendsTimeouts(t *testing.T) {
	r := newRig(t, Config{RequestTimeout: time.Second}, 1)
	r.connect(1)
	var a, b outcome
	r.send(1, &a)
	r.send(1, &b)
	r.sel.answer(500*ms, 1, pidAnswer)
	a.then = func(resp *Response) { r.Throttle(1, time.Second, resp.Now) }
	r.pass(900 * ms)
	assert.NoError(t, a.done(t).Err)
	r.Throttle(1, 800*ms, r.now) // until 1.7 s instead of 1.5 s: 200 ms more
	r.pass(2200*ms - 900*ms - 1)
	b.pending(t)
	assert.Equal(t, nodeReady, r.state(1))
	r.pass(1)
	r.poll(0)
	assert.ErrorIs(t, b.done(t).Err, ErrRequestTimeout)
}

// FC-078: answer by answer, a broker that reads nothing while it throttles times out nothing.
func TestThrottledPipelineDoesNotTimeOut(t *testing.T) {
	r := newRig(t, Config{RequestTimeout: 500 * ms}, 1)
	r.connect(1)
	os := make([]outcome, 5)
	for i := range os {
		os[i].then = func(resp *Response) { r.Throttle(1, 600*ms, resp.Now) }
		r.send(1, &os[i])
	}
	for i := range os {
		r.sel.answer(time.Duration(i)*600*ms, 1, pidAnswer)
	}
	r.pass(4 * 600 * ms)
	for i := range os {
		assert.NoError(t, os[i].done(t).Err)
	}
	assert.Len(t, r.sel.connects, 1)
}

// NC-13: a throttle time in an answer to ApiVersions counts from v2 on, as far as the broker's range tells.
func TestThrottleInAPIVersions(t *testing.T) {
	for highest, want := range map[int16]time.Duration{1: forever, 2: 400 * ms, 4: 400 * ms} {
		r := newRig(t, Config{}, 1)
		r.Ready(r.node(1), r.now)
		resp := apis(protocol.ApiVersion{ApiKey: protocol.KeyAPIVersions, MaxVersion: highest})
		resp.ThrottleTimeMs = 400
		r.sel.up(0, 1, resp)
		r.poll(0)
		assert.Equal(t, want, r.PollDelay(1, r.now), "v%d", highest)
	}
}

// NC-03: a selector that does not ask for versions makes ready connections too; the latest versions are used then.
func TestWithoutAPIVersions(t *testing.T) {
	r := newRig(t, Config{}, 1)
	r.Ready(r.node(1), r.now)
	r.sel.up(0, 1, nil)
	r.poll(0)
	require.True(t, r.Ready(r.node(1), r.now))
	v, err := r.Version(1, protocol.KeyProduce, 3, 12)
	require.NoError(t, err)
	assert.EqualValues(t, 12, v)
}

// NC-23: correlation ids are unique over a whole round, and leave out the range that SASL re-authentication uses.
func TestCorrelationIDs(t *testing.T) {
	r := newRig(t, Config{}, 1)
	assert.Equal(t, []int32{0, 1, 2}, []int32{r.NextCorrelationID(), r.NextCorrelationID(), r.NextCorrelationID()})
	r.corr = math.MaxInt32 - 9
	var got []int32
	for range 4 {
		got = append(got, r.NextCorrelationID())
	}
	assert.Equal(t, []int32{math.MaxInt32 - 9, math.MaxInt32 - 8, 0, 1}, got)
}

// Handlers may use the client: send the next request, connect, close.
func TestHandlersMayUseTheClient(t *testing.T) {
	r := newRig(t, Config{MaxInFlight: 1}, 1, 2)
	r.connect(1)
	var a, b, c outcome
	a.then = func(*Response) {
		require.True(t, r.CanSend(1, r.now), "the slot is free")
		r.send(1, &b)
		r.Ready(r.node(2), r.now)
	}
	b.then = func(resp *Response) {
		assert.Error(t, resp.Err)
		assert.False(t, r.Ready(r.node(1), resp.Now))
		if !invariants.Enabled {
			r.send(1, &c)
		}
	}
	r.send(1, &a)
	r.sel.answer(0, 1, pidAnswer)
	r.poll(0)
	assert.NoError(t, a.done(t).Err)
	assert.Len(t, r.sel.connects, 2)
	b.pending(t)
	r.sel.gone(0, 1, errReset)
	r.poll(0)
	b.done(t)
	r.poll(0)
	if !invariants.Enabled {
		assert.ErrorIs(t, c.done(t).Err, ErrDisconnected)
	}
	r.connect2()
}

// connect2 lets the attempt that is under way to node 2 succeed.
func (r *rig) connect2() {
	r.sel.up(0, 2, apis())
	r.poll(0)
	require.True(r.t, r.CanSend(2, r.now))
}

// A connection that is closed for a plan may be made again by a handler of a request it had.
func TestHandlerReconnects(t *testing.T) {
	r := newRig(t, Config{}, 1)
	r.connect(1)
	a := outcome{then: func(resp *Response) { r.Ready(r.node(1), resp.Now) }}
	var b outcome
	r.send(1, &a)
	r.send(1, &b)
	r.close(r.find(1), errMoved, true)
	r.poll(0)
	a.done(t)
	b.done(t)
	assert.Equal(t, nodeConnecting, r.state(1))
	assert.Zero(t, r.InFlight())
}

// NC-05: Close shuts the selector down, answers what is in flight, and leaves a client that does nothing.
func TestClose(t *testing.T) {
	r := newRig(t, Config{}, 1, 2)
	r.connect(1)
	r.Ready(r.node(2), r.now)
	r.pass(time.Second)
	var order []string
	a, b := outcome{name: "a", log: &order}, outcome{name: "b", log: &order}
	r.send(1, &a)
	r.send(1, &b)
	r.sel.write(0, 1)
	r.md.dueAt = r.now
	r.poll(0) // sends a metadata request as well
	r.Close()
	r.Close()
	assert.True(t, r.sel.shut)
	assert.Equal(t, []string{"a", "b"}, order)
	assert.ErrorIs(t, a.done(t).Err, ErrDisconnected)
	assert.ErrorIs(t, b.done(t).Err, ErrClosed)
	assert.True(t, a.resp.Written)
	assert.Equal(t, r.now, b.resp.Now)
	assert.Len(t, r.md.failures, 1)
	assert.Zero(t, r.InFlight())

	assert.False(t, r.Ready(r.node(1), r.now))
	assert.False(t, r.CanSend(1, r.now))
	_, ok := r.LeastLoaded(r.now)
	assert.False(t, ok)
	assert.Equal(t, r.now, r.Poll(r.now, -1))
	r.Disconnect(1, errReset, r.now)
	var after outcome
	r.send(1, &after)
	r.Wakeup()
}

// Wakeup ends a Poll.
func TestWakeup(t *testing.T) {
	r := newRig(t, Config{}, 1)
	r.Wakeup()
	r.poll(time.Hour)
	assert.Equal(t, t0, r.now)
}

// In steady state a request costs no memory, nor do the questions that are asked for each.
func TestRequestsDoNotAllocate(t *testing.T) {
	md := &fakeMetadata{nodes: nodes(1, 2, 3)}
	sel := &echoSelector{}
	c := New(Config{}, sel, md)
	now := t0
	for _, n := range md.nodes {
		c.Ready(n, now)
	}
	now = c.Poll(now, 0)
	frame := protocol.NewFrame(protocol.RequestHeader{Key: protocol.KeyProduce, Version: 12}, &protocol.ProduceRequest{})
	h := new(countingHandler)
	assert.Zero(t, testing.AllocsPerRun(1000, func() {
		for _, n := range md.nodes {
			if !c.Ready(n, now) || !c.CanSend(n.ID, now) || c.PollDelay(n.ID, now) != forever || c.InFlightCount(n.ID) != 0 {
				t.Fatal("not ready")
			}
			version, err := c.Version(n.ID, protocol.KeyProduce, 3, 12)
			if err != nil {
				t.Fatal(err)
			}
			c.Send(Request{Node: n.ID, API: protocol.KeyProduce, Version: version, CorrelationID: c.NextCorrelationID(), Frame: frame, Handler: h}, now)
		}
		now = c.Poll(now, time.Second)
		if c.InFlight() != 0 {
			t.Fatal("not answered")
		}
	}))
	assert.Equal(t, h.responses, h.released)
	assert.Positive(t, h.responses)
}

type countingHandler struct{ responses, released int }

func (h *countingHandler) HandleResponse(*Response) { h.responses++ }
func (h *countingHandler) HandleReleased()          { h.released++ }

// echoSelector connects, sends and answers everything at once.
type echoSelector struct {
	next, events []Event
	payloads     [][5]byte
}

func (s *echoSelector) Connect(node protocol.Node, _ time.Duration) {
	s.next = append(s.next, Event{Kind: Connected, Node: node.ID, Versions: apis()})
}

func (s *echoSelector) Send(node, id int32, _ protocol.Frame) {
	if len(s.payloads) == cap(s.payloads) {
		s.payloads = make([][5]byte, 0, 1024)
	}
	s.payloads = append(s.payloads, [5]byte{byte(id >> 24), byte(id >> 16), byte(id >> 8), byte(id), 0})
	p := s.payloads[len(s.payloads)-1][:]
	s.next = append(s.next, Event{Kind: Sent, Node: node, ID: id}, Event{Kind: Received, Node: node, Payload: p})
}

func (s *echoSelector) Poll(now time.Time, _ time.Duration) (time.Time, []Event) {
	s.events, s.next = s.next, s.events[:0]
	s.payloads = s.payloads[:0]
	return now.Add(time.Millisecond), s.events
}

func (s *echoSelector) Close(int32) {}
func (s *echoSelector) Wakeup()     {}
func (s *echoSelector) Shutdown()   {}
