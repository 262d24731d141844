package sender_test

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"
)

// asleep is a sender whose goroutine sleeps, with a record to be sent.
func asleep(t *testing.T) *loopback {
	l := newLoopback(t, 1, 100)
	for range 3 {
		l.round(t)
	}
	l.wakes = 0
	l.append(t)
	l.Turn().Unlock()
	return l
}

func (l *loopback) append(t *testing.T) {
	l.record.Partition = 0
	_, _, err := l.acc.Append(context.Background(), l.topic, l.md, &l.record, l.told, false, 0)
	require.NoError(t, err)
}

// Who has something for a sender that sleeps sends it, without waking the sender.
func TestAssist(t *testing.T) {
	l := asleep(t)
	l.Assist()
	l.Assist() // the answer's reader
	require.False(t, l.acc.HasIncomplete())
	require.Zero(t, l.wakes)
}

// Who finds the turn taken leaves word: an assistant looks again for it, also at what came between its look and its work, and the sender does not fall
// asleep over it.
func TestAssistLeavesWord(t *testing.T) {
	l := asleep(t)
	l.onLook = func() {
		if l.looks == 1 {
			l.Assist() // as another goroutine would, meanwhile
		}
	}
	l.Assist()
	require.Equal(t, 2, l.looks)
	require.Zero(t, l.wakes)

	l = asleep(t)
	l.Turn().Lock() // the sender is at work
	l.Assist()
	require.Zero(t, l.looks)
	l.Turn().Unlock() // and about to sleep
	require.Equal(t, 1, l.wakes)
}

// The end of the sender is its own goroutine's: an assistant leaves a close to it.
func TestAssistantsEndNothing(t *testing.T) {
	l := asleep(t)
	l.onLook = l.ForceClose // in the middle
	l.Assist()
	require.False(t, l.Closed())
	require.True(t, l.acc.HasIncomplete())
	require.Positive(t, l.wakes)
	l.Turn().Lock()
	l.RunOnce(l.now)
	require.True(t, l.Closed())
}

// A panic of the engine on a caller's goroutine may be recovered there. The producer must not go on without a sender, or hang: it is the crash that it would
// have been.
func TestPanicOfAnAssistant(t *testing.T) {
	l := asleep(t)
	l.onLook = func() { panic("broken") }
	require.Panics(t, l.Assist)
	require.Positive(t, l.wakes)
	l.Assist() // nobody else tries
	require.Equal(t, 1, l.looks)
	l.Turn().Lock()
	require.Panics(t, func() { l.RunOnce(l.now) })
}
