//go:build amd64 || arm64

package netclient

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// What was written is not kept: its memory is somebody else's.
func TestQuietVectorsLetGo(t *testing.T) {
	here, _ := sockets(t)
	w := newQuietWriter(here, calmly(true))
	_, err := w.write([][]byte{[]byte("a"), []byte("b"), []byte("c")}, true)
	require.NoError(t, err)
	require.GreaterOrEqual(t, cap(w.vecs.iov), 3)
	for _, v := range w.vecs.iov[:cap(w.vecs.iov)] {
		assert.Nil(t, v.Base)
	}
	assert.Nil(t, w.vecs.msg.Iov)
}
