// Package suite runs a matrix: every client in a process of its own, against a sink or a topic of its own, the clients
// taking turns.
package suite

import (
	"context"
	"errors"
	"fmt"
	"io"
	"runtime"
	"slices"
	"strings"
	"time"

	"github.com/kafka-reservoir/producer/benchmarks/clients"
	"github.com/kafka-reservoir/producer/benchmarks/measure"
	"github.com/kafka-reservoir/producer/benchmarks/report"
	"github.com/kafka-reservoir/producer/benchmarks/workload"
)

// Options are what to run.
type Options struct {
	Rows     []workload.Workload
	Clients  []string // empty: all that are available
	Repeat   int
	WarmUp   time.Duration
	Measured time.Duration
	Brokers  []string      // empty: a sink
	Near     time.Duration // a run counts only while the processors are at most so far apart, and is made three times at most; 0: it does not matter
	Java     []string      // the command that starts Kafka's performance tool; empty: none
	Dir      string        // for temporary files
	Progress io.Writer
	Results  io.Writer // gets a line for each run as soon as it is over
}

// suite is a running one.
type suite struct {
	Options
	java  *java
	to    targets
	data  report.Data
	times map[string][]time.Duration // that runs of a client took, for the estimate
}

// Run runs the matrix. When ctx ends it stops and returns what there is, with ctx's error.
func Run(ctx context.Context, o Options) (report.Data, error) {
	s := &suite{Options: o, java: newJava(o.Java, o.Dir), times: map[string][]time.Duration{}}
	if err := s.chooseClients(); err != nil {
		return report.Data{}, err
	}
	setup := &s.data.Setup
	setup.Date, setup.Machine, setup.Go = time.Now(), machine(), runtime.Version()
	setup.Clients, setup.WarmUp, setup.Measured = s.Clients, o.WarmUp, o.Measured
	setup.Against, s.to = "a sink of 3 brokers on the same machine, which keeps nothing", sinks{}
	if len(o.Brokers) > 0 {
		c, about, err := openCluster(ctx, o.Brokers)
		if err != nil {
			return report.Data{}, err
		}
		defer c.close()
		setup.Against, s.to = about, c
	}
	for _, sentence := range setup.Left {
		s.say("%s", sentence)
	}
	if err := s.verify(ctx); err != nil {
		return report.Data{}, err
	}
	if err := report.WriteSetup(s.Results, setup); err != nil {
		return report.Data{}, err
	}
	return s.data, s.matrix(ctx)
}

func (s *suite) say(format string, args ...any) { _, _ = fmt.Fprintf(s.Progress, format+"\n", args...) }

func (s *suite) leaveOut(format string, args ...any) {
	s.data.Setup.Left = append(s.data.Setup.Left, fmt.Sprintf(format, args...))
}

// chooseClients takes those that were asked for, or all, and says what is missing.
func (s *suite) chooseClients() error {
	var available []string
	for _, c := range clients.All() {
		available = append(available, c.Name)
	}
	if !slices.Contains(available, "confluent") {
		s.leaveOut("confluent-kafka-go is left out: this program was built without cgo, which needs CGO_ENABLED=1 and a C compiler.")
	}
	if s.java != nil {
		available = append(available, Java)
	} else {
		s.leaveOut("Kafka's Java producer is left out: kafka-producer-perf-test.sh is not in the path, and -java does not say how to start it.")
	}
	if len(s.Clients) == 0 {
		s.Clients = available
		return nil
	}
	for _, c := range s.Clients {
		if !slices.Contains(available, c) && c != clients.None {
			return fmt.Errorf("there is no client %q here: there are %s", c, strings.Join(available, ", "))
		}
	}
	return nil
}

// can reports whether a client can do a row at all.
func (s *suite) can(client string, w *workload.Workload) bool {
	switch {
	case client == Java:
		return javaCan(w)
	case client == "confluent":
		return w.Procs == 0 // librdkafka's threads are not Go's to bound
	}
	return true
}

// step is one run of the matrix.
type step struct {
	row    workload.Workload
	client string
	repeat int
}

// steps are all runs in their order: row by row, in each the clients one after the other, as often as is repeated, each
// time beginning with another one.
func (s *suite) steps() (all []step) {
	for _, row := range s.Rows {
		if row.Delay > 0 && len(s.Brokers) > 0 {
			s.leaveOut("%s is left out: a cluster answers when it likes.", row.Name)
			continue
		}
		able := slices.DeleteFunc(slices.Clone(s.Clients), func(c string) bool { return !s.can(c, &row) })
		for r := range s.Repeat {
			for i := range able {
				all = append(all, step{row, able[(i+r)%len(able)], r + 1})
			}
		}
	}
	return all
}

