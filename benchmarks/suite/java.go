package suite

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"regexp"
	"strconv"
	"strings"

	"github.com/kafka-reservoir/producer/benchmarks/measure"
	"github.com/kafka-reservoir/producer/benchmarks/workload"
)

// Java is the name of Kafka's own producer, which its performance tool drives.
const Java = "java"

// java runs the tool. What counts is the difference between a long process and a short one: the start of the virtual
// machine, and what its compiler does until the code is warm, is in both.
type java struct {
	command []string         // how to start the tool
	dir     string           // for files
	warm    float64          // see warm
	short   map[string]int64 // by row, how many records the short process sends
}

// newJava returns nil where there is no command.
func newJava(command []string, dir string) *java {
	if len(command) == 0 {
		return nil
	}
	return &java{command: command, dir: dir, warm: warm, short: map[string]int64{}}
}

// warm is the CPU time, in seconds, that the short process uses at least. To start takes 2 to 3, and up to 6 or so the code
// is half compiled: a record takes twice what it takes later.
const warm = 7.0

// long is how many times as many records the long process sends.
const long = 2

// javaCan reports whether the tool can do a row: it has one thread, and no keys, and tells times in milliseconds only.
func javaCan(w *workload.Workload) bool {
	return w.Mode == workload.Async && !w.Keyed && w.Goroutines == 1 && w.Procs == 0
}

// FindJava is the command that starts the tool: what was given, or the script of that name in the path.
func FindJava(given string) []string {
	if given != "" {
		return strings.Fields(given)
	}
	for _, name := range []string{"kafka-producer-perf-test.sh", "kafka-producer-perf-test"} {
		if path, err := exec.LookPath(name); err == nil {
			return []string{path}
		}
	}
	return nil
}

// toolRun is one process of the tool.
type toolRun struct {
	records int64
	seconds float64 // from its first record to the last acknowledgement, as it says
	cpu     float64
	rss     int64
	latency measure.Latency
	arrived arrived
}

// tries are how often the two processes are run until their difference can be true.
const tries = 3

// run measures w, each process against a target of its own.
func (j *java) run(ctx context.Context, w *workload.Workload, to targets) (r measure.Result, a arrived, cpu float64, err error) {
	for range tries {
		var short, t toolRun
		short, err = j.shortOf(ctx, w, to)
		cpu += short.cpu
		if err != nil {
			return r, a, cpu, err
		}
		t, err = j.once(ctx, w, to, long*short.records)
		cpu += t.cpu
		if err != nil {
			return r, a, cpu, err
		}
		a = t.arrived
		if r, err = difference(short, t); err == nil {
			break
		}
	}
	return r, a, cpu, err
}

// difference is what the long process took more than the short one: half of what it took in all, less half of the start.
// A disk or another program that held up the short one makes it too small, or less than nothing.
func difference(short, t toolRun) (measure.Result, error) {
	r := measure.Result{
		Total: t.records, Records: t.records - short.records,
		Seconds: t.seconds - short.seconds, CPU: t.cpu - short.cpu,
		PeakRSS: t.rss, Latency: t.latency,
	}
	if r.Seconds < t.seconds/8 || r.CPU < t.cpu/8 {
		return r, fmt.Errorf("the short process took %.1f s and %.1f s of CPU, the long one with %d times as many records %.1f s and %.1f s: something else held up the short one",
			short.seconds, short.cpu, long, t.seconds, t.cpu)
	}
	return r, nil
}

// shortOf makes the short run. The first one of a row finds out how many records it takes.
func (j *java) shortOf(ctx context.Context, w *workload.Workload, to targets) (toolRun, error) {
	if records, ok := j.short[w.Name]; ok {
		return j.once(ctx, w, to, records)
	}
	r, err := j.warmUp(ctx, w, to)
	if err == nil {
		j.short[w.Name] = r.records
	}
	return r, err
}

// warmUp runs the tool with more and more records until it takes as long as it shall.
func (j *java) warmUp(ctx context.Context, w *workload.Workload, to targets) (toolRun, error) {
	records := max(100<<20/int64(w.RecordBytes()), 1_000)
	for {
		r, err := j.once(ctx, w, to, records)
		if err != nil || r.cpu >= j.warm {
			return r, err
		}
		records *= 4
	}
}

