//go:build !cgo

package clients

// confluentClients is empty: librdkafka needs cgo.
var confluentClients []Client
