package testbroker

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/kafka-reservoir/producer/protocol"
)

func faulty(t *testing.T, verdicts ...Verdict) *core {
	return newCore(t, Config{Nodes: 2, Topics: []Topic{{Name: "t", Partitions: 2, Leaders: []int32{1, 1}}}, Fault: Script(protocol.KeyProduce, verdicts...)})
}

func one(value string) *protocol.ProduceRequest { return produce(-1, "t", 0, plain(value)) }

func (c *core) answers(actions []Action) (offsets []int64) {
	c.t.Helper()
	for _, a := range actions {
		r, _ := c.decode(a)
		offsets = append(offsets, r.(*protocol.ProduceResponse).Topics[0].Partitions[0].BaseOffset)
	}
	return offsets
}

func TestFaultAnswerWithAndWithoutAppend(t *testing.T) {
	c := faulty(t,
		Answer(protocol.NotEnoughReplicas),
		AnswerAfterAppend(protocol.RequestTimedOut),
		Verdict{Partitions: []PartitionVerdict{
			{Topic: "t", Partition: 1, Code: protocol.KafkaStorageError},
		}})
	assert.Equal(t, protocol.NotEnoughReplicas, c.produce("t", 0, plain("a")).ErrorCode)
	assert.Empty(t, c.values("t", 0))
	assert.Equal(t, protocol.RequestTimedOut, c.produce("t", 0, plain("b")).ErrorCode)
	assert.Equal(t, []string{"b"}, c.values("t", 0))

	r := c.do(produce(-1, "t", 0, plain("c"), plain("d")), 12).(*protocol.ProduceResponse)
	assert.Equal(t, protocol.None, r.Topics[0].Partitions[0].ErrorCode)
	assert.Equal(t, protocol.KafkaStorageError, r.Topics[0].Partitions[1].ErrorCode)
	assert.Equal(t, []string{"b", "c"}, c.values("t", 0))
	assert.Empty(t, c.values("t", 1))

	e := c.Requests()
	assert.Equal(t, []Result{{Code: protocol.None, BaseOffset: 0, Appended: true, Answer: protocol.RequestTimedOut}}, e[1].Results)
	assert.Equal(t, "answer REQUEST_TIMED_OUT after append", e[1].Text)
}

// Held answers keep the order of the connection and leave others alone; the request is carried out at once.
func TestFaultHold(t *testing.T) {
	c := faulty(t, Hold(100*time.Millisecond))
	assert.Empty(t, c.send(one("a"), 9))
	assert.Equal(t, []string{"a"}, c.values("t", 0))
	assert.Empty(t, c.send(one("b"), 9), "behind the held one")
	assert.Equal(t, []string{"a", "b"}, c.values("t", 0))
	c.conn = 2
	assert.Equal(t, []int64{2}, c.answers(c.send(one("c"), 9)))
	assert.Equal(t, 2, c.Stats().MaxInFlight)

	at, ok := c.NextTick()
	require.True(t, ok)
	assert.Equal(t, epoch.Add(100*time.Millisecond), at)
	assert.Empty(t, c.after(99*time.Millisecond))
	assert.Equal(t, []int64{0, 1}, c.answers(c.after(time.Millisecond)))
	_, ok = c.NextTick()
	assert.False(t, ok)
	e := c.Requests()[0]
	assert.Equal(t, epoch, e.Done)
	assert.Equal(t, c.now, e.Answered)
}

// A request that comes exactly when a held answer is due must not be answered before it.
func TestFaultHoldAndHandleAtTheSameTime(t *testing.T) {
	c := faulty(t, Hold(time.Second))
	c.send(one("a"), 9)
	c.now = c.now.Add(time.Second)
	assert.Equal(t, []int64{0, 1}, c.answers(c.send(one("b"), 9)))
}

// A delayed request waits with all behind it, and is done even if the client has gone.
func TestFaultDelay(t *testing.T) {
	c := faulty(t, Verdict{Delay: time.Second})
	assert.Empty(t, c.send(one("a"), 9))
	assert.Empty(t, c.send(one("b"), 9))
	c.conn = 2
	assert.Equal(t, []int64{0}, c.answers(c.send(one("c"), 9)))
	c.Closed(1, c.now)
	assert.Empty(t, c.after(999*time.Millisecond))
	assert.Equal(t, []string{"c"}, c.values("t", 0))
	assert.Empty(t, c.after(time.Millisecond), "nobody is there to be answered")
	assert.Equal(t, []string{"c", "a", "b"}, c.values("t", 0))
	assert.Len(t, c.conns, 1, "the connection is forgotten")
}

