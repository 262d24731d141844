package netclient_test

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"io"
	"net"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/kafka-reservoir/producer/internal/simnet"
	"github.com/kafka-reservoir/producer/netclient"
	"github.com/kafka-reservoir/producer/protocol"
)

const setupTimeout = 10 * time.Second

// bed is a selector in a simulated network, whose brokers are scripts.
type bed struct {
	t   *testing.T
	net *simnet.Network
	sel *netclient.TCPSelector
	now time.Time

	scripts   sync.WaitGroup
	listeners []net.Listener
}

// newBed must be called in a bubble. What cfg says about the network is replaced, unless it is set.
func newBed(t *testing.T, cfg netclient.TCPConfig) *bed {
	b := &bed{t: t, net: simnet.New(simnet.Link{}), now: time.Now()}
	if cfg.Dial == nil {
		cfg.Dial = b.net.Dial
	}
	if cfg.LookupHost == nil {
		cfg.LookupHost = b.net.LookupHost
	}
	b.sel = netclient.NewTCPSelector(cfg)
	t.Cleanup(func() {
		b.sel.Shutdown()
		for _, l := range b.listeners {
			l.Close()
		}
		b.scripts.Wait() // they need time to see the end, which only passes while the test runs
	})
	return b
}

// serve runs a script for each connection to the address, with its number from 1, and closes it then.
func (b *bed) serve(address string, script func(n int, c net.Conn)) {
	l, err := b.net.Listen(address)
	require.NoError(b.t, err)
	b.listeners = append(b.listeners, l)
	b.scripts.Go(func() {
		for n := 1; ; n++ {
			c, err := l.Accept()
			if err != nil {
				return
			}
			b.scripts.Go(func() {
				defer c.Close()
				script(n, c)
			})
		}
	})
}

// broker is a script that answers ApiVersions and then lets the connection be.
func broker(_ int, c net.Conn) {
	if greet(c) {
		io.Copy(io.Discard, c)
	}
}

func greet(c net.Conn) bool {
	request, err := readFrame(c)
	if err != nil {
		return false
	}
	_, err = c.Write(answerAPIVersions(request))
	return err == nil
}

// connect connects and returns the first event.
func (b *bed) connect(n protocol.Node, timeout time.Duration) netclient.Event {
	b.t.Helper()
	b.sel.Connect(n, timeout)
	return b.next()
}

// next waits for an event, which must come alone.
func (b *bed) next() netclient.Event {
	b.t.Helper()
	now, events := b.sel.Poll(b.now, time.Hour)
	b.now = now
	require.Len(b.t, events, 1)
	return events[0]
}

var node1 = protocol.Node{ID: 1, Host: "broker1", Port: 9092}

func (b *bed) connected(n protocol.Node) *protocol.ApiVersionsResponse {
	b.t.Helper()
	e := b.connect(n, setupTimeout)
	require.Equal(b.t, netclient.Connected, e.Kind, "%v", e.Err)
	return e.Versions
}

func (b *bed) failed(n protocol.Node) error {
	b.t.Helper()
	e := b.connect(n, setupTimeout)
	require.Equal(b.t, netclient.Disconnected, e.Kind)
	return e.Err
}

// say is a script that waits for a request, whatever that is, and answers with some bytes.
func say(s string) func(int, net.Conn) {
	return func(_ int, c net.Conn) {
		c.Read(make([]byte, 10_000))
		io.WriteString(c, s)
		io.Copy(io.Discard, c)
	}
}

func answerWith(edit func(h protocol.RequestHeader) []byte) func(int, net.Conn) {
	return func(_ int, c net.Conn) {
		for {
			request, err := readFrame(c)
			if err != nil {
				return
			}
			h, _, err := protocol.ReadRequestHeader(request)
			if err != nil {
				return
			}
			c.Write(appendFrame(nil, edit(h)))
		}
	}
}

