package selectortest

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"time"

	"github.com/kafka-reservoir/producer/netclient"
	"github.com/kafka-reservoir/producer/protocol"
)

var cases = []struct {
	name string
	run  func(d *driver)
}{
	{"RequestAndResponse", requestAndResponse},
	{"ZeroLengthFrames", zeroLengthFrames},
	{"LargeFrames", largeFrames},
	{"ManyConnectionsManyRequests", manyRequests},
	{"TwoResponsesInOnePiece", twoResponses},
	{"EventsAreReportedOnce", reportedOnce},
	{"PayloadsOfOnePollAreDistinct", distinctPayloads},
	{"RefusedConnection", func(d *driver) { failedAttempt(d, Refusing, patience) }},
	{"PeerThatHangsUp", func(d *driver) { failedAttempt(d, HangingUp, patience) }},
	{"PeerThatVanishes", func(d *driver) { failedAttempt(d, Vanishing, 50*time.Millisecond) }},
	{"PeerThatIsMute", func(d *driver) { failedAttempt(d, Mute, 50*time.Millisecond) }},
	{"CloseWhileConnecting", closeWhileConnecting},
	{"PeerClosesAndReconnect", peerCloses},
	{"FramesBeforeAClose", framesBeforeClose},
	{"HangUpWithRequestsUnanswered", hangUpUnanswered},
	{"ConnectAndDisconnectInOnePoll", connectAndDisconnect},
	{"CloseInsideReceive", closeInsideReceive},
	{"CloseTwice", closeTwice},
	{"CloseWhileWriting", closeWhileWriting},
	{"PeerClosesWhileWriting", peerClosesWhileWriting},
	{"SendWithoutConnection", sendWithoutConnection},
	{"SendAfterTheEnd", sendAfterEnd},
	{"SentWakesOnRequest", sentWakes},
	{"WakeupBeforePoll", wakeupBefore},
	{"WakeupDuringPoll", wakeupDuring},
	{"WakeupsAreNeverLost", wakeupsNeverLost},
	{"TimePasses", timePasses},
	{"OtherNodesGoOn", otherNodes},
	{"ShutdownAtAnyStage", shutdownAtAnyStage},
	{"FrameMemoryIsFreeAfterItsEvent", randomised},
}

var whole = []netclient.EventKind{netclient.Connected, netclient.Sent, netclient.Received, netclient.Disconnected}

// S-92, S-93, S-95: connect, send, receive, close.
func requestAndResponse(d *driver) {
	d.up(1, Peer{})
	id := d.send(1, []byte("hello"))
	d.equal("response", d.untilReceived(1, 1)[0], []byte("hello"))
	d.until("sent", func() bool {
		return len(d.ids(1, netclient.Sent)) == 1 || d.link(1).stage == netclient.Disconnected || d.nudge()
	})
	d.equal("sent", d.ids(1, netclient.Sent), []int32{id})
	d.sel.Close(1)
	d.untilDown(1)
	d.equal("number of events", len(d.kinds(1)), len(whole))
}

// nudge makes the next Poll return, for events that wake nobody by themselves.
func (d *driver) nudge() bool { d.sel.Wakeup(); return false }

// SEL-07: frames without payload in both directions.
func zeroLengthFrames(d *driver) {
	d.up(1, Peer{})
	for range 3 {
		d.send(1, nil)
	}
	d.send(1, []byte("x"))
	got := d.untilReceived(1, 4)
	d.equal("lengths", fmt.Sprint(len(got[0]), len(got[1]), len(got[2]), len(got[3])), "0 0 0 1")
}

// SEL-06, S-96, S-97: frames that no buffer takes at once go out and come back whole.
func largeFrames(d *driver) {
	d.up(1, Peer{})
	big := pattern(1, d.w.Big())
	d.send(1, []byte("before"))
	d.send(1, big)
	d.send(1, []byte("after"))
	got := d.untilReceived(1, 3)
	d.equal("first", got[0], []byte("before"))
	d.equal("big", bytes.Equal(got[1], big), true)
	d.equal("last", got[2], []byte("after"))
}

