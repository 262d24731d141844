package protocol

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
