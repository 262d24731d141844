package netclient_test

import (
	"context"
	"net"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/kafka-reservoir/producer/netclient"
)

// S-16, KP-22: TCP_NODELAY and keep-alive are on, the configured buffer sizes reach the socket, and where none is
// configured it keeps the system's.
func TestSocketOptions(t *testing.T) {
	n := echoServer(t)
	options := func(cfg netclient.TCPConfig) map[string]int {
		var sock *net.TCPConn
		cfg.Dial = func(ctx context.Context, network, address string) (net.Conn, error) {
			d := net.Dialer{KeepAlive: -1} // off, as a dialer of the user's own may have it
			c, err := d.DialContext(ctx, network, address)
			if err == nil {
				sock = c.(*net.TCPConn)
				sock.SetNoDelay(false)
			}
			return c, err
		}
		s := netclient.NewTCPSelector(cfg)
		defer s.Shutdown()
		s.Connect(n, setupTimeout)
		_, events := s.Poll(time.Now(), setupTimeout)
		require.Equal(t, netclient.Connected, events[0].Kind)
		raw, err := sock.SyscallConn()
		require.NoError(t, err)
		got := map[string]int{}
		raw.Control(func(fd uintptr) {
			for name, o := range map[string][2]int{
				"nodelay":   {syscall.IPPROTO_TCP, syscall.TCP_NODELAY},
				"keepalive": {syscall.SOL_SOCKET, syscall.SO_KEEPALIVE},
				"send":      {syscall.SOL_SOCKET, syscall.SO_SNDBUF},
				"receive":   {syscall.SOL_SOCKET, syscall.SO_RCVBUF},
			} {
				got[name], err = syscall.GetsockoptInt(int(fd), o[0], o[1])
				require.NoError(t, err)
			}
		})
		return got
	}
	system := options(netclient.TCPConfig{SendBuffer: -1, ReceiveBuffer: -1})
	assert.Equal(t, 1, system["nodelay"])
	assert.Equal(t, 1, system["keepalive"])
	set := options(netclient.TCPConfig{SendBuffer: 33_000, ReceiveBuffer: 44_000})
	assert.Equal(t, 2*33_000, set["send"], "Linux doubles it")
	assert.Equal(t, 2*44_000, set["receive"])
	assert.NotEqual(t, set["send"], system["send"])
	assert.NotEqual(t, set["receive"], system["receive"])
	assert.Equal(t, system, options(netclient.TCPConfig{}))
}
