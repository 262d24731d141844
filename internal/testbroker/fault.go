package testbroker

import (
	"fmt"
	"strings"
	"time"

	"github.com/kafka-reservoir/producer/protocol"
)

// Request is a decoded request as the Fault hook and the journal see it.
type Request struct {
	// Number counts the requests of the whole cluster, from 1.
	Number        int64
	At            time.Time
	Node          int32
	Conn          ConnID
	API           protocol.APIKey
	Version       int16
	CorrelationID int32
	ClientID      string
	Size          int // bytes of the frame without its length prefix

	// Body is the decoded request. It may point into the frame: it is valid during the call of the hook only and
	// nil in the journal.
	Body protocol.Message
	// Acks and Batches are set for Produce: one Batch for each partition of the request, in its order.
	Acks    int16
	Batches []Batch
	// Topics is set for Metadata: the names asked for. AllTopics says that it asked for all.
	Topics    []string
	AllTopics bool
	// AllowAutoTopicCreation is set for Metadata.
	AllowAutoTopicCreation bool
}

// Batch is the record batch that a Produce request has for one partition.
type Batch struct {
	Topic     string // resolved from the id for v13; empty when the id is unknown
	TopicID   protocol.UUID
	Partition int32

	Size          int // bytes, batch header included
	Count         int32
	ProducerID    int64
	ProducerEpoch int16
	BaseSequence  int32
	Codec         protocol.Codec
	Transactional bool
	BaseTimestamp int64
	MaxTimestamp  int64
	CRC           uint32

	// Raw is the batch as it came, valid during the call of the hook only and nil in the journal.
	Raw []byte
	// Err says what is wrong with it; nil for a proper batch.
	Err error

	check batchCheck
}

// Verdict is what shall become of a request. The zero value carries it out and answers it.
//
// Answers of one connection keep the order of its requests: what is held holds back everything behind it.
type Verdict struct {
	// Delay has the request, and all that follow it on its connection, wait before it is carried out, append included,
	// even if the connection is gone by then.
	Delay time.Duration
	// Skip leaves the request undone. Without a Code or Partitions it is then answered as if it had been done (use
	// it with Mute or Drop, or to lie).
	Skip bool
	// Code is the error to answer: for Produce, Fetch and ListOffsets in each partition, for Metadata in each
	// topic, else at the top. Nothing is appended unless Append is set.
	Code   protocol.ErrorCode
	Append bool
	// Partitions has codes for single partitions of a Produce request, Append of its own included.
	Partitions []PartitionVerdict
	// After runs after the request was carried out, before its answer can be seen; it may call the Cluster, for
	// instance to move a leader.
	After func()

	// Hold has the answer wait, after the request was carried out.
	Hold time.Duration
	// Throttle is the throttle time to put into the answer. As with Kafka, the connection is not served meanwhile,
	// and for versions from before KIP-219 it is the answer that waits.
	Throttle time.Duration
	// ThrottleOnly puts the throttle time into the answer and serves the connection on.
	ThrottleOnly bool
	// Shuffle puts the topics and partitions of a Produce answer into another order, by rand.Shuffle or the like. They say the
	// same then.
	Shuffle func(n int, swap func(i, j int))
	// Edit changes the decoded answer before it is encoded.
	Edit func(protocol.Message)
	// Rewrite changes the encoded answer, length prefix included; what it returns is written instead.
	Rewrite func(frame []byte) []byte
	// Trickle cuts the answer into pieces of so many bytes, written TricklePause apart.
	Trickle      int
	TricklePause time.Duration
	// Cut writes only the first Cut bytes of the answer, and then ends the connection as Drop says, DropFIN if it
	// says nothing.
	Cut int
	// Mute never answers this request, nor any other of its connection, which stays up and is read.
	Mute bool
	// Drop ends the connection instead of answering; after a Hold, if there is one.
	Drop Drop
	// Stall stops reading the connection, which stays up.
	Stall bool
}

