package sim

import (
	"fmt"
	"io"
	"math/rand/v2"
	"strings"
	"time"

	"github.com/kafka-reservoir/producer/internal/testbroker"
	"github.com/kafka-reservoir/producer/protocol"
)

// Plan is a world and what will happen in it: all that a run depends on.
type Plan struct {
	Seed   uint64
	Levels [kinds]Level

	// Warmup is without faults, so is what comes after Faults.
	Warmup, Faults time.Duration
	// Bursts: faults come in bursts, with quiet times between them.
	Bursts bool

	Nodes, Spares int // brokers that are up at first, and those that can replace them
	Topics        int
	Partitions    int // of all topics together
	Config        Config

	MinLatency, MaxLatency time.Duration
	Bandwidth              int64 // bytes a second of one connection

	// The application.
	Senders  int
	Rate     float64 // records a second, all senders together
	Burst    int     // most records at once
	Callers  int     // who wait for each record before they send the next; half of the rate is theirs
	MinValue int
	MaxValue int
	Spread   spread // how records choose their partition
	Blocking bool   // an append that finds no memory tries again, as one that waits would
	Callback time.Duration
	Text     bool // values compress well

	SkipClusterCheck bool // connections do not ask for the cluster
	Assists          bool // callers and readers run iterations for a sender that sleeps

	Trace io.Writer // told of all that happens, if not nil
}

// spread is how records choose their partition.
type spread int

const (
	byApplication spread = iota
	byKey
	sticky
	mixed
)

// Options make a plan smaller. Zeros leave it as it was drawn.
type Options struct {
	Without    []Kind
	Plain      bool // nobody waits for a record, and nobody assists the sender: as plans were before they had that
	Faults     time.Duration
	Partitions int
	Trace      io.Writer // see Plan
}

// draw is a source of random choices.
type draw struct{ *rand.Rand }

// stream is one of the independent sources of a seed: what one of them is asked for does not change the others.
func stream(seed uint64, n int) draw { return draw{rand.New(rand.NewPCG(seed, uint64(n)))} }

func (d draw) between(lo, hi time.Duration) time.Duration {
	if hi <= lo {
		return lo
	}
	return lo + time.Duration(d.Int64N(int64(hi-lo)))
}

func (d draw) chance(of float64) bool { return d.Float64() < of }

func pick[T any](d draw, of ...T) T { return of[d.IntN(len(of))] }

// Draw makes the plan of a seed.
func Draw(seed uint64, o Options) Plan {
	d := stream(seed, 0)
	p := Plan{
		Seed:       seed,
		Warmup:     pick(d, 0, 0, time.Second),
		Faults:     d.between(2*time.Second, 40*time.Second),
		Bursts:     d.chance(0.5),
		Nodes:      1 + d.IntN(7),
		Topics:     pick(d, 1, 1, 1, 2, 3),
		Partitions: pick(d, 1, 1+d.IntN(4), 1+d.IntN(16), 1+d.IntN(64)),
		MinLatency: pick(d, 50*time.Microsecond, 500*time.Microsecond, 5*time.Millisecond),
		Bandwidth:  pick[int64](d, 2<<20, 20<<20, 1<<30),
		Senders:    1 + d.IntN(4),
		Rate:       pick[float64](d, 2, 10, 30, 60, 60, 200, 500),
		Burst:      pick(d, 1, 1, 5, 50),
		Spread:     spread(d.IntN(4)),
		Blocking:   d.chance(0.5),
		Text:       d.chance(0.5),
	}
	p.Trace = o.Trace
	p.MaxLatency = p.MinLatency * time.Duration(pick(d, 1, 2, 10))
	p.SkipClusterCheck = d.chance(0.2)
	p.Assists = stream(seed, 8).chance(0.5)
	if callers := stream(seed, 7); callers.chance(0.4) {
		p.Callers = 1 + callers.IntN(8)
	}
	if o.Plain {
		p.Assists, p.Callers = false, 0
	}
	p.drawConfig(d)
	p.Config.LeastPipe = pick[int64](stream(seed, 9), 0, 0, 300, 3000, 30_000) // with the default, ways never fill at these rates
	p.drawSizes(d)
	p.drawLevels(d)
	// Volume is what costs time and memory: large records come at a lower rate.
	if size := float64(p.MinValue+p.MaxValue)/2 + 50; p.Rate*size > 150_000 {
		p.Rate = 150_000 / size
	}

	// A world that cannot keep up when all is well says nothing about faults: brokers' and network's capacity has to be a few
	// times what is sent. It is that of one batch at a time per partition, as after an error.
	p.Rate = min(p.Rate, p.capacity()/4)
	if p.Spread != byApplication {
		p.Rate = min(p.Rate, p.capacity()/float64(p.Partitions)/2) // many keys are the same
	}
	// Neither does one in which attempts to connect are given up for nothing but the way, a fifth early by chance,
	p.Config.SetupTimeout = max(p.Config.SetupTimeout, p.setUp()*5/4)
	p.Config.SetupTimeoutMax = max(p.Config.SetupTimeoutMax, p.Config.SetupTimeout)
	// nor one in which a record's time is over before a new connection is up,
	for !p.timeToConnect() {
		p.Config.DeliveryTimeout += 4 * p.MaxLatency
	}
	// nor one in which a burst takes longer than the delivery timeout.
	for p.Burst > 1 && p.burstTime() > p.Config.DeliveryTimeout/3 {
		p.Burst /= 2
	}
	if p.Callback > 0 {
		p.Callback = min(p.Callback, time.Duration(0.3*float64(time.Second)/p.Rate))
	}

	for _, k := range o.Without {
		p.Levels[k] = Off
	}
	if p.Levels[SlowCallbacks] == Off {
		p.Callback = 0
	}
	if o.Faults > 0 {
		p.Faults = min(p.Faults, o.Faults)
	}
	if o.Partitions > 0 {
		p.Partitions = min(p.Partitions, o.Partitions)
	}
	p.Topics = min(p.Topics, p.Partitions)
	if p.Levels[ReplaceAll] != Off {
		p.Spares = p.Nodes
	}
	p.Config.Cluster.Nodes = p.Nodes + p.Spares
	p.Config.WallClock = p.Levels[WallClockJump] != Off
	return p
}

