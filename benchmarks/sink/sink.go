// Package sink is a cluster that takes records and keeps none: it answers what a producer asks (ApiVersions, Metadata,
// InitProducerId, Produce), counts records by the headers of their batches, and does as little else as it can, so that it
// is the client that is measured. With Config.Verify it decodes every batch instead.
package sink

import (
	"errors"
	"fmt"
	"net"
	"sync"
	"sync/atomic"
	"time"
)

// Topic is the only topic there is.
const Topic = "benchmark"

var topicID = [16]byte{0xbe, 15: 1}

// Config is how a Sink behaves.
type Config struct {
	Brokers    int           // each with a port of its own
	Partitions int           // of Topic, spread over the brokers
	Delay      time.Duration // before a Produce request is answered
	// Verify decodes every batch: checksum, compression, records, and the sequence numbers of idempotent producers.
	Verify bool
}

// Stats is what a Sink was sent.
type Stats struct {
	Client     string `json:"client"`  // the client's name and version, as it told
	Produce    int16  `json:"produce"` // version of the last Produce request
	Requests   int64  `json:"requests"`
	Bytes      int64  `json:"bytes"` // of Produce requests, on the wire
	Batches    int64  `json:"batches"`
	Records    int64  `json:"records"`
	Verified   int64  `json:"verified"`    // records that were decoded
	ValueBytes int64  `json:"value_bytes"` // of the verified ones
	Faults     int64  `json:"faults"`
	FirstFault string `json:"first_fault,omitempty"`
}

// Sink is a running cluster.
type Sink struct {
	cfg       Config
	listeners []net.Listener
	parts     []partition
	nextID    atomic.Int64 // producer ids
	serving   sync.WaitGroup

	mu     sync.Mutex // guards the fields below
	stats  Stats
	conns  map[net.Conn]bool
	closed bool
}

// partition is what a Sink knows of one.
type partition struct {
	offset atomic.Int64
	mu     sync.Mutex // guards next
	next   map[producerEpoch]int32
}

type producerEpoch struct {
	id    int64
	epoch int16
}

// Start listens on free ports of the loopback.
func Start(cfg Config) (*Sink, error) {
	s := &Sink{cfg: cfg, parts: make([]partition, cfg.Partitions), conns: map[net.Conn]bool{}}
	for range cfg.Brokers {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			_ = s.Close()
			return nil, err
		}
		s.listeners = append(s.listeners, l)
	}
	for _, l := range s.listeners {
		s.serving.Go(func() { s.accept(l) })
	}
	return s, nil
}

// Addrs are the brokers' addresses.
func (s *Sink) Addrs() (addrs []string) {
	for _, l := range s.listeners {
		addrs = append(addrs, l.Addr().String())
	}
	return addrs
}

// Stats is what was sent so far.
func (s *Sink) Stats() Stats {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.stats
}

// Close ends all connections and returns when nothing runs any more.
func (s *Sink) Close() error {
	s.mu.Lock()
	s.closed = true
	conns := s.conns
	s.conns = nil
	s.mu.Unlock()
	var errs []error
	for _, l := range s.listeners {
		errs = append(errs, l.Close())
	}
	for c := range conns {
		_ = c.Close()
	}
	s.serving.Wait()
	return errors.Join(errs...)
}

func (s *Sink) accept(l net.Listener) {
	for {
		c, err := l.Accept()
		if err != nil {
			return // closed
		}
		s.mu.Lock()
		closed := s.closed
		if !closed {
			s.conns[c] = true
		}
		s.mu.Unlock()
		if closed {
			_ = c.Close()
			return
		}
		s.serving.Go(func() {
			if err := s.serve(c.(*net.TCPConn)); err != nil {
				s.fault("connection: %v", err)
			}
			_ = c.Close()
			s.mu.Lock()
			delete(s.conns, c)
			s.mu.Unlock()
		})
	}
}

// fault notes something that no client may send.
func (s *Sink) fault(format string, args ...any) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.stats.Faults++
	if s.stats.FirstFault == "" {
		s.stats.FirstFault = fmt.Sprintf(format, args...)
	}
}

// partition is that of an index, or nil.
func (s *Sink) partition(topic bool, index int32) *partition {
	if !topic || index < 0 || int(index) >= len(s.parts) {
		return nil
	}
	return &s.parts[index]
}

// add counts what one Produce request brought.
func (s *Sink) add(version int16, bytes, batches, records int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.stats.Produce = version
	s.stats.Requests++
	s.stats.Bytes += bytes
	s.stats.Batches += batches
	s.stats.Records += records
}
