package faultrun

import (
	"time"

	"github.com/kafka-reservoir/producer"
)

// Settings is what the producer's process is told. All faults have the same but for few exceptions.
type Settings struct {
	Brokers         []string
	DeliveryTimeout time.Duration
	Linger          time.Duration
	// Rate is records a second of one sender, Largest the bound of a value in bytes; on average they are half as large.
	Rate    int
	Largest int
	// RetryBackoffMax bounds how far back-offs grow. Zero means the producer's default, a second.
	RetryBackoffMax time.Duration
	// Watch is how long the process looks for callbacks that come after Close.
	Watch time.Duration
}

// bufferMemory is the producer's buffer bound in all runs.
const bufferMemory = 16 << 20

// requestTimeout is the producer's, to which recovery from silence is held.
const requestTimeout = 2 * time.Second

// patient is the delivery timeout of a client that waits until the cluster is well again.
const patient = 30 * time.Second

func defaults() Settings {
	return Settings{
		DeliveryTimeout: patient, Linger: 5 * time.Millisecond, Rate: 2500, Largest: 2000, Watch: 200 * time.Millisecond,
	}
}

// config is the producer's: idempotent, five in flight and 100 ms of base back-off are its defaults.
func (s *Settings) config() producer.Config {
	return producer.Config{
		BootstrapServers: s.Brokers,
		ClientID:         "faultrun",
		BufferMemory:     bufferMemory,
		RequestTimeout:   requestTimeout,
		DeliveryTimeout:  s.DeliveryTimeout,
		Linger:           s.Linger,
		RetryBackoff:     100 * time.Millisecond,
		RetryBackoffMax:  s.RetryBackoffMax,
	}
}
