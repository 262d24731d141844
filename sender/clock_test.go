package sender_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/kafka-reservoir/producer/internal/sim"
	"github.com/kafka-reservoir/producer/internal/testbroker"
	"github.com/kafka-reservoir/producer/protocol"
)

// FC-105: the wall clock jumps while records linger and are in flight. Nothing expires, lingers longer or is sent twice for that;
// only the records' times follow the wall clock, those of an open batch too, whose deltas may become negative.
func TestFC105WallClockJumps(t *testing.T) {
	for _, jump := range []time.Duration{time.Hour, -time.Hour, -10 * 365 * 24 * time.Hour} {
		t.Run(fmt.Sprint(jump), func(t *testing.T) {
			const linger = 100 * time.Millisecond
			w := newWorld(t, sim.Config{WallClock: true, Linger: linger, Cluster: testbroker.Config{
				Nodes: 1, TimestampAfterMax: -1,
				Fault: func(r *testbroker.Request) testbroker.Verdict {
					if r.API == protocol.KeyProduce {
						return testbroker.Hold(200 * time.Millisecond)
					}
					return testbroker.Verdict{}
				},
			}})
			w.topic("t", 1)
			began := w.Selector.Since()
			want := map[string]int64{}
			for i := range 100 {
				w.Selector.In(time.Duration(i)*time.Millisecond/2, func() {
					value := fmt.Sprintf("%03d", i)
					w.send("t", 0, value)
					want[value] = w.Now().UnixMilli()
				})
			}
			jumped := false
			w.Selector.In(25*time.Millisecond, func() { w.Selector.Skew = jump })              // the batch is open
			w.Selector.In(200*time.Millisecond, func() { w.Selector.Skew = 0; jumped = true }) // it is in flight
			w.Selector.In(250*time.Millisecond, func() { w.Selector.Skew = 2 * jump })         // and again
			require.True(t, w.Run(time.Second, func() bool { return jumped && len(w.done) == 100 }))
			took := w.Selector.Since() - began
			assert.GreaterOrEqual(t, took, linger+200*time.Millisecond)
			assert.Less(t, took, linger+202*time.Millisecond)
			w.Selector.Skew = 0
			w.settle()
			require.Len(t, w.produces(), 1, "sent once")
			records := w.Cluster.Records("t", 0)
			require.Len(t, records, 100)
			for _, r := range records {
				assert.Equal(t, want[string(r.Value)], r.Timestamp, "record %s", r.Value)
			}
			assert.Equal(t, jump, time.Duration(records[99].Timestamp-records[0].Timestamp-49)*time.Millisecond, "the records are those of the case")
		})
	}
}
