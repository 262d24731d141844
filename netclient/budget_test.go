package netclient

import (
	"cmp"
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/kafka-reservoir/producer/protocol"
)

// outage is hosts that were connected, hang up all together, refuse for a while, and are back. Records wait for all of them.
type outage struct {
	hosts  int
	wanted int // records wait for so many; 0: for all
	away   time.Duration
	fresh  bool                 // they were not connected before
	boots  bool                 // each host is a bootstrap server too, and metadata is due
	others int                  // so many hosts are bootstrap servers, and metadata is due
	late   func() time.Duration // how late the loop wakes; nil: never
	config Config

	tries     []time.Time
	gap       time.Duration // the longest time for which a host that is away was left alone
	recovered time.Duration // after they were back, until the last one is connected
}

func (o *outage) run(t *testing.T) {
	t.Helper()
	r := newRig(t, o.config, seq(1, int32(o.hosts))...)
	var all []protocol.Node
	for id := int32(o.hosts + o.others); id > 0; id-- {
		if b := r.node(id); o.boots || id > int32(o.hosts) {
			b.ID = -1 - id
			all = append(all, b)
		}
	}
	r.md.nodes = append(all, r.md.nodes...)
	if !o.fresh {
		for id := range int32(o.hosts) {
			r.connect(id + 1) // a client that starts waits for nothing
		}
		require.Equal(t, t0, r.now)
		r.pass(2 * time.Second)
	}
	tried := map[string]time.Time{}
	began := r.now
	r.sel.onConnect = func(n protocol.Node, _ time.Duration) {
		o.tries = append(o.tries, r.sel.now)
		if r.sel.now.Sub(began) >= o.away {
			r.sel.up(ms, n.ID, apis())
			return
		}
		if at, ok := tried[n.Addr()]; ok {
			o.gap = max(o.gap, r.sel.now.Sub(at))
		}
		tried[n.Addr()] = r.sel.now
		r.sel.gone(ms, n.ID, errReset)
	}
	if !o.fresh {
		for id := range int32(o.hosts) {
			r.sel.gone(0, id+1, errReset)
		}
		r.poll(0)
	}
	if len(all) > 0 {
		r.md.dueAt = r.now
	}
	wanted := cmp.Or(o.wanted, o.hosts)
	for range 100_000 {
		require.Less(t, r.now.Sub(began), o.away+10*time.Second)
		wait, up := 10*time.Second, 0
		for id := range int32(wanted) {
			switch {
			case r.Ready(r.node(id+1), r.now):
				up++
			case r.state(id+1) == nodeIdle:
				d := r.PollDelay(id+1, r.now)
				require.Positive(t, d, "the sender would spin")
				wait = min(wait, d)
			}
		}
		if up == wanted {
			o.recovered = r.now.Sub(began) - o.away
			return
		}
		if o.late != nil {
			r.sel.now = r.sel.now.Add(o.late())
			r.now = r.sel.now
		}
		r.poll(wait)
	}
	t.Fatal("no time passes")
}

// mostWithin is how many of these ascending times lie within d, at most.
func mostWithin(d time.Duration, times []time.Time) (most int) {
	for from := range times {
		n := from
		for n < len(times) && times[n].Sub(times[from]) < d {
			n++
		}
		most = max(most, n-from)
	}
	return most
}

// Delivery 4: at most 20 attempts a second over all brokers, or about one for each if they are more, and none is left alone for long, also where the loop is
// always late.
func TestBudget(t *testing.T) {
	for _, hosts := range []int{1, 3, 6, 10, 20, 40} {
		for _, boots := range []bool{false, true} {
			for _, late := range []time.Duration{0, ms, 30 * ms, 60 * ms, 100 * ms} {
				t.Run(fmt.Sprintf("%d hosts, bootstrap %v, up to %v late", hosts, boots, late), func(t *testing.T) {
					rnd := rand.New(rand.NewPCG(1, 1))
					o := outage{hosts: hosts, boots: boots, away: 20 * time.Second, config: Config{Rand: rnd.IntN}}
					if late > 0 {
						o.late = func() time.Duration { return late/2 + time.Duration(rnd.Int64N(int64(late/2))) }
					}
					o.run(t)
					nodes := hosts
					if boots {
						nodes *= 2
					}
					assert.LessOrEqual(t, mostWithin(time.Second, o.tries), max(20, nodes))
					assert.Less(t, o.gap, 1600*ms+2*late)
				})
			}
		}
	}
}

