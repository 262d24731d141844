package million

import (
	"context"
	"fmt"
	"math/rand/v2"
	"time"
)

// Kind is a way of taking leaders from their nodes.
type Kind string

const (
	// Clean stops a node with SIGTERM: it hands its leaders over before it ends. It is then started again.
	Clean Kind = "clean"
	// Hard kills a node with SIGKILL, and starts it again when others have its leaders.
	Hard Kind = "hard"
	// Move moves all leaders while all nodes run.
	Move Kind = "move"
)

// maxFlight is about how long a burst of records is on its way.
const maxFlight = 20 * time.Millisecond

// ParseKind is the kind of this name.
func ParseKind(name string) (Kind, error) {
	switch k := Kind(name); k {
	case Clean, Hard, Move:
		return k, nil
	}
	return "", fmt.Errorf("kind of round %q: want %s, %s or %s", name, Clean, Hard, Move)
}

// Round is what one round showed. It ends when the node is back, all replicas are in sync, each partition has its
// preferred leader again, and what had to wait meanwhile is acknowledged.
type Round struct {
	Kind     Kind
	Node     int           // that went down; -1 for Move
	Leaders  int           // partitions that were led by it
	Unacked  int           // records sent and not acknowledged when it began
	Election time.Duration // until another node knew new leaders for all of those
	Recovery time.Duration // from then until each of those partitions had an acknowledgement
	Gap      time.Duration // the longest that one of those had none, in this time
	Others   time.Duration // the longest that one of the other partitions had none, in this time
	Slowest  time.Duration // the longest from a record's Send to its acknowledgement, in the whole round
	Failed   int           // records
	Took     time.Duration
}

// watch follows the acknowledgements of a round. Its methods do nothing on nil; run.mu guards it.
type watch struct {
	moving  map[int32]bool // the partitions whose leaders move
	last    map[int32]time.Time
	gap     map[bool]time.Duration // the longest of a partition without acknowledgement; by moving
	slowest time.Duration
	awaited map[int32]bool // those of moving without an acknowledgement since the election; nil before it
	closed  bool           // the gaps are known
	resumed chan time.Time // is sent the time when awaited got empty, once
}

func newWatch(moving []int, now time.Time) *watch {
	w := &watch{moving: map[int32]bool{}, last: map[int32]time.Time{}, gap: map[bool]time.Duration{}, resumed: make(chan time.Time, 1)}
	for _, p := range moving {
		w.moving[int32(p)] = true
	}
	for p := range int32(partitions) {
		w.last[p] = now
	}
	return w
}

// acked is told of each acknowledgement, and how long after Send it came.
func (w *watch) acked(partition int32, now time.Time, after time.Duration) {
	if w == nil {
		return
	}
	w.slowest = max(w.slowest, after)
	if w.closed {
		return
	}
	moving := w.moving[partition]
	w.gap[moving] = max(w.gap[moving], now.Sub(w.last[partition]))
	w.last[partition] = now
	if w.awaited == nil {
		return
	}
	delete(w.awaited, partition)
	if len(w.awaited) == 0 {
		w.closed = true
		w.resumed <- now
	}
}

// elected begins the wait for an acknowledgement from each new leader.
func (w *watch) elected() {
	w.awaited = make(map[int32]bool)
	for p := range w.moving {
		w.awaited[p] = true
	}
}

// bounceAll plays all rounds.
func (r *run) bounceAll(ctx context.Context) error {
	for i, kind := range r.o.Rounds {
		round, err := r.bounce(ctx, i, kind)
		if err != nil {
			return fmt.Errorf("round %d (%s): %w", i+1, kind, err)
		}
		r.rounds = append(r.rounds, round)
		r.o.Logf("round %d of %d: %s", i+1, len(r.o.Rounds), round)
	}
	return nil
}

// String is the round in words.
func (r Round) String() string {
	ms := func(d time.Duration) time.Duration { return d.Round(time.Millisecond) }
	return fmt.Sprintf("%s, node %d: %d leaders moved in %v with %d records unacknowledged; writing again %v later (gap %v, others %v, slowest record %v, %d failed); all in %v",
		r.Kind, r.Node, r.Leaders, ms(r.Election), r.Unacked, ms(r.Recovery), ms(r.Gap), ms(r.Others), ms(r.Slowest), r.Failed, ms(r.Took))
}

