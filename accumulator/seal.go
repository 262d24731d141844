package accumulator

import (
	"sync"

	"github.com/kafka-reservoir/producer/internal/invariants"
	"github.com/kafka-reservoir/producer/protocol"
)

// sealers compress closed batches off the sender's loop: a few goroutines, started when there is
// work, each with a warm compressor of its own. When all are busy the goroutine that closed the
// batch compresses it itself, and that is the back-pressure. With none, which is how a simulation
// runs, sealing is a plain call.
type sealers struct {
	a     *RecordAccumulator
	work  chan *ProducerBatch // unbuffered: only an idle sealer takes
	stop  chan struct{}
	spare sync.Pool // *sealer, for goroutines that seal themselves

	mu      sync.Mutex
	running int            // sealers; guarded by mu
	stopped bool           // guarded by mu: nothing is sealed any more
	wg      sync.WaitGroup // sealers, and batches being sealed by whomever; added to with mu held while not stopped
}

// sealer is what one goroutine needs to compress.
type sealer struct {
	c   protocol.Compressor
	buf []byte
}

func (s *sealers) init(a *RecordAccumulator) {
	s.a = a
	s.work = make(chan *ProducerBatch)
	s.stop = make(chan struct{})
	s.spare.New = func() any { return &sealer{} }
}

// submit sees to it that the closed batch b is sealed: by another goroutine if one is free, else here and now. After
// close it stays as it is.
func (s *sealers) submit(b *ProducerBatch) {
	s.mu.Lock()
	if s.stopped || !b.state.CompareAndSwap(int32(stateClosed), int32(stateSealing)) {
		s.mu.Unlock()
		return // somebody else won
	}
	s.wg.Add(1)
	s.mu.Unlock()
	select {
	case s.work <- b:
		return
	default:
	}
	if s.start(b) {
		return
	}
	w := s.spare.Get().(*sealer)
	s.seal(w, b)
	s.spare.Put(w)
}

func (s *sealers) seal(w *sealer, b *ProducerBatch) {
	defer s.wg.Done()
	s.a.sealBatch(w, b)
}

// start gives b to a new sealer, if there may be one more.
func (s *sealers) start(b *ProducerBatch) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.stopped || s.running >= s.a.cfg.Sealers {
		return false
	}
	s.running++
	s.wg.Add(1)
	go s.run(b) // ends when close is called
	return true
}

func (s *sealers) run(b *ProducerBatch) {
	defer s.wg.Done()
	w := &sealer{}
	for {
		s.seal(w, b)
		select {
		case b = <-s.work:
		case <-s.stop:
			return
		}
	}
}

// close ends the sealers, after what they are at, and waits for the goroutines that seal themselves too: no batch is
// Sealing afterwards.
func (s *sealers) close() {
	s.mu.Lock()
	if !s.stopped {
		s.stopped = true
		close(s.stop)
	}
	s.mu.Unlock()
	s.wg.Wait()
}

// sealBatch compresses b, which is Sealing and so this goroutine's alone, and tells the sender.
func (a *RecordAccumulator) sealBatch(w *sealer, b *ProducerBatch) {
	before := b.size
	a.compress(w, b)
	b.sum()
	d := b.d
	if raw := b.rawSize - protocol.BatchHeaderSize; raw > 0 {
		d.topic.ratio.observe(float64(b.size-protocol.BatchHeaderSize) / float64(raw))
	}
	invariants.Check(b.size <= before, "sealing made a batch larger: %d from %d", b.size, before)
	d.mu.Lock()
	b.count(b.size)
	b.state.Store(int32(stateSealed))
	a.signal(d)
	d.mu.Unlock()
	// The sender passed the batch over while it was being sealed: it always has to look again.
	a.poke()
}

// compress replaces the records of b by their compressed form, in its own slabs, and gives up those
// no longer needed: nothing has to be allocated while memory may be short. A batch that does not get smaller
// stays as it is.
func (a *RecordAccumulator) compress(w *sealer, b *ProducerBatch) {
	if w.c == nil {
		c, err := a.cfg.NewCompressor()
		if err != nil {
			a.cfg.Logger.Error("compressor could not be made; sending uncompressed", "codec", b.codec, "err", err)
			b.codec = protocol.CodecNone
			return
		}
		w.c = c
	}
	// The stream begins after the header.
	first := b.slabs[0]
	b.slabs[0] = first[protocol.BatchHeaderSize:]
	out, err := w.c.Compress(w.buf[:0], b.slabs[:b.at+1])
	b.slabs[0] = first
	if err != nil || len(out) >= b.size-protocol.BatchHeaderSize {
		if err != nil {
			a.cfg.Logger.Error("compression failed; sending uncompressed", "codec", b.codec, "topic", b.d.tp.Topic, "err", err)
		}
		b.codec = protocol.CodecNone
		w.keep(out)
		return
	}
	w.keep(out)
	for i := range b.slabs {
		b.slabs[i] = b.slabs[i][:0]
	}
	b.slabs[0] = first[:protocol.BatchHeaderSize]
	b.at = 0
	b.write(out)
	b.size = protocol.BatchHeaderSize + len(out)
	if extra := b.slabs[b.at+1:]; len(extra) > 0 {
		if !b.isSplit {
			a.pool.Release(extra)
		}
		clear(extra)
		b.slabs = b.slabs[:b.at+1]
	}
}

// maxSealBuffer is the largest compression buffer a sealer keeps between batches.
const maxSealBuffer = 4 << 20

func (w *sealer) keep(buf []byte) {
	if cap(buf) <= maxSealBuffer {
		w.buf = buf[:0]
	}
}
