package metadata

import (
	"math"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/kafka-reservoir/producer/protocol"
)

// fold hands in answers to full requests, one a second, and returns the client.
func fold(t *testing.T, version int16, answers ...protocol.MetadataResponseTopic) client {
	c := newClient(t, testConfig())
	c.m.AddTopic("a", t0)
	for i, a := range answers {
		c.full(t0.Add(time.Duration(i)*time.Second), version, a)
	}
	return c
}

func (c client) full(now time.Time, version int16, topics ...protocol.MetadataResponseTopic) {
	c.t.Helper()
	c.m.RequestUpdate()
	c.due(now)
	require.NoError(c.t, c.m.HandleResponse(version, response(topics...), now))
}

// A topic cannot be renamed and ids are not used again: an answer that has a topic twice, or one id for two, was damaged on its way, and
// nothing of it is believed. (Simulation: one letter of a name had changed, and records went to another topic, by its id.)
func TestContradictionsAreNotBelieved(t *testing.T) {
	a, b := topic("a", 1, part(0, 1, 3)), topic("b", 2, part(0, 2, 3))
	for _, tt := range []struct {
		name   string
		topics []protocol.MetadataResponseTopic
		why    string
	}{
		{"a name twice", []protocol.MetadataResponseTopic{a, topic("a", 2, part(0, 2, 3))}, "has topic a twice"},
		{"an id twice", []protocol.MetadataResponseTopic{a, topic("b", 1, part(0, 2, 3))}, "gives the topics a and b the same id"},
		{"the id of another one", []protocol.MetadataResponseTopic{topic("a", 2, part(0, 2, 3))}, "gives topic a the id of b"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			c := newClient(t, testConfig())
			c.m.AddTopic("a", t0)
			c.m.AddTopic("b", t0)
			c.full(t0, 13, a, b)
			before := c.m.Snapshot()
			c.m.RequestUpdate()
			c.due(t0.Add(time.Minute))
			require.ErrorContains(t, c.m.HandleResponse(13, response(tt.topics...), t0.Add(time.Minute)), tt.why)
			assert.Same(t, before, c.m.Snapshot())
			c.full(t0.Add(2*time.Minute), 13, topic("a", 3, part(0, 1, 0)), b) // created anew
			assert.Equal(t, uuid(3), c.m.Snapshot().Topic("a").ID)
		})
	}
	// Once believed, since nothing spoke against it, it is mended by the next answer about both.
	c := newClient(t, testConfig())
	c.m.AddTopic("a", t0)
	c.full(t0, 13, topic("a", 2, part(0, 2, 3)))
	c.m.AddTopic("b", t0)
	c.full(t0.Add(time.Minute), 13, a, b)
	assert.Equal(t, uuid(1), c.m.Snapshot().Topic("a").ID)
	assert.Equal(t, uuid(2), c.m.Snapshot().Topic("b").ID)
}