// bounce plays one round, on the leader of a partition that is another in each.
func (r *run) bounce(ctx context.Context, i int, kind Kind) (Round, error) {
	node, witness := -1, 0
	old, err := r.cluster.Leaders(ctx, r.topic, witness)
	if err != nil {
		return Round{}, err
	}
	if kind != Move {
		node = old[i%partitions]
		witness = (node + 1) % r.cluster.Nodes()
	}
	var moving []int
	for p, leader := range old {
		if kind == Move || leader == node {
			moving = append(moving, p)
		}
	}
	// Half a burst of records is to be on its way, so that something can be lost; how far each has come is left to chance. Where both sides are too fast
	// for so many, it is half as many after each second.
	many, less := r.o.Rate/20, time.Now().Add(time.Second)
	if err := r.await(ctx, func() bool {
		if now := time.Now(); now.After(less) && many > 1 {
			many, less = many/2, now.Add(time.Second)
		}
		return r.unacked() >= many
	}); err != nil {
		return Round{}, err
	}
	time.Sleep(rand.N(maxFlight))
	begin := time.Now()
	w := newWatch(moving, begin)
	r.setWatch(w)
	defer r.setWatch(nil)
	round := Round{Kind: kind, Node: node, Leaders: len(moving), Unacked: r.unacked()}
	failed := r.failed.Load()

	// The new leaders are awaited while the node stops: in order, it has none any more long before it has ended.
	elected := make(chan error, 1)
	electing, cancel := context.WithTimeout(ctx, settleTimeout)
	defer cancel()
	var at time.Time
	go func() { // ends when there are new leaders, or with electing; waited for below
		err := r.cluster.AwaitNewLeaders(electing, r.topic, moving, old, witness)
		at = time.Now()
		r.mu.Lock()
		w.elected()
		r.mu.Unlock()
		elected <- err
	}()
	if err := r.take(electing, kind, node); err != nil {
		cancel()
		<-elected
		return round, fmt.Errorf("taking the leaders: %w", err)
	}
	if err := <-elected; err != nil {
		return round, fmt.Errorf("waiting for new leaders: %w", err)
	}
	round.Election = at.Sub(begin)
	select {
	case resumed := <-w.resumed:
		round.Recovery = resumed.Sub(at)
	case <-time.After(settleTimeout):
		return round, fmt.Errorf("a new leader has acknowledged nothing for %v, %d records have failed", settleTimeout, r.failed.Load()-failed)
	case <-ctx.Done():
		return round, fmt.Errorf("waiting for acknowledgements of the new leaders: %w", ctx.Err())
	}
	settling, settled := context.WithTimeout(ctx, settleTimeout)
	defer settled()
	if err := r.restore(settling, kind, node); err != nil {
		return round, err
	}
	if err := r.await(settling, func() bool { return r.unacked() <= r.o.Rate/10 }); err != nil {
		return round, fmt.Errorf("waiting for acknowledgements of what had to wait: %w", err)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	round.Gap, round.Others, round.Slowest = w.gap[true], w.gap[false], w.slowest
	round.Failed = int(r.failed.Load() - failed)
	round.Took = time.Since(begin)
	return round, nil
}

// take takes leaders from their nodes.
func (r *run) take(ctx context.Context, kind Kind, node int) error {
	switch kind {
	case Clean:
		return r.cluster.Terminate(node)
	case Hard:
		return r.cluster.Kill(node)
	case Move:
		return r.cluster.MoveLeaders(ctx, r.topic)
	}
	return fmt.Errorf("kind of round %q", kind)
}

// restore brings the cluster back to where all nodes lead their share.
func (r *run) restore(ctx context.Context, kind Kind, node int) error {
	if kind != Move {
		if err := r.cluster.StartNode(ctx, node); err != nil {
			return err
		}
	}
	if err := r.cluster.WaitInSync(ctx); err != nil {
		return err
	}
	if !r.cluster.AtLeast(2, 2) {
		return nil // leaders stay where they are
	}
	return r.cluster.ElectPreferred(ctx, r.topic)
}

// await returns when it is so.
func (r *run) await(ctx context.Context, so func() bool) error {
	for !so() {
		select {
		case <-time.After(100 * time.Microsecond):
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	return nil
}

func (r *run) unacked() int { return int(r.sent.Load() - r.acked.Load() - r.failed.Load()) }

func (r *run) setWatch(w *watch) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.watch = w
}
