package netclient_test

import (
	"bufio"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/binary"
	"io"
	"math/big"
	"net"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/kafka-reservoir/producer/internal/simnet"
	"github.com/kafka-reservoir/producer/netclient"
	"github.com/kafka-reservoir/producer/netclient/selectortest"
	"github.com/kafka-reservoir/producer/protocol"
)

// fabric is where a netWorld's peers listen: real sockets, or a simulated network.
type fabric struct {
	listen func() (net.Listener, error)
	dial   func(ctx context.Context, network, address string) (net.Conn, error)
	big    int
	tls    *tls.Config // the peers' side; nil is plaintext
}

// netWorld is the world of a TCPSelector.
type netWorld struct {
	t      *testing.T
	fabric fabric
	sel    *netclient.TCPSelector
	peers  map[int32]*peer

	mu     sync.Mutex
	vanish map[string]bool
}

// socketBuffer is small, so that a peer that does not read is felt soon.
const socketBuffer = 64 << 10

func newNetWorld(t *testing.T, f fabric, cfg netclient.TCPConfig) *netWorld {
	w := &netWorld{t: t, fabric: f, peers: make(map[int32]*peer), vanish: make(map[string]bool)}
	cfg.Dial = w.dial
	w.sel = netclient.NewTCPSelector(cfg)
	return w
}

func (w *netWorld) dial(ctx context.Context, network, address string) (net.Conn, error) {
	w.mu.Lock()
	vanish := w.vanish[address]
	w.mu.Unlock()
	if vanish {
		<-ctx.Done()
		return nil, ctx.Err()
	}
	return w.fabric.dial(ctx, network, address)
}

func (w *netWorld) Selector() netclient.Selector { return w.sel }
func (w *netWorld) Big() int                     { return w.fabric.big }
func (w *netWorld) Quiet(t *testing.T)           { requireQuiet(t) }

func (w *netWorld) Start(id int32, behaviour selectortest.Peer) protocol.Node {
	w.t.Helper()
	l, err := w.fabric.listen()
	if err != nil {
		w.t.Fatal(err)
	}
	address := l.Addr().String()
	n := nodeAt(id, address)
	switch behaviour.Mode {
	case selectortest.Refusing:
		l.Close()
		return n
	case selectortest.Vanishing:
		w.mu.Lock()
		w.vanish[address] = true
		w.mu.Unlock()
	}
	p := newPeer(l, behaviour)
	if w.fabric.tls != nil {
		p.listener = tls.NewListener(l, w.fabric.tls)
	}
	w.peers[id] = p
	p.wg.Go(p.accept)
	return n
}

func (w *netWorld) Stop(id int32) {
	if p := w.peers[id]; p != nil {
		p.stop()
		delete(w.peers, id)
	}
}

func (w *netWorld) Stall(id int32, on bool) { w.peers[id].stall(on) }

func (w *netWorld) close() {
	w.sel.Shutdown()
	for id := range w.peers {
		w.Stop(id)
	}
}

// nodeAt is the node of an address host:port.
func nodeAt(id int32, address string) protocol.Node {
	host, port, err := net.SplitHostPort(address)
	if err != nil {
		panic(err)
	}
	n := protocol.Node{ID: id, Host: host}
	for _, c := range port {
		n.Port = n.Port*10 + c - '0'
	}
	return n
}

// peer is a broker that knows ApiVersions and otherwise does what a selectortest.Peer says.
type peer struct {
	listener  net.Listener
	behaviour selectortest.Peer
	wg        sync.WaitGroup

	mu      sync.Mutex
	cond    sync.Cond // of stalled and stopped
	conns   []net.Conn
	stalled bool
	stopped bool
}

func newPeer(l net.Listener, behaviour selectortest.Peer) *peer {
	p := &peer{listener: l, behaviour: behaviour}
	p.cond.L = &p.mu
	if behaviour.Handle == nil {
		p.behaviour.Handle = selectortest.Echo
	}
	return p
}

func (p *peer) accept() {
	for n := 1; ; n++ {
		c, err := p.listener.Accept()
		if err != nil {
			return
		}
		if tcp, ok := c.(*net.TCPConn); ok {
			tcp.SetReadBuffer(socketBuffer)
		}
		p.mu.Lock()
		if p.stopped {
			p.mu.Unlock()
			c.Close()
			continue
		}
		p.conns = append(p.conns, c)
		p.wg.Go(func() { p.serve(n, c) })
		p.mu.Unlock()
	}
}