// errorAnswer is an ApiVersions answer with an error code and a list, in the form of v0.
func errorAnswer(h protocol.RequestHeader, code protocol.ErrorCode, keys ...protocol.ApiVersion) []byte {
	return apiVersionsAnswer(h, 0, &protocol.ApiVersionsResponse{ErrorCode: code, ApiKeys: keys, FinalizedFeaturesEpoch: -1})
}

// FC-073, FC-077, FC-100, FC-124, NC-04, NC-07, NC-10, SEL-04, S-100: whatever goes wrong on the way, the error
// says what and where, and can be told apart by errors.Is and errors.As.
func TestConnectErrors(t *testing.T) {
	hang := func(_ int, c net.Conn) { io.Copy(io.Discard, c) }
	close := func(int, net.Conn) {}
	for _, tt := range []struct {
		name    string
		script  func(int, net.Conn) // nil: nobody listens
		set     func(b *bed)
		tls     bool
		step    netclient.SetupStep
		is      error
		timeout bool
		text    []string
	}{
		{name: "refused", step: netclient.StepDial, is: syscall.ECONNREFUSED, text: []string{"node 1 at broker1:9092", "metadata", "refused"}},
		{name: "unknown name", set: func(b *bed) { b.net.SetHost("broker1") }, step: netclient.StepDial, text: []string{"no such host"}},
		{name: "black hole", set: func(b *bed) { b.net.BlackHole("10.0.0.1:9092", true) }, step: netclient.StepDial,
			is: context.DeadlineExceeded, timeout: true, text: []string{"no TCP connection within 10s"}},
		{name: "mute", script: hang, step: netclient.StepAPIVersions, is: context.DeadlineExceeded, timeout: true,
			text: []string{"no answer to ApiVersions within 10s", "not a Kafka broker, or older than 0.10"}},
		{name: "closes", script: close, step: netclient.StepAPIVersions, text: []string{"closed the connection", "TLS port"}},
		{name: "resets", script: func(_ int, c net.Conn) { c.(*simnet.Conn).Reset() }, step: netclient.StepAPIVersions, is: syscall.ECONNRESET, text: []string{"TLS port"}},
		{name: "half an answer", script: func(_ int, c net.Conn) { readFrame(c); c.Write([]byte{0, 0, 1, 0, 9}) }, step: netclient.StepAPIVersions,
			is: io.ErrUnexpectedEOF, text: []string{"1 of 256 bytes"}},
		{name: "TLS alert", script: say("\x15\x03\x03\x00\x02\x02\x50"), step: netclient.StepAPIVersions, text: []string{"set Config.TLS"}},
		{name: "HTTP", script: say("HTTP/1.1 400 Bad Request\r\n\r\n"), step: netclient.StepAPIVersions, text: []string{"web server"}},
		{name: "2 GB", script: say("\x7f\xff\xff\xff"), step: netclient.StepAPIVersions, text: []string{"2147483647"}},
		{name: "negative", script: say("\xff\xff\xff\xfe"), step: netclient.StepAPIVersions, text: []string{"negative size -2"}},
		{name: "empty frame", script: say("\x00\x00\x00\x00"), step: netclient.StepAPIVersions, text: []string{"answer to ApiVersions v"}},
		{name: "garbage", script: say("\x00\x00\x00\x08\x00\x00\x00\x00abcd"), step: netclient.StepAPIVersions, text: []string{"answer to ApiVersions v"}},
		{name: "wrong correlation id", script: answerWith(func(h protocol.RequestHeader) []byte {
			h.CorrelationID += 7
			return errorAnswer(h, protocol.None)
		}), step: netclient.StepAPIVersions, text: []string{"correlation id 7 instead of 0"}},
		{name: "error code", script: answerWith(func(h protocol.RequestHeader) []byte {
			return apiVersionsAnswer(h, h.Version, &protocol.ApiVersionsResponse{ErrorCode: protocol.ClusterAuthorizationFailed, FinalizedFeaturesEpoch: -1})
		}), step: netclient.StepAPIVersions, is: protocol.ClusterAuthorizationFailed, text: []string{"ApiVersions"}},
		{name: "never understands", script: answerWith(func(h protocol.RequestHeader) []byte {
			return errorAnswer(h, protocol.UnsupportedVersion)
		}), step: netclient.StepAPIVersions, is: protocol.UnsupportedVersion, text: []string{"v0"}},
		{name: "TLS: mute", script: hang, tls: true, step: netclient.StepTLS, is: context.DeadlineExceeded, timeout: true,
			text: []string{"no TLS handshake within 10s", "plaintext port"}},
		{name: "TLS: closes", script: close, tls: true, step: netclient.StepTLS, text: []string{"TLS handshake", "closed the connection", "plaintext port"}},
		{name: "TLS: plaintext answer", script: say("hello, this is no TLS"), tls: true, step: netclient.StepTLS, text: []string{"does not speak TLS", "plaintext port"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				cfg := netclient.TCPConfig{}
				if tt.tls {
					cfg.TLS = &tls.Config{}
				}
				b := newBed(t, cfg)
				b.net.SetHost("broker1", "10.0.0.1")
				if tt.script != nil {
					b.serve("10.0.0.1:9092", tt.script)
				}
				if tt.set != nil {
					tt.set(b)
				}
				start := b.now
				err := b.failed(node1)
				var ce *netclient.ConnectError
				require.ErrorAs(t, err, &ce)
				assert.Equal(t, tt.step, ce.Step)
				assert.Equal(t, node1, ce.Node)
				assert.Equal(t, tt.timeout, ce.Timeout())
				if tt.timeout {
					assert.Equal(t, setupTimeout, b.now.Sub(start))
				} else {
					assert.Zero(t, b.now.Sub(start))
				}
				if tt.is != nil {
					assert.ErrorIs(t, err, tt.is)
				}
				for _, text := range tt.text {
					assert.ErrorContains(t, err, text)
				}
			})
		})
	}
}

