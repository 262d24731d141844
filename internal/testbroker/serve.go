package testbroker

import (
	"errors"
	"fmt"
	"net"
	"strconv"
	"sync"
	"time"
)

// Server is a Cluster on listeners. Its methods may be called from any goroutine.
type Server struct {
	c      *Cluster
	listen func(node int32) (net.Listener, error) // nil: loopback
	read   func(Partial) ReadVerdict

	wake chan struct{} // the cluster has another first event
	done chan struct{} // closed by Close
	wg   sync.WaitGroup

	mu       sync.Mutex // guards the fields below; may be taken while the cluster's lock is held, never the other way round
	nodes    []*serverNode
	conns    map[ConnID]*serverConn
	lastConn ConnID
	closed   bool
}

type serverNode struct {
	id       int32
	addr     string       // where it listens, or listened last
	listener net.Listener // nil while it is stopped
}

// Start starts a cluster with all nodes listening.
func Start(cfg Config) (*Server, error) {
	s := &Server{
		c:      NewCluster(cfg),
		listen: cfg.Listen,
		read:   cfg.FaultRead,
		wake:   make(chan struct{}, 1),
		done:   make(chan struct{}),
		conns:  make(map[ConnID]*serverConn),
	}
	s.c.sink = s.act
	s.c.due.wake = func() {
		select {
		case s.wake <- struct{}{}:
		default:
		}
	}
	s.c.advance(time.Now())
	for _, id := range s.c.NodeIDs() {
		s.nodes = append(s.nodes, &serverNode{id: id})
		if err := s.startNode(id, nil); err != nil {
			_ = s.Close()
			return nil, err
		}
	}
	s.wg.Add(1)
	go s.tick() // ends when Close closes done
	return s, nil
}

// Cluster is the core, for everything that is not about the network.
func (s *Server) Cluster() *Cluster { return s.c }

// Addrs are host:port of all nodes, in order of their ids, also of those that are stopped.
func (s *Server) Addrs() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	addrs := make([]string, len(s.nodes))
	for i, n := range s.nodes {
		addrs[i] = n.addr
	}
	return addrs
}

// Addr is host:port of one node.
func (s *Server) Addr(node int32) string { return s.Addrs()[node-1] }

// StopNode stops listening, so that connections are refused, closes those of the node, and takes it out of the
// cluster (see [Cluster.NodeDown]).
func (s *Server) StopNode(node int32) error {
	if err := s.Refuse(node); err != nil {
		return err
	}
	s.c.advance(time.Now())
	return s.c.NodeDown(node)
}

// Refuse stops listening for a node, so that connections are refused, while the cluster goes on believing in it.
// Its connections stay; see CloseConns.
func (s *Server) Refuse(node int32) error {
	s.mu.Lock()
	n, err := s.nodeLocked(node)
	if err != nil {
		s.mu.Unlock()
		return err
	}
	l := n.listener
	n.listener = nil
	s.mu.Unlock()
	if l == nil {
		return fmt.Errorf("testbroker: node %d is not listening", node)
	}
	if err := l.Close(); err != nil {
		return fmt.Errorf("testbroker: stop node %d: %w", node, err)
	}
	return nil
}

// Accept ends Refuse, on the same address.
func (s *Server) Accept(node int32) error { return s.startNode(node, nil) }

// StartNode brings a stopped node back on its old address, or on what Config.Listen returns.
func (s *Server) StartNode(node int32) error {
	if err := s.startNode(node, nil); err != nil {
		return err
	}
	return s.c.NodeUp(node)
}

// StartNodeAt brings a stopped node back on another listener, which becomes the server's.
func (s *Server) StartNodeAt(node int32, l net.Listener) error {
	if err := s.startNode(node, l); err != nil {
		return err
	}
	return s.c.NodeUp(node)
}

// MoveLeader moves a partition's leader; see [Cluster.MoveLeader].
func (s *Server) MoveLeader(topic string, partition, node int32) error {
	s.c.advance(time.Now())
	return s.c.MoveLeader(topic, partition, node)
}

// CloseConns ends the connections of a node, or of all nodes for 0; they may come back at once.
func (s *Server) CloseConns(node int32, how Drop) {
	s.c.advance(time.Now())
	s.c.closeConns(node, how)
}

