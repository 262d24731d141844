package producer

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"net"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"github.com/kafka-reservoir/producer/protocol"
)

// Defaults, Java's except where the field's comment gives a reason.
const (
	defaultMaxInFlight     = 5
	defaultDeliveryTimeout = 2 * time.Minute
	defaultRequestTimeout  = 30 * time.Second
	defaultMaxBlock        = 60 * time.Second
	defaultLinger          = 5 * time.Millisecond
	defaultBatchSize       = 512 << 10
	defaultBufferMemory    = 32 << 20
	defaultMaxRequestSize  = 1 << 20
	defaultStickyBytes     = 64 << 10
	defaultMaxResponseSize = 16 << 20
)

// idempotentMaxInFlight is how many batches of a partition a broker remembers the sequence numbers of.
const idempotentMaxInFlight = 5

// settings is a Config that the engine can use: nothing is unset, a zero is a zero ("none"), everything was
// checked. Only resolve makes one.
type settings struct {
	Config

	bootstrap  []protocol.Node // BootstrapServers, with the ids -1, -2, …
	idempotent bool
	foreign    bool     // the engine calls code of the application's: a Logger, a Trace hook, a connection
	notes      []string // what was adjusted or follows from something else; for the log
}

// clientIDs numbers the producers of the process that have no ClientID.
var clientIDs atomic.Int64

// resolve checks c and fills in what is unset. A Config that is refused uses up no client id.
func (c Config) resolve() (settings, error) {
	if err := c.Validate(); err != nil {
		return settings{}, err
	}
	s := settings{Config: c.withDefaults(), idempotent: c.idempotent()}
	for i, a := range c.BootstrapServers {
		host, port, _ := parseAddress(a)
		s.bootstrap = append(s.bootstrap, protocol.Node{ID: int32(-1 - i), Host: host, Port: port})
	}
	s.BootstrapServers = slices.Clone(c.BootstrapServers)
	if s.ClientID == "" {
		s.ClientID = fmt.Sprintf("producer-%d", clientIDs.Add(1))
	}
	s.foreign = s.Logger != nil || s.Trace != nil || s.Dial != nil
	if s.Logger == nil {
		s.Logger = slog.New(slog.DiscardHandler)
	}
	if s.Trace == nil {
		s.Trace = new(Trace)
	}
	s.notes = c.notes()

	// From here on zero is zero: nothing may fill in defaults again.
	s.Linger = max(s.Linger, 0)
	s.MaxBlock = max(s.MaxBlock, 0)
	s.ConnectionsMaxIdle = max(s.ConnectionsMaxIdle, 0)
	s.Retries = max(s.Retries, 0)
	return s, nil
}

// withDefaults is c with its defaults in place of zeros; "none" stays what it is, so that a second call changes nothing.
func (c Config) withDefaults() Config {
	if c.ClientID == "" && c.TransactionalID != "" {
		c.ClientID = "producer-" + c.TransactionalID
	}
	or(&c.Retries, math.MaxInt32)
	or(&c.MaxInFlight, defaultMaxInFlight)
	or(&c.RequestTimeout, defaultRequestTimeout)
	or(&c.MaxBlock, defaultMaxBlock)
	or(&c.Linger, defaultLinger)
	or(&c.DeliveryTimeout, min(max(defaultDeliveryTimeout, max(c.Linger, 0)+c.RequestTimeout), longestTime))
	or(&c.MaxRequestSize, defaultMaxRequestSize)
	or(&c.BatchSize, defaultBatchSize)
	c.BatchSize = min(c.BatchSize, c.MaxRequestSize)
	or(&c.BufferMemory, defaultBufferMemory)
	or(&c.PartitionerStickyBytes, min(defaultStickyBytes, c.BatchSize))

	or(&c.RetryBackoffMax, time.Second)
	or(&c.RetryBackoff, 100*time.Millisecond)
	c.RetryBackoff = min(c.RetryBackoff, c.RetryBackoffMax)
	if c.ReconnectBackoff > 0 {
		or(&c.ReconnectBackoffMax, c.ReconnectBackoff) // what was set alone does not grow
	}
	or(&c.ReconnectBackoffMax, time.Second)
	or(&c.ReconnectBackoff, 50*time.Millisecond)
	c.ReconnectBackoff = min(c.ReconnectBackoff, c.ReconnectBackoffMax)
	or(&c.ConnectionSetupTimeoutMax, 30*time.Second)
	or(&c.ConnectionSetupTimeout, 10*time.Second)
	c.ConnectionSetupTimeout = min(c.ConnectionSetupTimeout, c.ConnectionSetupTimeoutMax)
	or(&c.ConnectionsMaxIdle, 9*time.Minute)
	or(&c.SendBuffer, OSDefault)
	or(&c.ReceiveBuffer, OSDefault)
	or(&c.MaxResponseSize, defaultMaxResponseSize)

	or(&c.MetadataMaxAge, 5*time.Minute)
	or(&c.MetadataMaxIdle, 5*time.Minute)
	or(&c.MetadataRecoveryRebootstrapTrigger, 5*time.Minute)
	if c.TransactionalID != "" {
		or(&c.TransactionTimeout, time.Minute)
	}
	or(&c.MetricsNumSamples, 2)
	or(&c.MetricsSampleWindow, 30*time.Second)
	if c.TLS != nil {
		c.TLS = c.TLS.Clone()
	}
	return c
}

