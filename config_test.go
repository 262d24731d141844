package producer

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"net"
	"os"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/kafka-reservoir/producer/partitioner"
	"github.com/kafka-reservoir/producer/protocol"
	"github.com/kafka-reservoir/producer/sasl"
)

// valid is the least that New accepts.
func valid() Config { return Config{BootstrapServers: []string{"localhost:9092"}} }

// complaintsOf are the ConfigErrors joined in err, by field, or by property where there is none.
func complaintsOf(t *testing.T, err error) map[string]*ConfigError {
	t.Helper()
	all := map[string]*ConfigError{}
	for _, e := range flatten(err) {
		var c *ConfigError
		require.ErrorAs(t, e, &c)
		name := c.Field
		if name == "" {
			name = c.Property
		}
		all[name] = c
	}
	return all
}

func flatten(err error) []error {
	if err == nil {
		return nil
	}
	if j, ok := err.(interface{ Unwrap() []error }); ok {
		var all []error
		for _, e := range j.Unwrap() {
			all = append(all, flatten(e)...)
		}
		return all
	}
	if _, ok := err.(*ConfigError); !ok {
		if inner := errors.Unwrap(err); inner != nil {
			return flatten(inner)
		}
	}
	return []error{err}
}

// FC-132, S-16: a zero Config is Java's safe one: acks=all, idempotent; every default is there.
func TestConfigDefaults(t *testing.T) {
	s, err := valid().resolve()
	require.NoError(t, err)
	assert.True(t, s.idempotent)
	assert.EqualValues(t, -1, s.Acks.wire())
	assert.Empty(t, s.notes)
	assert.Equal(t, []protocol.Node{{ID: -1, Host: "localhost", Port: 9092}}, s.bootstrap)
	assert.NotNil(t, s.Logger)
	assert.NotNil(t, s.Trace)

	want := Config{
		BootstrapServers:                   []string{"localhost:9092"},
		ClientID:                           s.ClientID,
		Retries:                            math.MaxInt32,
		MaxInFlight:                        5,
		DeliveryTimeout:                    2 * time.Minute,
		RequestTimeout:                     30 * time.Second,
		MaxBlock:                           60 * time.Second,
		Linger:                             5 * time.Millisecond,
		BatchSize:                          512 << 10,
		BufferMemory:                       32 << 20,
		MaxRequestSize:                     1 << 20,
		PartitionerStickyBytes:             64 << 10,
		RetryBackoff:                       100 * time.Millisecond,
		RetryBackoffMax:                    time.Second,
		ReconnectBackoff:                   50 * time.Millisecond,
		ReconnectBackoffMax:                time.Second,
		ConnectionSetupTimeout:             10 * time.Second,
		ConnectionSetupTimeoutMax:          30 * time.Second,
		ConnectionsMaxIdle:                 9 * time.Minute,
		SendBuffer:                         OSDefault,
		ReceiveBuffer:                      OSDefault,
		MaxResponseSize:                    16 << 20,
		MetadataMaxAge:                     5 * time.Minute,
		MetadataMaxIdle:                    5 * time.Minute,
		MetadataRecoveryRebootstrapTrigger: 5 * time.Minute,
		MetricsNumSamples:                  2,
		MetricsSampleWindow:                30 * time.Second,
		Logger:                             s.Logger,
		Trace:                              s.Trace,
	}
	assert.Equal(t, want, s.Config)
}

// FC-132: what was set stays, for every field that has a default; and a second withDefaults changes nothing.
func TestConfigDefaultsReplaceNothing(t *testing.T) {
	c := valid()
	v := reflect.ValueOf(&c).Elem()
	for i := range v.NumField() {
		f := v.Field(i)
		if !v.Type().Field(i).IsExported() {
			continue
		}
		switch f.Kind() {
		case reflect.Int, reflect.Int8, reflect.Int64:
			f.SetInt(3) // also durations and enums
		case reflect.String:
			f.SetString("x")
		case reflect.Bool:
			f.SetBool(true)
		}
	}
	d := c.withDefaults()
	assert.Equal(t, c, d)
	assert.Equal(t, valid().withDefaults(), valid().withDefaults().withDefaults())
}

