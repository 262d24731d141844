package sender_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/kafka-reservoir/producer/internal/testbroker"
	"github.com/kafka-reservoir/producer/protocol"
	"github.com/kafka-reservoir/producer/sender"
)

// forgetful makes a world whose log forgets the producer behind an acknowledged batch, takes any sequence for the first then, as
// Apache's do, and meets the next two batches, both in flight, with two verdicts. Further verdicts follow.
func forgetful(t *testing.T, verdicts ...testbroker.Verdict) *forgetfulWorld {
	n := map[int]testbroker.Verdict{}
	for i, v := range verdicts {
		n[i+2] = v
	}
	w := &forgetfulWorld{fault: nth(n)}
	cfg := small(testbroker.Config{Nodes: 2, Replicas: 1, Model: testbroker.Legacy,
		Fault: func(r *testbroker.Request) testbroker.Verdict { return w.fault(r) }})
	cfg.Linger = time.Millisecond // linger 0 would make one request of them
	cfg.RequestTimeout = time.Second
	cfg.DeliveryTimeout = 20 * time.Second
	w.world = newWorld(t, cfg)
	w.topic("t", 1, 1)
	w.send("t", 0, "warm")
	w.Settle(time.Second)
	require.NoError(t, w.Cluster.ExpireProducers("t", 0))
	return w
}

type forgetfulWorld struct {
	*world
	fault func(*testbroker.Request) testbroker.Verdict
}

// A leader that forgot the producer took the second of two batches in flight for the first, and the answers of both were lost. That the
// first one is missing says nothing of the second: it goes out again as it is, and not under another epoch, which would double it. The
// first one can no longer stand before it, and fails. (Simulation: both were sent again under the next epoch.)
func TestForgottenBetweenTwoInFlight(t *testing.T) {
	w := forgetful(t, testbroker.Verdict{Skip: true, Rewrite: garbage}, testbroker.Verdict{})
	w.sendN("t", 0, 0, 2)
	w.settle()
	w.sendN("t", 0, 2, 10)
	w.settle()
	require.ErrorIs(t, w.book["t-0-00000"].err, protocol.OutOfOrderSequenceNumber)
	require.ErrorContains(t, w.book["t-0-00000"].err, "may have been written")
	require.Equal(t, append([]string{"warm"}, w.sent[2:]...), w.values("t", 0))
	for _, v := range w.sent[2:] {
		require.NoError(t, w.book[v].err, v)
	}
}

// garbage is no answer.
func garbage([]byte) []byte { return []byte("HTTP/1.1 502 Bad Gateway\r\n\r\n") }

// The same where the first one was refused and the second acknowledged: nothing is in doubt, but the first can no longer be placed.
func TestForgottenAndOvertaken(t *testing.T) {
	w := forgetful(t, testbroker.Verdict{Code: protocol.NotEnoughReplicas}, testbroker.Verdict{})
	w.sendN("t", 0, 0, 2)
	w.settle()
	w.sendN("t", 0, 2, 10)
	w.settle()
	var failed *sender.DeliveryError
	require.ErrorAs(t, w.book["t-0-00000"].err, &failed)
	require.ErrorIs(t, failed, protocol.OutOfOrderSequenceNumber)
	require.False(t, failed.Written)
	require.Equal(t, append([]string{"warm"}, w.sent[2:]...), w.values("t", 0))
	for _, v := range w.sent[2:] {
		require.NoError(t, w.book[v].err, v)
	}
}

// While a batch behind one that the leader does not have is asked for, refusals are followed by a back-off.
func TestForgottenAndRefusedMeanwhile(t *testing.T) {
	w := forgetful(t, testbroker.Verdict{Skip: true, Rewrite: garbage}, testbroker.Verdict{})
	var refused []time.Time
	fault := w.fault
	w.fault = func(r *testbroker.Request) testbroker.Verdict {
		v := fault(r)
		if r.API == protocol.KeyProduce && len(w.produces()) > 3 && r.Batches[0].BaseSequence == 2 && len(refused) < 4 {
			refused = append(refused, r.At)
			return testbroker.Verdict{Code: protocol.NotEnoughReplicas}
		}
		return v
	}
	w.sendN("t", 0, 0, 2)
	w.settle()
	require.Len(t, refused, 4)
	for i := range refused[1:] {
		require.Greater(t, refused[i+1].Sub(refused[i]), 30*time.Millisecond)
	}
	require.Equal(t, []string{"warm", "t-0-00001"}, w.values("t", 0))
}

// A partition that nothing was sent to for a while: the leader may have forgotten the producer (producer.id.expiration.ms), so that
// one batch is in flight until it has acknowledged, as at first.
func TestOneInFlightAfterAPause(t *testing.T) {
	w := forgetful(t, testbroker.Verdict{Code: protocol.NotEnoughReplicas})
	w.Run(10*time.Minute, func() bool { return false })
	require.NotNil(t, w.Topic("t")) // metadata has given it up
	w.sendN("t", 0, 0, 5)
	w.settle()
	require.Equal(t, w.sent, w.values("t", 0))
	for v, e := range w.book {
		require.NoError(t, e.err, v)
	}
}
