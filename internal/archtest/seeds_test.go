package archtest

import (
	"fmt"
	"maps"
	"regexp"
	"slices"
	"testing"
)

// lastSeed is the highest number of a seed row: a mechanism of Kafka's own producer that this one must show.
const lastSeed = 104

// noSeedTest are the seed rows that no test shows, with the reason.
var noSeedTest = map[string]string{
	"S-09": "nothing is configured by class name: interceptors are values that the program makes, and New takes as they are",
	"S-11": "no component has to be told the cluster's id; the log has it",
	"S-29": "transactions come later; a TransactionalID is refused",
}

var seedID = regexp.MustCompile(`\bS-([0-9]{2,3})\b`)

// Every seed row is named by a test that shows it, and the exceptions are true ones.
func TestEverySeedRowHasATest(t *testing.T) {
	named := map[string][]string{}
	for _, f := range load(t) {
		if !f.test || within(f.pkg, "internal/archtest") {
			continue
		}
		for _, m := range seedID.FindAllString(f.text, -1) {
			named[m] = append(named[m], f.path)
		}
	}
	for n := 1; n <= lastSeed; n++ {
		id := fmt.Sprintf("S-%02d", n)
		reason, excepted := noSeedTest[id]
		switch {
		case len(named[id]) == 0 && !excepted:
			t.Errorf("%s: no test names it", id)
		case len(named[id]) > 0 && excepted:
			t.Errorf("%s is an exception (%s), but %s names it", id, reason, named[id][0])
		}
	}
	for _, id := range slices.Sorted(maps.Keys(noSeedTest)) {
		if noSeedTest[id] == "" {
			t.Errorf("%s is an exception without a reason", id)
		}
	}
}
