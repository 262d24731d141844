package netclient

import (
	"bytes"
	"encoding/binary"
	"errors"
	"io"
	"math"
	"math/rand/v2"
	"net"
	"runtime"
	"strings"
	"testing"
	"testing/iotest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/kafka-reservoir/producer/internal/metrics"
	"github.com/kafka-reservoir/producer/protocol"
)

func prefixed(payloads ...string) []byte {
	var b []byte
	for _, p := range payloads {
		b = binary.BigEndian.AppendUint32(b, uint32(len(p)))
		b = append(b, p...)
	}
	return b
}

// S-97, S-98, FRM-01, FRM-02: the same frames come out however the stream is cut: size and payload are kept
// across reads until the frame is complete, and then a new one begins.
func TestFrameReaderWhateverTheFragments(t *testing.T) {
	want := []string{"", "a", strings.Repeat("b", 3), "", strings.Repeat("c", minPayloadCap), strings.Repeat("d", 5*readAhead+7), "end"}
	stream := prefixed(want...)
	for name, cut := range map[string]func(io.Reader) io.Reader{
		"one byte at a time":   iotest.OneByteReader,
		"half of what is read": iotest.HalfReader,
		"all at once":          func(r io.Reader) io.Reader { return r },
		"error with the data":  iotest.DataErrReader,
		"random": func(r io.Reader) io.Reader {
			return readerFunc(func(b []byte) (int, error) { return r.Read(b[:1+rand.IntN(len(b))]) })
		},
	} {
		t.Run(name, func(t *testing.T) {
			f := newFrameReader(cut(bytes.NewReader(stream)), defaultMaxResponseSize, byteCount{})
			var buf []byte
			for i, w := range want {
				got, err := f.next(buf)
				require.NoError(t, err, i)
				require.Equal(t, w, string(got), i)
				buf = got[:0] // used again, whatever its size
			}
			_, err := f.next(buf)
			assert.Equal(t, io.EOF, err)
		})
	}
}

type readerFunc func([]byte) (int, error)

func (f readerFunc) Read(b []byte) (int, error) { return f(b) }

// S-97, FRM-01, FC-073: a length that cannot be one ends the connection, with a word about who may be at
// the other end.
func TestFrameReaderSaysWhatTheBytesLookLike(t *testing.T) {
	for _, tt := range []struct {
		name, bytes string
		want        []string
	}{
		{"TLS alert", "\x15\x03\x03\x00\x02\x02\x50", []string{"352518912 bytes", "TLS port", "set Config.TLS"}},
		{"TLS handshake", "\x16\x03\x01\x02\x00", []string{"TLS port"}},
		{"HTTP", "HTTP/1.1 400 Bad Request\r\n", []string{`"HTTP"`, "web server"}},
		{"text", "SSH-2.0-OpenSSH", []string{`"SSH-"`, "not look like a Kafka broker"}},
		{"mail", "220 mx ESMTP", []string{`"220 "`}},
		{"2 GB", "\x7f\xff\xff\xff", []string{"2147483647 bytes", "limit is 16777216", "not a Kafka broker"}},
		{"one too many", "\x01\x00\x00\x01", []string{"16777217 bytes"}},
		{"negative", "\xff\xff\xff\xff", []string{"negative size -1"}},
		{"most negative", "\x80\x00\x00\x00", []string{"negative size -2147483648"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			f := newFrameReader(strings.NewReader(tt.bytes), defaultMaxResponseSize, byteCount{})
			_, err := f.next(nil)
			var fe *frameError
			require.ErrorAs(t, err, &fe)
			for _, w := range tt.want {
				assert.Contains(t, err.Error(), w)
			}
		})
	}
}

func TestFrameReaderLargestFrame(t *testing.T) {
	f := newFrameReader(bytes.NewReader(prefixed("12345", "123456")), 5, byteCount{})
	got, err := f.next(nil)
	require.NoError(t, err)
	assert.Equal(t, "12345", string(got))
	_, err = f.next(nil)
	assert.ErrorContains(t, err, "6 bytes was announced, the limit is 5")
}

// An end between frames is the peer's goodbye, an end within one is not.
func TestFrameReaderCutShort(t *testing.T) {
	stream := prefixed("hello")
	for n := range len(stream) {
		f := newFrameReader(bytes.NewReader(stream[:n]), defaultMaxResponseSize, byteCount{})
		_, err := f.next(nil)
		if n == 0 {
			assert.Equal(t, io.EOF, err)
			continue
		}
		assert.ErrorIs(t, err, io.ErrUnexpectedEOF, n)
		assert.NotErrorIs(t, err, io.EOF, n)
	}
	broken := errors.New("broken")
	f := newFrameReader(io.MultiReader(bytes.NewReader(stream[:6]), iotest.ErrReader(broken)), 10, byteCount{})
	_, err := f.next(nil)
	assert.ErrorIs(t, err, broken)
	assert.ErrorContains(t, err, "2 of 5 bytes")
}

