package producer

import (
	"math"
	"time"
)

// longestTime is the longest time that Kafka's protocol and Java's int settings can say.
const longestTime = math.MaxInt32 * time.Millisecond

// Validate reports everything that is wrong with c: each complaint is a [*ConfigError] that names the field
// and its Java name, all of them joined. [New] calls it.
func (c Config) Validate() error {
	var bad complaints
	c.validateBootstrap(&bad)
	c.validateNames(&bad)
	c.validateEnums(&bad)
	c.validateDurations(&bad)
	c.validateSizes(&bad)
	c.validateCompression(&bad)
	c.validatePartitioner(&bad)
	c.validateIdempotence(&bad)
	c.validateDelivery(&bad)
	c.validateLater(&bad)
	return bad.join()
}

func (c Config) validateBootstrap(bad *complaints) {
	const field, property = "BootstrapServers", "bootstrap.servers"
	if len(c.BootstrapServers) == 0 {
		bad.add(field, property, "at least one address is needed, as host:port")
	}
	seen := map[string]bool{}
	for _, a := range c.BootstrapServers {
		if _, _, err := parseAddress(a); err != nil {
			bad.add(field, property, "%q %v", a, err)
		} else if seen[a] {
			bad.add(field, property, "%q is there twice", a)
		}
		seen[a] = true
	}
}

// validateNames: the protocol gives strings a length of 16 bits.
func (c Config) validateNames(bad *complaints) {
	for _, n := range []struct{ field, property, value string }{
		{"ClientID", "client.id", c.ClientID},
		{"ClientRack", "client.rack", c.ClientRack},
		{"TransactionalID", "transactional.id", c.TransactionalID},
	} {
		if len(n.value) > math.MaxInt16 {
			bad.add(n.field, n.property, "is %d bytes long, the protocol allows %d", len(n.value), math.MaxInt16)
		}
	}
}

func (c Config) validateEnums(bad *complaints) {
	if c.Acks < AcksAll || c.Acks > AcksNone {
		bad.add("Acks", "acks", "must be AcksAll, AcksLeader or AcksNone, is %d", c.Acks)
	}
	if c.Compression < None || c.Compression > Zstd {
		bad.add("Compression", "compression.type", "must be None, Gzip, Snappy, LZ4 or Zstd, is %d", c.Compression)
	}
	if c.MetadataRecovery < Rebootstrap || c.MetadataRecovery > NoRebootstrap {
		bad.add("MetadataRecovery", "metadata.recovery.strategy", "must be Rebootstrap or NoRebootstrap, is %d", c.MetadataRecovery)
	}
}

