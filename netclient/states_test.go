package netclient

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/kafka-reservoir/producer/protocol"
)

// The machine of a node's connection: each event in each state.
func TestStates(t *testing.T) {
	moved := protocol.Node{ID: 1, Host: "elsewhere", Port: 1}
	states := []struct {
		name  string
		reach func(r *rig)
	}{
		{"idle", func(*rig) {}},
		{"backing off", func(r *rig) { r.connect(1); r.sel.gone(0, 1, errReset); r.poll(0) }},
		{"connecting", func(r *rig) { r.Ready(r.node(1), r.now) }},
		{"ready", func(r *rig) { r.connect(1) }},
		{"closing", func(r *rig) { r.sel.slowClose = true; r.connect(1); r.Disconnect(1, errReset, r.now) }},
		{"closing as planned", func(r *rig) { r.sel.slowClose = true; r.connect(1); r.close(r.find(1), errIdle, true) }},
		{"closing before connected", func(r *rig) {
			r.sel.slowClose = true
			r.Ready(r.node(1), r.now)
			r.Disconnect(1, errReset, r.now)
		}},
	}
	events := []struct {
		name   string
		happen func(r *rig)
		want   [7]nodeState // per state, in the order above
	}{
		{"Ready", func(r *rig) { r.Ready(r.node(1), r.now) },
			[7]nodeState{nodeConnecting, nodeIdle, nodeConnecting, nodeReady, nodeClosing, nodeClosing, nodeClosing}},
		{"Ready at another address", func(r *rig) { r.Ready(moved, r.now) },
			[7]nodeState{nodeConnecting, nodeConnecting, nodeClosing, nodeClosing, nodeClosing, nodeClosing, nodeClosing}},
		{"Disconnect", func(r *rig) { r.Disconnect(1, errReset, r.now) },
			[7]nodeState{nodeIdle, nodeIdle, nodeClosing, nodeClosing, nodeClosing, nodeClosing, nodeClosing}},
		{"Connected", func(r *rig) { event(r, Event{Kind: Connected, Node: 1, Versions: apis()}) },
			[7]nodeState{nodeIdle, nodeIdle, nodeReady, nodeReady, nodeClosing, nodeClosing, nodeClosing}},
		{"Received", func(r *rig) { event(r, Event{Kind: Received, Node: 1, Payload: []byte("nonsense")}) },
			[7]nodeState{nodeIdle, nodeIdle, nodeConnecting, nodeClosing, nodeClosing, nodeClosing, nodeClosing}},
		{"Disconnected", func(r *rig) { event(r, Event{Kind: Disconnected, Node: 1, Err: errReset}) },
			[7]nodeState{nodeIdle, nodeIdle, nodeIdle, nodeIdle, nodeIdle, nodeIdle, nodeIdle}},
		{"idle for long", func(r *rig) { r.closeUnused(r.now.Add(time.Hour)) },
			[7]nodeState{nodeIdle, nodeIdle, nodeConnecting, nodeClosing, nodeClosing, nodeClosing, nodeClosing}},
		{"moved in metadata", func(r *rig) { r.md.nodes = []protocol.Node{moved}; r.syncNodes(r.now) },
			[7]nodeState{nodeIdle, nodeIdle, nodeClosing, nodeClosing, nodeClosing, nodeClosing, nodeClosing}},
		{"gone from metadata", func(r *rig) { r.md.nodes = nodes(2); r.syncNodes(r.now) },
			[7]nodeState{nodeIdle, nodeIdle, nodeClosing, nodeClosing, nodeClosing, nodeClosing, nodeClosing}},
	}
	for i, st := range states {
		for _, ev := range events {
			t.Run(st.name+"/"+ev.name, func(t *testing.T) {
				r := newRig(t, Config{}, 1)
				st.reach(r)
				r.sel.slowClose = true
				ev.happen(r)
				assert.Equal(t, ev.want[i].String(), r.state(1).String())
			})
		}
	}
}

// event hands in an event as if the selector had reported it, if that can be in the node's state.
func event(r *rig, e Event) {
	n := r.find(e.Node)
	if n == nil || n.state == nodeIdle || e.Kind == Connected && n.state == nodeReady {
		return
	}
	r.handle(&e, r.now)
}

