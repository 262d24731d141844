package archtest

import (
	"maps"
	"slices"
	"strings"
	"testing"
)

// allowed says which packages of this module a package may import, in its code proper. The data flows from the root to
// the network; imports go the same way, except that the sender pulls from the accumulator.
var allowed = map[string][]string{
	// L0: the standard library only, but for the checks and counters that everybody may use.
	"internal/invariants":    {},
	"internal/mutants":       {},
	"internal/metrics":       {},
	"internal/backoff":       {},
	"internal/crc32c":        {},
	"internal/prefetch":      {},
	"internal/simnet":        {},
	"internal/leak":          {},
	"protocol/internal/wire": {},
	"protocol":               {"protocol/internal/wire", "internal/crc32c", "internal/invariants"},
	"partitioner":            {},
	"bufferpool":             {"internal/invariants", "internal/metrics"},
	"sasl":                   {},

	// L1
	"metadata":          {"protocol", "internal/backoff", "internal/invariants", "internal/metrics", "internal/mutants"},
	"netclient":         {"protocol", "sasl", "internal/backoff", "internal/invariants", "internal/metrics", "internal/mutants"},
	"internal/compress": {"protocol"},

	// L2 to L4
	"accumulator":  {"bufferpool", "partitioner", "metadata", "protocol", "internal/backoff", "internal/invariants", "internal/metrics", "internal/mutants", "internal/prefetch"},
	"internal/txn": {"accumulator", "protocol", "internal/backoff", "internal/invariants", "internal/mutants", "internal/prefetch"},
	"sender": {
		"accumulator", "internal/txn", "netclient", "metadata", "protocol", "internal/backoff",
		"internal/invariants", "internal/metrics", "internal/mutants", "internal/prefetch",
	},

	// L5: the root may import all but what only tests use.
	".": {
		"accumulator", "bufferpool", "metadata", "netclient", "partitioner", "protocol", "sasl", "sender", "internal/backoff",
		"internal/compress", "internal/invariants", "internal/metrics", "internal/txn",
	},

	// Beside the library.
	"internal/sim": {
		"accumulator", "bufferpool", "internal/metrics", "internal/txn", "metadata", "netclient", "partitioner",
		"protocol", "sender", "internal/testbroker", "internal/compress", "internal/invariants", "internal/mutants",
	},
	"internal/sim/cmd/sim": {"internal/sim", "internal/mutants"},
	"internal/testbroker":  {"protocol", "internal/compress", "internal/invariants"},
	// Plays faults against the whole producer, as a program that uses it would.
	"internal/faultrun":              {".", "partitioner", "protocol", "internal/leak", "internal/testbroker"},
	"internal/faultrun/cmd/faultrun": {"internal/faultrun"},
	"internal/archtest":              {},
	"internal/fieldcases":            {".", "partitioner", "protocol"},
	"netclient/selectortest":         {"netclient", "protocol", "internal/simnet", "internal/testbroker"},
	"examples":                       {".", "partitioner", "protocol", "sasl", "internal/testbroker"},
}

// thirdParty says which other modules a package may import, in its code proper.
var thirdParty = map[string][]string{
	"internal/compress": {"github.com/klauspost/compress/", "github.com/pierrec/lz4/v4", "github.com/golang/snappy"},
	// A test suite for implementations of the Selector, imported by their tests alone.
	"netclient/selectortest": {"github.com/stretchr/testify/"},
}

// forTests are what every test may import besides.
var forTests = []string{"internal/sim", "internal/testbroker", "internal/simnet", "internal/leak", "internal/metrics", "internal/invariants", "internal/compress", "netclient/selectortest"}

// besides is what the tests of single packages may import, though their code may not.
var besides = map[string][]string{
	"netclient": {"metadata"}, // which is its MetadataUpdater in the producer, without either importing the other
}

func TestImportsFollowTheLayers(t *testing.T) {
	for _, f := range load(t) {
		rule := ruleOf(f.pkg)
		may, known := allowed[rule]
		if !known {
			t.Errorf("%s: package %s has no place in the layers; give it one in archtest/imports_test.go", f.path, f.pkg)
			continue
		}
		for _, p := range slices.Sorted(maps.Keys(f.imports())) {
			own, isOwn := cutModule(p)
			switch {
			case isOwn && slices.Contains(may, own), isOwn && ruleOf(own) == rule:
			case isOwn && f.test && (slices.Contains(forTests, own) || slices.Contains(besides[rule], own) || below(rule, own)):
			case isOwn:
				t.Errorf("%s imports %s, which is not below it", f.path, own)
			case !strings.Contains(strings.SplitN(p, "/", 2)[0], "."):
				// the standard library
			case f.test && strings.HasPrefix(p, "github.com/stretchr/testify/"):
			case hasPrefix(p, thirdParty[rule]):
			case f.test && hasPrefix(p, thirdParty["internal/compress"]) && rule == "internal/testbroker":
			default:
				t.Errorf("%s imports %s; third-party code belongs into internal/compress", f.path, p)
			}
		}
	}
}

// ruleOf is the entry of allowed that speaks for pkg: its own, or that of examples for each of them.
func ruleOf(pkg string) string {
	if within(pkg, "examples") {
		return "examples"
	}
	return pkg
}

// below reports whether target can be reached from pkg by allowed imports, so that a test of pkg may use it too.
func below(pkg, target string) bool {
	for _, p := range allowed[pkg] {
		if p == target || (p != pkg && below(p, target)) {
			return true
		}
	}
	return false
}

func cutModule(p string) (string, bool) {
	if p == module {
		return ".", true
	}
	return strings.CutPrefix(p, module+"/")
}

func hasPrefix(s string, prefixes []string) bool {
	return slices.ContainsFunc(prefixes, func(p string) bool { return strings.HasPrefix(s, p) })
}

// The table itself must be layered: no package may reach itself.
func TestLayersHaveNoCycle(t *testing.T) {
	var path []string
	done := map[string]bool{}
	var visit func(string)
	visit = func(pkg string) {
		if slices.Contains(path, pkg) {
			t.Fatalf("cycle: %s", strings.Join(append(path, pkg), " -> "))
		}
		if done[pkg] {
			return
		}
		path = append(path, pkg)
		for _, p := range allowed[pkg] {
			visit(p)
		}
		path = path[:len(path)-1]
		done[pkg] = true
	}
	for _, pkg := range slices.Sorted(maps.Keys(allowed)) {
		visit(pkg)
	}
}
