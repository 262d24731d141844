package faultrun

import (
	"context"
	"math/rand/v2"
	"net"
	"sync"
	"sync/atomic"
	"time"

	"github.com/kafka-reservoir/producer/internal/testbroker"
	"github.com/kafka-reservoir/producer/protocol"
)

// stage is where a fault plays: the brokers, what passes between them and the producer, and the seed's choices. All methods
// are for the goroutine that plays, but for those that hooks call.
type stage struct {
	*rand.Rand                 // of the one who plays
	hooks      *rand.Rand      // of the Fault hook, which is called one at a time
	ctx        context.Context // ends when nothing more is to happen
	quick      bool            // Options.Quick
	seed       uint64          // for faults of which there are variants
	server     *testbroker.Server
	cluster    *testbroker.Cluster
	net        *network
	book       *book
	others     []*testbroker.Server // other clusters

	hits   atomic.Int64 // how often something went wrong
	fault  atomic.Pointer[func(*testbroker.Request) testbroker.Verdict]
	opened atomic.Pointer[func(node int32) testbroker.ConnVerdict]
	read   atomic.Pointer[func(testbroker.Partial) testbroker.ReadVerdict]

	mu       sync.Mutex // guards the fields below
	metadata []time.Time
	well     time.Time // since when the cluster is well again; zero: not yet
	since    int64     // journal entries from then on
}

func newStage(ctx context.Context, name string, seed uint64, quick bool) *stage {
	h := uint64(0xcbf29ce484222325)
	for _, c := range name {
		h = (h ^ uint64(c)) * 0x100000001b3
	}
	return &stage{
		Rand: rand.New(rand.NewPCG(seed, h)), hooks: rand.New(rand.NewPCG(seed, h+1)), ctx: ctx, quick: quick, seed: seed,
		net: newNetwork(),
	}
}

// start starts the brokers. Those above nodes are down, to be replacements.
func (s *stage) start(cfg testbroker.Config, spares int) error {
	cfg.Nodes, cfg.Listen, cfg.RetentionBytes, cfg.JournalLimit = nodes+spares, s.net.listen, -1, 100_000
	cfg.AutoCreate = testbroker.AutoCreateOff
	cfg.Fault = s.judge
	cfg.FaultOpen = func(node int32, _ testbroker.ConnID) testbroker.ConnVerdict {
		if f := s.opened.Load(); f != nil {
			return (*f)(node)
		}
		return testbroker.ConnVerdict{}
	}
	if cfg.FaultRead != nil {
		cfg.FaultRead = func(p testbroker.Partial) testbroker.ReadVerdict {
			if f := s.read.Load(); f != nil {
				return (*f)(p)
			}
			return testbroker.ReadVerdict{}
		}
	}
	server, err := testbroker.Start(cfg)
	if err != nil {
		return err
	}
	s.server, s.cluster = server, server.Cluster()
	for i := range spares {
		if err := server.StopNode(int32(nodes + 1 + i)); err != nil {
			return err
		}
	}
	return s.cluster.CreateTopic(testbroker.Topic{Name: topic, Partitions: partitions})
}

// calm waits until the brokers have carried out what they were asked, however late. The producer is gone by then.
func (s *stage) calm() {
	s.answers(nil)
	for at, ok := s.cluster.NextTick(); ok; at, ok = s.cluster.NextTick() {
		time.Sleep(max(time.Until(at), ms))
	}
}

// end stops all brokers.
func (s *stage) end() {
	_ = s.server.Close() // of its listeners, which may be closed
	for _, o := range s.others {
		_ = o.Close()
	}
	s.net.close()
}

// judge is the cluster's Fault hook.
func (s *stage) judge(r *testbroker.Request) testbroker.Verdict {
	if m, ok := r.Body.(*protocol.MetadataRequest); ok && (len(m.Topics) > 0 || r.AllTopics) {
		s.mu.Lock()
		s.metadata = append(s.metadata, r.At)
		s.mu.Unlock()
	}
	f := s.fault.Load()
	if f == nil {
		return testbroker.Verdict{}
	}
	v := (*f)(r)
	if v.String() != "" {
		s.struck()
	}
	return v
}

// struck counts something that went wrong.
func (s *stage) struck() { s.hits.Add(1) }

// answers has f decide about all requests; nil ends that.
func (s *stage) answers(f func(*testbroker.Request) testbroker.Verdict) {
	if f == nil {
		s.fault.Store(nil)
		return
	}
	s.fault.Store(&f)
}

