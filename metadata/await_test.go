package metadata

import (
	"context"
	"errors"
	"fmt"
	"math"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/kafka-reservoir/producer/protocol"
)

// call is one Await on a goroutine of its own.
type call struct {
	topic *Topic
	err   error
	took  time.Duration
	done  chan struct{}
}

func (c client) await(ctx context.Context, topic string, partition int32, maxWait time.Duration) *call {
	r := &call{done: make(chan struct{})}
	start := time.Now()
	go func() {
		r.topic, r.err = c.m.Await(ctx, topic, partition, start, maxWait)
		r.took = time.Since(start)
		close(r.done)
	}()
	synctest.Wait()
	return r
}

func (r *call) waits(t *testing.T) {
	t.Helper()
	synctest.Wait()
	select {
	case <-r.done:
		require.Fail(t, "Await returned", "%v, %v", r.topic, r.err)
	default:
	}
}

// returned waits for goroutines to run, not for time to pass.
func (r *call) returned(t *testing.T) (*Topic, error) {
	t.Helper()
	synctest.Wait()
	select {
	case <-r.done:
	default:
		require.Fail(t, "Await has not returned")
	}
	return r.topic, r.err
}

// S-40: a topic that is known, with the partition in range, is returned without waiting, and counts as used.
func TestAwaitKnownTopic(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newClient(t, testConfig())
		now := time.Now()
		c.m.AddTopic("a", now)
		c.update(now, topic("a", 1, part(0, 1, 0), part(1, -1, 0)))
		for _, partition := range []int32{-1, 0, 1} {
			got, err := c.m.Await(t.Context(), "a", partition, now.Add(time.Second), 0)
			require.NoError(t, err)
			assert.Same(t, c.m.Snapshot().Topic("a"), got)
			assert.Zero(t, got.use.idleFor(now.Add(time.Second)))
		}
		assert.Greater(t, c.m.TimeToUpdate(now), time.Minute)
	})
}

// S-39, S-41, S-45: a new topic is added, the sender is woken, and the wait ends with the answer.
func TestAwaitNewTopic(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var woken atomic.Int32
		cfg := testConfig()
		cfg.Wake = func() { woken.Add(1) }
		c := newClient(t, cfg)
		c.update(time.Now())
		r := c.await(t.Context(), "a", -1, time.Minute)
		r.waits(t)
		assert.EqualValues(t, 1, woken.Load())
		assert.Equal(t, []string{"a"}, c.update(time.Now(), topic("a", 1, part(0, 1, 0))))
		got, err := r.returned(t)
		require.NoError(t, err)
		assert.Same(t, c.m.Snapshot().Topic("a"), got)
		assert.Zero(t, r.took)
	})
}

// MD-22, S-51: answers wake everybody; who has not got what it waits for asks again.
func TestAwaitSeveralWaiters(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newClient(t, testConfig())
		a1 := c.await(t.Context(), "a", -1, time.Minute)
		a2 := c.await(t.Context(), "a", 0, time.Minute)
		b := c.await(t.Context(), "b", -1, time.Minute)
		assert.Equal(t, []string{"a", "b"}, c.update(time.Now(), topic("a", 1, part(0, 1, 0)), failed("b", protocol.LeaderNotAvailable)))
		for _, r := range []*call{a1, a2} {
			_, err := r.returned(t)
			assert.NoError(t, err)
		}
		b.waits(t)
		time.Sleep(100 * ms)
		c.update(time.Now(), topic("a", 1, part(0, 1, 0)), topic("b", 2, part(0, 1, 0)))
		_, err := b.returned(t)
		assert.NoError(t, err)
	})
}

