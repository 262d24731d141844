package producer

import (
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/kafka-reservoir/producer/partitioner"
)

// property is how a Java property gets into a Config.
type property struct {
	field string
	set   func(c *Config, value string) error
	level Compression // the codec whose level it is, instead of set
}

// javaProperties are those that mean something here.
var javaProperties = map[string]property{
	"bootstrap.servers": {"BootstrapServers", func(c *Config, v string) error {
		for a := range strings.SplitSeq(v, ",") {
			if a = strings.TrimSpace(a); a != "" {
				c.BootstrapServers = append(c.BootstrapServers, a)
			}
		}
		return nil
	}, None},
	"bootstrap.resolve.timeout.ms": {"DeferBootstrapResolve", func(c *Config, v string) error {
		n, err := parseInt(v, 0, math.MaxInt64)
		c.DeferBootstrapResolve = n > 0
		return err
	}, None},
	"client.dns.lookup": {"", func(_ *Config, v string) error {
		switch v {
		case "use_all_dns_ips":
			return nil
		case "resolve_canonical_bootstrap_servers_only":
			return fmt.Errorf("%s is not supported: it exists for Kerberos", v)
		}
		return fmt.Errorf("must be use_all_dns_ips, is %q", v)
	}, None},
	"client.id":   {"ClientID", func(c *Config, v string) error { c.ClientID = v; return nil }, None},
	"client.rack": {"ClientRack", func(c *Config, v string) error { c.ClientRack = v; return nil }, None},

	"acks": enum("Acks", func(c *Config) *Acks { return &c.Acks }, map[string]Acks{
		"all": AcksAll, "-1": AcksAll, "1": AcksLeader, "0": AcksNone,
	}),
	"enable.idempotence": {"DisableIdempotence", func(c *Config, v string) error {
		on, err := parseBool(v)
		c.DisableIdempotence = !on && err == nil
		c.explicit.idempotence = on
		return err
	}, None},
	"retries":                               integer("Retries", func(c *Config) *int { return &c.Retries }, 0, NoRetries),
	"max.in.flight.requests.per.connection": integer("MaxInFlight", func(c *Config) *int { return &c.MaxInFlight }, 1, 0),
	"delivery.timeout.ms":                   millis("DeliveryTimeout", func(c *Config) *time.Duration { return &c.DeliveryTimeout }, 1, 0),
	"request.timeout.ms":                    millis("RequestTimeout", func(c *Config) *time.Duration { return &c.RequestTimeout }, 1, 0),
	"max.block.ms":                          millis("MaxBlock", func(c *Config) *time.Duration { return &c.MaxBlock }, 0, NoMaxBlock),
	"linger.ms":                             millis("Linger", func(c *Config) *time.Duration { return &c.Linger }, 0, NoLinger),
	"batch.size":                            integer("BatchSize", func(c *Config) *int { return &c.BatchSize }, 0, 1), // 0 is one record per batch
	"buffer.memory": {"BufferMemory", func(c *Config, v string) (err error) {
		c.BufferMemory, err = parseInt(v, 1, math.MaxInt64)
		return err
	}, None},
	"buffer.memory.allocation.strategy": {"", func(_ *Config, v string) error {
		if v != "full" && v != "incremental" {
			return fmt.Errorf("must be full or incremental, is %q", v)
		}
		return nil // batches always grow in pieces
	}, None},
	"max.request.size": integer("MaxRequestSize", func(c *Config) *int { return &c.MaxRequestSize }, 1, 0),

	"compression.type": enum("Compression", func(c *Config) *Compression { return &c.Compression }, map[string]Compression{
		"none": None, "gzip": Gzip, "snappy": Snappy, "lz4": LZ4, "zstd": Zstd,
	}),
	"compression.gzip.level": {"CompressionLevel", nil, Gzip},
	"compression.lz4.level":  {"CompressionLevel", nil, LZ4},
	"compression.zstd.level": {"CompressionLevel", nil, Zstd},

	"partitioner.class": {"Partitioner", func(c *Config, v string) error {
		switch v {
		case "", "null":
			return nil
		case "org.apache.kafka.clients.producer.RoundRobinPartitioner":
			c.Partitioner = new(partitioner.RoundRobin)
			return nil
		}
		return fmt.Errorf("%s is a Java class: write a partitioner.Partitioner and set Partitioner to it", v)
	}, None},
	"partitioner.ignore.keys":                  boolean("PartitionerIgnoreKeys", func(c *Config) *bool { return &c.PartitionerIgnoreKeys }, true),
	"partitioner.adaptive.partitioning.enable": boolean("DisableAdaptivePartitioning", func(c *Config) *bool { return &c.DisableAdaptivePartitioning }, false),
	"partitioner.availability.timeout.ms":      millis("PartitionerAvailabilityTimeout", func(c *Config) *time.Duration { return &c.PartitionerAvailabilityTimeout }, 0, 0),
	"partitioner.rack.aware":                   boolean("PartitionerRackAware", func(c *Config) *bool { return &c.PartitionerRackAware }, true),

	// A back-off of 0, which Java allows, would retry in a busy loop.
	"retry.backoff.ms":                       millis("RetryBackoff", func(c *Config) *time.Duration { return &c.RetryBackoff }, 1, 0),
	"retry.backoff.max.ms":                   millis("RetryBackoffMax", func(c *Config) *time.Duration { return &c.RetryBackoffMax }, 1, 0),
	"reconnect.backoff.ms":                   millis("ReconnectBackoff", func(c *Config) *time.Duration { return &c.ReconnectBackoff }, 1, 0),
	"reconnect.backoff.max.ms":               millis("ReconnectBackoffMax", func(c *Config) *time.Duration { return &c.ReconnectBackoffMax }, 1, 0),
	"socket.connection.setup.timeout.ms":     millis("ConnectionSetupTimeout", func(c *Config) *time.Duration { return &c.ConnectionSetupTimeout }, 1, 0),
	"socket.connection.setup.timeout.max.ms": millis("ConnectionSetupTimeoutMax", func(c *Config) *time.Duration { return &c.ConnectionSetupTimeoutMax }, 1, 0),
	"connections.max.idle.ms": {"ConnectionsMaxIdle", func(c *Config, v string) error {
		if strings.HasPrefix(v, "-") {
			_, err := parseInt(v, math.MinInt64, -1)
			c.ConnectionsMaxIdle = NoMaxIdle
			return err
		}
		return setMillis(&c.ConnectionsMaxIdle, v, 1, 0)
	}, None},
	"send.buffer.bytes":    integer("SendBuffer", func(c *Config) *int { return &c.SendBuffer }, -1, 0),
	"receive.buffer.bytes": integer("ReceiveBuffer", func(c *Config) *int { return &c.ReceiveBuffer }, -1, 0),

	"metadata.max.age.ms":  millis("MetadataMaxAge", func(c *Config) *time.Duration { return &c.MetadataMaxAge }, 1, 0),
	"metadata.max.idle.ms": millis("MetadataMaxIdle", func(c *Config) *time.Duration { return &c.MetadataMaxIdle }, 5000, 0),
	"metadata.recovery.strategy": {"MetadataRecovery", func(c *Config, v string) error {
		switch strings.ToLower(v) {
		case "rebootstrap":
			c.MetadataRecovery = Rebootstrap
		case "none":
			c.MetadataRecovery = NoRebootstrap
		default:
			return fmt.Errorf("must be rebootstrap or none, is %q", v)
		}
		return nil
	}, None},
	// 0 is at once; a millisecond is as good.
	"metadata.recovery.rebootstrap.trigger.ms": millis("MetadataRecoveryRebootstrapTrigger",
		func(c *Config) *time.Duration { return &c.MetadataRecoveryRebootstrapTrigger }, 0, time.Millisecond),
	"metadata.cluster.check.enable": boolean("DisableClusterCheck", func(c *Config) *bool { return &c.DisableClusterCheck }, false),

	"transactional.id": {"TransactionalID", func(c *Config, v string) error {
		if v == "" {
			return errors.New("must not be empty")
		}
		c.TransactionalID = v
		return nil
	}, None},
	"transaction.timeout.ms": millis("TransactionTimeout", func(c *Config) *time.Duration { return &c.TransactionTimeout }, 1, 0),
	"transaction.two.phase.commit.enable": {"", func(_ *Config, v string) error {
		on, err := parseBool(v)
		if on {
			return errors.New("two-phase commit is not supported by this release")
		}
		return err
	}, None},

	"security.protocol": {"TLS", func(_ *Config, v string) error {
		switch strings.ToUpper(v) {
		case "PLAINTEXT":
			return nil
		case "SSL":
			return errors.New("SSL: TLS is not supported by this release")
		case "SASL_SSL", "SASL_PLAINTEXT":
			return fmt.Errorf("%s: SASL is not supported by this release", strings.ToUpper(v))
		}
		return fmt.Errorf("must be PLAINTEXT, SSL, SASL_PLAINTEXT or SASL_SSL, is %q", v)
	}, None},

	"enable.metrics.push": {"", func(_ *Config, v string) error {
		on, err := parseBool(v)
		if on {
			return errors.New("client telemetry (KIP-714) is not supported by this release")
		}
		return err
	}, None},
	"metrics.num.samples":      integer("MetricsNumSamples", func(c *Config) *int { return &c.MetricsNumSamples }, 1, 0),
	"metrics.sample.window.ms": millis("MetricsSampleWindow", func(c *Config) *time.Duration { return &c.MetricsSampleWindow }, 1, 0),
	"metrics.recording.level": {"", func(_ *Config, v string) error {
		switch strings.ToUpper(v) {
		case "INFO", "DEBUG", "TRACE":
			return nil // everything is always recorded
		}
		return fmt.Errorf("must be INFO, DEBUG or TRACE, is %q", v)
	}, None},

	"serializer.encoding":       {"", utf8Only, None},
	"key.serializer.encoding":   {"", utf8Only, None},
	"value.serializer.encoding": {"", utf8Only, None},
}

