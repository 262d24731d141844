package faultrun

import (
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"time"
)

// Delivery's bounds that are the same for all faults.
const (
	maxMemory   = bufferMemory + 32<<20
	maxConnects = 20
	maxMetadata = 10
	maxLate     = 100 * ms // Flush and Close, after their ctx
	maxEmpty    = 50 * ms  // Close with nothing buffered
	maxOverdue  = 250 * ms // a callback, after the delivery timeout
)

// Row is all runs of one fault.
type Row struct {
	Fault *Fault
	Runs  []*Result
}

// Table is a row for each fault.
type Table []*Row

// Add puts a result into its fault's row.
func (t *Table) Add(r *Result) {
	for _, row := range *t {
		if row.Fault == r.Fault {
			row.Runs = append(row.Runs, r)
			return
		}
	}
	*t = append(*t, &Row{Fault: r.Fault, Runs: []*Result{r}})
}

// bound is a measure and what it may be.
type bound struct {
	got, most int64 // got is negative when there was nothing to measure
	lag       int64 // what the machine may have added, for a time
}

func (b bound) measured() bool { return b.got >= 0 }
func (b bound) holds() bool    { return b.got <= b.most }
func (b bound) lagging() bool  { return !b.holds() && b.got-b.lag <= b.most }

// mark is put behind a measure beyond its bound.
func (b bound) mark() string {
	switch {
	case b.holds():
		return ""
	case b.lagging():
		return " ?"
	}
	return " **!**"
}

// measures are all of a run's bounds.
type measures struct {
	recovery, memory, connects, metadata, overdue, flush, forced, empty bound
}

func (r *Result) measures() measures {
	took := func(d, most time.Duration) bound { return bound{int64(d), int64(most), int64(r.Lag)} }
	return measures{
		recovery: took(r.Recovery, time.Duration(r.Fault.Heals)),
		memory:   bound{r.Memory, maxMemory, 0},
		connects: bound{int64(r.Connects), maxConnects, 0},
		metadata: bound{int64(r.Metadata), maxMetadata, 0},
		overdue:  took(r.Oldest, r.Delivery+maxOverdue),
		flush:    took(r.FlushLate, maxLate),
		forced:   took(r.CloseLate, maxLate),
		empty:    took(r.CloseEmpty, maxEmpty),
	}
}

func (m measures) all() []bound {
	return []bound{m.recovery, m.memory, m.connects, m.metadata, m.overdue, m.flush, m.forced, m.empty}
}

// Summary is a run in one line.
func (r *Result) Summary() string {
	m := r.measures()
	state := "clean"
	if len(r.Broken) > 0 {
		state = "NOT CLEAN"
	}
	return fmt.Sprintf("%-9s %v: struck %d times, %d acked, %d failed%s; recovery %s, memory %s MB, connects %s/s, metadata %s/s, oldest %s, flush +%s, forced close +%s, close %s; lag %d",
		state, r, r.Hits, r.Acked, r.Failed, reasons(r.Reasons), cell(m.recovery, ms), cell(m.memory, 1<<20), cell(m.connects, 1), cell(m.metadata, 1),
		cell(m.overdue, ms), cell(m.flush, ms), cell(m.forced, ms), cell(m.empty, ms), r.Lag/ms)
}

func reasons(of map[string]int) string {
	var s []string
	for _, k := range slices.Sorted(maps.Keys(of)) {
		s = append(s, fmt.Sprintf("%d %s", of[k], k))
	}
	if len(s) == 0 {
		return ""
	}
	return " (" + strings.Join(s, "; ") + ")"
}

// cell is a measure in units.
func cell[T ~int | ~int64](b bound, unit T) string {
	if !b.measured() {
		return "-"
	}
	return fmt.Sprintf("%d%s", (b.got+int64(unit)/2)/int64(unit), b.mark())
}

// worst is the worst of a measure: beyond its bound, beyond it because of the machine, within; and then the largest.
func (row *Row) worst(of func(measures) bound) bound {
	w := bound{got: unmeasured}
	for _, r := range row.Runs {
		b := of(r.measures())
		if rank, top := b.rank(), w.rank(); rank > top || rank == top && b.got > w.got {
			w = b
		}
	}
	return w
}

// rank orders measures by how bad they are.
func (b bound) rank() int {
	switch {
	case !b.measured():
		return 0
	case b.holds():
		return 1
	case b.lagging():
		return 2
	}
	return 3
}

