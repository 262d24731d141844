package netclient

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"strings"
	"sync/atomic"
	"time"

	"github.com/kafka-reservoir/producer/protocol"
)

// A SetupStep is a stage of setting up a connection.
type SetupStep uint8

// The steps, in their order.
const (
	StepDial        SetupStep = iota + 1 // name resolution and TCP
	StepTLS                              // TLS handshake
	StepAPIVersions                      // the first exchange with the broker
)

// ConnectError says why an attempt to connect failed, and at which step. It wraps the cause;
// errors.Is(err, context.DeadlineExceeded) tells whether the setup timeout ended it.
type ConnectError struct {
	Node protocol.Node
	Step SetupStep
	Err  error
}

// Error names the address, and where it comes from.
func (e *ConnectError) Error() string {
	if e.Node.ID < 0 {
		return fmt.Sprintf("connect to bootstrap server %s: %v", e.Node.Addr(), e.Err)
	}
	return fmt.Sprintf("connect to node %d at %s, as the cluster's metadata says: %v", e.Node.ID, e.Node.Addr(), e.Err)
}

// Unwrap returns the cause.
func (e *ConnectError) Unwrap() error { return e.Err }

// Timeout reports whether the setup timeout ended the attempt.
func (e *ConnectError) Timeout() bool { return errors.Is(e.Err, context.DeadlineExceeded) }

// setUp makes the connection, step by step, until the broker has said which API versions it speaks.
// All of it ends with ctx. On success c.in and c.out are ready.
func (c *conn) setUp(ctx context.Context) (net.Conn, *protocol.ApiVersionsResponse, error) {
	sock, err := c.sel.dialNode(ctx, c.node)
	if err != nil {
		return nil, nil, c.failure(ctx, StepDial, err)
	}
	cut := make(chan struct{})
	uncut := context.AfterFunc(ctx, func() { sock.Close(); close(cut) }) // ends reads and writes; a deadline not every conn has
	versions, step, err := c.greet(ctx, sock)
	if !uncut() {
		<-cut
		err = errors.Join(err, ctx.Err())
	}
	if err != nil {
		sock.Close()
		return nil, nil, c.failure(ctx, step, err)
	}
	return sock, versions, nil
}

// greet does what is said on a new connection before the first request of the client.
func (c *conn) greet(ctx context.Context, sock net.Conn) (*protocol.ApiVersionsResponse, SetupStep, error) {
	cfg := &c.sel.cfg
	if err := tune(sock, cfg); err != nil {
		return nil, StepDial, err
	}
	conn := sock
	if cfg.TLS != nil {
		tc := tls.Client(sock, tlsConfigFor(cfg.TLS, c.node.Host))
		if err := tc.HandshakeContext(ctx); err != nil {
			return nil, StepTLS, err
		}
		conn = tc
	}
	m := cfg.Metrics
	node := m.Node(c.node.ID)
	c.in = newFrameReader(newQuietReader(conn, &c.sel.calm), cfg.MaxResponseSize, byteCount{&m.IncomingByteTotal, &node.IncomingByteTotal})
	if plain, ok := conn.(*net.TCPConn); ok {
		c.direct = newDirectWriter(plain)
	}
	c.out = newFrameWriter(conn, &c.sel.calm, byteCount{&m.OutgoingByteTotal, &node.OutgoingByteTotal})
	versions, err := c.negotiate()
	// The place of SASL is here: handshake and exchange in a line, over c.in and c.out.
	if err == nil && cfg.AskCluster && c.node.ID >= 0 {
		c.cluster, err = c.askCluster(versions)
	}
	return versions, StepAPIVersions, err
}

// askCluster asks which cluster the broker belongs to, by a Metadata request for no topic. What a bootstrap server says is seen
// with the first metadata, so only brokers known from there are asked: their address may have been given to somebody else.
func (c *conn) askCluster(versions *protocol.ApiVersionsResponse) (string, error) {
	const named, highest = 2, 12 // answers name the cluster from v2 on; v13 tells nothing more here
	version, ok := int16(0), false
	for _, k := range versions.ApiKeys {
		if k.ApiKey == protocol.KeyMetadata {
			version, ok = protocol.HighestCommonVersion(named, highest, k.MinVersion, k.MaxVersion)
		}
	}
	if !ok {
		return "", nil
	}
	const corr = 1 << 20 // no id of negotiate's
	frame := protocol.NewFrame(protocol.RequestHeader{
		Key: protocol.KeyMetadata, Version: version, CorrelationID: corr, ClientID: &c.sel.cfg.ClientID,
	}, &protocol.MetadataRequest{Topics: []protocol.MetadataRequestTopic{}})
	if _, err := c.out.write([]queuedFrame{{frame: frame}}); err != nil {
		return "", err
	}
	payload, err := c.in.next(nil)
	if err != nil {
		return "", err
	}
	got, body, err := protocol.ReadResponseHeader(payload, protocol.KeyMetadata, version)
	if err == nil && got != corr {
		err = fmt.Errorf("correlation id %d instead of %d: the connection is damaged", got, corr)
	}
	var resp protocol.MetadataResponse
	if err == nil {
		err = resp.ReadInPlace(body, version)
	}
	if err != nil {
		return "", fmt.Errorf("answer to Metadata v%d: %w", version, err)
	}
	return deref(resp.ClusterID), nil
}

