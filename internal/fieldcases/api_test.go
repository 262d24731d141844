package fieldcases

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/kafka-reservoir/producer"
	"github.com/kafka-reservoir/producer/internal/testbroker"
	"github.com/kafka-reservoir/producer/partitioner"
	"github.com/kafka-reservoir/producer/protocol"
)

// What programs do: callbacks, contexts, many goroutines, buffers used again.

// FC-117: a callback that blocks holds up other callbacks and nothing else: records are sent once and in time, Flush and Close end
// with their ctx and say why. Once it returns, all others run, in order.
func TestFC117BlockedCallback(t *testing.T) {
	play(t, testbroker.Config{Nodes: 2, Partitions: 4}, func(w *world) {
		p := w.producer(nil)
		w.warm(p, 0, 1, 2, 3)
		release := make(chan struct{})
		told := map[int32][]int{}
		w.sendFrom("", context.Background(), p, to(0, "blocks"), func(producer.RecordMetadata, error) { <-release })
		for i := range 1000 {
			partition := int32(i % 4)
			w.sendFrom("", context.Background(), p, to(partition, "%d", i), func(producer.RecordMetadata, error) {
				told[partition] = append(told[partition], i)
			})
		}
		time.Sleep(time.Second)
		stored := 0
		for partition := range int32(4) {
			stored += len(w.values(partition))
		}
		assert.Equal(t, 4+1+1000, stored)
		time.Sleep(4 * time.Second) // longer than any timeout of the producer's
		assert.Zero(t, p.Metrics().RecordRetry.Total)
		synctest.Wait()
		assert.Empty(t, told[0], "behind the one that blocks")
		ctx, cancel := context.WithTimeout(context.Background(), 300*time.Millisecond)
		defer cancel()
		w.within(300*time.Millisecond, "Flush", func() { assert.ErrorIs(t, p.Flush(ctx), context.DeadlineExceeded) })
		w.within(550*time.Millisecond, "Close", func() {
			err := w.close(p, 500*time.Millisecond)
			assert.ErrorIs(t, err, context.DeadlineExceeded)
			assert.ErrorContains(t, err, "a callback is still running")
		})
		close(release)
		synctest.Wait()
		for partition := range int32(4) {
			assert.Len(t, told[partition], 250)
			assert.True(t, slices.IsSorted(told[partition]), "partition %d", partition)
		}
	})
}

// FC-118: a callback may send, flush and close, after a success and after a failure. Nothing of it hangs: Send fails after MaxBlock
// where there is no memory, and Flush and Close, which wait for callbacks, end with their ctx. All other callbacks run.
func TestFC118CallbacksCallTheProducer(t *testing.T) {
	second := func(f func(context.Context) error) error {
		ctx, cancel := context.WithTimeout(context.Background(), time.Second)
		defer cancel()
		return f(ctx)
	}
	for _, tt := range []struct {
		name   string
		does   func(w *world, p kafka)
		closes bool
	}{
		{"Send", func(w *world, p kafka) { w.send(p, to(0, "from the callback")) }, false},
		{"Send, buffer full", func(w *world, p kafka) {
			w.Cluster().SetFault(testbroker.Script(protocol.KeyProduce, testbroker.Hold(2400*time.Millisecond)))
			for i := range 8 {
				w.within(1200*time.Millisecond, "Send", func() { w.send(p, to(0, "%04000d", i)) })
			}
		}, false},
		{"Flush", func(w *world, p kafka) { assert.ErrorIs(w.t, second(p.Flush), context.DeadlineExceeded) }, false},
		{"Close", func(w *world, p kafka) { assert.ErrorIs(w.t, second(p.Close), context.DeadlineExceeded) }, true},
		{"Close, here and elsewhere", func(w *world, p kafka) {
			go func() { assert.NoError(w.t, p.Close(context.Background())) }()
			assert.ErrorIs(w.t, second(p.Close), context.DeadlineExceeded)
		}, true},
	} {
		for _, fails := range []bool{false, true} {
			t.Run(fmt.Sprint(tt.name, ", after a failure: ", fails), func(t *testing.T) {
				play(t, testbroker.Config{}, func(w *world) {
					p := w.producer(func(c *producer.Config) {
						c.BufferMemory, c.RequestTimeout, c.DeliveryTimeout = 16<<10, 3*time.Second, 10*time.Second
					})
					w.warm(p, 0)
					if fails {
						w.Cluster().SetFault(testbroker.Script(protocol.KeyProduce, testbroker.Answer(protocol.InvalidRecord)))
					}
					behind, returned := make(chan struct{}), make(chan struct{})
					w.sendFrom("", context.Background(), p, to(0, "first"), func(_ producer.RecordMetadata, err error) {
						assert.Equal(t, fails, err != nil)
						<-behind
						tt.does(w, p)
						close(returned)
					})
					time.Sleep(6 * time.Millisecond) // it is sent
					for i := range 3 {
						w.sendFrom("another", context.Background(), p, to(0, "behind %d", i), nil)
					}
					close(behind)
					<-returned
					for _, s := range w.book {
						_, err := s.wait()
						switch {
						case s.from == "another":
							assert.NoError(t, err)
						case err != nil && !fails:
							assert.ErrorIs(t, err, producer.ErrBufferExhausted)
						}
					}
					if tt.closes {
						_, err := w.send(p, to(0, "after")).wait()
						assert.ErrorIs(t, err, producer.ErrClosed)
						require.NoError(t, w.close(p, time.Second))
					}
				})
			})
		}
	}
}

