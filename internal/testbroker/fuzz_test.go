package testbroker

import (
	"testing"
	"time"

	"github.com/kafka-reservoir/producer/protocol"
)

// FuzzHandle: whatever bytes come, the cluster answers or closes, and does not panic.
func FuzzHandle(f *testing.F) {
	setup := func() *Cluster {
		return NewCluster(Config{Nodes: 2, Topics: []Topic{{Name: "t", Partitions: 2, Leaders: []int32{1, 2}}}})
	}
	id := setup().TopicID("t")
	byID := produce(-1, "", 0, idempotent(1, 0, 0, "a", "b"))
	byID.Topics[0].ID = id
	f.Add(frameOf(byID, 13, 1))
	for version := int16(3); version <= 12; version += 3 {
		f.Add(frameOf(produce(-1, "t", 0, plain("a"), plain("b")), version, 1))
	}
	f.Add(frameOf(produce(0, "t", 0, plain("a")), 12, 1))
	f.Add(frameOf(metadataFor("t", "u"), 12, 1))
	f.Add(frameOf(&protocol.MetadataRequest{}, 0, 1))
	f.Add(frameOf(&protocol.ApiVersionsRequest{ClientSoftwareName: "x", ClientSoftwareVersion: "1"}, 3, 1))
	f.Add(frameOf(&protocol.InitProducerIdRequest{}, 4, 1))
	f.Add(frameOf(&protocol.FindCoordinatorRequest{CoordinatorKeys: []string{"g"}}, 4, 1))
	c := &core{Cluster: setup()}
	f.Add(frameOf(fetch(c, 0, 1, time.Second), 12, 1))
	f.Add(frameOf(fetch(c, 0, 1, time.Second), 18, 1))
	f.Add(frameOf(&protocol.ListOffsetsRequest{Topics: []protocol.ListOffsetsRequestTopic{{Name: "t",
		Partitions: []protocol.ListOffsetsRequestPartition{{Timestamp: 5}}}}}, 7, 1))
	f.Fuzz(func(t *testing.T, frame []byte) {
		c := setup()
		c.Handle(1, 1, frame, epoch)
		c.Handle(2, 2, frame, epoch)
		c.Closed(2, epoch)
		c.Tick(epoch.Add(time.Hour))
		c.Handle(1, 1, frame, epoch.Add(time.Hour))
		c.Records("t", 0)
		for _, e := range c.Journal(0) {
			_ = e.String()
		}
	})
}