func (s *suite) matrix(ctx context.Context) error {
	steps := s.steps()
	begin := time.Now()
	s.say("%d runs, about %v", len(steps), s.estimate(steps).Round(time.Second))
	problems := 0
	for i, st := range steps {
		before := time.Now()
		run := s.run(ctx, st)
		if ctx.Err() != nil {
			return fmt.Errorf("stopped after %d of %d runs: %w", i, len(steps), ctx.Err())
		}
		s.times[st.client] = append(s.times[st.client], time.Since(before))
		s.data.Runs = append(s.data.Runs, run)
		if err := report.WriteRun(s.Results, &run); err != nil {
			return err
		}
		if run.Problem != "" {
			problems++
		}
		s.say("%*d/%d %6s, %5s left  %-22s %-10s #%d  %s", len(fmt.Sprint(len(steps))), i+1, len(steps),
			clock(time.Since(begin)), clock(s.estimate(steps[i+1:])), st.row.Name, st.client, st.repeat, run.Line())
	}
	if problems > 0 {
		return fmt.Errorf("%d of %d runs do not count; the report says why", problems, len(steps))
	}
	return nil
}

func clock(d time.Duration) string {
	return fmt.Sprintf("%d:%02d", int(d.Minutes()), int(d.Seconds())%60)
}

// estimate is how long these runs will take, going by those before them.
func (s *suite) estimate(steps []step) (total time.Duration) {
	for _, st := range steps {
		one := s.WarmUp + s.Measured + 500*time.Millisecond
		if st.client == Java {
			one = 10 * time.Second
		}
		if past := s.times[st.client]; len(past) > 0 {
			one = 0
			for _, d := range past {
				one += d / time.Duration(len(past))
			}
		}
		total += one
	}
	return total
}

// run makes one run. What goes wrong is the run's Problem.
func (s *suite) run(ctx context.Context, st step) report.Run {
	told := false
	wait := func(ctx context.Context) {
		if !told {
			told = true
			s.say("processors are more than %v apart: waiting for them, half a minute at most", s.Near)
		}
		pauseBetweenLooks(ctx)
	}
	return nearRun(ctx, s.Near.Seconds(), processorsApart, wait, func() report.Run { return s.once(ctx, st) })
}

func (s *suite) once(ctx context.Context, st step) report.Run {
	run := report.Run{Row: st.row, Client: st.client, Repeat: st.repeat, NotGo: st.client == Java}
	begin, busy := time.Now(), busySeconds()
	var a arrived
	var cpu float64
	var err error
	if st.client == Java {
		run.Result, a, cpu, err = s.java.run(ctx, &st.row, s.to)
	} else {
		run.Result, a, cpu, err = s.goClient(ctx, st)
	}
	if err != nil {
		run.Problem = err.Error()
	}
	run.Requests, run.Batches, run.WireBytes, run.BrokerCPU = a.Requests, a.Batches, a.Bytes, a.cpu
	run.OtherCores = max(busySeconds()-busy-cpu-a.cpu, 0) / time.Since(begin).Seconds()
	return run
}

func (s *suite) goClient(ctx context.Context, st step) (measure.Result, arrived, float64, error) {
	t, err := s.to.open(ctx, &st.row)
	if err != nil {
		return measure.Result{}, arrived{}, 0, err
	}
	ctx, cancel := context.WithTimeout(ctx, s.WarmUp+s.Measured+3*time.Minute)
	defer cancel()
	result, cpu, err := runClient(ctx, measure.Job{
		Client: st.client, Workload: st.row, Brokers: t.brokers, Topic: t.topic, WarmUp: s.WarmUp, Measured: s.Measured,
	})
	if st.client == clients.None {
		_, ferr := t.finish()
		return result, arrived{}, cpu, errors.Join(err, ferr)
	}
	a, err := finished(t, result.Total, err)
	return result, a, cpu, err
}

// finished ends a target. What was sent, all of it acknowledged, must be what arrived.
func finished(t *target, sent int64, err error) (arrived, error) {
	a, ferr := t.finish()
	switch {
	case err != nil || ferr != nil:
		return a, errors.Join(err, ferr)
	case a.Records != sent:
		return a, fmt.Errorf("%d records were sent and acknowledged, and %d arrived", sent, a.Records)
	}
	return a, nil
}
