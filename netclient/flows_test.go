package netclient

import (
	"math/rand/v2"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/kafka-reservoir/producer/metadata"
	"github.com/kafka-reservoir/producer/protocol"
)

// cluster is a client with real metadata, over fake brokers that answer after a millisecond. A loop that
// stands in for the sender's tries to reach the leaders of a topic all the time.
type cluster struct {
	*rig
	md      *metadata.Metadata
	brokers map[int32]*broker
	topic   string
	asked   []question     // metadata requests
	reached map[int32]bool // leaders that could be sent to, since it was emptied
}

type broker struct {
	node  protocol.Node
	fate  fate
	view  func() *protocol.MetadataResponse // nil: the cluster's
	dials int
}

// fate is what becomes of an attempt to connect to a broker, or of a request.
type fate int

const (
	works   fate = iota
	refuses      // every attempt fails at once
	hangs        // no attempt ends before its timeout
	mute         // connects, but answers nothing
	resets       // connects, and drops the connection at the first request
)

type question struct {
	node   int32
	topics []string
	at     time.Duration // since the beginning
}

// newCluster has the bootstrap server -1 and the brokers 1 to n; broker 1 leads the topic's partition 0, and so on.
func newCluster(t *testing.T, seed uint64, n int32) *cluster {
	chance := rand.New(rand.NewPCG(seed, seed)).IntN
	c := &cluster{topic: "a", brokers: make(map[int32]*broker), reached: make(map[int32]bool)}
	c.md = metadata.New(metadata.Config{
		Bootstrap:    []protocol.Node{{Host: "boot", Port: 1}},
		RetryBackoff: 100 * ms, RetryBackoffMax: time.Second, RebootstrapTrigger: 5 * time.Minute, Rand: chance,
		InUse: func(string) bool { return true },
	})
	sel := newFakeSelector(t)
	c.rig = &rig{New(Config{Rand: chance, RequestTimeout: 2 * time.Second}, sel, c.md), t, sel, nil, t0}
	c.brokers[-1] = &broker{node: protocol.Node{ID: -1, Host: "boot", Port: 1}}
	for _, node := range nodes(seq(1, n)...) {
		c.brokers[node.ID] = &broker{node: node}
	}
	sel.onConnect, sel.onSend = c.connected, c.sent
	c.md.AddTopic(c.topic, t0)
	return c
}

func seq(from, to int32) (ids []int32) {
	for id := from; id <= to; id++ {
		ids = append(ids, id)
	}
	return ids
}

func (c *cluster) connected(node protocol.Node, timeout time.Duration) {
	b := c.brokers[node.ID]
	switch {
	case b == nil || b.node.Addr() != node.Addr() || b.fate == refuses:
		c.sel.gone(ms, node.ID, errReset)
	case b.fate == hangs:
		c.sel.gone(timeout, node.ID, errReset)
	default:
		c.sel.up(ms, node.ID, apis())
	}
	if b != nil {
		b.dials++
	}
}

func (c *cluster) sent(node int32, f fakeFrame) {
	var req protocol.MetadataRequest
	require.Equal(c.t, protocol.KeyMetadata, f.header.Key)
	require.NoError(c.t, req.ReadFrom(f.body, f.header.Version))
	q := question{node: node, topics: []string{}, at: c.now.Sub(t0)}
	require.NotNil(c.t, req.Topics, "FC-064: never all topics")
	for _, t := range req.Topics {
		q.topics = append(q.topics, *t.Name)
	}
	c.asked = append(c.asked, q)
	switch b := c.brokers[node]; b.fate {
	case mute:
		c.sel.write(ms, node)
	case resets:
		c.sel.gone(ms, node, errReset)
	default:
		resp := c.view()
		if b.view != nil {
			resp = b.view()
		}
		c.sel.answer(ms, node, resp)
	}
}

// view is the truth: all brokers with their addresses, and the topic.
func (c *cluster) view() *protocol.MetadataResponse {
	resp := metadataAnswer()
	rt := protocol.MetadataResponseTopic{Name: &c.topic}
	for id := range int32(1000) {
		b := c.brokers[id]
		if b == nil {
			continue
		}
		resp.Brokers = append(resp.Brokers, protocol.MetadataResponseBroker{NodeID: id, Host: b.node.Host, Port: b.node.Port})
		rt.Partitions = append(rt.Partitions, protocol.MetadataResponsePartition{PartitionIndex: int32(len(rt.Partitions)), LeaderID: id, LeaderEpoch: 5})
	}
	resp.Topics = append(resp.Topics, rt)
	return resp
}