// S-92, CCS-01, CCS-02, CCS-10: Ready on an unknown node begins one connection and says no until it is up. States
// of nodes do not depend on each other.
func TestReadyConnects(t *testing.T) {
	r := newRig(t, Config{}, 1, 2)
	assert.Zero(t, r.PollDelay(1, r.now), "NC-19: never connected")
	for range 3 {
		assert.False(t, r.Ready(r.node(1), r.now))
		assert.False(t, r.CanSend(1, r.now))
	}
	assert.Len(t, r.sel.connects, 1)
	assert.Equal(t, 10*time.Second, r.PollDelay(1, r.now), "the rest of the setup timeout")
	r.sel.up(20*ms, 1, apis())
	r.poll(time.Second)
	assert.Equal(t, t0.Add(20*ms), r.now)
	assert.True(t, r.Ready(r.node(1), r.now))
	assert.True(t, r.CanSend(1, r.now))
	assert.Equal(t, forever, r.PollDelay(1, r.now), "NC-19: connected")
	assert.False(t, r.Ready(r.node(2), r.now))
	assert.True(t, r.CanSend(1, r.now))
	assert.False(t, r.CanSend(2, r.now))
	assert.False(t, r.CanSend(3, r.now))
}

// NC-19, NC-21, CCS-05, CCS-06: after an attempt that failed there is a pause, which doubles up to its bound while
// attempts fail, before or after the broker accepted them, and starts anew when one becomes ready.
func TestReconnectBackoff(t *testing.T) {
	r := newRig(t, Config{}, 1)
	require.False(t, r.Ready(r.node(1), r.now))
	r.sel.gone(0, 1, errReset)
	r.poll(0)
	for _, want := range []time.Duration{50, 100, 200, 400, 800, 1000, 1000} {
		assert.Equal(t, want*ms, r.PollDelay(1, r.now))
		n := len(r.sel.connects)
		r.pass(want*ms - 1)
		assert.False(t, r.Ready(r.node(1), r.now))
		require.Len(t, r.sel.connects, n, "in back-off")
		r.pass(1)
		assert.False(t, r.Ready(r.node(1), r.now))
		require.Len(t, r.sel.connects, n+1)
		r.sel.gone(0, 1, errReset)
		r.poll(0)
	}
	r.pass(time.Second)
	r.connect(1)
	r.sel.gone(0, 1, errReset)
	r.poll(0)
	assert.Equal(t, 50*ms, r.PollDelay(1, r.now))
}

// Delivery 4: a broker that is away, but was there, is tried with pauses that grow to a tenth of the time it has been away: when it is back soon it is found
// soon. One that was never seen where it is said to be has no such claim (FC-100).
func TestReconnectBackoffOfWhoWasThere(t *testing.T) {
	r := newRig(t, Config{}, 1)
	r.connect(1)
	r.sel.gone(0, 1, errReset)
	r.poll(0)
	began, pause := r.now, time.Duration(0)
	var pauses []time.Duration
	for pause < time.Second {
		pause = r.PollDelay(1, r.now)
		require.LessOrEqual(t, pause, max(380*ms, r.now.Sub(began)/10))
		pauses = append(pauses, pause)
		r.pass(pause)
		require.False(t, r.Ready(r.node(1), r.now))
		r.sel.gone(0, 1, errReset)
		r.poll(0)
	}
	assert.Equal(t, []time.Duration{50 * ms, 100 * ms, 200 * ms, 380 * ms, 380 * ms}, pauses[:5])
	assert.InDelta(t, 10*time.Second, r.now.Sub(began), float64(2*time.Second))
}

// A node that keeps taking connections and ending them is not connected ever and again at once: the pause grows, though only to
// four times its start, and starts anew for a connection that ends long after the one before.
func TestReconnectBackoffOfLostConnections(t *testing.T) {
	r := newRig(t, Config{}, 1)
	lose := func() time.Duration {
		r.connect(1)
		r.pass(10 * ms)
		r.sel.gone(0, 1, errReset)
		r.poll(0)
		return r.PollDelay(1, r.now)
	}
	for range 3 {
		for _, want := range []time.Duration{50, 100, 200, 200, 200} {
			assert.Equal(t, want*ms, lose())
			r.pass(want * ms)
		}
		// Attempts that fail after that are counted from one, and wait no less.
		for _, want := range []time.Duration{200, 200, 380, 380, 380} {
			require.False(t, r.Ready(r.node(1), r.now))
			r.sel.gone(0, 1, errReset)
			r.poll(0)
			assert.Equal(t, want*ms, r.PollDelay(1, r.now))
			r.pass(want * ms)
		}
	}
}

