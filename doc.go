// Package producer sends records to Apache Kafka, in Go alone.
//
// # A first program
//
//	p, err := producer.New(producer.Config{
//		BootstrapServers: []string{"localhost:9092"},
//	}, producer.String(), producer.Bytes())
//	if err != nil {
//		return err
//	}
//	defer p.Close(ctx)
//
//	// Wait for the result …
//	m, err := p.Send(ctx, producer.Record[string, []byte]{Topic: "orders", Key: "42", Value: body}).Wait(ctx)
//
//	// … or be told of it, and go on.
//	p.SendFunc(ctx, producer.Record[string, []byte]{Topic: "orders", Key: "42", Value: body},
//		func(m producer.RecordMetadata, err error) {
//			if err != nil {
//				log.Print(err)
//			}
//		})
//
// # What happens to a record
//
// Send runs the interceptors and the serializers, chooses a partition, and copies the record, in the form it will
// have on the wire, into the open batch of that partition. This is all that happens on the caller's goroutine. It waits
// only for two things: for the topic's metadata, the first time, and for memory, when [Config.BufferMemory] is
// used up. The caller's ctx and [Config.MaxBlock] bound that wait.
//
// One goroutine, the sender, takes the batches that are full, that have waited for [Config.Linger], or that somebody
// is waiting for; packs those of one broker into a request; and has up to [Config.MaxInFlight] requests
// unanswered at each broker. Batches are compressed by goroutines of their own. When the answer is there, the sender
// settles the records' futures and gives the memory back; callbacks run on one more goroutine, so that a slow one
// delays other callbacks but never the sending.
//
// # Guarantees
//
//   - A record gets exactly one result: the broker's acknowledgement, or an error. Every failure is the future's and
//     the callback's, also that of a record that was never accepted.
//   - Accepted records are retried until [Config.DeliveryTimeout], and nothing but that timeout ends one that could still
//     succeed. When it ends one, [MayHaveBeenWritten] says whether it can be in the log nevertheless.
//   - By default the producer is idempotent: no retry writes a record twice or changes the order of records in a
//     partition.
//   - Callbacks run in the order of Send within a partition. There is no order between partitions.
//   - Key, value and headers are copied before Send returns.
//   - Memory is bounded by [Config.BufferMemory]; Send waits, or fails, rather than take more.
//   - [KafkaProducer.Close] waits for what was accepted until its ctx ends. After it returned, nothing of the producer runs.
//
// Flush, Close, and Wait for a later record, called inside a callback, cannot finish before that callback does; they
// return when their ctx ends. Send inside a callback is fine.
//
// # Null and empty
//
// A nil key or value is a null on the wire, and a null value is a tombstone to a compacted topic; one that is empty
// but not nil is empty. The same holds for the value of a [Header].
//
// # Compatibility
//
// This package, package partitioner, package sasl and protocol.ErrorCode with its constants keep their API within
// a major version. The other packages are public to be read, and may change in any release.
package producer