// run lets the loop go on for d.
func (c *cluster) run(d time.Duration) {
	c.t.Helper()
	polls := c.sel.polls
	for end := c.now.Add(d); c.now.Before(end); {
		timeout := end.Sub(c.now)
		s := c.md.Snapshot()
		if topic := s.Topic(c.topic); topic == nil || len(topic.Available()) < topic.Count() {
			c.md.AddTopic(c.topic, c.now)
			c.md.RequestUpdate() // as the sender does for leaders that are not known
		} else {
			for _, p := range topic.Available() {
				node, ok := s.Node(topic.Leader(p))
				require.True(c.t, ok)
				if c.Ready(node, c.now) {
					c.reached[node.ID] = true
				} else {
					timeout = min(timeout, max(c.PollDelay(node.ID, c.now), ms))
				}
			}
		}
		c.poll(timeout)
	}
	assert.Less(c.t, c.sel.polls-polls, 20+int(d/(10*ms)), "FC-107: polls in %v", d)
}

// questionsSince counts metadata requests.
func (c *cluster) questionsSince(since time.Time) (n int) {
	for _, q := range c.asked {
		if q.at >= since.Sub(t0) {
			n++
		}
	}
	return n
}

// S-39, S-46, FC-064: from the bootstrap server to the leaders, with one question.
func TestFlowStart(t *testing.T) {
	c := newCluster(t, 1, 3)
	c.run(20 * ms)
	assert.Equal(t, map[int32]bool{1: true, 2: true, 3: true}, c.reached)
	assert.Equal(t, []question{{-1, []string{"a"}, ms}}, c.asked)
}

// FC-061: a broker that has just started knows no brokers: nothing is forgotten, others are asked.
func TestFlowEmptyAnswer(t *testing.T) {
	for seed := range uint64(20) {
		c := newCluster(t, seed, 3)
		c.run(50 * ms)
		c.brokers[2].view = func() *protocol.MetadataResponse { return metadataAnswer() }
		clear(c.reached)
		for range 10 {
			c.md.RequestUpdate()
			c.run(2 * time.Second)
		}
		assert.Equal(t, map[int32]bool{1: true, 2: true, 3: true}, c.reached)
		for i, q := range c.asked[:len(c.asked)-1] {
			if q.node == 2 {
				assert.NotEqual(t, int32(2), c.asked[i+1].node, "seed %d, question %d", seed, i)
			}
		}
		assert.Len(t, c.md.Nodes(), 3)
	}
}

// FC-061: and if it is the only one at the start, it is asked until it knows.
func TestFlowEmptyAnswerAtStart(t *testing.T) {
	c := newCluster(t, 1, 3)
	c.brokers[-1].view = func() *protocol.MetadataResponse { return metadataAnswer() }
	c.run(3 * time.Second)
	assert.InDelta(t, 16, len(c.asked), 3, "about five a second")
	c.brokers[-1].view = nil
	c.run(2 * time.Second)
	assert.Len(t, c.reached, 3)
}

// FC-063: the broker that is asked goes silent while a leader moves.
func TestFlowSilentBroker(t *testing.T) {
	for seed := range uint64(20) {
		c := newCluster(t, seed, 3)
		c.run(time.Second)
		c.brokers[1].fate = mute
		start := c.now
		c.md.RequestUpdate()
		c.run(2*time.Second + 200*ms)
		last := c.asked[len(c.asked)-1]
		assert.NotEqual(t, int32(1), last.node, "seed %d", seed)
		assert.LessOrEqual(t, last.at-start.Sub(t0), 2*time.Second+150*ms)
	}
}

// FC-065, FC-104: while one broker is down there is no storm: dials and questions follow their back-off; when it
// is back, it is reached within the longest back-off.
func TestFlowBrokerDown(t *testing.T) {
	for seed := range uint64(10) {
		c := newCluster(t, seed, 3)
		c.run(time.Second)
		start := c.now
		c.brokers[2].fate = refuses
		c.brokers[2].dials = 0
		c.sel.gone(0, 2, errReset)
		c.run(20 * time.Second)
		assert.LessOrEqual(t, c.brokers[2].dials, 36, "seed %d", seed)
		assert.GreaterOrEqual(t, c.brokers[2].dials, 18, "seed %d", seed)
		assert.LessOrEqual(t, c.questionsSince(start), 36, "seed %d", seed)
		c.brokers[2].fate = works
		clear(c.reached)
		c.run(time.Second + 10*ms)
		assert.True(t, c.reached[2], "seed %d", seed)
	}
}