// FC-100: an address from the configuration is told from one that a broker advertised.
func TestConnectErrorNamesBootstrapServers(t *testing.T) {
	err := &netclient.ConnectError{Node: protocol.Node{ID: -1, Host: "::1", Port: 9092}, Err: io.EOF}
	assert.Equal(t, "connect to bootstrap server [::1]:9092: EOF", err.Error())
}

// NC-08, FC-125, KIP-511: a broker that is older than the question is asked again, on the same connection.
func TestAPIVersionsNegotiation(t *testing.T) {
	supports := func(highest int16, list ...protocol.ApiVersion) func(h protocol.RequestHeader) []byte {
		return func(h protocol.RequestHeader) []byte {
			if h.Version > highest {
				return errorAnswer(h, protocol.UnsupportedVersion, list...)
			}
			return apiVersionsAnswer(h, h.Version, &protocol.ApiVersionsResponse{
				ApiKeys:                []protocol.ApiVersion{{ApiKey: protocol.KeyProduce, MinVersion: 0, MaxVersion: 7}},
				FinalizedFeaturesEpoch: -1,
			})
		}
	}
	own := protocol.ApiVersion{ApiKey: protocol.KeyAPIVersions, MinVersion: 0, MaxVersion: 2}
	_, highest := protocol.KeyAPIVersions.Versions()
	for _, tt := range []struct {
		name   string
		answer func(h protocol.RequestHeader) []byte
		asked  []int16
	}{
		{"knows it", supports(highest), []int16{highest}},
		{"lists its versions", supports(2, own), []int16{highest, 2}},
		{"lists nothing", supports(2), []int16{highest, 0}},
		{"lists other APIs", supports(1, protocol.ApiVersion{ApiKey: protocol.KeyMetadata, MaxVersion: 9}), []int16{highest, 0}},
		{"sends only the code", func(h protocol.RequestHeader) []byte {
			if h.Version > 0 {
				return append(protocol.AppendResponseHeader(nil, h.Key, 0, h.CorrelationID), 0, 35)
			}
			return supports(0)(h)
		}, []int16{highest, 0}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				b := newBed(t, netclient.TCPConfig{})
				b.net.SetHost("broker1", "10.0.0.1")
				var asked []int16
				b.serve("10.0.0.1:9092", answerWith(func(h protocol.RequestHeader) []byte {
					asked = append(asked, h.Version)
					return tt.answer(h)
				}))
				versions := b.connected(node1)
				assert.Equal(t, tt.asked, asked)
				assert.Equal(t, protocol.KeyProduce, versions.ApiKeys[0].ApiKey)
				assert.Len(t, b.net.Conns("10.0.0.1:9092"), 1)
			})
		})
	}
}

