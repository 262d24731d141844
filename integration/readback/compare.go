package readback

import (
	"context"
	"fmt"
	"maps"
	"slices"
)

// maxShown is how many differences of one topic are kept as text; all are counted.
const maxShown = 5

// Differences is what a comparison found.
type Differences struct {
	Count int
	Shown []string // the first ones
}

// Add counts one difference.
func (d *Differences) Add(format string, args ...any) {
	d.Count++
	if len(d.Shown) < maxShown {
		d.Shown = append(d.Shown, fmt.Sprintf(format, args...))
	}
}

// Expected is what a topic must hold.
type Expected struct {
	Counts map[int32]int                       // records of each partition
	Line   func(partition int32, i int) string // the partition's i-th record
}

// Compare reads the topic and compares it with what is expected, partition by partition and in order.
// check, if not nil, is called for each record found.
func Compare(ctx context.Context, r Reader, topic string, want Expected, check func(Found, *Differences)) (Differences, error) {
	var d Differences
	next := make(map[int32]int)
	err := r.Read(ctx, topic, func(f Found) {
		i := next[f.Partition]
		next[f.Partition]++
		if i >= want.Counts[f.Partition] {
			d.Add("%s: %s-%d: record %d of %d sent: got %s", r.Name(), topic, f.Partition, i, want.Counts[f.Partition], f.Line)
		} else if line := want.Line(f.Partition, i); line != f.Line {
			d.Add("%s: %s-%d: record %d:\n  got  %s\n  want %s", r.Name(), topic, f.Partition, i, f.Line, line)
		}
		if check != nil {
			check(f, &d)
		}
	})
	for _, p := range slices.Sorted(maps.Keys(want.Counts)) {
		for i := next[p]; i < want.Counts[p]; i++ {
			d.Add("%s: %s-%d: record %d missing: want %s", r.Name(), topic, p, i, want.Line(p, i))
		}
	}
	return d, err
}
