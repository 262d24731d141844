package sim

import "strings"

// Kind is a kind of fault.
type Kind int

// The kinds of faults: delivery's catalogue. What they do is in chaos.go, answers.go, cluster.go and app.go.
const (
	// On the network.
	BreakRequest  Kind = iota // a connection breaks at any byte of a request
	LoseRequest               // a request is written and lost with its connection
	LateRequest               // a request arrives late, perhaps when the client has hung up
	HalfOpen                  // nothing passes any more, and nobody is told
	SlowReader                // a broker does not read for a while
	BreakAnswer               // a connection breaks at any byte of an answer
	Trickle                   // answers come in small pieces
	LateAnswer                // answers take long on the way
	RefuseConnect             // attempts to connect are refused
	HangConnect               // attempts to connect are not answered

	// At a broker.
	DropBefore  // a connection is closed instead of carrying a request out
	DropAfter   // a connection is closed after a request was carried out, before it is answered
	CutAnswer   // a broker writes half of an answer and closes
	HoldAnswer  // a broker answers late
	DelayAppend // a broker carries requests out late
	Swallow     // a broker never answers, whether it carries the requests out or not
	AcceptClose // a broker accepts connections and closes them
	DeafBroker  // a broker accepts connections and never reads

	// Answers.
	RefuseCode    // a retriable error, and nothing done
	DoubtCode     // an error after the batch was appended
	PartialCode   // as both, for single partitions of a request
	TooLarge      // batches are refused as too large
	Throttle      // a broker asks to be left alone
	NoProducerID  // InitProducerId is refused for now
	OtherOrder    // answers name partitions in another order than requests
	DuplicateCode // a repeated batch is answered DUPLICATE_SEQUENCE_NUMBER

	// In the cluster.
	LeaderMove
	LeaderFlap     // leaders move away and back again
	StaleMetadata  // a broker tells old news
	Leaderless     // partitions have no leader for a while
	BrokerBounce   // a broker goes down and comes back
	OtherAddress   // a broker comes back at another address, or two change places
	OtherCluster   // a broker moves, and one of another cluster gets its address
	ReplaceAll     // all brokers are replaced, one after the other
	RestartAll     // all brokers go down and come back
	GoneForGood    // a broker goes down and stays down
	RecreateTopic  // a topic is deleted and created again
	Unclean        // a leader is elected that lacks the last records
	ExpireProducer // partitions forget their producers
	ExpireAndFlap  // and their leaders move right afterwards

	// Bytes that are not Kafka's.
	TLSAlert
	HTTPAnswer
	HugeFrame
	NegativeFrame
	WrongCorrelation
	TruncatedBody
	HugeArray
	FuzzedAnswer
	FuzzedMetadata // metadata with some bits changed

	// In the application.
	SlowCallbacks
	SendFromCallback
	Cancel        // contexts end while an append waits
	Flush         // Flush, at any moment
	WallClockJump // while monotonic time goes on
	CloseEarly    // Close at any moment, with all the time it needs
	CloseForced   // Close at any moment, with none

	// At the end.
	AllGone // all brokers go down and stay down

	// Those that came later: they are drawn apart from the others, so that worlds without them stay what they were.
	Silence      // packets to and from a broker vanish for a while; what is sent again arrives late, or its connection is dead for good
	FirstWrite   // the first batch of a producer in a partition is refused, lost or late, as others of its time need not be
	AnyRetriable // any code that says that the request may succeed later, and nothing done
	MetadataCode // metadata has errors instead of topics
	HostileAfter // a request is carried out and answered with bytes that are not Kafka's

	kinds
)

var kindNames = [kinds]string{
	"break-request", "lose-request", "late-request", "half-open", "slow-reader", "break-answer", "trickle", "late-answer",
	"refuse-connect", "hang-connect",
	"drop-before", "drop-after", "cut-answer", "hold-answer", "delay-append", "swallow", "accept-close", "deaf-broker",
	"refuse-code", "doubt-code", "partial-code", "too-large", "throttle", "no-producer-id", "other-order", "duplicate-code",
	"leader-move", "leader-flap", "stale-metadata", "leaderless", "broker-bounce", "other-address", "other-cluster", "replace-all",
	"restart-all", "gone-for-good", "recreate-topic", "unclean", "expire-producer", "expire-and-flap",
	"tls-alert", "http-answer", "huge-frame", "negative-frame", "wrong-correlation", "truncated-body", "huge-array",
	"fuzzed-answer", "fuzzed-metadata",
	"slow-callbacks", "send-from-callback", "cancel", "flush", "wall-clock-jump", "close-early", "close-forced",
	"all-gone",
	"silence", "first-write", "any-retriable", "metadata-code", "hostile-after",
}

// firstLater is the first of those that came later.
const firstLater = Silence

func (k Kind) String() string { return kindNames[k] }

// ParseKinds reads a list of names with commas between them.
func ParseKinds(list string) (out []Kind, unknown string) {
	for _, name := range strings.Split(list, ",") {
		found := false
		for k, n := range kindNames {
			if n == name {
				out, found = append(out, Kind(k)), true
			}
		}
		if name != "" && !found {
			return nil, name
		}
	}
	return out, ""
}

// Level says how often a kind of fault happens.
type Level int8

// The levels.
const (
	Off Level = iota
	Rare
	Often
)
