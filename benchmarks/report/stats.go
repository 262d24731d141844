package report

import (
	"fmt"
	"slices"
	"strconv"

	"github.com/kafka-reservoir/producer/benchmarks/workload"
)

// Line is a run in a few words, for who watches.
func (r *Run) Line() string {
	if r.Problem != "" {
		return "DOES NOT COUNT: " + r.Problem
	}
	return fmt.Sprintf("%7s ns CPU/record  %7s records/s  p99 %s", number(cpuPerRecord.of(r)), rate(perSecond.of(r)), p99.show(p99.of(r)))
}

// metric is one figure of a run.
type metric struct {
	name, unit string
	higher     bool // is better
	goOnly     bool // known of Go's runtime only
	gaps       bool // not known of every run: 0
	of         func(*Run) float64
	show       func(float64) string
}

// title is the metric as a column's head.
func (m *metric) title() string {
	if m.unit == "" {
		return m.name
	}
	return m.name + ", " + m.unit
}

func perRecord(total func(*Run) float64) func(*Run) float64 {
	return func(r *Run) float64 { return total(r) / float64(max(r.Records, 1)) }
}

// perTotal divides what is known of the whole run, warm-up included.
func perTotal(total func(*Run) float64) func(*Run) float64 {
	return func(r *Run) float64 { return total(r) / float64(max(r.Total, 1)) }
}

// The metrics of the report.
var (
	cpuPerRecord = &metric{name: "CPU per record", unit: "ns", of: perRecord(func(r *Run) float64 { return r.CPU * 1e9 }), show: number}
	perSecond    = &metric{name: "records/s", higher: true, of: func(r *Run) float64 { return float64(r.Records) / r.Seconds }, show: rate}
	p50          = &metric{name: "p50", of: func(r *Run) float64 { return r.Latency.P50 }, show: duration}
	p99          = &metric{name: "p99", of: func(r *Run) float64 { return r.Latency.P99 }, show: duration}
	p999         = &metric{name: "p99.9", of: func(r *Run) float64 { return r.Latency.P999 }, show: duration}
	longest      = &metric{name: "longest", of: func(r *Run) float64 { return r.Latency.Max }, show: duration}
	allocs       = &metric{name: "allocations per record", goOnly: true, of: perRecord(func(r *Run) float64 { return r.Allocs }), show: fine}
	allocBytes   = &metric{name: "allocated per record", unit: "B", goOnly: true, of: perRecord(func(r *Run) float64 { return r.AllocBytes }), show: fine}
	gcs          = &metric{name: "GCs", goOnly: true, of: func(r *Run) float64 { return float64(r.GCs) }, show: thousands}
	goroutines   = &metric{name: "goroutines, peak", goOnly: true, of: func(r *Run) float64 { return float64(r.Goroutines) }, show: thousands}
	rss          = &metric{name: "RSS, peak", unit: "MiB", of: func(r *Run) float64 { return float64(r.PeakRSS) / (1 << 20) }, show: number}
	recPerBatch  = &metric{name: "records per batch", higher: true, of: func(r *Run) float64 { return ratio(float64(r.Total), float64(r.Batches)) }, show: number}
	recPerReq    = &metric{name: "records per request", higher: true, of: func(r *Run) float64 { return ratio(float64(r.Total), float64(r.Requests)) }, show: number}
	wire         = &metric{name: "on the wire per record", unit: "B", of: perTotal(func(r *Run) float64 { return float64(r.WireBytes) }), show: number}
	sinkCPU      = &metric{name: "sink's CPU per record", unit: "ns", of: perTotal(func(r *Run) float64 { return r.BrokerCPU * 1e9 }), show: number}
	apart        = &metric{name: "processors apart", unit: "ns", gaps: true, of: func(r *Run) float64 { return r.Apart * 1e9 }, show: thousands}
	others       = &metric{name: "others busy", unit: "cores", of: func(r *Run) float64 { return r.OtherCores }, show: fine}
)