// S-38: the snapshot lists nodes by id, partitions with leaders as available, topics by name and by id, and
// does not change afterwards.
func TestSnapshot(t *testing.T) {
	c := newClient(t, testConfig())
	c.m.AddTopic("a", t0)
	c.m.AddTopic("b", t0)
	c.due(t0)
	rack := "r2"
	resp := response(topic("a", 1, part(2, -1, 3), part(0, 1, 3), part(1, 2, 3)), topic("b", 2, part(0, 3, 0)))
	resp.Brokers = []protocol.MetadataResponseBroker{{NodeID: 3, Host: "c", Port: 3}, {NodeID: 1, Host: "a", Port: 1}, {NodeID: 2, Host: "b", Port: 2, Rack: &rack}}
	resp.Topics[1].IsInternal = true
	require.NoError(t, c.m.HandleResponse(13, resp, t0))

	s := c.m.Snapshot()
	assert.Equal(t, 1, s.Version())
	assert.Equal(t, "cluster", s.ClusterID())
	assert.Equal(t, []protocol.Node{{ID: 1, Host: "a", Port: 1}, {ID: 2, Host: "b", Port: 2, Rack: "r2"}, {ID: 3, Host: "c", Port: 3}}, s.Nodes())
	n, ok := s.Node(2)
	assert.True(t, ok)
	assert.Equal(t, "b", n.Host)
	_, ok = s.Node(4)
	assert.False(t, ok)

	a := s.Topic("a")
	require.NotNil(t, a)
	assert.Same(t, a, s.TopicByID(uuid(1)))
	assert.Equal(t, 3, a.Count())
	assert.Equal(t, []int32{0, 1}, a.Available())
	assert.Equal(t, []int32{1, 2, -1, -1, -1}, []int32{a.Leader(0), a.Leader(1), a.Leader(2), a.Leader(3), a.Leader(-1)})
	assert.Equal(t, []int32{3, -1, -1}, []int32{a.LeaderEpoch(2), a.LeaderEpoch(3), a.LeaderEpoch(math.MinInt32)})
	assert.Equal(t, &Partition{Index: 1, Leader: 2, LeaderEpoch: 3, Replicas: []int32{1, 2, 3}, ISR: []int32{1, 2, 3}}, a.Partition(1))
	assert.Nil(t, a.Partition(3))
	assert.Nil(t, a.Partition(-1))
	assert.False(t, a.Internal)
	assert.True(t, s.Topic("b").Internal)
	assert.Nil(t, s.Topic("c"))
	assert.Nil(t, s.TopicByID(protocol.UUID{}))

	c.full(t0.Add(time.Second), 13, topic("a", 1, part(0, 3, 4)), topic("b", 2, part(0, 3, 0)))
	assert.Equal(t, [][2]int32{{1, 3}, {2, 3}, {-1, 3}}, leaders(s, "a"), "the old snapshot")
	assert.Equal(t, [][2]int32{{3, 4}}, leaders(c.m.Snapshot(), "a"))
}

// An answer that says what is known already keeps the same topic, whoever holds it.
func TestSameTopicIsKept(t *testing.T) {
	c := fold(t, 13, topic("a", 1, part(0, 1, 3)))
	before, nodes := c.m.Snapshot().Topic("a"), c.m.Nodes()
	c.full(t0.Add(time.Second), 13, topic("a", 1, part(0, 1, 3)))
	assert.Same(t, before, c.m.Snapshot().Topic("a"))
	assert.Same(t, &nodes[0], &c.m.Nodes()[0])
}

