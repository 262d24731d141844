package sim

import (
	"fmt"
	"runtime/debug"
	"time"

	"github.com/kafka-reservoir/producer/bufferpool"
	"github.com/kafka-reservoir/producer/internal/testbroker"
	"github.com/kafka-reservoir/producer/metadata"
)

// Result is what became of a plan.
type Result struct {
	Seed       uint64
	Time       time.Duration // simulated
	Faults     int
	Counts     [kinds]int // of the faults, by kind
	Records    int        // accepted
	Acked      int
	Failed     int
	Requests   int64
	Recovery   time.Duration // after all was well again; 0: it never was bad, or did not become well
	Allowed    time.Duration // how long that may have taken
	Violations []string      // empty: all is as it should be
	Digest     uint64        // the same plan gives the same, always
}

// run is a plan being played.
type run struct {
	p   *Plan
	w   *World
	b   *Book
	tap *tap
	c   *chaos
	a   *app

	ends     time.Duration      // when the producer has to be closed at the latest; 0: nobody has closed it
	breaches int64              // of the protocol, told already
	told     int64              // entries of the journal that were traced
	view     *metadata.Snapshot // seen by check
	news     int                // metadata answers until the last check
	rand     draw
}

// Run plays a plan.
func Run(p Plan) (res Result) {
	r := &run{p: &p, rand: stream(p.Seed, 3)}
	res.Seed = p.Seed
	defer func() {
		if e := recover(); e != nil {
			res.Violations = append(res.Violations, fmt.Sprintf("panic: %v\n%s", e, debug.Stack()))
		}
		if r.b == nil {
			return
		}
		res.Time = r.w.Selector.Since()
		res.Faults, res.Records, res.Acked, res.Failed = r.c.count, r.b.taken, r.b.acked, r.b.failed
		res.Recovery, res.Allowed = r.b.recovery, r.b.allowed
		res.Counts = r.c.counts
		res.Requests = r.w.Cluster.Stats().Requests
		res.Violations = append(r.b.violations, res.Violations...)
		r.b.digest.add(uint64(res.Time), uint64(res.Records), uint64(res.Acked), uint64(res.Requests), uint64(len(res.Violations)))
		res.Digest = uint64(r.b.digest)
	}()
	r.build()
	r.play()
	r.finish()
	return res
}

// build makes the world.
func (r *run) build() {
	p := r.p
	cfg := p.Config
	cfg.Bootstrap = bootstrapHost
	if p.Trace != nil {
		cfg.Logger = traceLogger(p.Trace, r.since)
		cfg.Cluster.JournalLimit = 1 << 20
	}
	cfg.Callbacks = func() time.Duration {
		if p.Callback == 0 {
			return 0
		}
		return time.Duration(r.rand.ExpFloat64() * float64(p.Callback))
	}
	cfg.Cluster.Fault = func(q *testbroker.Request) testbroker.Verdict { return r.c.request(q) }
	cfg.Cluster.FaultOpen = func(node int32, conn testbroker.ConnID) testbroker.ConnVerdict { return r.c.opened(node, conn) }
	if p.Assists {
		coin := stream(p.Seed, 9)
		cfg.Assists = func() bool { return coin.chance(0.8) }
	}
	w, err := New(cfg)
	if err != nil {
		panic(err)
	}
	r.w = w
	w.Assisted = r.check
	b := newBook(w, p)
	r.tap = newTap(b)
	r.c = newChaos(w, p, b, r.tap)
	r.a = newApp(w, p, b, r.c)
	lat, bw := stream(p.Seed, 4), p.Bandwidth
	w.Selector.Latency = func() time.Duration { return lat.between(p.MinLatency, p.MaxLatency) }
	w.Selector.WriteTime = func(size int) time.Duration { return time.Duration(int64(size) * int64(time.Second) / bw) }
	w.Selector.Network = r.c.network()
	w.Selector.AskCluster = !p.SkipClusterCheck
	// Delivery 4 has 20 attempts to connect within a second and 10 metadata requests for all brokers, at a back-off of 100 ms. Of more brokers, each may be
	// tried once, and bootstrap servers are counted with them. Shorter back-offs have more requests.
	r.tap.dials.limit = max(20, 2*(p.Nodes+p.Spares))
	// The back-off is between repetitions. Each topic is asked about at once when the application first names it.
	r.tap.metadata.limit = int(time.Second/w.Config.RetryBackoff) + 1 + p.Topics
	if p.Levels[FuzzedMetadata] != Off {
		r.tap.dials.limit += r.tap.metadata.limit // each answer may name a broker that was not known
	}
	r.tap.producerIDs.limit = int(time.Second/w.Config.RetryBackoff) + 2

	for id := int32(p.Nodes + 1); int(id) <= p.Nodes+p.Spares; id++ {
		r.c.nodeDown(id)
	}
	for i := range p.Topics {
		n := p.Partitions / p.Topics
		if i == 0 {
			n += p.Partitions % p.Topics
		}
		b.addTopic(fmt.Sprintf("topic-%d", i), n)
		r.c.createTopic(i)
	}
	r.b = b
}