// SEL-05, S-93, S-98: many requests on many connections, answered in order, none lost.
func manyRequests(d *driver) {
	const nodes, rounds, burst = 4, 30, 5
	for n := range int32(nodes) {
		d.up(n, Peer{})
	}
	rng := rand.New(rand.NewPCG(1, 2))
	var want [nodes][][]byte
	for r := range rounds {
		for n := range int32(nodes) {
			for range burst {
				p := pattern(rng.Uint32(), rng.IntN(700))
				want[n] = append(want[n], p)
				d.send(n, p)
			}
		}
		for n := range int32(nodes) {
			d.untilReceived(n, (r+1)*burst)
		}
	}
	for n := range int32(nodes) {
		for i, p := range want[n] {
			d.equal(fmt.Sprintf("node %d response %d", n, i), d.link(n).received[i], p)
		}
	}
}

// S-97, S-98: frames that come in one piece are two frames, in order.
func twoResponses(d *driver) {
	d.up(1, Peer{Handle: func(_ int, r []byte) Reply {
		return Reply{Responses: [][]byte{append([]byte("1"), r...), append([]byte("2"), r...)}}
	}})
	d.send(1, []byte("a"))
	d.send(1, []byte("b"))
	d.equal("responses", string(bytes.Join(d.untilReceived(1, 4), []byte(" "))), "1a 2a 1b 2b")
}

// SEL-09: what was returned once is not returned again.
func reportedOnce(d *driver) {
	d.up(1, Peer{})
	d.send(1, []byte("x"))
	d.untilReceived(1, 1)
	d.until("sent", func() bool { return len(d.ids(1, netclient.Sent)) == 1 || d.nudge() })
	d.poll(0)
	d.equal("events without news", len(d.poll(0)), 0)
}

// Payloads are valid until the next Poll, so those of one Poll must not share memory.
func distinctPayloads(d *driver) {
	d.up(1, Peer{})
	sent := 0
	for round := range 50 {
		for i := range 5 {
			d.send(1, pattern(uint32(round*5+i), 100))
			sent++
		}
		l := d.link(1)
		for len(l.received) < sent {
			before := len(l.received)
			i := 0
			for _, e := range d.poll(patience) {
				if e.Kind == netclient.Received { // again, after all of the poll was seen
					d.equal("payload", e.Payload, pattern(uint32(before+i), 100))
					i++
				}
			}
		}
	}
}

// SEL-04, SEL-13, NC-04: an attempt that fails gives a Disconnected and nothing else, and may be repeated.
func failedAttempt(d *driver, m Mode, timeout time.Duration) {
	n := d.w.Start(1, Peer{Mode: m})
	for range 2 {
		d.connect(n, timeout)
		d.untilDown(1)
	}
	d.equal("events", d.kinds(1), []netclient.EventKind{netclient.Disconnected, netclient.Disconnected})
}

// NC-26: an attempt can be given up.
func closeWhileConnecting(d *driver) {
	for id, m := range []Mode{Mute, Vanishing} {
		n := d.w.Start(int32(id), Peer{Mode: m})
		d.connect(n, time.Hour)
		d.poll(10 * time.Millisecond)
		d.sel.Close(n.ID)
		d.untilDown(n.ID)
		d.equal("events", d.kinds(n.ID), []netclient.EventKind{netclient.Disconnected})
	}
	n := d.w.Start(5, Peer{Mode: Mute})
	d.connect(n, time.Hour)
	d.sel.Close(n.ID) // at once
	d.untilDown(n.ID)
}

// SEL-01: the peer closes, which is seen without sending anything; a new connection works.
func peerCloses(d *driver) {
	n := d.up(1, Peer{})
	d.w.Stop(1)
	d.untilDown(1)
	d.connect(n, patience)
	d.untilDown(1)
	d.equal("events", d.kinds(1), []netclient.EventKind{netclient.Connected, netclient.Disconnected, netclient.Disconnected})
	d.up(1, Peer{})
	d.send(1, []byte("again"))
	d.untilReceived(1, 1)
}