func TestFaultMute(t *testing.T) {
	c := faulty(t, MuteBefore(), Verdict{})
	assert.Empty(t, c.send(one("a"), 9))
	assert.Empty(t, c.send(one("b"), 9), "nor anything behind it")
	assert.Equal(t, []string{"b"}, c.values("t", 0))
	c.Closed(1, c.now)
	c.conn = 2
	assert.Equal(t, []int64{1}, c.answers(c.send(one("c"), 9)))
}

func TestFaultDrop(t *testing.T) {
	c := faulty(t, DropBefore(), DropAfter(), Verdict{Drop: DropRST, Hold: time.Second})
	assert.Equal(t, []Action{{Node: 1, Conn: 1, Kind: CloseFIN}}, c.send(one("a"), 9))
	assert.Empty(t, c.values("t", 0))
	assert.Empty(t, c.send(one("lost"), 9), "what was pipelined behind it is lost")
	c.conn = 2
	assert.Equal(t, []Action{{Node: 1, Conn: 2, Kind: CloseFIN}}, c.send(one("b"), 9))
	assert.Equal(t, []string{"b"}, c.values("t", 0))
	c.conn = 3
	assert.Empty(t, c.send(one("c"), 9))
	assert.Equal(t, []Action{{Node: 1, Conn: 3, Kind: CloseRST}}, c.after(time.Second))
	assert.Equal(t, []string{"b", "c"}, c.values("t", 0))
}

func TestFaultCutTrickleRewrite(t *testing.T) {
	c := faulty(t,
		Verdict{Cut: 10},
		Verdict{Trickle: 1, TricklePause: time.Millisecond},
		Verdict{Rewrite: func(b []byte) []byte { b[7]++; return b }},
		Verdict{Edit: func(m protocol.Message) { m.(*protocol.ProduceResponse).Topics[0].Partitions[0].BaseOffset = 77 }},
		Raw([]byte("HTTP/1.1 400 Bad Request")))
	actions := c.send(one("a"), 9)
	require.Len(t, actions, 2)
	assert.Len(t, actions[0].Bytes, 10)
	assert.Equal(t, CloseFIN, actions[1].Kind)

	c.conn = 2
	actions = c.send(one("b"), 9)
	require.Len(t, actions, 1)
	assert.Empty(t, c.send(one("behind"), 9))
	var all []byte
	for len(actions) > 0 {
		for _, a := range actions {
			all = append(all, a.Bytes...)
		}
		actions = c.after(time.Millisecond)
	}
	size := 4 + int(all[3])
	resp, _ := c.decode(Action{Kind: Write, Bytes: all[:size]})
	assert.Equal(t, int64(1), resp.(*protocol.ProduceResponse).Topics[0].Partitions[0].BaseOffset)
	// The one behind it took the third verdict: another correlation id.
	assert.Equal(t, byte(c.corr+1), all[size+7])

	assert.Equal(t, []int64{77}, c.answers(c.send(one("d"), 9)))
	actions = c.send(one("e"), 9)
	assert.Equal(t, "HTTP/1.1 400 Bad Request", string(actions[0].Bytes))
	assert.Len(t, c.values("t", 0), 4)
}

// KIP-219: from v6 the client is told and has to wait, before that the answer waits. Either way the broker does
// not serve the connection.
func TestFaultThrottle(t *testing.T) {
	c := faulty(t, Verdict{Throttle: 600 * time.Millisecond}, Verdict{}, Verdict{Throttle: 600 * time.Millisecond}, Verdict{Throttle: time.Second, ThrottleOnly: true})
	r := c.do(one("a"), 9).(*protocol.ProduceResponse)
	assert.Equal(t, int32(600), r.ThrottleTimeMs)
	assert.Empty(t, c.send(one("b"), 9))
	assert.Empty(t, c.after(599*time.Millisecond))
	assert.Len(t, c.values("t", 0), 1, "not carried out before the time is over")
	assert.Equal(t, []int64{1}, c.answers(c.after(time.Millisecond)))

	assert.Empty(t, c.send(one("c"), 5))
	assert.Equal(t, []int64{2}, c.answers(c.after(600*time.Millisecond)))

	assert.Equal(t, int32(1000), c.do(one("d"), 9).(*protocol.ProduceResponse).ThrottleTimeMs)
	assert.Equal(t, int32(0), c.do(one("e"), 9).(*protocol.ProduceResponse).ThrottleTimeMs, "served on")
}

