package protocol

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// FC-125, NC-08: a broker that does not speak the version it was asked in answers in the form of v0. That
// is read whatever was asked for, with the range to ask again in when the broker gave one.
func TestApiVersionsUnsupportedVersion(t *testing.T) {
	for asked := int16(0); asked <= 5; asked++ {
		for _, tt := range []struct {
			name string
			body []byte
			want []ApiVersion
		}{
			{"ApiVersions 0-2 listed", []byte{0, 35, 0, 0, 0, 1, 0, 18, 0, 0, 0, 2}, []ApiVersion{{KeyAPIVersions, 0, 2}}},
			{"nothing listed", []byte{0, 35, 0, 0, 0, 0}, []ApiVersion{}},
			{"error code alone", []byte{0, 35}, nil},
		} {
			var m ApiVersionsResponse
			require.NoError(t, m.ReadFrom(tt.body, asked), "v%d, %s", asked, tt.name)
			assert.Equal(t, ApiVersionsResponse{ErrorCode: UnsupportedVersion, ApiKeys: tt.want, FinalizedFeaturesEpoch: -1}, m)
			if tt.want != nil {
				assert.Equal(t, tt.body, m.AppendTo(nil, asked), "v%d is answered in the form of v0", asked)
			}
		}
		var m ApiVersionsResponse
		assert.Error(t, m.ReadFrom([]byte{0, 35, 0, 0, 0, 2, 0, 18, 0, 0, 0, 2}, asked), "one entry of two")
		assert.Error(t, m.ReadFrom([]byte{0, 35, 0xff, 0xff, 0xff, 0xff}, asked), "null")
	}
}

// Tagged fields that this package does not know are passed over, wherever they stand (KIP-482).
func TestUnknownTaggedFields(t *testing.T) {
	const v = 3
	var b []byte
	b = append(b, 0, 0)             // no error
	b = append(b, 2)                // one key
	b = append(b, 0, 3, 0, 0, 0, 1) // Metadata 0-1
	b = append(b, 1, 9, 2, 'h', 'i')
	b = append(b, 0, 0, 0, 0) // throttle
	b = append(b, 2, 1, 8, 0, 0, 0, 0, 0, 0, 0, 7, 0x80, 0x01, 1, 'x')
	var m ApiVersionsResponse
	require.NoError(t, m.ReadFrom(b, v))
	assert.Equal(t, ApiVersionsResponse{ApiKeys: []ApiVersion{{KeyMetadata, 0, 1}}, FinalizedFeaturesEpoch: 7}, m)

	// A later version's tag in an earlier one is unknown there: NodeEndpoints came with Produce v10.
	p := ProduceResponse{NodeEndpoints: []NodeEndpoint{{1, "a", 2, nil}}}
	b = p.AppendTo(nil, 10)
	require.NoError(t, p.ReadFrom(b, 10))
	assert.Len(t, p.NodeEndpoints, 1)
	require.NoError(t, p.ReadFrom(b, 9))
	assert.Empty(t, p.NodeEndpoints)
}

// A version nobody implemented is refused, not guessed.
func TestUnknownVersionsAreRefused(t *testing.T) {
	for name, build := range goldenMessages {
		m := build(4)
		minVersion, maxVersion := m.Key().Versions()
		for _, v := range []int16{minVersion - 1, maxVersion + 1, -32768, 32767} {
			assert.ErrorIs(t, newMessage(name).ReadFrom(make([]byte, 100), v), UnsupportedVersion, "%s v%d", name, v)
		}
	}
}
