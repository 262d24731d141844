package simnet

import (
	"context"
	"net"
	"strconv"
	"sync"
	"syscall"
	"time"
)

// Addr is an address of the network, in the form host:port.
type Addr string

// Network is "tcp", since that is what simnet stands in for.
func (a Addr) Network() string { return "tcp" }

// String is the address itself.
func (a Addr) String() string { return string(a) }

// Network is a set of listeners that can be dialled. Use New.
type Network struct {
	mu        sync.Mutex // guards the fields below
	link      Link
	links     map[string]Link
	listeners map[string]*Listener
	silent    map[string]chan struct{} // addresses that swallow everything; closed when that ends
	hosts     map[string][]string
	conns     map[string][]*Conn // the accepting ends, by address
	ports     int
}

// New returns an empty network, whose connections use link unless SetLink says otherwise for an address.
func New(link Link) *Network {
	return &Network{
		link:      link,
		links:     make(map[string]Link),
		listeners: make(map[string]*Listener),
		silent:    make(map[string]chan struct{}),
		hosts:     make(map[string][]string),
		conns:     make(map[string][]*Conn),
		ports:     40000,
	}
}

// SetLink sets the link for connections that are made to the address from now on.
func (n *Network) SetLink(address string, link Link) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.links[address] = link
}

// SetHost tells LookupHost the addresses of a name; none makes it unknown again.
func (n *Network) SetHost(name string, addresses ...string) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.hosts[name] = addresses
}

// LookupHost resolves a name given by SetHost. It has the signature of net.Resolver's method.
func (n *Network) LookupHost(ctx context.Context, name string) ([]string, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	if len(n.hosts[name]) == 0 {
		return nil, &net.DNSError{Err: "no such host", Name: name, IsNotFound: true}
	}
	return append([]string(nil), n.hosts[name]...), nil
}

// BlackHole makes packets to and from the address vanish, or stops that. While it lasts, an attempt to
// connect hangs, and on existing connections nothing arrives, neither data nor a close; what was written
// arrives when it is over, as TCP would send it again.
func (n *Network) BlackHole(address string, on bool) {
	n.mu.Lock()
	over := n.silent[address]
	if on && over == nil {
		n.silent[address] = make(chan struct{})
	}
	if !on && over != nil {
		delete(n.silent, address)
		close(over)
	}
	conns := append([]*Conn(nil), n.conns[address]...)
	n.mu.Unlock()
	for _, c := range conns {
		c.Stall(on)
	}
}

// Conns returns the accepting ends of the connections that were made to the address, oldest first,
// closed ones included.
func (n *Network) Conns(address string) []*Conn {
	n.mu.Lock()
	defer n.mu.Unlock()
	return append([]*Conn(nil), n.conns[address]...)
}

// Listen opens an address. Port 0, or none, stands for a port that is free.
func (n *Network) Listen(address string) (*Listener, error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	host, port, err := net.SplitHostPort(address)
	if err != nil || port == "" || port == "0" {
		if err != nil {
			host = address
		}
		address = net.JoinHostPort(host, n.portLocked())
	}
	if n.listeners[address] != nil {
		return nil, &net.OpError{Op: "listen", Net: "tcp", Addr: Addr(address), Err: syscall.EADDRINUSE}
	}
	l := &Listener{net: n, addr: address, backlog: make(chan *Conn, 128), closed: make(chan struct{})}
	n.listeners[address] = l
	return l, nil
}

func (n *Network) portLocked() string {
	n.ports++
	return strconv.Itoa(n.ports)
}

// Dial connects to a listener; it takes a round trip of the link. It has the signature of
// net.Dialer.DialContext. An address without a listener refuses.
func (n *Network) Dial(ctx context.Context, network, address string) (net.Conn, error) {
	fail := func(err error) (net.Conn, error) {
		return nil, &net.OpError{Op: "dial", Net: network, Addr: Addr(address), Err: err}
	}
	n.mu.Lock()
	link := n.linkLocked(address)
	n.mu.Unlock()
	if err := sleep(ctx, 2*link.Latency); err != nil {
		return fail(err)
	}
	for {
		n.mu.Lock()
		over, l := n.silent[address], n.listeners[address]
		if over == nil && l == nil {
			n.mu.Unlock()
			return fail(syscall.ECONNREFUSED)
		}
		if over == nil {
			here, there := pipe(Addr(net.JoinHostPort("client", n.portLocked())), Addr(address), link)
			queued := false
			select {
			case l.backlog <- there:
				queued = true
				n.conns[address] = append(n.conns[address], there)
			default:
			}
			n.mu.Unlock()
			if !queued {
				return fail(syscall.ECONNREFUSED)
			}
			return here, nil
		}
		n.mu.Unlock()
		select {
		case <-over:
		case <-ctx.Done():
			return fail(ctx.Err())
		}
	}
}

func (n *Network) linkLocked(address string) Link {
	if link, ok := n.links[address]; ok {
		return link
	}
	return n.link
}

func sleep(ctx context.Context, d time.Duration) error {
	if d <= 0 {
		return ctx.Err()
	}
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// Listener is a net.Listener of a Network.
type Listener struct {
	net     *Network
	addr    string
	backlog chan *Conn
	once    sync.Once
	closed  chan struct{}
}

// Accept implements net.Listener. The connection is a *Conn.
func (l *Listener) Accept() (net.Conn, error) {
	select {
	case <-l.closed: // before what stands in the backlog
		return nil, net.ErrClosed
	default:
	}
	select {
	case c := <-l.backlog:
		return c, nil
	case <-l.closed:
		return nil, net.ErrClosed
	}
}

// Close implements net.Listener: new connections are refused, those never accepted are reset, those
// accepted live on.
func (l *Listener) Close() error {
	l.once.Do(func() {
		l.net.mu.Lock()
		delete(l.net.listeners, l.addr)
		l.net.mu.Unlock()
		close(l.closed)
		for {
			select {
			case c := <-l.backlog:
				c.Reset()
			default:
				return
			}
		}
	})
	return nil
}

// Addr implements net.Listener.
func (l *Listener) Addr() net.Addr { return Addr(l.addr) }
