//go:build amd64 || arm64

package prefetch

import "unsafe"

// lines asks for n lines of the cache, at least one, beginning with that of p.
//
//go:noescape
func lines(p unsafe.Pointer, n int)
