//go:build !linux

package netclient

const canBeQuiet = false

type vectors struct{}

func readQuietly(uintptr, []byte) (int, bool, error) { return 0, true, nil }

func (*vectors) writeQuietly(uintptr, [][]byte) (int, bool, error) { return 0, true, nil }
