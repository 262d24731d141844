package archtest

import (
	"fmt"
	"go/ast"
	"maps"
	"slices"
	"testing"
)

// goStatements are the places where the library starts goroutines, by file and function, with who ends them.
var goStatements = map[string]string{
	"accumulator/seal.go:start":          "a sealer: compresses batches; ends when idle, or when the accumulator is closed",
	"netclient/tcp.go:Connect":           "a dialer, which becomes the reader: ends when its connection is closed",
	"netclient/conn.go:run":              "a writer: ends when its connection is closed",
	"netclient/dial.go:dialFirst":        "an attempt at one of a host's addresses: ends when it is connected or another one was quicker",
	"engine.go:newEngine":                "the sender: ends when Close has drained everything, or its ctx has ended",
	"engine.go:close":                    "tells when sender and dispatcher have ended: ends with them",
	"sender/dispatcher.go:NewDispatcher": "the dispatcher: ends when the sender has ended and its queue is empty",
}

// notLibrary are packages that the rules about goroutines and clocks do not bind.
var notLibrary = []string{"internal/testbroker", "internal/simnet", "internal/sim", "internal/faultrun", "internal/archtest", "netclient/selectortest", "examples"}

func isLibrary(f *file) bool {
	return !f.test && !slices.ContainsFunc(notLibrary, func(dir string) bool { return within(f.pkg, dir) })
}

// A goroutine is a commitment: who starts one says who ends it, here too.
func TestGoStatementsAreTheKnownOnes(t *testing.T) {
	found := map[string]int{}
	for _, f := range load(t) {
		if !isLibrary(f) {
			continue
		}
		f.inspect(func(where string, n ast.Node) {
			switch n := n.(type) {
			case *ast.GoStmt:
				found[where]++
			case *ast.CallExpr:
				// sync.WaitGroup.Go starts one as well.
				if s, ok := n.Fun.(*ast.SelectorExpr); ok && s.Sel.Name == "Go" && len(n.Args) == 1 {
					found[where]++
				}
			}
		})
	}
	for _, where := range slices.Sorted(maps.Keys(found)) {
		if _, ok := goStatements[where]; !ok {
			t.Errorf("%s starts a goroutine that the list does not know", where)
		} else if found[where] > 1 {
			t.Errorf("%s starts %d goroutines, the list knows one", where, found[where])
		}
	}
	for _, where := range slices.Sorted(maps.Keys(goStatements)) {
		if found[where] == 0 {
			t.Errorf("%s is on the list and starts no goroutine", where)
		}
	}
}

// inspect calls see for every node inside of a function, with "file:function".
func (f *file) inspect(see func(where string, n ast.Node)) {
	for _, d := range f.ast.Decls {
		where := f.path
		if fn, ok := d.(*ast.FuncDecl); ok {
			where = fmt.Sprintf("%s:%s", f.path, fn.Name.Name)
		}
		ast.Inspect(d, func(n ast.Node) bool {
			if n != nil {
				see(where, n)
			}
			return true
		})
	}
}
