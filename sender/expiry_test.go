package sender_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/kafka-reservoir/producer/internal/sim"
	"github.com/kafka-reservoir/producer/internal/testbroker"
	"github.com/kafka-reservoir/producer/protocol"
	"github.com/kafka-reservoir/producer/sender"
)

// forAPI gives every request of an API the same verdict.
func forAPI(key protocol.APIKey, v testbroker.Verdict) func(*testbroker.Request) testbroker.Verdict {
	return func(r *testbroker.Request) testbroker.Verdict {
		if r.API == key {
			return v
		}
		return testbroker.Verdict{}
	}
}

// An expired record that never went out is told what it waited for. "Send less" would be wrong in all of these.
func TestExpiryOfARecordThatWasNeverSentSaysWhatItWaitedFor(t *testing.T) {
	for name, tt := range map[string]struct {
		fault   testbroker.Verdict // for InitProducerId
		request time.Duration      // RequestTimeout
		dial    sim.DialFault      // for the leader
		says    string
	}{
		"no producer id to be had":       {fault: testbroker.Verdict{Code: protocol.CoordinatorLoadInProgress}, says: "no producer id yet: COORDINATOR_LOAD_IN_PROGRESS"},
		"no answer about the id":         {fault: testbroker.Verdict{Mute: true}, request: time.Minute, says: "no producer id yet: InitProducerId is not answered"},
		"the connection drops each time": {fault: testbroker.Verdict{Drop: testbroker.DropFIN}, says: "no producer id yet: InitProducerId to node "},
		"the first connect hangs":        {dial: sim.DialFault{Hang: true}, says: "node 2 (broker-2:9092) took no request: it is not connected yet"},
	} {
		t.Run(name, func(t *testing.T) {
			cfg := small(testbroker.Config{Nodes: 2, Fault: forAPI(protocol.KeyInitProducerID, tt.fault)})
			cfg.DeliveryTimeout, cfg.RequestTimeout, cfg.SetupTimeout = 500*time.Millisecond, tt.request, time.Minute
			w := newWorld(t, cfg)
			w.topic("t", 1, 2)
			w.Selector.Network.Dial = func(n protocol.Node) sim.DialFault {
				if n.ID == 2 {
					return tt.dial
				}
				return sim.DialFault{}
			}
			w.send("t", 0, "a")
			w.settle()
			err := w.book["a"].err
			require.ErrorIs(t, err, sender.ErrDeliveryTimeout)
			require.ErrorContains(t, err, "never sent")
			require.ErrorContains(t, err, tt.says)
			require.NotContains(t, err.Error(), "send less")
		})
	}
}

// What stands behind a batch that expires in its back-off goes at once: nothing else may come that would wake the sender.
func TestWhatStandsBehindAnExpiredBatchGoes(t *testing.T) {
	refuse := true
	cfg := small(testbroker.Config{Nodes: 1, Fault: func(r *testbroker.Request) testbroker.Verdict {
		if r.API == protocol.KeyProduce && refuse {
			return testbroker.Verdict{Code: protocol.NotEnoughReplicas}
		}
		return testbroker.Verdict{}
	}})
	cfg.DeliveryTimeout, cfg.RetryBackoff, cfg.RetryBackoffMax, cfg.NotIdempotent, cfg.MaxInFlight = 10*time.Second, 9*time.Second, 9*time.Second, true, 1
	w := newWorld(t, cfg)
	w.topic("t", 1)
	began := w.Now()
	w.send("t", 0, "a")
	w.Run(8*time.Second, func() bool { return false })
	w.send("t", 0, "b")
	w.Run(time.Second+900*time.Millisecond, func() bool { return false })
	refuse = false
	w.settle()
	require.ErrorIs(t, w.book["a"].err, sender.ErrDeliveryTimeout)
	require.NoError(t, w.book["b"].err)
	require.Less(t, w.Now().Sub(began), 11*time.Second)
}