// The rules of leader epochs, as a table: what several answers about one partition add up to.
func TestLeaderEpochs(t *testing.T) {
	type answer = protocol.MetadataResponseTopic
	unknown := failed("a", protocol.UnknownTopicOrPartition)
	for _, tt := range []struct {
		name    string
		version int16
		answers []answer
		want    [][2]int32
	}{
		{"MD-05: below v9 epochs are dropped", 8, []answer{topic("a", 0, part(0, 1, 10))}, [][2]int32{{1, -1}}},
		{"MD-05: from v9 on they are kept", 9, []answer{topic("a", 0, part(0, 1, 10))}, [][2]int32{{1, 10}}},
		{"MD-05: below v9 every answer counts", 8, []answer{topic("a", 0, part(0, 1, 10)), topic("a", 0, part(0, 2, 9))}, [][2]int32{{2, -1}}},
		{"MD-06: an older epoch is passed over, with all that comes with it", 13,
			[]answer{topic("a", 1, part(0, 1, 10)), topic("a", 1, part(0, 2, 9))}, [][2]int32{{1, 10}}},
		{"MD-06: an equal one replaces", 13,
			[]answer{topic("a", 1, part(0, 1, 10)), topic("a", 1, part(0, 2, 10))}, [][2]int32{{2, 10}}},
		{"MD-06: a newer one replaces", 13,
			[]answer{topic("a", 1, part(0, 1, 10)), topic("a", 1, part(0, 2, 11))}, [][2]int32{{2, 11}}},
		{"MD-06: each partition by itself", 13,
			[]answer{topic("a", 1, part(0, 1, 10), part(1, 1, 10)), topic("a", 1, part(0, 2, 9), part(1, 2, 11))}, [][2]int32{{1, 10}, {2, 11}}},
		{"MD-10: a deleted topic's epoch is remembered", 13,
			[]answer{topic("a", 1, part(0, 1, 10)), unknown, topic("a", 1, part(0, 2, 9))}, [][2]int32{{1, 10}}},
		{"MD-10, FC-059: recreated with another id, a lower epoch is accepted", 13,
			[]answer{topic("a", 1, part(0, 1, 12)), unknown, unknown, unknown, topic("a", 2, part(0, 2, 0))}, [][2]int32{{2, 0}}},
		{"MD-11: another id resets all partitions", 13,
			[]answer{topic("a", 1, part(0, 1, 10), part(1, 1, 10)), topic("a", 2, part(0, 2, 1), part(1, 2, 10))}, [][2]int32{{2, 1}, {2, 10}}},
		{"MD-11: an id that appears resets", 13,
			[]answer{topic("a", 0, part(0, 1, 10)), topic("a", 1, part(0, 2, 9))}, [][2]int32{{2, 9}}},
		{"MD-11: an id that disappears does not", 13,
			[]answer{topic("a", 1, part(0, 1, 10)), topic("a", 0, part(0, 2, 9))}, [][2]int32{{1, 10}}},
		{"MD-12: a partition that disappeared is not brought back by an older epoch", 13,
			[]answer{topic("a", 1, part(0, 1, 10)), topic("a", 1), topic("a", 1, part(0, 1, 9))}, [][2]int32{{-1, -1}}},
		{"MD-12: but by its own", 13,
			[]answer{topic("a", 1, part(0, 1, 10)), topic("a", 1), topic("a", 1, part(0, 2, 10))}, [][2]int32{{2, 10}}},
		{"MD-13: without an epoch the answer counts", 13,
			[]answer{topic("a", 1, part(0, 1, 10)), topic("a", 1, part(0, 2, -1))}, [][2]int32{{2, -1}}},
		{"MD-13: and any epoch after it", 13,
			[]answer{topic("a", 1, part(0, 1, 10)), topic("a", 1, part(0, 2, -1)), topic("a", 1, part(0, 3, 4))}, [][2]int32{{3, 4}}},
		{"FC-059: recreated where there are no ids, before v9", 5,
			[]answer{topic("a", 0, part(0, 1, 12)), unknown, unknown, unknown, topic("a", 0, part(0, 2, 0))}, [][2]int32{{2, -1}}},
		{"FC-059: and after v9, when enough answers in a row say so", 9,
			[]answer{topic("a", 0, part(0, 1, 12)), topic("a", 0, part(0, 2, 0)), topic("a", 0, part(0, 2, 0)),
				topic("a", 0, part(0, 2, 0)), topic("a", 0, part(0, 2, 0)), topic("a", 0, part(0, 2, 0))}, [][2]int32{{2, 0}}},
		{"FC-059: not when they are interrupted", 9,
			[]answer{topic("a", 0, part(0, 1, 12)), topic("a", 0, part(0, 2, 0)), topic("a", 0, part(0, 2, 0)),
				topic("a", 0, part(0, 2, 0)), topic("a", 0, part(0, 1, 12)), topic("a", 0, part(0, 2, 0))}, [][2]int32{{1, 12}}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			c := fold(t, tt.version, tt.answers...)
			assert.Equal(t, tt.want, leaders(c.m.Snapshot(), "a"))
		})
	}
}

// MD-07, S-53: the bootstrap addresses are no cluster; each answer is told to the listener, with the id.
func TestOnUpdate(t *testing.T) {
	var versions []int
	var ids []string
	cfg := testConfig()
	cfg.OnUpdate = func(s *Snapshot) { versions, ids = append(versions, s.Version()), append(ids, s.ClusterID()) }
	c := newClient(t, cfg)
	assert.Empty(t, versions)
	c.full(t0, 13)
	c.full(t0.Add(time.Second), 13)
	assert.Equal(t, []int{1, 2}, versions)
	assert.Equal(t, []string{"cluster", "cluster"}, ids)
	resp := response()
	resp.ClusterID = nil
	c.m.RequestUpdate()
	c.due(t0.Add(2 * time.Second))
	require.NoError(t, c.m.HandleResponse(1, resp, t0))
	assert.Equal(t, "cluster", c.m.Snapshot().ClusterID(), "v1 does not tell it")
}

