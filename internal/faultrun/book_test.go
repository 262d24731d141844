package faultrun

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// two and three are senders that name the partition: it is the number's remainder.
func two(seq int) id   { return newID(2, seq) }
func three(seq int) id { return newID(3, seq) }

func acked(i id, off int64) event {
	return event{kind: eventAcked, id: i, part: i.partition(), off: off}
}

func failed(i id, flags string) event {
	return event{kind: eventFailed, id: i, part: i.partition(), off: -1, flags: flags}
}

// What the book has to see: each kind of lie once.
func TestBookFindsWhatIsWrong(t *testing.T) {
	sent := func(n int) [senders]int { return [senders]int{2: n} }
	for _, tt := range []struct {
		name   string
		events []event
		log    []id // of partition 0
		cut    int  // so many records of the log are lost by the brokers' own doing, at the end
		sent   [senders]int
		may    Failures
		want   Tally
	}{
		{"nothing", []event{acked(two(0), 0), acked(two(6), 1), acked(three(0), 2)}, []id{two(0), two(6), three(0)}, 0, [senders]int{}, MayNone, Tally{Acked: 3}},
		{"lost", []event{acked(two(0), 0)}, nil, 0, [senders]int{}, MayNone, Tally{Acked: 1, Lost: 1}},
		{"lost by the brokers", []event{acked(two(0), 0)}, []id{two(0)}, 1, [senders]int{}, MayNone, Tally{Acked: 1}},
		{"duplicated", []event{acked(two(0), 0)}, []id{two(0), two(0)}, 0, [senders]int{}, MayNone, Tally{Acked: 1, Duplicated: 1}},
		{"reordered", []event{acked(two(0), 1), acked(two(6), 0)}, []id{two(6), two(0)}, 0, [senders]int{}, MayNone, Tally{Acked: 2, Reordered: 1}},
		{"misrouted", []event{}, []id{two(1)}, 0, [senders]int{}, MayNone, Tally{Misrouted: 1}},
		{"told of another partition", []event{{kind: eventAcked, id: two(1), part: 0}}, []id{two(1)}, 0, [senders]int{}, MayNone, Tally{Acked: 1, Misrouted: 2}},
		{"wrong offset", []event{acked(two(0), 1), acked(two(6), 1)}, []id{two(0), two(6)}, 0, [senders]int{}, MayNone, Tally{Acked: 2, WrongOffset: 1}},
		{"no offset", []event{acked(two(0), -1)}, []id{two(0)}, 0, [senders]int{}, MayNone, Tally{Acked: 1, WrongOffset: 1}},
		{"unresolved", []event{acked(two(0), 0)}, []id{two(0)}, 0, sent(2), MayNone, Tally{Acked: 1, Unresolved: 1}},
		{"twice", []event{acked(two(0), 0), acked(two(0), 0)}, []id{two(0)}, 0, [senders]int{}, MayNone, Tally{Acked: 1, Double: 1}},
		{"callbacks out of order", []event{acked(two(6), 1), acked(two(0), 0)}, []id{two(0), two(6)}, 0, [senders]int{}, MayNone, Tally{Acked: 2, CallbackOrder: 1}},
		{"after Close", []event{{kind: eventAcked, id: two(0), flags: flagLate}}, []id{two(0)}, 0, [senders]int{}, MayNone, Tally{Acked: 1, AfterClose: 1}},
		{"refused after Close", []event{failed(two(0), flagLate+flagRefused+flagClosed)}, nil, 0, [senders]int{}, MayNone, Tally{Failed: 1, Needless: 1}},
		{"failed", []event{failed(two(0), flagTimeout)}, nil, 0, [senders]int{}, MayNone, Tally{Failed: 1, Needless: 1}},
		{"failed in time", []event{failed(two(0), flagTimeout)}, nil, 0, [senders]int{}, MayExpire, Tally{Failed: 1}},
		{"said not to be written", []event{failed(two(0), flagTimeout)}, []id{two(0)}, 0, [senders]int{}, MayExpire, Tally{Failed: 1, Untrue: 1}},
		{"perhaps written", []event{failed(two(0), flagTimeout+flagMay)}, []id{two(0)}, 0, [senders]int{}, MayExpire, Tally{Failed: 1}},
		{"forgotten", []event{failed(two(0), flagForgot+flagMay)}, nil, 0, [senders]int{}, MayDoubt, Tally{Failed: 1}},
		{"forgotten without a doubt", []event{failed(two(0), flagForgot)}, nil, 0, [senders]int{}, MayDoubt, Tally{Failed: 1, Needless: 1}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			b := newBook(100)
			b.logs[0].now = tt.log
			if tt.cut > 0 {
				b.cut(0, int64(len(tt.log)-tt.cut))
			}
			for _, e := range tt.events {
				b.tell(&e, func(e *event) bool { return tt.may.needless(e, false) })
			}
			b.end = &report{Sent: tt.sent}
			b.check()
			assert.Equal(t, tt.want, b.t)
			assert.Equal(t, len(b.t.Bad()) > 0, len(b.broken) > 0)
		})
	}
}

func TestRecordsAreKnownAgain(t *testing.T) {
	for s := range senders {
		for _, seq := range []int{0, 1, 77, 1 << 20} {
			i := newID(s, seq)
			value := i.appendValue(nil, 500)
			got, known, whole := identify(i.key(), value, 500)
			assert.Equal(t, i, got)
			assert.True(t, known && whole)
			value[len(value)-1] ^= 1
			_, known, whole = identify(i.key(), value, 500)
			assert.False(t, known && whole)
		}
	}
	_, known, _ := identify(nil, []byte("something else"), 500)
	assert.False(t, known)
}

func TestEventsAreReadAsWritten(t *testing.T) {
	var out strings.Builder
	w := newTeller(&out)
	at := time.Unix(0, 1_234_567_890)
	w.acked(two(3), 4, 5, at, 6, "")
	w.failed(two(7), -1, at, 8, flagMay+flagTimeout, "one\ntwo  three")
	w.connected(2, at)
	require.NoError(t, w.end(&report{Sent: [senders]int{1, 2, 3, 4}, FlushError: "a b"}))
	want := []event{
		{kind: eventAcked, id: two(3), part: 4, off: 5, at: at, age: 6},
		{kind: eventFailed, id: two(7), part: -1, off: -1, at: at, age: 8, flags: flagMay + flagTimeout, text: "one; two  three"},
		{kind: eventConnect, part: 2, off: -1, at: at},
		{kind: eventEnd, off: -1, end: &report{Sent: [senders]int{1, 2, 3, 4}, FlushError: "a b"}},
	}
	for i, line := range strings.Split(strings.TrimSpace(out.String()), "\n") {
		e, err := parse(line)
		require.NoError(t, err)
		if e.kind == eventEnd {
			e.at = time.Time{}
		}
		assert.Equal(t, want[i], e)
	}
	for _, line := range []string{"", "A", "A 1 2 3", "A x 2 3 4 -", "E 0 0 0 0 - {"} {
		_, err := parse(line)
		assert.Error(t, err, line)
	}
}

// A sudden crowd is seen, however it lies.
func TestWithinASecond(t *testing.T) {
	at := func(ms ...int) (times []time.Time) {
		for _, m := range ms {
			times = append(times, time.UnixMilli(int64(m)))
		}
		return times
	}
	assert.Equal(t, 0, within(nil))
	assert.Equal(t, 1, within(at(0, 2000, 4000)))
	assert.Equal(t, 3, within(at(4000, 900, 1800, 1900, 0)))
}
