package readback

import (
	"context"
	"fmt"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
)

// FranzGo reads with franz-go's consumer.
type FranzGo struct{ Bootstrap []string }

// Name is the reader's name in reports.
func (FranzGo) Name() string { return "franz-go" }

// EndOffsets lists the end offset of each partition of the topic.
func (f FranzGo) EndOffsets(ctx context.Context, topic string) (map[int32]int64, error) {
	cl, err := kgo.NewClient(kgo.SeedBrokers(f.Bootstrap...))
	if err != nil {
		return nil, err
	}
	defer cl.Close()
	listed, err := kadm.NewClient(cl).ListEndOffsets(ctx, topic)
	if err == nil {
		err = listed.Error()
	}
	if err != nil {
		return nil, fmt.Errorf("end offsets of %s: %w", topic, err)
	}
	ends := make(map[int32]int64)
	for p, o := range listed[topic] {
		ends[p] = o.Offset
	}
	return ends, nil
}

// Read reads the topic from its beginning.
func (f FranzGo) Read(ctx context.Context, topic string, each func(Found)) error {
	ends, err := f.EndOffsets(ctx, topic)
	if err != nil {
		return err
	}
	from := make(map[int32]kgo.Offset)
	for p, end := range ends {
		if end > 0 {
			from[p] = kgo.NewOffset().At(0)
		}
	}
	if len(from) == 0 {
		return nil
	}
	cl, err := kgo.NewClient(kgo.SeedBrokers(f.Bootstrap...),
		kgo.ConsumePartitions(map[string]map[int32]kgo.Offset{topic: from}))
	if err != nil {
		return err
	}
	defer cl.Close()
	for left := len(from); left > 0; {
		fetches := cl.PollFetches(ctx)
		if err := fetches.Err(); err != nil {
			return fmt.Errorf("reading %s with franz-go: %w", topic, err)
		}
		fetches.EachRecord(func(r *kgo.Record) {
			if r.Offset >= ends[r.Partition] {
				return
			}
			if r.Offset == ends[r.Partition]-1 {
				left--
			}
			each(found(r))
		})
	}
	return nil
}

var timestampTypes = map[int8]byte{-1: 'N', 0: 'C', 1: 'L'}

var codecs = map[uint8]string{0: "none", 1: "gzip", 2: "snappy", 3: "lz4", 4: "zstd"}

func found(r *kgo.Record) Found {
	b := appendHead(nil, r.Partition, r.Offset, timestampTypes[r.Attrs.TimestampType()], r.Timestamp.UnixMilli(), r.Key, r.Value)
	for i, h := range r.Headers {
		b = appendHeader(b, i, h.Key, h.Value)
	}
	return Found{
		Partition: r.Partition,
		Offset:    r.Offset,
		Line:      string(appendEnd(b, len(r.Headers))),
		Batch:     &Batch{Codec: codecs[r.Attrs.CompressionType()], ProducerID: r.ProducerID},
	}
}