// S-50, FC-061: an answer without brokers is a failure: everything known is kept, and the update stays due after a pause.
func TestNoBrokers(t *testing.T) {
	c := fold(t, 13, topic("a", 1, part(0, 1, 3)))
	before := c.m.Snapshot()
	now := t0.Add(time.Minute)
	c.m.RequestUpdate()
	c.due(now)
	resp := response(failed("a", protocol.LeaderNotAvailable))
	resp.Brokers = nil
	assert.ErrorIs(t, c.m.HandleResponse(13, resp, now), errNoBrokers)
	assert.Same(t, before, c.m.Snapshot())
	assert.Equal(t, 100*ms, c.m.TimeToUpdate(now))
}

// S-50: a broker that calls for a rebootstrap has said nothing else.
func TestRebootstrapRequired(t *testing.T) {
	c := fold(t, 13, topic("a", 1, part(0, 1, 3)))
	before := c.m.Snapshot()
	now := t0.Add(time.Minute)
	c.m.RequestUpdate()
	c.due(now)
	resp := response(topic("a", 1, part(0, 2, 4)))
	resp.ErrorCode = protocol.RebootstrapRequired
	assert.ErrorIs(t, c.m.HandleResponse(13, resp, now), protocol.RebootstrapRequired)
	assert.Same(t, before, c.m.Snapshot())
}

// MD-14: errors of topics: refused ones lose what was known, others keep it; a following good answer clears the error;
// each touches its topic only. Errors that mean a wrong view make another update needed.
func TestTopicErrors(t *testing.T) {
	for _, tt := range []struct {
		code  protocol.ErrorCode
		kept  bool
		again bool
		known bool // the topic stands in the view
	}{
		{protocol.UnknownTopicOrPartition, true, true, true},
		{protocol.LeaderNotAvailable, true, true, true},
		{protocol.UnknownServerError, true, false, true},
		{protocol.TopicAuthorizationFailed, false, false, true},
		{protocol.InvalidTopicException, false, false, false},
	} {
		t.Run(tt.code.Name(), func(t *testing.T) {
			c := newClient(t, testConfig())
			c.m.AddTopic("a", t0)
			c.m.AddTopic("b", t0)
			good, other := topic("a", 1, part(0, 1, 3)), topic("b", 2, part(0, 2, 3))
			c.full(t0, 13, good, other)
			now := t0.Add(time.Second)
			c.full(now, 13, failed("a", tt.code), other)

			a := c.m.Snapshot().Topic("a")
			require.Equal(t, tt.known, a != nil)
			if a != nil {
				assert.Equal(t, tt.code, a.Err)
				assert.Equal(t, tt.kept, a.has(0))
				assert.Equal(t, tt.kept, a.ID == uuid(1))
			}
			assert.Equal(t, [][2]int32{{2, 3}}, leaders(c.m.Snapshot(), "b"))
			assert.Equal(t, tt.again, c.m.TimeToUpdate(now) < time.Second)

			now = now.Add(10 * time.Second)
			c.m.AddTopic("a", now)
			c.full(now, 13, good, other)
			assert.Equal(t, [][2]int32{{1, 3}}, leaders(c.m.Snapshot(), "a"))
			assert.Equal(t, protocol.None, c.m.Snapshot().Topic("a").Err)
		})
	}
}

