package main

import (
	"bytes"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestRun(t *testing.T) {
	var out bytes.Buffer
	require.NoError(t, run(t.Context(), &out, []string{"-records", "2000"}))
	lines := strings.Split(strings.TrimSpace(out.String()), "\n")
	require.Len(t, lines, 3, out.String())
	assert.Contains(t, lines[0], "failed: record for topic async_callback takes up to")
	assert.Contains(t, lines[0], "MaxRequestSize (max.request.size)")
	assert.Equal(t, "  worth another try: false, may be in the log: false", lines[1])
	assert.Equal(t, "2001 acknowledged, 1 failed", lines[2])
}