// validateDurations: zero is the default, none the one negative value that has a name.
func (c Config) validateDurations(bad *complaints) {
	for _, d := range []struct {
		field, property string
		value           time.Duration
		none            time.Duration // 0 if there is none
		noneName        string
	}{
		{"DeliveryTimeout", "delivery.timeout.ms", c.DeliveryTimeout, 0, ""},
		{"RequestTimeout", "request.timeout.ms", c.RequestTimeout, 0, ""},
		{"MaxBlock", "max.block.ms", c.MaxBlock, NoMaxBlock, "NoMaxBlock"},
		{"Linger", "linger.ms", c.Linger, NoLinger, "NoLinger"},
		{"PartitionerAvailabilityTimeout", "partitioner.availability.timeout.ms", c.PartitionerAvailabilityTimeout, 0, ""},
		{"RetryBackoff", "retry.backoff.ms", c.RetryBackoff, 0, ""},
		{"RetryBackoffMax", "retry.backoff.max.ms", c.RetryBackoffMax, 0, ""},
		{"ReconnectBackoff", "reconnect.backoff.ms", c.ReconnectBackoff, 0, ""},
		{"ReconnectBackoffMax", "reconnect.backoff.max.ms", c.ReconnectBackoffMax, 0, ""},
		{"ConnectionSetupTimeout", "socket.connection.setup.timeout.ms", c.ConnectionSetupTimeout, 0, ""},
		{"ConnectionSetupTimeoutMax", "socket.connection.setup.timeout.max.ms", c.ConnectionSetupTimeoutMax, 0, ""},
		{"ConnectionsMaxIdle", "connections.max.idle.ms", c.ConnectionsMaxIdle, NoMaxIdle, "NoMaxIdle"},
		{"MetadataMaxAge", "metadata.max.age.ms", c.MetadataMaxAge, 0, ""},
		{"MetadataMaxIdle", "metadata.max.idle.ms", c.MetadataMaxIdle, 0, ""},
		{"MetadataRecoveryRebootstrapTrigger", "metadata.recovery.rebootstrap.trigger.ms", c.MetadataRecoveryRebootstrapTrigger, 0, ""},
		{"TransactionTimeout", "transaction.timeout.ms", c.TransactionTimeout, 0, ""},
		{"MetricsSampleWindow", "metrics.sample.window.ms", c.MetricsSampleWindow, 0, ""},
	} {
		switch {
		case d.value < 0 && d.none == 0:
			bad.add(d.field, d.property, "must not be negative, is %v", d.value)
		case d.value < 0 && d.value != d.none:
			bad.add(d.field, d.property, "must not be negative, is %v; %s means none", d.value, d.noneName)
		case d.value > 0 && d.value < time.Millisecond && d.field != "Linger":
			// A bare number meant as milliseconds is what this is, nearly always.
			bad.add(d.field, d.property, "is %v; it must be at least 1ms (a time.Duration counts nanoseconds)", d.value)
		}
	}
	// These go on the wire as milliseconds in 32 bits, or are added to one that does.
	for _, d := range []struct {
		field, property string
		value           time.Duration
	}{
		{"DeliveryTimeout", "delivery.timeout.ms", c.DeliveryTimeout},
		{"RequestTimeout", "request.timeout.ms", c.RequestTimeout},
		{"Linger", "linger.ms", c.Linger},
		{"TransactionTimeout", "transaction.timeout.ms", c.TransactionTimeout},
	} {
		if d.value > longestTime {
			bad.add(d.field, d.property, "is %v, more than %v", d.value, longestTime)
		}
	}
	if c.MetadataMaxIdle > 0 && c.MetadataMaxIdle < 5*time.Second {
		bad.add("MetadataMaxIdle", "metadata.max.idle.ms", "must be at least 5s, is %v", c.MetadataMaxIdle)
	}
}

// minBufferMemory is one slab: less could not hold an ordinary batch.
const minBufferMemory = 16 << 10

func (c Config) validateSizes(bad *complaints) {
	for _, n := range []struct {
		field, property string
		value           int64
		none            int64 // 0 if there is none
		noneName        string
	}{
		{"Retries", "retries", int64(c.Retries), NoRetries, "NoRetries"},
		{"MaxInFlight", "max.in.flight.requests.per.connection", int64(c.MaxInFlight), 0, ""},
		{"BatchSize", "batch.size", int64(c.BatchSize), 0, ""},
		{"BufferMemory", "buffer.memory", c.BufferMemory, 0, ""},
		{"MaxRequestSize", "max.request.size", int64(c.MaxRequestSize), 0, ""},
		{"PartitionerStickyBytes", "", int64(c.PartitionerStickyBytes), 0, ""},
		{"SendBuffer", "send.buffer.bytes", int64(c.SendBuffer), OSDefault, "OSDefault"},
		{"ReceiveBuffer", "receive.buffer.bytes", int64(c.ReceiveBuffer), OSDefault, "OSDefault"},
		{"MaxResponseSize", "", int64(c.MaxResponseSize), 0, ""},
		{"MetricsNumSamples", "metrics.num.samples", int64(c.MetricsNumSamples), 0, ""},
	} {
		switch {
		case n.value < 0 && n.none == 0:
			bad.add(n.field, n.property, "must not be negative, is %d", n.value)
		case n.value < 0 && n.value != n.none:
			bad.add(n.field, n.property, "must not be negative, is %d; the only exception is %s", n.value, n.noneName)
		case n.value > math.MaxInt32 && n.field != "BufferMemory":
			bad.add(n.field, n.property, "is %d, more than %d", n.value, math.MaxInt32)
		}
	}
	if c.BufferMemory > 0 && c.BufferMemory < minBufferMemory {
		bad.add("BufferMemory", "buffer.memory", "must be at least %d, is %d", minBufferMemory, c.BufferMemory)
	}
}

