package faultrun

import (
	"encoding/binary"
	"time"

	"github.com/kafka-reservoir/producer/internal/testbroker"
	"github.com/kafka-reservoir/producer/protocol"
)

// refusals say that nothing was written; doubts leave it open.
var (
	refusals = []protocol.ErrorCode{
		protocol.NotEnoughReplicas, protocol.LeaderNotAvailable, protocol.CorruptMessage, protocol.NotLeaderOrFollower, protocol.UnknownTopicOrPartition,
	}
	doubts = []protocol.ErrorCode{
		protocol.RequestTimedOut, protocol.NotEnoughReplicasAfterAppend, protocol.NetworkException, protocol.KafkaStorageError, protocol.NotLeaderOrFollower,
	}
	busy = []protocol.ErrorCode{protocol.CoordinatorLoadInProgress, protocol.CoordinatorNotAvailable, protocol.NotCoordinator}
)

// each gives some of the batches of a request a verdict of their own.
func each(s *stage, r *testbroker.Request, chance float64, code func(b *testbroker.Batch) protocol.ErrorCode, appends bool) (v testbroker.Verdict) {
	for i := range r.Batches {
		b := &r.Batches[i]
		if s.hooks.Float64() >= chance {
			continue
		}
		if c := code(b); c != protocol.None {
			v.Partitions = append(v.Partitions, testbroker.PartitionVerdict{Topic: b.Topic, Partition: b.Partition, Code: c, Append: appends})
		}
	}
	return v
}

// largest is what batches may have while the brokers are strict about it.
const largest = 10_000

var answerFaults = []*Fault{
	{
		Name: "retriable-codes", Title: "random retriable codes", Heals: fromErrors,
		How: "three in ten batches are refused with one of five codes, for 1 to 2 s",
		play: struckBy(protocol.KeyProduce, 1, func(s *stage, r *testbroker.Request) testbroker.Verdict {
			return each(s, r, 0.3, func(*testbroker.Batch) protocol.ErrorCode { return refusals[s.hooks.IntN(len(refusals))] }, false)
		}),
	},
	{
		Name: "error-after-append", Title: "error after the append", Heals: fromErrors,
		How: "three in ten batches are appended and answered one of five codes, for 1 to 2 s",
		play: struckBy(protocol.KeyProduce, 1, func(s *stage, r *testbroker.Request) testbroker.Verdict {
			return each(s, r, 0.3, func(*testbroker.Batch) protocol.ErrorCode { return doubts[s.hooks.IntN(len(doubts))] }, true)
		}),
	},
	{
		Name: "too-large", Title: "too large", Heals: fromErrors,
		How:      "batches above 10 KB are refused as too large for 1 to 2 s, where linger has made them about 50 KB",
		settings: func(c *Settings) { c.Linger = 50 * ms },
		play: struckBy(protocol.KeyProduce, 1, func(s *stage, r *testbroker.Request) testbroker.Verdict {
			return each(s, r, 1, func(b *testbroker.Batch) protocol.ErrorCode {
				if b.Size > largest {
					return protocol.MessageTooLarge
				}
				return protocol.None
			}, false)
		}),
	},
	{
		Name: "throttle", Title: "throttle", Heals: fromErrors,
		How:  "one in ten Produce answers asks for 100 to 500 ms of peace, for 1 to 2 s. It is over when the last of them is",
		play: throttle,
	},
	{
		Name: "no-producer-id", Title: "InitProducerId unavailable", Heals: fromErrors, early: true,
		How: "the producer's first InitProducerId requests are refused as for a coordinator that is not there yet, for 0.5 to 1.5 s",
		play: func(s *stage) {
			s.answers(func(r *testbroker.Request) testbroker.Verdict {
				if r.API != protocol.KeyInitProducerID {
					return testbroker.Verdict{}
				}
				return testbroker.Answer(busy[s.hooks.IntN(len(busy))])
			})
			s.last(500*ms, 1500*ms)
			s.answers(nil)
		},
	},
	{
		Name: "first-write", Title: "first write of a producer racing", Heals: fromErrors, early: true,
		How:     "the first one to three requests that bring a new producer's batch to a partition are refused there, and all others are not; logs take any first sequence",
		cluster: func(c *testbroker.Config, _ uint64) { c.Model = testbroker.Legacy },
		play:    firstWrite,
	},
	{
		Name: "expiry-in-flight", Title: "expiry while in flight", Heals: fromSilence, May: MayExpire,
		How:      "the delivery timeout is 2.5 s, for 3 to 4 s. Seeds 1, 4, …: one broker appends and does not answer; 2, 5, …: it appends up to 6 s later and does not answer; 3, 6, …: all brokers read 400 KB a second, so that batches expire while a connection writes them",
		settings: func(c *Settings) { c.DeliveryTimeout = requestTimeout + 500*ms },
		play:     expireInFlight,
	},
	{
		Name: "unknown-producer-id", Title: "unknown producer id", Heals: fromErrors,
		How: "one in ten batches is refused with UNKNOWN_PRODUCER_ID, for 1 to 2 s",
		play: struckBy(protocol.KeyProduce, 1, func(s *stage, r *testbroker.Request) testbroker.Verdict {
			return each(s, r, 0.1, func(*testbroker.Batch) protocol.ErrorCode { return protocol.UnknownProducerID }, false)
		}),
	},
}