// FC-132: "none" is said by a constant, and becomes a zero only in the settings.
func TestConfigNoneIsNotTheDefault(t *testing.T) {
	c := valid()
	c.Linger, c.MaxBlock, c.ConnectionsMaxIdle = NoLinger, NoMaxBlock, NoMaxIdle
	c.SendBuffer, c.ReceiveBuffer = OSDefault, OSDefault
	c.Retries = NoRetries
	s, err := c.resolve()
	require.NoError(t, err)
	assert.Zero(t, s.Linger)
	assert.Zero(t, s.MaxBlock)
	assert.Zero(t, s.ConnectionsMaxIdle)
	assert.Zero(t, s.Retries)
	// KP-22: the operating system's own buffers.
	assert.Equal(t, -1, s.SendBuffer)
	assert.Equal(t, -1, s.ReceiveBuffer)
	assert.Equal(t, NoLinger, c.withDefaults().Linger, "only the settings turn none into zero")
}

// S-03, KP-10: producers without a client id get distinct ones in sequence.
func TestConfigClientIDs(t *testing.T) {
	a, err := valid().resolve()
	require.NoError(t, err)
	_, err = Config{}.resolve()
	require.Error(t, err, "uses up no number")
	b, err := valid().resolve()
	require.NoError(t, err)
	var n, m int
	_, err = fmt.Sscanf(a.ClientID+" "+b.ClientID, "producer-%d producer-%d", &n, &m)
	require.NoError(t, err)
	assert.Equal(t, n+1, m)

	c := valid()
	c.ClientID = "mine"
	s, err := c.resolve()
	require.NoError(t, err)
	assert.Equal(t, "mine", s.ClientID)
}

// FC-134: any client id goes, byte for byte, unless the protocol has no room for it.
func TestConfigClientIDIsNotInterpreted(t *testing.T) {
	for _, id := range []string{"svc|ws_az=a,b=c", "ünï", strings.Repeat("x", 10_000), strings.Repeat("x", 32767), "a b\x00c"} {
		c := valid()
		c.ClientID, c.ClientRack = id, id
		s, err := c.resolve()
		require.NoError(t, err)
		assert.Equal(t, id, s.ClientID)
		assert.Equal(t, id, s.ClientRack)
	}
	c := valid()
	c.ClientID = strings.Repeat("x", 32768)
	c.ClientRack = c.ClientID
	bad := complaintsOf(t, c.Validate())
	assert.Contains(t, bad["ClientID"].Reason, "32767")
	assert.Contains(t, bad, "ClientRack")
}

// S-04, S-20: all complaints come at once, each with its field and Java name.
func TestConfigReportsEverythingAtOnce(t *testing.T) {
	err := Config{
		BootstrapServers:       []string{"nope", "a:1", "a:1", ""},
		Acks:                   7,
		Compression:            9,
		MetadataRecovery:       -1,
		Retries:                -2,
		MaxInFlight:            -1,
		Linger:                 -5 * time.Millisecond,
		MaxBlock:               -2,
		RequestTimeout:         -1,
		BatchSize:              -1,
		BufferMemory:           100,
		MaxRequestSize:         math.MaxInt32 + 1,
		RetryBackoff:           100, // meant as milliseconds
		MetadataMaxIdle:        time.Second,
		SendBuffer:             -2,
		MetricsNumSamples:      -1,
		PartitionerRackAware:   true,
		PartitionerStickyBytes: -1,
		DeliveryTimeout:        time.Hour * 24 * 365,
	}.Validate()
	require.Error(t, err)
	bad := complaintsOf(t, err)
	for field, property := range map[string]string{
		"BootstrapServers":       "bootstrap.servers",
		"Acks":                   "acks",
		"Compression":            "compression.type",
		"MetadataRecovery":       "metadata.recovery.strategy",
		"Retries":                "retries",
		"MaxInFlight":            "max.in.flight.requests.per.connection",
		"Linger":                 "linger.ms",
		"MaxBlock":               "max.block.ms",
		"RequestTimeout":         "request.timeout.ms",
		"BatchSize":              "batch.size",
		"BufferMemory":           "buffer.memory",
		"MaxRequestSize":         "max.request.size",
		"RetryBackoff":           "retry.backoff.ms",
		"MetadataMaxIdle":        "metadata.max.idle.ms",
		"SendBuffer":             "send.buffer.bytes",
		"MetricsNumSamples":      "metrics.num.samples",
		"PartitionerRackAware":   "partitioner.rack.aware",
		"PartitionerStickyBytes": "",
		"DeliveryTimeout":        "delivery.timeout.ms",
	} {
		if assert.Contains(t, bad, field) {
			assert.Equal(t, property, bad[field].Property)
			assert.Contains(t, err.Error(), bad[field].Error())
		}
	}
	assert.Contains(t, bad["Linger"].Reason, "NoLinger")
	assert.Contains(t, bad["RetryBackoff"].Reason, "nanoseconds")
	assert.Contains(t, err.Error(), `"nope" is not host:port`)
	assert.Contains(t, err.Error(), `"a:1" is there twice`)
	assert.Equal(t, "config: Linger (linger.ms): must not be negative, is -5ms; NoLinger means none", bad["Linger"].Error())
}