// FC-119: a panic of the program's own code on the way into the buffer passes through to the caller of Send and leaves nothing
// behind. (One in a callback is the ordinary crash: TestPanicInCallbackEndsTheProgram of the root package. So is one of the
// sender itself: nothing in a goroutine of the producer recovers, so that it cannot die silently.)
func TestFC119Panics(t *testing.T) {
	play(t, testbroker.Config{Partitions: 3}, func(w *world) {
		explode := func(where string) producer.SerializerFunc[string] {
			return func(v string) ([]byte, error) {
				if v == where {
					panic(where)
				}
				return []byte(v), nil
			}
		}
		cfg := w.t0(func(c *producer.Config) { c.Partitioner = exploding{}; c.BufferMemory = 64 << 10 })
		p, err := producer.New(cfg, explode("key"), explode("value"), producer.Interceptor[string, string](exploding{}))
		require.NoError(t, err)
		bad := map[int]producer.Record[string, string]{
			100: {Topic: T, Key: "key"}, 200: {Topic: T, Key: "k", Value: "value"},
			300: {Topic: T, Key: "partitioner"}, 400: {Topic: T, Value: "interceptor"},
		}
		var done []<-chan struct{}
		var futures []producer.Future
		for i := range 1000 {
			if r, ok := bad[i]; ok {
				assert.Panics(t, func() { p.Send(context.Background(), r) })
				continue
			}
			s := w.enter("", record{Topic: T, Key: fmt.Append(nil, i%7), Value: fmt.Append(nil, i)})
			f := p.Send(context.Background(), producer.Record[string, string]{Topic: T, Key: fmt.Sprint(i % 7), Value: fmt.Sprint(i)})
			futures, done = append(futures, f), append(done, f.Done())
			go func() {
				m, err := f.Wait(context.Background())
				s.settle(m, err)
			}()
		}
		for i, f := range futures {
			_, err := f.Wait(context.Background())
			require.NoError(t, err)
			<-done[i]
		}
		assert.Len(t, futures, 996)
		require.NoError(t, p.Flush(context.Background()))
		synctest.Wait()
		m := p.Metrics()
		assert.Equal(t, m.BufferTotalBytes, m.BufferAvailableBytes)
		require.NoError(t, p.Close(context.Background()))
	})
}

// exploding is an interceptor and a partitioner that panic when they are told to.
type exploding struct{}

func (exploding) OnSend(ctx context.Context, r *producer.Record[string, string]) context.Context {
	if r.Value == "interceptor" {
		panic("interceptor")
	}
	return ctx
}

func (exploding) OnAcknowledgement(context.Context, producer.RecordMetadata, error) {}

func (exploding) Partition(_ string, key, _ []byte, _ partitioner.Partitions) int32 {
	if string(key) == "partitioner" {
		panic("partitioner")
	}
	return partitioner.Any
}

