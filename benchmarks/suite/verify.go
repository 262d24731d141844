package suite

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/kafka-reservoir/producer/benchmarks/clients"
	"github.com/kafka-reservoir/producer/benchmarks/measure"
	"github.com/kafka-reservoir/producer/benchmarks/workload"
)

// What verify sends with each codec.
const verifiedRecords = 5_000

// verify sends some records with each client and each codec of the matrix to a sink that decodes them all, before
// anything is measured: no client shall be fast because it sends nonsense. It notes the clients' versions by the way.
func (s *suite) verify(ctx context.Context) error {
	s.data.Setup.Versions = map[string]string{}
	var codecs []string
	for _, row := range s.Rows {
		if !slices.Contains(codecs, row.Codec) {
			codecs = append(codecs, row.Codec)
		}
	}
	for _, name := range s.Clients {
		if name == clients.None {
			continue
		}
		c, _ := clients.Find(name)
		version := c.Version()
		for _, codec := range codecs {
			w := workload.Short()[0]
			w.Codec = codec
			said, err := s.verifyOne(ctx, name, &w)
			if err != nil {
				return fmt.Errorf("verify %s with codec %s: %w", name, codec, err)
			}
			if name == Java {
				_, version, _ = strings.Cut(said, " ") // apache-kafka-java 4.4.0
				break                                  // the codecs are Kafka's own, and starting it takes a second
			}
		}
		if name == clients.Reservoir {
			version = commit()
		}
		s.data.Setup.Versions[name] = version
		s.say("verified: every record of %s %s", name, version)
	}
	return nil
}

// verifyOne returns what the client says that it is.
func (s *suite) verifyOne(ctx context.Context, name string, w *workload.Workload) (string, error) {
	t, err := sinks{verify: true}.open(ctx, w)
	if err != nil {
		return "", err
	}
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	if name == Java {
		_, err = s.java.tool(ctx, w, t, verifiedRecords)
	} else {
		_, _, err = runClient(ctx, measure.Job{
			Client: name, Workload: *w, Brokers: t.brokers, Topic: t.topic, Measured: 30 * time.Second, Records: verifiedRecords,
		})
	}
	a, err := finished(t, verifiedRecords, err)
	if err == nil && (a.Verified != verifiedRecords || a.ValueBytes != verifiedRecords*int64(w.Value)) {
		err = fmt.Errorf("%d records with %d bytes of values were decoded, of %d with %d each", a.Verified, a.ValueBytes, verifiedRecords, w.Value)
	}
	return a.Client, err
}
