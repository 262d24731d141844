package netclient

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// KIP-1242, delivery 5.6: a broker whose address belongs to another cluster by now is left before anything was sent to it, and the
// bootstrap servers are asked again.
func TestBrokerOfAnotherCluster(t *testing.T) {
	r := newRig(t, Config{}, 1)
	r.md.cluster = "ours"
	require.False(t, r.Ready(r.node(1), r.now))
	r.sel.conns[1].up = true
	r.sel.schedule(time.Millisecond, Event{Kind: Connected, Node: 1, Versions: apis(), ClusterID: "theirs"})
	r.poll(10 * time.Millisecond)
	require.NotEqual(t, nodeReady, r.state(1))
	require.False(t, r.CanSend(1, r.now))
	require.ErrorIs(t, r.find(1).why, errWrongCluster)
}

// A broker that says the right id, or none, is used.
func TestBrokerOfTheRightCluster(t *testing.T) {
	for _, id := range []string{"ours", ""} {
		r := newRig(t, Config{}, 1)
		r.md.cluster = "ours"
		r.Ready(r.node(1), r.now)
		r.sel.conns[1].up = true
		r.sel.schedule(time.Millisecond, Event{Kind: Connected, Node: 1, Versions: apis(), ClusterID: id})
		r.poll(10 * time.Millisecond)
		require.Equal(t, nodeReady, r.state(1))
	}
}
