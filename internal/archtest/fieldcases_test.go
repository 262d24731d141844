package archtest

import (
	"fmt"
	"go/ast"
	"maps"
	"slices"
	"strings"
	"testing"
)

// lastFieldCase is the highest number of a field case: a problem that users of Kafka producers have reported.
const lastFieldCase = 137

// noFieldCase are the field cases that no test is named after, with the reason. DESIGN.md section 7 has the same list in words.
var noFieldCase = map[string]string{}

func init() {
	for n := 67; n <= 72; n++ {
		noFieldCase[fieldCase(n)] = "SASL comes later; a Config with it is refused"
	}
	for n := 73; n <= 77; n++ {
		noFieldCase[fieldCase(n)] = "TLS comes later; a Config with it is refused"
	}
	for n := 81; n <= 91; n++ {
		noFieldCase[fieldCase(n)] = "transactions come later; a TransactionalID is refused"
	}
}

func fieldCase(n int) string { return fmt.Sprintf("FC%03d", n) }

// Every field case is shown by a test with its number in its name, and the exceptions are true ones.
func TestEveryFieldCaseHasATest(t *testing.T) {
	named := map[string]string{}
	for _, f := range load(t) {
		if !f.test {
			continue
		}
		for _, d := range f.ast.Decls {
			fn, ok := d.(*ast.FuncDecl)
			if !ok || !strings.HasPrefix(fn.Name.Name, "Test") && !strings.HasPrefix(fn.Name.Name, "Fuzz") {
				continue
			}
			for n := 1; n <= lastFieldCase; n++ {
				if strings.Contains(fn.Name.Name, fieldCase(n)) {
					named[fieldCase(n)] = f.path
				}
			}
		}
	}
	for n := 1; n <= lastFieldCase; n++ {
		id := fieldCase(n)
		switch reason := noFieldCase[id]; {
		case named[id] == "" && reason == "":
			t.Errorf("%s: no test is named after it", id)
		case named[id] != "" && reason != "":
			t.Errorf("%s is an exception (%s), but %s has a test", id, reason, named[id])
		}
	}
	for _, id := range slices.Sorted(maps.Keys(noFieldCase)) {
		if noFieldCase[id] == "" {
			t.Errorf("%s is an exception without a reason", id)
		}
	}
}
