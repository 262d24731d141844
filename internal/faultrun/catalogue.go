package faultrun

import (
	"time"

	"github.com/kafka-reservoir/producer/internal/testbroker"
)

// Fault is one of the catalogue.
type Fault struct {
	Name  string // for the command line
	Title string // as delivery's catalogue has it
	How   string // how it is made here
	Heals Recovery
	May   Failures

	// play makes it happen, and returns when all is well again. It calls healed when that was so before.
	play func(*stage)
	// early begins with the producer's first request.
	early bool
	// settings and cluster change what a run works with; nil changes nothing.
	settings func(*Settings)
	cluster  func(*testbroker.Config, uint64)
	spares   int // brokers that are down at first
}

// Recovery is how long it may take, after all is well again, until all partitions are written to.
type Recovery time.Duration

// Delivery's bounds, with a request timeout of two seconds and a retry back-off of 100 ms. What it does not name is held to the bound
// of what is most like it: a leader or a topic that is not there to a broker that is not there, requests and answers that are late
// or lost to silence, all that is answered to errors.
const (
	never        Recovery = 0 // there is nothing to recover to
	fromErrors            = Recovery(250 * time.Millisecond)
	fromBytes             = Recovery(300 * time.Millisecond)
	fromAbsence           = Recovery(500 * time.Millisecond)
	fromRefusals          = Recovery(time.Second)
	fromSilence           = Recovery(requestTimeout + 500*time.Millisecond)
)

// Failures says which records may fail.
type Failures int

const (
	// MayNone: the client is patient, and the cluster comes back before its patience ends.
	MayNone Failures = iota
	// MayExpire: the delivery timeout is shorter than the fault.
	MayExpire
	// MayDoubt: the brokers forget what they promised. A record whose fate nobody can find out any more may fail, as one that
	// may have been written.
	MayDoubt
)

// String is what the table says.
func (f Failures) String() string {
	switch f {
	case MayExpire:
		return "delivery timeout"
	case MayDoubt:
		return "fate unknowable"
	}
	return "none"
}

// needless reports whether a record's failure is one that there was no need for. In a forced run Close may fail what is left.
func (f Failures) needless(e *event, forced bool) bool {
	switch {
	case forced && (e.has(flagForced) || e.has(flagClosed)):
		return false
	case e.has(flagRefused):
		return true
	case f == MayExpire:
		return !e.has(flagTimeout)
	case f == MayDoubt:
		return !(e.has(flagForgot) && e.has(flagMay))
	}
	return true
}

// Catalogue is delivery's list of faults. Two of its names stand for two faults each: a broker that is down and back, with its
// partitions led by others meanwhile and not; brokers gone for good, one of them and all.
var Catalogue = concat(networkFaults, clusterFaults, answerFaults, byteFaults)

// Calm is no fault at all: what the same measurements say when nothing goes wrong.
var Calm = &Fault{
	Name: "calm", Title: "(no fault)", How: "nothing happens", Heals: fromErrors,
	play: func(s *stage) {
		s.struck() // what there is to strike
		s.pause(500*time.Millisecond, time.Second)
	},
}

// Find is the fault of that name; nil if there is none.
func Find(name string) *Fault {
	for _, f := range append(Catalogue, Calm) {
		if f.Name == name {
			return f
		}
	}
	return nil
}

func concat(lists ...[]*Fault) []*Fault {
	var all []*Fault
	for _, l := range lists {
		all = append(all, l...)
	}
	return all
}