// tune sets the options of the socket (S-16). A connection that is no socket is left as it is.
func tune(sock net.Conn, cfg *TCPConfig) error {
	tcp, ok := sock.(*net.TCPConn)
	if !ok {
		return nil
	}
	err := errors.Join(tcp.SetNoDelay(true), tcp.SetKeepAlive(true))
	if cfg.SendBuffer > 0 {
		err = errors.Join(err, tcp.SetWriteBuffer(cfg.SendBuffer))
	}
	if cfg.ReceiveBuffer > 0 {
		err = errors.Join(err, tcp.SetReadBuffer(cfg.ReceiveBuffer))
	}
	return err
}

// tlsConfigFor returns the configuration for one connection. The name that is announced and verified
// is the node's own, without the dot that a fully qualified name may end in.
func tlsConfigFor(cfg *tls.Config, host string) *tls.Config {
	cfg = cfg.Clone()
	if cfg.ServerName == "" {
		cfg.ServerName = strings.TrimSuffix(host, ".")
	}
	// Small first records help a browser that renders what it has; a broker needs the whole frame.
	cfg.DynamicRecordSizingDisabled = true
	return cfg
}

// dialNode opens a TCP connection to the node: to the first of its addresses that answers.
func (s *TCPSelector) dialNode(ctx context.Context, node protocol.Node) (net.Conn, error) {
	if _, err := netip.ParseAddr(node.Host); err == nil || s.cfg.LookupHost == nil {
		return s.cfg.Dial(ctx, "tcp", node.Addr())
	}
	hosts, err := s.cfg.LookupHost(ctx, node.Host)
	if err != nil {
		return nil, err
	}
	if len(hosts) == 0 {
		return nil, &net.DNSError{Err: "no addresses", Name: node.Host, IsNotFound: true}
	}
	addrs := make([]string, len(hosts))
	for i, h := range hosts {
		addrs[i] = protocol.Node{Host: h, Port: node.Port}.Addr()
	}
	if len(addrs) == 1 {
		return s.cfg.Dial(ctx, "tcp", addrs[0])
	}
	return s.dialFirst(ctx, addrs)
}

// maxHeadStart is how long an address is tried alone before the next one is tried beside it (RFC 8305).
const maxHeadStart = 250 * time.Millisecond

// dialFirst tries the addresses in their order and returns the first connection that comes about.
//
// The next attempt begins when one has failed, or after a head start. Giving each address an equal
// share of the setup timeout instead would need no further goroutine, but an address that swallows
// packets would then cost seconds, and the next attempt would have to remember to avoid it.
func (s *TCPSelector) dialFirst(ctx context.Context, addrs []string) (net.Conn, error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel() // ends the attempts that lost
	headStart := maxHeadStart
	if deadline, ok := ctx.Deadline(); ok {
		headStart = min(headStart, time.Until(deadline)/time.Duration(len(addrs)+1))
	}
	var (
		won    atomic.Bool
		conns  = make(chan net.Conn, 1)
		errs   = make(chan error, len(addrs)) // as many as can come: nobody waits to report
		failed []error
		next   = 0
		timer  = time.NewTimer(0)
	)
	defer timer.Stop()
	for {
		select {
		case conn := <-conns:
			return conn, nil
		case err := <-errs:
			if failed = append(failed, err); len(failed) == len(addrs) {
				return nil, allFailed(failed)
			}
			if next == len(addrs) {
				continue
			}
		case <-timer.C:
			if next == len(addrs) {
				continue
			}
		}
		addr := addrs[next]
		next++
		timer.Reset(headStart)
		s.wg.Go(func() { // ends with ctx at the latest
			conn, err := s.cfg.Dial(ctx, "tcp", addr)
			switch {
			case err != nil:
				errs <- err
			case won.CompareAndSwap(false, true):
				conns <- conn
			default:
				conn.Close()
			}
		})
	}
}