// FC-006, FC-059: a topic is gone when enough answers in a row say so, not before; it is asked for as long as it is in use.
func TestTopicIsGoneByAgreement(t *testing.T) {
	unknown := failed("a", protocol.UnknownTopicOrPartition)
	c := fold(t, 13, topic("a", 1, part(0, 1, 3)), unknown, unknown, unknown, unknown)
	assert.Equal(t, [][2]int32{{1, 3}}, leaders(c.m.Snapshot(), "a"))
	c.full(t0.Add(time.Minute), 13, unknown)
	assert.Zero(t, c.m.Snapshot().Topic("a").Count())
	assert.Equal(t, []string{"a"}, interested(c.m))
}

// FC-058, MD-14: a name that the broker calls invalid is not asked for again, and nobody can make a loop of requests out of it.
func TestInvalidTopicIsNotAskedAgain(t *testing.T) {
	c := fold(t, 13, failed("a", protocol.InvalidTopicException))
	assert.Empty(t, interested(c.m))
	c.m.RequestUpdate()
	now := t0
	requests := 0
	for end := t0.Add(3 * time.Second); now.Before(end); now = now.Add(10 * ms) {
		c.m.AddTopic("a", now) // a record waits for it, so the sender asks in every round
		if c.m.TimeToUpdate(now) == 0 {
			c.m.NewRequest(now)
			c.answer(now, failed("a", protocol.InvalidTopicException))
			requests++
		}
	}
	assert.InDelta(t, 6, requests, 1)
	c.m.AddTopic("b", now)
	assert.NotContains(t, c.due(now), "a")
}

// A partition's own error does not keep its news out, but calls for another update if it means a wrong view.
func TestPartitionError(t *testing.T) {
	p := part(0, -1, 4)
	p.ErrorCode = protocol.LeaderNotAvailable
	c := fold(t, 13, topic("a", 1, part(0, 1, 3)), topic("a", 1, p))
	assert.Equal(t, [][2]int32{{-1, 4}}, leaders(c.m.Snapshot(), "a"))
	assert.Equal(t, protocol.LeaderNotAvailable, c.m.Snapshot().Topic("a").Partition(0).Err)
	assert.Equal(t, 100*ms, c.m.TimeToUpdate(t0.Add(time.Second)))
}

// MD-18, FC-062: a leader that is not in the list of brokers is no leader, until it is.
func TestLeaderWithoutBroker(t *testing.T) {
	c := fold(t, 13, topic("a", 1, part(0, 7, 3), part(1, 1, 3)))
	a := c.m.Snapshot().Topic("a")
	assert.EqualValues(t, -1, a.Leader(0))
	assert.Equal(t, []int32{1}, a.Available())
	assert.EqualValues(t, 7, a.Partition(0).Leader)

	// The answer that lists the broker need not mention the topic.
	c.m.AddTopic("b", t0)
	c.due(t0)
	resp := response(topic("b", 2, part(0, 1, 0)))
	resp.Brokers = brokers(1, 2, 7)
	require.NoError(t, c.m.HandleResponse(13, resp, t0))
	assert.Equal(t, [][2]int32{{7, 3}, {1, 3}}, leaders(c.m.Snapshot(), "a"))

	// And when it is gone, so is the leader.
	c.m.AddTopic("c", t0)
	c.due(t0)
	resp.Brokers = brokers(1, 2)
	require.NoError(t, c.m.HandleResponse(13, resp, t0))
	assert.Equal(t, [][2]int32{{-1, 3}, {1, 3}}, leaders(c.m.Snapshot(), "a"))
}

