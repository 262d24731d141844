package producer_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/kafka-reservoir/producer"
	"github.com/kafka-reservoir/producer/internal/testbroker"
	"github.com/kafka-reservoir/producer/protocol"
)

// How a producer ends: in time, with every record told of, and with nothing left behind.

// over is a ctx that has ended, and why.
func over() (context.Context, error) {
	ctx, cancel := context.WithCancelCause(context.Background())
	why := errors.New("no time left")
	cancel(why)
	return ctx, why
}

// S-91: Close drains: what waits is sent at once, whatever the linger; what is in flight is waited for; a back-off is not
// cut short and not needlessly waited for.
func TestCloseDrains(t *testing.T) {
	inLab(t, testbroker.Config{Nodes: 3, Partitions: 6}, func(t *testing.T, l *lab) {
		p := l.texts(t, func(c *producer.Config) { c.Linger, c.DeliveryTimeout = time.Hour, 2*time.Hour })
		warmUp(t, p, "t")
		told := newLedger()
		for i := range 100 {
			p.SendFunc(t.Context(), producer.Record[string, string]{Topic: "t", Key: fmt.Sprint(i), Value: "v"}, told.callback(i))
		}
		l.Cluster().SetFault(testbroker.Script(protocol.KeyProduce, testbroker.Answer(protocol.NotEnoughReplicas), testbroker.Hold(time.Second), testbroker.DropAfter()))
		began := time.Now()
		end(t, p)
		assert.LessOrEqual(t, time.Since(began), 2*time.Second)
		told.check(t, 100)
		assert.Empty(t, told.failures())
		total := 0
		for _, part := range l.Cluster().AllRecords("t") {
			total += len(part)
		}
		assert.Equal(t, 101, total)
	})
}

// With nothing buffered Close takes no time, whether the cluster was reached, is being reached, or cannot be.
func TestCloseWithNothingToDo(t *testing.T) {
	inLab(t, testbroker.Config{Nodes: 3}, func(t *testing.T, l *lab) {
		fresh := l.texts(t, nil)
		used := l.texts(t, nil)
		warmUp(t, used, "t")
		var hung sync.WaitGroup
		connecting := l.texts(t, func(c *producer.Config) {
			c.Dial = func(ctx context.Context, _, _ string) (net.Conn, error) {
				hung.Add(1)
				defer hung.Done()
				<-ctx.Done()
				return nil, ctx.Err()
			}
		})
		go connecting.Send(context.Background(), text("t", "v"))
		unreachable := l.texts(t, func(c *producer.Config) { c.BootstrapServers = []string{"nobody:1"} })
		go unreachable.Send(context.Background(), text("t", "v"))
		time.Sleep(5 * time.Second)
		for _, p := range []*producer.KafkaProducer[string, string]{fresh, used, connecting, unreachable} {
			began := time.Now()
			require.NoError(t, p.Close(t.Context()))
			assert.LessOrEqual(t, time.Since(began), 50*time.Millisecond, "delivery.md 4")
			whole(t, p)
		}
		nothingRuns(t)
		hung.Wait()
	})
}

// A ctx that has ended already makes Close forced: it returns at once, and by then each record's future is settled and
// its callback has run, once; what was not sent is known not to be written.
func TestCloseWithoutTime(t *testing.T) {
	inLab(t, testbroker.Config{Partitions: 2}, func(t *testing.T, l *lab) {
		p := l.texts(t, func(c *producer.Config) { c.Linger = 10 * time.Second })
		for part := range int32(2) {
			r := text("t", "warm up")
			r.Partition = producer.OnPartition(part)
			_, err := p.Send(t.Context(), r).Wait(t.Context())
			require.NoError(t, err)
		}
		l.Cluster().SetFault(on(protocol.KeyProduce, testbroker.Hold(time.Hour)))
		told := newLedger()
		sent, waiting := text("t", "in flight"), text("t", "lingers")
		sent.Partition, waiting.Partition = producer.OnPartition(0), producer.OnPartition(1)
		p.SendFunc(t.Context(), sent, told.callback(0))
		inFlight := p.Send(t.Context(), sent)
		done := inFlight.Done() // does not linger
		synctest.Wait()
		p.SendFunc(t.Context(), waiting, told.callback(1))
		lingers := p.Send(t.Context(), waiting)

		ctx, why := over()
		began := time.Now()
		assert.ErrorIs(t, p.Close(ctx), why)
		assert.LessOrEqual(t, time.Since(began), 100*time.Millisecond)
		nothingRuns(t)
		told.check(t, 2)
		assert.True(t, returned(done))
		for i, f := range []producer.Future{inFlight, lingers} {
			_, err := f.Wait(t.Context())
			assert.ErrorIs(t, err, producer.ErrForceClosed)
			assert.Equal(t, err, told.errs[i])
			assert.Equal(t, f == inFlight, producer.MayHaveBeenWritten(err), "%v", err)
			assert.True(t, producer.IsFatal(err))
		}
		whole(t, p)
		assert.NoError(t, p.Close(ctx), "it is closed")
		assert.NoError(t, p.Close(t.Context()))
	})
}

