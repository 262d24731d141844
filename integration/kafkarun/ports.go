package kafkarun

import (
	"errors"
	"math/rand/v2"
	"net"
	"strconv"
)

// Ports are taken below the range from which systems choose the local ports of outgoing connections
// (32768 and up on Linux): a node that is down keeps its port, because nobody is given it meanwhile.
const (
	lowestPort  = 15000
	highestPort = 32000
)

// freePorts chooses n ports of the loopback that nobody listens on.
func freePorts(n int) ([]int, error) {
	ports := make([]int, 0, n)
	var open []net.Listener // held until all are chosen, so that none is chosen twice
	defer func() {
		for _, l := range open {
			_ = l.Close()
		}
	}()
	for range 1000 {
		if len(ports) == n {
			return ports, nil
		}
		port := lowestPort + rand.IntN(highestPort-lowestPort)
		l, err := net.Listen("tcp", address(port))
		if err != nil {
			continue
		}
		open = append(open, l)
		ports = append(ports, port)
	}
	return nil, errors.New("no free ports on 127.0.0.1")
}

func address(port int) string { return net.JoinHostPort("127.0.0.1", strconv.Itoa(port)) }
