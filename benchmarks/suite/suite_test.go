package suite

import (
	"bytes"
	"context"
	"flag"
	"fmt"
	"io"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/kafka-reservoir/producer/benchmarks/clients"
	"github.com/kafka-reservoir/producer/benchmarks/measure"
	"github.com/kafka-reservoir/producer/benchmarks/report"
	"github.com/kafka-reservoir/producer/benchmarks/workload"
)

// The test's own program is what the suite starts again, and what stands in for Kafka's tool.
func TestMain(m *testing.M) {
	child, err := Child(os.Args[1:], os.Stdin, os.Stdout)
	if len(os.Args) > 1 && os.Args[1] == "tool" {
		child, err = true, tool(os.Args[2:], os.Stdout)
	}
	switch {
	case err != nil:
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	case child:
		return
	}
	os.Exit(m.Run())
}

// tool does what org.apache.kafka.tools.ProducerPerformance does, with franz-go.
func tool(args []string, out io.Writer) error {
	fs := flag.NewFlagSet("tool", flag.ContinueOnError)
	topic := fs.String("topic", "", "")
	records := fs.Int64("num-records", 0, "")
	values := fs.String("payload-file", "", "")
	_ = fs.String("throughput", "", "")
	_ = fs.String("producer-props", "", "")
	if err := fs.Parse(args); err != nil {
		return err
	}
	if _, err := os.Stat(*values); err != nil {
		return err
	}
	_, brokers, _ := strings.Cut(strings.Join(args, " "), "bootstrap.servers=")
	brokers, _, _ = strings.Cut(brokers, " ")
	r, err := measure.Run(measure.Job{
		Client: "franz-go", Workload: workload.Short()[0], Brokers: strings.Split(brokers, ","), Topic: *topic, Measured: time.Minute, Records: *records,
	})
	if err != nil {
		return err
	}
	_, err = fmt.Fprintf(out, "%d records sent, %f records/sec (1.00 MB/sec), 1.5 ms avg latency, 210.00 ms max latency, 1 ms 50th, 2 ms 95th, 3 ms 99th, 4 ms 99.9th.\n",
		r.Records, float64(r.Records)/r.Seconds)
	return err
}

func TestSuite(t *testing.T) {
	rows, err := workload.Matrix("full", []string{"100B", "sync", "1KiB-zstd-procs1"})
	require.NoError(t, err)
	var progress, results bytes.Buffer
	data, err := Run(context.Background(), Options{
		Rows: rows, Repeat: 2, WarmUp: 20 * time.Millisecond, Measured: 50 * time.Millisecond, Progress: &progress, Results: &results, Dir: t.TempDir(),
	})
	require.NoError(t, err, progress.String())
	goClients := len(clients.All())
	_, cgo := clients.Find("confluent")
	want := 2 * len(rows) * goClients
	if cgo {
		want -= 2 // it has no part in the row with GOMAXPROCS
	}
	assert.Len(t, data.Runs, want)
	for _, r := range data.Runs {
		assert.Empty(t, r.Problem)
		assert.Positive(t, r.Records)
		assert.Positive(t, r.CPU)
		assert.Positive(t, r.PeakRSS)
		assert.Positive(t, r.Requests)
		assert.Positive(t, r.Latency.Samples)
	}
	// The clients take turns, and another one begins.
	assert.Equal(t, data.Setup.Clients[0], data.Runs[0].Client)
	assert.Equal(t, data.Setup.Clients[1], data.Runs[1].Client)
	assert.Equal(t, data.Setup.Clients[1], data.Runs[goClients].Client)
	assert.Equal(t, data.Setup.Clients[0], data.Runs[2*goClients-1].Client)

	read, err := report.Read(&results)
	require.NoError(t, err)
	assert.Equal(t, data.Runs, read.Runs)
	assert.Contains(t, progress.String(), "1/")
	assert.Contains(t, report.Markdown(&data), "| 1KiB-zstd-procs1 |")
}

func TestSuiteStopsWhenItsContextEnds(t *testing.T) {
	ctx, cancel := context.WithCancel(context.Background())
	var progress bytes.Buffer
	// The first finished run ends it.
	results := writerFunc(func(line []byte) {
		if bytes.HasPrefix(line, []byte(`{"run"`)) {
			cancel()
		}
	})
	data, err := Run(ctx, Options{
		Rows: workload.Short()[:1], Clients: []string{"reservoir", "none"}, Repeat: 2, Measured: 10 * time.Millisecond, Progress: &progress, Results: results,
	})
	require.ErrorIs(t, err, context.Canceled)
	assert.Len(t, data.Runs, 1)
}

type writerFunc func([]byte)

func (f writerFunc) Write(b []byte) (int, error) {
	f(b)
	return len(b), nil
}

