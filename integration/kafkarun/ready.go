package kafkarun

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// zooKeeperAnswers asks for ZooKeeper's state with the one four-letter word that all versions allow.
func zooKeeperAnswers(addr string) error {
	conn, err := net.DialTimeout("tcp", addr, time.Second)
	if err != nil {
		return err
	}
	defer conn.Close()
	_ = conn.SetDeadline(time.Now().Add(time.Second))
	if _, err := io.WriteString(conn, "srvr"); err != nil {
		return err
	}
	answer, err := io.ReadAll(conn)
	if err != nil {
		return err
	}
	if !strings.Contains(string(answer), "Zookeeper version") {
		return fmt.Errorf("zookeeper answered %q", answer)
	}
	return nil
}

// brokerKnows asks node n itself for metadata and complains unless it lists all the nodes of want: a
// broker lists itself only once it is registered and no longer fenced.
func brokerKnows(ctx context.Context, n *node, want []*node) error {
	// A connection attempt of our own is cheaper than a client that finds the port closed.
	conn, err := net.DialTimeout("tcp", address(n.port), time.Second)
	if err != nil {
		return err
	}
	_ = conn.Close()
	cl, err := kgo.NewClient(kgo.SeedBrokers(address(n.port)), kgo.RequestRetries(0))
	if err != nil {
		return err
	}
	defer cl.Close()
	req := kmsg.NewPtrMetadataRequest()
	req.Topics = []kmsg.MetadataRequestTopic{}
	res, err := cl.SeedBrokers()[0].Request(ctx, req)
	if err != nil {
		return err
	}
	md, ok := res.(*kmsg.MetadataResponse)
	if !ok {
		return fmt.Errorf("metadata answered by %T", res)
	}
	known := make(map[int32]bool)
	for _, b := range md.Brokers {
		known[b.NodeID] = true
	}
	for _, w := range want {
		if !known[int32(w.id)] {
			return fmt.Errorf("%s does not know node %d yet", n.name(), w.id)
		}
	}
	return nil
}

// WaitInSync waits until every partition of every topic has a leader and all its replicas in sync.
func (c *Cluster) WaitInSync(ctx context.Context) error {
	cl, err := c.client()
	if err != nil {
		return err
	}
	defer cl.Close()
	adm := kadm.NewClient(cl)
	begin := time.Now()
	for {
		err := inSync(ctx, adm)
		if err == nil {
			c.cfg.Logf("kafka %s: all replicas in sync after %v", c.Version(), time.Since(begin).Round(100*time.Millisecond))
			return nil
		}
		if pause(ctx, 200*time.Millisecond) != nil {
			return fmt.Errorf("replicas not in sync: %w (%w)", err, ctx.Err())
		}
	}
}

func inSync(ctx context.Context, adm *kadm.Client) error {
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	md, err := adm.Metadata(ctx)
	if err != nil {
		return err
	}
	for _, t := range md.Topics.Sorted() {
		if t.Err != nil {
			return fmt.Errorf("topic %s: %w", t.Topic, t.Err)
		}
		for _, p := range t.Partitions.Sorted() {
			if p.Err != nil && !errors.Is(p.Err, kerr.ReplicaNotAvailable) {
				return fmt.Errorf("%s-%d: %w", p.Topic, p.Partition, p.Err)
			}
			if p.Leader < 0 || len(p.ISR) < len(p.Replicas) {
				return fmt.Errorf("%s-%d: leader %d, in sync %v of %v", p.Topic, p.Partition, p.Leader, p.ISR, p.Replicas)
			}
		}
	}
	return nil
}
