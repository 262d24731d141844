package protocol

import "github.com/kafka-reservoir/producer/protocol/internal/wire"

// ApiVersionsRequest asks a broker which APIs, and which versions of them, it speaks.
type ApiVersionsRequest struct {
	ClientSoftwareName    string  // v3
	ClientSoftwareVersion string  // v3
	ClusterID             *string // v5; nil when not known
	NodeID                int32   // v5; -1 when not known
}

// ApiVersionsResponse is the answer to [ApiVersionsRequest].
//
// Its header is always v0, and with the error UnsupportedVersion its body has the form of v0 whatever
// version was asked for (KIP-511); both directions take care of that.
type ApiVersionsResponse struct {
	ErrorCode              ErrorCode
	ApiKeys                []ApiVersion
	ThrottleTimeMs         int32              // v1
	SupportedFeatures      []SupportedFeature // v3
	FinalizedFeaturesEpoch int64              // v3; -1 when not known
	FinalizedFeatures      []FinalizedFeature // v3
	ZkMigrationReady       bool               // v3
}

// ApiVersion is the range of versions a broker speaks of one API. Keys that this package does not know
// are kept.
type ApiVersion struct {
	ApiKey     APIKey
	MinVersion int16
	MaxVersion int16
}

// SupportedFeature is a range of feature levels that a broker could work with.
type SupportedFeature struct {
	Name       string
	MinVersion int16
	MaxVersion int16
}

// FinalizedFeature is a range of feature levels that the cluster has agreed on.
type FinalizedFeature struct {
	Name            string
	MaxVersionLevel int16
	MinVersionLevel int16
}

// Key is KeyAPIVersions.
func (*ApiVersionsRequest) Key() APIKey { return KeyAPIVersions }

// AppendTo implements [Message].
func (m *ApiVersionsRequest) AppendTo(dst []byte, version int16) []byte {
	flex := flexibleToAppend(KeyAPIVersions, version)
	if version >= 3 {
		dst = wire.AppendString(dst, m.ClientSoftwareName, flex)
		dst = wire.AppendString(dst, m.ClientSoftwareVersion, flex)
	}
	if version >= 5 {
		dst = wire.AppendNullableString(dst, m.ClusterID, flex)
		dst = wire.AppendInt32(dst, m.NodeID)
	}
	return wire.AppendNoTags(dst, flex)
}

// ReadFrom implements [Message].
func (m *ApiVersionsRequest) ReadFrom(src []byte, version int16) error {
	r, flex := newRequestReader(src, KeyAPIVersions, version)
	*m = ApiVersionsRequest{NodeID: -1}
	if version >= 3 {
		m.ClientSoftwareName = r.String(flex)
		m.ClientSoftwareVersion = r.String(flex)
	}
	if version >= 5 {
		m.ClusterID = r.NullableString(flex)
		m.NodeID = r.Int32()
	}
	r.SkipTags(flex)
	return closeReader(&r, KeyAPIVersions, "request", version)
}

// Tags of the response's optional fields.
const (
	tagSupportedFeatures      = 0
	tagFinalizedFeaturesEpoch = 1
	tagFinalizedFeatures      = 2
	tagZkMigrationReady       = 3
)

// Key is KeyAPIVersions.
func (*ApiVersionsResponse) Key() APIKey { return KeyAPIVersions }

// AppendTo implements [Message].
func (m *ApiVersionsResponse) AppendTo(dst []byte, version int16) []byte {
	flex := flexibleToAppend(KeyAPIVersions, version)
	if m.ErrorCode == UnsupportedVersion {
		version, flex = 0, false
	}
	dst = wire.AppendInt16(dst, int16(m.ErrorCode))
	dst = wire.AppendLen(dst, len(m.ApiKeys), flex)
	for i := range m.ApiKeys {
		k := &m.ApiKeys[i]
		dst = wire.AppendInt16(dst, int16(k.ApiKey))
		dst = wire.AppendInt16(dst, k.MinVersion)
		dst = wire.AppendInt16(dst, k.MaxVersion)
		dst = wire.AppendNoTags(dst, flex)
	}
	if version >= 1 {
		dst = wire.AppendInt32(dst, m.ThrottleTimeMs)
	}
	if !flex {
		return dst
	}
	return m.appendTags(dst)
}

