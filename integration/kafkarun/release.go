package kafkarun

import (
	"fmt"
	"strconv"
	"strings"
)

// release is what must be known of one Kafka release to fetch and run it.
type release struct {
	version      string
	major, minor int // 0.10.2.2 has 0 and 10
}

// parseRelease reads a version as Apache numbers them: 4.4.0, or 0.11.0.3 before 1.0.
func parseRelease(version string) (release, error) {
	parts := strings.Split(version, ".")
	want := 3
	if parts[0] == "0" {
		want = 4
	}
	nums := make([]int, len(parts))
	for i, p := range parts {
		n, err := strconv.Atoi(p)
		if err != nil || n < 0 {
			return release{}, fmt.Errorf("kafka version %q: want numbers such as 4.4.0 or 0.11.0.3", version)
		}
		nums[i] = n
	}
	if len(parts) != want {
		return release{}, fmt.Errorf("kafka version %q: want numbers such as 4.4.0 or 0.11.0.3", version)
	}
	r := release{version: version, major: nums[0], minor: nums[1]}
	if !r.atLeast(0, 11) && (r.minor != 10 || nums[2] < 2) {
		return release{}, fmt.Errorf("kafka version %q: the oldest that can be run is 0.10.2", version)
	}
	return r, nil
}

// atLeast reports whether r is major.minor or later.
func (r release) atLeast(major, minor int) bool {
	return r.major > major || r.major == major && r.minor >= minor
}

// kraft reports whether nodes run without ZooKeeper.
func (r release) kraft() bool { return r.major >= 3 }

// artifact is one Maven artifact.
type artifact struct{ group, name, version string }

// artifacts lists what Maven must bring; everything they depend on comes with them.
func (r release) artifacts() []artifact {
	scala := "2.13"
	if !r.atLeast(2, 4) {
		scala = "2.12"
	}
	as := []artifact{
		{"org.apache.kafka", "kafka_" + scala, r.version},
		{"org.apache.kafka", "kafka-tools", r.version},
	}
	// What slf4j writes to. Without one of these a broker logs nothing at all.
	switch {
	case r.major >= 4:
		as = append(as,
			artifact{"org.apache.logging.log4j", "log4j-slf4j-impl", "2.25.3"},
			artifact{"org.apache.logging.log4j", "log4j-1.2-api", "2.25.3"})
	case r.major >= 1:
		as = append(as, artifact{"org.slf4j", "slf4j-reload4j", "1.7.36"})
	}
	// The JDK lost javax.xml.bind with version 11; the broker's own dependencies bring it from 1.0 on.
	if r.major == 0 {
		as = append(as, artifact{"javax.xml.bind", "jaxb-api", "2.3.1"})
	}
	// ZooKeeper clients 3.4.11 to 3.4.14 cannot resolve an address on Java 14 and later.
	if r.major == 2 && r.minor < 4 {
		as = append(as, artifact{"org.apache.zookeeper", "zookeeper", "3.4.10"})
	}
	return as
}

// pom is a Maven project that depends on the release and holds nothing.
func (r release) pom() string {
	var b strings.Builder
	b.WriteString(`<project xmlns="http://maven.apache.org/POM/4.0.0">
  <modelVersion>4.0.0</modelVersion>
  <groupId>local</groupId><artifactId>kafka</artifactId><version>1</version><packaging>pom</packaging>
  <dependencies>
`)
	for _, a := range r.artifacts() {
		fmt.Fprintf(&b, "    <dependency><groupId>%s</groupId><artifactId>%s</artifactId><version>%s</version></dependency>\n",
			a.group, a.name, a.version)
	}
	b.WriteString("  </dependencies>\n</project>\n")
	return b.String()
}