// S-42, MD-25: both texts, the budget in them, and the last error as the cause.
func TestAwaitTimeout(t *testing.T) {
	for _, tt := range []struct {
		name      string
		partition int32
		answers   []protocol.MetadataResponseTopic
		failure   error
		want      string
		causes    []error
	}{
		{"never asked", -1, nil, nil, "topic a not present in metadata after 2s", nil},
		{"unknown", -1, []protocol.MetadataResponseTopic{failed("a", protocol.UnknownTopicOrPartition)}, nil,
			"topic a not present in metadata after 2s: ", []error{protocol.UnknownTopicOrPartition}},
		{"no such partition", 7, []protocol.MetadataResponseTopic{topic("a", 1, part(0, 1, 0), part(1, 1, 0), part(2, 1, 0))}, nil,
			"partition 7 of topic a, which has 3 partitions, not present in metadata after 2s", nil},
		{"no connection", -1, nil, errDown, "topic a not present in metadata after 2s: down", []error{errDown}},
		{"unknown, then no connection", -1, []protocol.MetadataResponseTopic{failed("a", protocol.UnknownTopicOrPartition)}, errDown,
			"; then: down", []error{protocol.UnknownTopicOrPartition, errDown}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				c := newClient(t, testConfig())
				r := c.await(t.Context(), "a", tt.partition, 2*time.Second)
				if tt.answers != nil {
					c.update(time.Now(), tt.answers...)
				}
				if tt.failure != nil {
					c.m.HandleDisconnect(tt.failure)
				}
				time.Sleep(2*time.Second - 1)
				r.waits(t)
				time.Sleep(time.Nanosecond)
				_, err := r.returned(t)
				assert.Equal(t, 2*time.Second, r.took)
				require.ErrorIs(t, err, ErrTimeout)
				assert.ErrorContains(t, err, tt.want)
				for _, cause := range tt.causes {
					assert.ErrorIs(t, err, cause)
				}
				var timeout *TimeoutError
				require.ErrorAs(t, err, &timeout)
				assert.Equal(t, "a", timeout.Topic)
				assert.True(t, timeout.Retriable())
			})
		})
	}
}

// "No broker has answered yet" is said only for as long as that is so: an application that does not wait (MaxBlock 0) meets the error with
// every new topic of a healthy cluster.
func TestAwaitWithoutWaitingSaysWhetherBrokersAnswer(t *testing.T) {
	c := newClient(t, testConfig())
	_, err := c.m.Await(context.Background(), "a", -1, t0, 0)
	require.ErrorContains(t, err, "no broker has answered yet")
	c.update(t0, topic("a", 0, part(0, 1, 40)))
	_, err = c.m.Await(context.Background(), "b", -1, t0, 0)
	require.ErrorIs(t, err, ErrTimeout)
	require.EqualError(t, err, "topic b not present in metadata after 0s: the brokers are asked for it, and have not said yet; wait longer (MaxBlock, max.block.ms), or send again")
}

// MD-25, FC-106: without a budget the answer is immediate, but the question is asked; with the largest one the wait
// is not over at once.
func TestAwaitBudgets(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for _, budget := range []time.Duration{0, -1, math.MinInt64} {
			var woken atomic.Int32
			cfg := testConfig()
			cfg.Wake = func() { woken.Add(1) }
			c := newClient(t, cfg)
			c.update(time.Now())
			_, err := c.m.Await(t.Context(), "a", -1, time.Now(), budget)
			assert.ErrorIs(t, err, ErrTimeout)
			assert.ErrorContains(t, err, "after 0s")
			assert.EqualValues(t, 1, woken.Load())
			assert.Equal(t, []string{"a"}, c.due(time.Now()))
		}
		c := newClient(t, testConfig())
		r := c.await(t.Context(), "a", -1, math.MaxInt64)
		time.Sleep(1000 * time.Hour)
		r.waits(t)
		c.m.Close()
		r.returned(t)
	})
}