// KP-33 in spirit: a negative time is refused for every field, but for the constants that have a name.
func TestConfigRefusesNegativeDurations(t *testing.T) {
	typ := reflect.TypeFor[Config]()
	for i := range typ.NumField() {
		f := typ.Field(i)
		if f.Type != reflect.TypeFor[time.Duration]() {
			continue
		}
		c := valid()
		reflect.ValueOf(&c).Elem().Field(i).SetInt(-2)
		assert.Contains(t, complaintsOf(t, c.Validate()), f.Name)
		named := map[string]bool{"Linger": true, "MaxBlock": true, "ConnectionsMaxIdle": true}
		reflect.ValueOf(&c).Elem().Field(i).SetInt(-1)
		_, refused := complaintsOf(t, c.Validate())[f.Name]
		assert.Equal(t, !named[f.Name], refused, f.Name)
	}
}

// KP-22: -1 leaves a socket buffer to the system, -2 is nothing.
func TestConfigSocketBuffers(t *testing.T) {
	c := valid()
	c.SendBuffer, c.ReceiveBuffer = -2, -2
	bad := complaintsOf(t, c.Validate())
	assert.Contains(t, bad, "SendBuffer")
	assert.Contains(t, bad, "ReceiveBuffer")
}

// FC-098, CU-01, S-14: what an address may look like. As in Java, a port is needed, and so are the brackets of an IPv6 host:
// what has neither is refused with the reason, rather than guessed at.
func TestFC098Addresses(t *testing.T) {
	for _, tt := range []struct {
		in   string
		host string
		port int32
	}{
		{"localhost:9092", "localhost", 9092},
		{"127.0.0.1:8000", "127.0.0.1", 8000},
		{"[::1]:1234", "::1", 1234},
		{"[2001:db8:85a3:8d3:1319:8a2e:370:7348]:1234", "2001:db8:85a3:8d3:1319:8a2e:370:7348", 1234},
		{"[fe80::b1da:69ca:57f7:63d8%3]:1234", "fe80::b1da:69ca:57f7:63d8%3", 1234},
		{"PLAINTEXT://mydomain.com:8080", "mydomain.com", 8080},
		{"MyDomain.com:65535", "MyDomain.com", 65535},
		{"[::1]:9092", "::1", 9092},
		{"[fe80::1%eth0]:9093", "fe80::1%eth0", 9093},
		{"PLAINTEXT://a:1", "a", 1},
		{"under_score-9.:1", "under_score-9.", 1},
	} {
		host, port, err := parseAddress(tt.in)
		require.NoError(t, err, tt.in)
		assert.Equal(t, tt.host, host)
		assert.Equal(t, tt.port, port)
		assert.Equal(t, net.JoinHostPort(tt.host, strconv.Itoa(int(tt.port))), protocol.Node{Host: host, Port: port}.Addr(), "as it is dialled")
	}
	for in, why := range map[string]string{
		"::1":             "brackets",
		"fe80::1%eth0":    "brackets",
		"a:":              "port",
		"a:99999":         "port",
		"a:b":             "port",
		" a:1 , b:2 ":     "its own element",
		"":                "host:port",
		"localhost":       "host:port",
		"localhost:":      "port",
		"localhost:http":  "port",
		"localhost:0":     "port",
		"localhost:-1":    "port",
		"localhost:70000": "port",
		":9092":           "no host",
		"::1:9092":        "brackets",
		"2001:db8::1":     "brackets",
		"[::1]":           "host:port",
		"a:1,b:2":         "its own element",
		"a:1 ":            "its own element",
		"ho$t:1":          "characters",
		"ho st:1":         "its own element",
	} {
		_, _, err := parseAddress(in)
		require.Error(t, err, in)
		assert.Contains(t, err.Error(), why, in)
		assert.Contains(t, complaintsOf(t, Config{BootstrapServers: []string{in}}.Validate()), "BootstrapServers", "a ConfigError")
	}
}

