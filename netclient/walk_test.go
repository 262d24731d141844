package netclient

import (
	"errors"
	"maps"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/kafka-reservoir/producer/protocol"
)

// S-102, EXT-07: whatever the network, the brokers and the caller do, in any order: each request is answered once
// and released once, those of a connection in the order of sending, the counts are right, and no call breaks the selector's contract
// (the fake selector checks that).
func TestRandomWalk(t *testing.T) {
	count := map[string]int{}
	for seed := range uint64(120) {
		w := newWalk(t, seed)
		for range 400 {
			w.step()
		}
		w.end()
		for _, s := range w.all {
			switch {
			case s.resp.Err == nil:
				count["answered"]++
			case errors.Is(s.resp.Err, ErrRequestTimeout):
				count["timed out"]++
			case s.resp.Written:
				count["lost, written"]++
			default:
				count["lost"]++
			}
		}
	}
	for _, kind := range []string{"answered", "timed out", "lost, written", "lost"} {
		require.Greater(t, count[kind], 100, "%v: the walk has become too tame", count)
	}
}

type walk struct {
	*rig
	seed  uint64
	rnd   *rand.Rand
	all   []*sentRequest
	ended int
	dials int32 // connections so far, to tell them apart
	conn  map[int32]int32
}

// sentRequest is one request with what became of it.
type sentRequest struct {
	outcome
	conn   int32 // which connection
	oneWay bool
	ended  int // as which one, over all
}

func newWalk(t *testing.T, seed uint64) *walk {
	rnd := rand.New(rand.NewPCG(seed, 1))
	w := &walk{rig: newRig(t, Config{Rand: rnd.IntN, RequestTimeout: time.Second, ConnectionsMaxIdle: 3 * time.Second}, 1, 2, 3), seed: seed, rnd: rnd, conn: map[int32]int32{}}
	w.md.boot = []protocol.Node{{ID: -1, Host: "boot", Port: 1}}
	w.sel.slowClose = seed%2 == 0
	w.sel.onConnect = func(n protocol.Node, _ time.Duration) { w.dials++; w.conn[n.ID] = w.dials }
	return w
}

func (w *walk) id() int32 { return 1 + w.rnd.Int32N(4) }

func (w *walk) soon() time.Duration { return time.Duration(w.rnd.IntN(300)) * ms }

// someConn is a connection, or attempt, that has not been ended yet, or nil.
func (w *walk) someConn() *fakeConn {
	ids := slices.Sorted(maps.Keys(w.sel.conns))
	if len(ids) == 0 {
		return nil
	}
	return w.sel.conns[ids[w.rnd.IntN(len(ids))]]
}

func (w *walk) step() {
	c := w.someConn()
	kind := w.rnd.IntN(16)
	if kind >= 5 && kind <= 8 && w.rnd.IntN(4) > 0 {
		kind = 2 + kind%3 // what ends connections shall be rare beside what uses them
	}
	switch kind {
	case 0, 1:
		w.Ready(w.node(w.id()), w.now)
	case 2, 3, 4:
		if id := w.id(); w.CanSend(id, w.now) {
			w.request(id)
		}
	case 5:
		w.Disconnect(w.id(), errReset, w.now)
	case 6:
		w.Throttle(w.id(), w.soon(), w.now)
	case 7:
		w.md.dueAt = w.now.Add(w.soon())
	case 8:
		w.md.nodes = nodes(slices.Collect(maps.Keys(map[int32]bool{w.id(): true, w.id(): true, w.id(): true}))...)
		slices.SortFunc(w.md.nodes, func(a, b protocol.Node) int { return int(a.ID - b.ID) })
		if w.rnd.IntN(4) == 0 {
			w.md.nodes[0].Host = "elsewhere"
		}
		w.md.boot = []protocol.Node{{ID: -1, Host: "boot", Port: 1}}
		w.md.trigger = w.rnd.IntN(8) == 0
	case 9, 10:
		if c != nil && !c.up && !c.closed {
			w.sel.up(0, c.node.ID, apis())
		}
	case 11, 12:
		if c != nil && c.up && !c.closed && len(c.frames)+len(c.sent) > 0 {
			w.reply(c)
		}
	case 13:
		if c != nil && c.up && !c.closed && w.rnd.IntN(4) == 0 {
			w.sel.receive(0, c.node.ID, []byte{0, 0, byte(w.rnd.Int()), 1, 0})
		}
	case 14:
		if c != nil && (!c.closed || c.byClient && w.sel.slowClose && !w.ending(c)) && w.rnd.IntN(2) == 0 {
			w.sel.gone(0, c.node.ID, errReset)
		}
	default:
		w.Wakeup()
	}
	if w.rnd.IntN(2) == 0 {
		w.poll(w.soon() / time.Duration(1+w.rnd.IntN(20)))
		w.check()
	}
}

