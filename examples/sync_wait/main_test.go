package main

import (
	"bytes"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestRun(t *testing.T) {
	var out bytes.Buffer
	require.NoError(t, run(t.Context(), &out, nil))
	assert.Equal(t, `step 0 is at offset 0
step 1 is at offset 1
step 2 is at offset 2
step 3 is at offset 3
step 4 is at offset 4
part 0 is in partition 0
part 1 is in partition 0
part 2 is in partition 0
part 3 is in partition 0
part 4 is in partition 0
did not wait for it
it arrived all the same
`, out.String())
}
