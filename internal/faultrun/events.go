package faultrun

import (
	"encoding/json"
	"fmt"
	"io"
	"strconv"
	"strings"
	"sync"
	"time"
)

// event is one line that the producer's process tells.
type event struct {
	kind  byte // one of the letters below
	id    id
	part  int32
	at    time.Time     // of the callback, or of the end of an attempt to connect
	off   int64         // of an acknowledged record
	age   time.Duration // since Send had accepted it; 0 for a record that was refused
	flags string        // of a failed record, and late
	text  string        // its error
	end   *report
}

const (
	eventAcked   = 'A'
	eventFailed  = 'F'
	eventConnect = 'C'
	eventEnd     = 'E'
)

// Flags of a callback.
const (
	flagRefused = "r" // the record was never accepted
	flagClosed  = "c" // because of ErrClosed
	flagForced  = "f" // ErrForceClosed
	flagTimeout = "t" // ErrDeliveryTimeout
	flagMay     = "m" // it may have been written
	flagForgot  = "g" // the broker had forgotten the producer
	flagLate    = "l" // after Close had returned
)

// report is what the process has to say in the end.
type report struct {
	Sent       [senders]int  // records handed to Send, by sender
	Flush      time.Duration // the most that a Flush was late when its ctx had ended
	FlushError string        // of the Flush before Close
	Close      time.Duration // what Close took
	Forced     bool          // its ctx had ended: Close counts from there
	Buffered   bool          // records were still in the buffer when Close was called
	CloseError string
	Goroutines []string      // of the library, that are left: their stacks
	Sockets    int           // that are left
	Empty      int64         // resident bytes before there was a producer
	Peak       int64         // the most there ever were; 0 where the system does not tell
	Lent       int64         // bytes of the buffer that did not come back
	Lag        time.Duration // the most that the machine kept the process waiting for a processor
}

// teller writes events. Any goroutine. Only flush and end wait for who reads: callbacks must not.
type teller struct {
	w io.Writer

	writing sync.Mutex // held while w is written to; guards spare; taken before mu
	spare   []byte
	mu      sync.Mutex // guards b
	b       []byte     // told and not written
}

func newTeller(w io.Writer) *teller { return &teller{w: w} }

func (t *teller) acked(i id, part int32, off int64, at time.Time, age time.Duration, flags string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.begin(eventAcked, i, part, at, age, flags)
	t.b = strconv.AppendInt(append(t.b, ' '), off, 10)
	t.done()
}

func (t *teller) failed(i id, part int32, at time.Time, age time.Duration, flags, text string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.begin(eventFailed, i, part, at, age, flags)
	t.b = append(append(t.b, ' '), strings.ReplaceAll(text, "\n", "; ")...)
	t.done()
}

func (t *teller) connected(node int32, at time.Time) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.begin(eventConnect, 0, node, at, 0, "")
	t.done()
}

func (t *teller) end(r *report) error {
	text, err := json.Marshal(r)
	if err != nil {
		return err
	}
	t.mu.Lock()
	t.begin(eventEnd, 0, 0, time.Time{}, 0, "")
	t.b = append(append(t.b, ' '), text...)
	t.done()
	t.mu.Unlock()
	return t.flush()
}

func (t *teller) begin(kind byte, i id, part int32, at time.Time, age time.Duration, flags string) {
	t.b = strconv.AppendUint(append(t.b, kind, ' '), uint64(i), 10)
	t.b = strconv.AppendInt(append(t.b, ' '), int64(part), 10)
	t.b = strconv.AppendInt(append(t.b, ' '), at.UnixNano(), 10)
	t.b = strconv.AppendInt(append(t.b, ' '), int64(age), 10)
	t.b = append(append(t.b, " -"...), flags...)
}

func (t *teller) done() { t.b = append(t.b, '\n') }

// flush writes what was told.
func (t *teller) flush() error {
	t.writing.Lock()
	defer t.writing.Unlock()
	t.mu.Lock()
	out := t.b
	t.b = t.spare[:0]
	t.mu.Unlock()
	_, err := t.w.Write(out)
	t.spare = out // nobody else looks at it while writing is held
	return err
}

// parse reads one line.
func parse(line string) (event, error) {
	f := strings.SplitN(line, " ", 7)
	if len(f) < 6 || len(f[0]) != 1 {
		return event{}, fmt.Errorf("not an event: %.200q", line)
	}
	var n [4]int64
	for i := range n {
		v, err := strconv.ParseInt(f[i+1], 10, 64)
		if err != nil {
			return event{}, fmt.Errorf("not an event: %.200q: %w", line, err)
		}
		n[i] = v
	}
	e := event{kind: f[0][0], id: id(n[0]), part: int32(n[1]), at: time.Unix(0, n[2]), age: time.Duration(n[3]), flags: f[5][1:], off: -1}
	if len(f) < 7 {
		return e, nil
	}
	switch e.kind {
	case eventAcked:
		off, err := strconv.ParseInt(f[6], 10, 64)
		e.off = off
		return e, err
	case eventEnd:
		e.end = new(report)
		return e, json.Unmarshal([]byte(f[6]), e.end)
	}
	e.text = f[6]
	return e, nil
}

func (e *event) has(flag string) bool { return strings.Contains(e.flags, flag) }
