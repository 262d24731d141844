package protocol

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// In v0 an empty list of topics means all of them; since v1 null does and an empty list means none.
func TestMetadataRequestAllOrNone(t *testing.T) {
	minVersion, maxVersion := KeyMetadata.Versions()
	for v := minVersion; v <= maxVersion; v++ {
		var got MetadataRequest
		require.NoError(t, got.ReadFrom((&MetadataRequest{}).AppendTo(nil, v), v))
		assert.Nil(t, got.Topics, "v%d, all", v)
		require.NoError(t, got.ReadFrom((&MetadataRequest{Topics: []MetadataRequestTopic{}}).AppendTo(nil, v), v))
		if v == 0 {
			assert.Nil(t, got.Topics)
		} else {
			assert.Equal(t, []MetadataRequestTopic{}, got.Topics, "v%d, none", v)
		}
	}
}

// FC-129: a null where an array must be is an error, as in Java, not an empty array.
func TestMetadataResponseNullArray(t *testing.T) {
	var m MetadataResponse
	assert.ErrorContains(t, m.ReadFrom([]byte{0xff, 0xff, 0xff, 0xff, 0, 0, 0, 0}, 0), "null where none may be")
	assert.EqualError(t, m.ReadFrom([]byte{0, 0, 0, 0, 0xff, 0xff, 0xff, 0xff}, 0),
		"decode Metadata response v0: null where none may be (-1) at byte 8 of 8")
}