// SEL-15, SEL-16: what the peer sent before it closed is delivered before the Disconnected.
func framesBeforeClose(d *driver) {
	d.up(1, Peer{Handle: func(int, []byte) Reply {
		return Reply{Responses: [][]byte{[]byte("one"), make([]byte, 10_000), []byte("three")}, HangUp: true}
	}})
	d.send(1, []byte("x"))
	d.untilDown(1)
	d.equal("responses", len(d.link(1).received), 3)
}

// Requests that nobody answers any more are reported all the same, each once.
func hangUpUnanswered(d *driver) {
	d.up(1, Peer{Handle: func(_ int, r []byte) Reply { return Reply{HangUp: string(r) == "4"} }})
	for i := range 10 {
		d.send(1, []byte{byte('0' + i)})
	}
	d.untilDown(1)
	d.equal("frames held", len(d.frames), 0)
}

// SEL-19: a connection that comes and goes between two polls is reported in that order.
func connectAndDisconnect(d *driver) {
	var accepted atomic.Int32
	n := d.w.Start(1, Peer{Handle: func(conn int, _ []byte) Reply { accepted.Store(int32(conn)); return Reply{} }})
	for range 5 {
		d.connect(n, patience)
		d.w.Stop(1) // before, while or after the connection is made
		d.untilDown(1)
		n = d.w.Start(1, Peer{})
	}
	d.reconnect(n)
}

// SEL-22: closing a connection while its response is looked at is reported once.
func closeInsideReceive(d *driver) {
	d.up(1, Peer{})
	for range 5 {
		d.send(1, []byte("x"))
	}
	d.until("received", func() bool { return len(d.link(1).received) > 0 })
	d.sel.Close(1)
	d.untilDown(1)
	d.sel.Close(1)
	d.poll(10 * time.Millisecond)
	d.equal("ends", d.link(1).ends, 1)
}

// Close is idempotent, and of no effect on a node without a connection.
func closeTwice(d *driver) {
	n := d.up(1, Peer{})
	d.sel.Close(99)
	d.sel.Close(1)
	d.sel.Close(1)
	d.untilDown(1)
	d.sel.Close(1)
	d.reconnect(n)
	d.send(1, []byte("x"))
	d.untilReceived(1, 1)
}

// EXT-08, KAFKA-19012: the frames of a connection that is stuck in a write come back when it is closed,
// the one that is partly written included.
func closeWhileWriting(d *driver) {
	d.up(1, Peer{})
	ids := d.fill(1)
	d.sel.Close(1)
	d.untilDown(1)
	d.equal("frames reported", append(d.ids(1, netclient.Sent), d.ids(1, netclient.Dropped)...), ids)
	d.equal("last frame dropped", len(d.ids(1, netclient.Dropped)) > 0, true)
}

// fill sends to a stalled peer until nothing goes out any more.
func (d *driver) fill(node int32) (ids []int32) {
	d.w.Stall(node, true)
	for range 5 {
		ids = append(ids, d.send(node, pattern(7, d.w.Big())))
	}
	for sent := -1; sent < len(d.ids(node, netclient.Sent)); {
		sent = len(d.ids(node, netclient.Sent))
		d.poll(20 * time.Millisecond)
	}
	return ids
}

// EXT-08, FC-092: the peer goes away while frames are on their way.
func peerClosesWhileWriting(d *driver) {
	d.up(1, Peer{})
	ids := d.fill(1)
	d.w.Stop(1)
	d.untilDown(1)
	d.equal("frames reported", append(d.ids(1, netclient.Sent), d.ids(1, netclient.Dropped)...), ids)
}

