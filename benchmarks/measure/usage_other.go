//go:build !unix

package measure

// What a process used is not known here: reports leave it out.
func processUsage() usage { return usage{} }
func peakRSS() int64      { return 0 }
