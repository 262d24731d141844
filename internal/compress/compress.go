package compress

import (
	"errors"

	"github.com/kafka-reservoir/producer/protocol"
)

// DefaultLevel stands for a codec's default level. No codec has 0 as a level of its own (to zstd it means the default too).
const DefaultLevel = 0

// ErrTooLarge TODO
var ErrTooLarge = errors.New("decompressed data exceeds the limit")

// New TODO
func New(codec protocol.Codec, level int) (protocol.Compressor, error) { panic("todo") }

// Levels TODO
func Levels(codec protocol.Codec) (min, max, def int) { panic("todo") }

// CheckLevel TODO: error lists the range; DefaultLevel is always fine
func CheckLevel(codec protocol.Codec, level int) error { panic("todo") }

// Footprint TODO: bytes one warm encoder holds, so that its users can bound how many there are
func Footprint(codec protocol.Codec, level int) int64 { panic("todo") }

// Decompress TODO
func Decompress(codec protocol.Codec, dst, src []byte, maxSize int) ([]byte, error) { panic("todo") }

// Decoder is Decompress with warm decoders; one goroutine at a time.
type Decoder struct{}

// Decompress TODO
func (d *Decoder) Decompress(codec protocol.Codec, dst, src []byte, maxSize int) ([]byte, error) {
	panic("todo")
}
