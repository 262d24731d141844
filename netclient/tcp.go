package netclient

import (
	"context"
	"crypto/tls"
	"net"
	"time"
)

// TCPConfig is what a TCPSelector needs to know. The zero value is plaintext TCP with the defaults
// that the fields name.
type TCPConfig struct {
	// Dial opens a connection; nil means net.Dialer with keep-alive. It must return soon after ctx ends.
	// With a nil LookupHost it is given host names as they are configured or advertised, and resolves them.
	Dial func(ctx context.Context, network, address string) (net.Conn, error)
	// LookupHost resolves a host name, anew for every attempt to connect; all addresses are tried in
	// the order given. Nil means the system's resolver if Dial is nil too, and otherwise leaves names to Dial.
	LookupHost func(ctx context.Context, host string) ([]string, error)
	// TLS turns on TLS; nil means plaintext. It is copied for each connection, never written to, and
	// the host name of the node is filled in where ServerName is empty.
	TLS *tls.Config

	// ClientID stands in the header of the requests the selector makes itself (client.id).
	ClientID string
	// SoftwareName and SoftwareVersion tell the broker who we are (KIP-511).
	SoftwareName, SoftwareVersion string

	// MaxResponseSize bounds a response frame; zero means 16 MiB.
	MaxResponseSize int
	// SendBuffer and ReceiveBuffer are the sizes of the socket's buffers (send.buffer.bytes,
	// receive.buffer.bytes); zero or less leaves them to the operating system.
	SendBuffer, ReceiveBuffer int
	// Linger bounds how long a closed connection that carried requests without responses (acks=0) is
	// kept half open, so that what was written reaches the broker; zero means 50ms.
	Linger time.Duration
}

// TCPSelector is the Selector for real networks.
type TCPSelector struct {
	cfg TCPConfig
}

// NewTCPSelector returns a selector without connections. Shutdown must be called in the end.
func NewTCPSelector(cfg TCPConfig) *TCPSelector {
	return &TCPSelector{cfg: cfg}
}
