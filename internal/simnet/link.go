package simnet

import (
	"io"
	"net"
	"os"
	"sync"
	"syscall"
	"time"
)

// Link is what lies between the ends of a connection. The zero value is instant, unbounded and whole.
type Link struct {
	Latency   time.Duration // one way
	Bandwidth int           // bytes per second and direction; 0 is without limit
	Buffer    int           // bytes under way or unread, after which a write waits; 0 is without limit
	Segment   int           // most bytes that one Read returns; 0 is without limit
}

// stream is one direction of a connection: the writer's end and the reader's.
//
// What is written is put in line with the time of its arrival. Nobody moves it: the reader waits for that
// time itself, so that a link needs no goroutine.
type stream struct {
	link Link

	mu        sync.Mutex // guards the fields below; never held while waiting
	changed   chan struct{}
	waiting   bool // somebody waits for changed
	segments  []segment
	size      int       // bytes in segments
	wireFree  time.Time // when the wire has carried what was written
	fin       time.Time // when the end of the stream arrives; zero while it is open
	cutAfter  int       // bytes until the connection breaks; -1 is never
	stalled   bool
	readErr   error // of reads, before what is in line: the reader closed
	endErr    error // of reads, after what has arrived: the stream was reset
	writeErr  error // of writes: the writer closed, or the stream was reset
	peerErr   error // of writes: the reader closed; not noticed while stalled
	readTill  time.Time
	writeTill time.Time
}

type segment struct {
	at   time.Time
	data []byte
}

func newStream(link Link) *stream {
	return &stream{link: link, changed: make(chan struct{}), cutAfter: -1}
}

// wakeLocked makes everybody that waits look again.
func (s *stream) wakeLocked() {
	if s.waiting {
		s.waiting = false
		close(s.changed)
		s.changed = make(chan struct{})
	}
}

// waitLocked gives up the lock until something changes, or one of the times comes; zero times never do.
func (s *stream) waitLocked(times ...time.Time) {
	var first time.Time
	for _, t := range times {
		if !t.IsZero() && (first.IsZero() || t.Before(first)) {
			first = t
		}
	}
	s.waiting = true
	changed := s.changed
	s.mu.Unlock()
	defer s.mu.Lock()
	if first.IsZero() {
		<-changed
		return
	}
	t := time.NewTimer(time.Until(first))
	defer t.Stop()
	select {
	case <-changed:
	case <-t.C:
	}
}

func passed(t, now time.Time) bool { return !t.IsZero() && !t.After(now) }

func (s *stream) read(b []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for {
		now := time.Now()
		switch {
		case s.readErr != nil:
			return 0, s.readErr
		case passed(s.readTill, now):
			return 0, os.ErrDeadlineExceeded
		case len(b) == 0:
			return 0, nil
		case s.stalled:
			s.waitLocked(s.readTill)
		case len(s.segments) > 0 && !s.segments[0].at.After(now):
			return s.takeLocked(b, now), nil
		case s.endErr != nil:
			return 0, s.endErr
		case len(s.segments) > 0:
			s.waitLocked(s.readTill, s.segments[0].at)
		case passed(s.fin, now):
			return 0, io.EOF
		default:
			s.waitLocked(s.readTill, s.fin)
		}
	}
}

// takeLocked moves bytes that have arrived into b.
func (s *stream) takeLocked(b []byte, now time.Time) (n int) {
	if s.link.Segment > 0 && len(b) > s.link.Segment {
		b = b[:s.link.Segment]
	}
	for len(s.segments) > 0 && n < len(b) && !s.segments[0].at.After(now) {
		seg := &s.segments[0]
		k := copy(b[n:], seg.data)
		seg.data = seg.data[k:]
		n += k
		if len(seg.data) == 0 {
			s.segments[0] = segment{}
			s.segments = s.segments[1:]
		}
	}
	s.size -= n
	s.wakeLocked()
	return n
}

// write returns cut when the stream broke by CutAfter: what comes of that concerns both directions.
func (s *stream) write(b []byte) (n int, cut bool, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for {
		now := time.Now()
		switch {
		case s.writeErr != nil:
			return n, false, s.writeErr
		case s.peerErr != nil && !s.stalled:
			return n, false, s.peerErr
		case passed(s.writeTill, now):
			return n, false, os.ErrDeadlineExceeded
		case n == len(b):
			return n, false, nil
		case s.link.Buffer > 0 && s.size >= s.link.Buffer:
			s.waitLocked(s.writeTill)
			continue
		}
		k := len(b) - n
		if s.link.Buffer > 0 {
			k = min(k, s.link.Buffer-s.size)
		}
		if s.cutAfter >= 0 {
			k = min(k, s.cutAfter)
			s.cutAfter -= k
		}
		s.putLocked(b[n:n+k], now)
		n += k
		if s.cutAfter == 0 {
			return n, true, nil
		}
	}
}

func (s *stream) putLocked(b []byte, now time.Time) {
	if len(b) == 0 {
		return
	}
	if s.wireFree.Before(now) {
		s.wireFree = now
	}
	if s.link.Bandwidth > 0 {
		s.wireFree = s.wireFree.Add(time.Duration(float64(len(b)) / float64(s.link.Bandwidth) * float64(time.Second)))
	}
	s.segments = append(s.segments, segment{at: s.wireFree.Add(s.link.Latency), data: append([]byte(nil), b...)})
	s.size += len(b)
	s.wakeLocked()
}

// finish ends the stream from the writer's side, after what was written.
func (s *stream) finish() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.writeErr != nil || s.peerErr != nil {
		return
	}
	s.writeErr = syscall.EPIPE
	now := time.Now()
	if s.wireFree.After(now) {
		now = s.wireFree
	}
	s.fin = now.Add(s.link.Latency)
	s.wakeLocked()
}

// closeReader ends the stream from the reader's side. It reports whether there was something to read.
func (s *stream) closeReader() (unread bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.readErr = net.ErrClosed
	unread = len(s.segments) > 0
	s.segments, s.size = nil, 0
	s.peerErr = syscall.EPIPE
	s.wakeLocked()
	return unread
}

// closeWriter makes further writes fail with net.ErrClosed.
func (s *stream) closeWriter() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.writeErr = net.ErrClosed
	s.wakeLocked()
}

// reset breaks the stream: what has not arrived is lost, and both ends get an error.
func (s *stream) reset() {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := time.Now()
	for i := range s.segments {
		if s.segments[i].at.After(now) {
			s.segments = s.segments[:i]
			break
		}
	}
	s.size = 0
	for i := range s.segments {
		s.size += len(s.segments[i].data)
	}
	if s.endErr == nil && !passed(s.fin, now) {
		s.endErr = syscall.ECONNRESET
	}
	if s.writeErr == nil {
		s.writeErr = syscall.ECONNRESET
	}
	s.wakeLocked()
}

func (s *stream) set(f func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	f()
	s.wakeLocked()
}