// FC-125: a broker that answers that it is older and then hangs up is asked for lower versions in the next attempts.
func TestFC125BrokerHangsUpAfterItsAnswer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBed(t, netclient.TCPConfig{})
		b.net.SetHost("broker1", "10.0.0.1")
		var asked [][]int16
		b.serve("10.0.0.1:9092", func(_ int, c net.Conn) {
			asked = append(asked, nil)
			for {
				request, err := readFrame(c)
				if err != nil {
					return
				}
				h, _, _ := protocol.ReadRequestHeader(request)
				asked[len(asked)-1] = append(asked[len(asked)-1], h.Version)
				if h.Version > 2 {
					c.Write(appendFrame(nil, errorAnswer(h, protocol.UnsupportedVersion)))
					return
				}
				c.Write(answerAPIVersions(request))
			}
		})
		attempts := 1
		for b.connect(node1, setupTimeout).Kind != netclient.Connected {
			attempts++
		}
		assert.LessOrEqual(t, attempts, 3)
		_, highest := protocol.KeyAPIVersions.Versions()
		assert.Equal(t, highest, asked[0][0])
		assert.Equal(t, []int16{0}, asked[len(asked)-1])
		assert.Len(t, asked, attempts, "no socket is left")
	})
}

// FC-126, FC-125: a gateway that hangs up on a version that it does not know is asked for lower ones in later
// attempts, and for the highest again once it has answered.
func TestAPIVersionsAfterAHangUp(t *testing.T) {
	_, highest := protocol.KeyAPIVersions.Versions()
	for name, hangUp := range map[string]func(c net.Conn){
		"FIN": func(net.Conn) {},
		"RST": func(c net.Conn) { c.(*simnet.Conn).Reset() },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				b := newBed(t, netclient.TCPConfig{})
				b.net.SetHost("broker1", "10.0.0.1")
				var asked []int16
				var limit atomic.Int32
				limit.Store(3)
				b.serve("10.0.0.1:9092", func(_ int, c net.Conn) {
					request, err := readFrame(c)
					if err != nil {
						return
					}
					h, _, _ := protocol.ReadRequestHeader(request)
					asked = append(asked, h.Version)
					if int32(h.Version) > limit.Load() {
						hangUp(c)
						return
					}
					c.Write(answerAPIVersions(request))
					io.Copy(io.Discard, c)
				})
				b.failed(node1)
				b.connected(node1)
				b.sel.Close(1)
				b.next()
				limit.Store(2)
				b.failed(node1) // the highest again
				b.failed(node1)
				b.connected(node1)
				b.sel.Close(1)
				b.next()
				assert.Equal(t, []int16{highest, 3, highest, 3, 0}, asked)
			})
		})
	}
}

