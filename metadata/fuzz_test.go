package metadata

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/kafka-reservoir/producer/protocol"
)

// FC-129: whatever a broker answers, the view stays one that can be used: nodes in order, leaders among them,
// partitions under their own indexes, and no more of them than the answers could pay for.
func FuzzHandleResponse(f *testing.F) {
	good := response(topic("a", 1, part(0, 1, 5), part(1, 2, 5)), failed("b", protocol.UnknownTopicOrPartition))
	for _, version := range []int16{1, 5, 9, 13} {
		f.Add(version, good.AppendTo(nil, version), []byte{})
		f.Add(version, good.AppendTo(nil, version), response(topic("a", 2, part(5, 9, 0))).AppendTo(nil, version))
	}
	f.Fuzz(func(t *testing.T, version int16, first, second []byte) {
		lowest, highest := protocol.KeyMetadata.Versions()
		if version < lowest || version > highest {
			return
		}
		m := New(testConfig())
		m.AddTopic("a", t0)
		m.AddTopic("b", t0)
		for i, body := range [][]byte{first, second} {
			now := t0.Add(time.Duration(i) * time.Minute)
			m.NewRequest(now)
			resp := new(protocol.MetadataResponse)
			if err := resp.ReadInPlace(body, version); err != nil {
				m.HandleFailure(err, now)
				continue
			}
			_ = m.HandleResponse(version, resp, now)
			m.UpdateLeaders([]LeaderHint{{"a", 0, 1, 6}, {"a", 1, 77, 7}}, []protocol.Node{{ID: 1}})
			check(t, m.Snapshot(), len(first)+len(second))
			require.GreaterOrEqual(t, m.TimeToUpdate(now), time.Duration(0))
		}
		m.Rebootstrap(t0.Add(time.Hour), true)
		check(t, m.Snapshot(), len(first)+len(second))
	})
}

func check(t *testing.T, s *Snapshot, bytes int) {
	t.Helper()
	for i, n := range s.nodes[:max(len(s.nodes)-1, 0)] {
		require.Less(t, n.ID, s.nodes[i+1].ID)
	}
	for name, topic := range s.topics {
		require.Equal(t, name, topic.Name)
		require.Contains(t, []string{"a", "b"}, name)
		require.LessOrEqual(t, topic.Count(), 2*bytes+16)
		require.Len(t, topic.leaders, topic.Count())
		available := 0
		for i := range int32(topic.Count()) {
			p := topic.Partition(i)
			if leader := topic.Leader(i); leader >= 0 {
				available++
				require.NotNil(t, p)
				require.Equal(t, p.Leader, leader)
				_, ok := s.Node(leader)
				require.True(t, ok)
			}
		}
		require.Len(t, topic.Available(), available)
		if !topic.ID.IsZero() {
			require.NotNil(t, s.TopicByID(topic.ID))
		}
	}
}
