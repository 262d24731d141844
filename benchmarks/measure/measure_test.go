package measure

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/kafka-reservoir/producer/benchmarks/clients"
	"github.com/kafka-reservoir/producer/benchmarks/workload"
)

// The harness alone, in each mode: the client that acknowledges by itself.
func TestHarnessCountsEveryRecord(t *testing.T) {
	for _, w := range workload.Full() {
		if w.Value > 1<<10 {
			continue
		}
		r, err := Run(Job{Client: clients.None, Workload: w, WarmUp: time.Minute, Measured: time.Minute, Records: 1600})
		require.NoError(t, err, w.Name)
		assert.Equal(t, int64(1600), r.Records, w.Name)
		assert.Equal(t, int64(3200), r.Total, w.Name)
		assert.Positive(t, r.Latency.Samples, w.Name)
		assert.Positive(t, r.Goroutines, w.Name)
		assert.LessOrEqual(t, r.Latency.P50, r.Latency.P99, w.Name)
		assert.LessOrEqual(t, r.Latency.P99, r.Latency.Max, w.Name)
	}
}

func TestUnknownClient(t *testing.T) {
	_, err := Run(Job{Client: "nobody"})
	assert.ErrorContains(t, err, `no client "nobody"`)
}
