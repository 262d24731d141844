package faultrun

import (
	"time"

	"github.com/kafka-reservoir/producer/internal/testbroker"
)

var clusterFaults = []*Fault{
	{
		Name: "leader-moves", Title: "leader moves", Heals: fromErrors,
		How: "every partition moves to another broker, one after the other within half a second",
		play: func(s *stage) {
			for _, p := range s.Perm(partitions) {
				s.pause(0, 80*ms)
				s.lead(int32(p), s.otherThan(s.leader(int32(p))))
			}
		},
	},
	{
		Name: "leader-flaps", Title: "leader flaps", Heals: fromErrors,
		How: "half of the partitions move away and back two to six times, up to 150 ms apart",
		play: func(s *stage) {
			for range 2 + s.IntN(5) {
				for p := range int32(partitions / 2) {
					s.lead(2*p, s.otherThan(s.leader(2*p)))
				}
				s.pause(ms, 150*ms)
			}
			s.spread()
		},
	},
	{
		Name: "stale-metadata", Title: "stale metadata", Heals: fromErrors,
		How: "all brokers go on telling what was true before every partition moved, for 1 to 2 s",
		play: func(s *stage) {
			for n := range int32(nodes) {
				s.must(s.cluster.FreezeMetadata(n + 1))
			}
			for _, p := range every() {
				s.lead(p, s.otherThan(s.leader(p)))
			}
			s.pause(time.Second, 2*time.Second)
			for n := range int32(nodes) {
				s.must(s.cluster.ThawMetadata(n + 1))
			}
		},
	},
	{
		Name: "leaderless", Title: "leaderless partitions", Heals: fromAbsence,
		How: "half of the partitions have no leader for 0.5 to 2 s",
		play: func(s *stage) {
			for p := range int32(partitions / 2) {
				s.lead(2*p, testbroker.NoLeader)
			}
			s.pause(500*ms, 2*time.Second)
			s.spread()
		},
	},
	{
		Name: "broker-back", Title: "broker down and back (replicated)", Heals: fromAbsence,
		How: "one broker is down for 0.5 to 2 s, others lead its partitions until it is back",
		play: func(s *stage) {
			node := s.node()
			s.stopNode(node)
			s.pause(500*ms, 2*time.Second)
			s.startNode(node)
			s.spread()
		},
	},
	{
		Name: "broker-back-alone", Title: "broker down and back (not replicated)", Heals: fromAbsence,
		How:     "one broker is down for 0.5 to 2 s, and its partitions have no leader until it is back",
		cluster: alone,
		play: func(s *stage) {
			node := s.node()
			s.stopNode(node)
			s.pause(500*ms, 2*time.Second)
			s.startNode(node)
		},
	},
	{
		Name: "new-address", Title: "broker back at another address", Heals: fromAbsence,
		How:     "one broker goes and comes back on another port, odd seeds at once, even seeds after 0.2 to 1 s; its partitions wait for it",
		cluster: alone,
		play: func(s *stage) {
			node := s.node()
			s.stopNode(node)
			if s.seed%2 == 0 {
				s.pause(200*ms, time.Second)
			}
			s.move(node)
		},
	},
	{
		Name: "replace-all", Title: "all replaced one by one", Heals: fromAbsence, spares: nodes,
		How: "for each broker a new one starts elsewhere, takes its partitions, and the old one stops for good, 100 to 500 ms apart; no bootstrap address is left",
		play: func(s *stage) {
			for old := int32(1); old <= nodes; old++ {
				s.startNode(old + nodes)
				for _, p := range every() {
					if s.leader(p) == old {
						s.lead(p, old+nodes)
					}
				}
				s.pause(100*ms, 500*ms)
				s.stopNode(old)
			}
		},
	},
	{
		Name: "restart-all", Title: "all restart", Heals: fromAbsence,
		How: "all brokers go at once, and come back one by one after 0.3 to 1.5 s",
		play: func(s *stage) {
			for n := range int32(nodes) {
				s.stopNode(n + 1)
			}
			s.pause(300*ms, 1500*ms)
			for n := range int32(nodes) {
				s.startNode(n + 1)
				s.pause(0, 50*ms)
			}
			s.spread()
		},
	},
	{
		Name: "one-gone", Title: "gone for good (one of the brokers)", Heals: fromAbsence,
		How:  "one broker goes for good, and others lead its partitions at once",
		play: func(s *stage) { s.stopNode(s.node()) },
	},
	{
		Name: "all-gone", Title: "gone for good (all brokers)", Heals: never, May: MayExpire,
		How:      "all brokers go for good; the delivery timeout is 5 s",
		settings: func(c *Settings) { c.DeliveryTimeout = 5 * time.Second },
		play: func(s *stage) {
			for n := range int32(nodes) {
				s.stopNode(n + 1)
			}
			s.pause(500*ms, time.Second)
		},
	},
	{
		Name: "other-cluster", Title: "the address now belongs to another cluster", Heals: fromAbsence,
		How:     "one broker goes, and one of another cluster that has the same topic takes its address; after 0.5 to 1.5 s the first is back elsewhere",
		cluster: alone,
		play: func(s *stage) {
			node := s.node()
			addr := s.server.Addr(node)
			s.stopNode(node)
			s.stranger(addr)
			s.pause(500*ms, 1500*ms)
			s.move(node)
		},
	},
	{
		Name: "recreated-topic", Title: "topic deleted and recreated", Heals: fromAbsence,
		How: "the topic is deleted and made anew under another id, odd seeds at once, even seeds after 100 to 500 ms",
		play: func(s *stage) {
			s.still(every()...)
			s.must(s.cluster.DeleteTopic(topic))
			s.struck()
			for _, p := range every() {
				s.book.cut(p, 0)
			}
			if s.seed%2 == 0 {
				s.pause(100*ms, 500*ms)
			}
			s.must(s.cluster.CreateTopic(testbroker.Topic{Name: topic, Partitions: partitions}))
		},
	},
	{
		Name: "unclean-election", Title: "unclean election", Heals: fromErrors, May: MayDoubt,
		How: "half of the partitions get a leader that lacks the last 1 to 200 records, which are not counted as lost",
		play: func(s *stage) {
			for p := range int32(partitions / 2) {
				p *= 2
				to := s.otherThan(s.leader(p))
				s.still(p)
				s.must(s.cluster.UncleanElection(topic, p, to, 1+s.Int64N(200)))
				s.struck()
				s.book.cut(p, s.logEnd(p))
				s.pause(0, 100*ms)
			}
		},
	},
	{
		Name: "expired", Title: "producer state expired", Heals: fromErrors, May: MayDoubt,
		How: "every partition forgets its producers, two to four times, up to 300 ms apart. " + howForgotten, cluster: forgetting,
		play: func(s *stage) {
			for range 2 + s.IntN(3) {
				s.expire(false)
				s.pause(0, 300*ms)
			}
		},
	},
	{
		Name: "expired-flap", Title: "expired and then a leader flap", Heals: fromErrors, May: MayDoubt,
		How: "every partition forgets its producers and moves away and back, two to four times, up to 300 ms apart. " + howForgotten, cluster: forgetting,
		play: func(s *stage) {
			for range 2 + s.IntN(3) {
				s.expire(true)
				s.pause(0, 300*ms)
				s.spread()
			}
		},
	},
}

// alone gives each partition one replica.
func alone(c *testbroker.Config, _ uint64) { c.Replicas = 1 }

const howForgotten = "Odd seeds: a producer that expired gets UNKNOWN_PRODUCER_ID; even seeds: it is taken as a new one, as today's brokers do"

func forgetting(c *testbroker.Config, seed uint64) {
	if seed%2 == 0 {
		c.Model = testbroker.Legacy
	}
}

func (s *stage) expire(flap bool) {
	for _, p := range every() {
		s.must(s.cluster.ExpireProducers(topic, p))
		s.struck()
		if flap {
			s.lead(p, s.otherThan(s.leader(p)))
		}
	}
}

func (s *stage) logEnd(part int32) int64 {
	_, end := s.cluster.Offsets(topic, part)
	return end
}