// Close stops everything and waits until no goroutine of the server runs.
func (s *Server) Close() error {
	s.mu.Lock()
	if s.closed {
		s.mu.Unlock()
		return nil
	}
	s.closed = true
	close(s.done)
	var errs []error
	for _, n := range s.nodes {
		if n.listener != nil {
			errs = append(errs, n.listener.Close())
			n.listener = nil
		}
	}
	conns := make([]*serverConn, 0, len(s.conns))
	for _, k := range s.conns {
		conns = append(conns, k)
	}
	s.mu.Unlock()
	for _, k := range conns {
		k.end()
	}
	s.wg.Wait()
	return errors.Join(errs...)
}

func (s *Server) nodeLocked(id int32) (*serverNode, error) {
	if id < 1 || int(id) > len(s.nodes) {
		return nil, fmt.Errorf("%w: %d", ErrNoNode, id)
	}
	return s.nodes[id-1], nil
}

// startNode listens for a node, on l if it is given.
func (s *Server) startNode(node int32, l net.Listener) error {
	s.mu.Lock()
	n, err := s.nodeLocked(node)
	var addr string
	if err == nil {
		addr = n.addr
		if n.listener != nil {
			err = fmt.Errorf("testbroker: node %d is running already", node)
		} else if s.closed {
			err = net.ErrClosed
		}
	}
	s.mu.Unlock()
	if err != nil {
		return err
	}
	switch {
	case l != nil:
	case s.listen != nil:
		l, err = s.listen(node)
	case addr != "":
		l, err = net.Listen("tcp", addr)
	default:
		l, err = net.Listen("tcp", "127.0.0.1:0")
	}
	if err != nil {
		return fmt.Errorf("testbroker: start node %d: %w", node, err)
	}
	host, port, err := splitAddr(l.Addr())
	if err == nil {
		err = s.c.SetAddr(node, host, port)
	}
	if err != nil {
		return errors.Join(fmt.Errorf("testbroker: start node %d: %w", node, err), l.Close())
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed || n.listener != nil {
		return errors.Join(net.ErrClosed, l.Close())
	}
	n.listener, n.addr = l, l.Addr().String()
	s.wg.Add(1)
	go s.accept(node, l) // ends when the listener is closed, by StopNode or Close
	return nil
}

func splitAddr(a net.Addr) (host string, port int32, err error) {
	host, p, err := net.SplitHostPort(a.String())
	if err != nil {
		return "", 0, err
	}
	n, err := strconv.ParseUint(p, 10, 16)
	return host, int32(n), err
}

func (s *Server) accept(node int32, l net.Listener) {
	defer s.wg.Done()
	for {
		nc, err := l.Accept()
		if err != nil {
			return
		}
		k := s.newConn(node, nc)
		if k == nil {
			_ = nc.Close()
			return
		}
	}
}

// newConn takes a connection over and starts its goroutines; nil when the server is closed.
func (s *Server) newConn(node int32, nc net.Conn) *serverConn {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return nil
	}
	s.lastConn++
	k := &serverConn{s: s, id: s.lastConn, node: node, nc: nc, wake: make(chan struct{}, 1), dead: make(chan struct{}), over: make(chan struct{})}
	s.conns[k.id] = k
	s.wg.Add(2)
	go k.readLoop()  // ends when the connection is closed, by the client, the cluster or Close
	go k.writeLoop() // ends when readLoop does
	return k
}

func (s *Server) forget(k *serverConn) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.conns, k.id)
}

// act is the cluster's sink: it runs under the cluster's lock and only queues.
func (s *Server) act(a Action) {
	s.mu.Lock()
	k := s.conns[a.Conn]
	s.mu.Unlock()
	if k != nil {
		k.push(a)
	}
}

// tick does what the core has scheduled.
func (s *Server) tick() {
	defer s.wg.Done()
	timer := time.NewTimer(time.Hour)
	defer timer.Stop()
	for {
		at, ok := s.c.NextTick()
		switch wait := time.Until(at); {
		case !ok:
			timer.Stop()
		case wait <= 0:
			s.c.Tick(time.Now())
			continue
		default:
			timer.Reset(wait)
		}
		select {
		case <-timer.C:
		case <-s.wake:
		case <-s.done:
			return
		}
	}
}