// A Close that runs out of time for a slow callback alone does not speak of records that failed: none did.
func TestCloseSaysWhenOnlyACallbackIsLate(t *testing.T) {
	for name, tt := range map[string]struct {
		early     time.Duration // Close's ctx ends so long before the callback returns
		says, not string
	}{
		"a little":                  {10 * time.Millisecond, "all records are settled and told of", "ErrForceClosed"},
		"for long":                  {time.Second, "a callback is still running, and the records behind it are not told of yet; all records are settled", "acknowledged"},
		"no callback, but a record": {0, "1 records that were not acknowledged in time have failed with ErrForceClosed", "callback"},
	} {
		t.Run(name, func(t *testing.T) {
			inLab(t, testbroker.Config{}, func(t *testing.T, l *lab) {
				p := l.texts(t, nil)
				if tt.early == 0 {
					l.Cluster().SetFault(on(protocol.KeyProduce, testbroker.Hold(time.Hour)))
				}
				p.SendFunc(t.Context(), text("t", "v"), func(_ producer.RecordMetadata, err error) {
					if tt.early > 0 {
						assert.NoError(t, err)
						time.Sleep(5 * time.Second)
					}
				})
				synctest.Wait()
				ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second-tt.early)
				defer cancel()
				err := p.Close(ctx)
				assert.ErrorIs(t, err, context.DeadlineExceeded)
				assert.ErrorContains(t, err, tt.says)
				assert.NotContains(t, err.Error(), tt.not)
				time.Sleep(tt.early)
				end(t, p)
			})
		})
	}
}

// KP-33: Closes at once, with and without time: each returns as its own ctx says, and the first that runs out of it
// ends the producer for all.
func TestConcurrentCloses(t *testing.T) {
	inLab(t, testbroker.Config{Fault: on(protocol.KeyProduce, testbroker.Hold(time.Minute))}, func(t *testing.T, l *lab) {
		p := l.texts(t, nil)
		f := p.Send(t.Context(), text("t", "v"))
		done := f.Done()
		began := time.Now()
		var wg sync.WaitGroup
		for i := range 8 {
			wg.Go(func() {
				ctx, cancel := context.WithTimeout(t.Context(), time.Duration(10+i)*time.Second)
				defer cancel()
				err := p.Close(ctx)
				if i == 0 {
					assert.ErrorIs(t, err, context.DeadlineExceeded)
				} else {
					assert.NoError(t, err, "closed before its time was up")
				}
				assert.Equal(t, 10*time.Second, time.Since(began).Truncate(100*time.Millisecond))
			})
		}
		wg.Wait()
		assert.True(t, returned(done))
		_, err := f.Wait(t.Context())
		assert.ErrorIs(t, err, producer.ErrForceClosed)
		nothingRuns(t)
	})
}

// S-62: a Send that comes with the Close is either accepted and delivered, or refused with ErrClosed; none is lost.
func TestSendDuringClose(t *testing.T) {
	inLab(t, testbroker.Config{Partitions: 3, Fault: on(protocol.KeyProduce, testbroker.Hold(time.Millisecond))}, func(t *testing.T, l *lab) {
		for round := range 10 {
			p := l.texts(t, nil)
			topic := fmt.Sprint("t", round)
			warmUp(t, p, topic)
			var told, accepted atomic.Int64
			var wg sync.WaitGroup
			const senders, each = 6, 200
			for s := range senders {
				wg.Go(func() {
					for i := range each {
						p.SendFunc(context.Background(), producer.Record[string, string]{Topic: topic, Key: fmt.Sprint(s, i), Value: "v"}, func(_ producer.RecordMetadata, err error) {
							if told.Add(1); err == nil {
								accepted.Add(1)
							} else {
								assert.ErrorIs(t, err, producer.ErrClosed)
								assert.False(t, producer.MayHaveBeenWritten(err))
							}
						})
						if i%50 == 10*round%50 {
							time.Sleep(time.Millisecond)
						}
					}
				})
			}
			time.Sleep(2 * time.Millisecond)
			end(t, p)
			wg.Wait()
			assert.EqualValues(t, senders*each, told.Load())
			total := 0
			for _, part := range l.Cluster().AllRecords(topic) {
				total += len(part)
			}
			assert.EqualValues(t, total-1, accepted.Load())
		}
	})
}

