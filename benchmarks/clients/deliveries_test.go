package clients

import (
	"errors"
	"math"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestHistogramBucketsFollowEachOther(t *testing.T) {
	var h Histogram
	require.Equal(t, len(h.buckets)-1, bucketOf(math.MaxInt64))
	for i := range len(h.buckets) - 1 {
		last := lastOf(i)
		require.Equal(t, i, bucketOf(last))
		require.Equal(t, i+1, bucketOf(last+1))
	}
	require.Equal(t, int64(math.MaxInt64), lastOf(len(h.buckets)-1))
}

func TestHistogramQuantiles(t *testing.T) {
	var h Histogram
	assert.Zero(t, h.Quantile(0.5))
	for ns := range int64(1_000_000) {
		h.Add(ns)
	}
	assert.Equal(t, int64(1_000_000), h.Count())
	assert.Equal(t, int64(999_999), h.Max())
	for _, q := range []float64{0.001, 0.5, 0.99, 0.999, 1} {
		assert.InEpsilon(t, q*1e6, h.Quantile(q), 0.01, "q %v", q)
	}
	h.Reset()
	assert.Zero(t, h.Count())
	h.Add(-5)
	h.Add(7)
	assert.Equal(t, int64(0), h.Quantile(0.5))
	assert.Equal(t, int64(7), h.Quantile(1))
}

func TestDeliveriesMeasureSlotsOnce(t *testing.T) {
	var d Deliveries
	first := d.Begin()
	for range Slots - 1 {
		d.Ack(d.Begin())
	}
	require.Equal(t, Unmeasured, d.Begin(), "the first record is still under way")
	d.Ack(first)
	d.Ack(Unmeasured)
	d.Fail(Unmeasured, errors.New("first"))
	d.Fail(Unmeasured, errors.New("second"))
	acked, failed := d.Counts()
	assert.Equal(t, []int64{Slots + 1, 2}, []int64{acked, failed})
	assert.Equal(t, int64(Slots), d.Latency.Count())
	assert.EqualError(t, d.FirstError(), "first")
}