// FC-134, KIP-511, S-16: client id, software name and version reach the broker unchanged.
func TestAPIVersionsRequestSaysWhoWeAre(t *testing.T) {
	for _, id := range []string{"", "svc|ws_az=a,b=c", "ünï", string(make([]byte, 10_000))} {
		synctest.Test(t, func(t *testing.T) {
			b := newBed(t, netclient.TCPConfig{ClientID: id, SoftwareName: "reservoir", SoftwareVersion: "1.2.3"})
			b.net.SetHost("broker1", "10.0.0.1")
			b.serve("10.0.0.1:9092", func(_ int, c net.Conn) {
				request, _ := readFrame(c)
				h, body, err := protocol.ReadRequestHeader(request)
				if assert.NoError(t, err) && assert.NotNil(t, h.ClientID) {
					assert.Equal(t, id, *h.ClientID)
				}
				var r protocol.ApiVersionsRequest
				assert.NoError(t, r.ReadFrom(body, h.Version))
				assert.Equal(t, "reservoir", r.ClientSoftwareName)
				assert.Equal(t, "1.2.3", r.ClientSoftwareVersion)
				c.Write(answerAPIVersions(request))
				io.Copy(io.Discard, c)
			})
			b.connected(node1)
		})
	}
}

// FC-097, CU-02: all addresses of a name are tried, in order, and one that swallows packets costs a head start and not the
// setup timeout; for bootstrap servers as for brokers.
func TestFC097AllAddressesAreTried(t *testing.T) {
	for _, id := range []int32{1, -1} {
		synctest.Test(t, func(t *testing.T) {
			var b *bed
			var mu sync.Mutex
			var dialled []string
			b = newBed(t, netclient.TCPConfig{Dial: func(ctx context.Context, network, address string) (net.Conn, error) {
				mu.Lock()
				dialled = append(dialled, address)
				mu.Unlock()
				return b.net.Dial(ctx, network, address)
			}})
			node := protocol.Node{ID: id, Host: "broker1", Port: 9092}
			b.net.SetHost("broker1", "::1", "127.0.0.9", "127.0.0.1")
			b.net.BlackHole("127.0.0.9:9092", true)
			b.serve("127.0.0.1:9092", broker)
			start := b.now
			e := b.connect(node, 300*time.Millisecond)
			require.Equal(t, netclient.Connected, e.Kind, "%v", e.Err)
			assert.Equal(t, []string{"[::1]:9092", "127.0.0.9:9092", "127.0.0.1:9092"}, dialled)
			assert.Equal(t, 75*time.Millisecond, b.now.Sub(start))

			b.sel.Close(id)
			b.next()
			start = b.now
			b.connected(node)
			assert.Equal(t, 250*time.Millisecond, b.now.Sub(start), "with a long timeout")
		})
	}
}

// FC-094, FC-100: when no address answers, the error has all reasons.
func TestNoAddressAnswers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBed(t, netclient.TCPConfig{})
		b.net.SetHost("broker1", "10.0.0.1", "10.0.0.2")
		err := b.failed(node1)
		assert.ErrorIs(t, err, syscall.ECONNREFUSED)
		assert.ErrorContains(t, err, "none of 2 addresses answered: ")
		assert.ErrorContains(t, err, "10.0.0.1:9092")
		assert.ErrorContains(t, err, "10.0.0.2:9092")

		b.net.BlackHole("10.0.0.2:9092", true)
		err = b.failed(node1)
		assert.ErrorIs(t, err, context.DeadlineExceeded)
	})
}

