package metadata

import (
	"errors"
	"math"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/kafka-reservoir/producer/protocol"
)

var errDown = errors.New("down")

// S-15, MD-03, FC-064: before any answer the view holds the bootstrap addresses under negative ids, an update
// is due at once, and it asks for no topics at all.
func TestBootstrap(t *testing.T) {
	c := newClient(t, testConfig())
	s := c.m.Snapshot()
	assert.Equal(t, []protocol.Node{{ID: -2, Host: "boot2", Port: 9092}, {ID: -1, Host: "boot1", Port: 9092}}, s.Nodes())
	assert.Equal(t, s.Nodes(), c.m.Nodes())
	assert.Zero(t, s.Version())
	assert.Empty(t, s.ClusterID())
	assert.True(t, c.m.LastUpdate().IsZero())
	assert.Equal(t, []string{}, c.due(t0))
}

// MD-02: never updated: due now. After an update: at its expiry, not before the back-off. On request: after
// the back-off. After expiry: at once.
func TestTimeToUpdate(t *testing.T) {
	cfg := testConfig()
	cfg.MaxAge = 10 * time.Second
	c := newClient(t, cfg)
	assert.Zero(t, c.m.TimeToUpdate(t0))
	c.update(t0)
	assert.Equal(t, 10*time.Second, c.m.TimeToUpdate(t0))
	assert.Equal(t, 4*time.Second, c.m.TimeToUpdate(t0.Add(6*time.Second)))

	c.m.RequestUpdate()
	assert.Equal(t, 100*ms, c.m.TimeToUpdate(t0))
	assert.Equal(t, 1*ms, c.m.TimeToUpdate(t0.Add(99*ms)))
	assert.Zero(t, c.m.TimeToUpdate(t0.Add(100*ms)))
	c.update(t0.Add(100 * ms))
	assert.Equal(t, 10*time.Second, c.m.TimeToUpdate(t0.Add(100*ms)))
	assert.Zero(t, c.m.TimeToUpdate(t0.Add(10*time.Second+100*ms)))
	assert.Equal(t, t0.Add(100*ms), c.m.LastUpdate())
}

// MD-02: an expiry shorter than the back-off waits for the back-off.
func TestBackoffBeatsExpiry(t *testing.T) {
	cfg := testConfig()
	cfg.MaxAge = 10 * ms
	c := newClient(t, cfg)
	c.update(t0)
	assert.Equal(t, 100*ms, c.m.TimeToUpdate(t0))
}

// MD-04, S-54: a failed update is repeated after a pause that doubles up to its bound; requests do not
// shorten it, and the time of the last success stays. A success ends it. Requests take ten seconds each here, see TestYoungTroubleBacksOffLess.
func TestFailuresBackOff(t *testing.T) {
	c := newClient(t, testConfig())
	c.update(t0)
	now := t0.Add(time.Minute)
	for _, want := range []time.Duration{100 * ms, 200 * ms, 400 * ms, 800 * ms, time.Second, time.Second} {
		c.m.RequestUpdate()
		c.due(now)
		now = now.Add(10 * time.Second)
		c.m.HandleFailure(errDown, now)
		c.m.RequestUpdate()
		assert.Equal(t, want, c.m.TimeToUpdate(now))
		assert.Equal(t, t0, c.m.LastUpdate())
		now = now.Add(want)
	}
	c.update(now)
	c.m.RequestUpdate()
	assert.Equal(t, 100*ms, c.m.TimeToUpdate(now))
}

// Recovery, delivery 4: where requests fail at once, or bring nothing new, the pause grows to 200 ms and from there to a tenth of the time that
// this has lasted.
func TestYoungTroubleBacksOffLess(t *testing.T) {
	for name, happens := range map[string]func(c client, now time.Time){
		"failure":     func(c client, now time.Time) { c.due(now); c.m.HandleFailure(errDown, now) },
		"nothing new": func(c client, now time.Time) { c.update(now, topic("a", 1, part(0, 1, 1))) },
	} {
		t.Run(name, func(t *testing.T) {
			c := newClient(t, testConfig())
			c.m.AddTopic("a", t0)
			c.update(t0, topic("a", 1, part(0, 1, 1)))
			now := t0.Add(time.Second)
			began, asked := now, 0
			for now.Sub(began) < 10*time.Second {
				c.m.RequestUpdate()
				happens(c, now)
				c.m.RequestUpdate()
				asked++
				wait := c.m.TimeToUpdate(now)
				require.GreaterOrEqual(t, wait, 100*ms)
				require.LessOrEqual(t, wait, max(200*ms, now.Sub(began)/10))
				now = now.Add(wait)
			}
			assert.InDelta(t, 27, asked, 3)
		})
	}
}

