package kafkarun

import (
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
)

// DefaultPartitions is how many partitions a topic has that a broker creates by itself.
const DefaultPartitions = 12

// clusterID is given to every KRaft cluster; any base64 of 16 bytes will do.
const clusterID = "cmVzZXJ2b2lyLWthZmthMQ"

// brokerProperties is the server.properties of node i.
func (c *Cluster) brokerProperties(i int) map[string]string {
	rf := strconv.Itoa(min(len(c.nodes), 3))
	minISR := "1"
	if len(c.nodes) > 1 {
		minISR = "2"
	}
	n := c.nodes[i]
	p := map[string]string{
		"log.dirs":                                 filepath.Join(n.dir, "data"),
		"num.partitions":                           strconv.Itoa(DefaultPartitions),
		"default.replication.factor":               rf,
		"min.insync.replicas":                      minISR,
		"offsets.topic.replication.factor":         rf,
		"offsets.topic.num.partitions":             "5",
		"transaction.state.log.replication.factor": rf,
		"transaction.state.log.num.partitions":     "5",
		"transaction.state.log.min.isr":            minISR,
		"group.initial.rebalance.delay.ms":         "0",
		"auto.create.topics.enable":                "true",
		"delete.topic.enable":                      "true",
		// Timestamps of 1970 must neither be deleted at the first look nor roll a segment for each record.
		"log.retention.hours": "1000000",
		"log.roll.hours":      "1000000",
		// The default takes 128 MB of the heap at start.
		"log.cleaner.dedupe.buffer.size": "4194304",
		"inter.broker.listener.name":     "INTERNAL",
	}
	// Clients and brokers have listeners of their own, so that the clients' may be secured.
	p["listeners"] = fmt.Sprintf("PLAINTEXT://%s,INTERNAL://%s", address(n.port), address(n.internalPort))
	p["advertised.listeners"] = p["listeners"]
	p["listener.security.protocol.map"] = "PLAINTEXT:PLAINTEXT,INTERNAL:PLAINTEXT"
	if c.release.kraft() {
		voters := make([]string, len(c.nodes))
		for j, v := range c.nodes {
			voters[j] = fmt.Sprintf("%d@%s", j, address(v.controllerPort))
		}
		p["process.roles"] = "broker,controller"
		p["node.id"] = strconv.Itoa(i)
		p["controller.quorum.voters"] = strings.Join(voters, ",")
		p["controller.listener.names"] = "CONTROLLER"
		p["listeners"] += ",CONTROLLER://" + address(n.controllerPort)
		p["listener.security.protocol.map"] += ",CONTROLLER:PLAINTEXT"
	} else {
		p["broker.id"] = strconv.Itoa(i)
		p["zookeeper.connect"] = address(c.zkPort)
	}
	maps.Copy(p, c.cfg.Properties)
	return p
}

// zooKeeperProperties is the configuration of the one ZooKeeper.
func (c *Cluster) zooKeeperProperties() map[string]string {
	return map[string]string{
		"dataDir":            filepath.Join(c.dir, "zookeeper", "data"),
		"clientPort":         strconv.Itoa(c.zkPort),
		"clientPortAddress":  "127.0.0.1",
		"maxClientCnxns":     "0",
		"admin.enableServer": "false",
	}
}

// writeProperties writes a Java properties file, in the order of its keys.
func writeProperties(path string, p map[string]string) error {
	var b strings.Builder
	for _, k := range slices.Sorted(maps.Keys(p)) {
		fmt.Fprintf(&b, "%s=%s\n", k, p[k])
	}
	return os.WriteFile(path, []byte(b.String()), 0o644)
}

// The logging configuration of brokers up to 3.x and from 4.0 on: everything to standard output.
const (
	log4j1 = `log4j.rootLogger=INFO, out
log4j.appender.out=org.apache.log4j.ConsoleAppender
log4j.appender.out.layout=org.apache.log4j.PatternLayout
log4j.appender.out.layout.ConversionPattern=%d{HH:mm:ss,SSS} %p %m (%c)%n
`
	log4j2 = `rootLogger.level=info
rootLogger.appenderRef.out.ref=out
appender.out.type=Console
appender.out.name=out
appender.out.layout.type=PatternLayout
appender.out.layout.pattern=%d{HH:mm:ss,SSS} %p %m (%c)%n
`
)

// writeLogging writes both logging configurations and returns the Java options that point to them.
func writeLogging(dir string) ([]string, error) {
	one, two := filepath.Join(dir, "log4j.properties"), filepath.Join(dir, "log4j2.properties")
	if err := os.WriteFile(one, []byte(log4j1), 0o644); err != nil {
		return nil, err
	}
	if err := os.WriteFile(two, []byte(log4j2), 0o644); err != nil {
		return nil, err
	}
	return []string{"-Dlog4j.configuration=file:" + one, "-Dlog4j2.configurationFile=" + two}, nil
}
