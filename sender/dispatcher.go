package sender

import (
	"context"
	"runtime"
	"sync"
	"sync/atomic"

	"github.com/kafka-reservoir/producer/internal/mutants"
	"github.com/kafka-reservoir/producer/internal/prefetch"
)

// Task is something for the callback goroutine: a batch whose records are to be told of their fate.
type Task interface {
	Run()
}

// weighted is a Task that holds memory while it waits.
type weighted interface {
	RawSize() int
}

// prefetched is a Task whose memory can be asked for before it is run: first its own, then what that leads to.
type prefetched interface {
	Prefetch()
	PrefetchRecords()
}

// Dispatcher runs the callbacks, on one goroutine of their own and in the order in which their records were
// settled: user code can then be slow, block or send again without stopping the sender, and a
// partition's callbacks stay in order.
type Dispatcher struct {
	limit   int64 // bytes of records that may wait for their callbacks before appends wait too
	backlog atomic.Int64
	full    atomic.Bool   // looked at by every Send
	self    atomic.Uint64 // the goroutine's id; 0 where there is none

	mu     sync.Mutex // guards the fields below; a leaf
	queue  []Task
	asleep bool
	closed bool
	room   chan struct{} // closed when full ends; nil while nobody waits for that
	wake   func()        // ends the sleep
	done   chan struct{}

	// Owned by the goroutine.
	work []Task
	at   int // work[at:] is still to be run
}

// NewDispatcher starts the callback goroutine.
func NewDispatcher(limit int64) *Dispatcher {
	alarm := make(chan struct{}, 1)
	d := NewSteppedDispatcher(limit, func() { alarm <- struct{}{} })
	go d.run(alarm) // ends when Close was called and the queue is empty; Done reports it
	return d
}

// NewSteppedDispatcher makes a Dispatcher without a goroutine, for simulations: Step stands in for it. wake is called when
// there is something to do again after Step said that there was not.
func NewSteppedDispatcher(limit int64, wake func()) *Dispatcher {
	return &Dispatcher{limit: limit, wake: wake, done: make(chan struct{})}
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
		d.wake()
	}
	return true
}

// Full reports whether so much waits for its callbacks that no more records should be taken in. What was taken in is
// sent all the same: the callback that runs may be waiting for it. Any goroutine.
func (d *Dispatcher) Full() bool { return d.full.Load() }

// Room returns nil unless Full, and otherwise a channel that is closed when Full ends. Any goroutine.
func (d *Dispatcher) Room() <-chan struct{} {
	d.mu.Lock()
	defer d.mu.Unlock()
	if !d.full.Load() {
		return nil
	}
	if d.room == nil {
		d.room = make(chan struct{})
	}
	return d.room
}

// relax ends Full.
func (d *Dispatcher) relax() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.full.Store(false)
	if d.room != nil {
		close(d.room)
		d.room = nil
	}
}

// InCallback reports whether the caller is the callback goroutine: what it waits for must not wait for callbacks (S-18).
// It costs about a microsecond. Any goroutine.
func (d *Dispatcher) InCallback() bool { return d.self.Load() == goroutineID() }

// goroutineID is the number of the calling goroutine, as its stack trace names it. The runtime tells it in no other way.
func goroutineID() (id uint64) {
	var b [64]byte
	for _, c := range b[len("goroutine "):runtime.Stack(b[:], false)] {
		if c < '0' || c > '9' {
			break
		}
		id = id*10 + uint64(c-'0')
	}
	return id
}

// Close lets the goroutine end once the queue is empty.
func (d *Dispatcher) Close() {
	d.mu.Lock()
	wake := d.asleep && !d.closed // asleep stays true: nothing may come in any more
	if mutants.On(mutants.CloseBeforeCallbacks) && !d.closed {
		close(d.done)
	}
	d.closed = true
	d.mu.Unlock()
	if wake {
		d.wake()
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

func (d *Dispatcher) run(alarm <-chan struct{}) {
	d.self.Store(goroutineID())
	for {
		for d.Step() {
		}
		select {
		case <-d.done:
			return
		case <-alarm:
		}
	}
}

// Step runs the next task. False: there is none, for the time being or, if Done is closed now, for good.
func (d *Dispatcher) Step() bool {
	if d.at == len(d.work) && !d.more() {
		return false
	}
	t := d.work[d.at]
	d.work[d.at] = nil
	d.at++
	d.lookAhead()
	size := 0
	if w, ok := t.(weighted); ok {
		size = w.RawSize() // before Run, which may give the batch away
	}
	t.Run()
	if size > 0 && d.backlog.Add(int64(-size)) <= d.limit/2 && d.full.Load() {
		d.relax()
	}
	return true
}

// lookAhead asks for the memory of tasks a little later in line, so that it is there when they are run: with thousands of partitions batches are many and small, and in
// no cache of this processor. What a task leads to can be asked for when its own memory is there.
func (d *Dispatcher) lookAhead() {
	if at := d.at + prefetch.Ahead; at < len(d.work) {
		if t, ok := d.work[at].(prefetched); ok {
			t.Prefetch()
		}
	}
	if at := d.at + prefetch.Ahead/2; at < len(d.work) {
		if t, ok := d.work[at].(prefetched); ok {
			t.PrefetchRecords()
		}
	}
}

// more takes what has come in.
func (d *Dispatcher) more() bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	if len(d.queue) == 0 {
		d.asleep = true
		if d.closed && !mutants.On(mutants.CloseBeforeCallbacks) {
			close(d.done)
		}
		return false
	}
	d.work, d.queue, d.at = d.queue, d.work[:0], 0
	return true
}
