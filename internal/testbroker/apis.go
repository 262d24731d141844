package testbroker

import (
	"regexp"

	"github.com/kafka-reservoir/producer/protocol"
)

// softwareName is what KIP-511 allows in the client's software name and version.
var softwareName = regexp.MustCompile(`^[a-zA-Z0-9](?:[a-zA-Z0-9\-.]*[a-zA-Z0-9])?$`)

func (c *Cluster) apiVersionsLocked(k *conn, j *job, b *protocol.ApiVersionsRequest) protocol.Message {
	g := k.node.generation
	r := &protocol.ApiVersionsResponse{ErrorCode: j.verdict.Code, ApiKeys: g.APIs, FinalizedFeaturesEpoch: -1}
	if j.req.Version >= 3 {
		g.addFeatures(r, j.req.Version)
		if !softwareName.MatchString(b.ClientSoftwareName) || !softwareName.MatchString(b.ClientSoftwareVersion) {
			c.breachLocked(j.req, "client software %q %q", b.ClientSoftwareName, b.ClientSoftwareVersion)
			r.ErrorCode = protocol.InvalidRequest
		}
	}
	if j.req.Version >= 5 { // KIP-1242: the client believes to be elsewhere
		if b.ClusterID != nil && *b.ClusterID != c.cfg.ClusterID || b.NodeID >= 0 && b.NodeID != k.node.id {
			r.ErrorCode = protocol.RebootstrapRequired
		}
	}
	return r
}

// unsupportedVersions is the answer to a version that is too new; package protocol gives it the form of v0.
func unsupportedVersions(g *Generation) protocol.Message {
	r := &protocol.ApiVersionsResponse{ErrorCode: protocol.UnsupportedVersion, FinalizedFeaturesEpoch: -1}
	if lo, hi, ok := g.Range(protocol.KeyAPIVersions); ok && !g.EmptyUnsupported {
		r.ApiKeys = []protocol.ApiVersion{{ApiKey: protocol.KeyAPIVersions, MinVersion: lo, MaxVersion: hi}}
	}
	return r
}

// addFeatures adds what KRaft clusters list. A supported feature whose minimum is 0 is hidden before v4
// (KIP-1022); the list of the finalized ones is complete in any case.
func (g *Generation) addFeatures(r *protocol.ApiVersionsResponse, version int16) {
	if g.MetadataVersion == 0 {
		r.FinalizedFeaturesEpoch = 0
		return
	}
	r.FinalizedFeaturesEpoch = 1
	r.SupportedFeatures = []protocol.SupportedFeature{{Name: "metadata.version", MinVersion: 7, MaxVersion: g.MetadataVersion}}
	r.FinalizedFeatures = []protocol.FinalizedFeature{{Name: "metadata.version", MaxVersionLevel: g.MetadataVersion, MinVersionLevel: g.MetadataVersion}}
	if tv := g.TransactionVersion; tv > 0 {
		if version >= 4 {
			r.SupportedFeatures = append(r.SupportedFeatures, protocol.SupportedFeature{Name: "transaction.version", MaxVersion: tv})
		}
		r.FinalizedFeatures = append(r.FinalizedFeatures, protocol.FinalizedFeature{Name: "transaction.version", MaxVersionLevel: tv, MinVersionLevel: tv})
	}
}

// initProducerIDLocked gives out ids. A producer without transactional id always gets a new one, as from Kafka;
// with one, it keeps its id and gets the next epoch.
func (c *Cluster) initProducerIDLocked(j *job, b *protocol.InitProducerIdRequest) protocol.Message {
	r := &protocol.InitProducerIdResponse{ErrorCode: j.verdict.Code, ProducerID: -1, ProducerEpoch: -1}
	if r.ErrorCode != protocol.None && !j.verdict.Append || j.verdict.Skip {
		return r
	}
	id := protocol.ProducerID{ID: c.nextPID}
	if b.TransactionalID == nil {
		c.nextPID++
	} else if old, ok := c.txnPIDs[*b.TransactionalID]; ok && old.Epoch < 32766 {
		id = protocol.ProducerID{ID: old.ID, Epoch: old.Epoch + 1}
	} else {
		c.nextPID++
	}
	if b.TransactionalID != nil {
		c.txnPIDs[*b.TransactionalID] = id
	}
	if r.ErrorCode == protocol.None {
		r.ProducerID, r.ProducerEpoch = id.ID, id.Epoch
	}
	return r
}

// findCoordinator tells consumers that there are no groups here.
func findCoordinator(j *job, b *protocol.FindCoordinatorRequest) protocol.Message {
	code := protocol.CoordinatorNotAvailable
	if j.verdict.Code != protocol.None {
		code = j.verdict.Code
	}
	text := "this cluster has no coordinators"
	r := &protocol.FindCoordinatorResponse{ErrorCode: code, ErrorMessage: &text, NodeID: -1, Port: -1}
	for _, key := range b.CoordinatorKeys {
		r.Coordinators = append(r.Coordinators, protocol.Coordinator{Key: key, NodeID: -1, Port: -1, ErrorCode: code, ErrorMessage: &text})
	}
	return r
}