// millis is a property in milliseconds; zero is what a 0 becomes.
func millis(field string, at func(*Config) *time.Duration, least int64, zero time.Duration) property {
	return property{field: field, set: func(c *Config, v string) error { return setMillis(at(c), v, least, zero) }}
}

func setMillis(d *time.Duration, v string, least int64, zero time.Duration) error {
	n, err := parseInt(v, least, math.MaxInt64)
	if err != nil {
		return err
	}
	// What is longer than a Duration can say (292 years) is as good as that.
	*d = time.Duration(min(n, math.MaxInt64/int64(time.Millisecond))) * time.Millisecond
	if n == 0 {
		*d = zero
	}
	return nil
}

// integer is a property in 32 bits; zero is what a 0 becomes, refused where least is -1.
func integer(field string, at func(*Config) *int, least int64, zero int) property {
	return property{field: field, set: func(c *Config, v string) error {
		n, err := parseInt(v, least, math.MaxInt32)
		if err != nil {
			return err
		}
		if n == 0 {
			if n = int64(zero); n == 0 {
				return errors.New("must not be 0; -1 leaves it to the operating system")
			}
		}
		*at(c) = int(n)
		return nil
	}}
}

// boolean is a property that sets a field to true when it has the value when.
func boolean(field string, at func(*Config) *bool, when bool) property {
	return property{field: field, set: func(c *Config, v string) error {
		on, err := parseBool(v)
		*at(c) = err == nil && on == when
		return err
	}}
}