// MD-19: an answer to a partial request: retained topics stay, new ones replace old ones, errors of topics that are
// well now are cleared, ids follow.
func TestMergePartialAnswer(t *testing.T) {
	c := newClient(t, testConfig())
	for _, name := range []string{"kept", "replaced", "failing", "id", "noid"} {
		c.m.AddTopic(name, t0)
	}
	c.full(t0, 13, topic("kept", 1, part(0, 1, 1)), topic("replaced", 2, part(0, 1, 1)), failed("failing", protocol.TopicAuthorizationFailed),
		topic("id", 4, part(0, 1, 1)), topic("noid", 5, part(0, 1, 1)))
	c.m.AddTopic("new", t0)
	require.Equal(t, []string{"new"}, c.due(t0))
	c.answer(t0, topic("new", 6, part(0, 3, 1)), topic("replaced", 2, part(0, 2, 2)), topic("failing", 3, part(0, 1, 1)),
		topic("id", 7, part(0, 1, 1)), topic("noid", 0, part(0, 1, 1)))
	s := c.m.Snapshot()
	assert.Equal(t, [][2]int32{{1, 1}}, leaders(s, "kept"))
	assert.Equal(t, [][2]int32{{2, 2}}, leaders(s, "replaced"))
	assert.Equal(t, [][2]int32{{1, 1}}, leaders(s, "failing"))
	assert.Equal(t, protocol.None, s.Topic("failing").Err)
	assert.Equal(t, [][2]int32{{3, 1}}, leaders(s, "new"))
	assert.Same(t, s.Topic("kept"), s.TopicByID(uuid(1)))
	assert.Same(t, s.Topic("id"), s.TopicByID(uuid(7)))
	assert.Nil(t, s.TopicByID(uuid(4)))
	assert.Nil(t, s.TopicByID(uuid(5)), "the id is gone, the topic is not")
	assert.True(t, s.Topic("noid").ID.IsZero())
}

// FC-064: topics that were not asked for leave no trace.
func TestForeignTopicsAreDropped(t *testing.T) {
	c := fold(t, 13, topic("a", 1, part(0, 1, 3)))
	now := t0.Add(time.Second)
	c.m.RequestUpdate()
	c.due(now)
	resp := response(topic("a", 1, part(0, 1, 3)))
	for i := range 50000 {
		resp.Topics = append(resp.Topics, topic("foreign", byte(i), part(0, 1, 0)))
	}
	resp.Topics = append(resp.Topics, protocol.MetadataResponseTopic{}) // without a name
	require.NoError(t, c.m.HandleResponse(13, resp, now))
	assert.Len(t, c.m.Snapshot().topics, 1)
	assert.Len(t, c.m.Snapshot().ids, 1)
}

// Indexes that no broker sends cost no memory; gaps are partitions without a leader.
func TestStrangePartitionIndexes(t *testing.T) {
	c := fold(t, 13, topic("a", 1, part(3, 1, 3), part(math.MaxInt32, 1, 3), part(-5, 1, 3), part(1, 2, 3), part(1, 3, 3)))
	a := c.m.Snapshot().Topic("a")
	assert.Equal(t, [][2]int32{{-1, -1}, {3, 3}, {-1, -1}, {1, 3}}, leaders(c.m.Snapshot(), "a"))
	assert.Nil(t, a.Partition(0))
	assert.Equal(t, []int32{1, 3}, a.Available())
}

// Nodes: negative ids and repetitions are passed over; a changed address is a change.
func TestNodes(t *testing.T) {
	c := newClient(t, testConfig())
	c.due(t0)
	resp := response()
	resp.Brokers = append(brokers(2, -1, 1), protocol.MetadataResponseBroker{NodeID: 2, Host: "again", Port: 1})
	require.NoError(t, c.m.HandleResponse(13, resp, t0))
	assert.Equal(t, []protocol.Node{{ID: 1, Host: "host", Port: 9001}, {ID: 2, Host: "host", Port: 9002}}, c.m.Nodes())
}

