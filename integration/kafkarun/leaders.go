package kafkarun

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// leaderPoll is how often a node is asked whether leaders have changed.
const leaderPoll = 20 * time.Millisecond

// Leaders lists the leader of each partition of a topic, -1 where there is none, as the given node knows them.
func (c *Cluster) Leaders(ctx context.Context, topic string, node int) ([]int, error) {
	cl, err := c.seedClient(node)
	if err != nil {
		return nil, err
	}
	defer cl.Close()
	return leaders(ctx, cl, topic)
}

// AwaitNewLeaders returns when the given node knows, for each of the partitions, another leader than the one in old.
func (c *Cluster) AwaitNewLeaders(ctx context.Context, topic string, partitions, old []int, node int) error {
	cl, err := c.seedClient(node)
	if err != nil {
		return err
	}
	defer cl.Close()
	for {
		now, err := leaders(ctx, cl, topic)
		if err == nil {
			i := slices.IndexFunc(partitions, func(p int) bool { return now[p] < 0 || now[p] == old[p] })
			if i < 0 {
				return nil
			}
			err = fmt.Errorf("%s-%d has leader %d, as before", topic, partitions[i], now[partitions[i]])
		}
		if pause(ctx, leaderPoll) != nil {
			return fmt.Errorf("waiting for new leaders: %w (%w)", err, ctx.Err())
		}
	}
}

// ElectPreferred gives each partition of a topic back to the first of its replicas, as kafka-leader-election does.
// Kafka has the request since 2.2.
func (c *Cluster) ElectPreferred(ctx context.Context, topic string) error {
	cl, err := c.client()
	if err != nil {
		return err
	}
	defer cl.Close()
	adm := kadm.NewClient(cl)
	t, err := describe(ctx, adm, topic)
	if err != nil {
		return err
	}
	// All are asked for: who leads and who is preferred, the controller knows better than the broker that was asked.
	var all kadm.TopicsSet
	for p := range t.Partitions {
		all.Add(topic, p)
	}
	res, err := adm.ElectLeaders(ctx, kadm.ElectPreferredReplica, all)
	if err != nil {
		return fmt.Errorf("electing preferred leaders: %w", err)
	}
	for p, r := range res[topic] {
		if r.Err != nil && !errors.Is(r.Err, kerr.ElectionNotNeeded) {
			return fmt.Errorf("electing the preferred leader of %s-%d: %w %s", topic, p, r.Err, r.ErrMessage)
		}
	}
	return nil
}

// MoveLeaders moves every partition of a topic to another leader while all nodes run: the replicas stay, their order
// changes (kafka-reassign-partitions), and the one that is now first is elected. Kafka can since 2.4.
func (c *Cluster) MoveLeaders(ctx context.Context, topic string) error {
	cl, err := c.client()
	if err != nil {
		return err
	}
	defer cl.Close()
	adm := kadm.NewClient(cl)
	t, err := describe(ctx, adm, topic)
	if err != nil {
		return err
	}
	var req kadm.AlterPartitionAssignmentsReq
	first := make(map[int32]int32)
	for p, d := range t.Partitions {
		// The leader goes to the end, so that the next one is another also where it was not the preferred one.
		i := slices.Index(d.Replicas, d.Leader)
		order := slices.Concat(d.Replicas[i+1:], d.Replicas[:i+1])
		req.Assign(topic, p, order)
		first[p] = order[0]
	}
	res, err := adm.AlterPartitionAssignments(ctx, req)
	if err == nil {
		err = res.Error()
	}
	if err != nil {
		return fmt.Errorf("reassigning %s: %w", topic, err)
	}
	for {
		t, err := describe(ctx, adm, topic)
		if err != nil {
			return err
		}
		done := true
		for p, d := range t.Partitions {
			done = done && d.Replicas[0] == first[p]
		}
		if done {
			return c.ElectPreferred(ctx, topic)
		}
		if err := pause(ctx, leaderPoll); err != nil {
			return fmt.Errorf("reassigning %s: %w", topic, err)
		}
	}
}

func describe(ctx context.Context, adm *kadm.Client, topic string) (kadm.TopicDetail, error) {
	md, err := adm.Metadata(ctx, topic)
	if err != nil {
		return kadm.TopicDetail{}, err
	}
	t := md.Topics[topic]
	if t.Err != nil {
		return t, fmt.Errorf("topic %s: %w", topic, t.Err)
	}
	for p, d := range t.Partitions {
		if d.Leader < 0 {
			return t, fmt.Errorf("%s-%d has no leader", topic, p)
		}
	}
	return t, nil
}

// client is a client of the whole cluster, which asks for metadata when it is told to: kadm answers from what is up to
// five seconds old by default.
func (c *Cluster) client() (*kgo.Client, error) {
	return kgo.NewClient(kgo.SeedBrokers(c.Bootstrap()...), kgo.MetadataMinAge(leaderPoll/2))
}

// seedClient is a client whose only seed broker is the given node.
func (c *Cluster) seedClient(node int) (*kgo.Client, error) {
	n, err := c.node(node)
	if err != nil {
		return nil, err
	}
	return kgo.NewClient(kgo.SeedBrokers(address(n.port)), kgo.RequestRetries(0))
}

// leaders asks the client's seed broker and nobody else.
func leaders(ctx context.Context, cl *kgo.Client, topic string) ([]int, error) {
	req := kmsg.NewPtrMetadataRequest()
	rt := kmsg.NewMetadataRequestTopic()
	rt.Topic = kmsg.StringPtr(topic)
	req.Topics = append(req.Topics, rt)
	res, err := cl.SeedBrokers()[0].Request(ctx, req)
	if err != nil {
		return nil, err
	}
	md, ok := res.(*kmsg.MetadataResponse)
	if !ok || len(md.Topics) != 1 {
		return nil, fmt.Errorf("metadata of %s answered by %T", topic, res)
	}
	if err := kerr.ErrorForCode(md.Topics[0].ErrorCode); err != nil {
		return nil, fmt.Errorf("topic %s: %w", topic, err)
	}
	all := make([]int, len(md.Topics[0].Partitions))
	for _, p := range md.Topics[0].Partitions {
		all[p.Partition] = int(p.Leader)
	}
	return all, nil
}