// MD-04, EXP-01: the pause has a jitter of 20 %, and is drawn once: it counts down.
func TestBackoffJitter(t *testing.T) {
	for _, tt := range []struct {
		rand func(int) int
		want time.Duration
	}{
		{func(int) int { return 0 }, 80 * ms},
		{func(n int) int { return n / 2 }, 100 * ms},
		{func(n int) int { return n - 1 }, 120 * ms},
	} {
		cfg := testConfig()
		cfg.Rand = tt.rand
		c := newClient(t, cfg)
		c.due(t0)
		c.m.HandleFailure(errDown, t0)
		assert.Equal(t, tt.want, c.m.TimeToUpdate(t0))
		assert.Equal(t, tt.want-50*ms, c.m.TimeToUpdate(t0.Add(50*ms)))
	}
}

// MD-24, FC-065: answers in a row that bring nothing new are followed by growing pauses; one that does, or a
// request because of age, ends that.
func TestEquivalentAnswersBackOff(t *testing.T) {
	cfg := testConfig()
	cfg.MaxAge = time.Minute
	c := newClient(t, cfg)
	c.m.AddTopic("a", t0)
	now := t0
	ask := func(epoch int32) time.Duration {
		now = now.Add(10 * time.Second) // so long does it take; where it takes less, pauses grow more slowly
		c.update(now, topic("a", 1, part(0, 1, epoch)))
		c.m.RequestUpdate()
		d := c.m.TimeToUpdate(now)
		now = now.Add(d)
		return d
	}
	assert.Equal(t, 100*ms, ask(1), "news")
	for _, want := range []time.Duration{100 * ms, 200 * ms, 400 * ms, 800 * ms, time.Second, time.Second} {
		assert.Equal(t, want, ask(1))
	}
	assert.Equal(t, 100*ms, ask(2), "news again")
	assert.Equal(t, 100*ms, ask(2))
	assert.Equal(t, 200*ms, ask(2))
	now = now.Add(time.Minute)
	assert.Equal(t, 100*ms, ask(2), "asked because of age")
}

// FC-065, FC-060, MD-24: a topic that does not exist is asked for with growing pauses, up to the bound.
func TestMissingTopicBacksOff(t *testing.T) {
	cfg := testConfig()
	cfg.RetryBackoff, cfg.RetryBackoffMax = 20*ms, 200*ms
	c := newClient(t, cfg)
	c.m.AddTopic("missing", t0)
	requests := 0
	for now := t0; now.Before(t0.Add(5 * time.Second)); now = now.Add(c.m.TimeToUpdate(now)) {
		c.update(now, failed("missing", protocol.UnknownTopicOrPartition))
		requests++
	}
	assert.LessOrEqual(t, requests, 30)
	assert.GreaterOrEqual(t, requests, 20)
}

// FC-065: a good answer clears the need; a lost connection costs one request.
func TestGoodAnswerClearsTheNeed(t *testing.T) {
	c := newClient(t, testConfig())
	c.update(t0)
	c.m.HandleDisconnect(errDown)
	now := t0.Add(time.Second)
	c.update(now)
	assert.Equal(t, defaultMaxAge, c.m.TimeToUpdate(now))
}

// MD-26: a new topic makes an update due at once, whatever back-off there is; a known one does not.
func TestNewTopicIsDueAtOnce(t *testing.T) {
	c := newClient(t, testConfig())
	c.due(t0)
	c.m.HandleFailure(errDown, t0)
	require.NotZero(t, c.m.TimeToUpdate(t0))
	c.m.AddTopic("a", t0)
	assert.Equal(t, []string{"a"}, c.update(t0, topic("a", 1, part(0, 1, 0))))
	require.NotZero(t, c.m.TimeToUpdate(t0))
	c.m.AddTopic("a", t0)
	assert.NotZero(t, c.m.TimeToUpdate(t0))
	c.m.AddTopic("b", t0)
	assert.Zero(t, c.m.TimeToUpdate(t0))
}