// MD-20, KIP-951: leader hints.
func TestLeaderHints(t *testing.T) {
	hint := func(p, leader, epoch int32) LeaderHint { return LeaderHint{"a", p, leader, epoch} }
	node4 := protocol.Node{ID: 4, Host: "four", Port: 4}
	for _, tt := range []struct {
		name  string
		hints []LeaderHint
		nodes []protocol.Node
		want  [][2]int32 // nil: nothing changes
	}{
		{"newer, to a known node", []LeaderHint{hint(0, 2, 11)}, nil, [][2]int32{{2, 11}, {2, 20}}},
		{"newer, to a node that comes with it", []LeaderHint{hint(1, 4, 21)}, []protocol.Node{node4}, [][2]int32{{1, 10}, {4, 21}}},
		{"several", []LeaderHint{hint(0, 3, 11), hint(1, 3, 22)}, nil, [][2]int32{{3, 11}, {3, 22}}},
		{"the same leader, newer epoch", []LeaderHint{hint(0, 1, 11)}, nil, [][2]int32{{1, 11}, {2, 20}}},
		{"twice the same partition: the newer one", []LeaderHint{hint(0, 2, 12), hint(0, 3, 11)}, nil, [][2]int32{{2, 12}, {2, 20}}},
		{"equal epoch", []LeaderHint{hint(0, 2, 10)}, nil, nil},
		{"older epoch", []LeaderHint{hint(0, 2, 9)}, nil, nil},
		{"no leader", []LeaderHint{hint(0, -1, 11)}, nil, nil},
		{"no epoch", []LeaderHint{hint(0, 2, -1)}, nil, nil},
		{"unknown partition", []LeaderHint{hint(2, 2, 11), hint(-1, 2, 11), hint(math.MaxInt32, 2, 11)}, nil, nil},
		{"unknown topic", []LeaderHint{{"z", 0, 2, 11}}, nil, nil},
		{"unknown node", []LeaderHint{hint(0, 9, 11)}, []protocol.Node{node4}, nil},
		{"node with a negative id", []LeaderHint{hint(0, 9, 11)}, []protocol.Node{{ID: -9}}, nil},
	} {
		t.Run(tt.name, func(t *testing.T) {
			c := newClient(t, testConfig())
			c.m.AddTopic("a", t0)
			c.m.AddTopic("b", t0)
			c.full(t0, 13, topic("a", 1, part(0, 1, 10), part(1, 2, 20)), topic("b", 2, part(0, 1, 5)))
			before := c.m.Snapshot()
			changed := c.m.UpdateLeaders(tt.hints, tt.nodes)
			s := c.m.Snapshot()
			if tt.want == nil {
				assert.Empty(t, changed)
				assert.Same(t, before, s)
				return
			}
			assert.NotEmpty(t, changed)
			assert.Equal(t, tt.want, leaders(s, "a"))
			assert.Same(t, before.Topic("b"), s.Topic("b"))
			assert.Same(t, s.Topic("a"), s.TopicByID(uuid(1)))
			assert.Equal(t, before.Version()+1, s.Version())
			assert.Equal(t, [][2]int32{{1, 10}, {2, 20}}, leaders(before, "a"), "the old snapshot")
			for _, n := range tt.nodes {
				got, _ := s.Node(n.ID)
				assert.Equal(t, n, got)
			}
			// An answer that has not heard of it does not undo it (MD-06).
			c.full(t0.Add(time.Second), 13, topic("a", 1, part(0, 1, 10), part(1, 2, 20)), topic("b", 2, part(0, 1, 5)))
			assert.Equal(t, tt.want[0][1], c.m.Snapshot().Topic("a").LeaderEpoch(0))
		})
	}
}

// MD-20, FC-095: a hint's address for a known node wins.
func TestLeaderHintMovesNode(t *testing.T) {
	c := fold(t, 13, topic("a", 1, part(0, 1, 10)))
	moved := protocol.Node{ID: 2, Host: "elsewhere", Port: 1}
	changed := c.m.UpdateLeaders([]LeaderHint{{"a", 0, 2, 11}}, []protocol.Node{moved})
	assert.Equal(t, []protocol.TopicPartition{{Topic: "a", Partition: 0}}, changed)
	n, _ := c.m.Snapshot().Node(2)
	assert.Equal(t, moved, n)
}

