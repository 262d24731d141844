package sender_test

import (
	"encoding/binary"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/kafka-reservoir/producer/internal/sim"
	"github.com/kafka-reservoir/producer/internal/testbroker"
	"github.com/kafka-reservoir/producer/protocol"
)

// FC-129: whatever comes in place of the answers to InitProducerId and to the first two Produce requests, each record is
// settled once, memory comes back, and the producer goes on: a record sent afterwards is delivered.
func FuzzProduceAnswer(f *testing.F) {
	ok := &protocol.ProduceResponse{Topics: []protocol.ProduceResponseTopic{{Partitions: []protocol.ProduceResponsePartition{{
		BaseOffset: 0, LogAppendTimeMs: -1, CurrentLeader: protocol.NoLeader,
	}}}}}
	id := &protocol.InitProducerIdResponse{ProducerID: 7}
	for _, code := range []protocol.ErrorCode{protocol.None, protocol.NotLeaderOrFollower, protocol.MessageTooLarge, protocol.OutOfOrderSequenceNumber,
		protocol.UnknownProducerID, protocol.InvalidProducerEpoch, protocol.TopicAuthorizationFailed, protocol.DuplicateSequenceNumber} {
		ok.Topics[0].Partitions[0].ErrorCode = code
		f.Add(uint8(1), []byte{0}, append([]byte{0}, ok.AppendTo(nil, 13)...), []byte{})
		f.Add(uint8(6), []byte{0}, append([]byte{0}, ok.AppendTo(nil, 13)...), append([]byte{0}, ok.AppendTo(nil, 13)...))
	}
	f.Add(uint8(2), append([]byte{0}, id.AppendTo(nil, 5)...), []byte("HTTP/1.1 400 Bad Request"), []byte{})
	f.Add(uint8(7), []byte{}, []byte{0, 0, 0}, []byte{0, 2})
	f.Fuzz(func(t *testing.T, which uint8, first, second, third []byte) {
		produces, ids := 0, 0
		w := newWorld(t, sim.Config{DeliveryTimeout: 5 * time.Second, Cluster: testbroker.Config{Nodes: 1, Fault: func(r *testbroker.Request) testbroker.Verdict {
			// Bytes behind the correlation id are replaced; its own fuzz target has those before.
			replace := func(tail []byte) testbroker.Verdict {
				return testbroker.Verdict{Rewrite: func(frame []byte) []byte {
					frame = append(frame[:8:8], tail...)
					binary.BigEndian.PutUint32(frame, uint32(len(frame)-4))
					return frame
				}}
			}
			switch r.API {
			case protocol.KeyInitProducerID:
				if ids++; ids == 1 && which&1 != 0 {
					return replace(first)
				}
			case protocol.KeyProduce:
				produces++
				if produces == 1 && which&2 != 0 {
					return replace(second)
				}
				if produces == 2 && which&4 != 0 {
					return replace(third)
				}
			}
			return testbroker.Verdict{}
		}}})
		w.topic("t", 2)
		w.sendN("t", 0, 0, 3)
		w.sendN("t", 1, 0, 3)
		require.True(t, w.Settle(10*time.Minute), "not settled")
		w.Run(50*time.Millisecond, func() bool { return false })
		for v, e := range w.book {
			require.Equal(t, 1, e.calls, "callbacks of %s", v)
		}
		require.Equal(t, w.Pool.Total(), w.Pool.Available(), "memory came back")
		w.send("t", 0, "afterwards")
		require.True(t, w.Settle(10*time.Minute), "not settled afterwards")
	})
}
