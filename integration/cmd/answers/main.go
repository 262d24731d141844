// Command answers asks a real broker everything that the protocol package can decode, in every version both
// speak, and writes the answers where the fuzz targets of that package begin:
//
//	go run ./cmd/answers -versions 4.4.0,0.11.0.3
package main

import (
	"bytes"
	"context"
	"encoding/binary"
	"flag"
	"fmt"
	"io"
	"log"
	"net"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/kafka-reservoir/producer/integration/kafkarun"
	"github.com/kafka-reservoir/producer/protocol"
)

func main() {
	log.SetFlags(log.Ltime)
	versions := flag.String("versions", "4.4.0", "Kafka releases, with commas")
	dir := flag.String("dir", "../protocol/testdata/answers", "where to write")
	flag.Parse()
	for version := range strings.SplitSeq(*versions, ",") {
		if err := record(version, *dir); err != nil {
			log.Fatal(err)
		}
	}
}

// record starts a broker and writes what it says, a line for each answer: message, version, bytes.
func record(version, dir string) error {
	ctx, cancel := context.WithTimeout(context.Background(), 3*time.Minute)
	defer cancel()
	c, err := kafkarun.Start(ctx, kafkarun.Config{Version: version, Logf: log.Printf})
	if err != nil {
		return err
	}
	defer c.Close()
	if err := c.CreateTopic(ctx, "orders", 3); err != nil {
		return err
	}
	conn, err := net.Dial("tcp", c.Bootstrap()[0])
	if err != nil {
		return err
	}
	defer conn.Close()

	var out bytes.Buffer
	b := &broker{conn: conn, out: &out}
	if err := b.negotiate(); err != nil {
		return err
	}
	if err := b.askAll(); err != nil {
		return err
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(dir, "kafka-"+version+".txt"), out.Bytes(), 0o644)
}

// broker is a connection to one.
type broker struct {
	conn   net.Conn
	out    io.Writer
	speaks protocol.ApiVersionsResponse
	topic  protocol.UUID
}

// do sends one request and writes down the answer. The connection answers in order.
func (b *broker) do(name string, m protocol.Message, version int16, resp protocol.Message) error {
	client := "answers"
	frame := protocol.NewFrame(protocol.RequestHeader{Key: m.Key(), Version: version, ClientID: &client}, m)
	if _, err := frame.Buffers.WriteTo(b.conn); err != nil {
		return err
	}
	var head [4]byte
	if _, err := io.ReadFull(b.conn, head[:]); err != nil {
		return fmt.Errorf("%s v%d: %w", name, version, err)
	}
	payload := make([]byte, binary.BigEndian.Uint32(head[:]))
	if _, err := io.ReadFull(b.conn, payload); err != nil {
		return err
	}
	_, body, err := protocol.ReadResponseHeader(payload, m.Key(), version)
	if err != nil {
		return err
	}
	_, highest := m.Key().Versions()
	fmt.Fprintf(b.out, "%s %d %x\n", name, min(version, highest), body)
	if resp == nil {
		return nil
	}
	if err := resp.ReadFrom(body, version); err != nil {
		return fmt.Errorf("%s v%d: %w", name, version, err)
	}
	return nil
}

// negotiate learns what the broker speaks, by v0.
func (b *broker) negotiate() error {
	return b.do("ApiVersionsResponse", &protocol.ApiVersionsRequest{}, 0, &b.speaks)
}

// each calls do for every version that broker and package speak.
func (b *broker) each(key protocol.APIKey, do func(version int16) error) error {
	low, high := key.Versions()
	for _, k := range b.speaks.ApiKeys {
		if k.ApiKey != key {
			continue
		}
		for v := max(low, k.MinVersion); v <= min(high, k.MaxVersion); v++ {
			if err := do(v); err != nil {
				return err
			}
		}
	}
	return nil
}

func (b *broker) askAll() error {
	orders, missing := "orders", "no such topic"
	ask := &protocol.ApiVersionsRequest{ClientSoftwareName: "reservoir", ClientSoftwareVersion: "1", NodeID: -1}
	// One that no broker speaks is answered in the form of v0.
	if err := b.do("ApiVersionsResponse", ask, 99, nil); err != nil {
		return err
	}
	err := b.each(protocol.KeyAPIVersions, func(v int16) error {
		return b.do("ApiVersionsResponse", ask, v, new(protocol.ApiVersionsResponse))
	})
	if err != nil {
		return err
	}
	err = b.each(protocol.KeyMetadata, func(v int16) error {
		resp := new(protocol.MetadataResponse)
		err := b.do("MetadataResponse", &protocol.MetadataRequest{
			Topics:                           []protocol.MetadataRequestTopic{{Name: &orders}, {Name: &missing}},
			IncludeTopicAuthorizedOperations: v >= 8, AllowAutoTopicCreation: v < 4,
		}, v, resp)
		if len(resp.Topics) > 0 {
			b.topic = resp.Topics[0].TopicID
		}
		return err
	})
	if err != nil {
		return err
	}
	err = b.each(protocol.KeyInitProducerID, func(v int16) error {
		return b.do("InitProducerIdResponse", &protocol.InitProducerIdRequest{ProducerID: -1, ProducerEpoch: -1}, v, new(protocol.InitProducerIdResponse))
	})
	if err != nil {
		return err
	}
	err = b.each(protocol.KeyProduce, func(v int16) error {
		// One batch that is right, one with a damaged checksum, one for a partition that is not there.
		damaged := batch()
		damaged[len(damaged)-1]++
		return b.do("ProduceResponse", &protocol.ProduceRequest{Acks: -1, TimeoutMs: 5000, Topics: []protocol.ProduceRequestTopic{{
			Name: orders, ID: b.topic, Partitions: []protocol.ProduceRequestPartition{{Index: 0, Records: batch()}, {Index: 1, Records: damaged}, {Index: 77, Records: batch()}},
		}}}, v, new(protocol.ProduceResponse))
	})
	if err != nil {
		return err
	}
	err = b.each(protocol.KeyListOffsets, func(v int16) error {
		return b.do("ListOffsetsResponse", &protocol.ListOffsetsRequest{ReplicaID: -1, Topics: []protocol.ListOffsetsRequestTopic{{
			Name: orders, Partitions: []protocol.ListOffsetsRequestPartition{{PartitionIndex: 0, CurrentLeaderEpoch: -1, Timestamp: protocol.EarliestTimestamp}, {PartitionIndex: 77, CurrentLeaderEpoch: -1}},
		}}}, v, new(protocol.ListOffsetsResponse))
	})
	if err != nil {
		return err
	}
	return b.each(protocol.KeyFindCoordinator, func(v int16) error {
		return b.do("FindCoordinatorResponse", &protocol.FindCoordinatorRequest{CoordinatorKey: "g", CoordinatorKeys: []string{"g", "h"}}, v, new(protocol.FindCoordinatorResponse))
	})
}

// batch is a record batch of one record.
func batch() []byte {
	value := []byte("value")
	b := make([]byte, protocol.BatchHeaderSize)
	b = protocol.AppendRecord(b, protocol.RecordBodySize(0, 0, nil, value, nil), 0, 0, nil, value, nil)
	now := time.Now().UnixMilli()
	protocol.StampBatch([][]byte{b}, len(b), protocol.BatchStamp{
		Count: 1, BaseTimestamp: now, MaxTimestamp: now, Producer: protocol.NoProducerID, BaseSequence: -1,
	})
	return b
}
