package partitioner

// NewSticky TODO
func NewSticky(cfg StickyConfig) *Sticky { return &Sticky{cfg: cfg} }

// Peek TODO
func (s *Sticky) Peek(p Partitions) *Choice { panic("todo") }

// Changed TODO
func (s *Sticky) Changed(c *Choice) bool { panic("todo") }

// Advance TODO
func (s *Sticky) Advance(c *Choice, bytes int, batchOpen bool, p Partitions) { panic("todo") }

// SwitchFrom TODO
func (s *Sticky) SwitchFrom(c *Choice, p Partitions) { panic("todo") }

// SetLoad TODO
func (s *Sticky) SetLoad(l *Load) { panic("todo") }

// SetLocalLoad TODO
func (s *Sticky) SetLocalLoad(l *Load) { panic("todo") }

// Load TODO
type Load struct{}

// NewLoad TODO: partitions[i] has queues[i] batches waiting; count is the number of all partitions of the topic. nil = choose uniformly
func NewLoad(partitions []int32, queues []int, count int) *Load { return nil }

// Murmur2 TODO
func Murmur2(data []byte) int32 { panic("todo") }

// Default TODO
type Default struct{ IgnoreKeys bool }

// Partition implements Partitioner.
func (d Default) Partition(topic string, key, value []byte, p Partitions) int32 { panic("todo") }

// RoundRobin TODO; the zero value is ready, use a pointer.
type RoundRobin struct{}

// Partition implements Partitioner.
func (r *RoundRobin) Partition(topic string, key, value []byte, p Partitions) int32 { panic("todo") }

// LocalPartitions TODO (KIP-1123)
type LocalPartitions interface {
	Partitions
	Local() []int32
}