// CCS-05, EXP-01: whatever chance says and however often it fails, the pause stays within its bound.
func TestReconnectBackoffIsBounded(t *testing.T) {
	r := newRig(t, Config{Rand: rand.New(rand.NewPCG(1, 1)).IntN}, 1)
	for range 100 {
		r.Ready(r.node(1), r.now)
		r.sel.gone(0, 1, errReset)
		r.poll(0)
		d := r.PollDelay(1, r.now)
		assert.LessOrEqual(t, d, time.Second)
		assert.GreaterOrEqual(t, d, 40*ms)
		r.pass(d)
	}
	assert.Len(t, r.sel.connects, 100)
}

// Delivery 4: somebody who takes connections and answers nonsense, or hangs up, is well again sooner than a long pause would be over.
func TestReconnectBackoffOfBrokenSetups(t *testing.T) {
	r := newRig(t, Config{ReconnectBackoff: 50 * ms, ReconnectBackoffMax: time.Second, Rand: func(n int) int { return n / 2 }}, 1)
	began, pause := r.now, time.Duration(0)
	var pauses []time.Duration
	for pause < time.Second {
		require.False(t, r.Ready(r.node(1), r.now))
		r.sel.gone(0, 1, &ConnectError{Step: StepAPIVersions, Err: errReset})
		r.poll(0)
		pause = r.find(1).retryAt.Sub(r.now)
		require.LessOrEqual(t, pause, max(240*ms, r.now.Sub(began)/10))
		pauses = append(pauses, pause)
		r.now = r.now.Add(pause)
	}
	assert.Equal(t, []time.Duration{50 * ms, 100 * ms, 200 * ms, 240 * ms, 240 * ms}, pauses[:5])
	assert.InDelta(t, 10*time.Second, r.now.Sub(began), float64(2*time.Second))
}

// NC-19: equal bounds make a constant pause.
func TestReconnectBackoffConstant(t *testing.T) {
	r := newRig(t, Config{ReconnectBackoff: 70 * ms, ReconnectBackoffMax: 70 * ms, Rand: rand.IntN}, 1)
	for range 10 {
		r.Ready(r.node(1), r.now)
		r.sel.gone(0, 1, errReset)
		r.poll(0)
		assert.Equal(t, 70*ms, r.PollDelay(1, r.now))
		r.pass(70 * ms)
	}
}

// NC-10, CCS-11: the setup timeout grows while attempts fail, up to its bound, and is back at its start after
// one that became ready. Losing a connection that was ready does not make it grow.
func TestSetupTimeoutGrows(t *testing.T) {
	r := newRig(t, Config{ConnectionSetupTimeout: time.Second, ConnectionSetupTimeoutMax: 5 * time.Second}, 1)
	attempt := func() time.Duration {
		r.Ready(r.node(1), r.now)
		return r.sel.connects[len(r.sel.connects)-1].timeout
	}
	for _, want := range []time.Duration{1, 2, 4, 5, 5} {
		assert.Equal(t, want*time.Second, attempt())
		r.sel.gone(want*time.Second, 1, errors.New("setup timeout")) // CCS-12: the selector says so
		r.pass(want * time.Second)
		r.poll(0)
		assert.Equal(t, nodeIdle, r.state(1))
		r.pass(2 * time.Second)
	}
	attempt()
	r.sel.up(0, 1, apis())
	r.poll(0)
	r.sel.gone(0, 1, errReset)
	r.poll(0)
	r.pass(time.Second)
	assert.Equal(t, time.Second, attempt())
}

// NC-10: with jitter the timeout lies within 20 % of that.
func TestSetupTimeoutJitter(t *testing.T) {
	r := newRig(t, Config{Rand: func(int) int { return 0 }}, 1)
	r.Ready(r.node(1), r.now)
	assert.Equal(t, 8*time.Second, r.sel.connects[0].timeout)
}

// NC-22: Disconnect leaves the node failed and in back-off; again during the back-off it does nothing.
func TestDisconnect(t *testing.T) {
	r := newRig(t, Config{}, 1)
	r.Disconnect(1, errReset, r.now) // unknown
	r.connect(1)
	r.Disconnect(1, nil, r.now)
	r.Disconnect(1, errReset, r.now)
	assert.False(t, r.CanSend(1, r.now))
	r.poll(0)
	assert.Equal(t, 50*ms, r.PollDelay(1, r.now))
	assert.ErrorIs(t, r.LastError(1), errAsked)
	r.pass(20 * ms)
	r.Disconnect(1, errReset, r.now)
	assert.Equal(t, 30*ms, r.PollDelay(1, r.now))
	assert.False(t, r.Ready(r.node(1), r.now))
	assert.Len(t, r.sel.connects, 1)
}

