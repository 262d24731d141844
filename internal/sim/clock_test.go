package sim

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// A wall clock that jumps changes what time it is and not how long anything takes.
func TestClock(t *testing.T) {
	before := reading(Start, time.Minute)
	after := reading(Start.Add(-time.Hour), time.Minute+3*time.Second)
	require.Equal(t, 3*time.Second, after.Sub(before))
	require.True(t, before.Before(after))
	require.Equal(t, Start.UnixMilli(), before.UnixMilli())
	require.Equal(t, Start.Add(-time.Hour).UnixNano(), after.UnixNano())
	require.Equal(t, Start.Add(-time.Hour).Unix(), after.Round(0).Unix(), "without its monotonic reading")
	later := after.Add(time.Second)
	require.Equal(t, 4*time.Second, later.Sub(before))
	require.Equal(t, after.Unix()+1, later.Unix())
	require.False(t, before.IsZero())
}
