// Package matrix sends every kind of record in every way to a real broker and compares what two
// independent consumers read back, byte for byte and in order.
//
// A cell is one codec, one way to choose partitions and one setting of acks, with a topic and a producer
// of its own. [Run] goes through all cells on one cluster; cmd/matrix and a test call it, from one
// goroutine.
package matrix

import (
	"fmt"
	"strings"

	"github.com/kafka-reservoir/producer/integration/kafkarun"
)

var (
	codecs   = []string{"none", "gzip", "snappy", "lz4", "zstd"}
	routings = []string{"keyed", "unkeyed", "explicit"}
	ackses   = []string{"all", "1", "0"}
)

// Cell is one combination.
type Cell struct {
	Codec   string // none, gzip, snappy, lz4, zstd
	Routing string // keyed: by the key's hash; unkeyed: no keys; explicit: the record names its partition
	Acks    string // all, 1, 0
	// BatchSize alternates from cell to cell between the default (0), with which a cell is a few large
	// batches, and Java's 16 KiB, with which it is many.
	BatchSize int
	// Partitions is how many the topic has.
	Partitions int
	// AutoCreated leaves it to the broker to create the topic when it is first asked for it.
	AutoCreated bool
}

// String names the cell.
func (c Cell) String() string {
	s := fmt.Sprintf("%s/%s/acks=%s", c.Codec, c.Routing, c.Acks)
	if c.AutoCreated {
		s += "/auto"
	}
	return s
}

// topic is the cell's topic.
func (c Cell) topic() string {
	return "matrix-" + strings.NewReplacer("/", "-", "=", "-").Replace(c.String())
}

// Cells lists all combinations, and one more for a topic that the broker creates.
func Cells() []Cell {
	var cells []Cell
	for _, codec := range codecs {
		for _, routing := range routings {
			for _, acks := range ackses {
				cells = append(cells, Cell{
					Codec: codec, Routing: routing, Acks: acks,
					BatchSize:  len(cells) % 2 * (16 << 10),
					Partitions: 4,
				})
			}
		}
	}
	return append(cells, Cell{Codec: "none", Routing: "keyed", Acks: "all", Partitions: kafkarun.DefaultPartitions, AutoCreated: true})
}
