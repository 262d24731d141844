package testbroker

import (
	"slices"
	"time"

	"github.com/kafka-reservoir/producer/protocol"
)

// Generation is a Kafka version to stand in for: what it advertises, and where versions differ in what a client
// can see. The ones defined here follow what was seen on real brokers.
type Generation struct {
	Name string
	// APIs are the versions that are advertised. Those that package protocol cannot decode (Produce 0 to 2)
	// close the connection when they are used, as they do on Kafka 4.
	APIs []protocol.ApiVersion
	// MaxMessageBytes is the default of message.max.bytes.
	MaxMessageBytes int
	// TimestampAfterMax is the default of message.timestamp.after.max.ms; zero means no limit.
	TimestampAfterMax time.Duration
	// AutoCreateCode is answered for a topic by the Metadata request that has it created.
	AutoCreateCode protocol.ErrorCode
	// BadMagicCode is answered to message formats 0 and 1 in Produce v3 and up; None closes the connection.
	BadMagicCode protocol.ErrorCode
	// EmptyUnsupported has the answer to an ApiVersions version that is too new list nothing, instead of
	// ApiVersions itself.
	EmptyUnsupported bool
	// SilentUnknown never answers unknown APIs and versions, instead of closing the connection.
	SilentUnknown bool
	// TransactionVersion is the finalized feature transaction.version; zero means that there is none.
	TransactionVersion int16
	// MetadataVersion is the finalized feature metadata.version; zero means that there are no features.
	MetadataVersion int16
}

const (
	maxMessageBytesOld = 1_000_012 // up to 2.1
	maxMessageBytesNew = 1_048_588 // from 2.8 on
)

