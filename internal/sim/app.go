package sim

import (
	"bytes"
	"context"
	"errors"
	"time"

	"github.com/kafka-reservoir/producer/accumulator"
	"github.com/kafka-reservoir/producer/bufferpool"
	"github.com/kafka-reservoir/producer/metadata"
	"github.com/kafka-reservoir/producer/partitioner"
	"github.com/kafka-reservoir/producer/protocol"
)

// app is the application: a few goroutines' worth of sends, flushes and a close, as events.
type app struct {
	w *World
	p *Plan
	b *Book
	c *chaos

	cancelled context.Context
	part      partitioner.Default
	scratch   []byte
	maxRecord int
	stopped   bool // sends nothing more
	closing   bool
	flushes   []*flush
	full      int // appends that found no memory
}

func newApp(w *World, p *Plan, b *Book, c *chaos) *app {
	ctx, cancel := context.WithCancelCause(context.Background())
	cancel(errCancelled)
	a := &app{w: w, p: p, b: b, c: c, cancelled: ctx}
	a.maxRecord = int(min(int64(p.Config.MaxRequestSize), p.Config.BufferMemory))
	b.byAck = func(r *record) {
		if r.told != nil {
			r.told()
		}
		if r.then && !a.stopped {
			a.send(stream(p.Seed, 1000+int(r.id)), nil)
		}
		a.flushed(r)
	}
	return a
}

var errCancelled = errors.New("the simulated application's context was cancelled")

// start begins to send, each sender by itself.
func (a *app) start() {
	for _, k := range []Kind{SlowCallbacks, SendFromCallback} {
		if a.p.Levels[k] != Off {
			a.c.note(k) // once for all callbacks
		}
	}
	rate := a.p.Rate
	if a.p.Callers > 0 {
		rate /= 2 // the other half is theirs
		for i := range a.p.Callers {
			a.caller(stream(a.p.Seed, 30+i), float64(a.p.Callers)/rate)
		}
	}
	for i := range a.p.Senders {
		d := stream(a.p.Seed, 10+i)
		mean := float64(time.Second) * float64(a.p.Senders) * float64(a.p.Burst+1) / 2 / rate
		var turn func()
		turn = func() {
			if a.stopped {
				return
			}
			a.burst(d, 1+d.IntN(a.p.Burst), func() {
				a.w.Selector.In(time.Duration(d.ExpFloat64()*mean), turn)
			})
		}
		a.w.Selector.In(time.Duration(d.ExpFloat64()*mean), turn)
	}
	a.c.everyAlways(Flush, 5*time.Second, 500*time.Millisecond, a.someFlush)
	a.c.every(WallClockJump, 5*time.Second, time.Second, func(t *trigger) {
		a.w.Selector.Skew = t.between(-50*time.Minute, 50*time.Minute)
	})
}

// caller is somebody who sends the next record when the one before is called back, and has the producer know that its future is waited for: many in a row, then a pause, so that there is one every so many seconds in the mean.
func (a *app) caller(d draw, every float64) {
	var next func(n int)
	next = func(n int) {
		if a.stopped {
			return
		}
		if n == 0 {
			n = 1 + d.IntN(40)
			pause := time.Duration(d.ExpFloat64() * every * float64(n) * float64(time.Second))
			a.w.Selector.In(pause, func() { next(n) })
			return
		}
		topic, r, rec := a.draw(d)
		r.told = func() { a.w.Selector.In(pick(d, 0, 0, 5*time.Microsecond), func() { next(n - 1) }) }
		refused := func() {
			if r.refused {
				a.w.Selector.In(d.between(0, 40*time.Millisecond), func() { next(n - 1) })
			}
		}
		if !a.try(d, topic, r, &rec, 50, refused) {
			refused()
		}
	}
	next(0)
}

// burst sends n records, one right after the other unless one has to wait for memory.
func (a *app) burst(d draw, n int, then func()) {
	for ; n > 0; n-- {
		if a.stopped {
			return
		}
		left := n - 1
		if a.send(d, func() { a.burst(d, left, then) }) {
			return // goes on when it got what it waits for
		}
	}
	then()
}

