// Command sim plays worlds of brokers, networks and applications that go wrong, each drawn from a seed, and ends with one
// line that sums them up.
//
//	go run ./internal/sim/cmd/sim -seeds 2000 -hours 20
//	go run ./internal/sim/cmd/sim -seeds 100000 -report internal/sim/REPORT.md
//	go run ./internal/sim/cmd/sim -seed 4711 -trace | less
//	go run -tags mutants ./internal/sim/cmd/sim -mutants
//
// An interrupt ends a long run early: it tells of the seeds that were played. The same seeds give the same digest, on any machine and with any number of processors. A seed that fails is made smaller and
// printed with the command that repeats it; the exit status is then 1.
package main

import (
	"bufio"
	"cmp"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"strings"
	"syscall"
	"time"

	"github.com/kafka-reservoir/producer/internal/mutants"
	"github.com/kafka-reservoir/producer/internal/sim"
)

func main() {
	var (
		seeds      = flag.Int("seeds", 1000, "how many seeds to play, at least")
		first      = flag.Uint64("seed", 1, "the first one")
		hours      = flag.Float64("hours", 0, "how many simulated hours to play, at least")
		without    = flag.String("without", "", "kinds of faults to leave out, with commas between them")
		faults     = flag.Duration("for", 0, "faults happen for so long at most (0: as drawn)")
		partitions = flag.Int("partitions", 0, "at most so many partitions (0: as drawn)")
		trace      = flag.Bool("trace", false, "print all that happens in the first seed")
		shrink     = flag.Int("shrink", 60, "how many runs to spend on making a failure smaller")
		workers    = flag.Int("workers", 0, "how many seeds to play at once (0: one a processor)")
		hunt       = flag.Bool("mutants", false, "see which planted bugs are caught, each within 200 seeds (needs the build tag mutants)")
		plant      = flag.String("plant", "none", "the bug to plant (needs the build tag mutants)")
		reportTo   = flag.String("report", "", "write what was shown to this file, as Markdown")
		quiet      = flag.Bool("quiet", false, "no progress")
	)
	flag.Parse()
	kinds, unknown := sim.ParseKinds(*without)
	if unknown != "" {
		fmt.Fprintf(os.Stderr, "sim: no kind of fault is called %q\n", unknown)
		os.Exit(2)
	}
	o := sim.Options{Without: kinds, Faults: *faults, Partitions: *partitions}
	bug, ok := mutants.Parse(*plant)
	if !ok {
		fmt.Fprintf(os.Stderr, "sim: no bug is called %q\n", *plant)
		os.Exit(2)
	}
	mutants.Plant(bug)
	if *hunt {
		os.Exit(hunted(*first))
	}
	if *trace {
		os.Exit(traced(*first, o))
	}

	shown := sim.Report{Command: command(*seeds), Commit: commit()}
	interrupted := make(chan os.Signal, 1)
	signal.Notify(interrupted, os.Interrupt, syscall.SIGTERM) // what was played until then is told
	begin, last := time.Now(), time.Now()
	var so sim.Totals
	failed := 0
	totals := sim.Swarm{
		First: *first, Seeds: *seeds, Time: time.Duration(*hours * float64(time.Hour)), Options: o, Workers: *workers,
		StuckAfter: 3 * time.Minute,
		Stuck: func(seed uint64) {
			fmt.Fprintf(os.Stderr, "sim: seed %d does not end\n\n%s\n", seed, replay(seed, o))
			os.Exit(2)
		},
		Each: func(r *sim.Result) bool {
			so.Add(r)
			shown.Add(o, r)
			if len(r.Violations) > 0 {
				failed++
				report(r, o, *shrink, failed)
			}
			if now := time.Now(); !*quiet && now.Sub(last) > 5*time.Second {
				last = now
				fmt.Fprintf(os.Stderr, "%8v  %v (%.0f simulated hours an hour)\n", now.Sub(begin).Round(time.Second), &so,
					float64(so.Time)/float64(now.Sub(begin)))
			}
			select {
			case <-interrupted:
				shown.Command = command(so.Seeds)
				return false
			default:
				return true
			}
		},
	}.Run()
	if *reportTo != "" {
		if err := write(*reportTo, &shown); err != nil {
			fmt.Fprintln(os.Stderr, "sim:", err)
			defer os.Exit(2)
		}
	}
	fmt.Println(&totals)
	if failed > 0 {
		os.Exit(1)
	}
}