// KP-59 for memory: Close wakes the Sends that wait for room in the buffer, or for their broker's share of it; they are
// told that the producer is closed, and no record of theirs is sent.
func TestCloseWakesSendsThatWaitForMemory(t *testing.T) {
	for name, memory := range map[string]int64{"for memory": 64 << 10, "for the broker's share": 8 << 20} {
		t.Run(name, func(t *testing.T) {
			inLab(t, testbroker.Config{Nodes: 2, Topics: []testbroker.Topic{{Name: "t", Leaders: []int32{1}}}}, func(t *testing.T, l *lab) {
				p := l.texts(t, func(c *producer.Config) { c.BufferMemory, c.BatchSize = memory, 16<<10 })
				warmUp(t, p, "t")
				l.Cluster().SetFault(on(protocol.KeyProduce, testbroker.Hold(time.Second)))
				var refused, accepted atomic.Int64
				var wg sync.WaitGroup
				value := strings.Repeat("x", 10_000)
				for range 8 {
					wg.Go(func() {
						for i := 0; ; i++ {
							f := p.Send(context.Background(), text("t", value))
							if returned(f.Done()) {
								_, err := f.Wait(t.Context())
								if !assert.ErrorIs(t, err, producer.ErrClosed) {
									return
								}
								refused.Add(1)
								return
							}
							accepted.Add(1)
						}
					})
				}
				synctest.Wait()
				began := time.Now()
				closed := async(func() { assert.NoError(t, p.Close(context.Background())) })
				wg.Wait()
				assert.Zero(t, time.Since(began))
				assert.EqualValues(t, 8, refused.Load())
				<-closed
				end(t, p)
				assert.Len(t, l.Cluster().Records("t", 0), int(accepted.Load())+1)
			})
		})
	}
}

// KP-61: a producer that got no producer id yet closes in time, and its records fail as never written.
func TestForcedCloseWhileProducerIDIsPending(t *testing.T) {
	for name, fault := range map[string]testbroker.Verdict{
		"silent":           testbroker.MuteBefore(),
		"not available":    testbroker.Answer(protocol.CoordinatorLoadInProgress),
		"connection drops": testbroker.DropBefore(),
	} {
		t.Run(name, func(t *testing.T) {
			inLab(t, testbroker.Config{Fault: on(protocol.KeyInitProducerID, fault)}, func(t *testing.T, l *lab) {
				p := l.texts(t, nil)
				f := p.Send(t.Context(), text("t", "v"))
				ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
				defer cancel()
				began := time.Now()
				assert.ErrorIs(t, p.Close(ctx), context.DeadlineExceeded)
				assert.LessOrEqual(t, time.Since(began), 5100*time.Millisecond)
				_, err := f.Wait(t.Context())
				assert.ErrorIs(t, err, producer.ErrForceClosed)
				assert.False(t, producer.MayHaveBeenWritten(err))
				nothingRuns(t)
				whole(t, p)
				assert.Empty(t, requests(l.Cluster(), protocol.KeyProduce))
			})
		})
	}
}

// Close waits for callbacks. One that does not return costs the time that ctx gives, and a moment; what it left to do is
// done when it returns.
func TestCloseWaitsForCallbacks(t *testing.T) {
	inLab(t, testbroker.Config{}, func(t *testing.T, l *lab) {
		p := l.texts(t, nil)
		var told []int
		release := make(chan struct{})
		for i := range 3 {
			p.SendFunc(t.Context(), text("t", "v"), func(_ producer.RecordMetadata, err error) {
				assert.NoError(t, err)
				<-release
				told = append(told, i)
			})
		}
		time.Sleep(time.Second)
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		began := time.Now()
		err := p.Close(ctx)
		assert.ErrorIs(t, err, context.DeadlineExceeded)
		assert.ErrorContains(t, err, "callback")
		assert.LessOrEqual(t, time.Since(began), 1100*time.Millisecond)
		closed := async(func() { assert.NoError(t, p.Close(context.Background())) })
		synctest.Wait()
		assert.False(t, returned(closed))
		close(release)
		<-closed
		assert.Equal(t, []int{0, 1, 2}, told)
		nothingRuns(t)
		whole(t, p)
	})
}

