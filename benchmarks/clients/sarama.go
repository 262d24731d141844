package clients

import (
	"sync"

	"github.com/IBM/sarama"

	"github.com/kafka-reservoir/producer/benchmarks/workload"
)

type saramaAsync struct {
	p       sarama.AsyncProducer
	topic   string
	readers sync.WaitGroup // one for deliveries, one for errors; they end when the producer closes
}

type saramaSync struct {
	p     sarama.SyncProducer
	topic string
}

// openSarama: MaxMessageBytes is what bounds its batches (and its records), Flush.Frequency is its linger, and nothing
// else makes it flush. An idempotent producer must have one request in flight: it insists. Records without a key go to
// random partitions, because it has no sticky partitioner; those with one by its own hash.
func openSarama(j Job) (Producer, error) {
	codecs := map[string]sarama.CompressionCodec{
		"none": sarama.CompressionNone, "gzip": sarama.CompressionGZIP, "snappy": sarama.CompressionSnappy,
		"lz4": sarama.CompressionLZ4, "zstd": sarama.CompressionZSTD,
	}
	cfg := sarama.NewConfig()
	cfg.Version = sarama.V4_0_0_0 // or it speaks as clients did in 2018
	cfg.Producer.Return.Successes = true
	cfg.Producer.Return.Errors = true
	cfg.Producer.Compression = codecs[j.Codec]
	cfg.Producer.RequiredAcks = sarama.WaitForLocal
	cfg.Net.MaxOpenRequests = workload.MaxInFlight
	if j.Idempotent() {
		cfg.Producer.RequiredAcks = sarama.WaitForAll
		cfg.Producer.Idempotent = true
		cfg.Net.MaxOpenRequests = 1
	}
	if !j.OwnDefaults() {
		cfg.Producer.Flush.Frequency = j.Linger
		cfg.Producer.MaxMessageBytes = j.Batch
	}
	if j.Mode == workload.Sync {
		p, err := sarama.NewSyncProducer(j.Brokers, cfg)
		if err != nil {
			return nil, err
		}
		return &saramaSync{p, j.Topic}, nil
	}
	p, err := sarama.NewAsyncProducer(j.Brokers, cfg)
	if err != nil {
		return nil, err
	}
	s := &saramaAsync{p: p, topic: j.Topic}
	s.readers.Go(func() {
		for m := range p.Successes() {
			j.Deliveries.Ack(slotIn(m.Metadata))
		}
	})
	s.readers.Go(func() {
		for e := range p.Errors() {
			j.Deliveries.Fail(slotIn(e.Msg.Metadata), e.Err)
		}
	})
	return s, nil
}

func saramaMessage(topic string, key, value []byte) *sarama.ProducerMessage {
	m := &sarama.ProducerMessage{Topic: topic, Value: sarama.ByteEncoder(value)}
	if key != nil {
		m.Key = sarama.ByteEncoder(key)
	}
	return m
}

func (s *saramaAsync) Send(key, value []byte, slot Slot) {
	m := saramaMessage(s.topic, key, value)
	if slot != Unmeasured {
		m.Metadata = slotField(slot)
	}
	s.p.Input() <- m
}

func (s *saramaAsync) SendWait(int, []byte, []byte) error { panic("opened for asynchronous use") }
func (s *saramaAsync) Flush() error                       { return nil } // it has none, and sends by itself

func (s *saramaAsync) Close() error {
	s.p.AsyncClose()
	s.readers.Wait()
	return nil
}

func (s *saramaSync) Send([]byte, []byte, Slot) { panic("opened for synchronous use") }

func (s *saramaSync) SendWait(_ int, key, value []byte) error {
	_, _, err := s.p.SendMessage(saramaMessage(s.topic, key, value))
	return err
}

func (s *saramaSync) Flush() error { return nil }
func (s *saramaSync) Close() error { return s.p.Close() }
