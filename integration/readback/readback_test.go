package readback

import (
	"bytes"
	"context"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestLineTellsNullFromEmpty(t *testing.T) {
	for _, tt := range []struct {
		name string
		rec  Record
		want string
	}{
		{"null key and value", Record{Partition: 3, Offset: 7, Timestamp: 0}, "3 7 C0 - - none"},
		{"empty key and value", Record{Key: []byte{}, Value: []byte{}}, "0 0 C0 = = none"},
		{"bytes", Record{Timestamp: 1700000000123, Key: []byte("k"), Value: []byte{0, 0xff}}, "0 0 C1700000000123 =6b =00ff none"},
		{"headers", Record{Headers: []Header{{"a", nil}, {"a", []byte{}}, {"", []byte("v")}}}, "0 0 C0 - - =61|-,=61|=,=|=76"},
		{"long value", Record{Value: bytes.Repeat([]byte{'a'}, 129)},
			"0 0 C0 - #129:c12cb024a2e5551cca0e08fce8f1c5e314555cc3fef6329ee994a3db752166ae none"},
	} {
		assert.Equal(t, tt.want, tt.rec.Line(), tt.name)
	}
}

// lines is a Reader of lines at hand.
type lines []Found

func (lines) Name() string { return "test" }

func (f lines) Read(_ context.Context, _ string, each func(Found)) error {
	for _, r := range f {
		each(r)
	}
	return nil
}

func TestCompareCountsEveryDifference(t *testing.T) {
	text := map[int32][]string{0: {"a", "b"}, 1: {"c"}}
	want := Expected{Counts: map[int32]int{0: 2, 1: 1}, Line: func(p int32, i int) string { return text[p][i] }}
	rec := func(p int32, line string) Found { return Found{Partition: p, Line: line} }
	for _, tt := range []struct {
		name  string
		found lines
		want  int
	}{
		{"the same", lines{rec(0, "a"), rec(1, "c"), rec(0, "b")}, 0},
		{"order", lines{rec(0, "b"), rec(0, "a"), rec(1, "c")}, 2},
		{"missing", lines{rec(0, "a"), rec(1, "c")}, 1},
		{"one more", lines{rec(0, "a"), rec(0, "b"), rec(0, "b"), rec(1, "c")}, 1},
		{"another partition", lines{rec(0, "a"), rec(0, "b"), rec(2, "c")}, 2},
		{"changed", lines{rec(0, "a"), rec(0, "B"), rec(1, "c")}, 1},
		{"nothing", nil, 3},
	} {
		d, err := Compare(t.Context(), tt.found, "t", want, nil)
		require.NoError(t, err, tt.name)
		assert.Equal(t, tt.want, d.Count, "%s: %v", tt.name, d.Shown)
		assert.Len(t, d.Shown, tt.want, tt.name)
	}
}