// FC-094: a name is resolved anew for each attempt, so that a broker which moved is found at once; of several addresses one that
// is dead costs a head start, not a setup timeout. (All are tried side by side: which one failed last need not be remembered.)
func TestFC094NamesAreResolvedForEachAttempt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var b *bed
		lookups := 0
		b = newBed(t, netclient.TCPConfig{LookupHost: func(ctx context.Context, host string) ([]string, error) {
			lookups++
			return b.net.LookupHost(ctx, host)
		}})
		b.net.SetHost("broker1", "10.0.0.1")
		b.serve("10.0.0.1:9092", broker)
		b.connected(node1)
		for _, c := range b.net.Conns("10.0.0.1:9092") {
			c.Close() // the broker is gone
		}
		require.Equal(t, netclient.Disconnected, b.next().Kind)
		require.NoError(t, b.listeners[0].Close())
		b.failed(node1)
		b.net.SetHost("broker1", "10.0.0.2")
		b.serve("10.0.0.2:9092", broker)
		start := b.now
		b.connected(node1)
		assert.Equal(t, start, b.now)
		assert.Equal(t, 3, lookups)

		b.sel.Close(1)
		b.next()
		b.net.SetHost("broker1", "10.0.0.1", "10.0.0.2")
		b.net.BlackHole("10.0.0.1:9092", true)
		start = b.now
		e := b.connect(node1, 300*time.Millisecond)
		require.Equal(t, netclient.Connected, e.Kind, "%v", e.Err)
		assert.Equal(t, 100*time.Millisecond, b.now.Sub(start))
		assert.Equal(t, 4, lookups)
	})
}

// An attempt that lost the race against another address leaves no connection behind.
func TestLateConnectionIsClosed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var b *bed
		var late net.Conn
		b = newBed(t, netclient.TCPConfig{Dial: func(ctx context.Context, network, address string) (net.Conn, error) {
			if address == "10.0.0.1:9092" { // answers when it has lost, and does not care about ctx
				<-ctx.Done()
				c, err := b.net.Dial(context.Background(), network, address)
				late = c
				return c, err
			}
			return b.net.Dial(ctx, network, address)
		}})
		b.net.SetHost("broker1", "10.0.0.1", "10.0.0.2")
		b.serve("10.0.0.1:9092", broker)
		b.serve("10.0.0.2:9092", broker)
		b.connected(node1)
		synctest.Wait()
		require.NotNil(t, late)
		_, err := late.Write([]byte("x"))
		assert.ErrorIs(t, err, net.ErrClosed)
		requireOnly(t, b, "10.0.0.2:9092")
	})
}

func requireOnly(t *testing.T, b *bed, address string) {
	t.Helper()
	assert.Len(t, b.net.Conns(address), 1)
}

// FC-098: a literal address needs no resolver, zone and brackets included.
func TestLiteralAddresses(t *testing.T) {
	for _, host := range []string{"10.1.2.3", "::1", "fe80::1%eth0"} {
		synctest.Test(t, func(t *testing.T) {
			b := newBed(t, netclient.TCPConfig{})
			n := protocol.Node{ID: 3, Host: host, Port: 1234}
			b.serve(net.JoinHostPort(host, "1234"), broker)
			b.connected(n)
		})
	}
}

// tlsBroker is a broker behind TLS.
func tlsBroker(cfg *tls.Config) func(int, net.Conn) {
	return func(n int, c net.Conn) {
		tc := tls.Server(c, cfg)
		broker(n, tc)
	}
}

