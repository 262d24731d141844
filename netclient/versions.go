package netclient

import (
	"encoding/binary"
	"fmt"
	"log/slog"
	"strings"

	"github.com/kafka-reservoir/producer/protocol"
)

// highestAPIVersions is the version of ApiVersions that a connection asks for first.
func highestAPIVersions() int16 {
	_, highest := protocol.KeyAPIVersions.Versions()
	return highest
}

// FirstAPIVersions is the version of ApiVersions to begin with when the last lost attempts in a row ended
// because the broker hung up instead of answering: some gateways reset the connection on a version they do
// not know. The rounds of highest, 3 and 0 repeat, since a broker may hang up for other reasons too.
func FirstAPIVersions(lost int) int16 {
	switch lost % 3 {
	case 1:
		return 3
	case 2:
		return 0
	}
	return highestAPIVersions()
}

// DecodeAPIVersions decodes the body of the answer to an ApiVersions request of version sent. An answer
// that cannot be decoded but begins with UNSUPPORTED_VERSION counts as one without a list: some brokers
// send no more than the code.
func DecodeAPIVersions(body []byte, sent int16) (*protocol.ApiVersionsResponse, error) {
	resp := new(protocol.ApiVersionsResponse)
	err := resp.ReadFrom(body, sent)
	if err == nil {
		return resp, nil
	}
	if len(body) >= 2 && protocol.ErrorCode(binary.BigEndian.Uint16(body)) == protocol.UnsupportedVersion {
		return &protocol.ApiVersionsResponse{ErrorCode: protocol.UnsupportedVersion, FinalizedFeaturesEpoch: -1}, nil
	}
	return nil, err
}

// NextAPIVersions judges a broker's answer to an ApiVersions request of version sent: negotiation is done,
// or the same connection asks again with version next, or err ends the connection.
//
// A broker that is older than the request answers UNSUPPORTED_VERSION in the form of v0, with or without
// a list that says how far it goes (KIP-511). The version only ever falls, so the exchange ends.
func NextAPIVersions(sent int16, resp *protocol.ApiVersionsResponse) (next int16, done bool, err error) {
	switch {
	case resp.ErrorCode == protocol.None && len(resp.ApiKeys) == 0:
		return 0, false, fmt.Errorf("%s v%d: the broker offers no API at all", protocol.KeyAPIVersions, sent)
	case resp.ErrorCode == protocol.None:
		return 0, true, nil
	case resp.ErrorCode != protocol.UnsupportedVersion:
		return 0, false, fmt.Errorf("%s v%d: %w", protocol.KeyAPIVersions, sent, resp.ErrorCode)
	case sent == 0:
		return 0, false, fmt.Errorf("%s v0, which every broker since 0.10 speaks: %w", protocol.KeyAPIVersions, resp.ErrorCode)
	}
	for _, k := range resp.ApiKeys {
		if k.ApiKey != protocol.KeyAPIVersions {
			continue
		}
		if k.MinVersion > sent {
			return 0, false, &UnsupportedVersionError{
				API: protocol.KeyAPIVersions, Max: highestAPIVersions(),
				BrokerMin: k.MinVersion, BrokerMax: k.MaxVersion,
			}
		}
		if k.MaxVersion >= 0 && k.MaxVersion < sent {
			return k.MaxVersion, false, nil
		}
	}
	return 0, false, nil
}

// apiVersions is what one node speaks, looked up for every request.
type apiVersions struct {
	node protocol.Node
	resp *protocol.ApiVersionsResponse // nil: not asked, then everything is taken to be supported
	// ranges is indexed by API key; keys that this library has no name for only stand in resp.
	ranges [keysKnown]versionRange
}

// keysKnown is above all API keys that this library uses.
const keysKnown = int(protocol.KeyPushTelemetry) + 1

type versionRange struct{ min, max int16 }

func newAPIVersions(node protocol.Node, resp *protocol.ApiVersionsResponse) *apiVersions {
	v := &apiVersions{node: node, resp: resp}
	for i := range v.ranges {
		v.ranges[i] = versionRange{-1, -1}
	}
	if resp != nil {
		for _, k := range resp.ApiKeys {
			if k.ApiKey >= 0 && int(k.ApiKey) < keysKnown {
				v.ranges[k.ApiKey] = versionRange{k.MinVersion, k.MaxVersion}
			}
		}
	}
	return v
}

// pick is the highest version of an API in [minVersion, maxVersion] that the node and this library speak.
func (v *apiVersions) pick(key protocol.APIKey, minVersion, maxVersion int16) (int16, error) {
	lowest, highest := key.Versions()
	minVersion, maxVersion = max(minVersion, lowest), min(maxVersion, highest)
	if v.resp == nil {
		return maxVersion, nil
	}
	r := versionRange{-1, -1}
	if key >= 0 && int(key) < keysKnown {
		r = v.ranges[key]
	}
	version, ok := protocol.HighestCommonVersion(minVersion, maxVersion, r.min, r.max)
	if !ok || r.max < 0 {
		return 0, &UnsupportedVersionError{
			Node: v.node, API: key, Min: minVersion, Max: maxVersion, BrokerMin: r.min, BrokerMax: r.max,
		}
	}
	return version, nil
}

// String is for debugging: every API the node offers, and the version that would be used.
func (v *apiVersions) String() string {
	if v.resp == nil {
		return "not asked"
	}
	var b strings.Builder
	for i, k := range v.resp.ApiKeys {
		if i > 0 {
			b.WriteString(", ")
		}
		fmt.Fprintf(&b, "%v %d-%d", k.ApiKey, k.MinVersion, k.MaxVersion)
		if lowest, highest := k.ApiKey.Versions(); highest >= lowest {
			if u, ok := protocol.HighestCommonVersion(lowest, highest, k.MinVersion, k.MaxVersion); ok {
				fmt.Fprintf(&b, " (use %d)", u)
			} else {
				b.WriteString(" (unusable)")
			}
		}
	}
	return b.String()
}

// LogValue is String, made only when it is logged.
func (v *apiVersions) LogValue() slog.Value { return slog.StringValue(v.String()) }

// finalizedFeatures keeps what the cluster has agreed on: the newest answer of any node counts, since
// nodes that have not caught up yet still tell the old one.
type finalizedFeatures struct {
	epoch  int64
	levels []protocol.FinalizedFeature
}

func (f *finalizedFeatures) update(resp *protocol.ApiVersionsResponse) {
	if resp != nil && resp.FinalizedFeaturesEpoch > f.epoch {
		f.epoch, f.levels = resp.FinalizedFeaturesEpoch, resp.FinalizedFeatures
	}
}

func (f *finalizedFeatures) level(name string) (int16, bool) {
	for _, l := range f.levels {
		if l.Name == name {
			return l.MaxVersionLevel, true
		}
	}
	return 0, false
}