func TestFaultAfterMovesLeader(t *testing.T) {
	var c *core
	c = newCore(t, Config{Nodes: 2, Topics: []Topic{{Name: "t", Leaders: []int32{1}}}, Fault: func(r *Request) Verdict {
		return Verdict{Code: protocol.NotLeaderOrFollower, After: func() { require.NoError(t, c.MoveLeader("t", 0, 2)) }}
	}})
	assert.Equal(t, protocol.NotLeaderOrFollower, c.produce("t", 0, plain("a")).ErrorCode)
	node, _ := c.Leader("t", 0)
	assert.Equal(t, int32(2), node)
}

func TestFaultSeesTheRequest(t *testing.T) {
	var got Request
	c := newCore(t, Config{Topics: []Topic{{Name: "t"}}, Fault: func(r *Request) Verdict {
		got = *r
		got.Batches = append([]Batch(nil), r.Batches...)
		assert.NotNil(t, r.Body)
		assert.NotEmpty(t, r.Batches[0].Raw)
		return Verdict{}
	}})
	batch := idempotent(4, 2, 0, "a", "b")
	c.send(produce(-1, "t", 0, batch), 11)
	b := got.Batches[0]
	assert.Equal(t, []any{int32(1), ConnID(1), protocol.KeyProduce, int16(11), int32(1), "test", int16(-1)},
		[]any{got.Node, got.Conn, got.API, got.Version, got.CorrelationID, got.ClientID, got.Acks})
	assert.Equal(t, []any{"t", int32(0), int32(2), int64(4), int16(2), int32(0), len(batch)},
		[]any{b.Topic, b.Partition, b.Count, b.ProducerID, b.ProducerEpoch, b.BaseSequence, b.Size})
	e := c.Requests()
	require.Len(t, e, 1)
	assert.Nil(t, e[0].Request.Body)
	assert.Nil(t, e[0].Request.Batches[0].Raw)
	assert.Contains(t, e[0].String(), `Produce v11 corr 1 client "test" acks -1 [t-0 2 records`)
	assert.Contains(t, e[0].String(), "-> at offset 0")
}

func TestFaultStallAndOpen(t *testing.T) {
	c := newCore(t, Config{Fault: func(*Request) Verdict { return Verdict{Stall: true, Mute: true} },
		FaultOpen: func(_ int32, conn ConnID) ConnVerdict {
			return []ConnVerdict{{}, {Drop: DropFIN}, {Drop: DropRST}, {Stall: true}}[conn%4]
		}})
	assert.Equal(t, []Action{{Node: 1, Conn: 1, Kind: CloseFIN}}, c.Open(1, 1, c.now))
	assert.Equal(t, []Action{{Node: 1, Conn: 2, Kind: CloseRST}}, c.Open(1, 2, c.now))
	assert.Equal(t, []Action{{Node: 1, Conn: 3, Kind: Stall}}, c.Open(1, 3, c.now))
	assert.Empty(t, c.Open(1, 4, c.now))
	c.conn = 4
	assert.Equal(t, []Action{{Node: 1, Conn: 4, Kind: Stall}}, c.send(&protocol.MetadataRequest{}, 9))
}

func TestNodeDownClosesConnections(t *testing.T) {
	c := faulty(t, Verdict{Delay: time.Second})
	c.send(one("a"), 9)
	c.conn, c.node = 2, 2
	c.metadata()
	require.NoError(t, c.NodeDown(1))
	assert.Equal(t, []Action{{Node: 1, Conn: 1, Kind: CloseFIN}}, c.Tick(c.now))
	c.after(2 * time.Second)
	assert.Empty(t, c.values("t", 0), "what was not begun is lost")
	assert.Equal(t, []Action{{Node: 1, Conn: 5, Kind: CloseFIN}}, c.Open(1, 5, c.now), "nobody is there")
}

func TestJournalIsBounded(t *testing.T) {
	c := newCore(t, Config{JournalLimit: 5})
	for range 20 {
		c.metadata()
	}
	j := c.Journal(0)
	require.Len(t, j, 5)
	assert.Equal(t, j[0].Number+4, j[4].Number)
	assert.Len(t, c.Journal(j[3].Number), 2)
	assert.Empty(t, c.Journal(j[4].Number+1))

	none := newCore(t, Config{JournalLimit: -1})
	none.metadata()
	assert.Empty(t, none.Journal(0))
	assert.Equal(t, int64(1), none.Stats().Requests)
}
