package sender_test

import (
	"fmt"
	"math/rand/v2"
	"os"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/kafka-reservoir/producer/internal/sim"
	"github.com/kafka-reservoir/producer/internal/testbroker"
	"github.com/kafka-reservoir/producer/protocol"
)

// TestRandomFaults runs the engine through random faults and holds what it says against what the brokers stored.
// Set SEED to repeat one, SEEDS to run more, DUMP to see what the brokers saw.
func TestRandomFaults(t *testing.T) {
	seeds, first := 150, 1
	if s := os.Getenv("SEEDS"); s != "" {
		seeds, _ = strconv.Atoi(s)
	}
	if s := os.Getenv("SEED"); s != "" {
		first, _ = strconv.Atoi(s)
		seeds = 1
	}
	for seed := first; seed < first+seeds; seed++ {
		t.Run(fmt.Sprint("seed=", seed), func(t *testing.T) { randomWorld(t, uint64(seed)) })
		if t.Failed() {
			t.Errorf("repeat with SEED=%d go test ./sender -run TestRandomFaults", seed)
		}
	}
}

func randomWorld(t *testing.T, seed uint64) {
	rnd := rand.New(rand.NewPCG(seed, 7))
	chance := func(per1000 int) bool { return rnd.IntN(1000) < per1000 }
	nodes := 1 + rnd.IntN(3)
	partitions := 1 + rnd.IntN(6)
	var w *world
	healed := false
	faults := 10 + rnd.IntN(200)
	codes := []protocol.ErrorCode{
		protocol.NotLeaderOrFollower, protocol.RequestTimedOut, protocol.NotEnoughReplicas, protocol.NotEnoughReplicasAfterAppend,
		protocol.KafkaStorageError, protocol.UnknownTopicOrPartition, protocol.LeaderNotAvailable, protocol.CorruptMessage,
	}
	cfg := sim.Config{
		Seed:            seed,
		Linger:          []time.Duration{-1, time.Millisecond, 5 * time.Millisecond, 20 * time.Millisecond}[rnd.IntN(4)],
		BatchSize:       []int{200, 1000, 16 << 10, 1 << 20}[rnd.IntN(4)],
		BufferMemory:    []int64{64 << 10, 1 << 20, 32 << 20}[rnd.IntN(3)],
		MaxInFlight:     1 + rnd.IntN(5),
		DeliveryTimeout: []time.Duration{time.Second, 5 * time.Second, time.Minute}[rnd.IntN(3)],
		Codec:           []protocol.Codec{protocol.CodecNone, protocol.CodecNone, protocol.CodecLZ4}[rnd.IntN(3)],
		Cluster: testbroker.Config{
			Nodes: nodes, Partitions: partitions,
			MaxMessageBytes: []int{0, 0, 2000}[rnd.IntN(3)],
			Fault: func(r *testbroker.Request) testbroker.Verdict {
				if healed || !chance(faults) {
					return testbroker.Verdict{}
				}
				switch rnd.IntN(9) {
				case 0:
					return testbroker.Verdict{Drop: testbroker.DropFIN, Skip: true}
				case 1:
					return testbroker.Verdict{Drop: testbroker.DropFIN}
				case 2:
					return testbroker.Verdict{Mute: true}
				case 3:
					return testbroker.Verdict{Hold: time.Duration(rnd.IntN(900)) * time.Millisecond}
				case 4:
					return testbroker.Verdict{Delay: time.Duration(rnd.IntN(900)) * time.Millisecond}
				case 5:
					if r.API == protocol.KeyProduce {
						return testbroker.Verdict{Code: codes[rnd.IntN(len(codes))], Append: chance(300)}
					}
				case 6:
					return testbroker.Verdict{Throttle: time.Duration(rnd.IntN(100)) * time.Millisecond}
				case 7:
					return testbroker.Verdict{Cut: 1 + rnd.IntN(20)}
				case 8:
					return testbroker.Verdict{After: func() {
						_ = w.Cluster.MoveLeader("t", int32(rnd.IntN(partitions)), int32(1+rnd.IntN(nodes)))
					}}
				}
				return testbroker.Verdict{}
			},
		},
	}
	w = newWorld(t, cfg)
	w.Selector.Latency = func() time.Duration { return time.Duration(100+rnd.IntN(2000)) * time.Microsecond }
	w.Selector.WriteTime = func(size int) time.Duration { return time.Duration(rnd.IntN(size/50+1)) * time.Microsecond }
	require.NoError(t, w.Cluster.CreateTopic(testbroker.Topic{Name: "t"}))
	require.NotNil(t, w.Topic("t"))

	n := 0
	var next func()
	next = func() {
		for k := rnd.IntN(20); k > 0 && n < 600; k-- {
			p := int32(rnd.IntN(partitions))
			v := fmt.Sprintf("t-%d-%05d-%s", p, n, string(make([]byte, rnd.IntN(300))))
			e := &entry{partition: p}
			if err := w.appendEntry("t", p, v, e); err != nil {
				break // no memory for now
			}
			n++
		}
		if n < 600 {
			w.Selector.After(time.Duration(rnd.IntN(20000))*time.Microsecond, next)
		}
	}
	next()
	w.Run(2*time.Minute, func() bool { return n >= 600 && w.Now().Sub(sim.Start) > 5*time.Second })
	healed = true
	if os.Getenv("DUMP") != "" {
		defer func() {
			for _, e := range w.Cluster.Journal(0) {
				fmt.Println(strings.ReplaceAll(e.String(), "\x00", ""))
			}
		}()
	}
	w.settle()
	for p := int32(0); int(p) < partitions; p++ {
		w.inOrder("t", p)
	}
}