// NC-26: an attempt that is given up leaves a node that can be connected again.
func TestDisconnectWhileConnecting(t *testing.T) {
	r := newRig(t, Config{}, 1)
	r.Ready(r.node(1), r.now)
	r.Disconnect(1, errReset, r.now)
	r.poll(0)
	r.pass(50 * ms)
	r.connect(1)
}

// NC-27, FC-102: an attempt that was given up may succeed all the same at that moment; it does not leave the
// node stuck.
func TestConnectedWhileClosing(t *testing.T) {
	r := newRig(t, Config{}, 1)
	r.sel.slowClose = true
	r.Ready(r.node(1), r.now)
	r.sel.up(0, 1, apis())
	r.Disconnect(1, errReset, r.now)
	r.poll(0)
	assert.Equal(t, nodeClosing, r.state(1))
	assert.False(t, r.Ready(r.node(1), r.now))
	r.sel.gone(0, 1, errReset)
	r.poll(0)
	r.pass(50 * ms)
	r.connect(1)
}

// NC-04, NC-24, CCS-09: an attempt that fails, by DNS for example, leaves the node in back-off; each new attempt is a
// Connect of its own, so that the selector resolves the name anew.
func TestConnectFails(t *testing.T) {
	dns := errors.New("lookup host: no such host")
	var seen []error
	r := newRig(t, Config{ConnectDone: func(n protocol.Node, took time.Duration, err error) {
		assert.EqualValues(t, 1, n.ID)
		assert.Equal(t, 5*ms, took)
		seen = append(seen, err)
	}}, 1)
	for range 3 {
		r.Ready(r.node(1), r.now)
		r.sel.gone(5*ms, 1, dns)
		r.pass(5 * ms)
		r.poll(0)
		assert.Equal(t, dns, r.LastError(1))
		r.pass(time.Second)
	}
	assert.Len(t, r.sel.connects, 3)
	r.Ready(r.node(1), r.now)
	r.sel.up(5*ms, 1, apis())
	r.pass(5 * ms)
	assert.NoError(t, r.LastError(1))
	assert.Equal(t, []error{dns, dns, dns, nil}, seen)
	assert.Equal(t, []error{dns, dns, dns}, r.md.disconnects)
}

// CCS-03: a failed authentication is kept, told to those who wait for metadata, and followed by back-off; then the
// node can be connected, which clears it.
func TestAuthenticationFails(t *testing.T) {
	refused := &AuthenticationError{Node: protocol.Node{ID: 1, Host: "b", Port: 9093}, Mechanism: "SCRAM-SHA-256", Code: protocol.SaslAuthenticationFailed, Message: "no such user"}
	r := newRig(t, Config{}, 1)
	r.Ready(r.node(1), r.now)
	r.sel.gone(0, 1, fmt.Errorf("connect: %w", refused))
	r.poll(0)
	assert.ErrorIs(t, r.LastError(1), refused)
	assert.ErrorIs(t, r.LastError(1), protocol.SaslAuthenticationFailed)
	assert.ErrorContains(t, refused, "authentication with node 1 (b:9093) failed (SCRAM-SHA-256): ")
	assert.ErrorContains(t, refused, "no such user")
	require.Len(t, r.md.fatal, 1)
	assert.ErrorIs(t, r.md.fatal[0], refused)
	assert.Equal(t, 50*ms, r.PollDelay(1, r.now))
	r.pass(50 * ms)
	r.connect(1)
	assert.NoError(t, r.LastError(1))

	cause := errors.New("x509: unknown authority")
	assert.ErrorIs(t, &AuthenticationError{Mechanism: "TLS", Err: cause}, cause)
	assert.ErrorContains(t, &AuthenticationError{Mechanism: "TLS", Err: cause}, "(TLS): x509: unknown authority")
}

