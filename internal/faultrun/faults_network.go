package faultrun

import (
	"math/rand/v2"
	"sync"
	"time"

	"github.com/kafka-reservoir/producer/internal/testbroker"
	"github.com/kafka-reservoir/producer/protocol"
)

const ms = time.Millisecond

// struckBy is a fault that requests meet: each of one API with that chance, for between one and two seconds.
func struckBy(api protocol.APIKey, chance float64, v func(*stage, *testbroker.Request) testbroker.Verdict) func(*stage) {
	return func(s *stage) {
		s.answers(func(r *testbroker.Request) testbroker.Verdict {
			if r.API != api || s.hooks.Float64() >= chance {
				return testbroker.Verdict{}
			}
			return v(s, r)
		})
		s.last(time.Second, 2*time.Second)
		s.answers(nil)
	}
}

var networkFaults = []*Fault{
	{
		Name: "reset-mid-request", Title: "reset mid-request", Heals: fromBytes,
		How:     "three in ten Produce requests are read up to some byte, then the connection is reset",
		play:    resetMidRequest,
		cluster: func(c *testbroker.Config, _ uint64) { c.FaultRead = noReadFault },
	},
	{
		Name: "reset-after-append", Title: "reset after the append and before the answer", Heals: fromBytes,
		How: "three in ten Produce requests are carried out, then the connection is reset",
		play: struckBy(protocol.KeyProduce, 0.3, func(*stage, *testbroker.Request) testbroker.Verdict {
			return testbroker.Verdict{Drop: testbroker.DropRST}
		}),
	},
	{
		Name: "half-answer", Title: "answer cut in half", Heals: fromBytes,
		How: "three in ten Produce requests are carried out, half of the answer is written, and the connection closed",
		play: struckBy(protocol.KeyProduce, 0.3, func(*stage, *testbroker.Request) testbroker.Verdict {
			return testbroker.Verdict{Rewrite: func(f []byte) []byte { return f[:len(f)/2] }, Cut: 1 << 20}
		}),
	},
	{
		Name: "trickle", Title: "answer one byte at a time", Heals: fromErrors,
		How: "all Produce answers come byte by byte, up to 2 ms apart",
		play: struckBy(protocol.KeyProduce, 1, func(s *stage, _ *testbroker.Request) testbroker.Verdict {
			return testbroker.Verdict{Trickle: 1, TricklePause: time.Duration(s.hooks.Int64N(int64(2 * ms)))}
		}),
	},
	{
		Name: "late-answer", Title: "answer later than the request timeout", Heals: fromSilence,
		How: "one in twenty Produce requests is carried out and answered after 2.2 to 3.5 s, with all behind it",
		play: struckBy(protocol.KeyProduce, 0.05, func(s *stage, _ *testbroker.Request) testbroker.Verdict {
			return testbroker.Verdict{Hold: late(s.hooks)}
		}),
	},
	{
		Name: "late-append", Title: "append later than the request timeout", Heals: fromSilence,
		How: "one in twenty Produce requests is carried out after 2.2 to 3.5 s, with all behind it, even if the client has hung up",
		play: struckBy(protocol.KeyProduce, 0.05, func(s *stage, _ *testbroker.Request) testbroker.Verdict {
			return testbroker.Verdict{Delay: late(s.hooks)}
		}),
	},
	{
		Name: "swallowed", Title: "request swallowed", Heals: fromSilence,
		How: "one in twenty Produce requests is never answered, nor any later one of its connection; half of them are not carried out",
		play: struckBy(protocol.KeyProduce, 0.05, func(s *stage, _ *testbroker.Request) testbroker.Verdict {
			return testbroker.Verdict{Mute: true, Skip: s.hooks.IntN(2) == 0}
		}),
	},
	{
		Name: "accept-close", Title: "accept then close", Heals: fromRefusals,
		How:  "one broker (every third seed: all) closes its connections, and every new one at once, for 1 to 2 s",
		play: acceptClose,
	},
	{
		Name: "silence", Title: "silence (packets vanish)", Heals: fromSilence,
		How:  "all connections of one broker go dead and stay open. Odd seeds: new ones work; even seeds: new ones are dead too, and the others lead within 200 ms. Recovery counts from there",
		play: silence,
	},
	{
		Name: "slow-reader", Title: "slow reader", Heals: fromSilence,
		How:  "one broker reads 400 KB a second of each connection for 3 to 4 s, from a small kernel buffer",
		play: slowReader,
		// More than it reads, and enough to fill the buffer.
		settings: func(c *Settings) { c.Rate = 4000 },
	},
}

// late draws a time that is longer than the request timeout.
func late(r *rand.Rand) time.Duration {
	return requestTimeout + 200*ms + time.Duration(r.Int64N(int64(1300*ms)))
}

func noReadFault(testbroker.Partial) testbroker.ReadVerdict { return testbroker.ReadVerdict{} }

func resetMidRequest(s *stage) {
	var mu sync.Mutex // readers of several connections
	f := func(p testbroker.Partial) (v testbroker.ReadVerdict) {
		mu.Lock()
		defer mu.Unlock()
		if p.API != protocol.KeyProduce || s.hooks.Float64() >= 0.3 {
			return v
		}
		s.struck()
		return testbroker.ReadVerdict{After: s.hooks.IntN(p.Size), Drop: testbroker.DropRST}
	}
	s.read.Store(&f)
	s.last(time.Second, 2*time.Second)
	s.read.Store(nil)
}

func acceptClose(s *stage) {
	node, all := s.node(), s.seed%3 == 0
	f := func(n int32) testbroker.ConnVerdict {
		if n != node && !all {
			return testbroker.ConnVerdict{}
		}
		s.struck()
		return testbroker.ConnVerdict{Drop: testbroker.DropFIN}
	}
	s.opened.Store(&f)
	if all {
		node = 0
	}
	s.server.CloseConns(node, testbroker.DropFIN)
	s.last(time.Second, 2*time.Second)
	s.opened.Store(nil)
}

func silence(s *stage) {
	node := s.node()
	s.struck()
	if s.seed%2 == 1 {
		s.net.silence(node, true)
		s.healed()
		return
	}
	s.net.silence(node, false)
	s.pause(0, 200*ms)
	s.must(s.cluster.NodeDown(node))
	s.healed()
}

func slowReader(s *stage) {
	node := s.node()
	s.struck()
	s.net.crawl(node, true)
	s.pause(3*time.Second, 4*time.Second)
	s.net.crawl(node, false)
}