// Write prints the table.
func (t Table) Write(w io.Writer) error {
	out := &printer{w: w}
	out.line("| fault | seeds | may fail | acked | failed | lost/dup/reord/misr/offs | unres/twice/late/order | untrue | recovery ms (bound) | peak MB | conns/s | metadata/s | callback ms (bound) | flush/forced close/empty close ms | lag ms |")
	out.line("|---|---|---|---|---|---|---|---|---|---|---|---|---|---|---|")
	for _, row := range t {
		row.write(out)
	}
	return out.err
}

func (row *Row) write(out *printer) {
	f := row.Fault
	var sum Tally
	clean, runs, lag := 0, 0, time.Duration(0)
	for _, r := range row.Runs {
		sum.add(r.Tally)
		lag = max(lag, r.Lag)
		if len(r.Broken) == 0 {
			clean++
		}
		if !r.Forced {
			runs++
		}
	}
	seeds := fmt.Sprint(runs)
	if forced := len(row.Runs) - runs; forced > 0 {
		seeds += fmt.Sprintf("+%d", forced)
	}
	title := f.Title
	if clean < len(row.Runs) {
		title += fmt.Sprintf(" **%d not clean**", len(row.Runs)-clean)
	}
	failed := fmt.Sprint(sum.Failed - row.forced())
	if n := row.forced(); n > 0 {
		failed += fmt.Sprintf("+%d", n)
	}
	recovery := "-"
	if f.Heals != never {
		recovery = fmt.Sprintf("%s (%d)", cell(row.worst(func(m measures) bound { return m.recovery }), ms), time.Duration(f.Heals)/ms)
	}
	overdue := row.worst(func(m measures) bound { return m.overdue })
	out.line("| %s | %s | %v | %d | %s | %d/%d/%d/%d/%d | %d/%d/%d/%d | %d | %s | %s | %s | %s | %s (%d) | %s/%s/%s | %d |",
		title, seeds, f.May, sum.Acked, failed,
		sum.Lost, sum.Duplicated, sum.Reordered, sum.Misrouted, sum.WrongOffset,
		sum.Unresolved, sum.Double, sum.AfterClose, sum.CallbackOrder, sum.Untrue,
		recovery,
		cell(row.worst(func(m measures) bound { return m.memory }), 1<<20),
		cell(row.worst(func(m measures) bound { return m.connects }), 1),
		cell(row.worst(func(m measures) bound { return m.metadata }), 1),
		cell(overdue, ms), overdue.most/int64(ms),
		cell(row.worst(func(m measures) bound { return m.flush }), ms),
		cell(row.worst(func(m measures) bound { return m.forced }), ms),
		cell(row.worst(func(m measures) bound { return m.empty }), ms), lag/ms)
}

// forced is how many records failed in runs that were closed in the middle.
func (row *Row) forced() int {
	n := 0
	for _, r := range row.Runs {
		if r.Forced {
			n += r.Failed
		}
	}
	return n
}

// WriteFaults prints how the faults are made.
func (t Table) WriteFaults(w io.Writer) error {
	out := &printer{w: w}
	out.line("| fault | name | how it is made |")
	out.line("|---|---|---|")
	for _, row := range t {
		out.line("| %s | %s | %s |", row.Fault.Title, row.Fault.Name, row.Fault.How)
	}
	return out.err
}

// Totals counts. Calm is none of the faults.
type Totals struct {
	Faults, Clean             int
	Runs, Records             int
	Measured, Within, Lagging int // measures, those within their bound, and those that the machine's lag explains
}

// Totals sums the table up.
func (t Table) Totals() (n Totals) {
	for _, row := range t {
		good := true
		for _, r := range row.Runs {
			good = good && len(r.Broken) == 0
			n.Runs++
			n.Records += r.Acked + r.Failed
			for _, b := range r.measures().all() {
				switch b.rank() {
				case 0:
					continue
				case 1:
					n.Within++
				case 2:
					n.Lagging++
				}
				n.Measured++
			}
		}
		if row.Fault == Calm {
			continue
		}
		n.Faults++
		if good {
			n.Clean++
		}
	}
	return n
}

type printer struct {
	w   io.Writer
	err error
}

func (p *printer) line(format string, args ...any) {
	if p.err == nil {
		_, p.err = fmt.Fprintf(p.w, format+"\n", args...)
	}
}