// CU-01, S-14: one bad address among good ones is an error; several good ones are nodes -1, -2, … (S-15).
func TestConfigBootstrap(t *testing.T) {
	c := Config{BootstrapServers: []string{"a:1", "[::1]:2", "c:3"}}
	s, err := c.resolve()
	require.NoError(t, err)
	assert.Equal(t, []protocol.Node{
		{ID: -1, Host: "a", Port: 1}, {ID: -2, Host: "::1", Port: 2}, {ID: -3, Host: "c", Port: 3},
	}, s.bootstrap)

	c.BootstrapServers = append(c.BootstrapServers, "bad")
	assert.Contains(t, complaintsOf(t, c.Validate())["BootstrapServers"].Reason, `"bad"`)
	assert.Contains(t, complaintsOf(t, Config{}.Validate()), "BootstrapServers")
}

// FC-099, S-14, CU-01: New needs one name that resolves, and names all that do not; once one does, New works.
func TestFC099OneNameIsEnough(t *testing.T) {
	lookups := 0
	lookup := func(_ context.Context, host string) ([]string, error) {
		lookups++
		if host == "good" {
			return []string{"10.0.0.1"}, nil
		}
		return nil, fmt.Errorf("lookup %s: no such host", host)
	}
	ctx := t.Context()
	resolve := func(c Config) settings {
		s, err := c.resolve()
		require.NoError(t, err)
		return s
	}
	require.NoError(t, resolve(Config{BootstrapServers: []string{"bad:1", "good:2", "worse:3"}}).checkBootstrap(ctx, lookup))
	assert.Equal(t, 2, lookups, "stops at the first that resolves")

	c := Config{BootstrapServers: []string{"bad:1", "worse:3"}}
	err := resolve(c).checkBootstrap(ctx, lookup)
	require.Error(t, err)
	assert.Contains(t, complaintsOf(t, err), "BootstrapServers")
	assert.ErrorContains(t, err, "bad:1: lookup bad: no such host; worse:3: lookup worse: no such host")
	mended := func(context.Context, string) ([]string, error) { return []string{"10.0.0.1"}, nil }
	require.NoError(t, resolve(c).checkBootstrap(ctx, mended), "nothing is remembered")

	lookups = 0
	c.DeferBootstrapResolve = true
	require.NoError(t, resolve(c).checkBootstrap(ctx, lookup))
	c.DeferBootstrapResolve = false
	c.Dial = func(context.Context, string, string) (net.Conn, error) { return nil, errors.New("never called") }
	require.NoError(t, resolve(c).checkBootstrap(ctx, lookup))
	assert.Zero(t, lookups)
}