// A broker that takes requests and answers none, its connections being made anew without trouble, is named to those that stand behind.
func TestExpiryBehindASilentBrokerNamesIt(t *testing.T) {
	cfg := small(testbroker.Config{Nodes: 1, Fault: forAPI(protocol.KeyProduce, testbroker.Verdict{Mute: true, Skip: true})})
	cfg.MaxInFlight, cfg.NotIdempotent = 1, true
	cfg.DeliveryTimeout = 1700 * time.Millisecond
	w := newWorld(t, cfg)
	w.topic("t", 1)
	w.sendN("t", 0, 0, 3)
	w.settle()
	err := w.book[w.sent[2]].err
	require.ErrorContains(t, err, "never sent")
	require.ErrorContains(t, err, "has answered nothing all the while, and owes 1 answers")
	require.NotContains(t, err.Error(), "send less")
}

// What is slow and answers is a matter of how much is sent.
func TestExpiryBehindASlowBrokerSaysSo(t *testing.T) {
	cfg := small(testbroker.Config{Nodes: 1, Fault: forAPI(protocol.KeyProduce, testbroker.Verdict{Hold: 200 * time.Millisecond})})
	cfg.MaxInFlight, cfg.NotIdempotent = 1, true
	cfg.DeliveryTimeout = time.Second
	w := newWorld(t, cfg)
	w.topic("t", 1)
	w.sendN("t", 0, 0, 20)
	w.settle()
	require.NoError(t, w.book[w.sent[0]].err)
	err := w.book[w.sent[19]].err
	require.ErrorContains(t, err, "never sent")
	require.ErrorContains(t, err, "send less")
}

// What an expired record met last is not all there is to know: its broker may be gone since then.
func TestExpiryAfterAnOutageSaysWhatHasHappenedSince(t *testing.T) {
	for name, nodes := range map[string]int{"the others know that it leads": 2, "nobody is left to ask": 1} {
		t.Run(name, func(t *testing.T) {
			var w *world
			cfg := small(testbroker.Config{Nodes: nodes, Fault: nth(map[int]testbroker.Verdict{2: {Skip: true, Drop: testbroker.DropFIN}})})
			cfg.DeliveryTimeout = time.Second
			w = newWorld(t, cfg)
			w.topic("t", 1, 1)
			w.send("t", 0, "a")
			w.Settle(time.Second)
			w.Selector.Network.Dial = func(n protocol.Node) sim.DialFault { return sim.DialFault{Refuse: n.Host == "broker-1"} }
			w.send("t", 0, "b")
			w.settle()
			err := w.book["b"].err
			require.ErrorContains(t, err, "disconnected before the answer")
			require.ErrorContains(t, err, "; since then: ")
			require.ErrorContains(t, err, "connection refused")
		})
	}
}

// An answer to InitProducerId that no broker gives, with an id or an epoch below zero, is none: nothing could be stamped with it. A later record asks again.
func TestImpossibleProducerIDsAreRefused(t *testing.T) {
	for name, edit := range map[string]func(*protocol.InitProducerIdResponse){
		"id":    func(r *protocol.InitProducerIdResponse) { r.ProducerID = -1 },
		"epoch": func(r *protocol.InitProducerIdResponse) { r.ProducerEpoch = -1 },
	} {
		t.Run(name, func(t *testing.T) {
			fault := forAPI(protocol.KeyInitProducerID, testbroker.Verdict{Edit: func(m protocol.Message) { edit(m.(*protocol.InitProducerIdResponse)) }})
			w := newWorld(t, small(testbroker.Config{Nodes: 1, Fault: fault}))
			w.topic("t", 1)
			w.send("t", 0, "a")
			w.settle()
			require.ErrorIs(t, w.book["a"].err, protocol.UnknownServerError)
			require.ErrorContains(t, w.book["a"].err, "no producer id")
			require.False(t, w.Sender.Sequences().ID().Valid())
			w.Cluster.SetFault(nil)
			w.send("t", 0, "b")
			w.settle()
			require.NoError(t, w.book["b"].err)
			require.Equal(t, []string{"b"}, w.values("t", 0))
		})
	}
}
