package netclient

import (
	"errors"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/kafka-reservoir/producer/protocol"
)

// metadataAnswer is an answer that names brokers.
func metadataAnswer(ids ...int32) *protocol.MetadataResponse {
	resp := &protocol.MetadataResponse{ControllerID: -1, ClusterAuthorizedOperations: protocol.AuthorizedOperationsUnknown}
	for _, n := range nodes(ids...) {
		resp.Brokers = append(resp.Brokers, protocol.MetadataResponseBroker{NodeID: n.ID, Host: n.Host, Port: n.Port})
	}
	return resp
}

func (r *rig) leastLoaded() int32 {
	if n, ok := r.LeastLoaded(r.now); ok {
		return n.ID
	}
	return noNode
}

// S-46, NC-14, CCS-02: of the nodes that can be sent to, one without requests in flight is the least loaded, else
// the one with fewest; else one being connected, else one that can be connected, else none.
func TestLeastLoaded(t *testing.T) {
	r := newRig(t, Config{}, 1, 2, 3)
	assert.EqualValues(t, 1, r.leastLoaded(), "can be connected")
	r.Ready(r.node(2), r.now)
	assert.EqualValues(t, 2, r.leastLoaded(), "being connected")
	r.sel.up(0, 2, apis())
	r.poll(0)
	assert.EqualValues(t, 2, r.leastLoaded(), "ready")
	r.send(2, new(outcome))
	r.send(2, new(outcome))
	r.connect(3)
	assert.EqualValues(t, 3, r.leastLoaded(), "ready and idle")
	r.send(3, new(outcome))
	assert.EqualValues(t, 3, r.leastLoaded(), "ready with fewest")
	r.Throttle(3, time.Second, r.now)
	assert.EqualValues(t, 2, r.leastLoaded(), "not throttled")
	r.md.nodes = nil
	assert.Equal(t, noNode, r.leastLoaded())
}

// A bootstrap server is never the least loaded: what its name leads to may be another cluster by now.
func TestLeastLoadedIsNoBootstrapServer(t *testing.T) {
	r := newRig(t, Config{}, -1, 2)
	r.Ready(r.node(-1), r.now)
	r.sel.up(0, -1, apis())
	r.poll(0)
	require.True(t, r.CanSend(-1, r.now))
	r.pass(2 * time.Second)
	assert.EqualValues(t, 2, r.leastLoaded())
	r.md.nodes = nodes(-1)
	assert.Equal(t, noNode, r.leastLoaded())
}

// NC-14: with one node only: being connected it is the one, ready it is, in back-off there is none.
func TestLeastLoadedOfOne(t *testing.T) {
	r := newRig(t, Config{}, 1)
	r.Ready(r.node(1), r.now)
	assert.EqualValues(t, 1, r.leastLoaded())
	r.pass(5 * time.Second)
	assert.EqualValues(t, 1, r.leastLoaded(), "however long it takes")
	r.sel.up(0, 1, apis())
	r.poll(0)
	assert.EqualValues(t, 1, r.leastLoaded())
	r.sel.gone(0, 1, errReset)
	r.poll(0)
	assert.Equal(t, noNode, r.leastLoaded())
	assert.True(t, r.pick(r.now, noNode, false).hope, "it was there a moment ago")
	r.pass(50 * ms)
	assert.EqualValues(t, 1, r.leastLoaded())
	r.Ready(r.node(1), r.now)
	r.sel.gone(0, 1, errReset)
	r.poll(0)
	assert.Equal(t, noNode, r.leastLoaded())
	assert.False(t, r.pick(r.now, noNode, false).hope)
}

// NC-15: the only node is at its limit: it is not the least loaded one, but nothing is lost either.
func TestLeastLoadedFull(t *testing.T) {
	r := newRig(t, Config{MaxInFlight: 2}, 1)
	r.connect(1)
	r.send(1, new(outcome))
	r.send(1, new(outcome))
	assert.Equal(t, noNode, r.leastLoaded())
	assert.True(t, r.pick(r.now, noNode, false).hope)
}

// NC-17: the only node is throttled: there is none, but nothing is lost either.
func TestLeastLoadedThrottled(t *testing.T) {
	r := newRig(t, Config{}, 1)
	r.connect(1)
	r.Throttle(1, time.Second, r.now)
	assert.Equal(t, noNode, r.leastLoaded())
	to := r.pick(r.now, noNode, false)
	assert.True(t, to.hope)
	assert.Equal(t, time.Second, to.delay)
}

