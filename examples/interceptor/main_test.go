package main

import (
	"bytes"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/kafka-reservoir/producer/internal/testbroker"
)

func TestRun(t *testing.T) {
	cluster, err := testbroker.Start(testbroker.Config{})
	require.NoError(t, err)
	defer cluster.Close()
	var out bytes.Buffer
	require.NoError(t, run(t.Context(), &out, []string{"-brokers", strings.Join(cluster.Addrs(), ",")}))
	text := out.String()
	for _, line := range []string{"trace-1: interceptor-0@0\n", "trace-2: interceptor-0@1\n", "trace-3: interceptor-0@2\n", "trace-4: failed: record for topic interceptor takes up to"} {
		assert.Contains(t, text, line)
	}
	for i, r := range cluster.Cluster().Records("interceptor", 0) {
		require.Len(t, r.Headers, 1)
		assert.Equal(t, "trace-id", r.Headers[0].Key)
		assert.Equal(t, []string{"trace-1", "trace-2", "trace-3"}[i], string(r.Headers[0].Value))
	}
}

func TestRunEmbedded(t *testing.T) {
	var out bytes.Buffer
	require.NoError(t, run(t.Context(), &out, nil))
	assert.Equal(t, 4, strings.Count(out.String(), "trace-"))
}