func (m *ApiVersionsResponse) appendTags(dst []byte) []byte {
	var supported, finalized []byte
	tags := 0
	if len(m.SupportedFeatures) > 0 {
		tags++
		supported = wire.AppendLen(nil, len(m.SupportedFeatures), true)
		for _, f := range m.SupportedFeatures {
			supported = appendFeature(supported, f.Name, f.MinVersion, f.MaxVersion)
		}
	}
	if m.FinalizedFeaturesEpoch != -1 {
		tags++
	}
	if len(m.FinalizedFeatures) > 0 {
		tags++
		finalized = wire.AppendLen(nil, len(m.FinalizedFeatures), true)
		for _, f := range m.FinalizedFeatures {
			finalized = appendFeature(finalized, f.Name, f.MaxVersionLevel, f.MinVersionLevel)
		}
	}
	if m.ZkMigrationReady {
		tags++
	}

	dst = wire.AppendUvarint(dst, uint64(tags))
	if supported != nil {
		dst = append(wire.AppendTag(dst, tagSupportedFeatures, len(supported)), supported...)
	}
	if m.FinalizedFeaturesEpoch != -1 {
		dst = wire.AppendInt64(wire.AppendTag(dst, tagFinalizedFeaturesEpoch, 8), m.FinalizedFeaturesEpoch)
	}
	if finalized != nil {
		dst = append(wire.AppendTag(dst, tagFinalizedFeatures, len(finalized)), finalized...)
	}
	if m.ZkMigrationReady {
		dst = wire.AppendBool(wire.AppendTag(dst, tagZkMigrationReady, 1), true)
	}
	return dst
}

// appendFeature appends a feature and its two levels, which supported and finalized features order
// differently.
func appendFeature(dst []byte, name string, first, second int16) []byte {
	dst = wire.AppendString(dst, name, true)
	dst = wire.AppendInt16(dst, first)
	dst = wire.AppendInt16(dst, second)
	return wire.AppendNoTags(dst, true)
}

// ReadFrom implements [Message].
func (m *ApiVersionsResponse) ReadFrom(src []byte, version int16) error {
	r, flex := newReader(src, KeyAPIVersions, version)
	*m = ApiVersionsResponse{FinalizedFeaturesEpoch: -1}
	m.ErrorCode = ErrorCode(r.Int16())
	if m.ErrorCode == UnsupportedVersion {
		version, flex = 0, false
		if r.Len() == 0 { // a broker that says no more than that
			return closeReader(&r, KeyAPIVersions, "response", version)
		}
	}
	m.ApiKeys = makeArray[ApiVersion](&r, flex, 6)
	for i := range m.ApiKeys {
		k := &m.ApiKeys[i]
		k.ApiKey = APIKey(r.Int16())
		k.MinVersion = r.Int16()
		k.MaxVersion = r.Int16()
		r.SkipTags(flex)
	}
	if version >= 1 {
		m.ThrottleTimeMs = r.Int32()
	}
	for n := r.Tags(flex); n > 0; n-- {
		tag, after := r.Tag()
		switch tag {
		case tagSupportedFeatures:
			m.SupportedFeatures = makeArray[SupportedFeature](&r, true, 6)
			for i := range m.SupportedFeatures {
				f := &m.SupportedFeatures[i]
				f.Name = r.String(true)
				f.MinVersion = r.Int16()
				f.MaxVersion = r.Int16()
				r.SkipTags(true)
			}
		case tagFinalizedFeaturesEpoch:
			m.FinalizedFeaturesEpoch = r.Int64()
		case tagFinalizedFeatures:
			m.FinalizedFeatures = makeArray[FinalizedFeature](&r, true, 6)
			for i := range m.FinalizedFeatures {
				f := &m.FinalizedFeatures[i]
				f.Name = r.String(true)
				f.MaxVersionLevel = r.Int16()
				f.MinVersionLevel = r.Int16()
				r.SkipTags(true)
			}
		case tagZkMigrationReady:
			m.ZkMigrationReady = r.Bool()
		default:
			r.SkipTag()
		}
		r.EndTag(after)
	}
	return closeReader(&r, KeyAPIVersions, "response", version)
}