// send makes a record and sends it. True: it has to wait, and calls resume when that is over. A nil resume does not wait.
func (a *app) send(d draw, resume func()) (waits bool) {
	topic, r, rec := a.draw(d)
	return a.try(d, topic, r, &rec, 50, resume)
}

// draw makes a record for one of the topics. Its value is valid until the next one is made.
func (a *app) draw(d draw) (topic int, r *record, rec accumulator.Record) {
	topic = d.IntN(len(a.b.topics))
	r = a.b.newRecord()
	r.valueSize = a.p.MinValue + d.IntN(a.p.MaxValue-a.p.MinValue+1)
	if a.p.MaxValue > 1000 && d.chance(0.8) {
		r.valueSize = min(r.valueSize, 200+d.IntN(200)) // mostly small ones
	}
	r.keySize = pick(d, -1, 0, 5, 20)
	if d.chance(0.02) {
		r.valueSize = -1
	}
	r.by = inValue
	if r.valueSize < 8 || d.chance(0.1) {
		r.by = pick(d, inHeader, inTimestamp)
	}
	rec = accumulator.Record{
		Partition: partitioner.Any, Timestamp: r.timestamp(), Key: r.key(), Value: r.value(a.scratch), Headers: r.headers(),
	}
	if r.by == inValue {
		a.scratch = rec.Value[:0]
	}
	how := a.p.Spread
	if how == mixed {
		how = spread(d.IntN(3))
	}
	switch how {
	case byApplication:
		rec.Partition = int32(d.IntN(len(a.b.parts[topic])))
	case byKey:
		if r.keySize < 0 {
			r.keySize = 12
			rec.Key = r.key()
		}
	case sticky:
		r.keySize, rec.Key = -1, nil
	}
	r.then = a.c.kind[SendFromCallback].level != Off && d.chance(0.2)
	return topic, r, rec
}

// try appends a record as the facade does.
func (a *app) try(d draw, topic int, r *record, rec *accumulator.Record, tries int, resume func()) (waits bool) {
	name := a.b.topics[topic]
	again := func(after time.Duration) bool {
		if resume == nil || tries == 0 || a.stopped {
			r.refused = true
			return false
		}
		kept := *rec
		kept.Value = bytes.Clone(rec.Value) // the scratch space is for the next record
		a.w.Selector.In(after, func() {
			if a.stopped {
				r.refused = true
				return
			}
			if !a.try(d, topic, r, &kept, tries-1, resume) {
				resume()
			}
		})
		return true
	}
	md := a.w.Metadata.Snapshot().Topic(name)
	if md == nil || md.Count() == 0 || int(rec.Partition) >= md.Count() {
		// What Await does, but for the waiting.
		a.w.Metadata.AddTopic(name, a.w.Now())
		if md != nil {
			a.w.Metadata.RequestUpdate()
		}
		a.w.Selector.Wakeup()
		return again(20 * time.Millisecond)
	}
	if err := a.w.Sender.Err(); err != nil {
		a.b.violate("the producer is finished: %v", err)
		r.refused = true
		return false
	}
	to := *rec
	if to.Partition < 0 {
		to.Partition = a.part.Partition(name, to.Key, to.Value, md)
	}
	if size := protocol.MaxRecordSize(to.Key, to.Value, to.Headers); size > a.maxRecord {
		r.refused = true
		return false
	}
	if resume != nil && a.w.Disp.Full() {
		// So many callbacks are due that the facade lets nobody in but those who run them.
		a.full++
		if a.p.Blocking {
			return again(time.Millisecond)
		}
		r.refused = true
		return false
	}
	ctx, wait := context.Background(), time.Duration(0)
	if a.p.Blocking || a.c.fires(Cancel, 5) {
		ctx, wait = a.cancelled, time.Hour // begins to wait, and gives up
	}
	future, partition, err := a.w.Acc.Append(ctx, a.w.Acc.Topic(name), md, &to, r.OnCompletion, r.told != nil, wait)
	switch {
	case err == nil:
		p := a.b.find(name, partition)
		if p == nil {
			if a.p.Levels[FuzzedMetadata] == Off {
				a.b.violate("record %d was put into %s-%d, which there is not", r.id, name, partition)
			}
			p = &partitionBook{topic: name, partition: partition, phantom: true}
		}
		if rec.Partition >= 0 && partition != rec.Partition {
			a.b.violate("record %d was put into partition %d instead of %d", r.id, partition, rec.Partition)
		}
		a.b.accept(r, p)
		if r.told != nil {
			r.future, r.done = future, future.Done()
		}
		return false
	case errors.Is(err, accumulator.ErrClosed) || errors.Is(err, metadata.ErrClosed):
		if !a.closing {
			a.b.violate("record %d: refused as after a close: %v", r.id, err)
		}
	case errors.Is(err, errCancelled) || errors.Is(err, bufferpool.ErrExhausted):
		a.full++
		if a.p.Blocking {
			return again(d.between(500*time.Microsecond, 5*time.Millisecond))
		}
	default:
		a.b.violate("record %d: not accepted: %v", r.id, err)
	}
	r.refused = true
	return false
}

