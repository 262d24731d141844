package protocol

import "strconv"

// APIKey is the number by which a request names its API.
type APIKey int16

// The APIs that a producer uses, and the few more that let an ordinary consumer talk to the test broker.
const (
	KeyProduce                   APIKey = 0
	KeyFetch                     APIKey = 1
	KeyListOffsets               APIKey = 2
	KeyMetadata                  APIKey = 3
	KeyFindCoordinator           APIKey = 10
	KeySaslHandshake             APIKey = 17
	KeyAPIVersions               APIKey = 18
	KeyInitProducerID            APIKey = 22
	KeyAddPartitionsToTxn        APIKey = 24
	KeyAddOffsetsToTxn           APIKey = 25
	KeyEndTxn                    APIKey = 26
	KeyTxnOffsetCommit           APIKey = 28
	KeySaslAuthenticate          APIKey = 36
	KeyGetTelemetrySubscriptions APIKey = 71
	KeyPushTelemetry             APIKey = 72
)

// String is Kafka's name of the API, or UNKNOWN(n).
func (k APIKey) String() string {
	switch k {
	case KeyProduce:
		return "Produce"
	case KeyFetch:
		return "Fetch"
	case KeyListOffsets:
		return "ListOffsets"
	case KeyMetadata:
		return "Metadata"
	case KeyFindCoordinator:
		return "FindCoordinator"
	case KeySaslHandshake:
		return "SaslHandshake"
	case KeyAPIVersions:
		return "ApiVersions"
	case KeyInitProducerID:
		return "InitProducerId"
	case KeyAddPartitionsToTxn:
		return "AddPartitionsToTxn"
	case KeyAddOffsetsToTxn:
		return "AddOffsetsToTxn"
	case KeyEndTxn:
		return "EndTxn"
	case KeyTxnOffsetCommit:
		return "TxnOffsetCommit"
	case KeySaslAuthenticate:
		return "SaslAuthenticate"
	case KeyGetTelemetrySubscriptions:
		return "GetTelemetrySubscriptions"
	case KeyPushTelemetry:
		return "PushTelemetry"
	}
	return "UNKNOWN(" + strconv.Itoa(int(k)) + ")"
}

// Versions is the range this package can encode and decode. It is empty (0 to -1) for an API that it
// has no messages for.
func (k APIKey) Versions() (minVersion, maxVersion int16) {
	switch k {
	case KeyProduce:
		return 3, 13
	case KeyFetch:
		return 4, 18
	case KeyListOffsets:
		return 1, 11
	case KeyMetadata:
		return 0, 13
	case KeyFindCoordinator:
		return 0, 6
	case KeyAPIVersions:
		return 0, 5
	case KeyInitProducerID:
		return 0, 5 // 6 (two-phase commit) is still marked unstable in Kafka 4.4
	}
	return 0, -1
}

// Flexible reports whether version uses compact lengths and tagged fields (KIP-482), and with them
// request header v2 and response header v1.
func (k APIKey) Flexible(version int16) bool {
	switch k {
	case KeyProduce, KeyMetadata:
		return version >= 9
	case KeyFetch:
		return version >= 12
	case KeyListOffsets:
		return version >= 6
	case KeyFindCoordinator, KeyAPIVersions, KeyAddPartitionsToTxn, KeyAddOffsetsToTxn, KeyEndTxn, KeyTxnOffsetCommit:
		return version >= 3
	case KeyInitProducerID, KeySaslAuthenticate:
		return version >= 2
	case KeyGetTelemetrySubscriptions, KeyPushTelemetry:
		return true
	}
	return false
}

// HighestCommonVersion is the highest version that lies in both ranges; ok is false when there is none.
func HighestCommonVersion(minA, maxA, minB, maxB int16) (version int16, ok bool) {
	version = min(maxA, maxB)
	return version, version >= max(minA, minB)
}
