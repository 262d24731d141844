package selectortest

import (
	"testing"

	"github.com/kafka-reservoir/producer/netclient"
	"github.com/kafka-reservoir/producer/protocol"
)

// World is a selector and what surrounds it. All methods are called by the goroutine that runs the case.
type World interface {
	// Selector is the one under test.
	Selector() netclient.Selector
	// Start begins a peer and returns the node to connect to it with.
	Start(id int32, p Peer) protocol.Node
	// Stop ends a peer: it refuses new connections and closes the ones it has, in the ordinary way.
	Stop(id int32)
	// Stall makes a peer stop reading what was sent to it, or go on. While it lasts, no more than a few MB
	// can be written to it.
	Stall(id int32, on bool)
	// Big is the size of a payload that does not fit into the buffers of the network, and with it the
	// largest one the suite uses.
	Big() int
	// Quiet fails the test if a goroutine of the selector still runs. It is called after Shutdown.
	Quiet(t *testing.T)
}

// Peer is a broker as the suite needs it. The zero value answers each request with its own bytes.
type Peer struct {
	Mode Mode
	// Handle answers a request, which it must not keep. It is called for one request of a connection
	// after the other, and conn counts the connections that the peer accepted, from 1. Nil echoes.
	Handle func(conn int, request []byte) Reply
}

// Mode is how a peer receives connections.
type Mode uint8

// The modes. In all but the first no connection ever becomes Connected.
const (
	Serving Mode = iota // in the ordinary way, including the exchange of API versions
	Refusing
	Vanishing // packets to it vanish
	HangingUp // accepts, and closes at once
	Mute      // accepts, and never says anything
)

// Reply is what a peer does in answer to a request.
type Reply struct {
	Responses [][]byte // payloads, sent in one piece as far as possible
	HangUp    bool     // close the connection after them
}

// Echo is what a Peer does that has no Handle.
func Echo(_ int, request []byte) Reply { return Reply{Responses: [][]byte{request}} }

// Factory makes a world and runs body in it, in a synctest bubble if the world is made for one.
type Factory func(t *testing.T, body func(t *testing.T, w World))

// Run tests that the selector of the factory's worlds keeps the contract.
func Run(t *testing.T, in Factory) {
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			in(t, func(t *testing.T, w World) {
				d := newDriver(t, w)
				c.run(d)
				d.sel.Shutdown()
				w.Quiet(t)
			})
		})
	}
}