// SEL-03: a frame for a node that has no connection is dropped, with a wake-up.
func sendWithoutConnection(d *driver) {
	id := d.send(42, []byte("x"))
	d.until("dropped", func() bool { return len(d.ids(42, netclient.Dropped)) == 1 })
	d.equal("dropped", d.ids(42, netclient.Dropped), []int32{id})
	d.equal("events", d.kinds(42), []netclient.EventKind{netclient.Dropped})
}

// A frame for a connection that has ended, or is about to, is dropped before the Disconnected.
func sendAfterEnd(d *driver) {
	n := d.up(1, Peer{})
	d.sel.Close(1)
	d.send(1, []byte("closing"))
	d.untilDown(1)
	d.reconnect(n)
	d.w.Stop(1)
	for d.link(1).stage != netclient.Disconnected { // the end may come between any two of these
		d.send(1, []byte("gone"))
		d.poll(time.Millisecond)
	}
	d.equal("frames held", len(d.frames), 0)
}

// A frame that asks for it is reported at once, without a response: acks=0 waits for nothing else.
func sentWakes(d *driver) {
	d.up(1, Peer{Handle: func(int, []byte) Reply { return Reply{} }})
	for i := range 3 {
		d.sendFrame(1, []byte("no answer"), true)
		d.until("sent", func() bool { return len(d.ids(1, netclient.Sent)) == i+1 })
	}
}

// Rule 3: a Wakeup before Poll makes it return at once.
func wakeupBefore(d *driver) {
	d.sel.Wakeup()
	d.poll(-1)
	d.sel.Wakeup()
	d.sel.Wakeup()
	d.poll(-1)
	start := d.now
	d.poll(20 * time.Millisecond) // several wake-ups before a Poll count as one
	if d.now.Sub(start) < 20*time.Millisecond {
		d.t.Fatalf("Poll returned after %v without a reason", d.now.Sub(start))
	}
}

// Rule 3: a Wakeup from another goroutine ends a Poll.
func wakeupDuring(d *driver) {
	for range 100 {
		var wg sync.WaitGroup
		wg.Go(d.sel.Wakeup)
		d.poll(-1)
		wg.Wait()
	}
}

// Rule 3: after a Wakeup there is always a Poll that returns and sees what was done before it. The next piece
// of work comes while the selector is about to sleep again.
func wakeupsNeverLost(d *driver) {
	const rounds, goroutines = 3000, 2
	var wg sync.WaitGroup
	var work, done atomic.Int64
	taken := make(chan struct{}, goroutines)
	for range goroutines {
		wg.Go(func() {
			for range rounds {
				work.Add(1)
				d.sel.Wakeup()
				<-taken
			}
		})
	}
	for done.Load() < rounds*goroutines {
		before := d.now
		d.poll(patience)
		if d.now.Sub(before) >= patience {
			d.t.Fatalf("a Wakeup was lost after %d", done.Load())
		}
		for range work.Swap(0) {
			done.Add(1)
			taken <- struct{}{}
		}
	}
	wg.Wait()
}

// Rule 4: time passes in Poll, and only forward.
func timePasses(d *driver) {
	start := d.now
	d.poll(0)
	d.poll(30 * time.Millisecond)
	if d.now.Sub(start) < 30*time.Millisecond {
		d.t.Fatalf("a Poll of 30ms took %v", d.now.Sub(start))
	}
	d.now = d.now.Add(time.Hour) // the clocks of two goroutines may differ
	d.poll(time.Millisecond)
	d.poll(0)
}

// A node that is stuck, refused or silent does not hold up the others.
func otherNodes(d *driver) {
	d.up(1, Peer{})
	d.up(2, Peer{})
	d.connect(d.w.Start(3, Peer{Mode: Mute}), time.Hour)
	d.connect(d.w.Start(4, Peer{Mode: Refusing}), time.Hour)
	d.fill(1)
	for i := range 20 {
		d.send(2, pattern(uint32(i), 1000))
		d.untilReceived(2, i+1)
	}
	d.untilDown(4)
	big := len(d.link(1).received) + len(d.link(1).sent) + len(d.ids(1, netclient.Sent))
	d.w.Stall(1, false)
	d.untilReceived(1, big)
}