// enum is a property with a few values, spelt exactly so.
func enum[T any](field string, at func(*Config) *T, values map[string]T) property {
	return property{field: field, set: func(c *Config, v string) error {
		x, ok := values[v]
		if !ok {
			return fmt.Errorf("must be one of %s, is %q", strings.Join(slices.Sorted(maps.Keys(values)), ", "), v)
		}
		*at(c) = x
		return nil
	}}
}

func utf8Only(_ *Config, v string) error {
	if s := strings.ToUpper(v); s != "UTF-8" && s != "UTF8" {
		return fmt.Errorf("%q is not supported: String sends a Go string as it is, which is UTF-8; use a SerializerFunc for other encodings", v)
	}
	return nil
}

// parseLevel reads a codec's level; what Java has as the default (gzip's -1) becomes 0.
func parseLevel(codec Compression, v string) (int, error) {
	low, high := levels(codec)
	if codec == Gzip && v == "-1" {
		return 0, nil
	}
	n, err := parseInt(v, int64(low), int64(high))
	return int(n), err
}

func parseInt(v string, least, most int64) (int64, error) {
	n, err := strconv.ParseInt(v, 10, 64)
	switch {
	case err != nil:
		return 0, fmt.Errorf("must be a number, is %q", v)
	case n < least:
		return 0, fmt.Errorf("must be at least %d, is %d", least, n)
	case n > most:
		return 0, fmt.Errorf("must be at most %d, is %d", most, n)
	}
	return n, nil
}

func parseBool(v string) (bool, error) {
	switch strings.ToLower(v) {
	case "true":
		return true, nil
	case "false":
		return false, nil
	}
	return false, fmt.Errorf("must be true or false, is %q", v)
}
