package sender

import (
	"context"
	"sync"
	"sync/atomic"
)

// Task is something for the callback goroutine: a batch whose records are to be told of their fate.
type Task interface {
	Run()
}

// weighted is a Task that holds memory while it waits.
type weighted interface {
	RawSize() int
}

// Dispatcher runs the callbacks, on one goroutine of their own and in the order in which their records were
// settled: user code can then be slow, block or send again without stopping the sender, and a
// partition's callbacks stay in order.
type Dispatcher struct {
	limit   int64  // bytes of records that may wait for their callbacks before the sender stops draining
	relaxed func() // called when the backlog falls below the limit again

	backlog atomic.Int64
	full    atomic.Bool

	mu     sync.Mutex // guards the fields below; a leaf
	queue  []Task
	spare  []Task // the slice run worked on last, to be used again
	asleep bool
	closed bool
	wake   chan struct{} // one slot
	done   chan struct{}
}

// NewDispatcher starts the callback goroutine. relaxed may be nil.
func NewDispatcher(limit int64, relaxed func()) *Dispatcher {
	d := &Dispatcher{limit: limit, relaxed: relaxed, wake: make(chan struct{}, 1), done: make(chan struct{})}
	go d.run() // ends when Close was called and the queue is empty; Done reports it
	return d
}

// Enqueue adds a task. It never waits. After the goroutine has ended the task is dropped: false.
func (d *Dispatcher) Enqueue(t Task) bool {
	if w, ok := t.(weighted); ok {
		if d.backlog.Add(int64(w.RawSize())) > d.limit {
			d.full.Store(true)
		}
	}
	d.mu.Lock()
	if d.closed && d.asleep { // it has ended, or is about to
		d.mu.Unlock()
		return false
	}
	d.queue = append(d.queue, t)
	wake := d.asleep
	d.asleep = false
	d.mu.Unlock()
	if wake {
		d.wake <- struct{}{}
	}
	return true
}

// Full reports whether so much waits for its callbacks that nothing more should be sent.
func (d *Dispatcher) Full() bool { return d.full.Load() }

// Close lets the goroutine end once the queue is empty.
func (d *Dispatcher) Close() {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.closed {
		return
	}
	d.closed = true
	if d.asleep {
		d.wake <- struct{}{} // asleep stays true: nothing may come in any more
	}
}

// Done is closed when the goroutine has ended.
func (d *Dispatcher) Done() <-chan struct{} { return d.done }

// barrier is a task that tells when everything before it has run.
type barrier chan struct{}

func (b barrier) Run() { close(b) }

// Await waits until every task queued before the call has run, or ctx ends.
func (d *Dispatcher) Await(ctx context.Context) error {
	b := make(barrier)
	if !d.Enqueue(b) {
		return nil
	}
	select {
	case <-b:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

func (d *Dispatcher) run() {
	defer close(d.done)
	for {
		d.mu.Lock()
		work := d.queue
		if len(work) == 0 {
			d.asleep = true
			if d.closed {
				d.mu.Unlock()
				return
			}
			d.mu.Unlock()
			<-d.wake
			continue
		}
		d.queue = d.spare[:0] // from here on spare is not spare: work takes its place below
		d.mu.Unlock()
		for i, t := range work {
			size := 0
			if w, ok := t.(weighted); ok {
				size = w.RawSize() // before Run, which may give the batch away
			}
			t.Run()
			work[i] = nil
			if size > 0 && d.backlog.Add(int64(-size)) <= d.limit/2 && d.full.Load() {
				d.full.Store(false)
				if d.relaxed != nil {
					d.relaxed()
				}
			}
		}
		d.spare = work
	}
}
