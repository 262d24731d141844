package accumulator

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/kafka-reservoir/producer/bufferpool"
	"github.com/kafka-reservoir/producer/protocol"
)

var errRefused = errors.New("refused by the broker")

// ACC-06, ACC-20, S-61, EXT-07, EXT-08, KAFKA-19012: applications append to few partitions over a buffer that is always
// short, and the sender completes, fails, sends again and splits what it has drained, at random, while batches expire
// under its hands and connections hold bytes for longer than answers take. In the end every record was told its fate
// exactly once, futures and callbacks say the same, all memory is back, and each log has every record that was
// acknowledged, in order, at the offset that was told.
func TestStress(t *testing.T) {
	for _, codec := range []protocol.Codec{protocol.CodecNone, protocol.CodecLZ4} {
		for _, linger := range []time.Duration{0, 5 * ms} {
			for _, ordered := range []bool{false, true} {
				t.Run(fmt.Sprintf("codec=%v/linger=%v/ordered=%t", codec, linger, ordered), func(t *testing.T) {
					held := 0 // drains that the gate has held back
					for seed := range *seeds {
						synctest.Test(t, func(t *testing.T) {
							s := newStress(t, seed, linger, ordered, withCodec(codec), func(c *Config) { c.Sealers = int(seed % 3) })
							if seed%2 == 1 {
								s.l.gate = &window{size: 1 + int(seed%3), open: map[*deque]int{}}
							}
							s.run(nil)
							if w := s.l.gate; w != nil {
								for d, n := range w.open {
									assert.Zero(t, n, "%v", d.tp)
								}
								held += w.closed
							}
						})
						if t.Failed() {
							t.Fatalf("seed %d", seed)
						}
					}
					assert.True(t, ordered || held > 0)
				})
			}
		}
	}
}

// EXT-07, S-56, ACC-13: the same, with the accumulator closed in the midst of it, and then what is left failed by force:
// an append that runs into the close either fails itself or gets its callback.
func TestStressClosedByForce(t *testing.T) {
	for _, codec := range []protocol.Codec{protocol.CodecNone, protocol.CodecZstd} {
		t.Run(fmt.Sprintf("codec=%v", codec), func(t *testing.T) {
			for seed := range 3 * *seeds {
				synctest.Test(t, func(t *testing.T) {
					s := newStress(t, seed, 5*ms, seed%2 == 0, withCodec(codec), func(c *Config) { c.Sealers = int(seed % 2) })
					pause := time.Duration(s.l.rng.IntN(40)) * ms
					s.run(func() {
						time.Sleep(pause)
						s.r.a.Close()
						s.l.force.Store(true)
						s.l.wakeUp()
					})
				})
				if t.Failed() {
					t.Fatalf("seed %d", seed)
				}
			}
		})
	}
}

// stress is a loop with applications and logs.
type stress struct {
	t    *testing.T
	seed uint64
	l    *loop
	r    *rig
	logs map[protocol.TopicPartition][]string // what was acknowledged, by offset; the loop's

	callbacks chan *ProducerBatch // on their way to the dispatcher
}

const stressPartitions = 3

func newStress(t *testing.T, seed uint64, linger time.Duration, ordered bool, set ...func(*Config)) *stress {
	set = append([]func(*Config){withBatch(4 * kib), withPool(100 * kib), func(c *Config) {
		c.DeliveryTimeout, c.RetryBackoff, c.RetryBackoffMax = 60*ms, 2*ms, 10*ms
		c.StickyThreshold = 2 * kib
	}}, set...)
	s := &stress{t: t, seed: seed, l: newLoop(t, seed, linger, set...), logs: map[protocol.TopicPartition][]string{}}
	s.r = s.l.r
	s.callbacks = make(chan *ProducerBatch, 10_000)
	s.r.a.cfg.Done = func(b *ProducerBatch) { s.callbacks <- b }
	s.l.ordered = ordered
	s.l.maxInFlight = 3
	s.l.maxRequest = 9 * kib
	s.l.latency = func() time.Duration { return []time.Duration{0, ms / 2, 3 * ms, 80 * ms}[s.l.rng.IntN(31)/10] }
	s.l.answer = s.answer
	s.l.steer = func(time.Time) { // a node's share is now this, now that
		if s.l.rng.IntN(5) == 0 {
			soft := int64([]int{1, 4 * kib, 30 * kib, 1 << 20}[s.l.rng.IntN(4)])
			s.r.a.SetShare(int32(1+s.l.rng.IntN(2)), soft, soft*int64(1+s.l.rng.IntN(3)))
		}
	}
	s.r.lead(orders, 1, 1, 2)
	s.r.lead("other", 2, 1, 1)
	return s
}

// answer is a broker's whim.
func (s *stress) answer(b *ProducerBatch, now time.Time) {
	a, w := s.r.a, s.l.gate
	switch n := s.l.rng.IntN(20); {
	case n < 12:
		w.ended(b)
		s.acknowledge(b)
	case n < 14:
		w.ended(b)
		a.Fail(b, errRefused, nil)
	case n == 14:
		w.ended(b)
		a.Fail(b, errRefused, func(i int) error { return fmt.Errorf("record %d: %w", i, errRefused) })
	case n < 17 && b.Count() > 1:
		d := b.d
		parts, err := a.SplitAndReenqueue(b, now)
		if err != nil {
			s.t.Error(err)
		}
		if w != nil {
			w.open[d] += len(parts) - 1
		}
	default:
		if w != nil && s.l.rng.IntN(2) == 0 {
			w.again(b) // perhaps while a connection still reads the header
		}
		a.Reenqueue(b, now)
	}
}