// once runs the tool for so many records.
func (j *java) once(ctx context.Context, w *workload.Workload, to targets, records int64) (toolRun, error) {
	t, err := to.open(ctx, w)
	if err != nil {
		return toolRun{}, err
	}
	r, err := j.tool(ctx, w, t, records)
	r.arrived, err = finished(t, records, err)
	return r, err
}

// tool starts it: the same values as all clients, from a file.
func (j *java) tool(ctx context.Context, w *workload.Workload, t *target, records int64) (toolRun, error) {
	values, err := os.CreateTemp(j.dir, "values-*")
	if err != nil {
		return toolRun{}, err
	}
	defer func() { _ = os.Remove(values.Name()) }()
	_, err = values.Write(workload.NewRecords(w).Lines())
	if err := errors.Join(err, values.Close()); err != nil {
		return toolRun{}, err
	}
	args := append(j.command[1:len(j.command):len(j.command)],
		"--topic", t.topic, "--num-records", strconv.FormatInt(records, 10), "--throughput", "-1",
		"--payload-file", values.Name(), "--producer-props")
	cmd := exec.CommandContext(ctx, j.command[0], append(args, javaConfig(w, t.brokers)...)...)
	stdout, stderr, err := output(cmd)
	r := toolRun{records: records}
	if cmd.ProcessState != nil {
		r.cpu = cpuSeconds(cmd.ProcessState)
		r.rss = maxRSS(cmd.ProcessState)
	}
	if err != nil {
		return r, fmt.Errorf("%s: %w%s", j.command[0], err, quoted(append(stdout, stderr...)))
	}
	said, err := parseTool(string(stdout))
	if err != nil {
		return r, err
	}
	r.seconds, r.latency = said.seconds, said.latency
	if said.records != records {
		return r, fmt.Errorf("the tool sent %d records of %d", said.records, records)
	}
	return r, nil
}

// javaConfig is what the workload says, in Java's names. All else is at its defaults.
func javaConfig(w *workload.Workload, brokers []string) []string {
	props := []string{
		"bootstrap.servers=" + strings.Join(brokers, ","),
		"acks=" + w.Acks,
		fmt.Sprintf("enable.idempotence=%v", w.Idempotent()),
		fmt.Sprintf("max.in.flight.requests.per.connection=%d", workload.MaxInFlight),
		fmt.Sprintf("buffer.memory=%d", workload.BufferMemory),
		"compression.type=" + w.Codec,
	}
	if !w.OwnDefaults() {
		props = append(props, fmt.Sprintf("linger.ms=%d", w.Linger.Milliseconds()), fmt.Sprintf("batch.size=%d", w.Batch))
	}
	if w.Batch >= 1<<20 {
		props = append(props, fmt.Sprintf("max.request.size=%d", w.Batch+64<<10))
	}
	return props
}

// The last line that the tool prints, since 0.9:
// 5000000 records sent, 1234567.9 records/sec (117.74 MB/sec), 1.25 ms avg latency, 210.00 ms max latency, 1 ms 50th, 4 ms 95th, 9 ms 99th, 20 ms 99.9th.
var toolLine = regexp.MustCompile(`(?m)^(\d+) records sent, ([\d.,]+) records/sec .*? ([\d.,]+) ms max latency, (\d+) ms 50th, \d+ ms 95th, (\d+) ms 99th, (\d+) ms 99\.9th`)

func parseTool(out string) (toolRun, error) {
	m := toolLine.FindStringSubmatch(out)
	if m == nil {
		return toolRun{}, fmt.Errorf("the tool did not say what it measured%s", quoted([]byte(out)))
	}
	var v [7]float64
	for i := 1; i < len(m); i++ {
		// Some locales write 0,5.
		v[i], _ = strconv.ParseFloat(strings.ReplaceAll(m[i], ",", "."), 64)
	}
	if v[2] <= 0 {
		return toolRun{}, fmt.Errorf("the tool measured nothing%s", quoted([]byte(out)))
	}
	return toolRun{
		records: int64(v[1]), seconds: v[1] / v[2],
		latency: measure.Latency{Samples: int64(v[1]), Max: v[3] / 1e3, P50: v[4] / 1e3, P99: v[5] / 1e3, P999: v[6] / 1e3},
	}, nil
}