// S-44, MD-30: a partition beyond the known ones is waited for: the topic may be growing. Everything in use is
// asked for then, with growing pauses.
func TestAwaitPartitionOutOfRange(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newClient(t, testConfig())
		c.m.AddTopic("a", time.Now())
		two := []protocol.MetadataResponsePartition{part(0, 1, 0), part(1, 1, 0)}
		c.update(time.Now(), topic("a", 1, two...))
		r := c.await(t.Context(), "a", 2, time.Minute)
		for range 3 {
			time.Sleep(c.m.TimeToUpdate(time.Now()))
			assert.Equal(t, []string{"a"}, c.update(time.Now(), topic("a", 1, two...)))
			r.waits(t)
		}
		time.Sleep(c.m.TimeToUpdate(time.Now()))
		c.update(time.Now(), topic("a", 1, append(two, part(2, -1, -1))...))
		got, err := r.returned(t)
		require.NoError(t, err)
		assert.Equal(t, 3, got.Count())
		assert.Equal(t, 100*ms+100*ms+200*ms+200*ms, r.took)
	})
}

// S-43, MD-14, FC-058: a refused topic fails its own waiters, at once and typed; everybody else goes on. The refusal
// is raised for who asked, not for ever: when the broker has changed its mind, so has the client.
func TestAwaitRefusedTopic(t *testing.T) {
	for _, code := range []protocol.ErrorCode{protocol.TopicAuthorizationFailed, protocol.InvalidTopicException} {
		t.Run(code.Name(), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				c := newClient(t, testConfig())
				first := c.await(t.Context(), "a", -1, time.Minute)
				second := c.await(t.Context(), "a", 3, time.Minute)
				good := c.await(t.Context(), "good", -1, time.Minute)
				c.update(time.Now(), failed("a", code), topic("good", 1, part(0, 1, 0)))
				for _, r := range []*call{first, second} {
					_, err := r.returned(t)
					assert.ErrorIs(t, err, code)
					assert.ErrorContains(t, err, "topic a: ")
				}
				_, err := good.returned(t)
				assert.NoError(t, err)

				again := c.await(t.Context(), "a", -1, time.Minute)
				_, err = again.returned(t)
				assert.ErrorIs(t, err, code, "the same answer, for a moment")

				time.Sleep(time.Second)
				later := c.await(t.Context(), "a", -1, time.Minute)
				later.waits(t)
				c.update(time.Now(), topic("a", 2, part(0, 1, 0)), topic("good", 1, part(0, 1, 0)))
				_, err = later.returned(t)
				assert.NoError(t, err)
				_, err = c.m.Await(t.Context(), "a", 0, time.Now(), 0)
				assert.NoError(t, err)
			})
		})
	}
}

// S-43: a refusal is new for each wait that asked for it anew.
func TestAwaitRefusedAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newClient(t, testConfig())
		for range 3 {
			r := c.await(t.Context(), "a", -1, time.Minute)
			r.waits(t)
			c.update(time.Now(), failed("a", protocol.TopicAuthorizationFailed))
			_, err := r.returned(t)
			assert.ErrorIs(t, err, protocol.TopicAuthorizationFailed)
			time.Sleep(time.Second)
		}
	})
}

// MD-23: Close wakes everybody, with a clear error; waits that begin later fail at once.
func TestAwaitClose(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newClient(t, testConfig())
		r := c.await(t.Context(), "a", -1, time.Minute)
		c.m.Close()
		_, err := r.returned(t)
		assert.ErrorIs(t, err, ErrClosed)
		assert.Zero(t, r.took)
		_, err = c.await(t.Context(), "b", -1, time.Minute).returned(t)
		assert.ErrorIs(t, err, ErrClosed)
	})
}

// EXT-05, FC-120: the end of ctx ends the wait, with its error and what kept the topic from being known. The waiter
// leaves nothing behind.
func TestAwaitContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newClient(t, testConfig())
		ctx, cancel := context.WithCancel(t.Context())
		r := c.await(ctx, "a", -1, time.Minute)
		cancel()
		_, err := r.returned(t)
		assert.ErrorIs(t, err, context.Canceled)
		assert.EqualError(t, err, "wait for metadata of topic a: context canceled")

		c.m.HandleDisconnect(errDown)
		ctx, cancel = context.WithTimeout(t.Context(), 50*ms)
		defer cancel()
		r = c.await(ctx, "a", -1, time.Minute)
		time.Sleep(50 * ms)
		_, err = r.returned(t)
		assert.ErrorIs(t, err, context.DeadlineExceeded)
		assert.ErrorIs(t, err, errDown)
		assert.NotErrorIs(t, err, ErrTimeout)
		assert.Equal(t, 50*ms, r.took)
		assert.Zero(t, c.m.waiters)
	})
}