// generations are the releases that brokers are of; the newest one has more chances.
var generations = []*testbroker.Generation{
	testbroker.Kafka44, testbroker.Kafka44, testbroker.Kafka44, testbroker.Kafka40, testbroker.Kafka39,
	testbroker.Kafka28, testbroker.Kafka21, testbroker.Kafka11, testbroker.Kafka011,
}

func (p *Plan) drawConfig(d draw) {
	request := pick(d, 300*time.Millisecond, time.Second, 2*time.Second, 5*time.Second)
	linger := pick(d, -1, -1, time.Millisecond, 5*time.Millisecond, d.between(0, 100*time.Millisecond), 3*time.Second)
	backoff := pick(d, 20*time.Millisecond, 100*time.Millisecond, 100*time.Millisecond)
	c := Config{
		Seed:        p.Seed,
		MaxInFlight: pick(d, 1, 2, 3, 4, 5, 5, 5, 5),
		Linger:      linger,
		BatchSize:   pick(d, 1, 300, 2000, 16<<10, 16<<10, 64<<10, 256<<10),
		// Of a few batches, or of many.
		BufferMemory:        pick[int64](d, 64<<10, 256<<10, 4<<20, 32<<20),
		MaxRequestSize:      pick(d, 1<<20, 1<<20, 20<<10),
		RequestTimeout:      request,
		DeliveryTimeout:     max(linger, 0) + request + pick(d, 0, time.Second, 10*time.Second, 30*time.Second, 2*time.Minute, 2*time.Minute),
		RetryBackoff:        backoff,
		RetryBackoffMax:     backoff * time.Duration(pick(d, 1, 5, 10)),
		ReconnectBackoff:    pick(d, 20*time.Millisecond, 50*time.Millisecond),
		ReconnectBackoffMax: pick(d, 200*time.Millisecond, time.Second),
		SetupTimeout:        pick(d, 300*time.Millisecond, time.Second, 3*time.Second),
		MetadataMaxAge:      pick(d, 2*time.Second, 10*time.Second, 5*time.Minute),
		MetadataMaxIdle:     pick(d, 5*time.Second, time.Minute),
		IdleTimeout:         pick(d, 0, 0, 0, 3*time.Second),
		Codec:               pick(d, protocol.CodecNone, protocol.CodecNone, protocol.CodecNone, protocol.CodecLZ4, protocol.CodecSnappy, protocol.CodecZstd, protocol.CodecGzip),
	}
	c.SetupTimeoutMax = c.SetupTimeout * time.Duration(pick(d, 1, 2))
	switch d.IntN(20) {
	case 0:
		c.NotIdempotent = true
	case 1:
		c.NotIdempotent, c.MaxInFlight = true, 1
	case 2:
		c.Acks = 1
	case 3:
		c.AcksNone = true
	case 4:
		c.NotIdempotent, c.Retries = true, pick(d, -1, 1, 3)
	}
	gen := pick(d, generations...)
	if c.Codec == protocol.CodecZstd && (gen == testbroker.Kafka11 || gen == testbroker.Kafka011) {
		c.Codec = protocol.CodecLZ4
	}
	c.Cluster = testbroker.Config{
		Generation:      gen,
		Replicas:        pick(d, 1, 3, 3, 3),
		AutoCreate:      testbroker.AutoCreateOff,
		Model:           pick(d, testbroker.Strict, testbroker.Strict, testbroker.Strict, testbroker.Strict, testbroker.Legacy, testbroker.Forgetful),
		MaxMessageBytes: pick(d, 0, 0, 0, 20_000, 3000),
		LeaderDelay:     pick(d, 0, 0, 10*time.Millisecond, 100*time.Millisecond),
		RetentionBytes:  -1,
		JournalLimit:    -1,
	}
	if gen == testbroker.Kafka44 && d.chance(0.1) { // in the middle of an upgrade
		c.Cluster.NodeGenerations = map[int32]*testbroker.Generation{1: testbroker.Kafka39}
	}
	p.Config = c
}