// Delivery 4: brokers that are back are connected within half a second, if they are up to eight hosts with the bootstrap servers, or few of them are wanted.
func TestBudgetLetsRecover(t *testing.T) {
	for _, o := range []outage{
		{hosts: 1}, {hosts: 3}, {hosts: 6}, {hosts: 8}, {hosts: 3, boots: true}, {hosts: 6, boots: true}, {hosts: 8, boots: true},
		{hosts: 3, others: 3}, {hosts: 5, others: 3}, {hosts: 8, others: 3, wanted: 1}, {hosts: 16, wanted: 1}, {hosts: 16, others: 3, wanted: 1},
	} {
		for away := 50 * ms; away < 4*time.Second; away += 50 * ms {
			for seed := range uint64(3) {
				o.away, o.config.Rand = away, rand.New(rand.NewPCG(seed, 1)).IntN
				o.run(t)
				require.LessOrEqual(t, o.recovered, 500*ms, "%+v, seed %d", o, seed)
			}
		}
	}
}

// A client that starts while all brokers are away: the first attempts are in the second's twenty.
func TestBudgetOfAStart(t *testing.T) {
	for _, hosts := range []int{3, 10, 19, 20, 21, 30, 60} {
		for seed := range uint64(10) {
			o := outage{hosts: hosts, fresh: true, away: 5 * time.Second, config: Config{Rand: rand.New(rand.NewPCG(seed, 1)).IntN}}
			o.run(t)
			require.LessOrEqual(t, mostWithin(time.Second, o.tries), max(20, hosts), "%d hosts, seed %d", hosts, seed)
		}
	}
}

// Wrong metadata may have several brokers at one address, which a bootstrap server has too: what waits for one place there uses one.
func TestBudgetOfManyAtOneAddress(t *testing.T) {
	r := newRig(t, Config{ReconnectBackoff: 10 * ms, ReconnectBackoffMax: 50 * ms}, 1, 2, 3, 4, 5, 6)
	for i := range r.md.nodes {
		r.md.nodes[i].Host, r.md.nodes[i].Port = "host", 9092
	}
	brokers := r.md.nodes
	r.md.nodes = append([]protocol.Node{{ID: -1, Host: "host", Port: 9092}}, brokers...)
	var tries []time.Time
	r.sel.onConnect = func(n protocol.Node, _ time.Duration) {
		tries = append(tries, r.sel.now)
		r.sel.gone(0, n.ID, errReset)
	}
	r.md.dueAt = r.now
	for end := r.now.Add(5 * time.Second); r.now.Before(end); {
		wait := time.Second
		for _, n := range brokers {
			r.Ready(n, r.now)
			if r.state(n.ID) == nodeIdle {
				wait = min(wait, r.PollDelay(n.ID, r.now))
			}
		}
		r.poll(wait)
	}
	assert.LessOrEqual(t, mostWithin(time.Second, tries), 20)
}

// A broker whose address changes keeps its place: while brokers do not agree on where it is, each change would take another one.
func TestBudgetOfWhoMoves(t *testing.T) {
	r := newRig(t, Config{}, 1)
	r.fail(1)
	r.spend()
	r.Ready(r.node(1), r.now)
	wait, next := r.PollDelay(1, r.now), r.budget.next
	require.Positive(t, wait)
	moved := r.node(1)
	moved.Host = "elsewhere"
	for range 10 {
		r.Ready(moved, r.now)
		r.Ready(r.node(1), r.now)
	}
	assert.Equal(t, next, r.budget.next)
	r.md.nodes = []protocol.Node{moved}
	r.pass(max(wait, r.find(1).retryAt.Sub(r.now)))
	r.Ready(moved, r.now)
	assert.Equal(t, nodeConnecting, r.state(1))
}

// A pause that is always short is stretched for three brokers by no more than it takes to try all of them.
func TestBudgetOfShortPauses(t *testing.T) {
	for away := 50 * ms; away < 4*time.Second; away += 50 * ms {
		o := outage{hosts: 3, away: away, config: Config{ReconnectBackoff: 10 * ms, ReconnectBackoffMax: 50 * ms}}
		o.run(t)
		require.LessOrEqual(t, o.recovered, 200*ms, "away for %v", away)
		require.LessOrEqual(t, mostWithin(time.Second, o.tries), 20)
	}
}

// spend uses up what is free, so that whoever comes next has to wait.
func (r *rig) spend() {
	for r.budget.next.Sub(r.now) < time.Second {
		r.budget.take(r.now, 1)
	}
}

// fail has a node be one that was tried and may be tried again.
func (r *rig) fail(id int32) {
	r.Ready(r.node(id), r.now)
	r.sel.gone(0, id, errReset)
	r.poll(0)
	r.pass(r.PollDelay(id, r.now))
}