// FRM-01, SEL-08: bytes count as they are read, not only when the frame is complete.
func TestFrameReaderCountsPartialFrames(t *testing.T) {
	var all, node metrics.Counter
	stream := prefixed("hello")
	f := newFrameReader(iotest.OneByteReader(bytes.NewReader(stream[:7])), 10, byteCount{&all, &node})
	_, err := f.next(nil)
	require.Error(t, err)
	assert.EqualValues(t, 7, all.Load())
	assert.EqualValues(t, 7, node.Load())
}

// FC-073, FC-129: a claimed length by itself costs no memory.
func TestFrameReaderAllocatesWhatArrives(t *testing.T) {
	for _, arrived := range []int{0, 1, 1000, minPayloadCap, 50_000, 1 << 20} {
		stream := binary.BigEndian.AppendUint32(nil, defaultMaxResponseSize)
		stream = append(stream, make([]byte, arrived)...)
		got := allocated(func() func() {
			f := newFrameReader(bytes.NewReader(stream), defaultMaxResponseSize, byteCount{})
			return func() { f.next(nil) }
		})
		assert.LessOrEqual(t, got, uint64(4*arrived+minPayloadCap+1024), "after %d bytes", arrived)
	}
}

// allocated is how many bytes the function allocates that prepare returns. Something may allocate beside it, so
// the least of a few runs counts.
func allocated(prepare func() func()) uint64 {
	least := uint64(math.MaxUint64)
	for range 5 {
		f := prepare()
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		f()
		runtime.ReadMemStats(&after)
		least = min(least, after.TotalAlloc-before.TotalAlloc)
	}
	return least
}

// The frame reader is total, agrees with the format's definition, and needs no more memory than arrives.
func FuzzFrameReader(f *testing.F) {
	f.Add(prefixed("hello", "", "world"), uint8(1))
	f.Add([]byte("\x15\x03\x03\x00\x02\x02\x50"), uint8(0))
	f.Add([]byte("HTTP/1.1 200 OK\r\n\r\n"), uint8(3))
	f.Add([]byte("\x7f\xff\xff\xff"), uint8(0))
	f.Add([]byte("\xff\xff\xff\xff\x00"), uint8(0))
	f.Add([]byte("\x00\x00\x10\x00abc"), uint8(2))
	f.Fuzz(func(t *testing.T, stream []byte, piece uint8) {
		const limit = 1 << 16
		var rest []byte
		var err error
		used := allocated(func() func() {
			src := bytes.NewReader(stream)
			r := newFrameReader(readerFunc(func(b []byte) (int, error) {
				if piece > 0 && len(b) > int(piece) {
					b = b[:piece]
				}
				return src.Read(b)
			}), limit, byteCount{})
			return func() {
				rest = stream
				var buf []byte
				for {
					var got []byte
					if got, err = r.next(buf); err != nil {
						return
					}
					size := int(binary.BigEndian.Uint32(rest))
					if size > limit || !bytes.Equal(got, rest[4:4+size]) {
						t.Fatalf("got %q from %q", got, rest)
					}
					rest = rest[4+size:]
					buf = got
				}
			}
		})
		if used > uint64(4*len(stream)+minPayloadCap+1024) {
			t.Fatalf("%d bytes allocated for %d", used, len(stream))
		}
		switch {
		case len(rest) == 0:
			if err != io.EOF {
				t.Fatalf("at the end: %v", err)
			}
		case len(rest) >= 4 && binary.BigEndian.Uint32(rest) > limit:
			var fe *frameError
			if !errors.As(err, &fe) || fe.Error() == "" {
				t.Fatalf("%q: %v", rest[:4], err)
			}
		default:
			if !errors.Is(err, io.ErrUnexpectedEOF) {
				t.Fatalf("%q: %v", rest, err)
			}
		}
	})
}

// recordingConn remembers writes, and fails after some bytes.
type recordingConn struct {
	net.Conn
	writes []string
	left   int
}

func (c *recordingConn) Write(b []byte) (int, error) {
	n := min(len(b), c.left)
	c.left -= n
	c.writes = append(c.writes, string(b[:n]))
	if n < len(b) {
		return n, errors.New("broken")
	}
	return n, nil
}

func frameOf(slices ...string) queuedFrame {
	f := protocol.Frame{}
	for _, s := range slices {
		f.Buffers = append(f.Buffers, []byte(s))
		f.Size += len(s)
	}
	return queuedFrame{frame: f}
}

// S-94, S-96: frames are written whole and in order; where there is no writev, slices share a write, and what
// would be a write of its own anyway is not copied.
func TestFrameWriterGathersSlices(t *testing.T) {
	large := strings.Repeat("L", minDirect)
	for _, tt := range []struct {
		name   string
		frames []queuedFrame
		want   []string
	}{
		{"small", []queuedFrame{frameOf("a", "b", ""), frameOf("c"), frameOf(), frameOf("d")}, []string{"abcd"}},
		{"large among small", []queuedFrame{frameOf("a", large, "b"), frameOf("c")}, []string{"a" + large + "bc"}},
		{"large alone", []queuedFrame{frameOf(large, large), frameOf("a")}, []string{large, large, "a"}},
		{"more than fits", []queuedFrame{frameOf("a", large, large, large, large, large, "b")},
			[]string{"a" + strings.Repeat("L", maxGather-1), strings.Repeat("L", minDirect+1) + "b"}},
		{"nothing", []queuedFrame{frameOf(), frameOf("")}, nil},
	} {
		t.Run(tt.name, func(t *testing.T) {
			conn := &recordingConn{left: 1 << 30}
			w := newFrameWriter(conn, &calm{}, byteCount{})
			n, err := w.write(tt.frames)
			require.NoError(t, err)
			assert.Equal(t, len(tt.frames), n)
			assert.Equal(t, tt.want, conn.writes)
		})
	}
}

