package matrix

import (
	"bytes"
	"fmt"
	"hash/fnv"
	"math/rand/v2"
	"time"

	"github.com/kafka-reservoir/producer/integration/clients"
	"github.com/kafka-reservoir/producer/integration/readback"
)

// manySmall is how many small records follow those that are special in some way.
const manySmall = 200

// largest is the largest value: with its framing it stays below the message.max.bytes of brokers up to
// 2.1, which is 1,000,012.
const largest = 900_000

// records makes the records of a cell. The same cell and seed give the same ones, but for the timestamps
// that are near to now.
func records(c Cell, seed uint64, now time.Time) []clients.Record {
	h := fnv.New64a()
	fmt.Fprint(h, c)
	rnd := rand.New(rand.NewPCG(seed, h.Sum64()))
	g := generator{cell: c, rnd: rnd}

	values := [][]byte{nil, {}, {0}, []byte("x"), g.text(10), g.random(100), g.text(1000), g.random(127), g.random(128), g.random(129)}
	// Lengths at which varints grow, and sizes around 16 KiB, where buffers end.
	for _, n := range []int{63, 64, 8191, 8192, 16<<10 - 100, 16<<10 - 1, 16 << 10, 16<<10 + 1, 32 << 10} {
		values = append(values, g.text(n))
	}
	headers := [][]readback.Header{
		nil,
		{{Key: "k", Value: []byte("v")}},
		{{Key: "null", Value: nil}},
		{{Key: "empty", Value: []byte{}}},
		{{Key: "dup", Value: []byte("1")}, {Key: "dup", Value: []byte("2")}, {Key: "other", Value: nil}, {Key: "dup", Value: []byte("1")}},
		{{Key: "", Value: []byte("empty key")}},
		{{Key: "schlüssel-鍵-🔑", Value: g.random(40)}},
		{{Key: "long", Value: g.random(5000)}},
		g.manyHeaders(100),
	}
	timestamps := []time.Time{
		{}, // now
		time.UnixMilli(0),
		now.Add(-365 * 24 * time.Hour),
		now.Add(30 * time.Minute), // brokers from 4.0 on refuse more than an hour
		time.UnixMilli(1),
		time.Date(2001, 2, 3, 4, 5, 6, 789_999_999, time.UTC), // cut to milliseconds, not rounded
		now,
	}
	for range max(len(values), 2*len(headers)*len(timestamps)) {
		i := len(g.all)
		g.add(values[i%len(values)], headers[i%len(headers)], timestamps[i%len(timestamps)])
	}
	g.add(g.random(100_000), nil, time.Time{})
	g.add(g.text(largest), headers[4], time.UnixMilli(0))
	g.add(g.random(largest), nil, now)
	g.add([]byte("between"), nil, time.Time{})
	g.add(g.text(300_000), headers[1], now)
	for range manySmall {
		g.add(g.text(1+rnd.IntN(300)), headers[rnd.IntN(3)], timestamps[rnd.IntN(len(timestamps))])
	}
	return g.all
}

// generator makes the records of one cell.
type generator struct {
	cell Cell
	rnd  *rand.Rand
	all  []clients.Record
}

func (g *generator) add(value []byte, headers []readback.Header, timestamp time.Time) {
	r := clients.Record{
		Topic:     g.cell.topic(),
		Partition: clients.AnyPartition,
		Value:     value,
		Headers:   headers,
		Timestamp: timestamp,
	}
	i := len(g.all)
	switch g.cell.Routing {
	case "keyed":
		r.Key = g.key(i)
	case "explicit":
		r.Key = g.key(i)
		r.Partition = int32(g.rnd.IntN(g.cell.Partitions))
	}
	g.all = append(g.all, r)
}

// key is one of some tens of keys, among them none, an empty one, and bytes that are no text.
func (g *generator) key(i int) []byte {
	switch i % 11 {
	case 3:
		return nil
	case 5:
		return []byte{}
	case 7:
		return []byte{0xff, 0, 0xfe, byte(i)}
	case 9:
		return bytes.Repeat([]byte("long key "), 20+i%3)
	}
	return fmt.Appendf(nil, "key-%d", g.rnd.IntN(40))
}

// text is n bytes that compress well.
func (g *generator) text(n int) []byte {
	b := make([]byte, 0, n+16)
	for len(b) < n {
		b = fmt.Appendf(b, "row %d of them; ", g.rnd.IntN(1000))
	}
	return b[:n:n]
}

// random is n bytes that do not compress.
func (g *generator) random(n int) []byte {
	b := make([]byte, n)
	for i := range b {
		b[i] = byte(g.rnd.Uint32())
	}
	return b
}

func (g *generator) manyHeaders(n int) []readback.Header {
	hs := make([]readback.Header, n)
	for i := range hs {
		hs[i] = readback.Header{Key: fmt.Sprintf("h%d", i%7), Value: g.random(i % 5)}
	}
	return hs
}
