package sim

import (
	"slices"
	"strconv"
	"strings"
	"time"
)

// Fails reports whether a run failed in the way that class names; "" is any.
func (r *Result) Fails(class string) bool {
	return slices.ContainsFunc(r.Violations, func(v string) bool { return class == "" || Class(v) == class })
}

// Class is what kind of violation it is: its text without what differs from run to run.
func Class(violation string) string {
	_, text, _ := strings.Cut(violation, ": ")
	text, _, _ = strings.Cut(text, "\n")
	if len(text) > 200 {
		text = text[:200]
	}
	var s strings.Builder
	for _, word := range strings.Fields(text) {
		if strings.ContainsAny(word, "0123456789") {
			word = "#"
		}
		s.WriteString(word + " ")
		if s.Len() > 60 {
			break
		}
	}
	return s.String()
}

// Shrink looks for a smaller plan of the seed that fails in the same way: it drops kinds of faults, then shortens the time,
// then lowers the number of partitions, as long as the failure stays, in at most so many runs.
func Shrink(seed uint64, o Options, class string, runs int) Options {
	fails := func(o Options) bool {
		if runs <= 0 {
			return false
		}
		runs--
		res := Run(Draw(seed, o))
		return res.Fails(class)
	}
	for changed := true; changed && runs > 0; {
		changed = false
		plan := Draw(seed, o)
		for _, k := range plan.On() {
			try := o
			try.Without = append(slices.Clone(o.Without), k)
			if fails(try) {
				o, changed = try, true
			}
		}
		for d := Draw(seed, o).Faults / 2; d > 10*time.Millisecond; d /= 2 {
			try := o
			try.Faults = d.Round(time.Millisecond)
			if !fails(try) {
				break
			}
			o, changed = try, true
		}
		for n := Draw(seed, o).Partitions / 2; n > 0; n /= 2 {
			try := o
			try.Partitions = n
			if !fails(try) {
				break
			}
			o, changed = try, true
		}
	}
	return o
}

// Flags are the command line flags that name the plan.
func (o Options) Flags() string {
	var s strings.Builder
	if len(o.Without) > 0 {
		names := make([]string, len(o.Without))
		for i, k := range o.Without {
			names[i] = k.String()
		}
		s.WriteString(" -without " + strings.Join(names, ","))
	}
	if o.Faults > 0 {
		s.WriteString(" -for " + o.Faults.String())
	}
	if o.Partitions > 0 {
		s.WriteString(" -partitions " + strconv.Itoa(o.Partitions))
	}
	return s.String()
}
