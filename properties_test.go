package producer

import (
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/kafka-reservoir/producer/partitioner"
)

// S-16: each property reaches its field.
func TestFromPropertiesEveryKey(t *testing.T) {
	c, err := FromProperties(map[string]string{
		"bootstrap.servers":                        " a:1 , [::1]:2,",
		"bootstrap.resolve.timeout.ms":             "1000",
		"client.dns.lookup":                        "use_all_dns_ips",
		"client.id":                                "me",
		"client.rack":                              "r1",
		"acks":                                     "1",
		"enable.idempotence":                       "false",
		"retries":                                  "7",
		"max.in.flight.requests.per.connection":    "9",
		"delivery.timeout.ms":                      "90000",
		"request.timeout.ms":                       "20000",
		"max.block.ms":                             "5000",
		"linger.ms":                                "20",
		"batch.size":                               "32768",
		"buffer.memory":                            "67108864",
		"buffer.memory.allocation.strategy":        "incremental",
		"max.request.size":                         "2097152",
		"compression.type":                         "zstd",
		"compression.gzip.level":                   "9",
		"compression.lz4.level":                    "12",
		"compression.zstd.level":                   "-5",
		"partitioner.class":                        "org.apache.kafka.clients.producer.RoundRobinPartitioner",
		"partitioner.ignore.keys":                  "TRUE",
		"partitioner.adaptive.partitioning.enable": "true",
		"partitioner.availability.timeout.ms":      "300",
		"partitioner.rack.aware":                   "true",
		"retry.backoff.ms":                         "10",
		"retry.backoff.max.ms":                     "20",
		"reconnect.backoff.ms":                     "30",
		"reconnect.backoff.max.ms":                 "40",
		"socket.connection.setup.timeout.ms":       "50",
		"socket.connection.setup.timeout.max.ms":   "60",
		"connections.max.idle.ms":                  "70",
		"send.buffer.bytes":                        "80",
		"receive.buffer.bytes":                     "-1",
		"metadata.max.age.ms":                      "90",
		"metadata.max.idle.ms":                     "5000",
		"metadata.recovery.strategy":               "NONE",
		"metadata.recovery.rebootstrap.trigger.ms": "110",
		"metadata.cluster.check.enable":            "false",
		"transactional.id":                         "t",
		"transaction.timeout.ms":                   "120",
		"transaction.two.phase.commit.enable":      "false",
		"security.protocol":                        "plaintext", // CFG-03
		"enable.metrics.push":                      "false",
		"metrics.num.samples":                      "3",
		"metrics.sample.window.ms":                 "130",
		"metrics.recording.level":                  "debug", // KP-36
		"serializer.encoding":                      "utf-8",
		"key.serializer.encoding":                  "UTF8",
		"value.serializer.encoding":                "UTF-8",
	})
	require.NoError(t, err)
	const ms = time.Millisecond
	assert.Equal(t, Config{
		BootstrapServers:                   []string{"a:1", "[::1]:2"},
		DeferBootstrapResolve:              true,
		ClientID:                           "me",
		ClientRack:                         "r1",
		Acks:                               AcksLeader,
		DisableIdempotence:                 true,
		Retries:                            7,
		MaxInFlight:                        9,
		DeliveryTimeout:                    90 * time.Second,
		RequestTimeout:                     20 * time.Second,
		MaxBlock:                           5 * time.Second,
		Linger:                             20 * ms,
		BatchSize:                          32 << 10,
		BufferMemory:                       64 << 20,
		MaxRequestSize:                     2 << 20,
		Compression:                        Zstd,
		CompressionLevel:                   -5,
		Partitioner:                        new(partitioner.RoundRobin),
		PartitionerIgnoreKeys:              true,
		PartitionerAvailabilityTimeout:     300 * ms,
		PartitionerRackAware:               true,
		RetryBackoff:                       10 * ms,
		RetryBackoffMax:                    20 * ms,
		ReconnectBackoff:                   30 * ms,
		ReconnectBackoffMax:                40 * ms,
		ConnectionSetupTimeout:             50 * ms,
		ConnectionSetupTimeoutMax:          60 * ms,
		ConnectionsMaxIdle:                 70 * ms,
		SendBuffer:                         80,
		ReceiveBuffer:                      OSDefault,
		MetadataMaxAge:                     90 * ms,
		MetadataMaxIdle:                    5 * time.Second,
		MetadataRecovery:                   NoRebootstrap,
		MetadataRecoveryRebootstrapTrigger: 110 * ms,
		DisableClusterCheck:                true,
		TransactionalID:                    "t",
		TransactionTimeout:                 120 * ms,
		MetricsNumSamples:                  3,
		MetricsSampleWindow:                130 * ms,
	}, c)
}

