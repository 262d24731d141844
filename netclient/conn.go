package netclient

import (
	"bufio"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"time"

	"github.com/kafka-reservoir/producer/internal/metrics"
	"github.com/kafka-reservoir/producer/protocol"
)

// connState is where a connection stands. It only goes forward.
type connState uint8

const (
	connecting connState = iota // the dialer works on it; no frame is accepted
	up                          // Connected was reported
	closing                     // err says why; frames are accepted but will be dropped
	gone                        // Disconnected was reported
)

// conn is one connection, and before that the attempt to make it.
//
// Two goroutines work for it. The first dials (dial.go) and then becomes the reader; the second, started
// between the two, is the writer. The reader is the one that reports the end, when the writer holds no
// frame any more: the memory of a frame must not be used again while a write may still read it (KAFKA-19012).
type conn struct {
	sel     *TCPSelector
	node    protocol.Node
	timeout time.Duration // for everything up to Connected
	cancel  context.CancelFunc

	wake     chan struct{} // one slot: frames came while the writer was idle, or the connection ends
	room     chan struct{} // one slot: Poll took the events the reader was waiting for
	released chan struct{} // closed by the writer: it will not touch a frame any more

	// Guarded by sel.mu.
	state   connState
	err     error         // why the connection ends: the first reason given
	queue   []queuedFrame // accepted, not yet taken by the writer
	idle    bool          // the writer waits for wake
	writing bool          // the writer is in a write
	oneWay  bool          // requests without response were sent: nobody will say that they arrived
	deaf    bool          // responses are not reported any more
	sent    uint64        // requests with a response that were reported as sent
	quiet   bool          // it can be used quietly
	due     int64         // responses that are counted in sel.calm
	answers uint64        // responses reported
	unread  int           // bytes of payload reported since poll number seenAt
	seenAt  uint64
	sock    net.Conn    // the socket, below TLS, once up. Closing it ends every read and write
	last    *time.Timer // closes the socket, when the connection is closing but has a moment left

	// Owned by the dialer, who is the reader. Read by the selector's owner when the connection is gone.
	in      frameReader
	cluster string // what the broker said it belongs to
	lost    int    // attempts in a row that ended because the broker hung up on ApiVersions, this one included

	out    frameWriter   // set by the dialer; owned by the writer
	direct *directWriter // set by the dialer; owned by the selector's owner, who uses it while the writer is idle; nil: there is none

	// Owned by the writer until released is closed, then by the reader.
	taken []queuedFrame // being written; those before done are reported and cleared
	done  int
}

// queuedFrame is a frame between Send and its Sent or Dropped.
type queuedFrame struct {
	id    int32
	frame protocol.Frame
	done  int // bytes that are written already
}

// run is the life of the connection: dialer, then reader.
func (c *conn) run(ctx context.Context) {
	sock, versions, err := c.setUp(ctx)
	c.cancel()
	switch {
	case err != nil:
		c.becomeClosing(err)
	case !c.becomeUp(sock, versions):
		sock.Close()
	default:
		c.sel.wg.Go(c.writeLoop) // ends when the connection is closing
		c.becomeClosing(c.readLoop())
		sock.Close() // ends a write that is stuck
		<-c.released
		c.stopLast()
	}
	c.becomeGone()
}

// becomeUp reports the connection, unless it was closed meanwhile.
func (c *conn) becomeUp(sock net.Conn, versions *protocol.ApiVersionsResponse) bool {
	s := c.sel
	s.mu.Lock()
	ok := c.state == connecting
	signal := false
	if ok {
		c.state, c.sock, c.quiet = up, sock, c.out.quiet != nil
		s.cfg.Metrics.ConnectionCreationTotal.Add(1) // before the event, so that who sees that finds it counted
		s.cfg.Metrics.ConnectionCount.Add(1)
		s.events = append(s.events, Event{Kind: Connected, Node: c.node.ID, Versions: versions, ClusterID: c.cluster})
		signal = s.wakeLocked()
	}
	s.mu.Unlock()
	s.wakePoller(signal)
	return ok
}

// becomeClosing keeps the reason for the end, if it is the first one, and stops the writer.
func (c *conn) becomeClosing(err error) {
	c.sel.mu.Lock()
	if c.state < closing {
		c.state, c.err = closing, err
	}
	c.sel.mu.Unlock()
	poke(c.wake)
	poke(c.room)
}

