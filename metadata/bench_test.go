package metadata

import (
	"fmt"
	"testing"

	"github.com/kafka-reservoir/producer/protocol"
)

// benchView is metadata of topics with twelve partitions each.
func benchView(b *testing.B, topics int) *Metadata {
	m := New(testConfig())
	resp := response()
	for i := range topics {
		name := fmt.Sprintf("topic-%d", i)
		t := protocol.MetadataResponseTopic{Name: &name, TopicID: protocol.UUID{1, byte(i >> 8), byte(i)}}
		for p := range int32(12) {
			t.Partitions = append(t.Partitions, protocol.MetadataResponsePartition{PartitionIndex: p, LeaderID: 1 + p%3})
		}
		resp.Topics = append(resp.Topics, t)
		m.AddTopic(name, t0)
	}
	m.NewRequest(t0)
	if err := m.HandleResponse(13, resp, t0); err != nil {
		b.Fatal(err)
	}
	return m
}

// BenchmarkSnapshot finds a partition's leader by the topic's name, in the newest view: what a Send does for a topic that is not the one before.
func BenchmarkSnapshot(b *testing.B) {
	for _, topics := range []int{1, 1000} {
		b.Run(fmt.Sprintf("topics=%d", topics), func(b *testing.B) {
			m := benchView(b, topics)
			names := make([]string, 64)
			for i := range names {
				names[i] = fmt.Sprintf("topic-%d", i*15%topics)
			}
			n := 0
			b.ReportAllocs()
			for b.Loop() {
				t := m.Snapshot().Topic(names[n%len(names)])
				if n++; t.Leader(int32(n%12)) < 0 {
					b.Fatal("no leader")
				}
			}
		})
	}
}
