package conformance

import (
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kmsg"
	"github.com/twmb/franz-go/pkg/kversion"

	"github.com/kafka-reservoir/producer"
)

// act is one disturbance, which may go on until the world is healed.
type act func(w *world)

// Codes that say nothing against the record. kfake answers the last two after it has appended, the others before.
var retriable = []*kerr.Error{
	kerr.NotLeaderForPartition, kerr.UnknownTopicOrPartition, kerr.LeaderNotAvailable, kerr.NotEnoughReplicas, kerr.KafkaStorageError,
	kerr.NetworkException, kerr.FencedLeaderEpoch, kerr.RequestTimedOut, kerr.NotEnoughReplicasAfterAppend,
}

// refuse has brokers answer the next requests for a partition with a code.
func refuse(codes ...*kerr.Error) act {
	return func(w *world) {
		w.fault(kfake.Fault{
			Keys: []kmsg.Key{kmsg.Produce}, Topic: topic, Partitions: []int32{w.random.Int32N(partitions)},
			Err: codes[w.random.IntN(len(codes))], Count: 1 + w.random.IntN(3),
		})
	}
}

func refuseProducerID(w *world) {
	w.fault(kfake.Fault{Keys: []kmsg.Key{kmsg.InitProducerID}, Err: kerr.CoordinatorLoadInProgress})
}

func refuseMetadata(w *world) {
	codes := []*kerr.Error{kerr.LeaderNotAvailable, kerr.UnknownTopicOrPartition}
	w.fault(kfake.Fault{Keys: []kmsg.Key{kmsg.Metadata}, Topic: topic, Err: codes[w.random.IntN(2)], Count: 2})
}

// answers has one of the fates befall the next answer.
func answers(fates ...fate) act {
	return func(w *world) { w.answers(fates[w.random.IntN(len(fates))]) }
}

// dropRequests has brokers close the connection of every third Produce request instead of carrying it out.
func dropRequests(w *world) {
	n := 0
	w.requests(func(r kmsg.Request) error {
		if r.Key() != int16(kmsg.Produce) {
			return nil
		}
		if n++; n%3 == 0 {
			return errors.New("closed by the test")
		}
		return nil
	})
}

func resetConnections(w *world) {
	for _, address := range w.ListenAddrs() {
		w.reset(address)
	}
}

func moveLeader(w *world) {
	_ = w.MoveTopicPartition(topic, w.random.Int32N(partitions), w.random.Int32N(3)) // the node may be gone
}

func shuffleLeaders(w *world) { w.ShufflePartitionLeaders() }

// replaceNode takes a leader away, for good, and brings a node at another address; but not so often that all the nodes
// that a producer knows are gone before it has had an answer.
func replaceNode(w *world) {
	if time.Since(w.replacedAt) < 1200*time.Millisecond {
		return
	}
	w.replacedAt = time.Now()
	before := w.ListenAddrs()
	if w.RemoveNode(w.LeaderFor(topic, w.random.Int32N(partitions))) != nil {
		return
	}
	left := w.ListenAddrs()
	for _, address := range before {
		if !slices.Contains(left, address) {
			w.reset(address)
		}
	}
	time.Sleep(time.Duration(w.random.IntN(300)) * time.Millisecond)
	_, _, _ = w.AddNode(-1, 0)
}

// both does all of the acts.
func both(acts ...act) act {
	return func(w *world) {
		for _, a := range acts {
			a(w)
		}
	}
}

// oneIn does the act once in n times: for what takes the producer longer to get over than acts are apart.
func oneIn(n int, a act) act {
	return func(w *world) {
		if w.random.IntN(n) == 0 {
			a(w)
		}
	}
}

// either does one of the acts.
func either(acts ...act) act {
	return func(w *world) { acts[w.random.IntN(len(acts))](w) }
}

var everything = either(refuse(retriable...), answers(cut, lost, swallowed, late), moveLeader, shuffleLeaders, replaceNode, resetConnections, refuseMetadata)

// seeds is how many worlds each case plays. Goroutines run as they like: a seed makes a world likely, not certain.
const seeds = 3

// eachSeed plays worlds of a case.
func eachSeed(t *testing.T, opts []kfake.Opt, f func(t *testing.T, w *world)) {
	for seed := range uint64(seeds) {
		t.Run(fmt.Sprintf("seed=%d", seed), func(t *testing.T) { inWorld(t, seed, opts, f) })
	}
}

