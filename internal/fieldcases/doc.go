// Package fieldcases holds the producer against problems that users of Kafka producers have reported in public.
//
// Each test is one report, or several with one cause, under its number (TestFC001 to TestFC137), told as what must happen
// instead. What all have to show besides is checked by the harness: each record ends once and with the truth, memory comes
// back, nothing is left running, nothing spins. Cases that are best shown closer to their cause are tests of the package concerned
// and carry the number in their names; DESIGN.md lists those left out.
package fieldcases
