package kafkarun

import (
	"context"
	"fmt"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
)

// CreateTopic makes a topic, replicated as the cluster's size allows, and returns when the leader of each
// partition has taken a request for it. KRaft names a leader in metadata some milliseconds before that
// broker takes records; what is produced without acknowledgements in between is lost, with nobody to
// blame but the test.
func (c *Cluster) CreateTopic(ctx context.Context, topic string, partitions int) error {
	cl, err := c.client()
	if err != nil {
		return err
	}
	defer cl.Close()
	adm := kadm.NewClient(cl)
	if _, err := adm.CreateTopic(ctx, int32(partitions), int16(min(len(c.nodes), 3)), nil, topic); err != nil {
		return fmt.Errorf("creating topic %s: %w", topic, err)
	}
	for {
		offsets, err := adm.ListEndOffsets(ctx, topic)
		if err == nil {
			err = offsets.Error()
		}
		if err == nil && len(offsets[topic]) != partitions {
			err = fmt.Errorf("%d of %d partitions known", len(offsets[topic]), partitions)
		}
		if err == nil {
			return nil
		}
		if pause(ctx, 20*time.Millisecond) != nil {
			return fmt.Errorf("topic %s has no working leaders: %w", topic, err)
		}
	}
}