func throttle(s *stage) {
	var until time.Time // the hook's, and read when there is none any more
	struckBy(protocol.KeyProduce, 0.1, func(s *stage, r *testbroker.Request) testbroker.Verdict {
		d := 100*ms + time.Duration(s.hooks.IntN(400))*ms
		if end := r.At.Add(d); end.After(until) {
			until = end
		}
		return testbroker.Verdict{Throttle: d}
	})(s)
	done := make(chan time.Time, 1)
	s.answers(func(*testbroker.Request) testbroker.Verdict { // hooks do not run at once: this one sees what the last one did
		select {
		case done <- until:
		default:
		}
		return testbroker.Verdict{}
	})
	select {
	case end := <-done:
		s.wait(time.Until(end))
	case <-s.ctx.Done():
	}
	s.answers(nil)
}

func firstWrite(s *stage) {
	var refused [partitions]int
	most := 2 - int(s.seed%2)
	left := most * partitions
	s.answers(func(r *testbroker.Request) (v testbroker.Verdict) {
		if r.API != protocol.KeyProduce {
			return v
		}
		v.Hold = 30 * ms
		for i := range r.Batches {
			b := &r.Batches[i]
			if b.Partition < partitions && refused[b.Partition] < most {
				refused[b.Partition]++
				left--
				v.Partitions = append(v.Partitions, testbroker.PartitionVerdict{
					Topic: b.Topic, Partition: b.Partition, Code: refusals[s.hooks.IntN(len(refusals))],
				})
			}
		}
		if left == 0 {
			s.healed()
		}
		return v
	})
	s.last(500*ms, time.Second)
	s.answers(nil)
}

func expireInFlight(s *stage) {
	node := s.node()
	if s.seed%3 == 0 {
		s.struck()
		for n := range int32(nodes) {
			s.net.crawl(n+1, true)
		}
		s.pause(3*time.Second, 4*time.Second)
		for n := range int32(nodes) {
			s.net.crawl(n+1, false)
		}
		return
	}
	s.answers(func(r *testbroker.Request) (v testbroker.Verdict) {
		switch {
		case r.API != protocol.KeyProduce || r.Node != node:
		case s.seed%3 == 1:
			v.Hold = 6 * time.Second
		default:
			v.Delay, v.Mute = time.Duration(s.hooks.Int64N(int64(6*time.Second))), true
		}
		return v
	})
	s.last(3*time.Second, 4*time.Second)
	s.answers(nil)
}

// bytesFor is a fault of answers that no broker would give: one in five of all requests meets it, for 1 to 2 s. Half of those
// that write have written.
func bytesFor(v func(s *stage, r *testbroker.Request) testbroker.Verdict) func(*stage) {
	return func(s *stage) {
		s.answers(func(r *testbroker.Request) testbroker.Verdict {
			if s.hooks.Float64() >= 0.2 {
				return testbroker.Verdict{}
			}
			w := v(s, r)
			if w.Rewrite != nil && r.API == protocol.KeyProduce {
				w.Skip = s.hooks.IntN(2) == 0
			}
			return w
		})
		s.last(time.Second, 2*time.Second)
		s.answers(nil)
	}
}

