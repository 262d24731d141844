package faultrun

import (
	"net"
	"sync"
	"sync/atomic"
	"time"
)

// network is the listeners of the brokers, and what passes through their connections.
type network struct {
	mu    sync.Mutex       // guards the fields below
	addrs map[int32]string // where a node listens, once it has
	deaf  map[int32]bool   // its new connections are silent too
	slow  map[int32]bool
	conns map[*wire]bool
}

func newNetwork() *network {
	return &network{addrs: map[int32]string{}, deaf: map[int32]bool{}, slow: map[int32]bool{}, conns: map[*wire]bool{}}
}

// listen listens for a node, where it did before.
func (n *network) listen(node int32) (net.Listener, error) {
	n.mu.Lock()
	addr := n.addrs[node]
	n.mu.Unlock()
	if addr == "" {
		addr = "127.0.0.1:0"
	}
	l, err := net.Listen("tcp", addr)
	if err != nil {
		return nil, err
	}
	return n.wrap(node, l), nil
}

// elsewhere listens for a node at an address that it never had.
func (n *network) elsewhere(node int32) (net.Listener, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	return n.wrap(node, l), nil
}

func (n *network) wrap(node int32, l net.Listener) net.Listener {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.addrs[node] = l.Addr().String()
	return &listener{Listener: l, n: n, node: node}
}

// silence has everything vanish that is written to the node's connections, by either side, and the end of a connection too. Unless
// established, that goes for the connections to come as well.
func (n *network) silence(node int32, established bool) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.deaf[node] = !established
	for w := range n.conns {
		if w.node == node {
			w.silent.Store(true)
		}
	}
}

// crawl has a node read slowly, or no longer.
func (n *network) crawl(node int32, on bool) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.slow[node] = on
	for w := range n.conns {
		if w.node == node {
			w.slow.Store(on)
		}
	}
}

// close ends connections that are silent still.
func (n *network) close() {
	n.mu.Lock()
	defer n.mu.Unlock()
	for w := range n.conns {
		w.Conn.Close()
	}
}

type listener struct {
	net.Listener
	n    *network
	node int32
}

// receiveBuffer is small, so that a broker that does not read is felt soon.
const receiveBuffer = 32 << 10

func (l *listener) Accept() (net.Conn, error) {
	c, err := l.Listener.Accept()
	if err != nil {
		return nil, err
	}
	w := &wire{Conn: c, n: l.n, node: l.node, closed: make(chan struct{})}
	l.n.mu.Lock()
	defer l.n.mu.Unlock()
	if err := w.tcp().SetReadBuffer(receiveBuffer); err != nil {
		return nil, err
	}
	w.silent.Store(l.n.deaf[l.node])
	w.slow.Store(l.n.slow[l.node])
	l.n.conns[w] = true
	return w, nil
}

// wire is the broker's end of a connection. It embeds the interface: a *net.TCPConn would bring its own way around Write.
type wire struct {
	net.Conn
	n            *network
	node         int32
	silent, slow atomic.Bool
	closed       chan struct{}
	once         sync.Once
}

func (w *wire) tcp() *net.TCPConn { return w.Conn.(*net.TCPConn) }

// What a slow broker reads at once, and its pause: 400 KB a second.
const (
	slowBytes = 4 << 10
	slowPause = 10 * time.Millisecond
)

func (w *wire) Read(b []byte) (int, error) {
	for {
		if w.silent.Load() {
			<-w.closed
			return 0, net.ErrClosed
		}
		if w.slow.Load() {
			select {
			case <-time.After(slowPause):
			case <-w.closed:
			}
			b = b[:min(len(b), slowBytes)]
		}
		n, err := w.Conn.Read(b)
		if !w.silent.Load() {
			return n, err
		}
	}
}

func (w *wire) Write(b []byte) (int, error) {
	if w.silent.Load() {
		return len(b), nil
	}
	return w.Conn.Write(b)
}

// Close tells the client, if anything reaches it.
func (w *wire) Close() error {
	w.once.Do(func() { close(w.closed) })
	if w.silent.Load() {
		return nil
	}
	w.n.mu.Lock()
	delete(w.n.conns, w)
	w.n.mu.Unlock()
	return w.Conn.Close()
}

// CloseWrite and SetLinger are what the test broker looks for in a connection.
func (w *wire) CloseWrite() error {
	if w.silent.Load() {
		return nil
	}
	return w.tcp().CloseWrite()
}

func (w *wire) SetLinger(seconds int) error { return w.tcp().SetLinger(seconds) }