// FC-120: the ctx of Send bounds what it waits for, and of Wait the wait. What was accepted is delivered, whatever becomes of them.
func TestFC120ContextsBoundWaitsOnly(t *testing.T) {
	play(t, testbroker.Config{}, func(w *world) {
		p := w.producer(func(c *producer.Config) { c.Linger = 50 * time.Millisecond })

		// A Send that would have to wait, here for the topic, is refused; one that need not is accepted all the same.
		over, cancel := context.WithCancelCause(context.Background())
		reason := errors.New("the request is over")
		cancel(reason)
		refused := w.sendFrom("", over, p, to(0, "refused"), nil)
		_, err := refused.wait()
		assert.ErrorIs(t, err, reason)
		assert.False(t, producer.MayHaveBeenWritten(err))
		w.whole(p)
		w.warm(p, 0)
		var all []*sent
		all = append(all, w.sendFrom("", over, p, to(0, "accepted"), nil))

		for i := range 1000 {
			ctx, cancel := context.WithCancel(context.Background())
			all = append(all, w.sendFrom("", ctx, p, to(0, "%d", i), nil))
			cancel()
		}
		w.acked(all...)

		w.Cluster().SetFault(testbroker.Script(protocol.KeyProduce, testbroker.Hold(200*time.Millisecond)))
		r := to(0, "waited for")
		s := w.enter("", r)
		f := p.Send(context.Background(), r)
		began := time.Now()
		short, cancelShort := context.WithTimeout(context.Background(), 50*time.Millisecond)
		defer cancelShort()
		_, err = f.Wait(short)
		assert.ErrorIs(t, err, context.DeadlineExceeded)
		assert.Equal(t, 50*time.Millisecond, time.Since(began))
		m, err := f.Wait(context.Background())
		s.settle(m, err)
		assert.NoError(t, err)
		assert.Equal(t, 200*time.Millisecond, time.Since(began))
		again, err := f.Wait(over)
		assert.NoError(t, err)
		assert.Equal(t, m, again)
	})
}

// FC-121: Closes come at any moment, from several goroutines, while others send, flush and look. Nothing panics, all Closes
// return, and afterwards calls that need a producer say ErrClosed. (Flush has nothing to wait for then, and says nothing;
// Metrics go on telling what was.) Rounds are few: virtual time and a seed make each another one.
func TestFC121CloseAtAnyMoment(t *testing.T) {
	for round := range 25 {
		play(t, testbroker.Config{Partitions: 2}, func(w *world) {
			chance := rand.New(rand.NewPCG(uint64(round), 121))
			p := w.producer(nil)
			ctx, stop := context.WithCancel(context.Background())
			var users, closers sync.WaitGroup
			for i := range 20 {
				users.Go(func() {
					for n := 0; ctx.Err() == nil; n++ {
						switch (i + n) % 4 {
						case 0:
							_ = p.Flush(ctx)
						case 1:
							p.Metrics()
						case 2:
							_, err := p.PartitionsFor(ctx, T)
							if err != nil && ctx.Err() == nil {
								assert.ErrorIs(t, err, producer.ErrClosed)
							}
						}
						w.sendFrom(fmt.Sprint(i), context.Background(), p, to(int32(n%2), "%d of %d", n, i), nil)
						time.Sleep(time.Millisecond)
					}
				})
			}
			for range 5 {
				at := time.Duration(chance.IntN(int(20 * time.Millisecond)))
				closers.Go(func() {
					time.Sleep(at)
					assert.NoError(t, p.Close(context.Background()))
				})
			}
			closers.Wait()
			_, err := p.Send(context.Background(), to(0, "late")).Wait(context.Background())
			assert.ErrorIs(t, err, producer.ErrClosed)
			_, err = p.PartitionsFor(context.Background(), T)
			assert.ErrorIs(t, err, producer.ErrClosed)
			assert.NoError(t, p.Flush(context.Background()))
			stop()
			users.Wait()
			for _, s := range w.book {
				if _, err := s.wait(); err != nil {
					require.ErrorIs(t, err, producer.ErrClosed)
				}
			}
			w.closed[p] = true
		})
	}
}