// Rules 1 and 2 of the cross-config rules: KP-02, KP-03, KP-06, KP-07, KP-08, KP-09, KP-05.
func TestConfigIdempotence(t *testing.T) {
	for _, tt := range []struct {
		name       string
		set        func(*Config)
		idempotent bool
		note       string
		complaint  string // the field complained of
	}{
		{"default", func(*Config) {}, true, "", ""},
		{"KP-02 acks 1", func(c *Config) { c.Acks = AcksLeader }, false, "acks", ""},
		{"KP-02 acks 0", func(c *Config) { c.Acks = AcksNone }, false, "acks", ""},
		{"KP-03 acks 1, idempotence asked for", func(c *Config) { c.Acks = AcksLeader; c.explicit.idempotence = true }, false, "", "DisableIdempotence"},
		{"KP-03 acks 0, idempotence asked for", func(c *Config) { c.Acks = AcksNone; c.explicit.idempotence = true }, false, "", "DisableIdempotence"},
		{"KP-06 no retries", func(c *Config) { c.Retries = NoRetries }, false, "retries", ""},
		{"KP-06 no retries, idempotence asked for", func(c *Config) { c.Retries = NoRetries; c.explicit.idempotence = true }, false, "", "DisableIdempotence"},
		{"KP-07 disabled, acks 0, no retries", func(c *Config) { c.DisableIdempotence, c.Acks, c.Retries = true, AcksNone, NoRetries }, false, "", ""},
		{"KP-08 five in flight", func(c *Config) { c.MaxInFlight = 5 }, true, "", ""},
		{"KP-08 six in flight", func(c *Config) { c.MaxInFlight = 6 }, false, "", "MaxInFlight"},
		{"EXT-02 six in flight, acks 1", func(c *Config) { c.MaxInFlight, c.Acks = 6, AcksLeader }, false, "", "MaxInFlight"},
		{"KP-09 six in flight, disabled", func(c *Config) { c.MaxInFlight, c.DisableIdempotence = 6, true }, false, "", ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			c := valid()
			tt.set(&c)
			s, err := c.resolve()
			if tt.complaint != "" {
				bad := complaintsOf(t, err)
				assert.Contains(t, bad, tt.complaint)
				assert.Len(t, bad, 1)
				return
			}
			require.NoError(t, err)
			assert.Equal(t, tt.idempotent, s.idempotent)
			if tt.note == "" {
				assert.Empty(t, s.notes)
			} else if assert.Len(t, s.notes, 1) {
				assert.Contains(t, s.notes[0], tt.note)
			}
		})
	}
}

// KP-01: what a transactional id implies; and KP-05, KP-06, KP-07 (rule 4): what contradicts it.
// Transactions come later: any transactional id is refused, with these complaints beside it.
func TestConfigTransactionalID(t *testing.T) {
	c := valid()
	c.TransactionalID = "t"
	d := c.withDefaults()
	assert.True(t, c.idempotent())
	assert.Equal(t, AcksAll, d.Acks)
	assert.Equal(t, math.MaxInt32, d.Retries)
	assert.Equal(t, "producer-t", d.ClientID)
	assert.Equal(t, time.Minute, d.TransactionTimeout)
	assert.ErrorContains(t, c.Validate(), "TransactionalID (transactional.id): transactions are not supported by this release")

	for _, set := range []func(*Config){
		func(c *Config) { c.Acks = AcksLeader },
		func(c *Config) { c.Acks = AcksNone },
		func(c *Config) { c.Retries = NoRetries },
		func(c *Config) { c.DisableIdempotence = true },
	} {
		c := c
		set(&c)
		assert.ErrorContains(t, c.Validate(), "needs idempotence")
	}

	c = valid()
	c.TransactionTimeout = time.Second
	assert.Contains(t, complaintsOf(t, c.Validate()), "TransactionTimeout")
}

