package producer

import (
	"errors"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
)

// FromProperties makes a Config of the configuration of Java's producer: Java names and values. A zero
// there is a zero ("linger.ms" 0 becomes NoLinger), not a default.
//
// A key that Java does not know, a value it would refuse, and a key that has no meaning outside the JVM are
// errors: each is a [*ConfigError] that names the key, all of them joined. What only [Config.Validate] can
// judge is left to [New].
func FromProperties(properties map[string]string) (Config, error) {
	var c Config
	var bad complaints
	levels := map[Compression]int{}
	for _, key := range slices.Sorted(maps.Keys(properties)) {
		value := strings.TrimSpace(properties[key])
		p, known := javaProperties[key]
		switch {
		case known && p.level != None:
			level, err := parseLevel(p.level, value)
			if err != nil {
				bad.add("CompressionLevel", key, "%v", err)
			}
			levels[p.level] = level
		case known:
			if err := p.set(&c, value); err != nil {
				bad.add(p.field, key, "%v", err)
			}
		case foreignProperty(key) == "":
			bad.add("", key, "is not a setting of Kafka's producer")
		case value != "":
			bad.add("", key, "%s", foreignProperty(key))
		}
	}
	c.CompressionLevel = levels[c.Compression] // those of other codecs mean nothing, as in Java
	crossProperties(properties, &bad)
	return c, bad.join()
}

// FromPropertiesFile is [FromProperties] of a file in Java's format for properties: a line for each setting, key=value,
// comments behind # or !. A key that is there twice with different values is an error.
func FromPropertiesFile(path string) (Config, error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return Config{}, fmt.Errorf("config: %w", err)
	}
	properties, err := parseProperties(string(text))
	if err != nil {
		return Config{}, fmt.Errorf("config: %s: %w", path, err)
	}
	c, err := FromProperties(properties)
	if err != nil {
		return c, fmt.Errorf("%s: %w", path, err)
	}
	return c, nil
}

// FromEnv is [FromProperties] of the environment variables that begin with prefix. The rest of the name is the Java
// name in capitals with underscores for the dots: with the prefix KAFKA_PRODUCER_, linger.ms is
// KAFKA_PRODUCER_LINGER_MS. An empty variable counts as unset.
//
// Every variable with the prefix must be a setting, so the prefix should be one that nothing else uses.
func FromEnv(prefix string) (Config, error) {
	if prefix == "" {
		return Config{}, errors.New("config: the prefix for environment variables must not be empty")
	}
	properties := map[string]string{}
	for _, v := range os.Environ() {
		name, value, _ := strings.Cut(v, "=")
		if rest, ok := strings.CutPrefix(name, prefix); ok && rest != "" && value != "" {
			properties[strings.ReplaceAll(strings.ToLower(rest), "_", ".")] = value
		}
	}
	return FromProperties(properties)
}

// crossProperties holds the rules between properties that a Config cannot express.
func crossProperties(properties map[string]string, bad *complaints) {
	protocol := strings.ToUpper(strings.TrimSpace(properties["security.protocol"]))
	if mechanism, given := properties["sasl.mechanism"]; given && mechanism == "" && strings.HasPrefix(protocol, "SASL_") {
		bad.add("SASL", "sasl.mechanism", "must not be empty with security.protocol=%s", protocol)
	}
	_, timeout := properties["transaction.timeout.ms"]
	if on, _ := parseBool(properties["transaction.two.phase.commit.enable"]); on && timeout {
		bad.add("TransactionTimeout", "transaction.timeout.ms", "has no effect with transaction.two.phase.commit.enable=true, and is refused there")
	}
}

// foreignProperty says why a setting that Java knows is none here; "" for one that Java does not know either.
func foreignProperty(key string) string {
	switch {
	case key == "key.serializer" || key == "value.serializer":
		return "names a Java class: give New a Serializer instead"
	case key == "interceptor.classes":
		return "names Java classes: give New the interceptors instead"
	case key == "metric.reporters" || key == "auto.include.jmx.reporter":
		return "is for the JVM: read KafkaProducer.Metrics instead"
	case key == "security.providers":
		return "is for the JVM"
	case key == "config.providers" || strings.HasPrefix(key, "config.providers."):
		return "names Java classes: put the values in place before FromProperties"
	case slices.Contains(sslProperties, key):
		return "TLS is not supported by this release"
	case slices.Contains(saslProperties, key):
		return "SASL is not supported by this release"
	}
	return ""
}

var sslProperties = []string{
	"ssl.protocol", "ssl.enabled.protocols", "ssl.provider", "ssl.cipher.suites", "ssl.keystore.type",
	"ssl.keystore.location", "ssl.keystore.password", "ssl.key.password", "ssl.keystore.key",
	"ssl.keystore.certificate.chain", "ssl.truststore.type", "ssl.truststore.location", "ssl.truststore.password",
	"ssl.truststore.certificates", "ssl.keymanager.algorithm", "ssl.trustmanager.algorithm",
	"ssl.endpoint.identification.algorithm", "ssl.secure.random.implementation", "ssl.engine.factory.class",
}

var saslProperties = []string{
	"sasl.mechanism", "sasl.jaas.config", "sasl.client.callback.handler.class", "sasl.login.callback.handler.class",
	"sasl.login.class", "sasl.kerberos.service.name", "sasl.kerberos.kinit.cmd", "sasl.kerberos.ticket.renew.window.factor",
	"sasl.kerberos.ticket.renew.jitter", "sasl.kerberos.min.time.before.relogin", "sasl.login.refresh.window.factor",
	"sasl.login.refresh.window.jitter", "sasl.login.refresh.min.period.seconds", "sasl.login.refresh.buffer.seconds",
	"sasl.login.connect.timeout.ms", "sasl.login.read.timeout.ms", "sasl.login.retry.backoff.ms",
	"sasl.login.retry.backoff.max.ms", "sasl.oauthbearer.token.endpoint.url", "sasl.oauthbearer.scope.claim.name",
	"sasl.oauthbearer.sub.claim.name", "sasl.oauthbearer.jwks.endpoint.url", "sasl.oauthbearer.jwks.endpoint.refresh.ms",
	"sasl.oauthbearer.jwks.endpoint.retry.backoff.ms", "sasl.oauthbearer.jwks.endpoint.retry.backoff.max.ms",
	"sasl.oauthbearer.clock.skew.seconds", "sasl.oauthbearer.expected.audience", "sasl.oauthbearer.expected.issuer",
	"sasl.oauthbearer.header.urlencode", "sasl.oauthbearer.jwt.retriever.class", "sasl.oauthbearer.jwt.validator.class",
	"sasl.oauthbearer.scope", "sasl.oauthbearer.client.credentials.client.id",
	"sasl.oauthbearer.client.credentials.client.secret", "sasl.oauthbearer.assertion.algorithm",
	"sasl.oauthbearer.assertion.claim.aud", "sasl.oauthbearer.assertion.claim.exp.seconds",
	"sasl.oauthbearer.assertion.claim.iss", "sasl.oauthbearer.assertion.claim.jti.include",
	"sasl.oauthbearer.assertion.claim.nbf.seconds", "sasl.oauthbearer.assertion.claim.sub",
	"sasl.oauthbearer.assertion.file", "sasl.oauthbearer.assertion.private.key.file",
	"sasl.oauthbearer.assertion.private.key.passphrase", "sasl.oauthbearer.assertion.template.file",
}
