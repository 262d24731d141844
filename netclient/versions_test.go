package netclient

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/kafka-reservoir/producer/protocol"
)

// NC-07, NC-08, FC-125: what follows from an answer to ApiVersions.
func TestNextAPIVersions(t *testing.T) {
	older := func(apis ...protocol.ApiVersion) *protocol.ApiVersionsResponse {
		return &protocol.ApiVersionsResponse{ErrorCode: protocol.UnsupportedVersion, ApiKeys: apis}
	}
	own := func(lowest, highest int16) protocol.ApiVersion {
		return protocol.ApiVersion{ApiKey: protocol.KeyAPIVersions, MinVersion: lowest, MaxVersion: highest}
	}
	for _, tt := range []struct {
		name string
		sent int16
		resp *protocol.ApiVersionsResponse
		next int16
		done bool
		err  error
	}{
		{"good", 4, apis(), 0, true, nil},
		{"good at v0", 0, apis(), 0, true, nil},
		{"no API at all", 4, &protocol.ApiVersionsResponse{}, 0, false, assert.AnError},
		{"older, knows up to 2", 4, older(own(0, 2)), 2, false, nil},
		{"older, knows up to 2, among others", 4, older(protocol.ApiVersion{ApiKey: protocol.KeyProduce, MaxVersion: 9}, own(0, 2)), 2, false, nil},
		{"older, knows v0 only", 3, older(own(0, 0)), 0, false, nil},
		{"older, without a list", 4, older(), 0, false, nil},
		{"older, with a list of others", 4, older(protocol.ApiVersion{ApiKey: protocol.KeyProduce, MaxVersion: 9}), 0, false, nil},
		{"claims to know what it refused", 3, older(own(0, 3)), 0, false, nil},
		{"claims to know more", 3, older(own(0, 9)), 0, false, nil},
		{"nonsense range", 3, older(own(0, -4)), 0, false, nil},
		{"too new", 4, older(own(6, 9)), 0, false, protocol.UnsupportedVersion},
		{"refuses v0", 0, older(own(0, 2)), 0, false, protocol.UnsupportedVersion},
		{"other error", 4, &protocol.ApiVersionsResponse{ErrorCode: protocol.ClusterAuthorizationFailed}, 0, false, protocol.ClusterAuthorizationFailed},
		{"rebootstrap", 5, &protocol.ApiVersionsResponse{ErrorCode: protocol.RebootstrapRequired}, 0, false, protocol.RebootstrapRequired},
	} {
		t.Run(tt.name, func(t *testing.T) {
			next, done, err := NextAPIVersions(tt.sent, tt.resp)
			assert.Equal(t, tt.next, next)
			assert.Equal(t, tt.done, done)
			switch tt.err {
			case nil:
				assert.NoError(t, err)
			case assert.AnError:
				assert.Error(t, err)
			default:
				assert.ErrorIs(t, err, tt.err)
			}
		})
	}
}

// FC-125: whatever a broker answers, the exchange ends.
func TestNextAPIVersionsEnds(t *testing.T) {
	for highest := int16(-2); highest < 8; highest++ {
		sent, rounds := highestAPIVersions(), 0
		for {
			next, done, err := NextAPIVersions(sent, &protocol.ApiVersionsResponse{
				ErrorCode: protocol.UnsupportedVersion,
				ApiKeys:   []protocol.ApiVersion{{ApiKey: protocol.KeyAPIVersions, MaxVersion: highest}},
			})
			if done || err != nil {
				break
			}
			require.Less(t, next, sent)
			sent = next
			rounds++
		}
		assert.LessOrEqual(t, rounds, 2)
	}
}