// S-39, MD-16, FC-064: only topics in use are asked for. A new one is asked for alone; when everything is asked
// for, because somebody found the view wrong or it is old, it is part of that.
func TestPartialAndFullRequests(t *testing.T) {
	cfg := testConfig()
	cfg.MaxAge = time.Minute
	c := newClient(t, cfg)
	a, b, x := topic("a", 1, part(0, 1, 0)), topic("b", 2, part(0, 1, 0)), topic("c", 3, part(0, 1, 0))
	assert.Equal(t, []string{}, c.update(t0))
	c.m.AddTopic("b", t0)
	c.m.AddTopic("a", t0)
	assert.Equal(t, []string{"a", "b"}, c.update(t0, a, b))
	c.m.AddTopic("c", t0)
	assert.Equal(t, []string{"c"}, c.update(t0, x), "partial")
	c.m.RequestUpdate()
	c.m.AddTopic("d", t0)
	assert.Equal(t, []string{"a", "b", "c", "d"}, c.update(t0, a, b, x, topic("d", 4)), "full, since the view is wrong")
	c.m.AddTopic("e", t0)
	assert.Equal(t, []string{"a", "b", "c", "d", "e"}, c.due(t0.Add(time.Minute)), "full, since the view is old")
}

// MD-15, MD-16: a topic that became new while a request was in flight is asked for after it.
func TestNewTopicDuringRequest(t *testing.T) {
	c := newClient(t, testConfig())
	c.update(t0)
	c.m.AddTopic("a", t0)
	assert.Equal(t, []string{"a"}, c.due(t0))
	c.m.AddTopic("b", t0)
	c.answer(t0.Add(ms), topic("a", 1, part(0, 1, 0)))
	now := t0.Add(ms + 100*ms)
	assert.Equal(t, []string{"b"}, c.update(now, topic("b", 2, part(0, 1, 0))))
	assert.Greater(t, c.m.TimeToUpdate(now), time.Minute)
}

// MD-15: an answer does not clear a need that arose after its request was sent: it may be older.
func TestRequestUpdateDuringRequest(t *testing.T) {
	c := newClient(t, testConfig())
	c.due(t0)
	c.m.RequestUpdate()
	c.answer(t0)
	assert.Equal(t, 100*ms, c.m.TimeToUpdate(t0))
}

// MD-29: when an answer covers one of two new topics, the other stays new.
func TestAnswerCoversOneOfTwoNewTopics(t *testing.T) {
	c := newClient(t, testConfig())
	c.update(t0)
	c.m.AddTopic("a", t0)
	c.m.AddTopic("b", t0)
	assert.Equal(t, []string{"a", "b"}, c.update(t0, topic("a", 1, part(0, 1, 0))))
	assert.Equal(t, []string{"b"}, c.due(t0.Add(100*ms)))
}

// MD-30: the need for a full update is not cleared by the answer to a request for new topics. (Such a request
// is in flight when the need arises.)
func TestPartialAnswerKeepsFullNeed(t *testing.T) {
	c := newClient(t, testConfig())
	c.m.AddTopic("a", t0)
	c.update(t0, topic("a", 1, part(0, 1, 0)))
	c.m.AddTopic("b", t0)
	require.Equal(t, []string{"b"}, c.due(t0))
	c.m.RequestUpdate()
	c.answer(t0, topic("b", 2, part(0, 1, 0)))
	assert.Equal(t, []string{"a", "b"}, c.due(t0.Add(100*ms)))
}

// A need is not lost with the request that was to serve it.
func TestFailureKeepsFullNeed(t *testing.T) {
	c := newClient(t, testConfig())
	c.m.AddTopic("a", t0)
	c.update(t0, topic("a", 1, part(0, 1, 0)))
	c.m.RequestUpdate()
	now := t0.Add(time.Second)
	c.due(now)
	c.m.HandleFailure(errDown, now)
	assert.Equal(t, 100*ms, c.m.TimeToUpdate(now))
	assert.Equal(t, []string{"a"}, c.due(now.Add(100*ms)))
}

// S-47: auto-creation is allowed unless the configuration says otherwise.
func TestAutoCreation(t *testing.T) {
	assert.True(t, newClient(t, testConfig()).m.NewRequest(t0).AllowAutoTopicCreation)
	cfg := testConfig()
	cfg.NoAutoCreate = true
	assert.False(t, newClient(t, cfg).m.NewRequest(t0).AllowAutoTopicCreation)
}

