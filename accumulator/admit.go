package accumulator

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/kafka-reservoir/producer/bufferpool"
	"github.com/kafka-reservoir/producer/metadata"
	"github.com/kafka-reservoir/producer/partitioner"
)

// admit waits for what an attempt lacked.
func (a *RecordAccumulator) admit(ctx context.Context, t *Topic, md *metadata.Topic, d *deque, choice *partitioner.Choice, v verdict, at *attempt, maxWait *time.Duration) error {
	switch v {
	case refused:
		return ErrClosed
	case shareFull:
		return a.admitShare(ctx, t, md, d, choice, at, maxWait)
	}
	if at.granted != nil {
		// An earlier grant that no longer suffices goes back first: two large records could each hold what
		// the other needs.
		a.pool.Release(at.granted)
		at.granted = nil
	}
	return a.wait(at, maxWait, func() (err error) {
		at.granted, err = a.pool.Allocate(ctx, nil, at.need, false, *maxWait)
		switch {
		case err == nil:
			return nil
		case errors.Is(err, bufferpool.ErrClosed):
			return ErrClosed
		case int64(at.need) <= a.pool.Total():
			a.noteShort()
		}
		return fmt.Errorf("append to %v: %w", d.tp, err)
	})
}

// admitShare waits for d's node to have room, or moves on to another one's partition.
func (a *RecordAccumulator) admitShare(ctx context.Context, t *Topic, md *metadata.Topic, d *deque, choice *partitioner.Choice, at *attempt, maxWait *time.Duration) error {
	sh := d.share.Load()
	if sh == nil {
		return nil // nothing bounds the partition
	}
	// Another partition's node may have room: one that is stuck must not hold up records that can go anywhere, unless
	// all partitions shall get the same. The partition is drawn, so that it may take several draws; but perhaps the
	// one with room is never drawn (its node counts as unavailable).
	movable := choice != nil && a.cfg.Adaptive
	if movable && at.switches < maxSwitches && a.roomElsewhere(t, md, at.mayWait) {
		at.switches++
		choice.Sticky().SwitchFrom(choice, md)
		return nil
	}
	if !at.mayWait {
		return fmt.Errorf("append to %v: %s; send less, or raise MaxBlock (max.block.ms): %w", d.tp, sh.filledBy(), bufferpool.ErrExhausted)
	}
	if at.granted != nil {
		a.pool.Release(at.granted) // a node that is stuck must not hold up others by what waits for it
		at.granted = nil
	}
	// What is waited for is no more if the leader has changed, or the accumulator was closed.
	over := func() bool { return a.closed.Load() || d.share.Load() != sh }
	upTo := *maxWait
	if movable {
		upTo = min(upTo, elsewhereEvery) // another node may have room long before this one
	}
	return a.wait(at, maxWait, func() error { return sh.wait(ctx, upTo, &a.timers, a.cfg.Wake, over) })
}

// wait runs f, which waits, and takes the time that was off what is left of maxWait.
func (a *RecordAccumulator) wait(at *attempt, maxWait *time.Duration, f func() error) error {
	var began time.Time
	if at.mayWait {
		began = a.cfg.Now()
	}
	if err := f(); err != nil {
		return err
	}
	at.now, at.waited, at.switches = time.Time{}, true, 0
	if at.mayWait {
		*maxWait -= max(a.cfg.Now().Sub(began), 0)
		if *maxWait <= 0 {
			// The time is over, but one more attempt costs no wait: with mayWait false the node's soft
			// bound no longer counts, and what was granted is used (ACC-34).
			*maxWait, at.mayWait = 0, false
		}
	}
	if a.closed.Load() {
		return ErrClosed
	}
	return nil
}

// maxSwitches is how many partitions an append without one of its own tries before it waits for a node's share.
const maxSwitches = 64

// elsewhereEvery is how often an append that may go anywhere looks whether another node has room.
const elsewhereEvery = 10 * time.Millisecond

// roomElsewhere reports whether some partition of the topic could take a record now.
func (a *RecordAccumulator) roomElsewhere(t *Topic, md *metadata.Topic, mayWait bool) bool {
	ds := t.deques.Load()
	for _, p := range md.Available() {
		if int(p) >= len(*ds) {
			return true
		}
		d := (*ds)[p].Load()
		if d == nil || !d.share.Load().full(mayWait) {
			return true
		}
	}
	return false
}