// flush is a Flush that waits.
type flush struct {
	upTo  int // records accepted so far
	left  int // of these, how many callbacks are still to come
	began time.Duration
	done  bool
	then  func()
}

// someFlush is Flush, with a context that may end before it is done.
func (a *app) someFlush(t *trigger) {
	if a.stopped {
		return
	}
	f := a.flush(nil)
	if !f.done && t.chance(0.3) {
		a.w.Selector.In(t.between(0, 2*time.Second), func() { a.endFlush(f) })
	}
}

// flush is Flush; then runs when it is done.
func (a *app) flush(then func()) *flush {
	f := &flush{upTo: a.b.taken, left: a.b.open, began: a.w.Selector.Since(), then: then}
	a.w.Acc.BeginFlush()
	if f.left == 0 {
		a.endFlush(f)
	} else {
		a.flushes = append(a.flushes, f)
	}
	return f
}

func (a *app) endFlush(f *flush) {
	if f.done {
		return
	}
	f.done = true
	a.w.Acc.EndFlush()
	if f.then != nil && f.left == 0 {
		f.then()
	}
}

// flushed tells the flushes that wait of a record that is called back.
func (a *app) flushed(r *record) {
	if len(a.flushes) == 0 {
		return
	}
	kept := a.flushes[:0]
	for _, f := range a.flushes {
		if r.seq <= f.upTo {
			f.left--
		}
		if f.left == 0 && !f.done {
			if took := a.w.Selector.Since() - f.began; a.b.calm > 0 && a.p.Callback == 0 && a.p.Levels[FuzzedMetadata] == Off && f.began >= a.b.calm && took > a.b.flushPatience {
				a.b.violate("a flush took %v in a calm world, where %v would do", took, a.b.flushPatience)
			}
			a.endFlush(f)
		}
		if !f.done {
			kept = append(kept, f)
		}
	}
	a.flushes = kept
}

// probe sends a record to a partition, again and again until one is acknowledged.
func (a *app) probe(d draw, topic, partition int) {
	p := a.b.parts[topic][partition]
	began := a.w.Selector.Since()
	var turn func()
	turn = func() {
		if a.stopped || p.progress >= began {
			return
		}
		if p.probe == nil || p.probe.refused || p.probe.calls > 0 {
			r := a.b.newRecord()
			r.valueSize, r.keySize = 20, -1
			rec := accumulator.Record{Partition: int32(partition), Timestamp: -1, Value: r.value(nil)}
			p.probe = r
			a.try(d, topic, r, &rec, 0, nil)
		}
		a.w.Selector.In(10*time.Millisecond, turn)
	}
	turn()
}

// close is Close.
func (a *app) close() {
	a.closing = true
	a.w.Acc.Close()
	a.w.Metadata.Interrupt()
	a.w.Sender.InitiateClose()
}