// FC-132: a zero in a property is a zero, and never the default.
func TestFC132ZerosInProperties(t *testing.T) {
	c, err := FromProperties(map[string]string{
		"bootstrap.servers": "a:1", "linger.ms": "0", "max.block.ms": "0", "retries": "0", "batch.size": "0", "acks": "0",
		"connections.max.idle.ms": "-1", "partitioner.availability.timeout.ms": "0",
		"metadata.recovery.rebootstrap.trigger.ms": "0", "bootstrap.resolve.timeout.ms": "0",
	})
	require.NoError(t, err)
	assert.Equal(t, Config{
		BootstrapServers: []string{"a:1"}, Linger: NoLinger, MaxBlock: NoMaxBlock, Retries: NoRetries, BatchSize: 1,
		Acks: AcksNone, ConnectionsMaxIdle: NoMaxIdle, MetadataRecoveryRebootstrapTrigger: time.Millisecond,
	}, c)
	for _, key := range []string{
		"max.in.flight.requests.per.connection", "delivery.timeout.ms", "request.timeout.ms", "buffer.memory",
		"max.request.size", "retry.backoff.ms", "reconnect.backoff.ms", "send.buffer.bytes", "connections.max.idle.ms",
		"metadata.max.age.ms", "metadata.max.idle.ms", "metrics.num.samples", "transaction.timeout.ms",
	} {
		_, err := FromProperties(map[string]string{key: "0"})
		assert.ErrorContains(t, err, key)
	}
}

// S-19, KP-62, CFG-02, CFG-03, CFG-04, CFG-06, KP-04, KP-22, SER-03: each bad value is an error that names its key, all at once.
func TestFromPropertiesRefuses(t *testing.T) {
	bad := map[string]string{
		"linger.msec":                         "5", // unknown to Java too
		"acks":                                "two",
		"compression.type":                    "LZ4",
		"compression.gzip.level":              "0",
		"compression.zstd.level":              "23",
		"security.protocol":                   "TLS",
		"metadata.recovery.strategy":          "hope",
		"buffer.memory.allocation.strategy":   "half",
		"client.dns.lookup":                   "resolve_canonical_bootstrap_servers_only",
		"send.buffer.bytes":                   "-2",
		"linger.ms":                           "5ms",
		"max.block.ms":                        "-1",
		"enable.idempotence":                  "yes",
		"retries":                             "2147483648",
		"serializer.encoding":                 "UTF-16",
		"partitioner.class":                   "com.example.Mine",
		"metrics.recording.level":             "ALL",
		"enable.metrics.push":                 "true",
		"transactional.id":                    "",
		"connections.max.idle.ms":             "-x",
		"key.serializer":                      "org.apache.kafka.common.serialization.StringSerializer",
		"value.serializer":                    "org.apache.kafka.common.serialization.StringSerializer",
		"interceptor.classes":                 "com.example.Spy",
		"metric.reporters":                    "com.example.Reporter",
		"security.providers":                  "com.example.Provider",
		"config.providers":                    "file",
		"config.providers.file.class":         "com.example.File",
		"ssl.truststore.location":             "/etc/trust.jks",
		"sasl.jaas.config":                    "secret",
		"transaction.timeout.ms":              "abc",
		"transaction.two.phase.commit.enable": "true",
	}
	_, err := FromProperties(bad)
	require.Error(t, err)
	named := map[string]string{}
	for _, e := range flatten(err) {
		c := e.(*ConfigError)
		named[c.Property] = c.Reason
	}
	for _, key := range slices.Sorted(maps.Keys(bad)) {
		assert.Contains(t, named, key)
	}
	assert.Contains(t, named["linger.msec"], "not a setting")
	assert.Contains(t, named["key.serializer"], "New")
	assert.Contains(t, named["ssl.truststore.location"], "TLS is not supported by this release")
	assert.NotContains(t, err.Error(), "secret", "a value that may hold a password is never shown")

	_, err = FromProperties(map[string]string{"interceptor.classes": "", "metric.reporters": " "})
	assert.NoError(t, err, "a list that is empty asks for nothing")
}

