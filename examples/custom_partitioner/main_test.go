package main

import (
	"bytes"
	"regexp"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/kafka-reservoir/producer/partitioner"
)

func TestRun(t *testing.T) {
	var out bytes.Buffer
	require.NoError(t, run(t.Context(), &out, nil))
	text := out.String()
	assert.Contains(t, text, "topic custom_partitioner has 6 partitions\n")
	for _, line := range []string{
		`vip/alice -> partition 0`, `bob +-> partition [1-5]`, `carol +-> partition [1-5]`, `vip/dave +-> partition 0`,
		`erin +-> partition [1-5]`, `vip/zoe +-> partition 5, as asked for`,
	} {
		assert.Regexp(t, regexp.MustCompile(`(?m)^`+line+`$`), text)
	}
}

type partitions int

func (p partitions) Count() int         { return int(p) }
func (p partitions) Available() []int32 { return nil }

func TestVIP(t *testing.T) {
	assert.EqualValues(t, 0, vip{}.Partition("t", []byte("bob"), nil, partitions(1)), "one partition for all")
	assert.Equal(t, partitioner.Any, vip{}.Partition("t", nil, nil, partitions(3)))
	assert.EqualValues(t, 0, vip{}.Partition("t", []byte("vip/x"), nil, partitions(3)))
	for i := range 100 {
		got := vip{}.Partition("t", []byte{byte(i)}, nil, partitions(3))
		assert.True(t, got == 1 || got == 2, "%d", got)
	}
}