// becomeGone reports what was not sent, and then the end. It runs when no other goroutine works for
// the connection.
func (c *conn) becomeGone() {
	s := c.sel
	if c.sock != nil { // it was up
		s.cfg.Metrics.ConnectionCloseTotal.Add(1)
		s.cfg.Metrics.ConnectionCount.Add(-1)
	}
	s.mu.Lock()
	c.state = gone
	s.calm.expected.Add(-c.due)
	c.due = 0
	for _, q := range c.taken[c.done:] {
		s.events = append(s.events, Event{Kind: Dropped, Node: c.node.ID, ID: q.id})
	}
	for _, q := range c.queue {
		s.events = append(s.events, Event{Kind: Dropped, Node: c.node.ID, ID: q.id})
	}
	c.taken, c.queue, c.done = nil, nil, 0
	s.events = append(s.events, Event{Kind: Disconnected, Node: c.node.ID, Err: c.err})
	signal := s.wakeLocked()
	s.mu.Unlock()
	s.wakePoller(signal)
}

// close ends the connection from this side. It is called by the selector's owner, and does not wait.
//
// The socket is closed at once, with one exception: if the broker was sent requests that it does not
// answer, closing a socket that holds unread input would reset the connection and destroy them on their
// way. Then the writer stops and half-closes, and the reader goes on until the broker closes too, or
// Linger is over.
func (c *conn) close() {
	s := c.sel
	s.mu.Lock()
	before, gently, writing := c.state, c.oneWay, c.writing
	if before < closing {
		c.state, c.err = closing, errClosedHere
	}
	if before == up && gently {
		c.lingerLocked()
	}
	s.mu.Unlock()
	switch {
	case before == connecting:
		c.cancel()
	case before == up && (!gently || writing && c.sock.SetWriteDeadline(longAgo) != nil):
		c.sock.Close()
	}
	poke(c.wake)
	poke(c.room)
}

// longAgo is a deadline that has passed.
var longAgo = time.Unix(1, 0)

// lingerLocked gives the connection a last moment: the socket is closed when it is over.
func (c *conn) lingerLocked() {
	s := c.sel
	if c.last != nil {
		return
	}
	s.wg.Add(1)
	c.last = time.AfterFunc(s.cfg.Linger, func() {
		c.sock.Close()
		s.wg.Done()
	})
}

// stopLast ends the last moment, if there is one.
func (c *conn) stopLast() {
	c.sel.mu.Lock()
	last := c.last
	c.sel.mu.Unlock()
	if last != nil && last.Stop() {
		c.sel.wg.Done()
	}
}

// readLoop reports responses until the connection ends, and says why it did.
func (c *conn) readLoop() error {
	var buf []byte
	for {
		payload, err := c.in.next(buf)
		if err != nil {
			return err
		}
		buf = c.received(payload)
	}
}

// received reports a response and returns a buffer for the next one.
//
// A reader that is a whole maximal response ahead of the client waits for it, so that a broker gone
// mad cannot fill the memory between two polls. When the connection is closing anyway it does not wait but
// stops reporting: what it reads then is read only so that the broker can finish.
func (c *conn) received(payload []byte) []byte {
	s := c.sel
	s.mu.Lock()
	if c.seenAt != s.polls {
		c.seenAt, c.unread = s.polls, 0
	}
	ahead := c.unread > s.cfg.MaxResponseSize
	for ahead && c.state == up {
		s.full = append(s.full, c)
		s.mu.Unlock()
		<-c.room
		s.mu.Lock()
		ahead = c.seenAt == s.polls
	}
	c.deaf = c.deaf || ahead
	if c.deaf {
		s.mu.Unlock()
		return payload
	}
	if c.seenAt != s.polls {
		c.seenAt, c.unread = s.polls, 0
	}
	c.unread += len(payload) + frameOverhead
	c.answers++
	if c.due > 0 {
		c.due--
		s.calm.expected.Add(-1)
	}
	s.events = append(s.events, Event{Kind: Received, Node: c.node.ID, Payload: payload})
	buf := s.bufferLocked()
	signal := s.wakeLocked()
	s.mu.Unlock()
	if signal && s.cfg.Assist != nil {
		s.cfg.Assist()
	} else {
		s.wakePoller(signal)
	}
	return buf
}

// frameOverhead is what an empty response is counted as; it occupies an Event at least.
const frameOverhead = 64

// writeLoop writes what is queued, until the connection is closing.
func (c *conn) writeLoop() {
	for n := 0; c.takeNext(n); {
		var err error
		if n, err = c.out.write(c.taken[c.done:]); err != nil {
			c.failWrite(n, err)
			break
		}
	}
	// Below TLS: its own farewell could wait for a full socket, and no broker misses it.
	if w, ok := c.sock.(interface{ CloseWrite() error }); ok {
		w.CloseWrite()
	}
	close(c.released)
}

// failWrite reports the n frames that went out whole before a write failed. What the broker has answered
// before is still worth reading: the reader gets a moment for it.
func (c *conn) failWrite(n int, err error) {
	s := c.sel
	s.mu.Lock()
	signal := c.reportSentLocked(n)
	c.writing = false
	if c.state < closing {
		c.state, c.err = closing, err
	}
	c.lingerLocked()
	s.mu.Unlock()
	s.wakePoller(signal)
	poke(c.room)
}