// allFailed joins errors in one line.
func allFailed(errs []error) error {
	joined := errs[0]
	for _, err := range errs[1:] {
		joined = fmt.Errorf("%w; %w", joined, err)
	}
	return fmt.Errorf("none of %d addresses answered: %w", len(errs), joined)
}

// negotiate asks the broker for its API versions, in lower and lower versions until it understands the
// question (KIP-511).
func (c *conn) negotiate() (*protocol.ApiVersionsResponse, error) {
	cfg := &c.sel.cfg
	request := &protocol.ApiVersionsRequest{
		ClientSoftwareName:    cfg.SoftwareName,
		ClientSoftwareVersion: cfg.SoftwareVersion,
		NodeID:                -1,
	}
	version := FirstAPIVersions(c.lost)
	for corr := int32(0); ; corr++ {
		frame := protocol.NewFrame(protocol.RequestHeader{
			Key: protocol.KeyAPIVersions, Version: version, CorrelationID: corr, ClientID: &cfg.ClientID,
		}, request)
		if _, err := c.out.write([]queuedFrame{{frame: frame}}); err != nil {
			if _, said := c.in.next(nil); refusesPeer(said) {
				err = said // the broker said why before it closed
			}
			return nil, err
		}
		payload, err := c.in.next(nil)
		if err != nil {
			return nil, err
		}
		got, body, err := protocol.ReadResponseHeader(payload, protocol.KeyAPIVersions, version)
		if err == nil && got != corr {
			err = fmt.Errorf("correlation id %d instead of %d: not a Kafka broker, or the connection is damaged", got, corr)
		}
		var response *protocol.ApiVersionsResponse
		if err == nil {
			response, err = DecodeAPIVersions(body, version)
		}
		if err != nil {
			return nil, fmt.Errorf("answer to ApiVersions v%d: %w", version, err)
		}
		next, done, err := NextAPIVersions(version, response)
		if done || err != nil {
			return response, err
		}
		version = next
	}
}

// failure says what went wrong in words for whoever has to repair it.
func (c *conn) failure(ctx context.Context, step SetupStep, err error) error {
	timedOut := errors.Is(ctx.Err(), context.DeadlineExceeded)
	if errors.Is(err, net.ErrClosed) && ctx.Err() != nil {
		err = ctx.Err() // the socket was closed because of it
	}
	hungUp := broke(err)
	if step == StepAPIVersions && hungUp && !timedOut {
		c.lost++ // the broker, or a gateway, may not like the version
	}
	var notTLS tls.RecordHeaderError
	switch {
	case timedOut && step == StepDial:
		err = fmt.Errorf("no TCP connection within %v: %w", c.timeout, context.DeadlineExceeded)
	case timedOut && step == StepTLS:
		err = fmt.Errorf("no TLS handshake within %v: a plaintext port, or a broker that hangs: %w", c.timeout, context.DeadlineExceeded)
	case timedOut:
		err = fmt.Errorf("no answer to ApiVersions within %v: not a Kafka broker, or older than 0.10: %w", c.timeout, context.DeadlineExceeded)
	case step == StepTLS && errors.As(err, &notTLS):
		err = fmt.Errorf("TLS handshake: the other side does not speak TLS: a plaintext port? %w", err)
	case step == StepTLS && hungUp:
		err = fmt.Errorf("TLS handshake: the broker closed the connection: a plaintext port, or a client certificate it wants? %w", err)
	case refusesPeer(err):
		return &AuthenticationError{Node: c.node, Mechanism: "TLS", Err: err}
	case step == StepTLS:
		err = fmt.Errorf("TLS handshake: %w", err)
	case step == StepAPIVersions && hungUp && c.sel.cfg.TLS == nil:
		err = fmt.Errorf("the broker closed the connection instead of answering ApiVersions: a TLS port spoken to in plaintext? %w", err)
	case step == StepAPIVersions && hungUp:
		err = fmt.Errorf("the broker closed the connection instead of answering ApiVersions: %w", err)
	}
	return &ConnectError{Node: c.node, Step: step, Err: err}
}

// refusesPeer reports whether one side does not accept the other, rather than that the connection broke: a
// new attempt alone will not help. With TLS 1.3 a broker's word about our certificate comes after the handshake.
func refusesPeer(err error) bool {
	var verify *tls.CertificateVerificationError
	var op *net.OpError
	return errors.As(err, &verify) || errors.As(err, &op) && op.Op == "remote error"
}

// broke reports whether the connection ended under us, by a close or a reset.
func broke(err error) bool {
	var op *net.OpError
	return errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, io.ErrClosedPipe) ||
		errors.As(err, &op) && (op.Op == "read" || op.Op == "write")
}
