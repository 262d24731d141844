//go:build mutants

package mutants

// Enabled reports whether bugs can be planted.
const Enabled = true

var planted ID // changed only while no producer runs

// On reports whether m is planted.
func On(m ID) bool { return planted == m }

// Plant plants m, in place of what was planted before.
func Plant(m ID) { planted = m }
