package workload

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestRecordsAreOfTheirSize(t *testing.T) {
	for _, w := range Full() {
		records := NewRecords(&w)
		total := 0
		for i := range records.values {
			key, value := records.At(i)
			require.Len(t, value, w.Value)
			require.Equal(t, w.Keyed, key != nil)
			total += len(value)
		}
		assert.LessOrEqual(t, total, 16<<20, w.Name)
		assert.Zero(t, len(records.values)&(len(records.values)-1), "At needs a power of two")
		assert.Equal(t, records, NewRecords(&w), "the same in every process")
	}
}

func TestRowNamesAreUnique(t *testing.T) {
	seen := map[string]bool{}
	for _, w := range Full() {
		assert.False(t, seen[w.Name], w.Name)
		seen[w.Name] = true
		assert.NotEmpty(t, w.About())
	}
}

func TestMatrix(t *testing.T) {
	rows, err := Matrix("short", nil)
	require.NoError(t, err)
	assert.Equal(t, names(Short()), names(rows))

	rows, err = Matrix("short", []string{"100B-acks1", "100B"})
	require.NoError(t, err)
	assert.Equal(t, []string{"100B-acks1", "100B"}, names(rows))

	_, err = Matrix("short", []string{"10B"})
	assert.ErrorContains(t, err, `no row "10B"`)
	_, err = Matrix("long", nil)
	assert.ErrorContains(t, err, `no matrix "long"`)
}
