// Package measure runs one client through one workload, in this process, and says what it took.
package measure

import (
	"context"
	"fmt"
	"runtime"
	"time"

	"github.com/kafka-reservoir/producer/benchmarks/clients"
	"github.com/kafka-reservoir/producer/benchmarks/workload"
)

// Job is what to measure.
type Job struct {
	Client   string            `json:"client"`
	Workload workload.Workload `json:"workload"`
	Brokers  []string          `json:"brokers"`
	Topic    string            `json:"topic"`
	// WarmUp is sent before anything is measured, and acknowledged before Measured begins.
	WarmUp   time.Duration `json:"warm_up"`
	Measured time.Duration `json:"measured"`
	// Records ends both after so many records at the latest; 0 means no bound.
	Records int64 `json:"records,omitempty"`
}

// Result is what it took. All but Total is of the measured part alone: from its first record to the last one's
// acknowledgement.
type Result struct {
	Total      int64   `json:"total"` // records, the warm-up's included: what the other side must have
	Records    int64   `json:"records"`
	Seconds    float64 `json:"seconds"`
	CPU        float64 `json:"cpu"` // seconds of the process, the kernel's on its behalf included
	System     float64 `json:"system"`
	Allocs     float64 `json:"allocs"` // on Go's heap, by all goroutines
	AllocBytes float64 `json:"alloc_bytes"`
	GCs        int     `json:"gcs"`
	PeakRSS    int64   `json:"peak_rss"`   // bytes, of the whole run
	Goroutines int     `json:"goroutines"` // the most seen
	Latency    Latency `json:"latency"`
}

// Latency is from when a record was due to its acknowledgement, in seconds.
type Latency struct {
	Samples int64   `json:"samples"`
	P50     float64 `json:"p50"`
	P99     float64 `json:"p99"`
	P999    float64 `json:"p999"`
	Max     float64 `json:"max"`
}

// drainTimeout bounds the wait for the last acknowledgements.
const drainTimeout = time.Minute

// Run does the job. Any record that is lost makes it an error.
func Run(job Job) (Result, error) {
	client, ok := clients.Find(job.Client)
	if !ok {
		return Result{}, fmt.Errorf("there is no client %q in this program", job.Client)
	}
	d := &clients.Deliveries{}
	p, err := client.Open(clients.Job{Workload: job.Workload, Brokers: job.Brokers, Topic: job.Topic, Deliveries: d})
	if err != nil {
		return Result{}, fmt.Errorf("open %s: %w", job.Client, err)
	}
	s := &sending{p: p, d: d, w: &job.Workload, records: workload.NewRecords(&job.Workload), bound: job.Records}
	result, err := measured(s, job)
	if cerr := p.Close(); err == nil && cerr != nil {
		err = fmt.Errorf("close: %w", cerr)
	}
	return result, err
}

func measured(s *sending, job Job) (Result, error) {
	warmUp, err := s.phase(job.WarmUp)
	if err != nil {
		return Result{}, fmt.Errorf("warm-up: %w", err)
	}
	s.d.Latency.Reset()
	runtime.GC()
	goroutines := watchGoroutines()
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	cpuBefore := processUsage()
	begin := time.Now()

	records, err := s.phase(job.Measured)

	took := time.Since(begin)
	cpu := processUsage()
	runtime.ReadMemStats(&after)
	r := Result{
		Total: warmUp + records, Records: records, Seconds: took.Seconds(),
		CPU:        (cpu.user + cpu.system - cpuBefore.user - cpuBefore.system).Seconds(),
		System:     (cpu.system - cpuBefore.system).Seconds(),
		Allocs:     float64(after.Mallocs - before.Mallocs),
		AllocBytes: float64(after.TotalAlloc - before.TotalAlloc),
		GCs:        int(after.NumGC - before.NumGC),
		PeakRSS:    peakRSS(),
		Goroutines: goroutines(),
	}
	if err != nil {
		return r, err
	}
	h := &s.d.Latency
	seconds := func(ns int64) float64 { return time.Duration(ns).Seconds() }
	r.Latency = Latency{
		Samples: h.Count(), P50: seconds(h.Quantile(0.5)), P99: seconds(h.Quantile(0.99)), P999: seconds(h.Quantile(0.999)), Max: seconds(h.Max()),
	}
	return r, nil
}

// watchGoroutines looks every 20 ms how many there are, until the function that it returns is called: that says the most
// that were there, without the one that looked.
func watchGoroutines() func() int {
	ctx, cancel := context.WithCancel(context.Background())
	most := make(chan int)
	go func() {
		n := 0
		tick := time.NewTicker(20 * time.Millisecond)
		defer tick.Stop()
		for {
			n = max(n, runtime.NumGoroutine()-1)
			select {
			case <-tick.C:
			case <-ctx.Done():
				most <- n
				return
			}
		}
	}()
	return func() int {
		cancel()
		return <-most
	}
}
