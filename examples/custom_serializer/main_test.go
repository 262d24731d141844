package main

import (
	"bytes"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/kafka-reservoir/producer"
	"github.com/kafka-reservoir/producer/internal/testbroker"
)

func TestRun(t *testing.T) {
	var out bytes.Buffer
	require.NoError(t, run(t.Context(), &out, nil))
	assert.Equal(t, `order of customer 42: key of 11 bytes, value of 19 bytes
order of customer 43: key of 11 bytes, value of 16 bytes
order of customer 44: not sent, its value: an order needs an item
`, out.String())
}

// The bytes and the header are in the log as they were written.
func TestRunWritesTheBytes(t *testing.T) {
	cluster, err := testbroker.Start(testbroker.Config{})
	require.NoError(t, err)
	defer cluster.Close()
	var out bytes.Buffer
	require.NoError(t, run(t.Context(), &out, []string{"-brokers", strings.Join(cluster.Addrs(), ",")}))
	records := cluster.Cluster().Records("custom_serializer", 0)
	require.Len(t, records, 2)
	assert.Equal(t, "customer/42", string(records[0].Key))
	assert.Equal(t, "\x00\x00\x00\x00\x00\x00\x00\x2a\x00\x00\xc2\xecbicycle", string(records[0].Value))
	assert.Equal(t, []producer.Header{contentType}, records[0].Headers)
}
