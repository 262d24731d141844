//go:build (amd64 || arm64) && !race

package netclient

import (
	"io"
	"syscall"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// Calls on a socket in blocking mode, which a user's Dial may have made, do not wait in the kernel: everything else would wait as well.
func TestQuietOnBlockingSocket(t *testing.T) {
	here, there := sockets(t)
	raw, err := here.SyscallConn()
	require.NoError(t, err)
	require.NoError(t, raw.Control(func(fd uintptr) { err = syscall.SetNonblock(int(fd), false) }))
	require.NoError(t, err)
	r := newQuietReader(here, calmly(true)).(*quietReader)
	require.NoError(t, raw.Control(func(fd uintptr) {
		r.b = make([]byte, 1)
		assert.False(t, r.readOnce(fd), "nothing to read")
	}))
	w := newQuietWriter(here, calmly(true))
	w.left, w.short = [][]byte{make([]byte, 64<<20)}, true
	require.NoError(t, raw.Control(func(fd uintptr) { assert.False(t, w.writeAll(fd), "the socket is full") }))
	assert.Positive(t, w.n)
	_, err = io.ReadFull(there, make([]byte, w.n))
	assert.NoError(t, err)
}