// A place is kept for a while, and whoever comes later still asks for another one: attempts must not bunch.
func TestBudgetPlaceIsKeptShortly(t *testing.T) {
	r := newRig(t, Config{}, 1, 2)
	r.fail(1)
	r.fail(2)
	began := len(r.sel.connects)
	r.spend()
	r.Ready(r.node(1), r.now)
	r.Ready(r.node(2), r.now)
	require.Len(t, r.sel.connects, began)
	require.Less(t, r.PollDelay(1, r.now), r.PollDelay(2, r.now), "first come, first served")
	assert.False(t, r.find(1).canConnect(r.now), "and nobody is to think otherwise")
	r.pass(r.PollDelay(1, r.now) + placeKept)
	r.spend()
	r.Ready(r.node(1), r.now)
	require.Len(t, r.sel.connects, began+1, "late, but not too late")
	assert.Zero(t, r.find(1).place, "it is used")
	r.pass(pace + ms)
	r.Ready(r.node(2), r.now)
	require.Len(t, r.sel.connects, began+1, "too late")
	r.pass(r.PollDelay(2, r.now))
	r.Ready(r.node(2), r.now)
	require.Len(t, r.sel.connects, began+2)
}

// The metadata's wish for a connection waits for its place like everybody's, and Poll sleeps until then. Whose place is due comes before who was
// not tried for longer, but has none.
func TestBudgetOfMetadata(t *testing.T) {
	r := newRig(t, Config{}, 1, 2)
	r.fail(2)
	r.pass(time.Second)
	r.fail(1)
	r.spend()
	r.Ready(r.node(1), r.now)
	wait := r.PollDelay(1, r.now)
	require.Positive(t, wait)
	r.find(2).retryAt = r.now.Add(wait)
	began, n := r.now, len(r.sel.connects)
	r.md.dueAt = r.now
	r.poll(-1)
	r.poll(ms)
	require.Len(t, r.sel.connects, n+1)
	assert.Equal(t, int32(1), r.sel.connects[n].node.ID)
	assert.LessOrEqual(t, r.now.Sub(began), wait+ms)
}

// A broker and the bootstrap server at its address are one host: they wait for one place, and when one has answered, the other goes at once.
func TestBudgetOfOneHost(t *testing.T) {
	for _, answers := range []bool{false, true} {
		r := newRig(t, Config{}, 1)
		boot := r.node(1)
		boot.ID = -1
		r.Ready(boot, r.now)
		r.sel.gone(0, -1, errReset)
		r.poll(0)
		r.fail(1)
		r.spend()
		r.pass(100 * ms)
		r.Ready(r.node(1), r.now)
		next := r.budget.next
		wait := r.PollDelay(1, r.now)
		require.Positive(t, wait)
		r.Ready(boot, r.now)
		require.Equal(t, wait, r.PollDelay(-1, r.now))
		require.Equal(t, next, r.budget.next, "counted once")
		r.pass(wait)
		r.Ready(boot, r.now)
		require.Equal(t, nodeConnecting, r.state(-1))
		if answers {
			r.sel.up(0, -1, apis())
			r.poll(0)
			r.Ready(r.node(1), r.now)
			assert.Equal(t, nodeConnecting, r.state(1))
			continue
		}
		assert.Zero(t, r.find(1).place)
		r.sel.gone(0, -1, errReset)
		r.poll(0)
		r.Ready(r.node(1), r.now)
		assert.Equal(t, nodeIdle, r.state(1))
	}
}

// Metadata that is due goes to a broker that was never tried while others, for which records wait, queue for their places: it needs none.
func TestBudgetOfMetadataWhileOthersWait(t *testing.T) {
	r := newRig(t, Config{Rand: rand.New(rand.NewPCG(1, 1)).IntN}, seq(1, 18)...)
	var tries []time.Time
	asked := time.Time{}
	r.sel.onConnect = func(n protocol.Node, _ time.Duration) {
		tries = append(tries, r.sel.now)
		if n.ID <= 16 {
			r.sel.gone(ms, n.ID, errReset)
			return
		}
		if asked.IsZero() {
			asked = r.sel.now
		}
		r.sel.up(ms, n.ID, apis())
	}
	began := r.now
	for range 1000 {
		wait := 100 * ms
		for id := range int32(16) {
			r.Ready(r.node(id+1), r.now)
			if r.state(id+1) == nodeIdle {
				wait = min(wait, r.PollDelay(id+1, r.now))
			}
		}
		if r.now.Sub(began) >= 100*ms && r.md.dueAt.IsZero() {
			r.md.dueAt = r.now
		}
		r.poll(wait)
	}
	require.False(t, asked.IsZero())
	assert.Less(t, asked.Sub(began), 500*ms)
	assert.LessOrEqual(t, mostWithin(time.Second, tries), 20)
}
