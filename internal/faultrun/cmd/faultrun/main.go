// Command faultrun plays delivery's catalogue of faults over real sockets and prints a table of what became of the records, and
// what was measured beside its bounds. Its last line sums it up.
//
//	go run ./internal/faultrun/cmd/faultrun -out results.md
//	go run ./internal/faultrun/cmd/faultrun -faults silence,too-large -seeds 10
//
// Each fault is played with seeds from -seed on, and once more with the producer closed in its middle. The exit status is 1
// unless all runs are clean; what the clock says does not count for that.
package main

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"github.com/kafka-reservoir/producer/internal/faultrun"
)

func main() {
	if os.Getenv(faultrun.ChildEnv) != "" {
		if err := faultrun.Child(os.Stdin, os.Stdout); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		return
	}
	var (
		names   = flag.String("faults", "", "which ones, with commas between them (empty: all)")
		seeds   = flag.Int("seeds", 3, "how many seeds of each")
		first   = flag.Uint64("seed", 1, "the first one")
		forced  = flag.Bool("forced", true, "also close the producer in the middle of each fault, once")
		backoff = flag.Duration("retry-backoff-max", 0, "the producer's RetryBackoffMax (0: its default)")
		quiet   = flag.Bool("quiet", false, "no progress")
		journal = flag.Bool("journal", false, "print what the brokers saw")
		path    = flag.String("out", "", "write the table to this file too, with how it came about")
		machine = flag.String("machine", "", "what it ran on, for the file")
		list    = flag.Bool("list", false, "list the faults and do nothing")
	)
	flag.Parse()
	faults, unknown := choose(*names)
	if unknown != "" {
		fmt.Fprintf(os.Stderr, "faultrun: no fault is called %q; -list tells which there are\n", unknown)
		os.Exit(2)
	}
	if *list {
		for i, f := range faultrun.Catalogue {
			fmt.Printf("%2d %-20s %s: %s\n", i+1, f.Name, f.Title, f.How)
		}
		return
	}
	var table faultrun.Table
	play := func(f *faultrun.Fault, o faultrun.Options) {
		o.Journal, o.RetryBackoffMax = *journal, *backoff
		res, err := faultrun.Run(f, o)
		if err != nil {
			fmt.Fprintf(os.Stderr, "faultrun: %s: %v\n", f.Name, err)
			os.Exit(2)
		}
		table.Add(res)
		if !*quiet {
			fmt.Fprintln(os.Stderr, res.Summary())
		}
		if len(res.Broken) > 0 {
			fmt.Fprintf(os.Stderr, "%v:\n  %s\n", res, strings.Join(res.Broken, "\n  "))
		}
		if *journal {
			for _, e := range res.Seen {
				fmt.Fprintln(os.Stderr, e)
			}
		}
	}
	for _, f := range faults {
		for i := range *seeds {
			play(f, faultrun.Options{Seed: *first + uint64(i)})
		}
		if *forced {
			play(f, faultrun.Options{Seed: *first, Forced: true})
		}
	}
	clean, err := print(os.Stdout, table)
	if err == nil && *path != "" {
		err = write(*path, *machine, table)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "faultrun:", err)
		os.Exit(2)
	}
	if !clean {
		os.Exit(1)
	}
}

// choose finds the faults of a list of names; all of them, and no fault at all, for an empty one.
func choose(names string) (faults []*faultrun.Fault, unknown string) {
	if names == "" {
		return append([]*faultrun.Fault{faultrun.Calm}, faultrun.Catalogue...), ""
	}
	for _, name := range strings.Split(names, ",") {
		f := faultrun.Find(name)
		if f == nil {
			return nil, name
		}
		faults = append(faults, f)
	}
	return faults, ""
}

// print writes the table and the line that sums it up.
func print(w io.Writer, t faultrun.Table) (clean bool, err error) {
	if err := t.Write(w); err != nil {
		return false, err
	}
	n := t.Totals()
	_, err = fmt.Fprintf(w, "\nwithin bounds %d of %d, %d more but for the machine's lag\nfaults %d clean %d seeds %d records %d\n",
		n.Within, n.Measured, n.Lagging, n.Faults, n.Clean, n.Runs, n.Records)
	return n.Faults == n.Clean, err
}

// legend says how to read the file.
const legend = `Each row is a fault: so many seeds, and so many more runs in which Close was called in the middle of it, with a ctx of 200 ms.
Failed records of the latter runs are behind the plus; Close may fail them. All counts of records that are lost, duplicated, reordered, misrouted
or at a wrong offset, unresolved, called back twice, after Close or out of order, or said not to be written and are ("untrue"), have to be 0, and
only those may fail that the third column allows. Otherwise the row says how many runs are not clean.

Times and sizes are the worst of all runs. Beyond their bound they are marked **!**, or ? where the machine's lag in that run explains it: recovery is until all partitions are written to again,
memory is peak resident size over the process without a producer (bound 48 MB, with a buffer of 16 MB), attempts to connect (20) and requests
for topics' metadata (10) are the most within one second, a callback comes by the delivery timeout and 250 ms, Flush and Close return within 100 ms after their ctx
ended, and Close with nothing buffered within 50 ms. Lag is how long the machine kept the process waiting for a processor.

`

// write is the file.
func write(path, machine string, t faultrun.Table) (err error) {
	f, err := os.Create(path)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	if machine != "" {
		machine = ", on " + machine
	}
	if _, err := fmt.Fprintf(f, "# Faults over real sockets\n\nOf %s%s:\n\n    go run ./internal/faultrun/cmd/faultrun %s\n\n%s",
		time.Now().UTC().Format(time.DateOnly), machine, strings.Join(os.Args[1:], " "), legend); err != nil {
		return err
	}
	if _, err := print(f, t); err != nil {
		return err
	}
	if _, err := fmt.Fprint(f, "\n## How the faults are made\n\n"); err != nil {
		return err
	}
	return t.WriteFaults(f)
}