// FC-074, FC-075: each connection announces and verifies the name of its own node, without a last dot, which the
// resolver still sees; the user's configuration is not written to.
func TestTLSServerName(t *testing.T) {
	for _, tt := range []struct {
		name     string
		host     string
		override string
		skip     bool
		sni      string
		ok       bool
	}{
		{name: "own name", host: "a.test", sni: "a.test", ok: true},
		{name: "last dot", host: "a.test.", sni: "a.test", ok: true},
		{name: "another name", host: "c.test", sni: "c.test"},
		{name: "name given by the user", host: "c.test", override: "b.test", sni: "b.test", ok: true},
		{name: "not verified", host: "c.test", skip: true, sni: "c.test", ok: true},
		{name: "address", host: "10.9.9.9", sni: "", ok: true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				server, client := testTLS(t, "a.test", "b.test", "10.9.9.9")
				client.ServerName, client.InsecureSkipVerify = tt.override, tt.skip
				var sni string
				server.GetConfigForClient = func(h *tls.ClientHelloInfo) (*tls.Config, error) { sni = h.ServerName; return nil, nil }
				b := newBed(t, netclient.TCPConfig{TLS: client})
				b.net.SetHost(tt.host, "10.9.9.9")
				b.serve("10.9.9.9:9093", tlsBroker(server))
				e := b.connect(protocol.Node{ID: 1, Host: tt.host, Port: 9093}, setupTimeout)
				synctest.Wait()
				assert.Equal(t, tt.sni, sni)
				assert.Equal(t, tt.override, client.ServerName)
				if tt.ok {
					require.Equal(t, netclient.Connected, e.Kind, "%v", e.Err)
					return
				}
				require.Equal(t, netclient.Disconnected, e.Kind)
				var auth *netclient.AuthenticationError
				require.ErrorAs(t, e.Err, &auth)
				assert.Equal(t, "TLS", auth.Mechanism)
				assert.ErrorContains(t, e.Err, "a.test", "what the certificate is for")
				assert.ErrorContains(t, e.Err, tt.host)
			})
		})
	}
}

// FC-076: client certificates come from the user's callback for every new connection, so they can be rotated; one
// that the broker does not take is an authentication error, also where TLS 1.3 tells it late.
func TestTLSClientCertificates(t *testing.T) {
	for _, version := range []uint16{tls.VersionTLS12, tls.VersionTLS13} {
		t.Run(tls.VersionName(version), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				server, client := testTLS(t, "a.test")
				rotated, _ := testTLS(t, "client.test")
				expired, _ := testTLS(t, "client.test")
				server.MaxVersion = version
				server.ClientAuth = tls.RequireAndVerifyClientCert
				server.ClientCAs = rotated.ClientCAs
				current := expired.Certificates[0]
				client.GetClientCertificate = func(*tls.CertificateRequestInfo) (*tls.Certificate, error) { return &current, nil }
				b := newBed(t, netclient.TCPConfig{TLS: client})
				b.net.SetHost("a.test", "10.0.0.1")
				b.serve("10.0.0.1:9093", tlsBroker(server))
				n := protocol.Node{ID: 1, Host: "a.test", Port: 9093}
				err := b.failed(n)
				var auth *netclient.AuthenticationError
				require.ErrorAs(t, err, &auth, "%v", err)
				current = rotated.Certificates[0]
				b.connected(n)
			})
		})
	}
}

// A broker whose certificate nobody vouches for is refused.
func TestTLSUnknownAuthority(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server, _ := testTLS(t, "a.test")
		_, client := testTLS(t, "a.test")
		b := newBed(t, netclient.TCPConfig{TLS: client})
		b.net.SetHost("a.test", "10.0.0.1")
		b.serve("10.0.0.1:9093", tlsBroker(server))
		err := b.failed(protocol.Node{ID: 1, Host: "a.test", Port: 9093})
		var auth *netclient.AuthenticationError
		require.ErrorAs(t, err, &auth)
		var authority x509.UnknownAuthorityError
		assert.ErrorAs(t, err, &authority)
	})
}

// FC-077: a connection that breaks in the handshake, or without TLS's farewell, is a lost connection and not a
// refusal.
func TestTLSConnectionsThatBreak(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server, client := testTLS(t, "a.test")
		b := newBed(t, netclient.TCPConfig{TLS: client})
		b.net.SetHost("a.test", "10.0.0.1")
		b.serve("10.0.0.1:9093", func(n int, c net.Conn) {
			if n <= 3 {
				c.(*simnet.Conn).CutAfter(n * 100) // somewhere in the handshake
			}
			tc := tls.Server(c, server)
			if greet(tc) {
				readFrame(tc)
			}
			c.Close() // not tc: no farewell
		})
		n := protocol.Node{ID: 1, Host: "a.test", Port: 9093}
		for range 3 {
			err := b.failed(n)
			var auth *netclient.AuthenticationError
			assert.False(t, errors.As(err, &auth), "%v", err)
			assert.ErrorContains(t, err, "TLS handshake")
		}
		b.connected(n)
		b.sel.Send(1, 1, frame("last words"))
		now, events := b.sel.Poll(b.now, time.Hour)
		b.now = now
		e := events[len(events)-1]
		require.Equal(t, netclient.Disconnected, e.Kind)
		assert.True(t, errors.Is(e.Err, io.EOF) || errors.Is(e.Err, io.ErrUnexpectedEOF), "%v", e.Err)
	})
}