// S-103, FC-092, FC-093: a connection without requests is closed when it is idle for long enough, to the instant,
// whatever other connections do; that is no failure, and the next request connects at once.
func TestIdleConnectionIsClosed(t *testing.T) {
	r := newRig(t, Config{ConnectionsMaxIdle: time.Minute}, 1, 2)
	r.connect(1)
	r.connect(2)
	for range 6 {
		r.pass(10 * time.Second)
		var o outcome
		r.send(2, &o)
		r.sel.answer(0, 2, pidAnswer)
		r.poll(0)
		o.done(t)
	}
	r.poll(0)
	assert.Equal(t, nodeIdle, r.state(1), "idle since %v", r.now.Sub(r.find(1).usedAt))
	assert.Equal(t, nodeReady, r.state(2))
	assert.NoError(t, r.LastError(1))
	assert.Empty(t, r.md.disconnects)
	r.connect(1)

	// Poll wakes for it by itself.
	r.poll(-1)
	assert.Equal(t, t0.Add(2*time.Minute), r.now)
	assert.False(t, r.sel.stuck)
}

// FC-093: a connection with a request in flight is not idle, and never means never.
func TestBusyConnectionIsNotIdle(t *testing.T) {
	r := newRig(t, Config{ConnectionsMaxIdle: time.Second, RequestTimeout: time.Hour}, 1)
	r.connect(1)
	var o outcome
	r.send(1, &o)
	r.sel.write(0, 1)
	r.pass(time.Minute)
	assert.Equal(t, nodeReady, r.state(1))

	r = newRig(t, Config{ConnectionsMaxIdle: -1}, 1)
	r.connect(1)
	r.pass(1000 * time.Hour)
	assert.Equal(t, nodeReady, r.state(1))
}

// FC-092: a broker that closes an idle connection has told us nothing: no metadata is asked for, and the next
// request finds a new connection after the shortest back-off.
func TestBrokerClosesIdleConnection(t *testing.T) {
	r := newRig(t, Config{}, 1)
	r.connect(1)
	r.sel.gone(0, 1, errReset)
	r.poll(0)
	assert.Empty(t, r.md.disconnects)
	r.pass(50 * ms)
	r.connect(1)
}

// FC-109: a broker that closes a connection after requests without answers may have refused them: metadata is asked for.
func TestBrokerClosesAfterUnansweredRequests(t *testing.T) {
	r := newRig(t, Config{}, 1)
	r.connect(1)
	var o outcome
	r.send(1, &o, func(req *Request) { req.NoResponse = true })
	r.sel.write(0, 1)
	r.poll(0)
	require.NoError(t, o.done(t).Err)
	r.sel.gone(0, 1, errReset)
	r.poll(0)
	assert.Equal(t, []error{errReset}, r.md.disconnects)

	// Nothing more goes there before metadata was heard, or a second has passed.
	r.pass(50 * ms)
	r.Ready(r.node(1), r.now)
	r.sel.up(0, 1, apis())
	r.poll(0)
	assert.False(t, r.CanSend(1, r.now))
	assert.Equal(t, 950*ms, r.PollDelay(1, r.now))
	r.md.dueAt = r.now
	r.poll(0)
	r.sel.answer(0, 1, metadataAnswer(1))
	r.poll(0)
	assert.True(t, r.CanSend(1, r.now))
	r.sel.gone(0, 1, errReset)
	r.poll(0)
	assert.Len(t, r.md.disconnects, 1, "nothing was sent over this one")
	r.pass(100 * ms)
	r.connect(1)
	r.send(1, &o, func(req *Request) { req.NoResponse = true })
	r.sel.write(0, 1)
	r.poll(0)
	r.sel.gone(0, 1, errReset)
	r.poll(0)
	r.pass(200 * ms)
	r.Ready(r.node(1), r.now)
	r.sel.up(0, 1, apis())
	r.poll(0)
	assert.False(t, r.CanSend(1, r.now))
	r.pass(r.PollDelay(1, r.now))
	assert.True(t, r.CanSend(1, r.now))
}

// FC-095: a node with another address is closed at once, its requests come back in order, and the new address
// is dialled without back-off. Nothing more goes to the old one.
func TestNodeMoves(t *testing.T) {
	r := newRig(t, Config{}, 1, 2)
	r.connect(1)
	var order []string
	reqs := []*outcome{{name: "a", log: &order}, {name: "b", log: &order}, {name: "c", log: &order}}
	for _, o := range reqs {
		r.send(1, o)
	}
	r.sel.write(0, 1)
	moved := protocol.Node{ID: 1, Host: "elsewhere", Port: 1}
	r.md.nodes = append([]protocol.Node{moved}, nodes(2)...)
	r.poll(0)
	r.poll(0)
	assert.Equal(t, []string{"a", "b", "c"}, order)
	for i, o := range reqs {
		resp := o.done(t)
		assert.ErrorIs(t, resp.Err, ErrDisconnected)
		assert.ErrorIs(t, resp.Err, errMoved)
		assert.Equal(t, i == 0, resp.Written)
	}
	assert.False(t, r.Ready(moved, r.now))
	last := r.sel.connects[len(r.sel.connects)-1]
	assert.Equal(t, moved, last.node)
	assert.Equal(t, r.now, last.at)
}

