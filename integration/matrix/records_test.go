package matrix

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
)

func TestCellsAreAllCombinations(t *testing.T) {
	seen := make(map[string]bool)
	for _, c := range Cells() {
		seen[c.String()] = true
	}
	assert.Len(t, seen, 5*3*3+1)
}

// What the matrix promises to send is really in it.
func TestRecordsCoverTheSpecialCases(t *testing.T) {
	rs := records(Cell{Codec: "none", Routing: "keyed", Acks: "all", Partitions: 4}, 1, time.Now())
	has := func(what string, f func(i int) bool) {
		for i := range rs {
			if f(i) {
				return
			}
		}
		t.Errorf("no record with %s", what)
	}
	has("a null key", func(i int) bool { return rs[i].Key == nil })
	has("an empty key", func(i int) bool { return rs[i].Key != nil && len(rs[i].Key) == 0 })
	has("a null value", func(i int) bool { return rs[i].Value == nil })
	has("an empty value", func(i int) bool { return rs[i].Value != nil && len(rs[i].Value) == 0 })
	has("one byte", func(i int) bool { return len(rs[i].Value) == 1 })
	has("900 kB", func(i int) bool { return len(rs[i].Value) == largest })
	has("a null header", func(i int) bool { return len(rs[i].Headers) > 0 && rs[i].Headers[0].Value == nil })
	has("an empty header", func(i int) bool {
		return len(rs[i].Headers) > 0 && rs[i].Headers[0].Value != nil && len(rs[i].Headers[0].Value) == 0
	})
	has("duplicate header keys", func(i int) bool { return len(rs[i].Headers) > 1 && rs[i].Headers[0].Key == rs[i].Headers[1].Key })
	has("the epoch", func(i int) bool { return !rs[i].Timestamp.IsZero() && rs[i].Timestamp.UnixMilli() == 0 })
	has("the future", func(i int) bool { return time.Until(rs[i].Timestamp) > 10*time.Minute })
	has("no timestamp", func(i int) bool { return rs[i].Timestamp.IsZero() })
}

func TestShortRunMeetsEveryChoice(t *testing.T) {
	seen := make(map[string]bool)
	for i, c := range Cells() {
		if i%shortStep == 0 {
			seen[c.Codec], seen[c.Routing], seen["acks="+c.Acks] = true, true, true
		}
	}
	assert.Len(t, seen, 5+3+3)
}