// The generations. Brokers before 0.11 have no idempotence and none of the Produce versions that this cluster speaks:
// they are there to see what a client makes of them.
var (
	Kafka44 = &Generation{
		Name: "4.4.0",
		APIs: ranges(
			protocol.KeyProduce, 0, 13, protocol.KeyFetch, 4, 18, protocol.KeyListOffsets, 1, 11,
			protocol.KeyMetadata, 0, 13, protocol.KeyFindCoordinator, 0, 6, protocol.KeyAPIVersions, 0, 5,
			protocol.KeyInitProducerID, 0, 5),
		MaxMessageBytes:    maxMessageBytesNew,
		TimestampAfterMax:  time.Hour,
		AutoCreateCode:     protocol.UnknownTopicOrPartition,
		BadMagicCode:       protocol.InvalidRecord,
		TransactionVersion: 2,
		MetadataVersion:    33,
	}
	Kafka40 = &Generation{
		Name: "4.0.0",
		APIs: ranges(
			protocol.KeyProduce, 0, 12, protocol.KeyFetch, 4, 17, protocol.KeyListOffsets, 1, 10,
			protocol.KeyMetadata, 0, 13, protocol.KeyFindCoordinator, 0, 6, protocol.KeyAPIVersions, 0, 4,
			protocol.KeyInitProducerID, 0, 5),
		MaxMessageBytes:    maxMessageBytesNew,
		TimestampAfterMax:  time.Hour,
		AutoCreateCode:     protocol.UnknownTopicOrPartition,
		BadMagicCode:       protocol.InvalidRecord,
		TransactionVersion: 2,
		MetadataVersion:    25,
	}
	Kafka39 = &Generation{
		Name: "3.9.1",
		APIs: ranges(
			protocol.KeyProduce, 0, 11, protocol.KeyFetch, 0, 17, protocol.KeyListOffsets, 0, 9,
			protocol.KeyMetadata, 0, 12, protocol.KeyFindCoordinator, 0, 6, protocol.KeyAPIVersions, 0, 4,
			protocol.KeyInitProducerID, 0, 5),
		MaxMessageBytes: maxMessageBytesNew,
		AutoCreateCode:  protocol.UnknownTopicOrPartition,
		BadMagicCode:    protocol.InvalidRecord,
		MetadataVersion: 21,
	}
	Kafka28 = &Generation{
		Name: "2.8.2",
		APIs: ranges(
			protocol.KeyProduce, 0, 9, protocol.KeyFetch, 0, 12, protocol.KeyListOffsets, 0, 6,
			protocol.KeyMetadata, 0, 11, protocol.KeyFindCoordinator, 0, 3, protocol.KeyAPIVersions, 0, 3,
			protocol.KeyInitProducerID, 0, 4),
		MaxMessageBytes: maxMessageBytesNew,
		AutoCreateCode:  protocol.LeaderNotAvailable,
		BadMagicCode:    protocol.InvalidRecord,
	}
	Kafka21 = &Generation{
		Name: "2.1.1",
		APIs: ranges(
			protocol.KeyProduce, 0, 7, protocol.KeyFetch, 0, 10, protocol.KeyListOffsets, 0, 4,
			protocol.KeyMetadata, 0, 7, protocol.KeyFindCoordinator, 0, 2, protocol.KeyAPIVersions, 0, 2,
			protocol.KeyInitProducerID, 0, 1),
		MaxMessageBytes:  maxMessageBytesOld,
		AutoCreateCode:   protocol.LeaderNotAvailable,
		BadMagicCode:     protocol.CorruptMessage,
		EmptyUnsupported: true,
	}
	Kafka11 = &Generation{
		Name: "1.1.1",
		APIs: ranges(
			protocol.KeyProduce, 0, 5, protocol.KeyFetch, 0, 7, protocol.KeyListOffsets, 0, 2,
			protocol.KeyMetadata, 0, 5, protocol.KeyFindCoordinator, 0, 1, protocol.KeyAPIVersions, 0, 1,
			protocol.KeyInitProducerID, 0, 0),
		MaxMessageBytes:  maxMessageBytesOld,
		AutoCreateCode:   protocol.LeaderNotAvailable,
		EmptyUnsupported: true,
	}
	Kafka011 = &Generation{
		Name: "0.11.0.3",
		APIs: ranges(
			protocol.KeyProduce, 0, 3, protocol.KeyFetch, 0, 5, protocol.KeyListOffsets, 0, 2,
			protocol.KeyMetadata, 0, 4, protocol.KeyFindCoordinator, 0, 1, protocol.KeyAPIVersions, 0, 1,
			protocol.KeyInitProducerID, 0, 0),
		MaxMessageBytes:  maxMessageBytesOld,
		AutoCreateCode:   protocol.LeaderNotAvailable,
		EmptyUnsupported: true,
	}
	Kafka010 = &Generation{
		Name: "0.10.2.2",
		APIs: ranges(
			protocol.KeyProduce, 0, 2, protocol.KeyFetch, 0, 3, protocol.KeyListOffsets, 0, 1,
			protocol.KeyMetadata, 0, 2, protocol.KeyFindCoordinator, 0, 0, protocol.KeyAPIVersions, 0, 0),
		MaxMessageBytes:  maxMessageBytesOld,
		AutoCreateCode:   protocol.LeaderNotAvailable,
		EmptyUnsupported: true,
	}
	// Kafka09 does not know ApiVersions, and never answers what it does not know.
	Kafka09 = &Generation{
		Name: "0.9.0.1",
		APIs: ranges(
			protocol.KeyProduce, 0, 1, protocol.KeyFetch, 0, 1, protocol.KeyListOffsets, 0, 0,
			protocol.KeyMetadata, 0, 0, protocol.KeyFindCoordinator, 0, 0),
		MaxMessageBytes: maxMessageBytesOld,
		AutoCreateCode:  protocol.LeaderNotAvailable,
		SilentUnknown:   true,
	}
)

// ranges takes key, lowest and highest version, again and again.
func ranges(v ...protocol.APIKey) []protocol.ApiVersion {
	var r []protocol.ApiVersion
	for i := 0; i < len(v); i += 3 {
		r = append(r, protocol.ApiVersion{ApiKey: v[i], MinVersion: int16(v[i+1]), MaxVersion: int16(v[i+2])})
	}
	return r
}

// Range is what the generation advertises for an API.
func (g *Generation) Range(key protocol.APIKey) (minVersion, maxVersion int16, ok bool) {
	for _, r := range g.APIs {
		if r.ApiKey == key {
			return r.MinVersion, r.MaxVersion, true
		}
	}
	return 0, -1, false
}

// With is a copy that advertises other versions of one API; an empty range takes the API away.
func (g *Generation) With(key protocol.APIKey, minVersion, maxVersion int16) *Generation {
	n := *g
	n.APIs = slices.DeleteFunc(slices.Clone(g.APIs), func(r protocol.ApiVersion) bool { return r.ApiKey == key })
	if minVersion <= maxVersion {
		n.APIs = append(n.APIs, protocol.ApiVersion{ApiKey: key, MinVersion: minVersion, MaxVersion: maxVersion})
		slices.SortFunc(n.APIs, func(a, b protocol.ApiVersion) int { return int(a.ApiKey) - int(b.ApiKey) })
	}
	return &n
}