// MD-28: a fatal error meets everybody who waits, immediately and once; if nobody does, the next one. An answer
// clears one that met nobody.
func TestAwaitFatal(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		refused := errors.New("wrong password")
		c := newClient(t, testConfig())
		r1, r2 := c.await(t.Context(), "a", -1, time.Minute), c.await(t.Context(), "b", -1, time.Minute)
		c.m.SetFatal(refused)
		for _, r := range []*call{r1, r2} {
			_, err := r.returned(t)
			assert.Equal(t, refused, err)
		}
		c.await(t.Context(), "a", -1, time.Second).waits(t)
		time.Sleep(time.Second + time.Millisecond) // at the very same instant it might still be there

		c.m.SetFatal(refused)
		_, err := c.await(t.Context(), "a", -1, time.Minute).returned(t)
		assert.Equal(t, refused, err)
		late := c.await(t.Context(), "a", -1, time.Second)
		late.waits(t)
		time.Sleep(time.Second + time.Millisecond) // at the very same instant either may come first
		_, err = late.returned(t)
		assert.ErrorIs(t, err, refused, "as the cause of a timeout")

		c.m.SetFatal(refused)
		c.update(time.Now(), failed("a", protocol.LeaderNotAvailable))
		c.await(t.Context(), "a", -1, time.Second).waits(t)
		time.Sleep(time.Second)
	})
}

// FC-058: names that Kafka cannot have fail on the spot and are not asked for.
func TestAwaitInvalidName(t *testing.T) {
	c := newClient(t, testConfig())
	for _, name := range []string{"", ".", "..", "a b", "a/b", "a*", "tschüß", "a\n", strings.Repeat("x", 250), strings.Repeat("x", 1<<20)} {
		_, err := c.m.Await(t.Context(), name, -1, t0, time.Hour)
		assert.ErrorIs(t, err, protocol.InvalidTopicException, "%.20q", name)
		assert.Less(t, len(err.Error()), 600)
	}
	assert.Empty(t, interested(c.m))
	for _, name := range []string{"a", "...", "A.b_c-9", "__x", strings.Repeat("x", 249)} {
		_, err := c.m.Await(t.Context(), name, -1, t0, 0)
		assert.ErrorIs(t, err, ErrTimeout)
	}
	assert.Len(t, interested(c.m), 5)
}

// MD-31, MD-21: topics that expire, are waited for and are answered at the same time are never lost: every wait
// ends well.
func TestAwaitBesideExpiry(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cfg := testConfig()
		cfg.MaxIdle, cfg.RetryBackoff = 5*ms, ms
		c := newClient(t, cfg)
		stop := make(chan struct{})
		go func() { // the network client
			for {
				select {
				case <-stop:
					return
				case <-time.After(ms):
				}
				if now := time.Now(); c.m.TimeToUpdate(now) == 0 {
					req := c.m.NewRequest(now)
					var topics []protocol.MetadataResponseTopic
					for _, rt := range req.Topics {
						topics = append(topics, topic(*rt.Name, 0, part(0, 1, 0)))
					}
					if err := c.m.HandleResponse(13, response(topics...), now); err != nil {
						t.Error(err)
					}
					c.m.RequestUpdate()
				}
			}
		}()
		errs := make(chan error)
		for g := range 4 {
			go func() {
				for i := range 200 {
					name := fmt.Sprintf("t%d", (g+i)%7)
					got, err := c.m.Await(t.Context(), name, 0, time.Now(), 10*time.Second)
					if err == nil {
						got.Touch(time.Now())
					} else {
						errs <- err
						return
					}
					time.Sleep(time.Duration(i%13) * ms)
				}
				errs <- nil
			}()
		}
		for range 4 {
			assert.NoError(t, <-errs)
		}
		close(stop)
	})
}
