package clients

import (
	"sync/atomic"
	"time"
)

// Deliveries counts what became of the records, and how long it took. All methods may be called by any goroutine.
type Deliveries struct {
	acked  atomic.Int64
	failed atomic.Int64
	first  atomic.Pointer[error]
	_      [40]byte // the counters above change with every record, what is below does not

	next  atomic.Int32
	begun [Slots]atomic.Int64 // when the record was due, by the clock; 0 where the slot is free
	// Latency has the slots' times, from when a record was due to its acknowledgement.
	Latency Histogram
}

// Begin takes a slot for a record that is due now. With very many records under way there may be none: the record is
// then not measured.
func (d *Deliveries) Begin() Slot { return d.BeginAt(Now()) }

// BeginAt is Begin for a record that was due at that time of Now.
func (d *Deliveries) BeginAt(due int64) Slot {
	slot := Slot(d.next.Add(1) & (Slots - 1))
	if !d.begun[slot].CompareAndSwap(0, due) {
		return Unmeasured
	}
	return slot
}

// Ack counts one record as acknowledged.
func (d *Deliveries) Ack(slot Slot) {
	if slot != Unmeasured {
		d.Latency.Add(Now() - d.begun[slot].Swap(0))
	}
	d.acked.Add(1)
}

// Fail counts one record as lost.
func (d *Deliveries) Fail(slot Slot, err error) {
	if slot != Unmeasured {
		d.begun[slot].Store(0)
	}
	d.first.CompareAndSwap(nil, &err)
	d.failed.Add(1)
}

// Counts are the acknowledged and the lost so far.
func (d *Deliveries) Counts() (acked, failed int64) { return d.acked.Load(), d.failed.Load() }

// FirstError is why the first lost record was lost, or nil.
func (d *Deliveries) FirstError() error {
	if err := d.first.Load(); err != nil {
		return *err
	}
	return nil
}

var start = time.Now()

// Now is a monotonic clock in nanoseconds, never 0.
func Now() int64 { return int64(time.Since(start)) + 1 }