// S-40, S-52, MD-27: a topic is dropped at the first update after it was idle for long enough, a use in between
// keeps it, a new one is kept until it was answered, and one with buffered records for as long as there are any (FC-066).
func TestIdleTopicsExpire(t *testing.T) {
	cfg := testConfig()
	cfg.MaxIdle = time.Minute
	buffered := map[string]bool{"buffered": true}
	cfg.InUse = func(topic string) bool { return buffered[topic] }
	c := newClient(t, cfg)
	known := []protocol.MetadataResponseTopic{
		topic("idle", 1, part(0, 1, 0)), topic("used", 2, part(0, 1, 0)), topic("buffered", 3, part(0, 1, 0)),
	}
	for _, name := range []string{"idle", "used", "buffered"} {
		c.m.AddTopic(name, t0)
	}
	c.update(t0, known...)
	now := t0
	for range 2 {
		now = now.Add(30 * time.Second)
		c.m.Snapshot().Topic("used").Touch(now)
	}
	c.m.AddTopic("new", t0)
	c.m.RequestUpdate()
	assert.NotNil(t, c.m.Snapshot().Topic("idle"), "until an update")
	assert.Equal(t, []string{"buffered", "new", "used"}, c.update(now, known...))
	assert.Nil(t, c.m.Snapshot().Topic("idle"))
	assert.Nil(t, c.m.Snapshot().TopicByID(uuid(1)))
	assert.Equal(t, [][2]int32{{1, 0}}, leaders(c.m.Snapshot(), "used"))

	now = now.Add(10 * time.Minute)
	buffered["buffered"] = false
	assert.Equal(t, []string{"new"}, c.due(now), "new: never answered, never dropped")
	c.answer(now)
	assert.Nil(t, c.m.Snapshot().Topic("buffered"), "touched when it was last found in use")
	assert.Equal(t, []string{"new"}, interested(c.m))

	c.m.AddTopic("idle", now)
	assert.Equal(t, []string{"idle", "new"}, c.due(now), "back with the next send")
}

// MD-31: a topic that is used again between its expiry and the next answer is not lost, and is not asked for as
// if it were new.
func TestExpiredTopicComesBack(t *testing.T) {
	cfg := testConfig()
	cfg.MaxIdle = time.Minute
	c := newClient(t, cfg)
	c.m.AddTopic("a", t0)
	c.update(t0, topic("a", 1, part(0, 1, 7)))
	now := t0.Add(2 * time.Minute)
	c.m.RequestUpdate()
	assert.Equal(t, []string{}, c.due(now))
	c.m.AddTopic("a", now)
	c.answer(now)
	assert.Equal(t, [][2]int32{{1, 7}}, leaders(c.m.Snapshot(), "a"))
	assert.Greater(t, c.m.TimeToUpdate(now), time.Minute)

	c.m.RequestUpdate()
	now = now.Add(time.Second)
	assert.Equal(t, []string{"a"}, c.update(now, topic("a", 1, part(0, 2, 6))))
	assert.Equal(t, [][2]int32{{1, 7}}, leaders(c.m.Snapshot(), "a"), "epochs are remembered")
}

// FC-066: one topic is quiet while another is used and refreshed; the quiet one can be used again at once,
// any number of times.
func TestQuietTopicIsUsableAgain(t *testing.T) {
	cfg := testConfig()
	cfg.MaxIdle, cfg.MaxAge = 200*ms, 150*ms
	c := newClient(t, cfg)
	a, b := topic("a", 1, part(0, 1, 0)), topic("b", 2, part(0, 2, 0))
	now := t0
	for range 1000 {
		c.m.AddTopic("a", now)
		c.m.AddTopic("b", now)
		c.update(now, a, b)
		for range 4 {
			now = now.Add(150 * ms)
			c.m.Snapshot().Topic("a").Touch(now)
			c.update(now, a)
		}
		require.Nil(t, c.m.Snapshot().Topic("b"))
		require.NotNil(t, c.m.Snapshot().Topic("a"))
		c.m.AddTopic("b", now)
		require.Equal(t, []string{"b"}, c.update(now, b))
		require.NotNil(t, c.m.Snapshot().Topic("b"))
		now = now.Add(150 * ms)
	}
}

