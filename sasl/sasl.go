// Package sasl says how a producer proves to a broker who it is.
//
// The producer calls a Mechanism from the goroutine that sets up a connection, once for each
// connection; one Mechanism serves all connections and is called for several of them at once.
//
// This package is covered by the module's compatibility promise.
package sasl

import "context"

// Mechanism is a way to authenticate, such as PLAIN or SCRAM-SHA-256.
type Mechanism interface {
	// Name is the mechanism's registered name, as the broker lists it (sasl.mechanism).
	Name() string
	// Start begins to authenticate one connection to host (without port) and returns the first message to
	// send, which may be empty where the broker speaks first. It may wait, until ctx ends, for a token.
	Start(ctx context.Context, host string) (Session, []byte, error)
}

// Session authenticates one connection. It is used by one goroutine.
type Session interface {
	// Next takes the broker's message and returns what to answer. done says that the broker has proved
	// everything it has to and nothing more is expected; a message returned with it is still sent.
	// An error ends the connection.
	Next(ctx context.Context, challenge []byte) (response []byte, done bool, err error)
}