// NC-16: nodes that keep failing are tried in turn, the one whose attempt is longest ago first.
func TestLeastLoadedCycles(t *testing.T) {
	r := newRig(t, Config{Rand: rand.New(rand.NewPCG(3, 3)).IntN}, 1, 2, 3)
	var last [4]int
	for round := 1; round <= 30; round++ {
		r.pass(2 * time.Second)
		id := r.leastLoaded()
		require.Positive(t, id)
		if round > 3 {
			assert.Equal(t, 3, round-last[id], "node %d", id)
		}
		last[id] = round
		r.Ready(r.node(id), r.now)
		r.sel.gone(0, id, errReset)
		r.poll(0)
	}
}

// The choice begins at a random node, so that clients spread over the brokers.
func TestLeastLoadedSpreads(t *testing.T) {
	r := newRig(t, Config{Rand: rand.New(rand.NewPCG(4, 4)).IntN}, 1, 2, 3)
	var count [4]int
	for range 300 {
		count[r.leastLoaded()]++
	}
	for _, n := range count[1:] {
		assert.InDelta(t, 100, n, 40)
	}
}

// S-46, S-48, S-49: when an update is due, a connection is made if there is none, one request goes to the least loaded
// node, and until it is answered there is no other. The answer is for the updater alone.
func TestMetadataRequest(t *testing.T) {
	r := newRig(t, Config{}, 1, 2)
	r.md.dueAt = r.now
	r.poll(0)
	require.Len(t, r.sel.connects, 1)
	id := r.sel.connects[0].node.ID
	assert.Zero(t, r.md.requests)
	r.sel.up(3*ms, id, apis())
	r.poll(time.Second)
	r.poll(0)
	assert.Equal(t, 1, r.md.requests)
	assert.Equal(t, 1, r.InFlightCount(id))
	require.Len(t, r.sel.conns[id].frames, 1)
	frm := r.sel.conns[id].frames[0]
	assert.Equal(t, protocol.KeyMetadata, frm.header.Key)
	assert.EqualValues(t, 13, frm.header.Version)
	r.md.dueAt = r.now
	r.poll(0)
	r.poll(0)
	assert.Equal(t, 1, r.md.requests, "one at a time")
	r.sel.answer(0, id, metadataAnswer(1, 2))
	r.poll(0)
	require.Len(t, r.md.responses, 1)
	assert.Len(t, r.md.responses[0].Brokers, 2)
	r.poll(0)
	assert.Equal(t, 2, r.md.requests, "the one that became due meanwhile")
	assert.Len(t, r.sel.connects, 1)
}

// S-45: a request that becomes due leaves within one poll.
func TestMetadataWithinOnePoll(t *testing.T) {
	r := newRig(t, Config{}, 1)
	r.connect(1)
	r.md.dueAt = r.now.Add(30 * ms)
	r.Wakeup()
	r.poll(time.Minute)
	r.poll(time.Minute)
	assert.Equal(t, t0.Add(30*ms), r.now, "and Poll wakes for it")
	r.poll(0)
	assert.Len(t, r.sel.conns[1].frames, 1)
}

// S-47: where topics must not be created, versions that cannot say so are not used.
func TestMetadataVersion(t *testing.T) {
	for _, tt := range []struct {
		broker, want int16
		autoCreate   bool
	}{{13, 13, true}, {3, 3, true}, {1, 1, true}, {0, -1, true}, {13, 13, false}, {4, 4, false}, {3, -1, false}} {
		r := newRig(t, Config{}, 1)
		md := &noAutoCreate{fakeMetadata: r.md, allow: tt.autoCreate}
		r.NetworkClient = New(Config{}, r.sel, md)
		r.Ready(r.node(1), r.now)
		r.sel.up(0, 1, apis(protocol.ApiVersion{ApiKey: protocol.KeyMetadata, MaxVersion: tt.broker}))
		r.poll(0)
		r.md.dueAt = r.now
		r.poll(0)
		if tt.want >= 0 {
			require.Len(t, r.sel.conns[1].frames, 1)
			assert.Equal(t, tt.want, r.sel.conns[1].frames[0].header.Version)
			continue
		}
		// NC-06: told to those who wait, and tried again later; Poll goes on.
		assert.Empty(t, r.sel.conns[1].frames)
		require.Len(t, r.md.fatal, 1)
		assert.ErrorIs(t, r.md.fatal[0], protocol.UnsupportedVersion)
		require.Len(t, r.md.failures, 1)
		polls := r.sel.polls
		r.pass(time.Second)
		assert.Less(t, r.sel.polls-polls, 50)
	}
}

