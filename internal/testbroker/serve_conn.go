package testbroker

import (
	"bufio"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"sync"
	"time"

	"github.com/kafka-reservoir/producer/protocol"
)

// maxUnwritten is how many bytes of answers may wait for a client that does not read before its requests are no
// longer read.
const maxUnwritten = 32 << 20

// lingerTime is how long a connection that the broker closes is drained, so that the client gets all that was
// written and a FIN: closing with unread bytes would reset it.
const lingerTime = time.Second

// partialHead is how much of a request FaultRead gets to see.
const partialHead = 512

// serverConn is one connection.
type serverConn struct {
	s    *Server
	id   ConnID
	node int32
	nc   net.Conn

	frame []byte // owned by readLoop, reused

	wake chan struct{} // there is something for writeLoop to do
	dead chan struct{} // closed by readLoop at its end
	over chan struct{} // closed by end
	once sync.Once

	mu        sync.Mutex // guards the fields below; the cluster's lock may be held
	out       net.Buffers
	unwritten int
	stalled   bool
	closing   Drop          // what to do when out is written
	room      chan struct{} // not nil while readLoop waits for unwritten to go down
}

// push queues an action of the cluster.
func (k *serverConn) push(a Action) {
	k.mu.Lock()
	switch a.Kind {
	case Write:
		k.out = append(k.out, a.Bytes)
		k.unwritten += len(a.Bytes)
	case CloseFIN:
		k.closing = DropFIN
	case CloseRST:
		k.closing = DropRST
	case Stall:
		k.stalled = true
	}
	k.mu.Unlock()
	k.signal()
}

func (k *serverConn) signal() {
	select {
	case k.wake <- struct{}{}:
	default:
	}
}

// end closes the connection at once, whatever waits for it.
func (k *serverConn) end() {
	k.once.Do(func() {
		close(k.over)
		_ = k.nc.Close()
	})
}

// readLoop takes requests off the connection. When it ends, the connection is over.
func (k *serverConn) readLoop() {
	defer k.s.wg.Done()
	k.s.c.Open(k.node, k.id, time.Now())
	var src io.Reader = k.nc
	if k.s.read == nil {
		// With FaultRead nothing may be read beyond what it allows.
		src = bufio.NewReaderSize(k.nc, 64<<10)
	}
	for k.mayRead() {
		frame, err := k.readFrame(src)
		if err != nil {
			if breach := (*badFrame)(nil); errors.As(err, &breach) {
				k.s.c.breachFrame(k.node, k.id, time.Now(), breach.text)
				_, _ = io.Copy(io.Discard, k.nc) // until the client is gone, or writeLoop's deadline
			}
			break
		}
		k.s.c.Handle(k.node, k.id, frame, time.Now())
	}
	k.s.c.Closed(k.id, time.Now())
	k.s.forget(k)
	k.end()
	close(k.dead)
}

type badFrame struct{ text string }

func (e *badFrame) Error() string { return e.text }

var errStop = errors.New("testbroker: told to stop reading")

// readFrame reads one request; the result is valid until the next call.
func (k *serverConn) readFrame(src io.Reader) ([]byte, error) {
	var prefix [4]byte
	if _, err := io.ReadFull(src, prefix[:]); err != nil {
		return nil, err
	}
	size := int(int32(binary.BigEndian.Uint32(prefix[:])))
	if limit := k.s.c.cfg.MaxRequestBytes; size < 0 || size > limit {
		return nil, &badFrame{fmt.Sprintf("frame length %d, allowed are 0 to %d", size, limit)}
	}
	if cap(k.frame) < size {
		k.frame = make([]byte, size+size/4)
	}
	frame := k.frame[:size]
	read := 0
	if k.s.read != nil {
		head := frame[:min(size, partialHead)]
		if _, err := io.ReadFull(src, head); err != nil {
			return nil, err
		}
		read = len(head)
		if v := k.s.read(k.partial(size, head)); v.Drop != DropNot || v.Stall {
			if rest := min(v.After, size) - read; rest > 0 {
				if _, err := io.ReadFull(src, frame[read:read+rest]); err != nil {
					return nil, err
				}
			}
			if v.Stall {
				k.push(Action{Kind: Stall})
				k.mayRead() // returns when the connection is over
				return nil, errStop
			}
			if v.Drop == DropRST {
				k.reset()
			}
			return nil, errStop
		}
	}
	if _, err := io.ReadFull(src, frame[read:]); err != nil {
		return nil, err
	}
	return frame, nil
}

func (k *serverConn) partial(size int, head []byte) Partial {
	p := Partial{Node: k.node, Conn: k.id, Size: size, Head: head, API: -1, Version: -1}
	if len(head) >= 8 {
		p.API = protocol.APIKey(binary.BigEndian.Uint16(head))
		p.Version = int16(binary.BigEndian.Uint16(head[2:]))
		p.CorrelationID = int32(binary.BigEndian.Uint32(head[4:]))
	}
	return p
}

// mayRead waits while the client does not take its answers. False means that nothing more is to be read: it waits
// for the end of a stalled connection first.
func (k *serverConn) mayRead() bool {
	k.mu.Lock()
	if k.stalled {
		k.mu.Unlock()
		<-k.over
		return false
	}
	if k.unwritten <= maxUnwritten {
		k.mu.Unlock()
		return true
	}
	room := make(chan struct{})
	k.room = room
	k.mu.Unlock()
	select {
	case <-room:
		return true
	case <-k.over:
		return false
	}
}

// takeOut is what there is to write and whether the connection is to be closed after that.
func (k *serverConn) takeOut() (out net.Buffers, size int, closing Drop, stalled bool) {
	k.mu.Lock()
	defer k.mu.Unlock()
	out, size = k.out, k.unwritten
	k.out = nil
	return out, size, k.closing, k.stalled
}

// written gives room to readLoop.
func (k *serverConn) written(size int) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.unwritten -= size
	if k.room != nil && k.unwritten <= maxUnwritten {
		close(k.room)
		k.room = nil
	}
}

// writeLoop writes what the cluster answers, and closes the connection when it says so.
func (k *serverConn) writeLoop() {
	defer k.s.wg.Done()
	for {
		select {
		case <-k.wake:
		case <-k.dead:
			return
		}
		for {
			out, size, closing, stalled := k.takeOut()
			if size > 0 {
				if _, err := out.WriteTo(k.nc); err != nil {
					k.end()
					return
				}
				k.written(size)
				continue // something may have come meanwhile, and goes before a close
			}
			if closing != DropNot {
				k.close(closing, stalled)
				return
			}
			break
		}
	}
}

// close ends the connection from this side.
func (k *serverConn) close(how Drop, stalled bool) {
	half, ok := k.nc.(interface{ CloseWrite() error })
	switch {
	case how == DropRST:
		k.reset()
		k.end()
	case stalled || !ok || half.CloseWrite() != nil || k.nc.SetReadDeadline(time.Now().Add(lingerTime)) != nil:
		k.end()
	}
	// Else readLoop goes on until the client closes too, or the deadline.
}

// reset has the coming close reset the connection, where that is possible.
func (k *serverConn) reset() {
	switch nc := k.nc.(type) {
	case interface{ SetLinger(seconds int) error }: // TCP
		_ = nc.SetLinger(0)
	case interface{ Reset() }: // networks made of memory
		nc.Reset()
	}
}