// wait lets time pass; false when the play is over.
func (s *stage) wait(d time.Duration) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return true
	case <-s.ctx.Done():
		return false
	}
}

// pause waits for a time between lo and hi.
func (s *stage) pause(lo, hi time.Duration) bool { return s.wait(s.between(lo, hi)) }

func (s *stage) between(lo, hi time.Duration) time.Duration {
	d := lo + time.Duration(s.Int64N(int64(hi-lo)))
	if s.quick {
		d /= 20
	}
	return d
}

// last has something that requests meet go on for a time between lo and hi, and at least until it has struck a few times.
func (s *stage) last(lo, hi time.Duration) {
	if s.pause(lo, hi) {
		s.await(3)
	}
}

// await waits until the fault has struck so often, if it ever does. Any goroutine.
func (s *stage) await(hits int64) {
	limit := time.After(Options{Quick: s.quick}.patience())
	for s.hits.Load() < hits {
		select {
		case <-time.After(2 * ms):
		case <-limit:
			return
		case <-s.ctx.Done():
			return
		}
	}
}

// healed says that from now on the cluster is well.
func (s *stage) healed() {
	var since int64 = 1
	if all := s.cluster.Journal(0); len(all) > 0 {
		since = all[len(all)-1].Number
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.well.IsZero() {
		s.well, s.since = time.Now(), since
	}
}

// writing is how long after the cluster was well all partitions had written something that came to a broker after that; false
// while they have not.
func (s *stage) writing() (time.Duration, bool) {
	s.mu.Lock()
	well, since := s.well, s.since
	s.mu.Unlock()
	var first [partitions]time.Duration
	missing, longest := partitions, time.Duration(0)
	for _, e := range s.cluster.Journal(since) {
		if e.Request == nil || e.At.Before(well) || e.Done.IsZero() {
			continue
		}
		for i, res := range e.Results {
			b := &e.Request.Batches[i]
			if res.Appended && res.Answer == protocol.None && b.Topic == topic && first[b.Partition] == 0 {
				first[b.Partition] = max(e.Done.Sub(well), 1)
				longest = max(longest, first[b.Partition])
				missing--
			}
		}
	}
	return longest, missing == 0
}

// What faults are made of.

const nodes = 3

// node draws a broker.
func (s *stage) node() int32 { return int32(1 + s.IntN(nodes)) }

// otherThan draws a broker that is not the given one.
func (s *stage) otherThan(node int32) int32 {
	return (node+int32(s.IntN(nodes-1)))%nodes + 1
}

func (s *stage) leader(part int32) int32 {
	node, _ := s.cluster.Leader(topic, part)
	return node
}

func (s *stage) lead(part, node int32) {
	s.must(s.server.MoveLeader(topic, part, node))
	s.struck()
}

// spread gives the leaders back to the brokers as they were in the beginning.
func (s *stage) spread() {
	for part := range int32(partitions) {
		if to := part%nodes + 1; s.leader(part) != to {
			s.must(s.server.MoveLeader(topic, part, to))
		}
	}
}

func (s *stage) stopNode(node int32) {
	s.must(s.server.StopNode(node))
	s.struck()
}

func (s *stage) startNode(node int32) { s.must(s.server.StartNode(node)) }

// move has a stopped broker come back at another address.
func (s *stage) move(node int32) {
	l, err := s.net.elsewhere(node)
	if err == nil {
		err = s.server.StartNodeAt(node, l)
	}
	s.must(err)
}

// still takes all leaders away, so that logs stay as they are, and has the book read them.
func (s *stage) still(parts ...int32) {
	for _, p := range parts {
		s.must(s.server.MoveLeader(topic, p, testbroker.NoLeader))
		s.book.scan(s.cluster, p)
	}
}

// stranger starts a broker of another cluster, with a topic of the same name, at the address.
func (s *stage) stranger(addr string) {
	o, err := testbroker.Start(testbroker.Config{
		ClusterID: "another-cluster", Topics: []testbroker.Topic{{Name: topic, Partitions: partitions}},
		Listen: func(int32) (net.Listener, error) { return net.Listen("tcp", addr) },
	})
	s.must(err)
	if err == nil {
		s.others = append(s.others, o)
	}
	s.struck()
}

// must notes that the stage itself does not work, which fails the run.
func (s *stage) must(err error) {
	if err != nil && s.ctx.Err() == nil {
		s.book.breaks("the stage: %v", err)
	}
}

// every is all partitions.
func every() []int32 {
	p := make([]int32, partitions)
	for i := range p {
		p[i] = int32(i)
	}
	return p
}