// The whole client against brokers that are not ours: whatever the faults, every record is acknowledged, and is in the
// log once, in order, at the offset of its acknowledgement.
func TestKfakeHoldsEachRecordOnceAndInOrder(t *testing.T) {
	for _, tt := range []struct {
		name    string
		disturb act
	}{
		{"undisturbed", nil},
		{"errors", refuse(retriable...)},
		{"answers cut", answers(cut)},
		{"answers lost", answers(lost)},
		{"answers swallowed", answers(swallowed)},
		{"answers late", answers(late)},
		{"requests dropped", dropRequests},
		{"connections reset", resetConnections},
		{"leaders move", moveLeader},
		{"leaders shuffled", shuffleLeaders},
		{"nodes replaced", replaceNode},
		{"no producer id", refuseProducerID},
		{"leaders move, no metadata", both(oneIn(10, refuseMetadata), moveLeader)},
		{"leaders move, answers lost", both(moveLeader, answers(cut, lost))},
		{"leaders move, errors", both(moveLeader, refuse(retriable...))},
		{"nodes replaced, answers lost", both(replaceNode, answers(cut, lost))},
		{"everything", everything},
	} {
		t.Run(tt.name, func(t *testing.T) {
			eachSeed(t, nil, func(t *testing.T, w *world) { w.allStored(t, w.play(t, nil, tt.disturb)) })
		})
	}
}

// The same with the versions of requests, and the manners, of older brokers. Those before 2.5 answer
// UNKNOWN_PRODUCER_ID.
func TestKfakeOfOlderReleases(t *testing.T) {
	for _, tt := range []struct {
		name     string
		versions *kversion.Versions
	}{
		{"0.11", kversion.V0_11_0()}, {"1.1", kversion.V1_1_0()}, {"2.4", kversion.V2_4_0()}, {"2.8", kversion.V2_8_0()},
		{"3.9", kversion.V3_9_0()}, {"4.0", kversion.V4_0_0()},
	} {
		t.Run(tt.name, func(t *testing.T) {
			eachSeed(t, []kfake.Opt{kfake.MaxVersions(tt.versions)}, func(t *testing.T, w *world) { w.allStored(t, w.play(t, nil, everything)) })
		})
	}
}

// Batches that the broker finds too large are split, and what becomes of the halves is what becomes of all. Where it is
// not known whether the batch was written the epoch is bumped first, as below.
func TestKfakeRefusesLargeBatches(t *testing.T) {
	opts := []kfake.Opt{kfake.BrokerConfigs(map[string]string{"message.max.bytes": "300"})}
	large := func(c *producer.Config) { c.BatchSize = 1200 }
	t.Run("undisturbed", func(t *testing.T) {
		eachSeed(t, opts, func(t *testing.T, w *world) { w.allStored(t, w.play(t, large, nil)) })
	})
	t.Run("leaders move, answers lost", func(t *testing.T) {
		eachSeed(t, opts, func(t *testing.T, w *world) { w.honest(t, w.play(t, large, both(moveLeader, answers(cut, lost)))) })
	})
}

// Records that fail are told the truth: those that ran out of time, and those refused for a reason that is not
// retriable. All others are there once and in order. Epochs are bumped here; kfake knows one epoch for all partitions of
// a producer (see the scripts), so that more fail than would with Kafka.
func TestKfakeAndRecordsThatFail(t *testing.T) {
	short := func(c *producer.Config) { c.DeliveryTimeout = requestTimeout + 100*time.Millisecond }
	for _, tt := range []struct {
		name    string
		change  func(*producer.Config)
		disturb act
	}{
		{"unknown server error", nil, refuse(append(retriable, kerr.UnknownServerError)...)},
		{"invalid record", nil, refuse(append(retriable, kerr.InvalidRecord)...)},
		{"delivery times out", short, both(oneIn(3, answers(swallowed, late)), moveLeader)},
		{"delivery times out, errors", short, both(oneIn(3, answers(swallowed, late)), refuse(append(retriable, kerr.UnknownServerError)...))},
	} {
		t.Run(tt.name, func(t *testing.T) {
			failed := 0
			eachSeed(t, nil, func(t *testing.T, w *world) {
				all := w.play(t, tt.change, tt.disturb)
				w.honest(t, all)
				for _, p := range all {
					failed += len(p.errs)
				}
			})
			assert.Positive(t, failed, "records that failed")
		})
	}
}