type noAutoCreate struct {
	*fakeMetadata
	allow bool
}

func (m *noAutoCreate) NewRequest(now time.Time) *protocol.MetadataRequest {
	req := m.fakeMetadata.NewRequest(now)
	req.AllowAutoTopicCreation = m.allow
	return req
}

// FC-061, S-50: an answer that was of no use sends the next request to another node, even if that has to be
// connected first; where there is no other, to the same.
func TestUselessAnswerGoesElsewhere(t *testing.T) {
	r := newRig(t, Config{}, 1, 2)
	r.connect(1)
	r.md.refuse = errors.New("no brokers")
	r.md.pause = 10 * ms
	r.md.dueAt = r.now
	r.poll(0)
	r.sel.answer(0, 1, metadataAnswer())
	r.poll(0)
	r.pass(10 * ms)
	r.poll(0)
	require.Len(t, r.sel.connects, 2)
	assert.EqualValues(t, 2, r.sel.connects[1].node.ID)
	assert.Equal(t, 1, r.md.requests)
	r.sel.gone(0, 2, errReset)
	r.poll(0)
	r.poll(0)
	assert.Equal(t, 2, r.md.requests, "node 1 again, since node 2 cannot be had")
	assert.Len(t, r.sel.conns[1].frames, 1)
}

// FC-063: a broker that is asked and stays silent holds up the next request for the request timeout at most, and no
// longer than its connection; then another node is asked.
func TestSilentBroker(t *testing.T) {
	for _, reset := range []bool{false, true} {
		r := newRig(t, Config{RequestTimeout: 500 * ms}, 1, 2)
		r.connect(1)
		r.connect(2)
		r.md.dueAt = r.now
		r.poll(0)
		require.Len(t, r.sel.conns[1].frames, 1)
		r.sel.write(0, 1)
		if reset {
			r.sel.gone(100*ms, 1, errReset)
			r.pass(100 * ms)
		} else {
			r.pass(500 * ms)
		}
		r.poll(0)
		require.Len(t, r.md.failures, 1)
		r.poll(0)
		assert.Len(t, r.sel.conns[2].frames, 1)
		assert.LessOrEqual(t, r.now.Sub(t0), 600*ms)
	}
}

// S-48: at full load the metadata request goes out all the same: one more than the limit.
func TestMetadataUnderFullLoad(t *testing.T) {
	r := newRig(t, Config{MaxInFlight: 1}, 1)
	r.connect(1)
	r.send(1, new(outcome))
	r.md.dueAt = r.now
	r.poll(0)
	assert.Len(t, r.sel.conns[1].frames, 2)
	assert.False(t, r.CanSend(1, r.now))
}

// FC-102: a node that takes long to connect is not waited for if another one can be tried.
func TestSlowConnectDoesNotHoldUpMetadata(t *testing.T) {
	r := newRig(t, Config{}, 1, 2, 3)
	r.md.dueAt = r.now
	for i := range 3 {
		r.pass(time.Second)
		assert.Len(t, r.sel.connects, i+1, "after %v", r.now.Sub(t0))
	}
	polls := r.sel.polls
	r.pass(5 * time.Second)
	assert.Len(t, r.sel.connects, 3)
	assert.Less(t, r.sel.polls-polls, 10)
	r.sel.up(0, 3, apis())
	r.poll(0)
	r.poll(0)
	assert.Len(t, r.sel.conns[3].frames, 1)
}

// NC-18: another node that fails to authenticate does not disturb a metadata request under way.
func TestAuthenticationFailureElsewhere(t *testing.T) {
	r := newRig(t, Config{}, 1, 2)
	r.connect(1)
	r.md.dueAt = r.now
	r.poll(0)
	r.Ready(r.node(2), r.now)
	r.sel.gone(0, 2, &AuthenticationError{})
	r.poll(0)
	r.sel.answer(0, 1, metadataAnswer(1, 2))
	r.poll(0)
	assert.Len(t, r.md.responses, 1)
	assert.Len(t, r.md.fatal, 1)
}