// FC-125: the answer of an older broker has the form of v0, with a list, with an empty one, or with nothing behind
// the code.
func TestDecodeAPIVersions(t *testing.T) {
	full := &protocol.ApiVersionsResponse{ErrorCode: protocol.UnsupportedVersion, ApiKeys: []protocol.ApiVersion{{ApiKey: protocol.KeyAPIVersions, MaxVersion: 2}}}
	for sent := int16(0); sent <= highestAPIVersions(); sent++ {
		resp, err := DecodeAPIVersions(full.AppendTo(nil, 0), sent)
		require.NoError(t, err)
		assert.Equal(t, full.ApiKeys, resp.ApiKeys)
		for _, body := range [][]byte{{0, 35}, {0, 35, 0}, {0, 35, 0, 0, 0, 0}, {0, 35, 0xff, 0xff, 0xff, 0xff}} {
			resp, err := DecodeAPIVersions(body, sent)
			require.NoError(t, err, "v%d %v", sent, body)
			assert.Equal(t, protocol.UnsupportedVersion, resp.ErrorCode)
			assert.Empty(t, resp.ApiKeys)
		}
		resp, err = DecodeAPIVersions(apis().AppendTo(nil, sent), sent)
		require.NoError(t, err)
		assert.NotEmpty(t, resp.ApiKeys)
		for _, body := range [][]byte{nil, {0}, {0, 0}, {0, 0, 9}, []byte("HTTP/1.1 400")} {
			_, err := DecodeAPIVersions(body, sent)
			assert.Error(t, err, "v%d %q", sent, body)
		}
	}
}

// FC-126: attempts that end with a reset go down, and come round again.
func TestFirstAPIVersions(t *testing.T) {
	highest := highestAPIVersions()
	var got []int16
	for lost := range 7 {
		got = append(got, FirstAPIVersions(lost))
	}
	assert.Equal(t, []int16{highest, 3, 0, highest, 3, 0, highest}, got)
}

// AV-02, FC-128: the highest version in both ranges; an error that says which ranges do not meet; the latest where
// nothing is known.
func TestPickVersion(t *testing.T) {
	const key = protocol.KeyInitProducerID
	broker := protocol.Node{ID: 3, Host: "b", Port: 9092}
	for _, tt := range []struct {
		name             string
		broker           *protocol.ApiVersion
		lowest, highest  int16
		want             int16
		errText          string
		brokerMin, brMax int16
	}{
		{"same range", &protocol.ApiVersion{ApiKey: key, MaxVersion: 5}, 0, 5, 5, "", 0, 0},
		{"broker knows less", &protocol.ApiVersion{ApiKey: key, MaxVersion: 2}, 0, 5, 2, "", 0, 0},
		{"broker knows more", &protocol.ApiVersion{ApiKey: key, MinVersion: 1, MaxVersion: 9}, 0, 5, 5, "", 0, 0},
		{"caller wants less", &protocol.ApiVersion{ApiKey: key, MaxVersion: 5}, 0, 3, 3, "", 0, 0},
		{"caller wants more than we encode", &protocol.ApiVersion{ApiKey: key, MaxVersion: 9}, 0, 9, 5, "", 0, 0},
		{"one in common", &protocol.ApiVersion{ApiKey: key, MinVersion: 5, MaxVersion: 9}, 0, 5, 5, "", 0, 0},
		{"too old", &protocol.ApiVersion{ApiKey: key, MaxVersion: 2}, 3, 5, 0, "node 3 (b:9092) offers InitProducerId v0 to v2, this client needs v3 to v5", 0, 2},
		{"too new", &protocol.ApiVersion{ApiKey: key, MinVersion: 7, MaxVersion: 9}, 0, 5, 0, "too new", 7, 9},
		{"missing", &protocol.ApiVersion{ApiKey: key, MaxVersion: -1}, 0, 5, 0, "node 3 (b:9092) does not offer InitProducerId", -1, -1},
		{"nothing known", nil, 0, 5, 5, "", 0, 0},
	} {
		t.Run(tt.name, func(t *testing.T) {
			var resp *protocol.ApiVersionsResponse
			if tt.broker != nil {
				resp = apis(*tt.broker)
			}
			got, err := newAPIVersions(broker, resp).pick(key, tt.lowest, tt.highest)
			if tt.errText == "" {
				require.NoError(t, err)
				assert.Equal(t, tt.want, got)
				return
			}
			assert.ErrorContains(t, err, tt.errText)
			assert.ErrorIs(t, err, protocol.UnsupportedVersion)
			var unsupported *UnsupportedVersionError
			require.ErrorAs(t, err, &unsupported)
			assert.Equal(t, tt.brokerMin, unsupported.BrokerMin)
			assert.Equal(t, tt.brMax, unsupported.BrokerMax)
			assert.True(t, unsupported.Fatal())
		})
	}
}

