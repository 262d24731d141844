package workload

import (
	"fmt"
	"slices"
	"time"
)

// row is the base of all rows, changed: 100-byte values without a key on 12 partitions, one goroutine, acks=all and
// idempotent, and Kafka's linger and batch size.
func row(name string, change func(w *Workload)) Workload {
	w := Workload{
		Name: name, Mode: Async, Value: 100, Partitions: 12, Goroutines: 1,
		Codec: "none", Acks: "all", Linger: 5 * time.Millisecond, Batch: 16 << 10,
	}
	change(&w)
	return w
}

func value(bytes int, codec string) func(w *Workload) {
	return func(w *Workload) { w.Value, w.Codec = bytes, codec }
}

// large values come from 16 goroutines, and batches have room for them.
func large(bytes int) func(w *Workload) {
	return func(w *Workload) { w.Value, w.Goroutines, w.Batch = bytes, 16, 1<<20 }
}

// partitions are many, and batches large enough to show what an open one costs.
func partitions(n int) func(w *Workload) {
	return func(w *Workload) { w.Keyed, w.Partitions, w.Batch = true, n, 1<<20 }
}

func sync(goroutines int) func(w *Workload) {
	return func(w *Workload) { w.Mode, w.Goroutines, w.Linger = Sync, goroutines, 0 }
}

func procs(n int) func(w *Workload) {
	return func(w *Workload) { w.Value, w.Codec, w.Procs = 1<<10, "zstd", n }
}

// Short is the matrix that is done in ten minutes.
func Short() []Workload {
	return []Workload{
		row("100B", func(*Workload) {}),
		row("100B-defaults", func(w *Workload) { w.Linger, w.Batch = OwnDefault, 0 }),
		row("100B-keyed", func(w *Workload) { w.Keyed = true }),
		row("1KiB", value(1<<10, "none")),
		row("1KiB-lz4", value(1<<10, "lz4")),
		row("1KiB-zstd", value(1<<10, "zstd")),
		row("sync", sync(1)),
		row("paced20k", func(w *Workload) { w.Mode, w.Rate, w.Linger = Paced, 20_000, 0 }),
	}
}

// Full is Short and the rest.
func Full() []Workload {
	return append(Short(),
		row("100B-16goroutines", func(w *Workload) { w.Goroutines = 16 }),
		row("100B-acks1", func(w *Workload) { w.Acks = "1" }),
		row("100B-delay2ms", func(w *Workload) { w.Delay = 2 * time.Millisecond }),
		row("sync-16goroutines", sync(16)),
		row("1KiB-snappy", value(1<<10, "snappy")),
		row("1KiB-gzip", value(1<<10, "gzip")),
		row("1KiB-zstd-procs1", procs(1)),
		row("1KiB-zstd-procs2", procs(2)),
		row("10KiB", func(w *Workload) { w.Value, w.Batch = 10<<10, 1<<20 }),
		row("100KiB-16goroutines", large(100<<10)),
		row("900KiB-16goroutines", large(900<<10)),
		row("100B-1000partitions", partitions(1_000)),
		row("100B-10000partitions", partitions(10_000)),
	)
}

// Matrix is the matrix of that name, or the rows of it that only names; none means all.
func Matrix(name string, only []string) ([]Workload, error) {
	var rows []Workload
	switch name {
	case "short":
		rows = Short()
	case "full":
		rows = Full()
	default:
		return nil, fmt.Errorf("there is no matrix %q: use short or full", name)
	}
	if len(only) == 0 {
		return rows, nil
	}
	var chosen []Workload
	for _, name := range only {
		// A row is found whichever matrix has it.
		i := slices.IndexFunc(Full(), func(w Workload) bool { return w.Name == name })
		if i < 0 {
			return nil, fmt.Errorf("there is no row %q: the rows are %v", name, names(Full()))
		}
		chosen = append(chosen, Full()[i])
	}
	return chosen, nil
}

func names(rows []Workload) (all []string) {
	for _, w := range rows {
		all = append(all, w.Name)
	}
	return all
}