func (p *Plan) drawSizes(d draw) {
	switch d.IntN(5) {
	case 0:
		p.MinValue, p.MaxValue = 0, 20
	case 1:
		p.MinValue, p.MaxValue = 0, 300
	case 2:
		p.MinValue, p.MaxValue = 100, 100
	case 3:
		p.MinValue, p.MaxValue = 0, 3000
	case 4:
		p.MinValue, p.MaxValue = 0, min(p.Config.BatchSize*3/2, 300_000)
	}
}

// drawLevels decides which faults there are. A few kinds at a time find most: many hide one another.
func (p *Plan) drawLevels(d draw) {
	most := pick(d, 0, 1, 1, 2, 2, 3, 3, 5, 8, 20)
	for range most {
		k := Kind(d.IntN(int(firstLater)))
		level := pick(d, Rare, Often)
		switch k {
		case CloseEarly, CloseForced, AllGone:
			if d.chance(0.5) {
				continue // worlds that end early see less
			}
		}
		p.Levels[k] = level
	}
	// Those that show little unless much comes together have more chances.
	for _, k := range []Kind{SlowReader, OtherAddress, Throttle, StaleMetadata, DuplicateCode, DoubtCode, PartialCode} {
		if d.chance(0.05) {
			p.Levels[k] = Often
		}
	}
	later := stream(p.Seed, 6)
	for k := firstLater; k < kinds; k++ {
		if level := pick(later, Rare, Often); later.chance(0.05) {
			p.Levels[k] = level
		}
	}
	if c := &p.Config; later.chance(0.4) && !p.idempotent() && c.MaxInFlight > 1 && !c.AcksNone && c.Retries >= 0 {
		// Only there later batches are taken when an earlier one is refused, if there are several in flight: without linger there would
		// be one request at a time.
		p.Levels[RefuseCode], p.Levels[HoldAnswer] = Often, Often
		p.Partitions, p.Rate, c.Linger = min(p.Partitions, 3), max(p.Rate, 100), time.Millisecond
	}
	for _, k := range []Kind{Flush, SlowCallbacks, SendFromCallback, Cancel} {
		if d.chance(0.2) {
			p.Levels[k] = pick(d, Rare, Often)
		}
	}
	if p.SkipClusterCheck {
		p.Levels[OtherCluster] = Off
	}
	if p.Levels[CloseForced] != Off {
		p.Levels[CloseEarly] = Off
	}
	if p.Levels[SlowReader] != Off && d.chance(0.5) {
		// Batches then expire while connections hold them.
		p.Config.DeliveryTimeout = max(p.Config.Linger, 0) + p.Config.RequestTimeout + 100*time.Millisecond
	}
	if p.Levels[SlowCallbacks] != Off {
		p.Callback = pick(d, time.Millisecond, 10*time.Millisecond, 100*time.Millisecond)
	}
}

// capacity is how many records a second get through at least, one batch at a time per partition.
func (p *Plan) capacity() float64 {
	size := float64(p.MinValue+p.MaxValue)/2 + 50
	batch, trips := min(p.Config.BatchSize, p.Config.MaxRequestSize), 1.0
	if most := p.maxMessage(); batch > most {
		batch, trips = most/2, 4 // most batches are too large, and go out several times in ever smaller parts
	}
	perBatch := max(float64(batch)/size, 1)
	if p.tooLargeUnseen() {
		return perBatch / (p.roundTrip() + p.newConnection()).Seconds() // all partitions of a broker wait for it
	}
	return float64(p.Partitions) * perBatch / p.roundTrip().Seconds() / trips
}

// tooLargeUnseen reports whether batches may be too large for the brokers with nobody to say so: without acknowledgements a batch
// that is refused costs its connection, and the client cannot know which of those in flight it was, so that it does not split it.
func (p *Plan) tooLargeUnseen() bool {
	c := &p.Config
	return c.AcksNone && max(min(c.BatchSize, c.MaxRequestSize), p.MaxValue+200) > p.maxMessage()
}