// CFG-04: unset is rebootstrap; case does not matter. CFG-03: lower case and TLS. CFG-02.
func TestFromPropertiesEnums(t *testing.T) {
	c, err := FromProperties(nil)
	require.NoError(t, err)
	assert.Equal(t, Rebootstrap, c.MetadataRecovery)
	assert.Equal(t, Config{}, c)
	for v, want := range map[string]MetadataRecovery{"rebootstrap": Rebootstrap, "REBOOTSTRAP": Rebootstrap, "None": NoRebootstrap} {
		c, err := FromProperties(map[string]string{"metadata.recovery.strategy": v})
		require.NoError(t, err)
		assert.Equal(t, want, c.MetadataRecovery)
	}
	for _, v := range []string{"ssl", "SASL_SSL", "sasl_plaintext"} {
		_, err := FromProperties(map[string]string{"security.protocol": v})
		assert.ErrorContains(t, err, "not supported by this release")
	}
	for v, want := range map[string]Acks{"all": AcksAll, "-1": AcksAll, "0": AcksNone, "1": AcksLeader} { // KP-04
		c, err := FromProperties(map[string]string{"acks": v})
		require.NoError(t, err)
		assert.Equal(t, want, c.Acks)
	}
}

// KP-03, KP-06, KP-07: only what was spelt out is a contradiction.
func TestFromPropertiesExplicitIdempotence(t *testing.T) {
	for _, tt := range []struct {
		properties map[string]string
		ok         bool
	}{
		{map[string]string{"acks": "1"}, true},
		{map[string]string{"acks": "1", "enable.idempotence": "true"}, false},
		{map[string]string{"retries": "0"}, true},
		{map[string]string{"retries": "0", "enable.idempotence": "true"}, false},
		{map[string]string{"retries": "0", "acks": "0", "enable.idempotence": "false"}, true},
		{map[string]string{"acks": "all", "enable.idempotence": "true"}, true},
	} {
		tt.properties["bootstrap.servers"] = "a:1"
		c, err := FromProperties(tt.properties)
		require.NoError(t, err)
		assert.Equal(t, tt.ok, c.Validate() == nil, "%v", tt.properties)
	}
	c, err := FromProperties(map[string]string{"bootstrap.servers": "a:1", "enable.idempotence": "true"})
	require.NoError(t, err)
	c.DisableIdempotence, c.Acks = true, AcksNone
	assert.NoError(t, c.Validate(), "the program overrides the file")
}

// CFG-05 (rule 6): two-phase commit and a transaction timeout exclude each other; alone, the timeout is fine.
func TestFromPropertiesTwoPhaseCommit(t *testing.T) {
	_, err := FromProperties(map[string]string{"transaction.two.phase.commit.enable": "true", "transaction.timeout.ms": "1000"})
	assert.Contains(t, complaintsOf(t, err), "TransactionTimeout")
	_, err = FromProperties(map[string]string{"transaction.timeout.ms": "1000"})
	assert.NoError(t, err)
	_, err = FromProperties(map[string]string{"transaction.two.phase.commit.enable": "true"})
	assert.NotContains(t, complaintsOf(t, err), "TransactionTimeout")
	assert.ErrorContains(t, err, "not supported by this release")
}

// Rule 7: a SASL protocol needs a mechanism.
func TestFromPropertiesEmptyMechanism(t *testing.T) {
	_, err := FromProperties(map[string]string{"security.protocol": "SASL_PLAINTEXT", "sasl.mechanism": ""})
	assert.ErrorContains(t, err, "SASL (sasl.mechanism): must not be empty")
}

// Rule 11: the level of a codec that was not chosen means nothing.
func TestFromPropertiesLevels(t *testing.T) {
	for codec, want := range map[string]int{"none": 0, "gzip": 0, "lz4": 9, "snappy": 0} {
		c, err := FromProperties(map[string]string{
			"bootstrap.servers": "a:1", "compression.type": codec, "compression.gzip.level": "-1",
			"compression.lz4.level": "9", "compression.zstd.level": "3",
		})
		require.NoError(t, err)
		assert.Equal(t, want, c.CompressionLevel, codec)
		assert.NoError(t, c.Validate())
	}
}

func TestFromPropertiesLongTimes(t *testing.T) {
	c, err := FromProperties(map[string]string{"bootstrap.servers": "a:1", "metadata.max.age.ms": "9223372036854775807"})
	require.NoError(t, err)
	assert.Greater(t, c.MetadataMaxAge, 290*365*24*time.Hour)
	assert.NoError(t, c.Validate())
}

func TestFromPropertiesFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "producer.properties")
	require.NoError(t, os.WriteFile(path, []byte(`
# comment
! another
bootstrap.servers = a:1,\
                    b:2
client.id:svc\u00fc\ \=x
linger.ms 20
`), 0o600))
	c, err := FromPropertiesFile(path)
	require.NoError(t, err)
	assert.Equal(t, Config{BootstrapServers: []string{"a:1", "b:2"}, ClientID: "svcü =x", Linger: 20 * time.Millisecond}, c)

	require.NoError(t, os.WriteFile(path, []byte("acks=1\nacks=all"), 0o600))
	_, err = FromPropertiesFile(path)
	assert.ErrorContains(t, err, "line 2: acks was already given")

	require.NoError(t, os.WriteFile(path, []byte("nonsense=1"), 0o600))
	_, err = FromPropertiesFile(path)
	assert.ErrorContains(t, err, path)
	assert.ErrorContains(t, err, "nonsense")

	_, err = FromPropertiesFile(filepath.Join(t.TempDir(), "none"))
	assert.ErrorIs(t, err, os.ErrNotExist)
}

func TestParseProperties(t *testing.T) {
	for in, want := range map[string]map[string]string{
		"":                  {},
		"a=1\r\nb=2\rc=3\n": {"a": "1", "b": "2", "c": "3"},
		"a":                 {"a": ""},
		"a=":                {"a": ""},
		"  a  =  b c ":      {"a": "b c "},
		"a==b":              {"a": "=b"},
		"a : b":             {"a": "b"},
		"a b":               {"a": "b"},
		`a\=b=c`:            {"a=b": "c"},
		`a\ b=c\td\n\r\f\q`: {"a b": "c\td\n\r\fq"},
		"a=1\\\n   2\\\n3":  {"a": "123"},
		"a=1\\\\\nb=2":      {"a": `1\`, "b": "2"},
		"a=1\\":             {"a": "1"},
		"a=x\na=x":          {"a": "x"},
		`a=\u00e9`:          {"a": "é"},
		"# a=1\\\nb=2":      {"b": "2"},
	} {
		got, err := parseProperties(in)
		require.NoError(t, err, "%q", in)
		assert.Equal(t, want, got, "%q", in)
	}
	for _, in := range []string{`a=\u12`, `a=\uzzzz`, `\u1=x`} {
		_, err := parseProperties(in)
		assert.Error(t, err, "%q", in)
	}
}

func TestFromEnv(t *testing.T) {
	t.Setenv("MYAPP_KAFKA_BOOTSTRAP_SERVERS", "a:1")
	t.Setenv("MYAPP_KAFKA_MAX_IN_FLIGHT_REQUESTS_PER_CONNECTION", "1")
	t.Setenv("MYAPP_KAFKA_CLIENT_ID", "")
	c, err := FromEnv("MYAPP_KAFKA_")
	require.NoError(t, err)
	assert.Equal(t, Config{BootstrapServers: []string{"a:1"}, MaxInFlight: 1}, c)

	t.Setenv("MYAPP_KAFKA_HOME", "/opt/kafka")
	_, err = FromEnv("MYAPP_KAFKA_")
	assert.ErrorContains(t, err, "home: is not a setting")
	_, err = FromEnv("")
	assert.Error(t, err)
}

// Every property that sets a field says so in the field's comment, under the same name: the two places
// where Java names stand must agree.
func TestFieldCommentsNameTheirProperties(t *testing.T) {
	source, err := os.ReadFile("config.go")
	require.NoError(t, err)
	_, fields, found := strings.Cut(string(source), "type Config struct {")
	require.True(t, found)
	for key, p := range javaProperties {
		if p.field == "" || p.field == "TLS" {
			continue
		}
		name := p.field
		if name == "MetricsSampleWindow" {
			name = "MetricsNumSamples" // whose comment speaks for both
		}
		_, rest, found := strings.Cut(fields, "\n\t// "+name)
		require.True(t, found, "no comment on field %s", name)
		comment, _, _ := strings.Cut(rest, "\n\t"+name)
		assert.Contains(t, comment, key, "comment of %s", p.field)
	}
}

func FuzzParseProperties(f *testing.F) {
	f.Add("bootstrap.servers=a:1\nlinger.ms: 5\n\\u0041 = \\\n b")
	f.Fuzz(func(t *testing.T, text string) {
		properties, err := parseProperties(text)
		if err != nil {
			return
		}
		c, err := FromProperties(properties)
		if err == nil {
			_ = c.Validate()
		}
	})
}

func FuzzParseAddress(f *testing.F) {
	f.Add("[::1]:9092")
	f.Add("PLAINTEXT://a:1")
	f.Fuzz(func(t *testing.T, s string) {
		host, port, err := parseAddress(s)
		if err == nil && (host == "" || port < 1 || port > 65535) {
			t.Fatalf("%q became %q, %d", s, host, port)
		}
	})
}
