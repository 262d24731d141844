package suite

import (
	"testing"

	"github.com/stretchr/testify/assert"
)

func TestProcessorsApart(t *testing.T) {
	apart := processorsApart()
	t.Logf("%.0f ns there and back", apart*1e9)
	assert.GreaterOrEqual(t, apart, 0.0)
	assert.Less(t, apart, apartLimit.Seconds())
}

// A run that is to be made with near processors is made again where they have gone apart, but not for ever.
func TestNearWaits(t *testing.T) {
	for _, tt := range []struct {
		name   string
		near   float64
		apart  []float64 // what is measured, one after the other; the last for ever
		looks  int
		waited bool
	}{
		{"nobody asks", 0, []float64{9}, 0, true},
		{"near", 1, []float64{0.5}, 1, true},
		{"not known", 1, []float64{0}, 1, true},
		{"after a while", 1, []float64{9, 9, 0.5}, 3, true},
		{"never", 1, []float64{9}, nearLooks, false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			looks := 0
			ok := awaitNear(t.Context(), tt.near, func() float64 {
				looks++
				return tt.apart[min(looks, len(tt.apart))-1]
			}, func() {})
			assert.Equal(t, tt.waited, ok)
			assert.Equal(t, tt.looks, looks)
		})
	}
}