func TestUnknownClientsAreRefused(t *testing.T) {
	_, err := Run(context.Background(), Options{Rows: workload.Short(), Clients: []string{"nobody"}, Repeat: 1, Progress: io.Discard, Results: io.Discard})
	assert.ErrorContains(t, err, `no client "nobody" here: there are reservoir, franz-go`)
	_, err = Run(context.Background(), Options{Rows: workload.Short(), Clients: []string{Java}, Repeat: 1, Progress: io.Discard, Results: io.Discard})
	assert.ErrorContains(t, err, `no client "java" here`)
}

func TestARunOfWhichRecordsAreMissingDoesNotCount(t *testing.T) {
	arrivedOf := func(n int64) *target {
		return &target{finish: func() (arrived, error) {
			var a arrived
			a.Records = n
			return a, nil
		}}
	}
	_, err := finished(arrivedOf(10), 10, nil)
	require.NoError(t, err)
	_, err = finished(arrivedOf(9), 10, nil)
	assert.EqualError(t, err, "10 records were sent and acknowledged, and 9 arrived")
}

func TestJavaTool(t *testing.T) {
	self, err := os.Executable()
	require.NoError(t, err)
	j := newJava([]string{self, "tool"}, t.TempDir())
	j.warm = 0
	w := workload.Workload{Name: "test", Mode: workload.Async, Value: 10_000, Partitions: 12, Goroutines: 1, Codec: "none", Acks: "all", Batch: 16 << 10}
	short, err := j.shortOf(context.Background(), &w, sinks{})
	require.NoError(t, err)
	assert.Equal(t, int64(100<<20/10_010), short.records)
	assert.Equal(t, short.records, short.arrived.Records)
	assert.Equal(t, measure.Latency{Samples: short.records, P50: 0.001, P99: 0.003, P999: 0.004, Max: 0.21}, short.latency)
	assert.Positive(t, short.cpu)
	assert.Equal(t, short.records, j.short["test"])

	r, a, cpu, err := j.run(context.Background(), &w, sinks{})
	if err != nil { // both processes are very short here
		require.ErrorContains(t, err, "held up the short one")
	}
	assert.Equal(t, 2*short.records, a.Records)
	assert.Equal(t, a.Records, r.Total)
	assert.Equal(t, short.records, r.Records)
	assert.Positive(t, cpu)
}

func TestDifference(t *testing.T) {
	short := toolRun{records: 100, seconds: 3, cpu: 6}
	r, err := difference(short, toolRun{records: 200, seconds: 5, cpu: 9, rss: 7})
	require.NoError(t, err)
	assert.Equal(t, measure.Result{Total: 200, Records: 100, Seconds: 2, CPU: 3, PeakRSS: 7}, r)
	_, err = difference(short, toolRun{records: 200, seconds: 3.3, cpu: 9})
	assert.ErrorContains(t, err, "the short process took 3.0 s and 6.0 s of CPU, the long one with 2 times as many records 3.3 s and 9.0 s")
	_, err = difference(short, toolRun{records: 200, seconds: 5, cpu: 5})
	assert.Error(t, err)
}

func TestWhatTheJavaToolSays(t *testing.T) {
	for _, out := range []string{
		"1000 records sent, 200.5 records/sec (0.02 MB/sec), 1.2 ms avg latency, 3.0 ms max latency.\n" +
			"5000 records sent, 2500.000000 records/sec (0.24 MB/sec), 1.25 ms avg latency, 210.00 ms max latency, 1 ms 50th, 4 ms 95th, 9 ms 99th, 20 ms 99.9th.\n",
		"5000 records sent, 2500,0 records/sec (0,24 MB/sec), 1,25 ms avg latency, 210,00 ms max latency, 1 ms 50th, 4 ms 95th, 9 ms 99th, 20 ms 99.9th.\n",
	} {
		r, err := parseTool(out)
		require.NoError(t, err)
		assert.Equal(t, toolRun{records: 5000, seconds: 2, latency: measure.Latency{Samples: 5000, P50: 0.001, P99: 0.009, P999: 0.02, Max: 0.21}}, r)
	}
	_, err := parseTool("Error: Could not find or load main class\n")
	assert.ErrorContains(t, err, "did not say what it measured: Error: Could not find")
}

func TestJavaConfig(t *testing.T) {
	w := workload.Full()[0]
	assert.Equal(t, []string{
		"bootstrap.servers=a:1,b:2", "acks=all", "enable.idempotence=true", "max.in.flight.requests.per.connection=5", "buffer.memory=33554432",
		"compression.type=none", "linger.ms=5", "batch.size=16384",
	}, javaConfig(&w, []string{"a:1", "b:2"}))
}