// play runs the world until the producer is closed.
func (r *run) play() {
	p, s := r.p, r.w.Selector
	r.c.startCluster()
	r.a.start()
	if p.calm() {
		r.beCalm(2*time.Second + 10*p.MaxLatency)
	}
	healAt := p.Warmup + p.Faults
	s.In(healAt, r.heal)
	for _, k := range []Kind{CloseEarly, CloseForced} {
		if p.Levels[k] != Off {
			s.In(r.rand.between(0, healAt+healAt/4), func() { r.close(k == CloseForced) })
		}
	}

	spins, was := 0, s.Since()
	for !r.w.Sender.Closed() {
		if now := s.Since(); now > was {
			spins, was = 0, now
		} else if spins++; spins > maxSpins {
			r.b.violate("the sender spins: no time passes")
			return
		}
		if r.ends > 0 && s.Since() > r.ends {
			r.b.violate("the producer is not closed after all the time it needs (%d records without callback)", r.b.open)
			return
		}
		if len(r.b.violations) >= maxViolations {
			return
		}
		r.w.Step()
		r.check()
		r.journal()
	}
	r.w.Sender.Run(r.w.Now()) // which has only its end left to do
}

// heal ends all faults, and holds the engine to what it then must do.
func (r *run) heal() {
	if r.ends > 0 {
		return // closed already
	}
	p, s := r.p, r.w.Selector
	r.c.heal()
	if p.Levels[AllGone] != Off {
		r.c.note(AllGone)
		r.c.allGone()
		s.In(r.rand.between(0, 5*time.Second), func() { r.end() })
		return
	}
	r.c.repair()
	b := r.b
	b.wellAt, b.allowed = s.Since(), r.recoveryTime()
	b.short = r.w.Pool.Available() < bufferpool.SlabSize
	for i, parts := range b.parts {
		for k := range parts {
			r.a.probe(stream(p.Seed, 5), i, k)
		}
	}
	// By then it is known: the probes' callbacks take their time as well, behind those of the records that are sent meanwhile.
	probes := time.Duration(p.Partitions) * 4 * p.Callback
	s.In(b.allowed+r.callbackTime()+probes, func() { r.recovered(true) })
}

// beCalm says that from now on, or a little later, nothing keeps a record from being settled soon.
func (r *run) beCalm(in time.Duration) {
	c := &r.w.Config
	r.b.flushPatience = 250*time.Millisecond + 20*r.p.MaxLatency + r.p.Config.Cluster.LeaderDelay + r.p.burstTime()
	if r.p.Levels[Throttle] != Off {
		r.b.flushPatience += 6 * time.Second // one may follow the other
	}
	if l := &r.p.Levels; r.p.Config.AcksNone && (l[HalfOpen] != Off || l[Swallow] != Off || l[Silence] != Off) {
		// They leave connections that will never bring an answer. No record waits for one, so that nothing tells of them until metadata
		// is asked of such a connection, whenever that is. The question then takes its whole time, and a place among the requests in
		// flight; the next one may be asked of another such connection.
		r.b.flushPatience += c.RequestTimeout * time.Duration(r.p.Nodes+r.p.Spares)
	}
	r.b.patience = r.b.flushPatience + 2*time.Second + max(c.Linger, 0)
	r.w.Selector.In(in, func() { r.b.calm = r.w.Selector.Since() })
}

// end is the ordinary end of an application: Flush, then Close.
func (r *run) end() {
	if r.ends > 0 {
		return
	}
	r.c.ended, r.a.stopped = true, true
	s := r.w.Selector
	r.ends = s.Since() + r.w.Config.DeliveryTimeout + r.b.slack + r.callbackTime()
	r.a.flush(func() { s.In(0, func() { r.close(false) }) })
}

// callbackTime is how long the callbacks of all that is open may take.
func (r *run) callbackTime() time.Duration {
	return time.Duration(r.b.open+1)*4*r.p.Callback + time.Second
}

