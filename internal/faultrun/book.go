package faultrun

import (
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/kafka-reservoir/producer/internal/testbroker"
)

// book keeps what the producer's process tells and what the logs held, and holds the one against the other in the end.
type book struct {
	most int // Settings.Largest

	mu       sync.Mutex // guards the fields below
	told     map[id]verdict
	order    [senders][partitions]int // 1 + the number of the last record called back
	answered [partitions]bool         // a record was acknowledged
	connects []time.Time
	end      *report
	news     chan struct{} // closed when something was told, and made anew
	broken   []string      // rules that records do not count for
	t        Tally
	oldest   time.Duration
	reasons  map[string]int // of failures, by what they have in common

	logs [partitions]logBook // the caller's of scan and cut, who is one at a time
}

// verdict is what a callback said.
type verdict struct {
	part   int32
	off    int64
	acked  bool
	may    bool
	refuse bool
}

// logBook is what a partition's log held.
type logBook struct {
	now    []id            // by offset
	before [][]id          // as it was whenever a part of it was lost
	lost   map[id]struct{} // records in those parts
}

// Tally counts records and what is wrong with them.
type Tally struct {
	Acked, Failed int
	Lost          int // acknowledged, and in no log
	Duplicated    int // more than once in a log
	Reordered     int // behind a later one of the same sender
	Misrouted     int // in a partition, a cluster or a shape that it was not sent to
	WrongOffset   int // acknowledged at an offset where something else is
	Unresolved    int // no callback
	Double        int // more than one
	AfterClose    int // callback after Close had returned
	CallbackOrder int // callback behind that of a later one of the same sender and partition
	Untrue        int // said not to have been written, and in a log
	Needless      int // failed, though a patient client need not fail it
}

// add adds up.
func (t *Tally) add(o Tally) {
	a, b := t.counts(), o.counts()
	for i := range a {
		*a[i] += *b[i]
	}
	t.Acked += o.Acked
	t.Failed += o.Failed
}

// counts are those that have to be zero.
func (t *Tally) counts() []*int {
	return []*int{
		&t.Lost, &t.Duplicated, &t.Reordered, &t.Misrouted, &t.WrongOffset, &t.Unresolved, &t.Double, &t.AfterClose,
		&t.CallbackOrder, &t.Untrue, &t.Needless,
	}
}

var countNames = []string{
	"lost", "duplicated", "reordered", "misrouted", "at wrong offsets", "unresolved", "called back twice",
	"called back after Close", "called back out of order", "said not to be written and are", "failed without need",
}

// Bad lists what is not zero.
func (t Tally) Bad() []string {
	var bad []string
	for i, n := range t.counts() {
		if *n > 0 {
			bad = append(bad, fmt.Sprintf("%d records %s", *n, countNames[i]))
		}
	}
	return bad
}

func newBook(most int) *book {
	b := &book{most: most, told: map[id]verdict{}, news: make(chan struct{}), reasons: map[string]int{}}
	for p := range b.logs {
		b.logs[p].lost = map[id]struct{}{}
	}
	return b
}

// breaks notes a broken rule, the first few of them.
func (b *book) breaks(format string, args ...any) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.breaksLocked(format, args...)
}

func (b *book) breaksLocked(format string, args ...any) {
	if len(b.broken) < 20 {
		b.broken = append(b.broken, fmt.Sprintf(format, args...))
	}
}

// count counts a record for which a rule is broken, and keeps the first ones' story.
func (b *book) count(n *int, format string, args ...any) {
	*n++
	if *n <= 3 {
		b.breaksLocked(format, args...)
	}
}

// tell takes in an event. need says whether the failure of a record is one that there is no need for.
func (b *book) tell(e *event, need func(*event) bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	close(b.news)
	b.news = make(chan struct{})
	switch e.kind {
	case eventConnect:
		b.connects = append(b.connects, e.at)
	case eventEnd:
		b.end = e.end
	default:
		b.callback(e, need)
	}
}

func (b *book) callback(e *event, need func(*event) bool) {
	v := verdict{part: e.part, off: e.off, acked: e.kind == eventAcked, may: e.has(flagMay), refuse: e.has(flagRefused)}
	if _, twice := b.told[e.id]; twice {
		b.count(&b.t.Double, "record %v: another callback: %s", e.id, e.text)
		return
	}
	b.told[e.id] = v
	if e.has(flagLate) && !e.has(flagClosed) {
		b.count(&b.t.AfterClose, "record %v: callback after Close: %s", e.id, e.text)
	}
	b.oldest = max(b.oldest, e.age)
	if v.acked {
		b.t.Acked++
	} else {
		b.t.Failed++
		b.reasons[reason(e)]++
		if need(e) {
			b.count(&b.t.Needless, "record %v: %s", e.id, e.text)
		}
	}
	if v.refuse || e.part < 0 || e.part >= partitions {
		if v.acked {
			b.count(&b.t.Misrouted, "record %v: acknowledged for partition %d", e.id, e.part)
		}
		return
	}
	if want := e.id.partition(); want != anywhere && want != e.part {
		b.count(&b.t.Misrouted, "record %v: for partition %d, called back for %d", e.id, want, e.part)
	}
	b.answered[e.part] = b.answered[e.part] || v.acked
	if last := &b.order[e.id.sender()][e.part]; e.id.seq() < *last {
		b.count(&b.t.CallbackOrder, "record %v: callback behind that of %d/%d", e.id, e.id.sender(), *last-1)
	} else {
		*last = e.id.seq() + 1
	}
}

