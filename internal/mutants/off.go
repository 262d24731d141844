//go:build !mutants

package mutants

// Enabled reports whether bugs can be planted.
const Enabled = false

// On reports whether m is planted: never.
func On(ID) bool { return false }

// Plant does nothing without the build tag.
func Plant(ID) {}