// or sets *v to def where it is unset.
func or[T comparable](v *T, def T) {
	var unset T
	if *v == unset {
		*v = def
	}
}

// idempotent reports whether the producer gets a producer id: not where that was disabled, nor where Acks or
// Retries rule it out.
func (c Config) idempotent() bool {
	return !c.DisableIdempotence && c.Acks == AcksAll && c.Retries != NoRetries
}

// notes says what withDefaults and idempotent made of c that its author may not expect.
func (c Config) notes() []string {
	var notes []string
	note := func(format string, args ...any) { notes = append(notes, fmt.Sprintf(format, args...)) }
	d := c.withDefaults()
	if !c.DisableIdempotence && c.Acks != AcksAll {
		note("idempotence is off, because Acks (acks) is %v", c.Acks)
	}
	if !c.DisableIdempotence && c.Retries == NoRetries {
		note("idempotence is off, because Retries (retries) is NoRetries")
	}
	if c.DeliveryTimeout == 0 && d.DeliveryTimeout > defaultDeliveryTimeout {
		note("DeliveryTimeout (delivery.timeout.ms) is raised to %v, the sum of Linger and RequestTimeout", d.DeliveryTimeout)
	}
	if c.BatchSize > d.MaxRequestSize {
		note("BatchSize (batch.size) is lowered to MaxRequestSize (max.request.size), %d", d.MaxRequestSize)
	}
	for _, b := range []struct {
		field, property string
		set, used       time.Duration
	}{
		{"RetryBackoff", "retry.backoff.ms", c.RetryBackoff, d.RetryBackoff},
		{"ReconnectBackoff", "reconnect.backoff.ms", c.ReconnectBackoff, d.ReconnectBackoff},
		{"ConnectionSetupTimeout", "socket.connection.setup.timeout.ms", c.ConnectionSetupTimeout, d.ConnectionSetupTimeout},
	} {
		if b.set > b.used {
			note("%s (%s) of %v is above its maximum: it is always %v", b.field, b.property, b.set, b.used)
		}
	}
	if c.Partitioner != nil && (c.PartitionerIgnoreKeys || c.DisableAdaptivePartitioning || c.PartitionerAvailabilityTimeout > 0) {
		note("the settings of the built-in partitioner only apply to records that the Partitioner leaves to it")
	}
	return notes
}

// parseAddress reads host:port, with IPv6 hosts in brackets. As in Java, a listener's name may stand in front
// (PLAINTEXT://host:port) and means nothing.
func parseAddress(s string) (host string, port int32, err error) {
	if _, rest, ok := strings.Cut(s, "://"); ok {
		s = rest
	}
	if strings.ContainsAny(s, ", \t") {
		return "", 0, errors.New("is not one address; give each its own element")
	}
	h, p, err := net.SplitHostPort(s)
	if err != nil {
		if strings.Count(s, ":") > 1 && !strings.Contains(s, "[") {
			return "", 0, errors.New("is not host:port; an IPv6 host needs brackets, as in [::1]:9092")
		}
		return "", 0, errors.New("is not host:port")
	}
	if h == "" {
		return "", 0, errors.New("has no host")
	}
	if strings.ContainsFunc(h, func(r rune) bool {
		return !strings.ContainsRune("-%._:", r) && (r < '0' || r > '9') && (r < 'a' || r > 'z') && (r < 'A' || r > 'Z')
	}) {
		return "", 0, errors.New("has characters that no host name has")
	}
	n, err := strconv.ParseUint(p, 10, 16)
	if err != nil || n == 0 {
		return "", 0, errors.New("has no port between 1 and 65535")
	}
	return h, int32(n), nil
}

// checkBootstrap looks the bootstrap names up, until one resolves. None is a ConfigError that names them all.
// lookup is net.Resolver.LookupHost; nothing is looked up where Dial does so itself, or DeferBootstrapResolve says so.
func (s settings) checkBootstrap(ctx context.Context, lookup func(ctx context.Context, host string) ([]string, error)) error {
	if s.Dial != nil || s.DeferBootstrapResolve {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, s.ConnectionSetupTimeoutMax)
	defer cancel()
	var problems []string
	for _, n := range s.bootstrap {
		_, err := lookup(ctx, n.Host)
		if err == nil {
			return nil
		}
		problems = append(problems, fmt.Sprintf("%s: %v", n.Addr(), err))
	}
	var c complaints
	c.add("BootstrapServers", "bootstrap.servers", "no host name can be resolved: %s", strings.Join(problems, "; "))
	return c.join()
}