func (p *peer) stop() {
	p.mu.Lock()
	p.stopped = true
	conns := p.conns
	p.mu.Unlock()
	p.cond.Broadcast()
	p.listener.Close()
	for _, c := range conns {
		hangUp(c)
	}
	p.wg.Wait()
}

// hangUp closes a connection; under TLS without the farewell, which would wait for a client that does not read.
func hangUp(c net.Conn) {
	if t, ok := c.(*tls.Conn); ok {
		c = t.NetConn()
	}
	c.Close()
}

func (p *peer) stall(on bool) {
	p.mu.Lock()
	p.stalled = on
	p.mu.Unlock()
	p.cond.Broadcast()
}

// Read is c's Read while the peer is not stalled.
type stallingReader struct {
	p *peer
	c net.Conn
}

func (r stallingReader) Read(b []byte) (int, error) {
	n, err := r.c.Read(b)
	r.p.mu.Lock()
	for r.p.stalled && !r.p.stopped {
		r.p.cond.Wait()
	}
	r.p.mu.Unlock()
	return n, err
}

func (p *peer) serve(number int, c net.Conn) {
	defer hangUp(c)
	if p.behaviour.Mode == selectortest.HangingUp {
		return
	}
	r := bufio.NewReaderSize(stallingReader{p, c}, 16<<10)
	for greeted := false; ; {
		request, err := readFrame(r)
		if err != nil {
			return
		}
		switch {
		case p.behaviour.Mode == selectortest.Mute:
		case !greeted:
			if _, err := c.Write(answerAPIVersions(request)); err != nil {
				return
			}
			greeted = true
		default:
			reply := p.behaviour.Handle(number, request)
			var out []byte
			for _, payload := range reply.Responses {
				out = appendFrame(out, payload)
			}
			if _, err := c.Write(out); err != nil || reply.HangUp {
				return
			}
		}
	}
}

func readFrame(r io.Reader) ([]byte, error) {
	var head [4]byte
	if _, err := io.ReadFull(r, head[:]); err != nil {
		return nil, err
	}
	b := make([]byte, binary.BigEndian.Uint32(head[:]))
	_, err := io.ReadFull(r, b)
	return b, err
}

func appendFrame(dst, payload []byte) []byte {
	return append(binary.BigEndian.AppendUint32(dst, uint32(len(payload))), payload...)
}

// answerAPIVersions answers an ApiVersions request in its own version.
func answerAPIVersions(request []byte) []byte {
	h, _, err := protocol.ReadRequestHeader(request)
	if err != nil || h.Key != protocol.KeyAPIVersions {
		return nil
	}
	return appendFrame(nil, apiVersionsAnswer(h, h.Version, &protocol.ApiVersionsResponse{
		ApiKeys: []protocol.ApiVersion{
			{ApiKey: protocol.KeyProduce, MinVersion: 3, MaxVersion: 12},
			{ApiKey: protocol.KeyAPIVersions, MinVersion: 0, MaxVersion: h.Version},
		},
		FinalizedFeaturesEpoch: -1,
	}))
}

// apiVersionsAnswer is the payload of an answer in a version of one's choice.
func apiVersionsAnswer(h protocol.RequestHeader, version int16, r *protocol.ApiVersionsResponse) []byte {
	b := protocol.AppendResponseHeader(nil, protocol.KeyAPIVersions, version, h.CorrelationID)
	return r.AppendTo(b, version)
}

// requireQuiet fails the test if a goroutine of a selector runs.
func requireQuiet(t *testing.T) {
	t.Helper()
	if g := selectorGoroutines(); len(g) > 0 {
		t.Fatalf("%d goroutines of the selector still run:\n%s", len(g), strings.Join(g, "\n\n"))
	}
}