// rewritten is an answer changed by f.
func rewritten(f func(s *stage, frame []byte) []byte) func(*stage) {
	return bytesFor(func(s *stage, r *testbroker.Request) testbroker.Verdict {
		return testbroker.Verdict{Rewrite: func(frame []byte) []byte { return f(s, frame) }}
	})
}

const howBytes = "one in five answers, of all kinds, for 1 to 2 s: "

var byteFaults = []*Fault{
	{
		Name: "tls-alert", Title: "TLS alert", Heals: fromBytes, How: howBytes + "a TLS alert instead",
		play: rewritten(func(*stage, []byte) []byte { return []byte{0x15, 3, 3, 0, 2, 2, 70} }),
	},
	{
		Name: "http-answer", Title: "HTTP answer", Heals: fromBytes, How: howBytes + "HTTP/1.1 400 instead",
		play: rewritten(func(*stage, []byte) []byte {
			return []byte("HTTP/1.1 400 Bad Request\r\nContent-Type: text/plain; charset=utf-8\r\nConnection: close\r\n\r\n400 Bad Request")
		}),
	},
	{
		Name: "huge-frame", Title: "frame of 2 GB", Heals: fromBytes, How: howBytes + "the length prefix is 2^31-1",
		play: rewritten(func(_ *stage, f []byte) []byte { return append([]byte{0x7f, 0xff, 0xff, 0xff}, f[4:]...) }),
	},
	{
		Name: "negative-frame", Title: "negative frame", Heals: fromBytes, How: howBytes + "the length prefix is negative",
		play: rewritten(func(s *stage, f []byte) []byte {
			binary.BigEndian.PutUint32(f, 0x80000000|s.hooks.Uint32())
			return f
		}),
	},
	{
		Name: "wrong-correlation", Title: "wrong correlation id", Heals: fromBytes, How: howBytes + "the correlation id is another one",
		play: rewritten(func(s *stage, f []byte) []byte {
			binary.BigEndian.PutUint32(f[4:], binary.BigEndian.Uint32(f[4:])+1+uint32(s.hooks.IntN(3)))
			return f
		}),
	},
	{
		Name: "truncated-body", Title: "truncated body", Heals: fromBytes, How: howBytes + "the body ends early, and the length prefix says so",
		play: rewritten(func(s *stage, f []byte) []byte {
			f = f[:8+s.hooks.IntN(len(f)-8)]
			binary.BigEndian.PutUint32(f, uint32(len(f)-4))
			return f
		}),
	},
	{
		Name: "huge-array", Title: "huge array", Heals: fromBytes, How: "one in five Produce and Metadata answers for 1 to 2 s: the first array claims 2^31-2 elements",
		play: bytesFor(hugeArray),
	},
	{
		Name: "fuzzed", Title: "fuzzed response", Heals: fromBytes, How: howBytes + "random bytes behind the correlation id, of any length",
		play: rewritten(func(s *stage, f []byte) []byte {
			f = append(f[:8], make([]byte, s.hooks.IntN(2*len(f)))...)
			binary.BigEndian.PutUint32(f, uint32(len(f)-4))
			for i := 8; i < len(f); i++ {
				f[i] = byte(s.hooks.Uint32())
			}
			return f
		}),
	},
}

// hugeArray puts a large number where the first array's length is: behind the correlation id and the header's tags, and for
// Metadata the throttle time.
func hugeArray(_ *stage, r *testbroker.Request) testbroker.Verdict {
	at := 9
	switch {
	case r.API == protocol.KeyProduce && r.Version >= 9:
	case r.API == protocol.KeyMetadata && r.Version >= 9:
		at += 4
	default:
		return testbroker.Verdict{}
	}
	return testbroker.Verdict{Rewrite: func(f []byte) []byte {
		return append(f[:at], binary.AppendUvarint(nil, 1<<31-1)...)[:max(at+5, len(f))]
	}}
}