// One write takes about maxAtOnce, but always a whole frame.
func TestFrameWriterBoundsOneWrite(t *testing.T) {
	part := strings.Repeat("x", maxAtOnce/4)
	q := []queuedFrame{frameOf(part), frameOf(part), frameOf(part), frameOf(part), frameOf("one more")}
	w := newFrameWriter(&recordingConn{left: 1 << 30}, &calm{}, byteCount{})
	n, err := w.write(q)
	require.NoError(t, err)
	assert.Equal(t, 4, n)
	n, err = w.write([]queuedFrame{frameOf(part, part, part, part, part), frameOf("next")})
	require.NoError(t, err)
	assert.Equal(t, 1, n)
}

// SEL-21: a frame counts as written only when all of it was, and one of no bytes when all before it was; partly written is not written (KAFKA-19012: and held
// until the write has returned).
func TestFrameWriterPartialWrite(t *testing.T) {
	q := []queuedFrame{frameOf("abc"), frameOf(), frameOf("de", "f"), frameOf("ghi")}
	for written, want := range []int{0, 0, 0, 2, 2, 2, 3, 3, 3} {
		var all, node metrics.Counter
		w := newFrameWriter(&recordingConn{left: written}, &calm{}, byteCount{&all, &node})
		n, err := w.write(q)
		assert.Error(t, err)
		assert.Equal(t, want, n, "after %d bytes", written)
		assert.EqualValues(t, written, all.Load())
	}
}

// The writer must not touch the frame's own list of slices, and must keep nothing of it (KAFKA-19012).
func TestFrameWriterLeavesTheFrameAlone(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer l.Close()
	conn, err := net.Dial("tcp", l.Addr().String())
	require.NoError(t, err)
	defer conn.Close()
	peer, err := l.Accept()
	require.NoError(t, err)
	defer peer.Close()

	w := newFrameWriter(conn, &calm{}, byteCount{})
	require.NotNil(t, w.tcp)
	q := []queuedFrame{frameOf("one", "", "two"), frameOf("three")}
	n, err := w.write(q)
	require.NoError(t, err)
	assert.Equal(t, 2, n)
	assert.Equal(t, net.Buffers{[]byte("one"), {}, []byte("two")}, q[0].frame.Buffers)
	got := make([]byte, len("onetwothree"))
	_, err = io.ReadFull(peer, got)
	require.NoError(t, err)
	assert.Equal(t, "onetwothree", string(got))
	for _, b := range w.bufs[:cap(w.bufs)] {
		assert.Nil(t, b)
	}
	assert.Nil(t, w.rest)
}

// The news that a frame was sent is given without a wake-up; a poller that sleeps is woken once for many
// events; a signal nobody waits for is not sent.
func TestWakeUpsAreFew(t *testing.T) {
	s := NewTCPSelector(TCPConfig{})
	c := &conn{sel: s, taken: []queuedFrame{frameOf("a"), frameOf("b")}}
	c.reportSentLocked(1)
	assert.False(t, s.woken.Load())
	c.taken[1].frame.NotifySent = true
	c.reportSentLocked(1)
	assert.True(t, s.woken.Load())
	assert.Empty(t, s.signal, "nobody sleeps")
	s.woken.Store(false)
	s.sleeping.Store(true)
	for range 3 {
		c.received([]byte("x"))
	}
	assert.Len(t, s.signal, 1)
	assert.Len(t, s.events, 5)
	for _, q := range c.taken {
		assert.Nil(t, q.frame.Buffers, "no reference to a frame that was reported")
	}
}

// Payload buffers come back one Poll after they were handed out, and not the very large ones.
func TestPayloadBuffersAreUsedAgain(t *testing.T) {
	s := NewTCPSelector(TCPConfig{})
	c := &conn{sel: s}
	kept, small, large := make([]byte, 10, minPayloadCap), make([]byte, 10), make([]byte, maxPayloadKept+1)
	for _, p := range [][]byte{kept, small, large} {
		assert.Nil(t, c.received(p))
	}
	now, events := s.Poll(time.Time{}, 0)
	assert.Len(t, events, 3)
	assert.Nil(t, c.received(nil), "the client may still read them")
	s.Poll(now, 0)
	require.Len(t, s.free, 1)
	got := c.received(nil)
	assert.Empty(t, got)
	assert.Same(t, &kept[0], &got[:1][0])
}