// Delivery 4, found by faultrun: a broker and the bootstrap server at its address are one host, which is not tried twice as often under two
// names while it is away. One answer under the one name ends the pause of the other.
func TestFlowBrokerAtABootstrapAddress(t *testing.T) {
	for seed := range uint64(10) {
		c := newCluster(t, seed, 1)
		c.brokers[1].node = protocol.Node{ID: 1, Host: "boot", Port: 1}
		c.run(time.Second)
		require.True(t, c.reached[1])
		both := []*broker{c.brokers[-1], c.brokers[1]}
		for _, b := range both {
			b.fate, b.dials = refuses, 0
		}
		for id, n := range map[int32]*nodeConn{-1: c.find(-1), 1: c.find(1)} {
			if n != nil && n.state == nodeReady {
				c.sel.gone(0, id, errReset)
			}
		}
		c.run(time.Second)
		assert.LessOrEqual(t, both[0].dials+both[1].dials, 6, "seed %d: as many as of one", seed)
		c.run(19 * time.Second)
		assert.LessOrEqual(t, both[0].dials+both[1].dials, 36, "seed %d", seed)
		assert.GreaterOrEqual(t, both[0].dials+both[1].dials, 18, "seed %d", seed)
		for _, b := range both {
			b.fate = works
		}
		clear(c.reached)
		c.run(time.Second + 10*ms)
		assert.True(t, c.reached[1], "seed %d", seed)
	}
}

// FC-065: one lost connection costs at most three questions, and then there is peace.
func TestFlowOneDisconnect(t *testing.T) {
	c := newCluster(t, 1, 3)
	c.run(5 * time.Second)
	c.md.RequestUpdate()
	start := c.now
	c.poll(0)
	require.Equal(t, 1, c.InFlight(), "the question is under way when its connection goes")
	c.sel.gone(0, c.asked[len(c.asked)-1].node, errReset)
	c.run(10 * time.Second)
	assert.LessOrEqual(t, c.questionsSince(start), 3)
	assert.Len(t, c.reached, 3)
}

// FC-100: a broker whose advertised address cannot be reached is dialled with back-off only, the others work, and the
// reason can be told. It is well as soon as metadata has a good address.
func TestFlowUnreachableAddress(t *testing.T) {
	c := newCluster(t, 1, 2)
	good := c.brokers[2].node
	c.brokers[2].node = protocol.Node{ID: 2, Host: "nope.invalid", Port: 1}
	c.brokers[2].fate = refuses
	c.run(5 * time.Second)
	assert.True(t, c.reached[1])
	assert.False(t, c.reached[2])
	assert.LessOrEqual(t, c.brokers[2].dials, 12)
	assert.ErrorIs(t, c.LastError(2), errReset)
	assert.EqualValues(t, 1, c.brokers[-1].dials)
	c.brokers[2].node, c.brokers[2].fate = good, works
	c.run(2500 * ms)
	assert.True(t, c.reached[2])
	assert.NoError(t, c.LastError(2))
}

// FC-100: even if that is so for all brokers: the bootstrap server answers each time, and still they are
// dialled with growing pauses, since the back-off survives the rebootstrap.
func TestFlowAllAddressesUnreachable(t *testing.T) {
	for seed := range uint64(10) {
		c := newCluster(t, seed, 2)
		for _, id := range seq(1, 2) {
			c.brokers[id].fate = refuses
		}
		c.run(5 * time.Second)
		for _, id := range seq(1, 2) {
			assert.LessOrEqual(t, c.brokers[id].dials, 12, "seed %d", seed)
		}
		assert.LessOrEqual(t, len(c.asked), 30, "seed %d", seed)
		for _, id := range seq(1, 2) {
			c.brokers[id].fate = works
		}
		c.run(2500 * ms)
		assert.Len(t, c.reached, 2, "seed %d", seed)
	}
}

