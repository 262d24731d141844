// Package netclient exchanges requests and responses with the brokers of a cluster.
//
// It is part of the engine: its API may change in any release.
//
// [NetworkClient] is one half: which node may be sent to, what is in flight, which version of an API a node
// speaks, when a connection is made, given up and made again, when metadata is asked for and of whom. It is
// single-threaded: everything but Wakeup belongs to its owner, who runs the sender's loop; while that sleeps another goroutine may
// be the owner for a moment (TCPConfig.Turn). It has no goroutines, no locks and no clock; time comes in as an argument, and passes in Poll.
//
// The other half is a [Selector], which owns connections and knows nothing of what they carry. [TCPSelector] is
// the real one: it does what is said on a new connection (TLS, ApiVersions) in the goroutine that
// dials, and then keeps a reader and a writer per connection. A simulator can stand in its place.
//
// The loop of the caller:
//
//	for each node with something to send:
//		Ready(node)             // makes a connection where there is none
//		Send(request)           // at most MaxInFlight per node
//	Poll(timeout)                   // the only place that waits; runs the handlers
//
// Handlers may call any method but Poll and Close. The answer to a request that a broker never gives is an
// error, after the request timeout at the latest, so each request that was sent ends in exactly one
// HandleResponse; a connection's requests end in the order in which they were sent.
package netclient
