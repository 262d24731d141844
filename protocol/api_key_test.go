package protocol

import (
	"testing"

	"github.com/stretchr/testify/assert"
)

// AV-02, FC-128: the highest version both sides have; ranges that do not meet have none; keys nobody knows
// print as unknown.
func TestHighestCommonVersion(t *testing.T) {
	for _, tt := range []struct {
		name                   string
		minA, maxA, minB, maxB int16
		want                   int16
		ok                     bool
	}{
		{"same", 3, 13, 3, 13, 13, true},
		{"broker is older", 3, 13, 0, 8, 8, true},
		{"broker is newer", 3, 13, 12, 20, 13, true},
		{"one in common", 3, 13, 13, 20, 13, true},
		{"inside", 0, 13, 4, 6, 6, true},
		{"broker too old", 3, 13, 0, 2, 0, false},
		{"broker too new", 3, 13, 14, 20, 0, false},
		{"not spoken here", 0, -1, 0, 3, 0, false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			v, ok := HighestCommonVersion(tt.minA, tt.maxA, tt.minB, tt.maxB)
			assert.Equal(t, tt.ok, ok)
			if ok {
				assert.Equal(t, tt.want, v)
			}
			w, ok := HighestCommonVersion(tt.minB, tt.maxB, tt.minA, tt.maxA)
			assert.Equal(t, tt.ok, ok, "either way round")
			if ok {
				assert.Equal(t, v, w)
			}
		})
	}

	assert.Equal(t, "Produce", KeyProduce.String())
	assert.Equal(t, "UNKNOWN(999)", APIKey(999).String())
}

// PRQ-04: Produce goes up to the latest version, or to 11 where the implicit transactions of v12 are not
// wanted, and down to the oldest whose batches are v2.
func TestProduceVersions(t *testing.T) {
	minVersion, maxVersion := KeyProduce.Versions()
	assert.Equal(t, int16(3), minVersion)
	assert.Equal(t, int16(13), maxVersion)
	v, ok := HighestCommonVersion(minVersion, 11, 0, 13)
	assert.True(t, ok)
	assert.Equal(t, int16(11), v)
}

func TestAPIKeyNames(t *testing.T) {
	for k, want := range map[APIKey]string{
		0: "Produce", 1: "Fetch", 2: "ListOffsets", 3: "Metadata", 10: "FindCoordinator", 17: "SaslHandshake", 18: "ApiVersions",
		22: "InitProducerId", 24: "AddPartitionsToTxn", 25: "AddOffsetsToTxn", 26: "EndTxn", 28: "TxnOffsetCommit",
		36: "SaslAuthenticate", 71: "GetTelemetrySubscriptions", 72: "PushTelemetry", -1: "UNKNOWN(-1)",
	} {
		assert.Equal(t, want, k.String())
		if minVersion, maxVersion := k.Versions(); maxVersion < minVersion {
			assert.Equal(t, []int16{0, -1}, []int16{minVersion, maxVersion}, k.String())
		}
	}
	assert.True(t, KeySaslAuthenticate.Flexible(2))
	assert.False(t, KeySaslHandshake.Flexible(1))
	assert.True(t, KeyPushTelemetry.Flexible(0))
}
