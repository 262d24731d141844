package testbroker

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/kafka-reservoir/producer/protocol"
)

func TestApiVersionsByGeneration(t *testing.T) {
	for _, g := range []*Generation{Kafka44, Kafka40, Kafka39, Kafka28, Kafka21, Kafka11, Kafka011, Kafka010} {
		t.Run(g.Name, func(t *testing.T) {
			c := newCore(t, Config{Generation: g})
			_, newest, ok := g.Range(protocol.KeyAPIVersions)
			require.True(t, ok)
			for v := int16(0); v <= newest; v++ {
				r := c.do(&protocol.ApiVersionsRequest{ClientSoftwareName: "x", ClientSoftwareVersion: "1", NodeID: -1}, v).(*protocol.ApiVersionsResponse)
				assert.Equal(t, protocol.None, r.ErrorCode)
				assert.Equal(t, g.APIs, r.ApiKeys)
			}
			c.Check(t)
		})
	}
}

// KIP-511: a version that is too new is answered in v0, with error 35; who knows better says with which to ask.
func TestApiVersionsTooNew(t *testing.T) {
	ask := func(g *Generation) *protocol.ApiVersionsResponse {
		c := newCore(t, Config{Generation: g})
		frame := frameOf(&protocol.ApiVersionsRequest{ClientSoftwareName: "x", ClientSoftwareVersion: "1"}, 5, 1)
		frame[3] = 99 // what follows may be anything
		actions := c.Handle(1, 1, append(frame, 1, 2, 3), c.now)
		require.Len(t, actions, 1)
		_, rest, err := protocol.ReadResponseHeader(actions[0].Bytes[4:], protocol.KeyAPIVersions, 0)
		require.NoError(t, err)
		r := new(protocol.ApiVersionsResponse)
		require.NoError(t, r.ReadFrom(rest, 0))
		c.Check(t)
		return r
	}
	r := ask(Kafka28)
	assert.Equal(t, protocol.UnsupportedVersion, r.ErrorCode)
	assert.Equal(t, []protocol.ApiVersion{{ApiKey: protocol.KeyAPIVersions, MinVersion: 0, MaxVersion: 3}}, r.ApiKeys)
	r = ask(Kafka21)
	assert.Equal(t, protocol.UnsupportedVersion, r.ErrorCode)
	assert.Empty(t, r.ApiKeys)
}

func TestApiVersionsFeatures(t *testing.T) {
	ask := func(g *Generation, version int16) *protocol.ApiVersionsResponse {
		c := newCore(t, Config{Generation: g})
		return c.do(&protocol.ApiVersionsRequest{ClientSoftwareName: "x", ClientSoftwareVersion: "1"}, version).(*protocol.ApiVersionsResponse)
	}
	names := func(r *protocol.ApiVersionsResponse) (supported, finalized []string) {
		for _, f := range r.SupportedFeatures {
			supported = append(supported, f.Name)
		}
		for _, f := range r.FinalizedFeatures {
			finalized = append(finalized, f.Name)
		}
		return
	}
	both := []string{"metadata.version", "transaction.version"}
	s, f := names(ask(Kafka44, 3))
	assert.Equal(t, both[:1], s, "a feature with minimum 0 is hidden in v3 (KIP-1022)")
	assert.Equal(t, both, f)
	s, f = names(ask(Kafka44, 4))
	assert.Equal(t, both, s)
	assert.Equal(t, both, f)
	s, f = names(ask(Kafka28, 3))
	assert.Empty(t, s)
	assert.Empty(t, f)
}

// A broker of 0.9 does not know ApiVersions and never answers it; nor does it close.
func TestSilentOldBroker(t *testing.T) {
	c := newCore(t, Config{Generation: Kafka09})
	assert.Empty(t, c.send(&protocol.ApiVersionsRequest{}, 0))
	assert.Empty(t, c.send(produce(-1, "t", 0, plain("x")), 3))
}

// KIP-1242: v5 says whom the client believes to talk to.
func TestApiVersionsWrongCluster(t *testing.T) {
	c := newCore(t, Config{Nodes: 2, ClusterID: "mine"})
	mine, other := "mine", "other"
	tests := []struct {
		id   *string
		node int32
		want protocol.ErrorCode
	}{
		{nil, -1, protocol.None}, {&mine, 1, protocol.None}, {&mine, -1, protocol.None},
		{&other, -1, protocol.RebootstrapRequired}, {&mine, 2, protocol.RebootstrapRequired},
	}
	for _, tt := range tests {
		r := c.do(&protocol.ApiVersionsRequest{ClientSoftwareName: "x", ClientSoftwareVersion: "1", ClusterID: tt.id, NodeID: tt.node}, 5)
		assert.Equal(t, tt.want, r.(*protocol.ApiVersionsResponse).ErrorCode)
	}
}

func TestApiVersionsChecksTheName(t *testing.T) {
	c := newCore(t, Config{})
	r := c.do(&protocol.ApiVersionsRequest{ClientSoftwareName: "-x", ClientSoftwareVersion: "1"}, 3).(*protocol.ApiVersionsResponse)
	assert.Equal(t, protocol.InvalidRequest, r.ErrorCode)
	assert.Len(t, c.Violations(), 1)
}

func TestInitProducerID(t *testing.T) {
	c := newCore(t, Config{FirstProducerID: 50})
	ask := func(txn *string) [2]int64 {
		r := c.do(&protocol.InitProducerIdRequest{TransactionalID: txn, ProducerID: -1, ProducerEpoch: -1}, 4).(*protocol.InitProducerIdResponse)
		assert.Equal(t, protocol.None, r.ErrorCode)
		return [2]int64{r.ProducerID, int64(r.ProducerEpoch)}
	}
	a := "a"
	assert.Equal(t, [2]int64{50, 0}, ask(nil))
	assert.Equal(t, [2]int64{51, 0}, ask(nil))
	assert.Equal(t, [2]int64{52, 0}, ask(&a))
	assert.Equal(t, [2]int64{53, 0}, ask(nil))
	assert.Equal(t, [2]int64{52, 1}, ask(&a))
}

func TestFindCoordinatorHasNone(t *testing.T) {
	c := newCore(t, Config{})
	r := c.do(&protocol.FindCoordinatorRequest{CoordinatorKey: "g"}, 3).(*protocol.FindCoordinatorResponse)
	assert.Equal(t, protocol.CoordinatorNotAvailable, r.ErrorCode)
	r = c.do(&protocol.FindCoordinatorRequest{CoordinatorKeys: []string{"g", "h"}}, 6).(*protocol.FindCoordinatorResponse)
	require.Len(t, r.Coordinators, 2)
	assert.Equal(t, protocol.CoordinatorNotAvailable, r.Coordinators[1].ErrorCode)
}

func TestGenerationWith(t *testing.T) {
	g := Kafka44.With(protocol.KeyProduce, 3, 8)
	lo, hi, ok := g.Range(protocol.KeyProduce)
	assert.Equal(t, []any{int16(3), int16(8), true}, []any{lo, hi, ok})
	_, hi, _ = Kafka44.Range(protocol.KeyProduce)
	assert.Equal(t, int16(13), hi, "the original is as it was")
	_, _, ok = g.With(protocol.KeyInitProducerID, 0, -1).Range(protocol.KeyInitProducerID)
	assert.False(t, ok)
	assert.Len(t, g.APIs, len(Kafka44.APIs))
}