// FC-131, KP-68 (rule 5): the matrix of explicit and default values around linger + request timeout. An explicit contradiction is
// an error that names all three; only a default is raised, and the log says so (TestFC131DefaultIsRaised of fieldcases).
func TestFC131DeliveryTimeout(t *testing.T) {
	for _, tt := range []struct {
		name                      string
		delivery, linger, request time.Duration
		want                      time.Duration // 0: refused
		noted                     bool
	}{
		{"all default", 0, 0, 0, 2 * time.Minute, false},
		{"equal", 30 * time.Second, 10 * time.Second, 20 * time.Second, 30 * time.Second, false},
		{"a millisecond less", 30*time.Second - time.Millisecond, 10 * time.Second, 20 * time.Second, 0, false},
		{"equal, without linger", 20 * time.Second, NoLinger, 20 * time.Second, 20 * time.Second, false},
		{"less than the default request timeout", 30 * time.Second, 0, 0, 0, false},
		{"the default request timeout and linger", 30*time.Second + 5*time.Millisecond, 0, 0, 30*time.Second + 5*time.Millisecond, false},
		{"default raised for linger", 0, time.Hour, 0, time.Hour + 30*time.Second, true},
		{"default raised for the request timeout", 0, 0, 3 * time.Minute, 3*time.Minute + 5*time.Millisecond, true},
		{"default raised, but no further than 32 bits", 0, longestTime, longestTime, longestTime, true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			c := valid()
			c.DeliveryTimeout, c.Linger, c.RequestTimeout = tt.delivery, tt.linger, tt.request
			s, err := c.resolve()
			if tt.want == 0 {
				e := complaintsOf(t, err)["DeliveryTimeout"]
				require.NotNil(t, e)
				d := c.withDefaults()
				for _, part := range []string{
					"delivery.timeout.ms", "linger.ms", "request.timeout.ms", tt.delivery.String(), max(d.Linger, 0).String(), d.RequestTimeout.String(),
				} {
					assert.Contains(t, e.Error(), part)
				}
				return
			}
			require.NoError(t, err)
			assert.Equal(t, tt.want, s.DeliveryTimeout)
			assert.Equal(t, tt.noted, len(s.notes) == 1)
		})
	}
}

// FC-106: the longest times are accepted and stay what they are; those that the protocol counts in 32 bits of milliseconds end
// there. Zero is the default, and a negative time an error unless it has a name.
func TestFC106HugeTimes(t *testing.T) {
	in32Bits := []string{"DeliveryTimeout", "RequestTimeout", "Linger"}
	typ := reflect.TypeFor[Config]()
	for i := range typ.NumField() {
		field := typ.Field(i)
		if field.Type != reflect.TypeFor[time.Duration]() || field.Name == "TransactionTimeout" {
			continue
		}
		for value, ok := range map[time.Duration]bool{
			math.MaxInt64:                    !slices.Contains(in32Bits, field.Name),
			math.MaxInt32 * time.Millisecond: true,
			0:                                true,
			-1:                               slices.Contains([]string{"MaxBlock", "Linger", "ConnectionsMaxIdle"}, field.Name), // NoMaxBlock, NoLinger, NoMaxIdle
			-2:                               false,
			math.MinInt64:                    false,
		} {
			c := valid()
			c.DeliveryTimeout = longestTime
			switch field.Name { // the sum must fit
			case "Linger":
				c.DeliveryTimeout = 0
			case "RequestTimeout":
				c.DeliveryTimeout, c.Linger = 0, NoLinger
			}
			reflect.ValueOf(&c).Elem().Field(i).SetInt(int64(value))
			s, err := c.resolve()
			if !ok {
				assert.Contains(t, complaintsOf(t, err), field.Name, "%v", value)
				continue
			}
			require.NoError(t, err, "%s %v", field.Name, value)
			for j := range typ.NumField() { // and whatever follows from it
				if typ.Field(j).Type == field.Type {
					assert.GreaterOrEqual(t, reflect.ValueOf(s.Config).Field(j).Int(), int64(0), "%s from %s of %v", typ.Field(j).Name, field.Name, value)
				}
			}
		}
	}
}

// Rules 8 and 9: back-offs and their maxima.
func TestConfigBackoffs(t *testing.T) {
	c := valid()
	c.ReconnectBackoff = 3 * time.Second
	s, err := c.resolve()
	require.NoError(t, err)
	assert.Equal(t, 3*time.Second, s.ReconnectBackoffMax, "set alone, it does not grow")
	assert.Equal(t, 3*time.Second, s.ReconnectBackoff)
	assert.Empty(t, s.notes)

	c = valid()
	c.RetryBackoff, c.RetryBackoffMax = 5*time.Second, time.Second
	c.ReconnectBackoff, c.ReconnectBackoffMax = 5*time.Second, 2*time.Second
	c.ConnectionSetupTimeout = time.Minute
	s, err = c.resolve()
	require.NoError(t, err)
	assert.Equal(t, time.Second, s.RetryBackoff)
	assert.Equal(t, 2*time.Second, s.ReconnectBackoff)
	assert.Equal(t, 30*time.Second, s.ConnectionSetupTimeout)
	assert.Len(t, s.notes, 3)
}