func (c Config) validateCompression(bad *complaints) {
	if c.CompressionLevel == 0 {
		return
	}
	switch c.Compression {
	case None, Snappy:
		bad.add("CompressionLevel", "compression."+c.Compression.String()+".level", "%v has no levels, is %d", c.Compression, c.CompressionLevel)
	case Gzip, LZ4, Zstd:
		property := "compression." + c.Compression.String() + ".level"
		low, high := levels(c.Compression)
		if c.CompressionLevel < low || c.CompressionLevel > high {
			bad.add("CompressionLevel", property, "must be %d to %d, is %d", low, high, c.CompressionLevel)
		}
	}
}

// levels are the ones Java allows.
func levels(c Compression) (low, high int) {
	switch c {
	case Gzip:
		return 1, 9
	case LZ4:
		return 1, 17
	case Zstd:
		return -131072, 22
	}
	return 0, 0
}

func (c Config) validatePartitioner(bad *complaints) {
	if c.PartitionerAvailabilityTimeout > 0 && c.DisableAdaptivePartitioning {
		bad.add("PartitionerAvailabilityTimeout", "partitioner.availability.timeout.ms",
			"needs adaptive partitioning (partitioner.adaptive.partitioning.enable), which is disabled")
	}
	if c.PartitionerRackAware && c.ClientRack == "" {
		bad.add("PartitionerRackAware", "partitioner.rack.aware", "needs ClientRack (client.rack)")
	}
}

// validateIdempotence holds the rules between acks, retries, in-flight requests and what was asked for explicitly.
func (c Config) validateIdempotence(bad *complaints) {
	if c.explicit.idempotence && !c.DisableIdempotence {
		const field, property = "DisableIdempotence", "enable.idempotence"
		if c.Acks != AcksAll {
			bad.add(field, property, "enable.idempotence=true needs acks=all, which is %v", c.Acks)
		}
		if c.Retries == NoRetries {
			bad.add(field, property, "enable.idempotence=true needs retries, which is 0")
		}
	}
	// As in Java, Acks and Retries do not excuse this: who did not disable idempotence may turn it on by
	// correcting them.
	if !c.DisableIdempotence && c.MaxInFlight > idempotentMaxInFlight {
		bad.add("MaxInFlight", "max.in.flight.requests.per.connection",
			"must be at most %d for an idempotent producer, is %d; DisableIdempotence (enable.idempotence=false) allows more",
			idempotentMaxInFlight, c.MaxInFlight)
	}
	if c.TransactionalID == "" {
		return
	}
	const field, property = "TransactionalID", "transactional.id"
	switch {
	case c.DisableIdempotence:
		bad.add(field, property, "needs idempotence, which DisableIdempotence (enable.idempotence) turns off")
	case c.Acks != AcksAll:
		bad.add(field, property, "needs idempotence, which Acks (acks) of %v turns off", c.Acks)
	case c.Retries == NoRetries:
		bad.add(field, property, "needs idempotence, which NoRetries (retries=0) turns off")
	}
}

func (c Config) validateDelivery(bad *complaints) {
	d := c.withDefaults()
	least := max(d.Linger, 0) + d.RequestTimeout
	if c.DeliveryTimeout > 0 && c.DeliveryTimeout < least {
		bad.add("DeliveryTimeout", "delivery.timeout.ms",
			"is %v, less than Linger (linger.ms) of %v and RequestTimeout (request.timeout.ms) of %v together",
			c.DeliveryTimeout, max(d.Linger, 0), d.RequestTimeout)
	}
}

// validateLater refuses what has a field and is not there yet.
func (c Config) validateLater(bad *complaints) {
	if c.TransactionalID != "" {
		bad.add("TransactionalID", "transactional.id", "transactions are not supported by this release")
	} else if c.TransactionTimeout != 0 {
		bad.add("TransactionTimeout", "transaction.timeout.ms", "is given without TransactionalID (transactional.id)")
	}
	if c.TLS != nil {
		bad.add("TLS", "security.protocol", "TLS is not supported by this release")
	}
	if c.SASL != nil {
		bad.add("SASL", "sasl.mechanism", "SASL is not supported by this release")
	}
	if c.AllowPlaintextCredentials && c.SASL == nil {
		bad.add("AllowPlaintextCredentials", "security.protocol", "is given without SASL (sasl.mechanism)")
	}
}
