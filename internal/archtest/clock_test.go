package archtest

import (
	"go/ast"
	"maps"
	"slices"
	"testing"
)

// clockReaders are the files that may ask what time it is, with the reason. Below them, now comes in as an argument.
var clockReaders = map[string]string{
	"engine.go":            "where time comes in: a record's, the sender's first, how long a caller waited",
	"metadata/await.go":    "an application waits here",
	"bufferpool/waiter.go": "an application waits here",
	"netclient/tcp.go":     "Selector.Poll, where time passes",
	"netclient/dial.go":    "has to share out what is left of a connection's set-up time",
}

// timerOwners are the files that may wait for time to pass.
var timerOwners = map[string]string{
	"metadata/await.go":    "bounds an application's wait for metadata",
	"bufferpool/waiter.go": "bounds an application's wait for memory",
	"accumulator/share.go": "bounds an application's wait for its node's share of memory",
	"netclient/tcp.go":     "Selector.Poll, and the bound of a connection's set-up",
	"netclient/dial.go":    "begins with a host's next address while the first is slow",
	"netclient/conn.go":    "bounds how long a closed connection lingers for what was written to it",
	"engine.go":            "bounds what Close waits for a callback after its ctx ended",
	"settings.go":          "bounds the look-up of bootstrap names in New",
}

var (
	readsClock = map[string]bool{"Now": true, "Since": true, "Until": true}
	setsTimer  = map[string]bool{"After": true, "AfterFunc": true, "NewTimer": true, "NewTicker": true, "Tick": true, "Sleep": true}
	setsLimit  = map[string]bool{"WithTimeout": true, "WithDeadline": true, "WithTimeoutCause": true, "WithDeadlineCause": true}
)

// Time comes in from outside, so that tests and simulations own it.
func TestClockIsAskedInFewPlaces(t *testing.T) {
	readers, timers := map[string]bool{}, map[string]bool{}
	for _, f := range load(t) {
		if !isLibrary(f) {
			continue
		}
		imports := f.imports()
		f.inspect(func(where string, n ast.Node) {
			s, ok := n.(*ast.SelectorExpr)
			if !ok {
				return
			}
			pkg, ok := s.X.(*ast.Ident)
			switch {
			case !ok:
			case pkg.Name == imports["time"] && readsClock[s.Sel.Name]:
				readers[f.path] = true
				if clockReaders[f.path] == "" {
					t.Errorf("%s asks the clock (time.%s); take now as an argument", where, s.Sel.Name)
				}
			case pkg.Name == imports["time"] && setsTimer[s.Sel.Name], pkg.Name == imports["context"] && setsLimit[s.Sel.Name]:
				timers[f.path] = true
				if timerOwners[f.path] == "" {
					t.Errorf("%s waits for time to pass (%s.%s); only Selector.Poll and the waits of applications do", where, pkg.Name, s.Sel.Name)
				}
			}
		})
	}
	for _, p := range slices.Sorted(maps.Keys(clockReaders)) {
		if !readers[p] {
			t.Errorf("%s may ask the clock and does not", p)
		}
	}
	for _, p := range slices.Sorted(maps.Keys(timerOwners)) {
		if !timers[p] {
			t.Errorf("%s may wait for time to pass and does not", p)
		}
	}
}
