//go:build !amd64

package crc32c

const canFold = false

func fold(uint32, *byte, int) uint32 { panic("not on this processor") }