// takeNext reports the n frames written last and waits for more. It returns false when there is
// nothing to do any more, since the connection is closing.
func (c *conn) takeNext(n int) bool {
	s := c.sel
	s.mu.Lock()
	signal := c.reportSentLocked(n)
	for {
		c.writing = c.state == up && (c.done < len(c.taken) || len(c.queue) > 0)
		if c.writing || c.state != up {
			break
		}
		c.idle = true
		s.mu.Unlock()
		s.wakePoller(signal)
		signal = false
		<-c.wake
		s.mu.Lock()
		c.idle = false
	}
	if c.writing && c.done == len(c.taken) {
		c.taken, c.queue, c.done = c.queue, c.taken[:0], 0
	}
	ok := c.writing
	s.mu.Unlock()
	s.wakePoller(signal)
	return ok
}

// reportSentLocked reports the next n of the taken frames, of which nothing is kept, and says whether the
// poller has to be signalled. In general the response wakes it; where that has been there already, because the writer
// got no processor meanwhile, nothing else would, and the frame's memory would be missing for as long as it sleeps.
func (c *conn) reportSentLocked(n int) (signal bool) {
	s := c.sel
	notify := false
	for i := range c.taken[c.done : c.done+n] {
		q := &c.taken[c.done+i]
		s.events = append(s.events, Event{Kind: Sent, Node: c.node.ID, ID: q.id})
		notify = c.notifiesLocked(q) || notify
		*q = queuedFrame{}
	}
	c.done += n
	return notify && s.wakeLocked()
}

// notifiesLocked counts a frame as sent and says whether that is news that must not wait.
func (c *conn) notifiesLocked(q *queuedFrame) bool {
	if q.frame.NotifySent {
		return true
	}
	c.sent++
	return c.sent <= c.answers
}

// byteCount counts bytes in one direction: of all connections, and of one node.
type byteCount struct{ all, node *metrics.Counter }

func (b byteCount) add(n int) {
	if b.all != nil && n > 0 {
		b.all.Add(n)
		b.node.Add(n)
	}
}

// A frameWriter writes frames to a connection.
type frameWriter struct {
	conn  net.Conn
	tcp   *net.TCPConn // conn, if it is a plain socket: then slices go out uncopied, by writev or what does the same
	quiet *quietWriter // of tcp; nil where there is none
	count byteCount

	bufs   net.Buffers // the slices of one writev
	rest   net.Buffers // what WriteTo has left of it; a field, since its address is taken
	gather []byte      // small slices put together, where there is no writev
}

func newFrameWriter(conn net.Conn, calm *calm, count byteCount) frameWriter {
	tcp, _ := conn.(*net.TCPConn)
	return frameWriter{conn: conn, tcp: tcp, quiet: newQuietWriter(conn, calm), count: count}
}

// maxAtOnce is about how much one write takes when more is queued. It bounds how long a frame that was
// written waits for its news, and is large enough for writev to be at its best.
const maxAtOnce = 256 << 10

// write writes some frames off the head of q, at least one, and returns how many went out whole.
// It holds no reference to them afterwards.
func (w *frameWriter) write(q []queuedFrame) (frames int, err error) {
	size := 0
	for frames < len(q) && (frames == 0 || size+q[frames].frame.Size <= maxAtOnce) {
		size += q[frames].frame.Size
		frames++
	}
	q = q[:frames]
	var n int64
	if w.tcp != nil {
		n, err = w.vector(q, size <= maxAtOnce)
	} else {
		n, err = w.copied(q)
	}
	w.count.add(int(n))
	if err != nil {
		return wholeFrames(q, n), err
	}
	return frames, nil
}

// wholeFrames is how many frames of q lie within the first n bytes. A frame of no bytes at all counts.
func wholeFrames(q []queuedFrame, n int64) int {
	for i := range q {
		n += int64(q[i].done)
		for _, b := range q[i].frame.Buffers {
			n -= int64(len(b))
		}
		if n < 0 {
			return i
		}
	}
	return len(q)
}

// vector writes q without copying it together. short says that it is not more than maxAtOnce.
func (w *frameWriter) vector(q []queuedFrame, short bool) (int64, error) {
	w.bufs = w.bufs[:0]
	for i := range q {
		w.bufs = append(w.bufs, q[i].frame.Buffers...) // a copy: WriteTo eats what it is given
	}
	w.rest = skip(w.bufs, q[0].done) // only the first frame can be written in part, directly
	var n int64
	var err error
	if w.quiet != nil {
		n, err = w.quiet.write(w.rest, short)
	} else {
		n, err = w.rest.WriteTo(w.tcp)
	}
	clear(w.bufs)
	w.rest = nil
	return n, err
}