// FC-122: everything is copied before Send returns, also where it fails: what the caller does to key, value and headers
// afterwards is seen nowhere.
func TestFC122BuffersAreUsedAgain(t *testing.T) {
	for _, codec := range []producer.Compression{producer.None, producer.Gzip, producer.Snappy, producer.LZ4, producer.Zstd} {
		t.Run(codec.String(), func(t *testing.T) {
			drops := rand.New(rand.NewPCG(122, uint64(codec)))
			fault := func(r *testbroker.Request) testbroker.Verdict {
				if r.API == protocol.KeyProduce && drops.IntN(10) == 0 {
					return []testbroker.Verdict{testbroker.DropBefore(), testbroker.DropAfter()}[drops.IntN(2)]
				}
				return testbroker.Verdict{}
			}
			play(t, testbroker.Config{Partitions: 4, Fault: fault}, func(w *world) {
				p := w.producer(func(c *producer.Config) {
					c.Compression, c.DeliveryTimeout, c.MaxRequestSize = codec, time.Minute, 10_000
				})
				var senders sync.WaitGroup
				const each = 60 // each Send is the same race anew
				for i := range 8 {
					senders.Go(func() {
						key, value, header := make([]byte, 8), make([]byte, 120), make([]byte, 16)
						huge := make([]byte, 20_000)
						for n := range each {
							fill(key, byte(i))
							fill(header, byte(n))
							copy(value, fmt.Sprintf("%d of %d ", n, i))
							fill(value[20:], byte(i+n))
							headers := make([]producer.Header, 1, 4)
							headers[0] = producer.Header{Key: "h", Value: header}
							r := record{Topic: T, Partition: producer.OnPartition(int32(i % 4)), Key: key, Value: value, Headers: headers}
							if n%25 == 24 { // this one is refused
								r.Value = huge
								copy(huge, value)
							}
							w.sendFrom(fmt.Sprint(i), context.Background(), p, r, nil)
							fill(key, 0xff)
							fill(value, 0xff)
							fill(header, 0xff)
							fill(huge, 0xff)
							headers[0].Key = "changed"
							_ = append(headers, producer.Header{Key: "more", Value: header})
							if n%10 == 0 {
								time.Sleep(time.Millisecond)
							}
						}
					})
				}
				senders.Wait()
				for _, s := range w.book {
					_, err := s.wait()
					if len(s.record.Value) > 10_000 {
						var tooLarge *producer.RecordTooLargeError
						require.ErrorAs(t, err, &tooLarge)
					} else {
						require.NoError(t, err)
					}
				}
			})
		})
	}
}

func fill(b []byte, v byte) {
	for i := range b {
		b[i] = v
	}
}

// FC-123: one producer, many goroutines, with each partitioner and codec, values of all sizes, while metadata changes all the
// time. Under the race detector; the logs are compared with what was sent.
func TestFC123ManyGoroutines(t *testing.T) {
	for i, codec := range []producer.Compression{producer.None, producer.Gzip, producer.Snappy, producer.LZ4, producer.Zstd} {
		part := []partitioner.Partitioner{nil, partitioner.Default{IgnoreKeys: true}, new(partitioner.RoundRobin)}[i%3]
		t.Run(fmt.Sprintf("%v %T", codec, part), func(t *testing.T) {
			play(t, testbroker.Config{Nodes: 3, Partitions: 6}, func(w *world) {
				p := w.producer(func(c *producer.Config) {
					c.Partitioner, c.Compression, c.MetadataMaxAge, c.DeliveryTimeout = part, codec, 50*time.Millisecond, time.Minute
				})
				const goroutines, each = 64, 10
				var senders sync.WaitGroup
				block := bytes.Repeat([]byte("reservoir "), 6554)
				for i := range goroutines {
					senders.Go(func() {
						chance := rand.New(rand.NewPCG(123, uint64(i)))
						for n := range each {
							size := chance.IntN(1000)
							if n == 0 {
								size = chance.IntN(64 << 10)
							}
							r := record{Topic: T, Value: append(fmt.Appendf(nil, "%d of %d ", n, i), block[:size]...)}
							if n%3 > 0 {
								r.Key = fmt.Append(nil, i, n)
							}
							// A sender of its own for each record: where they go is not theirs to say, so no order is checked.
							w.sendFrom(fmt.Sprint(i, n), context.Background(), p, r, nil)
							time.Sleep(time.Duration(chance.IntN(5)) * time.Millisecond)
						}
					})
				}
				stop := make(chan struct{})
				var mover sync.WaitGroup
				mover.Go(func() {
					for n := int32(0); ; n++ {
						select {
						case <-stop:
							return
						case <-time.After(10 * time.Millisecond):
							assert.NoError(t, w.MoveLeader(T, n%6, n%3+1))
						}
					}
				})
				senders.Wait()
				close(stop)
				mover.Wait()
				w.acked(w.book...)
			})
		})
	}
}