// Rules 10 and 16, FC-133: batch sizes at their limits.
func TestConfigBatchSize(t *testing.T) {
	c := valid()
	c.BatchSize = 1
	s, err := c.resolve()
	require.NoError(t, err)
	assert.Equal(t, 1, s.BatchSize)
	assert.Equal(t, 1, s.PartitionerStickyBytes, "the sticky partition moves on with it")

	c = valid()
	c.MaxRequestSize = 100 << 10
	s, err = c.resolve()
	require.NoError(t, err)
	assert.Equal(t, 100<<10, s.BatchSize)
	assert.Empty(t, s.notes, "only the default was lowered")

	c.BatchSize = 200 << 10
	s, err = c.resolve()
	require.NoError(t, err)
	assert.Equal(t, 100<<10, s.BatchSize)
	assert.Len(t, s.notes, 1)

	c = valid()
	c.BufferMemory, c.BatchSize = 64<<10, 1<<20 // batches take memory as they grow, so this works
	require.NoError(t, c.Validate())
}

// Rule 11: levels, by codec.
func TestFC046ConfigCompressionLevel(t *testing.T) {
	for _, tt := range []struct {
		codec Compression
		level int
		ok    bool
	}{
		{None, 0, true}, {None, 1, false}, {Snappy, 0, true}, {Snappy, 1, false},
		{Gzip, 0, true}, {Gzip, 1, true}, {Gzip, 9, true}, {Gzip, 10, false}, {Gzip, -1, false},
		{LZ4, 1, true}, {LZ4, 17, true}, {LZ4, 18, false}, {LZ4, -1, false},
		{Zstd, 22, true}, {Zstd, 23, false}, {Zstd, -131072, true}, {Zstd, -131073, false},
	} {
		c := valid()
		c.Compression, c.CompressionLevel = tt.codec, tt.level
		err := c.Validate()
		assert.Equal(t, tt.ok, err == nil, "%v %d: %v", tt.codec, tt.level, err)
		if err != nil {
			assert.ErrorContains(t, err, "compression."+tt.codec.String()+".level")
		}
	}
}

// Rule 12 and its neighbours.
func TestConfigPartitioner(t *testing.T) {
	c := valid()
	c.Partitioner = new(partitioner.RoundRobin)
	c.PartitionerIgnoreKeys = true
	s, err := c.resolve()
	require.NoError(t, err)
	assert.Len(t, s.notes, 1)

	c = valid()
	c.PartitionerAvailabilityTimeout, c.DisableAdaptivePartitioning = time.Second, true
	assert.Contains(t, complaintsOf(t, c.Validate()), "PartitionerAvailabilityTimeout")

	c = valid()
	c.PartitionerRackAware = true
	assert.ErrorContains(t, c.Validate(), "client.rack")
}

type mechanism struct{}

func (mechanism) Name() string { return "PLAIN" }
func (mechanism) Start(context.Context, string) (sasl.Session, []byte, error) {
	return nil, nil, errors.New("never called")
}

// What comes with later releases is refused, not ignored.
func TestConfigRefusesWhatIsNotThereYet(t *testing.T) {
	c := valid()
	c.TLS = &tls.Config{ServerName: "x"}
	c.SASL = mechanism{}
	c.TransactionalID = "t"
	bad := complaintsOf(t, c.Validate())
	for _, field := range []string{"TLS", "SASL", "TransactionalID"} {
		if assert.Contains(t, bad, field) {
			assert.Contains(t, bad[field].Reason, "not supported by this release")
		}
	}
	d := c.withDefaults()
	assert.NotSame(t, c.TLS, d.TLS, "a tls.Config is copied")

	c = valid()
	c.AllowPlaintextCredentials = true
	assert.Contains(t, complaintsOf(t, c.Validate()), "AllowPlaintextCredentials")
}