// Where there is no writev (TLS, connections of the user's own), slices are put together up to maxGather,
// which is four whole TLS records: a write of its own for the few bytes between two batches costs more than
// copying what follows. A slice of a whole record that could begin a write is not copied.
const (
	minDirect = 16 << 10
	maxGather = 64 << 10
)

// copied writes q in few writes.
func (w *frameWriter) copied(q []queuedFrame) (n int64, err error) {
	write := func(b []byte) bool {
		var k int
		k, err = w.conn.Write(b)
		n += int64(k)
		return err == nil
	}
	w.gather = w.gather[:0]
	for i := range q {
		for _, b := range q[i].frame.Buffers {
			if len(w.gather) == 0 && len(b) >= minDirect {
				if !write(b) {
					return n, err
				}
				continue
			}
			for len(b) > 0 {
				k := min(len(b), maxGather-len(w.gather))
				w.gather = append(w.gather, b[:k]...)
				b = b[k:]
				if len(w.gather) == maxGather {
					if !write(w.gather) {
						return n, err
					}
					w.gather = w.gather[:0]
				}
			}
		}
	}
	if len(w.gather) > 0 {
		write(w.gather)
	}
	return n, err
}

// A frameReader cuts the stream of a connection into frames: four bytes of length, then the payload.
type frameReader struct {
	r    *bufio.Reader
	max  int
	head [4]byte
}

// readAhead is enough for many responses to Produce, and what a larger response does not go through.
const readAhead = 16 << 10

func newFrameReader(r io.Reader, maxSize int, count byteCount) frameReader {
	return frameReader{r: bufio.NewReaderSize(countedReader{r, count}, readAhead), max: maxSize}
}

type countedReader struct {
	r     io.Reader
	count byteCount
}

func (c countedReader) Read(b []byte) (int, error) {
	n, err := c.r.Read(b)
	c.count.add(n)
	return n, err
}

// next returns the payload of the next frame, in buf if there is room. io.EOF by itself means that the
// stream ended between two frames.
//
// The length is what a stranger claims, so memory follows the bytes that have arrived: at most four
// times as much, and minPayloadCap.
func (f *frameReader) next(buf []byte) ([]byte, error) {
	if n, err := io.ReadFull(f.r, f.head[:]); err != nil {
		if n > 0 {
			return nil, cutShort(n, len(f.head), "length of a response", err)
		}
		return nil, err
	}
	size := int(int32(binary.BigEndian.Uint32(f.head[:])))
	if size < 0 || size > f.max {
		return nil, &frameError{head: f.head, max: f.max}
	}
	if cap(buf) == 0 {
		buf = make([]byte, 0, minPayloadCap)
	}
	buf = buf[:0]
	for len(buf) < size {
		if len(buf) == cap(buf) {
			buf = append(make([]byte, 0, min(size, 2*cap(buf))), buf...)
		}
		have := len(buf)
		buf = buf[:min(size, cap(buf))]
		if n, err := io.ReadFull(f.r, buf[have:]); err != nil {
			return nil, cutShort(have+n, size, "response", err)
		}
	}
	return buf, nil
}

// cutShort is the error for a stream that ended inside something.
func cutShort(n, of int, what string, err error) error {
	if errors.Is(err, io.EOF) {
		err = io.ErrUnexpectedEOF
	}
	return fmt.Errorf("connection ended after %d of %d bytes of a %s: %w", n, of, what, err)
}

// frameError says that what should be a length is none. The bytes often tell who is at the other end.
type frameError struct {
	head [4]byte
	max  int
}

func (e *frameError) Error() string {
	size := int32(binary.BigEndian.Uint32(e.head[:]))
	said := fmt.Sprintf("a response of %d bytes was announced, the limit is %d", size, e.max)
	if size < 0 {
		said = fmt.Sprintf("a response of negative size %d was announced", size)
	}
	switch {
	case (e.head[0] == tlsAlert || e.head[0] == tlsHandshake) && e.head[1] == 3:
		return said + ": this is a TLS record, so it looks like a TLS port spoken to in plaintext: set Config.TLS"
	case string(e.head[:]) == "HTTP":
		return said + `: the bytes are "HTTP", so it looks like a web server or a proxy, not a Kafka broker`
	case printable(e.head[:]):
		return fmt.Sprintf("%s: the bytes are the text %q, so it does not look like a Kafka broker", said, e.head[:])
	}
	return said + ": not a Kafka broker, or the connection is damaged"
}

// The types of TLS records that a server sends to somebody who does not speak TLS.
const (
	tlsAlert     = 0x15
	tlsHandshake = 0x16
)

func printable(b []byte) bool {
	for _, c := range b {
		if (c < ' ' || c > '~') && c != '\r' && c != '\n' {
			return false
		}
	}
	return true
}
