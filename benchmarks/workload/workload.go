// Package workload says what is measured: the rows of the matrix, and the records that are sent.
package workload

import (
	"fmt"
	"strings"
	"time"
)

// Mode is how records are handed to a client.
type Mode string

const (
	// Async hands over records as fast as the client takes them.
	Async Mode = "async"
	// Sync waits for the acknowledgement of each record before the next one, in every goroutine.
	Sync Mode = "sync"
	// Paced hands over a record when it is due, whether or not those before it are acknowledged.
	Paced Mode = "paced"
)

// OwnDefault is the Linger that leaves linger and batch size to the client.
const OwnDefault time.Duration = -1

// BufferMemory is what every client may buffer, where it has such a limit: Kafka's default.
const BufferMemory = 32 << 20

// MaxInFlight is how many requests a connection may have unanswered: Kafka's default.
const MaxInFlight = 5

// Workload is one row of the matrix.
type Workload struct {
	Name       string        `json:"name"`
	Mode       Mode          `json:"mode"`
	Value      int           `json:"value"` // bytes
	Keyed      bool          `json:"keyed,omitempty"`
	Partitions int           `json:"partitions"`
	Goroutines int           `json:"goroutines"`
	Codec      string        `json:"codec"`           // none, gzip, snappy, lz4, zstd
	Acks       string        `json:"acks"`            // all, and with it idempotence; or 1
	Linger     time.Duration `json:"linger"`          // OwnDefault: the client's
	Batch      int           `json:"batch"`           // bytes; 0 with OwnDefault
	Rate       int           `json:"rate,omitempty"`  // records a second, with Paced
	Delay      time.Duration `json:"delay,omitempty"` // before the sink answers
	Procs      int           `json:"procs,omitempty"` // GOMAXPROCS; 0: as many as there are cores
}

// Idempotent reports whether the producer shall be.
func (w *Workload) Idempotent() bool { return w.Acks == "all" }

// OwnDefaults reports whether linger and batch size are the client's own.
func (w *Workload) OwnDefaults() bool { return w.Linger == OwnDefault }

// RecordBytes is about what one record takes in a batch.
func (w *Workload) RecordBytes() int {
	n := w.Value + 10
	if w.Keyed {
		n += KeyBytes
	}
	return n
}

// About describes the row in a sentence.
func (w *Workload) About() string {
	var b strings.Builder
	switch w.Mode {
	case Async:
		b.WriteString("As fast as the client takes them, ")
	case Sync:
		b.WriteString("Each record is waited for, ")
	case Paced:
		fmt.Fprintf(&b, "%d records a second, ", w.Rate)
	}
	fmt.Fprintf(&b, "%s values", Bytes(w.Value))
	if w.Keyed {
		fmt.Fprintf(&b, " with random %d-byte keys", KeyBytes)
	} else {
		b.WriteString(" without a key")
	}
	fmt.Fprintf(&b, ", %d partitions, ", w.Partitions)
	if w.Goroutines == 1 {
		b.WriteString("1 goroutine, ")
	} else {
		fmt.Fprintf(&b, "%d goroutines, ", w.Goroutines)
	}
	fmt.Fprintf(&b, "acks=%s, ", w.Acks)
	switch {
	case w.OwnDefaults():
		b.WriteString("linger and batch size are each client's own")
	default:
		fmt.Fprintf(&b, "linger %v, batches of %s", w.Linger, Bytes(w.Batch))
	}
	if w.Codec != "none" {
		fmt.Fprintf(&b, ", %s", w.Codec)
	}
	if w.Delay > 0 {
		fmt.Fprintf(&b, ", the broker answers after %v", w.Delay)
	}
	if w.Procs > 0 {
		fmt.Fprintf(&b, ", GOMAXPROCS=%d", w.Procs)
	}
	return b.String() + "."
}

// Bytes writes n as people do: 100 B, 16 KiB, 1 MiB.
func Bytes(n int) string {
	switch {
	case n >= 1<<20 && n%(1<<20) == 0:
		return fmt.Sprintf("%d MiB", n>>20)
	case n >= 1<<10 && n%(1<<10) == 0:
		return fmt.Sprintf("%d KiB", n>>10)
	}
	return fmt.Sprintf("%d B", n)
}
