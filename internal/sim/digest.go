package sim

// digest sums up a history: FNV-1a over 64-bit words, which is quick and enough to tell two histories apart.
type digest uint64

func newDigest() digest { return 14695981039346656037 }

func (d *digest) add(words ...uint64) {
	h := uint64(*d)
	for _, w := range words {
		h ^= w
		h *= 1099511628211
		h ^= h >> 29
	}
	*d = digest(h)
}
