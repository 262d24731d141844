package partitioner_test

import (
	"bytes"
	"fmt"

	"github.com/kafka-reservoir/producer/partitioner"
)

// urgentFirst keeps partition 0 for keys that begin with "urgent/" and hashes all others over the rest.
type urgentFirst struct{}

func (urgentFirst) Partition(_ string, key, _ []byte, p partitioner.Partitions) int32 {
	switch {
	case key == nil || p.Count() < 2:
		return partitioner.Any
	case bytes.HasPrefix(key, []byte("urgent/")):
		return 0
	default:
		return 1 + (partitioner.Murmur2(key)&0x7fffffff)%int32(p.Count()-1)
	}
}

type topic int

func (t topic) Count() int       { return int(t) }
func (topic) Available() []int32 { return nil }

// A partitioner of one's own is one method.
func ExamplePartitioner() {
	var p partitioner.Partitioner = urgentFirst{}
	for _, key := range []string{"urgent/7", "foobar", "abc"} {
		fmt.Println(key, p.Partition("orders", []byte(key), nil, topic(12)))
	}
	// Output:
	// urgent/7 0
	// foobar 9
	// abc 7
}
