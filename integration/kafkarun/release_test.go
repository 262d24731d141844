package kafkarun

import (
	"encoding/xml"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestParseRelease(t *testing.T) {
	for _, tt := range []struct {
		version                    string
		kraft, atLeast2, atLeast11 bool
	}{
		{"4.4.0", true, true, true},
		{"3.9.1", true, true, true},
		{"2.1.1", false, true, true},
		{"1.1.1", false, false, true},
		{"0.11.0.3", false, false, true},
		{"0.10.2.2", false, false, false},
	} {
		r, err := parseRelease(tt.version)
		require.NoError(t, err, tt.version)
		assert.Equal(t, tt.kraft, r.kraft(), tt.version)
		assert.Equal(t, tt.atLeast2, r.atLeast(2, 1), tt.version)
		assert.Equal(t, tt.atLeast11, r.atLeast(0, 11), tt.version)
	}
	for _, bad := range []string{"", "4", "4.4", "4.4.x", "4.4.0.1", "0.11.0", "-1.0.0", "0.10.1.1", "0.8.2.2"} {
		_, err := parseRelease(bad)
		assert.Error(t, err, bad)
	}
}

func TestPomNamesEveryArtifact(t *testing.T) {
	for version, want := range map[string][]string{
		"4.4.0":    {"kafka_2.13", "kafka-tools", "log4j-slf4j-impl", "log4j-1.2-api"},
		"2.8.2":    {"kafka_2.13", "kafka-tools", "slf4j-reload4j"},
		"2.1.1":    {"kafka_2.12", "kafka-tools", "slf4j-reload4j", "zookeeper"},
		"0.11.0.3": {"kafka_2.12", "kafka-tools", "jaxb-api"},
	} {
		r, err := parseRelease(version)
		require.NoError(t, err)
		var pom struct {
			Names []string `xml:"dependencies>dependency>artifactId"`
		}
		require.NoError(t, xml.Unmarshal([]byte(r.pom()), &pom), version)
		assert.Equal(t, want, pom.Names, version)
	}
}

func TestFreePortsAreDistinct(t *testing.T) {
	ports, err := freePorts(20)
	require.NoError(t, err)
	seen := make(map[int]bool)
	for _, p := range ports {
		assert.False(t, seen[p], "port %d twice", p)
		seen[p] = true
		assert.Less(t, p, 32768, "a port that outgoing connections may be given")
	}
	assert.Len(t, ports, 20)
}

func TestBrokerPropertiesFollowTheRelease(t *testing.T) {
	cluster := func(version string) *Cluster {
		r, err := parseRelease(version)
		require.NoError(t, err)
		return &Cluster{
			release: r, dir: "/c", zkPort: 1,
			cfg: Config{Properties: map[string]string{"num.partitions": "3"}},
			nodes: []*node{
				{id: 0, dir: "/c/node0", port: 10, internalPort: 11, controllerPort: 12},
				{id: 1, dir: "/c/node1", port: 20, internalPort: 21, controllerPort: 22},
				{id: 2, dir: "/c/node2", port: 30, internalPort: 31, controllerPort: 32},
			},
		}
	}
	kraft := cluster("4.4.0").brokerProperties(1)
	assert.Equal(t, "PLAINTEXT://127.0.0.1:20,INTERNAL://127.0.0.1:21,CONTROLLER://127.0.0.1:22", kraft["listeners"])
	assert.Equal(t, "PLAINTEXT://127.0.0.1:20,INTERNAL://127.0.0.1:21", kraft["advertised.listeners"])
	assert.Equal(t, "0@127.0.0.1:12,1@127.0.0.1:22,2@127.0.0.1:32", kraft["controller.quorum.voters"])
	assert.Equal(t, "3", kraft["default.replication.factor"])
	assert.Equal(t, "2", kraft["min.insync.replicas"])
	assert.Equal(t, "3", kraft["num.partitions"], "the caller's properties win")
	assert.NotContains(t, kraft, "zookeeper.connect")

	zk := cluster("0.11.0.3").brokerProperties(2)
	assert.Equal(t, "127.0.0.1:1", zk["zookeeper.connect"])
	assert.Equal(t, "2", zk["broker.id"])
	assert.NotContains(t, zk, "process.roles")
}