// AV-02: keys that nobody here knows, or negative ones, do no harm and are printed.
func TestUnknownKeys(t *testing.T) {
	v := newAPIVersions(protocol.Node{}, apis(
		protocol.ApiVersion{ApiKey: 999, MaxVersion: 1}, protocol.ApiVersion{ApiKey: -5, MaxVersion: 1},
		protocol.ApiVersion{ApiKey: protocol.KeyInitProducerID, MinVersion: 8, MaxVersion: 9}))
	_, err := v.pick(999, 0, 1)
	assert.ErrorIs(t, err, protocol.UnsupportedVersion)
	assert.Equal(t, "Produce 3-13 (use 13), Metadata 0-13 (use 13), ApiVersions 0-4 (use 4), InitProducerId 8-9 (unusable), UNKNOWN(999) 0-1, UNKNOWN(-5) 0-1", v.LogValue().String())
	assert.Equal(t, "not asked", newAPIVersions(protocol.Node{}, nil).String())
}

// S-12, S-89: a broker that cannot be written record batches v2 to is told apart from all else.
func TestBrokerBeforeRecordBatches(t *testing.T) {
	r := newRig(t, Config{}, 1)
	r.Ready(r.node(1), r.now)
	r.sel.up(0, 1, apis(protocol.ApiVersion{ApiKey: protocol.KeyProduce, MaxVersion: 2}, protocol.ApiVersion{ApiKey: protocol.KeyInitProducerID, MaxVersion: -1}))
	r.poll(0)
	_, err := r.Version(1, protocol.KeyProduce, 3, 13)
	assert.EqualError(t, err, "node 1 (host:9001) offers Produce v0 to v2, this client needs v3 to v13: brokers older than Apache Kafka 0.11 are not supported")
	err = r.SendMessage(1, &protocol.InitProducerIdRequest{}, 0, 5, func(*Response) { t.Error("called") }, r.now)
	assert.ErrorContains(t, err, "brokers older than Apache Kafka 0.11 are not supported")
	assert.Zero(t, r.InFlight())
	_, err = r.Version(2, protocol.KeyProduce, 3, 13)
	assert.ErrorIs(t, err, ErrDisconnected, "unknown node")
}

// AV-01: of the features that nodes tell, the set of the highest epoch counts.
func TestFinalizedFeatures(t *testing.T) {
	r := newRig(t, Config{}, 1, 2, 3)
	tell := func(id int32, epoch int64, level int16) {
		resp := apis()
		resp.FinalizedFeaturesEpoch = epoch
		resp.FinalizedFeatures = []protocol.FinalizedFeature{{Name: "transaction.version", MaxVersionLevel: level}}
		r.Ready(r.node(id), r.now)
		r.sel.up(0, id, resp)
		r.poll(0)
	}
	_, ok := r.FinalizedFeature("transaction.version")
	assert.False(t, ok)
	tell(1, 5, 1)
	tell(2, 7, 2)
	tell(3, 6, 1)
	level, ok := r.FinalizedFeature("transaction.version")
	assert.True(t, ok)
	assert.EqualValues(t, 2, level)
	_, ok = r.FinalizedFeature("other")
	assert.False(t, ok)
}