// newConnection is the longest that batches wait until they are sent again on another connection.
func (p *Plan) newConnection() time.Duration {
	return max(p.Config.RetryBackoffMax, p.Config.ReconnectBackoffMax)*6/5 + 4*2*p.MaxLatency
}

// burstTime is what it takes to send a few bursts to one partition.
func (p *Plan) burstTime() time.Duration {
	partitions := p.Partitions
	if p.tooLargeUnseen() {
		partitions = 1 // capacity is that of one already
	}
	return time.Duration(float64(2*p.Burst*p.Senders*partitions) / p.capacity() * float64(time.Second))
}

// maxMessage is the largest batch that the brokers take.
func (p *Plan) maxMessage() int {
	if n := p.Config.Cluster.MaxMessageBytes; n > 0 {
		return n
	}
	return p.Config.Cluster.Generation.MaxMessageBytes
}

// roundTrip is what a request takes at most when all is well.
func (p *Plan) roundTrip() time.Duration {
	return 2*p.MaxLatency + time.Duration(float64(p.Config.MaxRequestSize)/4/float64(p.Bandwidth)*float64(time.Second)) + time.Millisecond
}

// lateRequests reports whether a broker may carry out a request that the client has given up. After a silence it gets what was sent
// in it.
func (p *Plan) lateRequests() bool {
	l := &p.Levels
	return l[LateRequest] != Off || l[DelayAppend] != Off || l[SlowReader] != Off || l[FirstWrite] != Off ||
		l[Silence] != Off || l[Throttle] != Off // what waits on a muted connection is read when the time is over
}

// setUp is how long a new connection takes at most: to be made, two questions about versions, one about the cluster.
func (p *Plan) setUp() time.Duration { return 4 * 2 * p.MaxLatency }

// timeToConnect reports whether what is left of a record's time after its linger is enough for a new connection and a request. One that was closed because nothing
// used it is opened when the linger is over.
func (p *Plan) timeToConnect() bool {
	return p.Config.DeliveryTimeout-max(p.Config.Linger, 0) > p.setUp()+p.roundTrip()
}

// timeToSplit reports whether it is also enough to send all that one partition may have collected in a linger, where that goes out in ever
// smaller parts, one after the other.
func (p *Plan) timeToSplit() bool {
	c := &p.Config
	if min(c.BatchSize, c.MaxRequestSize) <= p.maxMessage() {
		return true
	}
	collected := p.Rate * max(c.Linger, 0).Seconds()
	one := p.capacity() / float64(p.Partitions)
	return collected/one < (c.DeliveryTimeout - max(c.Linger, 0)).Seconds()
}

// calm reports whether nothing ever goes wrong, as far as brokers and network are concerned.
func (p *Plan) calm() bool {
	for k := range p.Levels {
		switch Kind(k) {
		case SlowCallbacks, SendFromCallback, Cancel, Flush, WallClockJump, CloseEarly, CloseForced, OtherOrder, Throttle:
		default:
			if p.Levels[k] != Off {
				return false
			}
		}
	}
	return true
}

// idempotent reports whether the brokers keep order and refuse repetitions.
func (p *Plan) idempotent() bool {
	return !p.Config.NotIdempotent && p.Config.Acks != 1 && !p.Config.AcksNone && p.Config.Retries >= 0
}

// On lists the kinds of faults there are, other than off.
func (p *Plan) On() []Kind {
	var on []Kind
	for k, level := range p.Levels {
		if level != Off {
			on = append(on, Kind(k))
		}
	}
	return on
}

// String is what a failure report says of the plan.
func (p Plan) String() string {
	var s strings.Builder
	c := &p.Config
	fmt.Fprintf(&s, "%d+%d brokers (%s, %d replicas, model %d), %d topics, %d partitions, faults for %v",
		p.Nodes, p.Spares, c.Cluster.Generation.Name, c.Cluster.Replicas, c.Cluster.Model, p.Topics, p.Partitions, p.Faults)
	fmt.Fprintf(&s, "\nidempotent %v acks %d/%v in flight %d linger %v batch %d buffer %d pipe %d request timeout %v delivery timeout %v codec %v",
		p.idempotent(), c.Acks, c.AcksNone, c.MaxInFlight, c.Linger, c.BatchSize, c.BufferMemory, c.LeastPipe, c.RequestTimeout, c.DeliveryTimeout, c.Codec)
	fmt.Fprintf(&s, "\n%.0f records/s of %d to %d bytes in bursts of %d, %d who wait for each, latency %v to %v, %d bytes/s, assistants %v\nfaults:",
		p.Rate, p.MinValue, p.MaxValue, p.Burst, p.Callers, p.MinLatency, p.MaxLatency, p.Bandwidth, p.Assists)
	for _, k := range p.On() {
		s.WriteString(" " + k.String())
		if p.Levels[k] == Often {
			s.WriteString("+")
		}
	}
	return s.String()
}