// NC-14, FC-096: all brokers are replaced, under the same bootstrap name. The new ones are found without a restart.
func TestFlowClusterReplaced(t *testing.T) {
	for seed := range uint64(10) {
		for _, f := range []fate{refuses, hangs, mute, resets} {
			c := newCluster(t, seed, 3)
			c.run(time.Second)
			for _, id := range seq(1, 3) {
				c.brokers[id].fate = f
				if f != mute {
					c.sel.gone(0, id, errReset)
				}
			}
			truth := c.view
			for _, id := range seq(11, 13) {
				c.brokers[id] = &broker{node: nodes(id)[0]}
			}
			c.brokers[-1].view = func() *protocol.MetadataResponse { // the new cluster
				resp := truth()
				resp.Brokers, resp.Topics[0].Partitions = resp.Brokers[3:], resp.Topics[0].Partitions[3:]
				for i := range resp.Topics[0].Partitions {
					resp.Topics[0].Partitions[i].PartitionIndex = int32(i)
				}
				return resp
			}
			for _, id := range seq(11, 13) {
				c.brokers[id].view = c.brokers[-1].view
			}
			c.md.RequestUpdate()
			// Brokers that still take connections are given up by the trigger, after five minutes.
			limit := map[fate]time.Duration{refuses: 3 * time.Second, hangs: 20 * time.Second, resets: 310 * time.Second, mute: 310 * time.Second}[f]
			found := func() bool { return c.reached[11] && c.reached[12] && c.reached[13] }
			for c.now.Sub(t0) < limit && !found() {
				c.run(100 * ms)
			}
			assert.True(t, found(), "seed %d, old brokers %v, after %v: %v", seed, f, c.now.Sub(t0), c.reached)
		}
	}
}

// The bootstrap servers are only a way in. Where they are gone, which nobody notices while the brokers known from them
// are reached, these are found again after every connection was lost, and after a time in which none could be made.
func TestFlowBootstrapServersGone(t *testing.T) {
	for seed := range uint64(10) {
		for _, gone := range []fate{refuses, hangs} {
			c := newCluster(t, seed, 3)
			c.run(time.Second)
			c.brokers[-1].fate = gone
			c.sel.gone(0, -1, errReset)
			lose := func() {
				for _, id := range seq(1, 3) {
					c.sel.gone(0, id, errReset)
				}
				c.poll(0)
				clear(c.reached)
				c.md.RequestUpdate() // as the sender does for what was refused
			}
			lose()
			c.run(500 * ms)
			if !assert.Len(t, c.reached, 3, "seed %d: connections lost once, gone: %v", seed, gone) {
				continue
			}

			for _, id := range seq(1, 3) {
				c.brokers[id].fate = refuses
			}
			lose()
			c.run(10 * time.Second)
			assert.Empty(t, c.reached)
			for _, id := range seq(1, 3) {
				c.brokers[id].fate = works
			}
			c.run(2500 * ms)
			assert.Len(t, c.reached, 3, "seed %d: brokers away for a time, gone: %v", seed, gone)
		}
	}
}

// FC-095: a broker moves to another address: it is reached there, and no more at the old one.
func TestFlowBrokerMoves(t *testing.T) {
	c := newCluster(t, 1, 3)
	c.run(time.Second)
	c.brokers[1].node = protocol.Node{ID: 1, Host: "elsewhere", Port: 7}
	c.brokers[1].fate = works
	c.sel.gone(0, 1, errReset)
	clear(c.reached)
	c.run(2 * time.Second)
	assert.True(t, c.reached[1])
	assert.Equal(t, "elsewhere", c.find(1).addr.Host)

	delete(c.brokers, 3)
	c.sel.gone(0, 3, errReset)
	c.run(time.Minute)
	c.md.RequestUpdate()
	c.run(time.Second)
	dials := len(c.sel.connects)
	c.run(time.Minute)
	assert.Len(t, c.sel.connects, dials, "node 3 is not dialled any more")
	assert.Equal(t, nodeIdle, c.state(3))
}

// FC-062: a leader that no broker list has: nothing is dialled for it; it is reached soon after it is listed.
func TestFlowLeaderWithoutBroker(t *testing.T) {
	c := newCluster(t, 1, 2)
	view := func() *protocol.MetadataResponse { // lists broker 7 as soon as there is one
		resp := c.view()
		resp.Topics[0].Partitions = append(resp.Topics[0].Partitions[:2], protocol.MetadataResponsePartition{PartitionIndex: 2, LeaderID: 7, LeaderEpoch: 1})
		return resp
	}
	for _, b := range c.brokers {
		b.view = view
	}
	c.run(500 * ms)
	for _, d := range c.sel.connects {
		assert.NotEqual(t, int32(7), d.node.ID)
	}
	c.brokers[7] = &broker{node: protocol.Node{ID: 7, Host: "seven", Port: 7}, view: view}
	c.run(time.Second + 300*ms)
	assert.True(t, c.reached[7])
}