// FC-129, S-100: a metadata answer that cannot be decoded is a failure, and ends the connection.
func TestUndecodableMetadata(t *testing.T) {
	r := newRig(t, Config{}, 1)
	r.connect(1)
	r.md.dueAt = r.now
	r.md.pause = time.Second
	r.poll(0)
	r.sel.receive(0, 1, payload(r.sel.write(0, 1), pidAnswer))
	r.poll(0)
	require.Len(t, r.md.failures, 1)
	assert.ErrorContains(t, r.md.failures[0], "metadata from node 1: ")
	assert.Equal(t, nodeClosing, r.state(1))
	r.poll(0)
	assert.Len(t, r.md.failures, 1, "once")
}

// NC-12, NC-13: a throttle time in a metadata answer counts from v6 on.
func TestThrottleInMetadata(t *testing.T) {
	for version, want := range map[int16]time.Duration{5: forever, 6: 300 * ms, 13: 300 * ms} {
		r := newRig(t, Config{}, 1)
		r.Ready(r.node(1), r.now)
		r.sel.up(0, 1, apis(protocol.ApiVersion{ApiKey: protocol.KeyMetadata, MaxVersion: version}))
		r.poll(0)
		r.md.dueAt = r.now
		r.poll(0)
		resp := metadataAnswer(1)
		resp.ThrottleTimeMs = 300
		r.sel.answer(0, 1, resp)
		r.poll(0)
		assert.Equal(t, want, r.PollDelay(1, r.now), "v%d", version)
	}
}

// NC-14, NC-30, FC-096: when an update is due and no known node can be asked, the bootstrap servers are asked, at
// once, and connections to the nodes before are closed.
func TestRebootstrapWhenNoNodeIsUsable(t *testing.T) {
	r := newRig(t, Config{}, 1, 2)
	for _, id := range []int32{1, 2} {
		r.Ready(r.node(id), r.now)
		r.sel.gone(0, id, errReset)
	}
	r.poll(0)
	boot := protocol.Node{ID: -1, Host: "boot", Port: 9092}
	r.md.boot = []protocol.Node{boot}
	r.md.dueAt = r.now
	r.poll(0)
	assert.Equal(t, []bool{true}, r.md.asked)
	require.Len(t, r.sel.connects, 3)
	assert.Equal(t, boot, r.sel.connects[2].node)

	// While the bootstrap server is being connected there is hope; when that fails there is none left, and nothing
	// to go back to: the back-off rules.
	r.poll(10 * ms)
	r.sel.gone(0, -1, errReset)
	r.poll(0)
	polls := r.sel.polls
	r.pass(49 * ms)
	assert.Less(t, r.sel.polls-polls, 5)
	assert.Len(t, r.sel.connects, 3)
	r.pass(3 * ms) // the pause and, since this is the fourth attempt in so short a time, the budget's pace
	r.poll(0)
	assert.Len(t, r.sel.connects, 4)
}

// NC-29, NC-30: by the trigger: nodes in use are closed, their requests come back as disconnected, in order.
func TestRebootstrapByTrigger(t *testing.T) {
	r := newRig(t, Config{}, 1, 2)
	r.connect(1)
	r.Ready(r.node(2), r.now)
	var o outcome
	r.send(1, &o)
	r.md.boot = []protocol.Node{{ID: -1, Host: "boot", Port: 9092}}
	r.md.trigger = true
	r.md.dueAt = r.now
	r.poll(0)
	assert.Equal(t, []bool{false}, r.md.asked)
	r.poll(0)
	assert.ErrorIs(t, o.done(t).Err, ErrDisconnected)
	assert.ErrorIs(t, o.resp.Err, errLeft)
	assert.Equal(t, nodeIdle, r.state(1))
	assert.Equal(t, nodeIdle, r.state(2))
	assert.EqualValues(t, -1, r.sel.connects[2].node.ID)
	assert.Zero(t, r.PollDelay(1, r.now), "not a failure of the node")
}

