//go:build !linux || !(amd64 || arm64)

package netclient

const canBeQuiet = false

type vectors struct{}

func receive(uintptr, []byte, bool) (int, bool, error) { return 0, true, nil }

func (*vectors) send(uintptr, [][]byte, bool) (int, bool, error) { return 0, true, nil }
