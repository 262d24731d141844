package sink

import (
	"context"
	"encoding/binary"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
	"github.com/twmb/franz-go/pkg/kversion"

	"github.com/kafka-reservoir/producer/benchmarks/clients"
	"github.com/kafka-reservoir/producer/benchmarks/measure"
	"github.com/kafka-reservoir/producer/benchmarks/workload"
)

func start(t *testing.T, cfg Config) *Sink {
	cfg.Brokers, cfg.Partitions = 3, 12
	s, err := Start(cfg)
	require.NoError(t, err)
	t.Cleanup(func() { assert.NoError(t, s.Close()) })
	return s
}

// Every client of this program, every codec, through the whole path that a measurement takes; the sink decodes it all.
func TestEveryClientIsVerified(t *testing.T) {
	const records = 2_000
	for _, client := range clients.All() {
		for _, codec := range []string{"none", "gzip", "snappy", "lz4", "zstd"} {
			t.Run(client.Name+"/"+codec, func(t *testing.T) {
				t.Parallel()
				s := start(t, Config{Verify: true})
				w := workload.Short()[0]
				w.Codec, w.Keyed, w.Goroutines = codec, codec == "zstd", 2
				r, err := measure.Run(measure.Job{Client: client.Name, Workload: w, Brokers: s.Addrs(), Topic: Topic, Measured: time.Minute, Records: records})
				require.NoError(t, err)
				stats := s.Stats()
				assert.Equal(t, int64(records), r.Records)
				assert.Equal(t, int64(records), stats.Records)
				assert.Equal(t, int64(records), stats.Verified)
				assert.Equal(t, int64(records*w.Value), stats.ValueBytes)
				assert.Empty(t, stats.FirstFault)
				assert.Positive(t, r.Latency.Samples)
			})
		}
	}
}

func TestEveryClientInTheOtherModes(t *testing.T) {
	rows, err := workload.Matrix("full", []string{"sync-16goroutines", "paced20k", "100B-acks1", "100B-defaults", "900KiB-16goroutines"})
	require.NoError(t, err)
	for _, client := range clients.All() {
		for _, w := range rows {
			t.Run(client.Name+"/"+w.Name, func(t *testing.T) {
				t.Parallel()
				s := start(t, Config{Verify: true})
				r, err := measure.Run(measure.Job{Client: client.Name, Workload: w, Brokers: s.Addrs(), Topic: Topic, Measured: time.Minute, Records: 32})
				require.NoError(t, err)
				assert.Equal(t, int64(32), r.Total)
				assert.Equal(t, int64(32), s.Stats().Verified)
				assert.Empty(t, s.Stats().FirstFault)
			})
		}
	}
}

// The form of the answers, in every version of Produce that clients may choose.
func TestEveryVersionOfProduce(t *testing.T) {
	for version := int16(3); version <= 13; version++ {
		s := start(t, Config{Delay: time.Millisecond})
		v := kversion.V4_0_0()
		v.SetMaxKeyVersion(keyProduce, version)
		client, err := kgo.NewClient(kgo.SeedBrokers(s.Addrs()...), kgo.DefaultProduceTopic(Topic), kgo.MaxVersions(v),
			kgo.RecordPartitioner(kgo.ManualPartitioner()))
		require.NoError(t, err)
		for i := range 3 {
			r := &kgo.Record{Partition: 7, Value: make([]byte, 10_000)}
			require.NoError(t, client.ProduceSync(context.Background(), r).FirstErr(), "version %d", version)
			assert.Equal(t, int64(i), r.Offset)
		}
		client.Close()
		stats := s.Stats()
		stats.Client, stats.Bytes = "", 0
		assert.Equal(t, Stats{Produce: version, Requests: 3, Batches: 3, Records: 3}, stats)
	}
}

func TestAnotherTopicIsUnknown(t *testing.T) {
	s := start(t, Config{})
	client, err := kgo.NewClient(kgo.SeedBrokers(s.Addrs()...), kgo.UnknownTopicRetries(0), kgo.AllowAutoTopicCreation())
	require.NoError(t, err)
	defer client.Close()
	err = client.ProduceSync(context.Background(), &kgo.Record{Topic: "another"}).FirstErr()
	assert.ErrorContains(t, err, "UNKNOWN_TOPIC_OR_PARTITION")
}

func TestVerifySeesDamage(t *testing.T) {
	batch := func(change func(h *kmsg.RecordBatch, r *kmsg.Record)) []byte {
		r := kmsg.Record{Value: []byte("value")}
		h := kmsg.RecordBatch{Magic: 2, NumRecords: 1, ProducerID: 1, FirstSequence: 0}
		change(&h, &r)
		r.Length = int32(len(r.AppendTo(nil)) - 1)
		h.Records = append(r.AppendTo(nil), h.Records...)
		h.Length = int32(headerSize - offLength - 4 + len(h.Records))
		b := h.AppendTo(nil)
		binary.BigEndian.PutUint32(b[offCRC:], crcOf(b))
		return b
	}
	for _, tt := range []struct {
		name, want string
		batch      []byte
	}{
		{"nothing", "", batch(func(*kmsg.RecordBatch, *kmsg.Record) {})},
		{"without a producer", "", batch(func(h *kmsg.RecordBatch, _ *kmsg.Record) { h.ProducerID, h.FirstSequence = -1, -1 })},
		{"a bit", "CRC-32C", func() []byte {
			b := batch(func(*kmsg.RecordBatch, *kmsg.Record) {})
			b[len(b)-2] ^= 1
			return b
		}()},
		{"a record too many", "longer than the batch", batch(func(h *kmsg.RecordBatch, _ *kmsg.Record) { h.NumRecords, h.LastOffsetDelta = 2, 1 })},
		{"a byte too many", "behind the last", batch(func(h *kmsg.RecordBatch, _ *kmsg.Record) { h.Records = []byte{0} })},
		{"an offset", "offset delta 1", batch(func(_ *kmsg.RecordBatch, r *kmsg.Record) { r.OffsetDelta = 1 })},
		{"the last offset", "last one's offset delta", batch(func(h *kmsg.RecordBatch, _ *kmsg.Record) { h.LastOffsetDelta = 1 })},
		{"the codec", "codec 4", batch(func(h *kmsg.RecordBatch, _ *kmsg.Record) { h.Attributes = 4 })},
		{"a gap", "sequence 5 where 0 is next", batch(func(h *kmsg.RecordBatch, _ *kmsg.Record) { h.FirstSequence = 5 })},
	} {
		t.Run(tt.name, func(t *testing.T) {
			s := &Sink{}
			s.verify(&partition{}, 0, tt.batch)
			if tt.want == "" {
				assert.Equal(t, Stats{Verified: 1, ValueBytes: 5}, s.Stats())
				return
			}
			assert.Contains(t, s.Stats().FirstFault, tt.want)
			assert.Zero(t, s.Stats().Verified)
		})
	}
}
