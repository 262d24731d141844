// Command compare measures this project's producer and others, and writes a report.
//
//	go run ./cmd/compare                                    # the short matrix against a sink: five minutes, with Java nine
//	go run ./cmd/compare -only 100B,1KiB -repeat 5          # some rows of it, more often
//	go run ./cmd/compare -brokers localhost:9092            # against a real cluster
//	go run ./cmd/compare -java /opt/kafka/bin/kafka-producer-perf-test.sh
//	go run ./cmd/compare -from out/results.jsonl            # the report again
//
// The directory of -out gets results.jsonl (every run), report.md and report.html.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"time"

	"github.com/kafka-reservoir/producer/benchmarks/report"
	"github.com/kafka-reservoir/producer/benchmarks/suite"
	"github.com/kafka-reservoir/producer/benchmarks/workload"
)

func main() {
	child, err := suite.Child(os.Args[1:], os.Stdin, os.Stdout)
	if !child {
		err = compare(os.Args[1:])
	}
	switch {
	case errors.Is(err, flag.ErrHelp):
	case err != nil:
		fmt.Fprintln(os.Stderr, "compare:", err)
		os.Exit(1)
	}
}

func compare(args []string) error {
	fs := flag.NewFlagSet("compare", flag.ContinueOnError)
	matrix := fs.String("matrix", "short", "the rows to run: short (five minutes, with Java nine) or full (three times that)")
	only := fs.String("only", "", "only these rows, comma-separated, of whatever matrix")
	clients := fs.String("clients", "", "only these clients, comma-separated; also none, which shows what the harness itself costs (default: all that are available)")
	repeat := fs.Int("repeat", 3, "runs of each client in each row")
	seconds := fs.Float64("seconds", 1.5, "how long a run is measured, after a third of it as warm-up")
	brokers := fs.String("brokers", "", "host:port,… of a real cluster, in which a topic is made for each run and deleted afterwards (default: a sink on this machine)")
	near := fs.Duration("near", 0, "count only runs with processors at most so far apart, there and back, see README; each is tried three times (default: take them as they are)")
	java := fs.String("java", "", "the command that starts Kafka's producer performance tool (default: kafka-producer-perf-test.sh if that is in the path)")
	from := fs.String("from", "", "run nothing; make the report of these files of results, comma-separated")
	out := fs.String("out", "out", "directory for the results and the report; what is there is overwritten")
	if err := fs.Parse(args); err != nil {
		return err
	}
	if fs.NArg() > 0 {
		return fmt.Errorf("what is %q? Arguments are flags, see -help", fs.Arg(0))
	}
	if *repeat < 1 || *seconds <= 0 {
		return errors.New("-repeat must be 1 or more, and -seconds more than 0")
	}
	if err := os.MkdirAll(*out, 0o755); err != nil {
		return err
	}
	if *from != "" {
		return again(list(*from), *out)
	}
	rows, err := workload.Matrix(*matrix, list(*only))
	if err != nil {
		return err
	}
	results, err := os.Create(filepath.Join(*out, "results.jsonl"))
	if err != nil {
		return err
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	measured := time.Duration(*seconds * float64(time.Second))
	data, err := suite.Run(ctx, suite.Options{
		Rows: rows, Clients: list(*clients), Repeat: *repeat, WarmUp: measured / 3, Measured: measured,
		Brokers: list(*brokers), Near: *near, Java: suite.FindJava(*java), Dir: *out, Progress: os.Stdout, Results: results,
	})
	err = errors.Join(err, results.Close())
	if len(data.Runs) > 0 {
		err = errors.Join(err, write(&data, *out))
	}
	return err
}

// again makes the report of runs that were made earlier.
func again(files []string, out string) error {
	var data report.Data
	for _, name := range files {
		f, err := os.Open(name)
		if err != nil {
			return err
		}
		d, err := report.Read(f)
		_ = f.Close()
		if err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
		data = data.And(d)
	}
	return write(&data, out)
}

func write(data *report.Data, out string) error {
	for _, file := range []struct{ name, text string }{{"report.md", report.Markdown(data)}, {"report.html", report.HTML(data)}} {
		path := filepath.Join(out, file.name)
		if err := os.WriteFile(path, []byte(file.text), 0o644); err != nil {
			return err
		}
		fmt.Println("written:", path)
	}
	return nil
}

// list splits at commas; nothing gives an empty list.
func list(s string) []string {
	return strings.FieldsFunc(s, func(r rune) bool { return r == ',' })
}
