// Package selectortest is the contract of netclient.Selector as a test suite, for every implementation:
// sockets, simulated networks, and whatever else stands in that place.
//
// An implementation provides a World, a selector with peers that it can reach, and calls Run from a test.
// All that the suite does to the selector goes through a checker that knows the contract's rules on the order and
// number of events, so each case fails on any breach of them, and not only on what it is about.
package selectortest
