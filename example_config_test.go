package producer_test

import (
	"errors"
	"fmt"
	"time"

	"github.com/kafka-reservoir/producer"
)

// How do I use the configuration of a Java producer?
func ExampleFromProperties() {
	cfg, err := producer.FromProperties(map[string]string{
		"bootstrap.servers": "kafka-1:9092,kafka-2:9092",
		"linger.ms":         "0", // not the default, but none
		"compression.type":  "zstd",
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(cfg.BootstrapServers, cfg.Linger == producer.NoLinger, cfg.Compression)
	// Output: [kafka-1:9092 kafka-2:9092] true zstd
}

// What does a wrong configuration look like?
func ExampleConfig_Validate() {
	err := producer.Config{
		BootstrapServers: []string{"kafka-1"},
		DeliveryTimeout:  10 * time.Second,
		MaxInFlight:      6,
	}.Validate()
	fmt.Println(err)
	var first *producer.ConfigError
	fmt.Println(errors.As(err, &first), first.Field, first.Property)
	// Output:
	// config: BootstrapServers (bootstrap.servers): "kafka-1" is not host:port
	// config: MaxInFlight (max.in.flight.requests.per.connection): must be at most 5 for an idempotent producer, is 6; DisableIdempotence (enable.idempotence=false) allows more
	// config: DeliveryTimeout (delivery.timeout.ms): is 10s, less than Linger (linger.ms) of 5ms and RequestTimeout (request.timeout.ms) of 30s together
	// true BootstrapServers bootstrap.servers
}