// S-16: every setting gets somewhere: the engine reads its field, unless resolve has used it up or refuses it.
func TestEverySettingIsUsed(t *testing.T) {
	source, err := os.ReadFile("engine.go")
	require.NoError(t, err)
	elsewhere := map[string]string{
		"BootstrapServers":          "settings.bootstrap",
		"DeferBootstrapResolve":     "checkBootstrap",
		"DisableIdempotence":        "settings.idempotent",
		"TransactionalID":           "refused",
		"TransactionTimeout":        "refused",
		"TLS":                       "refused",
		"SASL":                      "refused",
		"AllowPlaintextCredentials": "refused",
	}
	typ := reflect.TypeFor[Config]()
	for i := range typ.NumField() {
		f := typ.Field(i)
		if !f.IsExported() {
			continue
		}
		used := regexp.MustCompile(`\.` + f.Name + `\b`).Match(source)
		_, excepted := elsewhere[f.Name]
		assert.NotEqual(t, used, excepted, f.Name)
	}
}

// The README's table has every setting, with the Java name that its comment has.
func TestReadmeNamesEverySetting(t *testing.T) {
	text, err := os.ReadFile("README.md")
	require.NoError(t, err)
	typ := reflect.TypeFor[Config]()
	for i := range typ.NumField() {
		if f := typ.Field(i); f.IsExported() && f.Name != "AllowPlaintextCredentials" && f.Name != "TransactionTimeout" && f.Name != "DisableClusterCheck" {
			assert.Contains(t, string(text), "`"+f.Name+"`")
		}
	}
}

// S-16: what the network layer is told.
func TestConfigReachesTheNetwork(t *testing.T) {
	c := valid()
	c.ClientID = "me"
	c.RequestTimeout = 7 * time.Second
	c.MaxInFlight = 3
	c.ReconnectBackoff, c.ReconnectBackoffMax = 8*time.Millisecond, 9*time.Millisecond
	c.ConnectionSetupTimeout, c.ConnectionSetupTimeoutMax = 10*time.Second, 11*time.Second
	c.ConnectionsMaxIdle = 12 * time.Second
	s, err := c.resolve()
	require.NoError(t, err)
	got := (&engine{cfg: s}).clientConfig()
	assert.Equal(t, "me", got.ClientID)
	assert.Equal(t, 7*time.Second, got.RequestTimeout)
	assert.Equal(t, 3, got.MaxInFlight)
	assert.Equal(t, 8*time.Millisecond, got.ReconnectBackoff)
	assert.Equal(t, 9*time.Millisecond, got.ReconnectBackoffMax)
	assert.Equal(t, 10*time.Second, got.ConnectionSetupTimeout)
	assert.Equal(t, 11*time.Second, got.ConnectionSetupTimeoutMax)
	assert.Equal(t, 12*time.Second, got.ConnectionsMaxIdle)
}

func TestConfigIsCopied(t *testing.T) {
	c := valid()
	c.Logger = slog.Default()
	s, err := c.resolve()
	require.NoError(t, err)
	c.BootstrapServers[0] = "changed:1"
	assert.Equal(t, "localhost:9092", s.BootstrapServers[0])
	assert.Same(t, slog.Default(), s.Logger)
}

func TestEnumsSayWhatJavaSays(t *testing.T) {
	assert.Equal(t, "all 1 0 unknown", fmt.Sprint(AcksAll, AcksLeader, AcksNone, Acks(9)))
	assert.Equal(t, "none gzip snappy lz4 zstd unknown", fmt.Sprint(None, Gzip, Snappy, LZ4, Zstd, Compression(9)))
	assert.Equal(t, "rebootstrap none unknown", fmt.Sprint(Rebootstrap, NoRebootstrap, MetadataRecovery(9)))
	// KP-04: all is -1 on the wire.
	assert.Equal(t, []int16{-1, 1, 0}, []int16{AcksAll.wire(), AcksLeader.wire(), AcksNone.wire()})
	assert.Equal(t, protocol.CodecZstd, Zstd.codec())
	assert.Equal(t, protocol.CodecNone, None.codec())
}
