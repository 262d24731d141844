//go:build linux

package crc32c

import (
	"syscall"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// Nothing beyond the end is read, nor before the beginning: there is memory that may not be.
func TestReadsNothingElse(t *testing.T) {
	page := syscall.Getpagesize()
	m, err := syscall.Mmap(-1, 0, 3*page, syscall.PROT_READ|syscall.PROT_WRITE, syscall.MAP_ANON|syscall.MAP_PRIVATE)
	require.NoError(t, err)
	defer func() { require.NoError(t, syscall.Munmap(m)) }()
	require.NoError(t, syscall.Mprotect(m[:page], syscall.PROT_NONE))
	require.NoError(t, syscall.Mprotect(m[2*page:], syscall.PROT_NONE))
	open := m[page : 2*page]
	for i := range open {
		open[i] = byte(i * i)
	}
	for n := range 1100 {
		p, q := open[page-n:], open[:n]
		assert.Equal(t, want(0, p), Update(0, p))
		assert.Equal(t, want(0, q), Update(0, q))
	}
}