func write(name string, r *sim.Report) error {
	f, err := os.Create(name)
	if err != nil {
		return err
	}
	if _, err := r.WriteTo(f); err != nil {
		f.Close()
		return err
	}
	return f.Close()
}

// command is how this run can be had again: what says where output goes, and how fast, is not part of it.
func command(seeds int) string {
	s := fmt.Sprintf("go run ./internal/sim/cmd/sim -seeds %d", seeds)
	flag.Visit(func(f *flag.Flag) {
		switch f.Name {
		case "seeds", "report", "quiet", "workers", "shrink":
		default:
			s += fmt.Sprintf(" -%s %v", f.Name, f.Value)
		}
	})
	return s
}

// commit is what is checked out: go run does not put it into the program. Empty if git cannot tell.
func commit() string {
	out, err := exec.Command("git", "rev-parse", "--short=12", "HEAD").Output()
	if err != nil {
		return ""
	}
	s := strings.TrimSpace(string(out))
	if out, err := exec.Command("git", "status", "--porcelain", "--untracked-files=no").Output(); err == nil && len(out) > 0 {
		s += ", changed"
	}
	return s
}

// hunted plants one bug after the other.
func hunted(first uint64) int {
	if !mutants.Enabled {
		fmt.Fprintln(os.Stderr, "sim: there are no bugs in this build: go run -tags mutants ./internal/sim/cmd/sim -mutants")
		return 2
	}
	caught := 0
	for _, bug := range mutants.All() {
		c := sim.Hunt(bug, first, 200)
		if c.Violation == "" {
			fmt.Printf("%-28v got away\n", bug)
			continue
		}
		caught++
		text, _, _ := strings.Cut(c.Violation, "\n")
		fmt.Printf("%-28v %3d seeds, seed %d: %.160s\n", bug, c.Seeds, c.Seed, text)
	}
	fmt.Printf("caught %d of %d\n", caught, len(mutants.All()))
	if caught < len(mutants.All()) {
		return 1
	}
	return 0
}

// traced plays one seed and tells all about it.
func traced(seed uint64, o sim.Options) int {
	out := bufio.NewWriterSize(os.Stdout, 1<<20)
	defer out.Flush()
	o.Trace = out
	plan := sim.Draw(seed, o)
	fmt.Fprintf(out, "seed %d: %v\n\n", seed, plan)
	res := sim.Run(plan)
	var totals sim.Totals
	totals.Add(&res)
	fmt.Fprintf(out, "\n%d acknowledged, %d failed, %d requests\n", res.Acked, res.Failed, res.Requests)
	for _, v := range res.Violations {
		fmt.Fprintln(out, v)
	}
	fmt.Fprintln(out, &totals)
	if len(res.Violations) > 0 {
		return 1
	}
	return 0
}

// maxShrunk is how many failures are made smaller; the others would take long and mostly are the same.
const maxShrunk = 3

// report tells of a seed that failed.
func report(r *sim.Result, o sim.Options, runs, failed int) {
	fmt.Printf("seed %d failed at commit %s, digest %016x: %v\n", r.Seed, cmp.Or(commit(), "(unknown)"), r.Digest, sim.Draw(r.Seed, o))
	for i, v := range r.Violations {
		if i == 5 {
			fmt.Printf("  and %d more\n", len(r.Violations)-i)
			break
		}
		fmt.Println("  " + v)
	}
	if failed > maxShrunk {
		fmt.Printf("  repeat with: %s\n", replay(r.Seed, o))
		return
	}
	small := sim.Shrink(r.Seed, o, sim.Class(r.Violations[0]), runs)
	fmt.Printf("  repeat with: %s\n", replay(r.Seed, small))
}

// replay is the command that plays a seed again.
func replay(seed uint64, o sim.Options) string {
	tags, plant := "", ""
	if bug := flag.Lookup("plant").Value.String(); bug != "none" {
		tags, plant = " -tags mutants", " -plant "+bug
	}
	return fmt.Sprintf("go run%s ./internal/sim/cmd/sim%s -seed %d%s -trace", tags, plant, seed, o.Flags())
}
