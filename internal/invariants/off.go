//go:build !invariants

// Package invariants holds checks that exist only under the build tag of the same name.
package invariants

// Enabled reports whether the checks are compiled in.
const Enabled = false

// Check does nothing without the build tag.
func Check(bool, string, ...any) {}