// After Close has returned nothing of the producer happens any more: no callback, no connection, no request, whatever
// was going on.
func TestNothingHappensAfterClose(t *testing.T) {
	for name, fault := range map[string]testbroker.Verdict{
		"in flight":     testbroker.Hold(time.Second),
		"being retried": testbroker.Answer(protocol.NotLeaderOrFollower),
		"reconnecting":  testbroker.DropBefore(),
		"throttled":     {Throttle: 10 * time.Second, Code: protocol.NotEnoughReplicas},
		"slow answer":   {Trickle: 1, TricklePause: 100 * time.Millisecond},
	} {
		t.Run(name, func(t *testing.T) {
			inLab(t, testbroker.Config{Nodes: 3, Partitions: 3, Fault: on(protocol.KeyProduce, fault)}, func(t *testing.T, l *lab) {
				var told, hooks atomic.Int64
				p := l.texts(t, func(c *producer.Config) {
					c.Trace = &producer.Trace{
						ConnectDone: func(int32, string, time.Duration, error) { hooks.Add(1) },
						RequestDone: func(int32, string, int16, int, int, time.Duration, error) { hooks.Add(1) },
					}
				})
				for i := range 30 {
					p.SendFunc(t.Context(), producer.Record[string, string]{Topic: "t", Key: fmt.Sprint(i), Value: "v"}, func(producer.RecordMetadata, error) { told.Add(1) })
				}
				ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
				defer cancel()
				_ = p.Close(ctx)
				assert.EqualValues(t, 30, told.Load())
				nothingRuns(t)
				whole(t, p)
				noted := hooks.Load()
				time.Sleep(time.Second) // what was on its way arrives
				stats := l.Cluster().Stats()
				time.Sleep(time.Hour)
				now := l.Cluster().Stats()
				assert.Equal(t, stats.Connections, now.Connections)
				assert.Equal(t, stats.Requests, now.Requests)
				assert.EqualValues(t, 30, told.Load())
				assert.Equal(t, noted, hooks.Load())
			})
		})
	}
}

// KP-33, S-62, KP-17: Close again does nothing; afterwards every Send fails, and is told so.
func TestCloseTwiceAndSendAfterwards(t *testing.T) {
	inLab(t, testbroker.Config{}, func(t *testing.T, l *lab) {
		p, err := producer.New(producer.Config{BootstrapServers: l.Addrs(), Dial: l.network.Dial}, producer.String(), producer.String())
		require.NoError(t, err)
		_, err = p.Send(t.Context(), text("t", "v")).Wait(t.Context())
		require.NoError(t, err)
		end(t, p)
		end(t, p)
		for _, topic := range []string{"t", "never seen"} {
			_, err = p.Send(t.Context(), producer.Record[string, string]{Topic: topic, Value: "v"}).Wait(t.Context())
			assert.ErrorIs(t, err, producer.ErrClosed)
			assert.True(t, producer.IsFatal(err))
			told := make(chan error, 1)
			p.SendFunc(t.Context(), producer.Record[string, string]{Topic: topic, Value: "v"}, func(_ producer.RecordMetadata, err error) { told <- err })
			assert.ErrorIs(t, <-told, producer.ErrClosed)
		}
		assert.NoError(t, p.Flush(t.Context()), "there is nothing to flush")
		_, err = p.PartitionsFor(t.Context(), "never seen")
		assert.ErrorIs(t, err, producer.ErrClosed)
		assert.Len(t, l.Cluster().Records("t", 0), 1)
	})
}

// Close obeys its ctx: what is left fails with ErrForceClosed, its callback has run, and nothing of the producer's is left.
func TestCloseObeysItsContext(t *testing.T) {
	inLab(t, testbroker.Config{Fault: on(protocol.KeyProduce, testbroker.MuteBefore())}, func(t *testing.T, l *lab) {
		p := l.texts(t, nil)
		var told []error
		for range 3 {
			p.SendFunc(t.Context(), text("t", "v"), func(_ producer.RecordMetadata, err error) { told = append(told, err) })
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		began := time.Now()
		err := p.Close(ctx)
		assert.ErrorIs(t, err, context.DeadlineExceeded)
		assert.Equal(t, time.Second, time.Since(began))
		require.Len(t, told, 3)
		for _, err := range told {
			assert.ErrorIs(t, err, producer.ErrForceClosed)
			assert.True(t, producer.MayHaveBeenWritten(err))
			assert.True(t, producer.IsFatal(err))
		}
		assert.Equal(t, p.Metrics().BufferTotalBytes, p.Metrics().BufferAvailableBytes)
	})
}

// KP-59: a Send that waits for metadata is told when the producer is closed.
func TestCloseWakesWaitingSends(t *testing.T) {
	inLab(t, testbroker.Config{AutoCreate: testbroker.AutoCreateOff}, func(t *testing.T, l *lab) {
		p := l.texts(t, nil)
		failed := make(chan error, 1)
		go func() {
			_, err := p.Send(context.Background(), text("never", "v")).Wait(context.Background())
			failed <- err
		}()
		synctest.Wait()
		began := time.Now()
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		assert.NoError(t, p.Close(ctx))
		assert.ErrorIs(t, <-failed, producer.ErrClosed)
		assert.Zero(t, time.Since(began))
	})
}