// MD-08, MD-09: a newer epoch whose leader cannot be resolved makes an update needed, and an answer that does not
// reach that epoch makes another one needed, until one does or enough agree.
func TestEpochSeenOutOfBand(t *testing.T) {
	c := fold(t, 13, topic("a", 1, part(0, 1, 10)))
	now := t0
	require.Greater(t, c.m.TimeToUpdate(now), time.Minute)
	assert.Empty(t, c.m.UpdateLeaders([]LeaderHint{{"a", 0, 9, 12}}, nil))
	assert.Equal(t, 100*ms, c.m.TimeToUpdate(now))
	for range 2 {
		now = now.Add(10 * time.Second)
		c.full(now, 13, topic("a", 1, part(0, 1, 10)))
		assert.Less(t, c.m.TimeToUpdate(now), time.Minute, "not current")
	}
	now = now.Add(10 * time.Second)
	c.full(now, 13, topic("a", 1, part(0, 2, 12)))
	assert.Greater(t, c.m.TimeToUpdate(now), time.Minute)
	assert.Equal(t, [][2]int32{{2, 12}}, leaders(c.m.Snapshot(), "a"))

	// MD-13: where epochs are not known, hints cannot be compared.
	c = fold(t, 8, topic("a", 0, part(0, 1, 10)))
	assert.Empty(t, c.m.UpdateLeaders([]LeaderHint{{"a", 0, 2, 12}}, nil))
	assert.Equal(t, [][2]int32{{1, -1}}, leaders(c.m.Snapshot(), "a"))
}

// Hints that were under way during a rebootstrap are of no use: their nodes are given up.
func TestLeaderHintsAfterRebootstrap(t *testing.T) {
	c := fold(t, 13, topic("a", 1, part(0, 1, 10)))
	require.True(t, c.m.Rebootstrap(t0, true))
	assert.Empty(t, c.m.UpdateLeaders([]LeaderHint{{"a", 0, 2, 11}}, []protocol.Node{{ID: 2}}))
	assert.Equal(t, []int32{-2, -1, 1, 2, 3}, nodeIDs(c.m.Snapshot()))
	assert.Equal(t, [][2]int32{{-1, 10}}, leaders(c.m.Snapshot(), "a"))
}

// MD-01: an answer after Close is refused.
func TestHandleResponseAfterClose(t *testing.T) {
	c := newClient(t, testConfig())
	c.m.Close()
	c.m.Close()
	c.due(t0)
	assert.ErrorIs(t, c.m.HandleResponse(13, response(), t0), ErrClosed)
	assert.Zero(t, c.m.Snapshot().Version())
}

// MD-21: readers that run beside updates see nodes and leaders of one and the same version.
func TestReadersSeeOneVersion(t *testing.T) {
	c := newClient(t, testConfig())
	c.m.AddTopic("a", t0)
	stop := make(chan struct{})
	var readers sync.WaitGroup
	for range 2 {
		readers.Go(func() {
			for last := 0; ; {
				s := c.m.Snapshot()
				if topic := s.Topic("a"); topic != nil {
					topic.Touch(t0)
					if _, ok := s.Node(topic.Leader(0)); !ok || int32(s.Version()) != topic.LeaderEpoch(0) {
						t.Errorf("version %d: leader %d, epoch %d", s.Version(), topic.Leader(0), topic.LeaderEpoch(0))
						return
					}
				}
				if s.Version() < last {
					t.Errorf("version %d after %d", s.Version(), last)
					return
				}
				last = s.Version()
				select {
				case <-stop:
					return
				default:
				}
			}
		})
	}
	for i := int32(1); i <= 500; i++ {
		c.m.RequestUpdate()
		c.m.NewRequest(t0)
		resp := response(topic("a", 1, part(0, i, i)))
		resp.Brokers = brokers(i)
		require.NoError(t, c.m.HandleResponse(13, resp, t0))
	}
	close(stop)
	readers.Wait()
}

// The calls on the hot path cost no memory.
func TestLookupsDoNotAllocate(t *testing.T) {
	c := fold(t, 13, topic("a", 1, part(0, 1, 10)))
	now := t0
	assert.Zero(t, testing.AllocsPerRun(100, func() {
		topic := c.m.Snapshot().Topic("a")
		topic.Touch(now)
		_ = topic.Leader(0) + topic.LeaderEpoch(0) + int32(len(topic.Available()))
		_, _ = c.m.Snapshot().Node(1)
		_ = c.m.TimeToUpdate(now)
	}))
}
