package sim

import (
	"cmp"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"time"
)

// Report is what a run over many seeds has shown, for people to read. It depends on the seeds alone.
type Report struct {
	Command string // that was run
	Commit  string // of the code, if known

	totals   Totals
	acked    int
	failed   int
	counts   [kinds]int
	rare     [kinds]int // worlds
	often    [kinds]int
	spread   []dimension
	recovery []recoveryOf
	failures []failure
}

// dimension is one of the things that worlds differ in.
type dimension struct {
	name   string
	worlds map[string]int
	order  map[string]int // how its values are sorted
}

type recoveryOf struct {
	seed         uint64
	took, within time.Duration
}

type failure struct{ seed, text string }

// Add takes in a result of a plan that was drawn with these options.
func (r *Report) Add(o Options, res *Result) {
	p := Draw(res.Seed, o)
	r.totals.Add(res)
	r.acked += res.Acked
	r.failed += res.Failed
	for k := range kinds {
		r.counts[k] += res.Counts[k]
		switch p.Levels[k] {
		case Rare:
			r.rare[k]++
		case Often:
			r.often[k]++
		}
	}
	if res.Recovery > 0 {
		r.recovery = append(r.recovery, recoveryOf{res.Seed, res.Recovery, res.Allowed})
	}
	if len(res.Violations) > 0 {
		text, _, _ := strings.Cut(res.Violations[0], "\n")
		r.failures = append(r.failures, failure{fmt.Sprint(res.Seed), text})
	}
	c := &p.Config
	r.count("brokers", p.Nodes, "%d", p.Nodes)
	r.count("of release", slices.Index(generations, c.Cluster.Generation), "%s", c.Cluster.Generation.Name)
	r.count("replicas", c.Cluster.Replicas, "%d", c.Cluster.Replicas)
	r.count("logs", int(c.Cluster.Model), "%s", [...]string{"strict", "take any first sequence", "forget producers with each leader"}[c.Cluster.Model])
	r.count("topics", p.Topics, "%d", p.Topics)
	r.bucket("partitions", p.Partitions, 1, 4, 16, 64)
	switch {
	case p.idempotent():
		r.count("producer", 0, "idempotent")
	case c.AcksNone:
		r.count("producer", 4, "acks 0")
	case c.Acks == 1:
		r.count("producer", 3, "acks 1")
	case c.Retries < 0:
		r.count("producer", 2, "without idempotence and retries")
	default:
		r.count("producer", 1, "without idempotence")
	}
	r.count("in flight", c.MaxInFlight, "%d", c.MaxInFlight)
	r.bucket("linger, ms", int(max(c.Linger, 0).Milliseconds()), 0, 5, 100, 3000)
	r.bucket("batch size", c.BatchSize, 1, 300, 2000, 16<<10, 64<<10, 256<<10)
	r.bucket("buffer, KiB", int(c.BufferMemory>>10), 64, 256, 4<<10, 32<<10)
	r.bucket("least pipe", int(c.LeastPipe), 0, 300, 3000, 30_000)
	r.bucket("largest value", p.MaxValue, 20, 300, 3000, 30_000, 300_000)
	r.bucket("request timeout, ms", int(c.RequestTimeout.Milliseconds()), 300, 1000, 2000, 5000)
	r.bucket("delivery timeout, s", int(c.DeliveryTimeout.Seconds()), 1, 5, 15, 40, 200)
	r.count("codec", int(c.Codec), "%v", c.Codec)
	r.bucket("latency, us", int(p.MaxLatency.Microseconds()), 50, 500, 5000, 50_000)
	r.bucket("records a second", int(p.Rate), 10, 60, 200, 500)
	r.bucket("kinds of faults at once", len(p.On()), 0, 1, 2, 3, 5, 10, int(kinds))
}

// count counts a world; at is where the value stands among others.
func (r *Report) count(name string, at int, format string, args ...any) {
	i := slices.IndexFunc(r.spread, func(d dimension) bool { return d.name == name })
	if i < 0 {
		i = len(r.spread)
		r.spread = append(r.spread, dimension{name, map[string]int{}, map[string]int{}})
	}
	value := fmt.Sprintf(format, args...)
	r.spread[i].worlds[value]++
	r.spread[i].order[value] = at
}

// bucket counts a world by the first bound that its value is not above.
func (r *Report) bucket(name string, v int, bounds ...int) {
	for i, b := range bounds {
		if v <= b {
			if i == 0 || bounds[i-1] == b-1 {
				r.count(name, i, "%d", b)
			} else {
				r.count(name, i, "to %d", b)
			}
			return
		}
	}
	r.count(name, len(bounds), "more")
}

// WriteTo writes Markdown.
func (r *Report) WriteTo(w io.Writer) (int64, error) {
	var s strings.Builder
	line := func(format string, args ...any) { fmt.Fprintf(&s, format+"\n", args...) }
	line("# Simulation\n")
	line("What `%s` has shown at commit %s. The same command at the same commit gives the same text, on any machine: see the package's", r.Command, cmp.Or(r.Commit, "(unknown)"))
	line("documentation for what is simulated, and what is held.\n")
	line("```\n%v\n```\n", &r.totals)
	line("%d records were acknowledged and %d failed, each with a reason that was checked; %d requests reached a broker.\n", r.acked, r.failed, r.totals.Requests)

	line("## Seeds that failed\n")
	if len(r.failures) == 0 {
		line("None.\n")
	}
	for _, f := range r.failures {
		line("- `go run ./internal/sim/cmd/sim -seed %s -trace`: %.300s", f.seed, f.text)
	}
	if len(r.failures) > 0 {
		line("")
	}

	line("## Recovery\n")
	if n := len(r.recovery); n > 0 {
		took := slices.Clone(r.recovery)
		slices.SortFunc(took, func(a, b recoveryOf) int { return cmp.Compare(a.took, b.took) })
		part := func(a recoveryOf) float64 { return float64(a.took) / float64(a.within) }
		closest := slices.MaxFunc(r.recovery, func(a, b recoveryOf) int { return cmp.Compare(part(a), part(b)) })
		ms := func(d time.Duration) time.Duration { return d.Round(time.Millisecond) }
		line("%d worlds became well again while the producer ran. Until all partitions were written to it took %v in half of them, %v in 90 %%, %v in 99 %%",
			n, ms(took[n/2].took), ms(took[n*9/10].took), ms(took[n*99/100].took))
		line("(linger, which is up to 3 s, and time-outs included). What a world's settings allow was used up most in seed %d: %v of %v.\n",
			closest.seed, ms(closest.took), ms(closest.within))
	}

	line("## Faults\n")
	line("| kind | worlds where it is rare | often | injected |\n|---|---|---|---|")
	for k := range kinds {
		line("| %v | %d | %d | %d |", k, r.rare[k], r.often[k], r.counts[k])
	}
	line("\nslow-callbacks and send-from-callback count once a world.\n")

	line("## Worlds\n")
	line("| what | worlds |\n|---|---|")
	for _, d := range r.spread {
		values := slices.SortedFunc(maps.Keys(d.worlds), func(a, b string) int { return cmp.Or(cmp.Compare(d.order[a], d.order[b]), cmp.Compare(a, b)) })
		for i, v := range values {
			values[i] = fmt.Sprintf("%s: %d", v, d.worlds[v])
		}
		line("| %s | %s |", d.name, strings.Join(values, ", "))
	}
	n, err := io.WriteString(w, s.String())
	return int64(n), err
}