// FC-124: the error of a record that ran out of time is found by what ran out and by what went wrong last, and its text says
// where and how often. (TLS and SASL failures come with TLS and SASL.)
func TestFC124TimeoutsHaveACause(t *testing.T) {
	produce := func(v testbroker.Verdict) func(w *world) {
		return func(w *world) {
			w.Cluster().SetFault(func(r *testbroker.Request) testbroker.Verdict {
				if r.API == protocol.KeyProduce {
					return v
				}
				return testbroker.Verdict{}
			})
		}
	}
	for _, tt := range []struct {
		name    string
		happens func(w *world) // after a first record
		record  record
		is      []error
		text    []string
		before  bool // nothing was accepted
	}{
		{"leaderless", func(w *world) {
			require.NoError(w.t, w.MoveLeader(T, 0, testbroker.NoLeader))
			time.Sleep(300 * time.Millisecond) // metadata says so
		}, to(0, "a"),
			[]error{producer.ErrDeliveryTimeout, protocol.LeaderNotAvailable}, []string{"t-0", "after 3s"}, false},
		{"code 3, in the metadata", func(w *world) {}, record{Topic: "unknown", Value: []byte("a")},
			[]error{producer.ErrMetadataTimeout, producer.UnknownTopicOrPartition}, []string{"unknown", "1s"}, true},
		{"code 3, from the leader", produce(testbroker.Answer(protocol.UnknownTopicOrPartition)), to(0, "a"),
			[]error{producer.ErrDeliveryTimeout, producer.UnknownTopicOrPartition}, []string{"t-0", "after 3s", "attempts"}, false},
		{"code 7", produce(testbroker.Answer(protocol.RequestTimedOut)), to(0, "a"),
			[]error{producer.ErrDeliveryTimeout, protocol.RequestTimedOut}, []string{"t-0", "after 3s", "attempts"}, false},
		{"dial refused", func(w *world) {
			require.NoError(w.t, w.Refuse(1))
			w.CloseConns(1, testbroker.DropFIN)
		}, to(0, "a"), []error{producer.ErrDeliveryTimeout, syscall.ECONNREFUSED}, []string{"t-0", "node 1", "broker-1:9092", "after 3s", "never sent"}, false},
		{"dial refused, by all", func(w *world) {
			require.NoError(w.t, w.StopNode(1))
			require.NoError(w.t, w.StopNode(2))
		}, to(0, "a"), []error{producer.ErrDeliveryTimeout, syscall.ECONNREFUSED}, []string{"t-0", "after 3s", "never sent"}, false},
		{"mute broker", produce(testbroker.MuteBefore()), to(0, "a"),
			[]error{producer.ErrDeliveryTimeout, producer.ErrRequestTimeout}, []string{"t-0", "node 1", "after 3s", "attempts", "may have been written"}, false},
		{"buffer exhausted", func(w *world) {
			produce(testbroker.MuteBefore())(w)
			for i := range 5 {
				w.send(w.producers[0], to(0, "%04000d", i))
			}
		}, to(0, "%s", strings.Repeat("x", 4000)), []error{producer.ErrBufferExhausted}, []string{"append to t-0"}, true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			play(t, testbroker.Config{Nodes: 2, AutoCreate: testbroker.AutoCreateOff, Topics: []testbroker.Topic{{Name: T}}}, func(w *world) {
				p := w.producer(func(c *producer.Config) { c.BufferMemory, c.MetadataMaxAge = 16<<10, 200*time.Millisecond })
				w.warm(p, 0)
				tt.happens(w)
				_, err := w.send(p, tt.record).wait()
				for _, is := range tt.is {
					assert.ErrorIs(t, err, is)
				}
				for _, text := range tt.text {
					assert.ErrorContains(t, err, text)
				}
				assert.True(t, producer.IsRetriable(err))
				var story *producer.DeliveryError
				assert.Equal(t, !tt.before, errors.As(err, &story))
			})
		})
	}
}