func (s *stress) acknowledge(b *ProducerBatch) {
	log := s.logs[b.TopicPartition()]
	base := len(log)
	log = append(log, s.r.values(b)...)
	s.logs[b.TopicPartition()] = log
	s.r.a.Complete(b, int64(base), -1)
}

// run lets applications append, and checks the books when everything has come to an end. interrupt, if not nil, runs
// beside them.
func (s *stress) run(interrupt func()) {
	s.l.start()
	told := make(chan struct{})
	go func() { // the dispatcher
		defer close(told)
		for b := range s.callbacks {
			b.Run()
		}
	}()
	const goroutines, records = 4, 60
	var accounts []*account
	var wg sync.WaitGroup
	for g := range goroutines {
		ac := &account{t: s.t}
		accounts = append(accounts, ac)
		rng := rand.New(rand.NewPCG(s.seed, uint64(g)))
		wg.Go(func() {
			for i := range records {
				ac.records = append(ac.records, s.append(rng, fmt.Sprintf("%d/%d/", g, i)))
				switch rng.IntN(12) {
				case 0:
					time.Sleep(time.Duration(rng.IntN(10)) * ms)
				case 1:
					s.r.a.BeginFlush()
					ctx, cancel := context.WithTimeout(s.t.Context(), time.Duration(rng.IntN(20))*ms)
					_ = s.r.a.AwaitFlush(ctx)
					cancel()
					s.r.a.EndFlush()
				case 2:
					ctx, cancel := context.WithTimeout(s.t.Context(), time.Duration(rng.IntN(20))*ms)
					_, _ = ac.records[i].handle.Wait(ctx)
					cancel()
				}
			}
		})
	}
	stop := make(chan struct{})
	stopped := make(chan struct{})
	go func() { // leaders move, and are lost
		defer close(stopped)
		rng := rand.New(rand.NewPCG(s.seed, 78))
		for epoch := int32(2); ; epoch++ {
			select {
			case <-stop:
				return
			case <-time.After(max(time.Duration(rng.IntN(30))*ms, 1)): // see loop.run for why not 0
			}
			s.r.move([]string{orders, "other"}[rng.IntN(2)], int32(rng.IntN(stressPartitions)), []int32{-1, 1, 1, 2, 2}[rng.IntN(5)], epoch)
			s.l.moved()
		}
	}()
	if interrupt != nil {
		interrupt()
	}
	wg.Wait()
	close(stop)
	<-stopped
	s.l.end()
	close(s.callbacks)
	<-told
	s.check(accounts)
}

// append appends one record, in one of many ways.
func (s *stress) append(rng *rand.Rand, name string) *entry {
	topic := []string{orders, "other"}[rng.IntN(2)]
	n := []int{0, 30, 300, 2000, 6000, 20_000}[rng.IntN(6)]
	value := append([]byte(name), noise(n)...)
	if rng.IntN(2) == 0 {
		clear(value[len(name):]) // compresses well
	}
	rec := Record{Partition: int32(rng.IntN(stressPartitions+1)) - 1, Timestamp: -1, Value: value}
	maxWait := []time.Duration{-1, 0, 3 * ms, time.Hour}[rng.IntN(4)]
	ctx := s.t.Context()
	if rng.IntN(8) == 0 {
		c, cancel := context.WithTimeoutCause(ctx, time.Duration(rng.IntN(5))*ms, errRefused)
		defer cancel()
		ctx = c
	}
	e := &entry{}
	h, p, err := s.r.a.Append(ctx, s.r.a.Topic(topic), s.l.snap.Load().Topic(topic), &rec, e.OnCompletion, true, maxWait)
	if err != nil {
		e.handle = Failed(topic, p, err)
		e.OnCompletion(e.handle.get())
		return e
	}
	e.handle, e.accepted = h, true
	return e
}

func (s *stress) check(accounts []*account) {
	acknowledged := 0
	for _, ac := range accounts {
		ac.settled(errRefused, errExpired, errForced, ErrClosed, bufferpool.ErrExhausted)
		for _, e := range ac.records {
			if e.err == nil {
				acknowledged++
			}
		}
	}
	n := 0
	for tp, log := range s.logs {
		n += len(log)
		last := map[string]int{}
		for _, v := range log {
			var g, i int
			_, err := fmt.Sscanf(v, "%d/%d/", &g, &i)
			require.NoError(s.t, err)
			who := fmt.Sprint(g)
			if before, ok := last[who]; ok && s.l.ordered {
				assert.Less(s.t, before, i, "%v: records of one goroutine out of order", tp)
			}
			last[who] = i
		}
	}
	assert.Equal(s.t, n, acknowledged, "records in the logs, and those told that they are")
	for _, ac := range accounts {
		last := map[protocol.TopicPartition]int64{}
		for i, e := range ac.records {
			if e.accepted {
				tp := protocol.TopicPartition{Topic: e.res.Topic, Partition: e.res.Partition}
				require.Less(s.t, last[tp], e.when, "callbacks of %v out of order", tp)
				last[tp] = e.when
			}
			if e.err == nil {
				log := s.logs[protocol.TopicPartition{Topic: e.res.Topic, Partition: e.res.Partition}]
				v := log[e.res.Offset]
				var g, k int
				_, err := fmt.Sscanf(v, "%d/%d/", &g, &k)
				require.NoError(s.t, err)
				require.Same(s.t, ac, accounts[g])
				require.Equal(s.t, i, k)
				require.Equal(s.t, len(v), e.res.ValueSize)
			}
		}
	}
	s.r.empty()
}
