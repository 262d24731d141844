package suite

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/kafka-reservoir/producer/benchmarks/sink"
	"github.com/kafka-reservoir/producer/benchmarks/workload"
)

// target is where one run's records go: nothing of an earlier run is left in it.
type target struct {
	brokers []string
	topic   string
	// finish ends it and says what arrived.
	finish func() (arrived, error)
}

// arrived is what a target has of a run.
type arrived struct {
	sink.Stats         // of a cluster only the records are known
	cpu        float64 // seconds of the sink's process
}

// targets makes them.
type targets interface {
	// open makes one for a run of w.
	open(ctx context.Context, w *workload.Workload) (*target, error)
	close()
}

// sinks starts a process for each run.
type sinks struct{ verify bool }

func (s sinks) close() {}

func (s sinks) open(ctx context.Context, w *workload.Workload) (*target, error) {
	cmd, err := self(ctx, sinkCommand, sink.Config{Brokers: 3, Partitions: w.Partitions, Delay: w.Delay, Verify: s.verify})
	if err != nil {
		return nil, err
	}
	cmd.Stderr = os.Stderr
	stdin, err := cmd.StdinPipe()
	if err != nil {
		return nil, err
	}
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	t := &target{topic: sink.Topic}
	lines := bufio.NewReader(stdout)
	t.finish = func() (arrived, error) { return finishSink(cmd, stdin, lines) }
	if err := readJSON(lines, &t.brokers); err != nil {
		_, _ = t.finish()
		return nil, fmt.Errorf("start the sink: %w", err)
	}
	return t, nil
}

func finishSink(cmd *exec.Cmd, stdin io.Closer, lines *bufio.Reader) (arrived, error) {
	var a arrived
	err := stdin.Close()
	err = errors.Join(err, readJSON(lines, &a.Stats), cmd.Wait())
	if cmd.ProcessState != nil {
		a.cpu = cpuSeconds(cmd.ProcessState)
	}
	switch {
	case err != nil:
		return a, fmt.Errorf("stop the sink: %w", err)
	case a.Faults > 0:
		return a, fmt.Errorf("the sink found %d faults, the first one in %s", a.Faults, a.FirstFault)
	}
	return a, nil
}

func readJSON(lines *bufio.Reader, v any) error {
	line, err := lines.ReadBytes('\n')
	if err != nil {
		return err
	}
	return json.Unmarshal(line, v)
}

// cluster makes a topic for each run, with the cluster's own replication factor, and deletes it afterwards.
type cluster struct {
	brokers []string
	admin   *kadm.Client
	prefix  string
	n       int
}

func openCluster(ctx context.Context, brokers []string) (*cluster, string, error) {
	client, err := kgo.NewClient(kgo.SeedBrokers(brokers...), kgo.MetadataMinAge(10*time.Millisecond))
	if err != nil {
		return nil, "", err
	}
	c := &cluster{brokers: brokers, admin: kadm.NewClient(client), prefix: fmt.Sprintf("reservoir-benchmark-%08x", rand.Uint32())}
	ctx, cancel := context.WithTimeout(ctx, 15*time.Second)
	defer cancel()
	nodes, err := c.admin.ListBrokers(ctx)
	if err != nil {
		c.close()
		return nil, "", fmt.Errorf("no broker of %v answers: %w", brokers, err)
	}
	version := "an unknown version"
	if all, err := c.admin.ApiVersions(ctx); err == nil {
		for _, v := range all {
			version = v.VersionGuess()
		}
	}
	return c, fmt.Sprintf("a cluster of %d, Kafka %s, replication factor as configured there", len(nodes), version), nil
}

func (c *cluster) close() { c.admin.Close() }

func (c *cluster) open(ctx context.Context, w *workload.Workload) (*target, error) {
	c.n++
	topic := fmt.Sprintf("%s-%d", c.prefix, c.n)
	now := "100" // milliseconds: many runs' records would be on disk otherwise
	made, err := c.admin.CreateTopic(ctx, int32(w.Partitions), -1, map[string]*string{"file.delete.delay.ms": &now}, topic)
	if err := errors.Join(err, made.Err); err != nil {
		return nil, fmt.Errorf("create topic %s: %w", topic, err)
	}
	t := &target{brokers: c.brokers, topic: topic, finish: func() (arrived, error) { return c.finish(topic) }}
	if err := c.ready(ctx, topic, w.Partitions); err != nil {
		_, _ = t.finish()
		return nil, err
	}
	return t, nil
}

// ready waits until every partition has a leader.
func (c *cluster) ready(ctx context.Context, topic string, partitions int) error {
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	for {
		topics, err := c.admin.ListTopics(ctx, topic)
		if ctx.Err() != nil {
			return fmt.Errorf("topic %s has no leaders for all its %d partitions after a minute: %w", topic, partitions, err)
		}
		led := 0
		if err == nil {
			for _, p := range topics[topic].Partitions {
				if p.Err == nil && p.Leader >= 0 {
					led++
				}
			}
		}
		if led == partitions {
			return nil
		}
		time.Sleep(50 * time.Millisecond)
	}
}

// finish counts records by the ends of the logs: nothing was ever deleted from them.
func (c *cluster) finish(topic string) (arrived, error) {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	var a arrived
	ends, err := c.admin.ListEndOffsets(ctx, topic)
	if err == nil {
		err = ends.Error()
	}
	ends.Each(func(o kadm.ListedOffset) { a.Records += o.Offset })
	if err != nil {
		err = fmt.Errorf("count the records of topic %s: %w", topic, err)
	}
	if _, derr := c.admin.DeleteTopics(ctx, topic); derr != nil {
		err = errors.Join(err, fmt.Errorf("delete topic %s: %w", topic, derr))
	}
	return a, err
}
