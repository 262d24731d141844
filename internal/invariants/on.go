//go:build invariants

// Package invariants holds checks that exist only under the build tag of the same name.
package invariants

import "fmt"

// Enabled reports whether the checks are compiled in.
const Enabled = true

// Check panics when ok is false.
func Check(ok bool, format string, args ...any) {
	if !ok {
		panic("invariant violated: " + fmt.Sprintf(format, args...))
	}
}