// NC-29, FC-096: when an update has been due for the trigger's time, the bootstrap addresses are back, once,
// and the clock starts again. Topics stay, without leaders.
func TestRebootstrapByTrigger(t *testing.T) {
	cfg := testConfig()
	cfg.RebootstrapTrigger = time.Minute
	c := newClient(t, cfg)
	c.m.AddTopic("a", t0)
	c.update(t0, topic("a", 1, part(0, 1, 5), part(1, 2, 5)))
	c.m.RequestUpdate()
	now := t0.Add(time.Hour)
	c.m.AddTopic("a", now)
	assert.False(t, c.m.Rebootstrap(now, false), "the clock starts now")
	c.due(now)
	c.m.HandleFailure(errDown, now)
	now = now.Add(time.Minute - ms)
	assert.False(t, c.m.Rebootstrap(now, false))
	version := c.m.Snapshot().Version()
	now = now.Add(ms)
	require.True(t, c.m.Rebootstrap(now, false))
	s := c.m.Snapshot()
	assert.Equal(t, []int32{-2, -1, 1, 2, 3}, nodeIDs(s), "those known before may be the only ones left")
	assert.Equal(t, version+1, s.Version())
	assert.Equal(t, [][2]int32{{-1, 5}, {-1, 5}}, leaders(s, "a"))
	assert.Empty(t, s.Topic("a").Available())
	assert.Equal(t, "cluster", s.ClusterID())

	assert.False(t, c.m.Rebootstrap(now.Add(59*time.Second), false), "the clock started again")
	assert.False(t, c.m.Rebootstrap(now.Add(61*time.Second), false), "already there")
	assert.Equal(t, []string{"a"}, c.update(now, topic("a", 1, part(0, 1, 5), part(1, 2, 5))))
	assert.Equal(t, [][2]int32{{1, 5}, {2, 5}}, leaders(c.m.Snapshot(), "a"))
}

// NC-29: an answer stops the clock.
func TestAnswerStopsRebootstrapClock(t *testing.T) {
	cfg := testConfig()
	cfg.RebootstrapTrigger = time.Minute
	c := newClient(t, cfg)
	c.update(t0)
	c.m.RequestUpdate()
	now := t0.Add(time.Second)
	c.m.Rebootstrap(now, false)
	c.update(now)
	assert.False(t, c.m.Rebootstrap(now.Add(time.Hour), false))
	assert.True(t, c.m.Rebootstrap(now.Add(time.Hour), true), "by force at any time")
}

// Rebootstrap: never before the first answer, never when it is switched off, and never because of time
// without a trigger.
func TestRebootstrapRefused(t *testing.T) {
	c := newClient(t, testConfig())
	assert.False(t, c.m.Rebootstrap(t0, true))
	c.update(t0)
	assert.False(t, c.m.Rebootstrap(t0, false))
	assert.False(t, c.m.Rebootstrap(t0.Add(math.MaxInt64), false))

	cfg := testConfig()
	cfg.NoRebootstrap = true
	c = newClient(t, cfg)
	c.update(t0)
	assert.False(t, c.m.Rebootstrap(t0, true))
	assert.Equal(t, []int32{1, 2, 3}, nodeIDs(c.m.Snapshot()))
}

// KIP-1242: the first cluster met, on which a broker's word and the view agree, is the one that records are for. Another one's answer changes nothing, and counts as a failure.
func TestAnotherClusterIsNotBelieved(t *testing.T) {
	c := newClient(t, testConfig())
	c.m.AddTopic("a", t0)
	c.update(t0, topic("a", 0, part(0, 1, 40)))
	require.NoError(t, c.m.ConfirmCluster(""))
	require.NoError(t, c.m.ConfirmCluster(c.m.Snapshot().ClusterID()))
	require.NoError(t, c.m.CheckCluster(""))
	require.NoError(t, c.m.CheckCluster(c.m.Snapshot().ClusterID()))
	require.True(t, c.m.Rebootstrap(t0, true))
	c.due(t0.Add(time.Second))
	resp := response(topic("a", 0, part(0, 7, 2)))
	other := "other"
	resp.ClusterID, resp.Brokers = &other, brokers(7)
	var wrong *WrongClusterError
	require.ErrorAs(t, c.m.HandleResponse(13, resp, t0), &wrong)
	require.Equal(t, "other", wrong.Got)
	require.ErrorContains(t, wrong, "reused")
	require.ErrorAs(t, c.m.CheckCluster("other"), &wrong)
	require.ErrorAs(t, c.m.ConfirmCluster("other"), &wrong)
	require.Equal(t, int32(-1), c.m.Snapshot().Topic("a").Leader(0), "still no leader")
}

