package sim

import (
	"time"

	"github.com/kafka-reservoir/producer/bufferpool"
)

// pain is how long it may take, after a kind of fault has ended, until all partitions are written to again: the figures of delivery
// 4, which are for a back-off of 100 ms. A world whose back-offs and time-outs are longer has more time, see recoveryTime.
type pain struct {
	within     time.Duration
	reconnects bool // connections are lost: add the back-off between attempts
	hangs      bool // requests hang: add a request timeout
	deaf       bool // so do attempts to connect, with all that is asked before a connection is up: add the longest of their timeouts
}

// pain of a kind of fault.
func (k Kind) pain() pain {
	switch k {
	case LeaderMove, LeaderFlap, StaleMetadata, Leaderless, RefuseCode, DoubtCode, PartialCode, TooLarge, Throttle, NoProducerID,
		OtherOrder, DuplicateCode, RecreateTopic, Unclean, ExpireProducer, ExpireAndFlap, Trickle,
		AnyRetriable, MetadataCode:
		return pain{within: 250 * time.Millisecond}
	case BreakRequest, BreakAnswer, DropBefore, DropAfter, CutAnswer, TLSAlert, HTTPAnswer, HugeFrame, NegativeFrame,
		WrongCorrelation, TruncatedBody, HugeArray, FuzzedAnswer, FuzzedMetadata, HostileAfter:
		return pain{within: 300 * time.Millisecond, reconnects: true}
	case BrokerBounce, OtherAddress, OtherCluster, ReplaceAll, RestartAll, GoneForGood:
		return pain{within: 500 * time.Millisecond, reconnects: true}
	case AcceptClose, RefuseConnect:
		return pain{within: time.Second, reconnects: true}
	case LoseRequest, LateRequest, SlowReader, FirstWrite:
		return pain{within: 500 * time.Millisecond, reconnects: true, hangs: true}
	case LateAnswer, HoldAnswer, DelayAppend, Swallow, HalfOpen, HangConnect, DeafBroker, Silence:
		return pain{within: 500 * time.Millisecond, reconnects: true, hangs: true, deaf: true}
	}
	return pain{} // of the application's making
}

// assumed is the back-off that the figures of delivery 4 include.
const assumed = 100 * time.Millisecond

// recoveryTime is how long it may take from the end of all faults until every partition was written to: what the worst kind of
// fault takes, and what the world's own settings add.
func (r *run) recoveryTime() time.Duration {
	p, c := r.p, &r.w.Config
	worst := pain{within: 250 * time.Millisecond}
	for _, k := range p.On() {
		is := k.pain()
		worst.within = max(worst.within, is.within)
		worst.reconnects = worst.reconnects || is.reconnects
		worst.hangs = worst.hangs || is.hangs
		worst.deaf = worst.deaf || is.deaf
	}
	if p.tooLargeUnseen() {
		worst.reconnects = true // whenever a batch is too large, and a burst has many
		worst.within += p.burstTime()
	}
	longer := func(backoff time.Duration) time.Duration { return max(backoff*6/5-assumed, 0) } // jitter adds a fifth
	d := worst.within + longer(c.RetryBackoffMax)
	if worst.reconnects {
		d += longer(c.ReconnectBackoffMax)
		// The budget for attempts to connect: half a second is for eight hosts.
		d += time.Duration(max(p.Nodes+p.Spares-8, 0)) * 62 * time.Millisecond
	}
	switch {
	case worst.deaf:
		d += max(c.RequestTimeout, c.SetupTimeoutMax*6/5)
	case worst.hangs:
		d += c.RequestTimeout
	}
	if p.Levels[NoProducerID] != Off {
		d += c.RetryBackoffMax * 6 / 5 // before the back-off of the first batch
	}
	if p.Levels[Throttle] != Off {
		d += maxThrottle // the last of them still lasts
	}
	backlog := float64(r.w.Pool.Total()-r.w.Pool.Available())/float64(p.Bandwidth) + r.backlog()/p.capacity()
	return d + r.turns() + p.Config.Cluster.LeaderDelay + 10*p.MaxLatency + time.Duration(backlog*float64(time.Second))
}

// backlog is how many records wait, counted as if all partitions had as many as the one that has most. That one gets through no faster
// when the others have nothing to send: a batch at a time is a share of the capacity.
func (r *run) backlog() float64 {
	if r.p.tooLargeUnseen() {
		return float64(r.b.open) // a broker's partitions take turns, and capacity is that of one already
	}
	most := 0
	for _, parts := range r.b.parts {
		for _, p := range parts {
			most = max(most, len(p.open))
		}
	}
	return max(float64(r.b.open), float64(most*r.p.Partitions))
}

// turns is how long it takes until every partition had its turn in the buffer, if each keeps it for a whole linger and, where there
// is not room for all, for a round trip. Who comes first is a matter of luck.
func (r *run) turns() time.Duration {
	linger := max(r.w.Config.Linger, 0)
	if want := int64(r.p.Partitions) * bufferpool.SlabSize; want > r.p.Config.BufferMemory {
		return (linger + r.p.roundTrip()) * time.Duration(2+want/r.p.Config.BufferMemory)
	}
	return linger
}

// mayTake is how long a partition may be without progress. Where a leader has forgotten what it had, that costs more: another
// request timeout, in which a batch without an answer may still be on its way in a slow broker, or a record that nobody knows
// the fate of, so that the next one has to linger.
func (b *Book) mayTake(p *partitionBook) time.Duration {
	if b.gapAt(p) < b.wellAt {
		return b.allowed
	}
	return b.allowed + b.more()
}

// gapAt is when a leader last forgot what p waits for: its own records, or, where not a slab was free when the cluster became well, those
// of any partition, which may hold the memory that a record of p needs.
func (b *Book) gapAt(p *partitionBook) time.Duration {
	last := p.gapAt
	if !b.short {
		return last
	}
	for _, parts := range b.parts {
		for _, q := range parts {
			last = max(last, q.gapAt)
		}
	}
	return last
}

func (b *Book) more() time.Duration { return b.w.Config.RequestTimeout + max(b.w.Config.Linger, 0) }

// recovered holds the partitions to it, when all of them have had their time.
func (r *run) recovered(more bool) {
	if r.ends > 0 {
		return
	}
	b := r.b
	for _, parts := range b.parts {
		for _, p := range parts {
			if p.progress < b.wellAt && b.gapAt(p) >= b.wellAt && more {
				r.w.Selector.In(b.more(), func() { r.recovered(false) })
				return
			}
		}
	}
	for _, parts := range b.parts {
		for _, p := range parts {
			if may := b.mayTake(p); p.progress < b.wellAt || p.recovery > may {
				b.violate("%v: no progress %v after the cluster became well", p, may)
			}
		}
	}
	r.beCalm(0)
	r.w.Selector.In(r.rand.between(0, 3*time.Second), r.end)
}
