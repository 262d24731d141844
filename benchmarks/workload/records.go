package workload

import (
	"fmt"
	"math/rand/v2"
)

// KeyBytes is the length of keys.
const KeyBytes = 16

// Records are what is sent: made once, from a fixed seed, and never changed, so that a client that keeps the slice until
// delivery and one that copies it do the same work for them.
type Records struct {
	values, keys [][]byte
}

// NewRecords makes values of w's size, together about 4 MiB, and 16,384 keys or none.
func NewRecords(w *Workload) *Records {
	rng := rand.New(rand.NewPCG(1, 2))
	count := 1 << 14
	for count > 16 && count*w.Value > 4<<20 {
		count /= 2
	}
	r := &Records{values: make([][]byte, count), keys: make([][]byte, 1)}
	all := make([]byte, 0, count*w.Value+1<<10)
	for i := range r.values {
		begin := len(all)
		for len(all) < begin+w.Value {
			all = appendEvent(all, rng)
		}
		all = all[:begin+w.Value]
		r.values[i] = all[begin:len(all):len(all)]
	}
	if w.Keyed {
		r.keys = make([][]byte, 1<<14)
		for i := range r.keys {
			r.keys[i] = fmt.Appendf(nil, "%0*x", KeyBytes, rng.Uint64())
		}
	}
	return r
}

// At is the i-th record's key, which may be nil, and value. After some thousand records it begins again.
func (r *Records) At(i int) (key, value []byte) {
	return r.keys[i&(len(r.keys)-1)], r.values[i&(len(r.values)-1)]
}

// Lines are the values, one a line; there is no line feed in them.
func (r *Records) Lines() []byte {
	var b []byte
	for _, v := range r.values {
		b = append(append(b, v...), '\n')
	}
	return b
}

// appendEvent appends what might be a shop's event: names that repeat, numbers that do not. A codec makes a third to a
// quarter of many of them.
func appendEvent(b []byte, rng *rand.Rand) []byte {
	return fmt.Appendf(b, `{"order":"%08x-%06x","at":"2026-%02d-%02dT%02d:%02d:%02d.%03dZ","customer":%d,"event":%q,"item":%q,"price":%d.%02d,"count":%d,"country":%q,"trace":"%016x"}`,
		rng.Uint32(), rng.Uint32N(1<<24), 1+rng.IntN(12), 1+rng.IntN(28), rng.IntN(24), rng.IntN(60), rng.IntN(60), rng.IntN(1000), rng.IntN(5_000_000),
		pick(rng, "order_placed", "order_paid", "order_shipped", "order_returned", "item_viewed", "item_saved"),
		pick(rng, "bicycle", "lamp", "teapot", "notebook", "umbrella", "chair", "rucksack", "kettle", "blanket", "clock"),
		1+rng.IntN(900), rng.IntN(100), 1+rng.IntN(5),
		pick(rng, "DE", "FR", "IT", "PL", "SE", "ES", "NL", "AT"), rng.Uint64())
}

func pick(rng *rand.Rand, words ...string) string { return words[rng.IntN(len(words))] }