// selectorGoroutines are the stacks of the goroutines that a selector has started and that are in its code.
func selectorGoroutines() []string {
	b := make([]byte, 1<<20)
	b = b[:runtime.Stack(b, true)]
	return slices.DeleteFunc(strings.Split(string(b), "\n\n"), func(g string) bool {
		running, _, _ := strings.Cut(g, "\ncreated by ")
		return !strings.Contains(running, "netclient.(*conn).") && !strings.Contains(running, "netclient.(*TCPSelector).dialFirst")
	})
}

func loopbackFabric() fabric {
	return fabric{
		listen: func() (net.Listener, error) { return net.Listen("tcp", "127.0.0.1:0") },
		dial:   (&net.Dialer{}).DialContext,
		big:    12 * socketBuffer, // 10x does not fit into both ends, and TLS adds a little
	}
}

func simFabric(link simnet.Link) fabric {
	n := simnet.New(link)
	return fabric{
		listen: func() (net.Listener, error) { return n.Listen("broker.test:0") },
		dial:   n.Dial,
		big:    10 * link.Buffer,
	}
}

// The selector's contract over loopback and over simulated networks, in plaintext and TLS: one suite.
//
// S-92: connecting, S-93: order of requests, S-94: one write at a time, S-95: what a poll returns, S-96: partial writes,
// S-97: fragments and pieces, S-98: order of responses; SEL-01, SEL-03 to SEL-07, SEL-09, SEL-13, SEL-15, SEL-16,
// SEL-19, SEL-22, NC-04, NC-26 and EXT-08 (KAFKA-19012): package selectortest says which case shows which.
func TestSelectorContract(t *testing.T) {
	inWorld := func(f fabric, cfg netclient.TCPConfig, withTLS bool, body func(*testing.T, selectortest.World)) func(*testing.T) {
		return func(t *testing.T) {
			if withTLS {
				f.tls, cfg.TLS = testTLS(t, "broker.test", "127.0.0.1")
			}
			w := newNetWorld(t, f, cfg)
			defer w.close()
			body(t, w)
		}
	}
	sockets := netclient.TCPConfig{SendBuffer: socketBuffer, ReceiveBuffer: socketBuffer}
	for _, withTLS := range []bool{false, true} {
		suffix := map[bool]string{false: "/plaintext", true: "/TLS"}[withTLS]
		t.Run("net=loopback"+suffix, func(t *testing.T) {
			selectortest.Run(t, func(t *testing.T, body func(*testing.T, selectortest.World)) {
				inWorld(loopbackFabric(), sockets, withTLS, body)(t)
			})
		})
		for name, link := range map[string]simnet.Link{
			"instant": {Buffer: 64 << 10},
			"slow":    {Buffer: 64 << 10, Latency: 3 * time.Millisecond, Bandwidth: 20 << 20},
			"pieces":  {Buffer: 1000, Segment: 1}, // S-96, S-97: one byte at a time
		} {
			t.Run("net="+name+suffix, func(t *testing.T) {
				selectortest.Run(t, func(t *testing.T, body func(*testing.T, selectortest.World)) {
					synctest.Test(t, func(t *testing.T) {
						inWorld(simFabric(link), netclient.TCPConfig{}, withTLS, body)(t)
					})
				})
			})
		}
	}
}

// testTLS makes a certificate for the names and returns the configurations of both sides. In a bubble it
// must be called inside: the clock there starts in the year 2000.
func testTLS(t *testing.T, names ...string) (server, client *tls.Config) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1),
		NotBefore:    time.Now().Add(-time.Hour),
		NotAfter:     time.Now().Add(24 * time.Hour),
		IsCA:         true, BasicConstraintsValid: true,
		KeyUsage: x509.KeyUsageDigitalSignature | x509.KeyUsageCertSign,
	}
	for _, n := range names {
		if ip := net.ParseIP(n); ip != nil {
			template.IPAddresses = append(template.IPAddresses, ip)
		} else {
			template.DNSNames = append(template.DNSNames, n)
		}
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	if err != nil {
		t.Fatal(err)
	}
	parsed, err := x509.ParseCertificate(der)
	if err != nil {
		t.Fatal(err)
	}
	pool := x509.NewCertPool()
	pool.AddCert(parsed)
	return &tls.Config{Certificates: []tls.Certificate{{Certificate: [][]byte{der}, PrivateKey: key}}, ClientCAs: pool},
		&tls.Config{RootCAs: pool}
}