// The first answer was damaged on its way and names a cluster that there is not. No broker agrees, so nothing is sent to any; the client goes back
// to the bootstrap servers, also where that is switched off, and settles for the cluster that the next answers agree on. (It was without
// brokers for good.)
func TestDamagedClusterID(t *testing.T) {
	for _, brokersAnswer := range []bool{true, false} {
		for _, noRebootstrap := range []bool{true, false} {
			cfg := testConfig()
			cfg.NoRebootstrap = noRebootstrap
			c := newClient(t, cfg)
			c.m.AddTopic("a", t0)
			c.due(t0)
			right, damaged := *response().ClusterID, "damaged"
			resp := response(topic("a", 0, part(0, 1, 40)))
			resp.ClusterID = &damaged
			require.NoError(t, c.m.HandleResponse(13, resp, t0))
			var wrong *WrongClusterError
			if brokersAnswer {
				require.ErrorAs(t, c.m.ConfirmCluster(right), &wrong, "nothing may be sent on the word of one of the two")
				require.ErrorAs(t, c.m.ConfirmCluster(right), &wrong, "also the second time")
				require.True(t, c.m.Rebootstrap(t0, true))
			} else {
				c.m.RequestUpdate()
			}
			c.update(t0.Add(time.Second), topic("a", 0, part(0, 1, 40)))
			require.NoError(t, c.m.ConfirmCluster(right))
			require.ErrorAs(t, c.m.ConfirmCluster(damaged), &wrong)
			require.ErrorAs(t, c.m.CheckCluster(damaged), &wrong)
			require.Equal(t, !noRebootstrap, c.m.Rebootstrap(t0.Add(2*time.Second), true), "as configured, once it is settled")
		}
	}
}

// Two metadata answers that agree settle it, too: the producer may have been idle so far.
func TestTwoAnswersSettleTheCluster(t *testing.T) {
	c := newClient(t, testConfig())
	c.m.AddTopic("a", t0)
	c.update(t0, topic("a", 0, part(0, 1, 40)))
	require.NoError(t, c.m.CheckCluster("other"))
	c.m.RequestUpdate()
	c.update(t0.Add(time.Second), topic("a", 0, part(0, 1, 40)))
	require.Error(t, c.m.CheckCluster("other"))
}

// FC-096, FC-059: what answers after a rebootstrap is another cluster, and that is not held against it: its epochs count anew.
func TestAnotherClusterCountsAnew(t *testing.T) {
	cfg := testConfig()
	cfg.NoClusterCheck = true
	c := newClient(t, cfg)
	c.m.AddTopic("a", t0)
	c.update(t0, topic("a", 0, part(0, 1, 40)))
	require.True(t, c.m.Rebootstrap(t0, true))
	c.due(t0.Add(time.Second))
	resp := response(topic("a", 0, part(0, 7, 2)))
	other := "other"
	resp.ClusterID, resp.Brokers = &other, brokers(7)
	require.NoError(t, c.m.HandleResponse(13, resp, t0))
	assert.Equal(t, [][2]int32{{7, 2}}, leaders(c.m.Snapshot(), "a"))
	assert.Equal(t, "other", c.m.Snapshot().ClusterID())
}

// FC-105, FC-106: times are compared by the monotonic clock where there is one, and huge limits are no limits.
func TestHugeLimits(t *testing.T) {
	cfg := testConfig()
	cfg.MaxAge, cfg.MaxIdle, cfg.RebootstrapTrigger = math.MaxInt64, math.MaxInt64, math.MaxInt64
	cfg.RetryBackoffMax = math.MaxInt64
	c := newClient(t, cfg)
	now := time.Now()
	c.m.AddTopic("a", now)
	c.update(now, topic("a", 1, part(0, 1, 0)))
	later := now.Add(24 * 365 * time.Hour)
	assert.Greater(t, c.m.TimeToUpdate(later), 24*365*time.Hour)
	c.m.RequestUpdate()
	assert.Equal(t, []string{"a"}, c.update(later, topic("a", 1, part(0, 1, 0))))
	assert.False(t, c.m.Rebootstrap(later.Add(time.Hour), false))
}