// String is what a journal line says of the verdict; empty for the zero value.
func (v Verdict) String() string {
	var s strings.Builder
	say := func(on bool, format string, args ...any) {
		if on {
			if s.Len() > 0 {
				s.WriteByte(' ')
			}
			fmt.Fprintf(&s, format, args...)
		}
	}
	say(v.Delay > 0, "delay %v", v.Delay)
	say(v.Skip, "skip")
	say(v.Code != protocol.None, "answer %s", v.Code.Name())
	say(v.Append, "after append")
	for _, p := range v.Partitions {
		say(true, "%s-%d: answer %s", p.Topic, p.Partition, p.Code.Name())
		say(p.Append, "after append")
	}
	say(v.Hold > 0, "hold %v", v.Hold)
	say(v.Throttle > 0, "throttle %v", v.Throttle)
	say(v.Shuffle != nil, "shuffle")
	say(v.Edit != nil, "edit")
	say(v.Rewrite != nil, "rewrite")
	say(v.Trickle > 0, "trickle %d", v.Trickle)
	say(v.Cut > 0, "cut %d", v.Cut)
	say(v.Mute, "mute")
	say(v.Drop == DropFIN, "drop")
	say(v.Drop == DropRST, "reset")
	say(v.Stall, "stall")
	return s.String()
}

// PartitionVerdict is the error to answer for one partition of a Produce request.
type PartitionVerdict struct {
	Topic     string
	Partition int32
	Code      protocol.ErrorCode
	Append    bool // append the batch all the same
}

// Drop is a way to end a connection.
type Drop int

const (
	// DropNot keeps it.
	DropNot Drop = iota
	// DropFIN closes it in the ordinary way.
	DropFIN
	// DropRST resets it, where the connection can do that.
	DropRST
)

// Answer refuses the request with code, nothing appended.
func Answer(code protocol.ErrorCode) Verdict { return Verdict{Code: code} }

// AnswerAfterAppend appends, and answers code all the same.
func AnswerAfterAppend(code protocol.ErrorCode) Verdict { return Verdict{Code: code, Append: true} }

// Hold carries the request out and answers later.
func Hold(d time.Duration) Verdict { return Verdict{Hold: d} }

// MuteBefore never answers and does not carry the request out.
func MuteBefore() Verdict { return Verdict{Skip: true, Mute: true} }

// MuteAfter carries the request out and never answers.
func MuteAfter() Verdict { return Verdict{Mute: true} }

// DropBefore closes the connection and does not carry the request out.
func DropBefore() Verdict { return Verdict{Skip: true, Drop: DropFIN} }

// DropAfter carries the request out and closes the connection instead of answering.
func DropAfter() Verdict { return Verdict{Drop: DropFIN} }

// Script is a Fault that gives the requests of one API the verdicts in turn, and lets through all others and
// whatever comes after the last verdict.
func Script(api protocol.APIKey, verdicts ...Verdict) func(*Request) Verdict {
	return func(r *Request) Verdict {
		if r.API != api || len(verdicts) == 0 {
			return Verdict{}
		}
		v := verdicts[0]
		verdicts = verdicts[1:]
		return v
	}
}

// Raw answers with bytes that need not be Kafka's, the request not carried out.
func Raw(b []byte) Verdict {
	return Verdict{Skip: true, Rewrite: func([]byte) []byte { return b }}
}

// ConnVerdict is what shall become of a new connection. The zero value accepts it.
type ConnVerdict struct {
	// Drop ends it at once.
	Drop Drop
	// Stall never reads from it.
	Stall bool
}

// Partial is a request of which only the beginning has been read.
type Partial struct {
	Node          int32
	Conn          ConnID
	Size          int // of the whole frame, as its length prefix says
	API           protocol.APIKey
	Version       int16
	CorrelationID int32
	// Head is the frame's first bytes (512, or all there are), valid during the call.
	Head []byte
}

// ReadVerdict says how far to read a request. The zero value reads it whole.
type ReadVerdict struct {
	// After is how many bytes of the frame to read before Drop or Stall happens; it is not looked at without one
	// of them.
	After int
	Drop  Drop
	Stall bool
}
