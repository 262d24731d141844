// Package mutants names bugs that are planted in the producer under the build tag of the same name, one at a time: the proof
// that the simulation sees what it is there to see (internal/sim).
//
// Without the tag [On] is false for the compiler too, and nothing of a bug is left in the program.
//
// The bugs are those that other clients have had, or that were easy to have here.
package mutants

import "slices"

// ID is one of the bugs.
type ID int

// The bugs.
const (
	None                     ID = iota
	FreedInFlight               // memory of a batch that expired is used again while a connection still reads it (KAFKA-19012)
	ImplicitAck                 // an acknowledgement counts for the batches before it as well, refused ones included
	BumpWithOthersUnresolved    // partitions take the next epoch while batches under the old one are in doubt
	QueuedKeepsSequence         // the epoch moves on, and a batch that waits keeps its sequence
	RetryOvertaken              // a batch that is sent again goes behind later ones
	TwoBeforeFirstAck           // a second batch goes out before the leader has any state (KAFKA-15591)
	DuplicateFails              // DUPLICATE_SEQUENCE_NUMBER counts as a failure
	OutOfOrderForever           // OUT_OF_ORDER_SEQUENCE_NUMBER is answered by the same batch, again and again
	FlushDoesNotWake            // Flush does not end the sender's sleep
	ThrottleWithoutTimer        // nothing wakes the sender when a throttle ends
	AnyCorrelation              // a response with another correlation id is believed
	MatchedByOrder              // answers are matched to batches by their order alone
	PartitionErrorIgnored       // a partition's error code is not looked at
	OlderEpochAccepted          // metadata with an older leader epoch is believed
	NoLeaderCached              // a partition without a leader is not asked for
	OldAddressKept              // a broker that moved is looked for where it was
	TimeFromFirstSend           // the delivery timeout begins when a batch is sent first
	InFlightKept                // a connection that ends does not give back what was in flight
	SplitRenumbered             // the parts of a split batch get wrong sequences
	CloseBeforeCallbacks        // Close does not wait for callbacks
	count
)

var names = [count]string{
	"none", "freed-in-flight", "implicit-ack", "bump-with-others-unresolved", "queued-keeps-sequence", "retry-overtaken",
	"two-before-first-ack", "duplicate-fails", "out-of-order-forever", "flush-does-not-wake", "throttle-without-timer",
	"any-correlation", "matched-by-order", "partition-error-ignored", "older-epoch-accepted", "no-leader-cached",
	"old-address-kept", "time-from-first-send", "in-flight-kept", "split-renumbered", "close-before-callbacks",
}

func (m ID) String() string { return names[m] }

// Parse finds a bug by its name.
func Parse(name string) (m ID, ok bool) {
	i := slices.Index(names[:], name)
	return ID(max(i, 0)), i >= 0
}

// All lists the bugs.
func All() []ID {
	all := make([]ID, 0, count-1)
	for m := None + 1; m < count; m++ {
		all = append(all, m)
	}
	return all
}