// close is Close; forced, its context has ended, or will soon.
func (r *run) close(forced bool) {
	if r.a.closing {
		return
	}
	r.c.ended, r.a.stopped = true, true
	s := r.w.Selector
	if r.ends == 0 { // not after the end of an ordinary life
		r.c.note(map[bool]Kind{false: CloseEarly, true: CloseForced}[forced])
	}
	r.ends = s.Since() + r.w.Config.DeliveryTimeout + r.b.slack + r.callbackTime()
	r.a.close()
	if forced {
		s.In(pick(r.rand, 0, r.rand.between(0, time.Second)), func() {
			r.b.forced = true
			r.ends = min(r.ends, s.Since()+time.Millisecond)
			r.w.Sender.ForceClose()
		})
	}
}

// check is what is looked at after every iteration of the sender.
func (r *run) check() {
	w := r.w
	if err := w.Selector.Err(); err != nil {
		r.b.violate("%v", err)
		w.Selector.dead = nil
	}
	if n := w.Cluster.Stats().Violations; n > r.breaches {
		r.breaches = n
		for _, v := range w.Cluster.TakeViolations() {
			r.b.violate("the brokers complain: %v", v)
		}
	}
	r.checkView()
	r.b.checkLogs()
	r.b.checkOpen()
	free, total := w.Pool.Available(), w.Pool.Total()
	if free < 0 || free > total {
		r.b.violate("%d of %d bytes of memory are free", free, total)
	}
	if free < total && w.Selector.Held() == 0 && len(w.Selector.events) == 0 && !w.Acc.HasIncomplete() {
		r.b.violate("nothing is open and nothing on its way, yet %d bytes of memory are not given back", total-free)
	}
}

// checkView looks at what the client makes of metadata: the leader epoch of a partition never goes back, unless the topic is
// another one, or brokers have insisted.
func (r *run) checkView() {
	v, heard := r.w.Metadata.Snapshot(), r.news
	r.news = r.tap.news
	if v == r.view || r.p.Levels[FuzzedMetadata] != Off {
		return
	}
	r.view = v
	for i, name := range r.b.topics {
		t := v.Topic(name)
		if t == nil {
			// Forgotten, with its epochs: nobody sent to it for a while, or it is not there.
			for _, p := range r.b.parts[i] {
				p.epoch, p.topicID = 0, [16]byte{}
			}
			continue
		}
		for k, p := range r.b.parts[i] {
			epoch := t.LeaderEpoch(int32(k))
			if epoch < 0 {
				continue
			}
			if epoch < p.epoch && p.topicID == t.ID && r.tap.news-p.news < 5 {
				r.b.violate("%v: leader epoch %d after %d, on the word of %d answers", p, epoch, p.epoch, r.tap.news-p.news)
			}
			if epoch != p.epoch || p.topicID != t.ID {
				// Answers of the same step may have come behind the news: a broker's hint and its own stale metadata do.
				p.epoch, p.topicID, p.news = epoch, t.ID, heard
			}
		}
	}
}

// finish looks at what is left when the producer is closed.
func (r *run) finish() {
	w, s := r.w, r.w.Selector
	// The callbacks that are left run first; Close returns after them.
	limit := s.Since() + r.callbackTime() + time.Duration(len(r.b.all))*4*r.p.Callback
	for done := false; !done; {
		select {
		case <-w.Disp.Done():
			done = true
		default:
			if s.Since() > limit {
				r.b.violate("Close waits for callbacks that never run")
				done = true
			}
			s.Poll(s.Now(), 100*time.Millisecond)
		}
	}
	r.b.closed = true
	// What is on its way still arrives.
	for until := s.Since() + 4*maxDelay; s.Since() < until; {
		s.Poll(s.Now(), until-s.Since())
	}
	r.check()
	r.journal()
	if n := s.Held(); n != 0 {
		r.b.violate("%d frames were never given back", n)
	}
	if free, total := w.Pool.Available(), w.Pool.Total(); free != total {
		r.b.violate("%d bytes of memory were never given back", total-free)
	}
	r.b.finish()
	if other := r.c.other; other != nil {
		for _, topic := range other.TopicNames() {
			for p := range other.Partitions(topic) {
				if _, end := other.Offsets(topic, int32(p)); end > 0 {
					r.b.violate("%d records were written to %s-%d of another cluster", end, topic, p)
				}
			}
		}
	}
	if r.p.calm() && r.w.Metrics.BatchSplitTotal.Load() == 0 && r.b.failed == 0 && r.tap.outOfOrder > 0 {
		r.b.violate("%d batches out of order in a calm world", r.tap.outOfOrder)
	}
}