func frame(payload string) protocol.Frame {
	b := appendFrame(nil, []byte(payload))
	return protocol.Frame{Buffers: net.Buffers{b[:3], b[3:]}, Size: len(b)}
}

// Payload bytes that arrive together with the answer to ApiVersions are not lost: the reader goes on where the
// dialer stopped. A broker does not do that, a proxy may.
func TestResponseBehindTheGreeting(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBed(t, netclient.TCPConfig{})
		b.net.SetHost("broker1", "10.0.0.1")
		b.serve("10.0.0.1:9092", func(_ int, c net.Conn) {
			request, _ := readFrame(c)
			c.Write(appendFrame(answerAPIVersions(request), []byte("early")))
			io.Copy(io.Discard, c)
		})
		b.sel.Connect(node1, setupTimeout)
		synctest.Wait()
		_, events := b.sel.Poll(b.now, time.Hour)
		require.Len(t, events, 2)
		assert.Equal(t, netclient.Connected, events[0].Kind)
		assert.Equal(t, "early", string(events[1].Payload))
	})
}

// NC-10: one timeout bounds all of the setup, however slowly each step goes.
func TestOneTimeoutForAllSteps(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBed(t, netclient.TCPConfig{})
		b.net.SetHost("broker1", "10.0.0.1")
		b.net.SetLink("10.0.0.1:9092", simnet.Link{Latency: time.Second})
		b.serve("10.0.0.1:9092", func(_ int, c net.Conn) {
			request, _ := readFrame(c)
			for _, x := range answerAPIVersions(request) {
				time.Sleep(time.Second)
				if _, err := c.Write([]byte{x}); err != nil {
					return
				}
			}
		})
		start := b.now
		err := b.failed(node1)
		assert.ErrorIs(t, err, context.DeadlineExceeded)
		assert.Equal(t, setupTimeout, b.now.Sub(start))
	})
}

// A dialled connection need not be a socket, and its deadlines need not work: nothing here relies on them.
func TestConnectionsWithoutDeadlines(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var b *bed
		b = newBed(t, netclient.TCPConfig{Dial: func(ctx context.Context, network, address string) (net.Conn, error) {
			c, err := b.net.Dial(ctx, network, address)
			return noDeadlines{c}, err
		}})
		b.net.SetHost("broker1", "10.0.0.1")
		b.serve("10.0.0.1:9092", func(n int, c net.Conn) {
			if n == 1 {
				io.Copy(io.Discard, c)
			}
			broker(n, c)
		})
		assert.ErrorIs(t, b.failed(node1), context.DeadlineExceeded)
		b.connected(node1)
		f := frame("x")
		f.NotifySent = true // closes gently
		b.sel.Send(1, 1, f)
		assert.Equal(t, netclient.Sent, b.next().Kind)
		b.sel.Close(1)
		assert.Equal(t, netclient.Disconnected, b.next().Kind)
	})
}

type noDeadlines struct{ net.Conn }

func (noDeadlines) SetDeadline(time.Time) error      { return errors.ErrUnsupported }
func (noDeadlines) SetReadDeadline(time.Time) error  { return errors.ErrUnsupported }
func (noDeadlines) SetWriteDeadline(time.Time) error { return errors.ErrUnsupported }
