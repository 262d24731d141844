package protocol

import (
	"fmt"
	"testing"
)

// BenchmarkAppendRecord encodes one record to where there is room for it, as Append does: its sizes, then its bytes.
func BenchmarkAppendRecord(b *testing.B) {
	for _, size := range []int{100, 1000} {
		for _, key := range []string{"none", "16"} {
			for _, headers := range []int{0, 2} {
				if headers > 0 && (size != 100 || key == "none") {
					continue
				}
				b.Run(fmt.Sprintf("size=%d/key=%s/headers=%d", size, key, headers), func(b *testing.B) {
					value := make([]byte, size)
					var k []byte
					if key != "none" {
						k = make([]byte, 16)
					}
					h := make([]Header, headers)
					for i := range h {
						h[i] = Header{Key: "trace-id", Value: make([]byte, 16)}
					}
					dst := make([]byte, 0, 2*size+200)
					b.ReportAllocs()
					b.SetBytes(int64(size))
					for b.Loop() {
						body := RecordBodySize(3, 77, k, value, h)
						if RecordSize(body) > cap(dst) {
							b.Fatal("no room")
						}
						dst = AppendRecord(dst[:0], body, 3, 77, k, value, h)
					}
				})
			}
		}
	}
}

// BenchmarkStampHeader writes the header of a batch whose records are summed already: the CRCs of both are combined.
func BenchmarkStampHeader(b *testing.B) {
	for _, size := range []int{1 << 10, 1 << 20} {
		b.Run(fmt.Sprintf("size=%d", size), func(b *testing.B) {
			first := make([]byte, BatchHeaderSize)
			b.ReportAllocs()
			for b.Loop() {
				StampHeader(first, size, 0x12345678, BatchStamp{Count: 150, Producer: ProducerID{ID: 7}})
			}
		})
	}
}

// BenchmarkRecordsCRC sums one slab.
func BenchmarkRecordsCRC(b *testing.B) {
	b.Run("size=16384", func(b *testing.B) {
		slab, crc := make([]byte, 16<<10), uint32(0)
		b.ReportAllocs()
		b.SetBytes(16 << 10)
		for b.Loop() {
			crc = RecordsCRC(crc, slab)
		}
	})
}

// BenchmarkProduceRequest makes the frame of a request, with batches of one slab each.
func BenchmarkProduceRequest(b *testing.B) {
	for _, batches := range []int{1, 12, 1000} {
		b.Run(fmt.Sprintf("batches=%d", batches), func(b *testing.B) {
			h := RequestHeader{Key: KeyProduce, Version: 13, ClientID: ptr("client")}
			chain := [][]byte{make([]byte, 16<<10)}
			var e ProduceEncoder
			b.ReportAllocs()
			for b.Loop() {
				e.Begin(h, nil, -1, 30000, 1)
				e.Topic("", goldenID, batches)
				for i := range batches {
					e.Partition(int32(i), chain, 16<<10)
				}
				e.Finish()
				e.Reset()
			}
		})
	}
}

// BenchmarkProduceResponse decodes the answer.
func BenchmarkProduceResponse(b *testing.B) {
	for _, batches := range []int{1, 12, 1000} {
		b.Run(fmt.Sprintf("batches=%d", batches), func(b *testing.B) {
			m := ProduceResponse{Topics: []ProduceResponseTopic{{ID: goldenID}}}
			for i := range batches {
				m.Topics[0].Partitions = append(m.Topics[0].Partitions, ProduceResponsePartition{Index: int32(i), CurrentLeader: NoLeader})
			}
			src := m.AppendTo(nil, 13)
			b.ReportAllocs()
			for b.Loop() {
				if err := m.ReadFrom(src, 13); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

// BenchmarkMetadataResponse decodes what is known of one topic.
func BenchmarkMetadataResponse(b *testing.B) {
	for _, partitions := range []int{12, 1000} {
		b.Run(fmt.Sprintf("partitions=%d", partitions), func(b *testing.B) {
			m := MetadataResponse{Brokers: []MetadataResponseBroker{{NodeID: 1, Host: "a.example", Port: 9092}}}
			topic := MetadataResponseTopic{Name: ptr("orders"), TopicID: goldenID}
			for i := range partitions {
				topic.Partitions = append(topic.Partitions, MetadataResponsePartition{
					PartitionIndex: int32(i), ReplicaNodes: []int32{1, 2, 3}, IsrNodes: []int32{1, 2, 3},
				})
			}
			m.Topics = []MetadataResponseTopic{topic}
			src := m.AppendTo(nil, 12)
			b.ReportAllocs()
			for b.Loop() {
				var got MetadataResponse
				if err := got.ReadFrom(src, 12); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
