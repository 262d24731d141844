// Package report makes Markdown tables and a page with plots of what was measured.
package report

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"time"

	"github.com/kafka-reservoir/producer/benchmarks/measure"
	"github.com/kafka-reservoir/producer/benchmarks/workload"
)

// Setup is under which conditions a report's runs were made.
type Setup struct {
	Date     time.Time         `json:"date"`
	Machine  string            `json:"machine"`
	Go       string            `json:"go"`
	Against  string            `json:"against"`
	Clients  []string          `json:"clients"`  // in the order of the report; the first is the one that is compared with the others
	Versions map[string]string `json:"versions"` // of the clients
	Left     []string          `json:"left"`     // what was left out, in sentences
	WarmUp   time.Duration     `json:"warm_up"`
	Measured time.Duration     `json:"measured"`
}

// Run is one client in one row, once.
type Run struct {
	Row     workload.Workload `json:"row"`
	Client  string            `json:"client"`
	Repeat  int               `json:"repeat"`            // from 1
	Problem string            `json:"problem,omitempty"` // why the run does not count
	measure.Result
	NotGo      bool    `json:"not_go,omitempty"` // nothing is known of its heap and its goroutines
	Requests   int64   `json:"requests"`         // of the whole run, as the sink saw them; 0: not known
	Batches    int64   `json:"batches"`
	WireBytes  int64   `json:"wire_bytes"`
	BrokerCPU  float64 `json:"broker_cpu"`  // seconds, of the sink
	OtherCores float64 `json:"other_cores"` // that processes which are no part of the measurement kept busy
	Apart      float64 `json:"apart"`       // seconds that a cache line takes from one processor to another and back, the more of before and after; 0: not known
}

// Data is all of a report.
type Data struct {
	Setup Setup
	Runs  []Run
}

// line is one of a file of results: one of the two.
type line struct {
	Setup *Setup `json:"setup,omitempty"`
	Run   *Run   `json:"run,omitempty"`
}

// WriteSetup and WriteRun append a line to a file of results.
func WriteSetup(w io.Writer, s *Setup) error { return json.NewEncoder(w).Encode(line{Setup: s}) }

// WriteRun appends a run.
func WriteRun(w io.Writer, r *Run) error { return json.NewEncoder(w).Encode(line{Run: r}) }

// Read reads a file of results.
func Read(r io.Reader) (Data, error) {
	var d Data
	in := bufio.NewScanner(r)
	in.Buffer(nil, 1<<20)
	for n := 1; in.Scan(); n++ {
		var l line
		if err := json.Unmarshal(in.Bytes(), &l); err != nil {
			return Data{}, fmt.Errorf("line %d: %w", n, err)
		}
		switch {
		case l.Setup != nil:
			d = d.And(Data{Setup: *l.Setup})
		case l.Run != nil:
			d.Runs = append(d.Runs, *l.Run)
		}
	}
	if err := in.Err(); err != nil {
		return Data{}, err
	}
	if len(d.Runs) == 0 || len(d.Setup.Clients) == 0 {
		return Data{}, errors.New("this is no file of results, or nothing was run")
	}
	return d, nil
}

// And puts runs of several times together. The later setup stays, with the clients of both.
func (d Data) And(later Data) Data {
	setup := later.Setup
	setup.Clients = slices.Clone(d.Setup.Clients)
	for _, c := range later.Setup.Clients {
		if !slices.Contains(setup.Clients, c) {
			setup.Clients = append(setup.Clients, c)
		}
	}
	setup.Versions = map[string]string{}
	maps.Copy(setup.Versions, d.Setup.Versions)
	maps.Copy(setup.Versions, later.Setup.Versions)
	return Data{setup, slices.Concat(d.Runs, later.Runs)}
}