// ending reports whether the connection's end is in the queue.
func (w *walk) ending(c *fakeConn) bool {
	return slices.ContainsFunc(w.sel.queue, func(e fakeEvent) bool { return e.Kind == Disconnected && e.Node == c.node.ID })
}

func (w *walk) request(id int32) {
	s := &sentRequest{conn: w.conn[id], oneWay: w.rnd.IntN(5) == 0}
	goesOn := w.rnd.IntN(8) == 0
	s.then = func(resp *Response) {
		w.ended++
		s.ended = w.ended
		if goesOn {
			w.Ready(w.node(id), resp.Now)
			if w.CanSend(id, resp.Now) {
				w.request(id)
			}
		}
	}
	w.all = append(w.all, s)
	w.send(id, &s.outcome, func(r *Request) {
		r.NoResponse = s.oneWay
		if w.rnd.IntN(4) == 0 {
			r.Timeout = 1 + w.soon()
		}
	})
}

// reply lets the oldest frame be written, and perhaps be answered.
func (w *walk) reply(c *fakeConn) {
	if len(c.frames) > 0 {
		frm := w.sel.write(0, c.node.ID)
		if frm.notify {
			c.sent = c.sent[:len(c.sent)-1]
		}
	}
	if len(c.sent) == 0 || w.rnd.IntN(3) == 0 {
		return
	}
	frm := c.sent[0]
	c.sent = c.sent[1:]
	var m protocol.Message = pidAnswer
	if frm.header.Key == protocol.KeyMetadata && w.rnd.IntN(4) > 0 {
		m = metadataAnswer(1, 2, 3)
	}
	w.sel.receive(0, c.node.ID, payload(frm, m))
}

// check compares the counts of the client with what the test knows.
func (w *walk) check() {
	open := 0
	for _, s := range w.all {
		if s.responses == 0 {
			open++
		}
	}
	if w.fetching {
		open++
	}
	require.Equal(w.t, open, w.InFlight(), "seed %d", w.seed)
	sum := 0
	for _, n := range w.nodes {
		sum += n.inFlight.waiting
	}
	require.Equal(w.t, open, sum, "seed %d", w.seed)
}

// end breaks all connections and requires that every request has come to its end.
func (w *walk) end() {
	if w.seed%3 == 0 {
		w.Close()
	} else {
		for round := 0; w.InFlight() > 0 || round < 3; round++ {
			require.Less(w.t, round, 100)
			for _, id := range slices.Sorted(maps.Keys(w.sel.conns)) {
				if c := w.sel.conns[id]; !w.ending(c) {
					w.sel.gone(0, id, errReset)
				}
			}
			w.md.dueAt = time.Time{}
			w.poll(0)
		}
	}
	w.check()
	last := map[int32]int{}
	for _, s := range w.all {
		require.Equal(w.t, 1, s.responses, "seed %d", w.seed)
		require.Equal(w.t, 1, s.released, "seed %d", w.seed)
		if !s.oneWay {
			require.Greater(w.t, s.ended, last[s.conn], "seed %d: order on connection %d", w.seed, s.conn)
			last[s.conn] = s.ended
		}
	}
}