// Rule 5: Shutdown ends connections at every stage; nothing is reported afterwards, and all calls are
// harmless. Frame memory is free when it returns.
func shutdownAtAnyStage(d *driver) {
	d.up(1, Peer{})
	d.up(2, Peer{})
	d.connect(d.w.Start(3, Peer{Mode: Mute}), time.Hour)
	d.connect(d.w.Start(4, Peer{Mode: Vanishing}), time.Hour)
	n := d.w.Start(5, Peer{})
	d.connect(n, time.Hour) // perhaps up, perhaps not
	d.fill(1)
	d.send(2, []byte("x"))
	d.sel.Shutdown()
	d.w.Quiet(d.t)
	for id := range d.frames {
		d.release(id)
	}
	d.sel.Wakeup()
	d.sel.Close(1)
	d.equal("events after Shutdown", len(d.poll(0)), 0)
	d.sel.Shutdown()
}

// EXT-08, KAFKA-19012: whatever happens, a frame's memory is free after its Sent or Dropped, and not
// before: the memory is destroyed then, and no peer may ever see destroyed memory.
func randomised(d *driver) {
	for seed := range uint64(6) {
		d.randomRun(seed)
	}
}

func (d *driver) randomRun(seed uint64) {
	const nodes = 3
	rng := rand.New(rand.NewPCG(seed, 99))
	var bad atomic.Pointer[string]
	peer := func(id int32) Peer {
		hangUpAt := rng.Int64N(40)
		var seen atomic.Int64
		return Peer{Handle: func(conn int, r []byte) Reply {
			if !isPattern(r) {
				s := fmt.Sprintf("node %d connection %d received a frame of %d bytes that nobody sent", id, conn, len(r))
				bad.Store(&s)
			}
			return Reply{Responses: [][]byte{r}, HangUp: seen.Add(1)%41 == hangUpAt}
		}}
	}
	var at [nodes]protocol.Node
	for n := range at {
		at[n] = d.w.Start(int32(n), peer(int32(n)))
	}
	sizes := []int{8, 100, 5000, d.w.Big() / 4}
	for range 150 {
		n := int32(rng.IntN(nodes))
		l := d.link(n)
		switch k := rng.IntN(20); {
		case l.stage == netclient.Disconnected:
			d.connect(at[n], patience)
		case k < 10 && l.stage == netclient.Connected && len(l.sent) < 8:
			d.sendFrame(n, pattern(rng.Uint32(), sizes[rng.IntN(len(sizes))]), rng.IntN(2) == 0)
		case k == 11:
			d.sel.Close(n)
		case k == 12:
			d.w.Stop(n)
			at[n] = d.w.Start(n, peer(n))
		case k == 13:
			d.sel.Wakeup()
		default:
			d.poll(time.Duration(rng.IntN(3)) * time.Millisecond)
		}
	}
	for n := range int32(nodes) {
		d.sel.Close(n)
		d.untilDown(n)
		d.w.Stop(n)
	}
	if s := bad.Load(); s != nil {
		d.t.Fatalf("seed %d: %s", seed, *s)
	}
	d.equal(fmt.Sprintf("seed %d: frames held", seed), len(d.frames), 0)
}

// pattern is a payload that can be told from any other and from destroyed memory.
func pattern(seed uint32, size int) []byte {
	b := make([]byte, 0, size+8)
	for x := seed; len(b) < size; x = x*1664525 + 1013904223 {
		b = binary.BigEndian.AppendUint32(b, x)
	}
	return b[:size]
}

// isPattern reports whether pattern made b.
func isPattern(b []byte) bool {
	return len(b) < 4 || bytes.Equal(b, pattern(binary.BigEndian.Uint32(b), len(b)))
}
