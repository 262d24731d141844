package netclient

import (
	"bytes"
	"net"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/kafka-reservoir/producer/protocol"
)

// FC-129: whatever comes instead of the answers to what is said on a new connection, setting it up ends, with the
// versions that the broker speaks or an error.
func FuzzSetup(f *testing.F) {
	answer := func(corr int32, key protocol.APIKey, version int16, m protocol.Message) string {
		b := protocol.AppendResponseHeader(nil, key, version, corr)
		return string(m.AppendTo(b, version))
	}
	speaks := &protocol.ApiVersionsResponse{FinalizedFeaturesEpoch: -1, ApiKeys: []protocol.ApiVersion{
		{ApiKey: protocol.KeyAPIVersions, MaxVersion: 2}, {ApiKey: protocol.KeyMetadata, MaxVersion: 12},
	}}
	older := *speaks
	older.ErrorCode = protocol.UnsupportedVersion
	id := "cluster"
	md := &protocol.MetadataResponse{ClusterID: &id, ControllerID: -1}
	f.Add(prefixed(answer(0, protocol.KeyAPIVersions, 5, speaks), answer(1<<20, protocol.KeyMetadata, 12, md)))
	f.Add(prefixed(answer(0, protocol.KeyAPIVersions, 5, &older), answer(1, protocol.KeyAPIVersions, 2, speaks), answer(1<<20, protocol.KeyMetadata, 12, md)))
	f.Add(prefixed("\x00\x00\x00\x00\x00\x23"))
	f.Add([]byte("HTTP/1.1 400 Bad Request"))
	f.Fuzz(func(t *testing.T, stream []byte) {
		used := allocated(func() func() {
			c := &conn{sel: &TCPSelector{cfg: TCPConfig{}.withDefaults()}}
			c.in = newFrameReader(bytes.NewReader(stream), defaultMaxResponseSize, byteCount{})
			c.out = newFrameWriter(discard{}, &calm{}, byteCount{})
			return func() {
				versions, err := c.negotiate()
				if err != nil {
					return
				}
				require.NotEmpty(t, versions.ApiKeys)
				v := newAPIVersions(protocol.Node{}, versions)
				_ = v.String()
				for key := range protocol.APIKey(keysKnown) {
					if picked, err := v.pick(key, 0, 99); err == nil {
						low, high := key.Versions()
						require.True(t, low <= picked && picked <= high)
					}
				}
				_, _ = c.askCluster(versions)
			}
		})
		// A frame's bytes, what is decoded of them, and the text of what a broker speaks.
		require.LessOrEqual(t, used, uint64(64*len(stream)+64<<10))
	})
}

// discard is a connection that takes everything.
type discard struct{ net.Conn }

func (discard) Write(b []byte) (int, error) { return len(b), nil }
