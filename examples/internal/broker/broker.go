// Package broker gives the examples a cluster to talk to: the one that was named on the command line, or one that
// runs inside the example's own process.
package broker

import (
	"fmt"
	"strings"

	"github.com/kafka-reservoir/producer/internal/testbroker"
)

// Partitions is how many partitions a topic of the embedded cluster has.
const Partitions = 6

// Addrs returns addresses to find the cluster by, and what to call when it is not needed any more. list has host:port,
// separated by commas; empty starts an embedded cluster of three nodes.
func Addrs(list string) (addrs []string, stop func(), err error) {
	if list != "" {
		return strings.Split(list, ","), func() {}, nil
	}
	cluster, err := testbroker.Start(testbroker.Config{Nodes: 3, Partitions: Partitions})
	if err != nil {
		return nil, nil, fmt.Errorf("embedded cluster: %w", err)
	}
	return cluster.Addrs(), func() { _ = cluster.Close() }, nil
}