// NC-31: a broker may call for it, in an answer to Metadata or to ApiVersions.
func TestRebootstrapRequired(t *testing.T) {
	r := newRig(t, Config{}, 1, 2)
	boot := []protocol.Node{{ID: -1, Host: "boot", Port: 9092}}
	r.connect(1)
	r.md.boot, r.md.refuse = boot, protocol.RebootstrapRequired
	r.md.dueAt = r.now
	r.poll(0)
	r.sel.answer(0, 1, metadataAnswer())
	r.poll(0)
	assert.Equal(t, true, r.md.asked[len(r.md.asked)-1])
	assert.Equal(t, nodeClosing, r.state(1))
	r.poll(0)
	assert.Equal(t, boot, r.md.nodes)

	r = newRig(t, Config{}, 1, 2)
	r.connect(1)
	r.md.boot = boot
	r.Ready(r.node(2), r.now)
	r.sel.gone(0, 2, &RequestError{Kind: ErrDisconnected, Cause: protocol.RebootstrapRequired})
	r.poll(0)
	assert.Equal(t, []bool{true}, r.md.asked)
	assert.Equal(t, nodeClosing, r.state(1))
}

// An answer of a node that was given up while it was on its way does not bring the old cluster back.
func TestAnswerFromBeforeTheRebootstrap(t *testing.T) {
	r := newRig(t, Config{}, 1, 2)
	r.connect(1)
	r.md.dueAt = r.now
	r.poll(0)
	r.Ready(r.node(2), r.now)
	r.md.boot = []protocol.Node{{ID: -1, Host: "boot", Port: 9092}}
	r.sel.gone(0, 2, protocol.RebootstrapRequired)
	r.sel.answer(0, 1, metadataAnswer(1, 2))
	r.poll(0)
	assert.Empty(t, r.md.responses)
	assert.Equal(t, []error{errLeft}, r.md.failures)
	r.poll(0)
	r.md.dueAt = r.now
	r.poll(0)
	r.sel.up(0, -1, apis())
	r.poll(0)
	r.poll(0)
	r.sel.answer(0, -1, metadataAnswer(1, 2))
	r.poll(0)
	assert.Len(t, r.md.responses, 1)
}

// FC-107: whatever keeps the client from working, it sleeps until something can change: in each state fewer than 50
// polls a second.
func TestNoBusyLoop(t *testing.T) {
	for _, tt := range []struct {
		name  string
		reach func(r *rig)
	}{
		{"idle", func(r *rig) { r.connect(1) }},
		{"never connected", func(*rig) {}},
		{"no nodes, update due", func(r *rig) { r.md.nodes = nil; r.md.dueAt = r.now }},
		{"connecting, update due", func(r *rig) { r.md.dueAt = r.now }},
		{"all nodes fail, update due", func(r *rig) {
			r.md.dueAt = r.now
			r.sel.onConnect = func(n protocol.Node, _ time.Duration) { r.sel.gone(0, n.ID, errReset) }
		}},
		{"all nodes hang, update due", func(r *rig) {
			r.md.dueAt = r.now
			r.sel.onConnect = func(n protocol.Node, d time.Duration) { r.sel.gone(d, n.ID, errReset) }
		}},
		{"throttled, update due", func(r *rig) {
			r.connect(1)
			r.md.nodes = nodes(1)
			r.Throttle(1, time.Minute, r.now)
			r.md.dueAt = r.now
		}},
		{"closing, update due", func(r *rig) {
			r.connect(1)
			r.md.nodes = nodes(1)
			r.sel.slowClose = true
			r.Disconnect(1, errReset, r.now)
			r.md.dueAt = r.now
		}},
		{"request in flight", func(r *rig) { r.connect(1); r.send(1, new(outcome)); r.sel.write(0, 1) }},
		{"metadata in flight", func(r *rig) { r.connect(1); r.md.dueAt = r.now; r.poll(0); r.md.dueAt = r.now }},
		{"gone with a request in flight", func(r *rig) {
			r.connect(1)
			r.send(1, new(outcome))
			r.sel.write(0, 1)
			r.md.nodes = nodes(2)
		}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			r := newRig(t, Config{ConnectionsMaxIdle: time.Hour}, 1, 2, 3)
			tt.reach(r)
			r.poll(0)
			r.poll(0)
			before := r.sel.polls
			for end := r.now.Add(3 * time.Second); r.now.Before(end) && r.sel.polls < before+1000; {
				r.poll(-1)
				if r.sel.stuck {
					return // it would sleep until an event comes: even better
				}
			}
			assert.Less(t, r.sel.polls-before, 150)
		})
	}
}
