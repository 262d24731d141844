package partitioner

import (
	"fmt"
	"math"
	"sync"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// topic is a Partitions of n partitions of which some have a leader.
type topic struct {
	n         int
	available []int32
}

func (t topic) Count() int         { return t.n }
func (t topic) Available() []int32 { return t.available }

// all is a topic whose n partitions have leaders.
func all(n int) topic {
	t := topic{n: n}
	for i := range n {
		t.available = append(t.available, int32(i))
	}
	return t
}

// xorshift makes the same keys as the Java program that printed the sums below.
type xorshift int64

func (x *xorshift) next() int32 {
	s := int64(*x)
	s ^= s << 13
	s ^= int64(uint64(s) >> 7)
	s ^= s << 17
	*x = xorshift(s)
	return int32(uint64(s) >> 32)
}

// S-34, FC-052: the vectors Kafka publishes, and what kafka-clients 4.4.0 prints for the others.
func TestFC052Murmur2Vectors(t *testing.T) {
	for _, tt := range []struct {
		key        string
		hash       int32
		partitions [4]int32 // of 3, 7, 12 and 100
	}{
		{"21", -973932308, [4]int32{0, 3, 0, 40}},
		{"foobar", -790332482, [4]int32{0, 0, 6, 66}},
		{"a-little-bit-long-string", -985981536, [4]int32{2, 1, 8, 12}},
		{"a-little-bit-longer-string", -1486304829, [4]int32{2, 0, 11, 19}},
		{"lkjh234lh9fiuh90y23oiuhsafujhadof229phr9h19h89h8", -58897971, [4]int32{2, 3, 5, 77}},
		{"abc", 479470107, [4]int32{0, 4, 3, 7}},
		{"", 275646681, [4]int32{0, 2, 9, 81}},
		{"\xff\xfe\x80", -160726397, [4]int32{0, 3, 3, 51}},
	} {
		assert.Equal(t, tt.hash, Murmur2([]byte(tt.key)), "%q", tt.key)
		for i, n := range []int{3, 7, 12, 100} {
			assert.Equal(t, tt.partitions[i], Default{}.Partition("t", []byte(tt.key), nil, all(n)), "%q of %d", tt.key, n)
			// Also while half of the partitions, or all, have no leader.
			assert.Equal(t, tt.partitions[i], Default{}.Partition("t", []byte(tt.key), nil, topic{n, all(n).available[n/2:]}))
			assert.Equal(t, tt.partitions[i], Default{}.Partition("t", []byte(tt.key), nil, topic{n, nil}))
		}
	}
}

// S-34, FC-052: 100,000 keys of 0 to 64 random bytes. The sums were printed by a Java program that calls
// kafka-clients 4.4.0's Utils.murmur2 and Utils.toPositive on the same keys.
func TestFC052Murmur2AgainstJava(t *testing.T) {
	x := xorshift(1)
	var hashes int32
	var partitions [4]int32
	topics := [4]topic{all(3), all(7), all(12), all(100)}
	for range 100_000 {
		key := make([]byte, (x.next()&math.MaxInt32)%65)
		for i := range key {
			key[i] = byte(x.next())
		}
		hashes = hashes*31 + Murmur2(key)
		for i, p := range topics {
			partitions[i] = partitions[i]*31 + Default{}.Partition("t", key, nil, p)
		}
	}
	assert.Equal(t, int32(-1278940287), hashes)
	assert.Equal(t, [4]int32{143849914, 481531491, -51282207, 37226669}, partitions)
}

// S-35, FC-052: no key means no choice; an empty key is a key.
func TestFC052DefaultWithoutKey(t *testing.T) {
	assert.Equal(t, Any, Default{}.Partition("t", nil, []byte("v"), all(5)))
	assert.NotEqual(t, Any, Default{}.Partition("t", []byte{}, nil, all(5)))
	assert.Equal(t, Any, Default{IgnoreKeys: true}.Partition("t", []byte("k"), nil, all(5)))
	assert.Equal(t, Any, Default{IgnoreKeys: true}.Partition("t", nil, nil, all(5)))
}

// FC-055: a topic without partitions makes nobody panic, and the result fails the range check.
func TestFC055NoPartitions(t *testing.T) {
	none := topic{}
	outOfRange := func(n int32) { assert.True(t, n < 0 || int(n) >= none.Count()) }
	outOfRange(Default{}.Partition("t", []byte("k"), nil, none))
	outOfRange(new(RoundRobin).Partition("t", []byte("k"), nil, none))
	s := NewSticky(StickyConfig{Threshold: 1, Adaptive: true, Rand: sequence()})
	outOfRange(s.Peek(none).Partition)
	s.SetLoad(NewLoad([]int32{0, 1}, []int{3, 1}, 2))
	c := s.Peek(none)
	s.Advance(c, 10, false, none)
	outOfRange(s.Peek(none).Partition)
}

// S-37, FC-056: the partition of a key follows the number of partitions; nothing is remembered.
func TestKeysMoveWhenPartitionsAreAdded(t *testing.T) {
	key := []byte("a-little-bit-long-string")
	assert.Equal(t, int32(0), Default{}.Partition("t", key, nil, all(2)))
	assert.Equal(t, int32(2), Default{}.Partition("t", key, nil, all(3)))
	assert.Equal(t, int32(0), Default{}.Partition("t", key, nil, all(2)))

	s := NewSticky(StickyConfig{Threshold: 1, Rand: sequence()})
	seen := map[int32]bool{}
	for range 100 {
		c := s.Peek(all(4))
		seen[c.Partition] = true
		s.Advance(c, 1, false, all(4))
	}
	assert.Len(t, seen, 4)
}

// S-35, RR-01, RR-02, S-36: round robin takes the available partitions in turn, per topic, with keys or without.
func TestRoundRobin(t *testing.T) {
	var r RoundRobin
	some := topic{4, []int32{0, 1, 3}}
	for i := range 30 {
		var key []byte
		if i%2 == 0 {
			key = []byte("key")
		}
		assert.Equal(t, some.available[i%3], r.Partition("a", key, nil, some))
		if i%3 == 0 {
			assert.Equal(t, int32(i/3%2), r.Partition("b", key, nil, all(2)))
		}
		assert.Equal(t, int32(i%4), r.Partition("c", key, nil, topic{n: 4}), "none available: all of them")
	}
}

// RR-01: evenly too when many goroutines send.
func TestRoundRobinFromManyGoroutines(t *testing.T) {
	var r RoundRobin
	var mu sync.Mutex
	counts := map[string][4]int{}
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			mine := map[string][4]int{}
			for i := range 3000 {
				name := fmt.Sprint("topic-", i%5)
				c := mine[name]
				c[r.Partition(name, nil, nil, all(4))]++
				mine[name] = c
			}
			mu.Lock()
			defer mu.Unlock()
			for name, m := range mine {
				c := counts[name]
				for i := range c {
					c[i] += m[i]
				}
				counts[name] = c
			}
		})
	}
	wg.Wait()
	require.Len(t, counts, 5)
	for name, c := range counts {
		assert.Equal(t, [4]int{1200, 1200, 1200, 1200}, c, name)
	}
}

func TestRoundRobinCounterWraps(t *testing.T) {
	var r RoundRobin
	r.counter("t").Store(math.MaxUint32)
	assert.Equal(t, int32(0), r.Partition("t", nil, nil, all(5)), "2^32-1 mod 5")
	assert.Equal(t, int32(0), r.Partition("t", nil, nil, all(5)))
	assert.Equal(t, int32(1), r.Partition("t", nil, nil, all(5)))
}