func ratio(a, b float64) float64 {
	if b == 0 {
		return 0
	}
	return a / b
}

// spread is the median of some runs, and the least and the most.
type spread struct{ median, least, most float64 }

func spreadOf(values []float64) spread {
	v := slices.Sorted(slices.Values(values))
	n := len(v)
	if n == 0 {
		return spread{}
	}
	return spread{(v[(n-1)/2] + v[n/2]) / 2, v[0], v[n-1]}
}

// group is what one client did in one row.
type group struct {
	client string
	runs   []Run // those that count
	failed []Run
}

func (g *group) spread(m *metric) spread {
	var v []float64
	for i := range g.runs {
		if x := m.of(&g.runs[i]); x != 0 || !m.gaps {
			v = append(v, x)
		}
	}
	return spreadOf(v)
}

// known reports whether there is such a figure.
func (g *group) known(m *metric) bool {
	return len(g.runs) > 0 && !(m.goOnly && g.runs[0].NotGo)
}

// section is one row of the matrix.
type section struct {
	row    workload.Workload
	groups []group // in the order of the setup's clients
	first  string  // the client that the others are rivals of
}

// sections puts runs together by row, in the order in which rows first appear.
func sections(d *Data) (all []section) {
	for i := range d.Runs {
		r := &d.Runs[i]
		at := slices.IndexFunc(all, func(s section) bool { return s.row.Name == r.Row.Name })
		if at < 0 {
			s := section{row: r.Row, first: d.Setup.Clients[0]}
			for _, c := range d.Setup.Clients {
				s.groups = append(s.groups, group{client: c})
			}
			at, all = len(all), append(all, s)
		}
		for j := range all[at].groups {
			if g := &all[at].groups[j]; g.client == r.Client && r.Problem == "" {
				g.runs = append(g.runs, *r)
			} else if g.client == r.Client {
				g.failed = append(g.failed, *r)
			}
		}
	}
	for i := range all {
		all[i].groups = slices.DeleteFunc(all[i].groups, func(g group) bool { return len(g.runs)+len(g.failed) == 0 })
	}
	return all
}

// group is that of a client, or nil.
func (s *section) group(client string) *group {
	for i := range s.groups {
		if s.groups[i].client == client {
			return &s.groups[i]
		}
	}
	return nil
}

// bestRival is the best median of all clients but the first one. ok is false when there is none.
func (s *section) bestRival(m *metric) (client string, best float64, ok bool) {
	for i := range s.groups {
		g := &s.groups[i]
		if g.client == s.first || !g.known(m) {
			continue
		}
		if v := g.spread(m).median; !ok || (v > best) == m.higher {
			client, best, ok = g.client, v, true
		}
	}
	return client, best, ok
}

// number writes v with three digits, and thousands apart.
func number(v float64) string {
	switch {
	case v >= 99.95:
		return thousands(v)
	case v >= 9.995:
		return strconv.FormatFloat(v, 'f', 1, 64)
	case v == 0:
		return "0"
	}
	return strconv.FormatFloat(v, 'f', 2, 64)
}

// fine is number, to the thousandth below 1.
func fine(v float64) string {
	if v > 0 && v < 0.9995 {
		return strconv.FormatFloat(v, 'f', 3, 64)
	}
	return number(v)
}

// rate is number for what may be millions.
func rate(v float64) string {
	switch {
	case v >= 999_500:
		return number(v/1e6) + " M"
	case v >= 9_995:
		return number(v/1e3) + " k"
	}
	return number(v)
}

func thousands(v float64) string {
	s := strconv.FormatFloat(v, 'f', 0, 64)
	for i := len(s) - 3; i > 0; i -= 3 {
		s = s[:i] + "," + s[i:]
	}
	return s
}

// duration writes seconds.
func duration(s float64) string {
	switch {
	case s == 0:
		return "0"
	case s < 1e-3:
		return number(s*1e6) + " µs"
	case s < 1:
		return number(s*1e3) + " ms"
	}
	return number(s) + " s"
}