// FC-095: a node that failed at its old address is tried at the new one at once.
func TestNodeMovesWhileBackingOff(t *testing.T) {
	r := newRig(t, Config{}, 1)
	for range 5 {
		r.Ready(r.node(1), r.now)
		r.sel.gone(0, 1, errReset)
		r.poll(0)
		r.pass(r.PollDelay(1, r.now))
	}
	r.Ready(r.node(1), r.now)
	r.sel.gone(0, 1, errReset)
	r.poll(0)
	n := len(r.sel.connects)
	r.Ready(protocol.Node{ID: 1, Host: "elsewhere", Port: 1}, r.now)
	require.Len(t, r.sel.connects, n+1)
	assert.Equal(t, 10*time.Second, r.sel.connects[n].timeout)
}

// FC-095: where brokers do not agree on a node's address, so that it changes with each answer, it is tried with a pause, at the address of
// the moment. Once the address stays, it is tried there soon.
func TestNodeMovesToAndFro(t *testing.T) {
	for name, try := range map[string]func(r *rig){
		"by its requests": func(r *rig) { r.Ready(r.md.nodes[0], r.now) },
		"for metadata":    func(r *rig) { r.md.dueAt = r.now },
	} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t, Config{ReconnectBackoff: 50 * ms, ReconnectBackoffMax: time.Second}, 1)
			places := []protocol.Node{r.node(1), {ID: 1, Host: "elsewhere", Port: 1}}
			for i := range 400 {
				r.md.nodes = places[i%2 : i%2+1 : i%2+1]
				try(r)
				r.pass(5 * ms)
			}
			var last time.Time
			for i, c := range r.sel.connects {
				if i > 3 {
					assert.GreaterOrEqual(t, c.at.Sub(last), 160*ms, "attempt %d", i)
					assert.LessOrEqual(t, c.at.Sub(last), 250*ms, "attempt %d", i)
				}
				last = c.at
			}
			assert.Greater(t, len(r.sel.connects), 8)
			end := r.now
			for range 60 {
				try(r)
				r.pass(5 * ms)
			}
			got := r.sel.connects[len(r.sel.connects)-1]
			assert.Equal(t, r.md.nodes[0], got.node)
			assert.LessOrEqual(t, got.at.Sub(end), 250*ms)
		})
	}
}

// FC-095, CCS-04: a node that is gone from the metadata answers what it was asked, and is closed then. What is known of
// it is kept for a while, so that its back-off survives, and forgotten then (FC-137): it is as new.
func TestNodeIsGone(t *testing.T) {
	r := newRig(t, Config{}, 1, 2)
	r.connect(1)
	r.connect(2)
	var o outcome
	r.send(1, &o)
	r.sel.write(0, 1)
	r.md.nodes = nodes(2)
	r.poll(0)
	assert.Equal(t, nodeReady, r.state(1))
	r.sel.answer(0, 1, pidAnswer)
	r.poll(0)
	assert.NoError(t, o.done(t).Err)
	r.poll(0)
	assert.Equal(t, nodeIdle, r.state(1))
	assert.Empty(t, r.md.disconnects)
	assert.NotNil(t, r.find(1))

	r.pass(2 * time.Minute)
	r.md.nodes = nodes(2, 3)
	r.poll(0)
	assert.Nil(t, r.find(1))
	assert.NotNil(t, r.find(2))
	assert.Zero(t, r.PollDelay(1, r.now))
}

// FC-137: what is kept of nodes is bounded by those known lately.
func TestForgottenNodes(t *testing.T) {
	r := newRig(t, Config{})
	for i := range int32(100) {
		r.md.nodes = nodes(3*i, 3*i+1, 3*i+2)
		for _, n := range r.md.nodes {
			r.Ready(n, r.now)
			r.sel.gone(0, n.ID, errReset)
		}
		r.pass(2 * time.Minute)
	}
	assert.LessOrEqual(t, len(r.nodes), 6)
}