// reason is what failures have in common.
func reason(e *event) string {
	s := ""
	for _, r := range []struct{ flag, text string }{
		{flagRefused, "never accepted"}, {flagForced, "closed"}, {flagTimeout, "delivery timeout"}, {flagForgot, "producer forgotten"}, {flagMay, "may have been written"},
	} {
		if e.has(r.flag) {
			if s != "" {
				s += ", "
			}
			s += r.text
		}
	}
	if s == "" {
		return "other"
	}
	return s
}

// allWrote reports whether every partition has an acknowledged record, else what to wait for.
func (b *book) allWrote() (bool, <-chan struct{}) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return !slices.Contains(b.answered[:], false), b.news
}

// scan takes in what a log holds beyond what is known of it.
func (b *book) scan(c *testbroker.Cluster, part int32) {
	l := &b.logs[part]
	for _, r := range c.RecordsFrom(topic, part, int64(len(l.now))) {
		if r.Offset != int64(len(l.now)) {
			b.breaks("partition %d: offset %d where %d was to be expected", part, r.Offset, len(l.now))
			return
		}
		i, known, whole := identify(r.Key, r.Value, b.most)
		if !known || !whole {
			b.mu.Lock()
			b.count(&b.t.Misrouted, "partition %d: offset %d has what nobody sent (%d bytes, perhaps record %v)", part, r.Offset, len(r.Value), i)
			b.mu.Unlock()
		}
		l.now = append(l.now, i)
	}
}

// cut notes that a log has lost its end, by no fault of the producer. It has been scanned, and took nothing since.
func (b *book) cut(part int32, end int64) {
	l := &b.logs[part]
	if end >= int64(len(l.now)) {
		return
	}
	l.before = append(l.before, l.now)
	for _, i := range l.now[end:] {
		l.lost[i] = struct{}{}
	}
	l.now = slices.Clone(l.now[:end])
}

// check holds all callbacks against all logs, when nothing more will come.
func (b *book) check() {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.end != nil {
		for s, n := range b.end.Sent {
			for seq := range n {
				if _, ok := b.told[newID(s, seq)]; !ok {
					b.count(&b.t.Unresolved, "record %v: no callback", newID(s, seq))
				}
			}
		}
	}
	copies := map[id]int32{} // 1 + the partition where it is
	for p := range b.logs {
		b.checkLog(int32(p), copies)
	}
	for i, v := range b.told {
		where, stored := copies[i]
		lost := false
		if v.part >= 0 && v.part < partitions {
			_, lost = b.logs[v.part].lost[i]
		}
		switch {
		case !v.acked && !v.may && (stored || lost):
			b.count(&b.t.Untrue, "record %v: in partition %d, and said not to have been written", i, where-1)
		case !v.acked:
		case !stored && !lost:
			b.count(&b.t.Lost, "record %v: acknowledged at partition %d, offset %d, and in no log", i, v.part, v.off)
		case stored && where-1 != v.part:
			b.count(&b.t.Misrouted, "record %v: acknowledged for partition %d, and in %d", i, v.part, where-1)
		case !b.logs[v.part].has(v.off, i):
			b.count(&b.t.WrongOffset, "record %v: acknowledged at partition %d, offset %d, where another one is", i, v.part, v.off)
		}
	}
}

// has reports whether the record is, or was, at the offset.
func (l *logBook) has(off int64, i id) bool {
	at := func(log []id) bool { return off >= 0 && off < int64(len(log)) && log[off] == i }
	return at(l.now) || slices.ContainsFunc(l.before, at)
}

// checkLog looks for repetitions, for records in other partitions than theirs, and at the order of first copies.
func (b *book) checkLog(part int32, copies map[id]int32) {
	var last [senders]int
	for off, i := range b.logs[part].now {
		if copies[i] != 0 {
			b.count(&b.t.Duplicated, "record %v: partition %d, offset %d, and in partition %d before", i, part, off, copies[i]-1)
			continue
		}
		copies[i] = part + 1
		if want := i.partition(); want != anywhere && want != part {
			b.count(&b.t.Misrouted, "record %v: for partition %d, and in %d", i, want, part)
		}
		if i.seq() < last[i.sender()] {
			b.count(&b.t.Reordered, "record %v: partition %d, offset %d, behind record %d/%d", i, part, off, i.sender(), last[i.sender()]-1)
			continue
		}
		last[i.sender()] = i.seq() + 1
	}
}
