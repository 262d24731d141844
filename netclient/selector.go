package netclient

import (
	"time"

	"github.com/kafka-reservoir/producer/protocol"
)

// EventKind says what an Event reports.
type EventKind uint8

// The kinds of event, in the order in which one connection can produce them.
const (
	// Connected: the connection is up, authenticated, and its API versions are known.
	Connected EventKind = iota + 1
	// Sent: the frame was written whole and the selector holds no reference to it.
	Sent
	// Received: a whole response frame arrived.
	Received
	// Dropped: the frame will not be written (or not whole) and the selector holds no reference to it.
	Dropped
	// Disconnected: the connection, or the attempt to make one, is over. The last event of a connection.
	Disconnected
)

// Event is something that happened on a connection.
type Event struct {
	Kind EventKind
	Node int32
	// ID is the id that was given to Send (Sent, Dropped).
	ID int32
	// Payload is the response without its length prefix (Received). It is valid until the next Poll.
	Payload []byte
	// Versions is what the broker answered to ApiVersions (Connected).
	Versions *protocol.ApiVersionsResponse
	// ClusterID is the cluster that the broker says it belongs to (Connected); empty: it was not asked, or does not know.
	ClusterID string
	// Err says why the connection ended (Disconnected); never nil there.
	Err error
}

// Selector is the seam between the client and the network: everything above it is one goroutine
// without sockets, clocks or locks, and a simulator can stand in its place.
//
// The contract, which one test suite checks for every implementation:
//
//  1. Each accepted Send is answered by exactly one Sent or Dropped; after that the selector holds
//     no reference to the frame.
//  2. Per connection: Connected, then Sent and Received in wire order, then Dropped for the rest,
//     then one Disconnected. An attempt that fails gives only Disconnected.
//  3. A Wakeup is never lost: one that comes before a Poll makes that Poll return at once.
//  4. Poll never returns a time before the one it was given.
//  5. After Shutdown no goroutine of it runs.
//
// There is at most one connection per node id. Only Wakeup may be called from any goroutine, all
// else by the goroutine that owns the client.
type Selector interface {
	// Connect begins to connect to node, under its id; timeout bounds everything up to Connected.
	// A node that has a connection must not be connected again before its Disconnected was seen.
	Connect(node protocol.Node, timeout time.Duration)
	// Send queues a frame for a connected node. A Send to a node whose connection is gone, or going,
	// is answered by Dropped.
	Send(node, id int32, f protocol.Frame)
	// Close ends the node's connection, or the attempt; Disconnected follows in a later Poll.
	Close(node int32)
	// Poll waits until there is an event, a Wakeup, or timeout is over, and returns the time then.
	// It is the only place where time passes. The events are valid until the next Poll.
	// A negative timeout waits without limit.
	Poll(now time.Time, timeout time.Duration) (time.Time, []Event)
	Wakeup()
	// Shutdown closes all connections and waits until no goroutine of the selector runs. Frames still held
	// are let go; no more events are reported.
	Shutdown()
}
