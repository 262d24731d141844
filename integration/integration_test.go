// Package integration holds the checks of the producer against real Kafka brokers.
//
// They start brokers of their own and take minutes, so that they run only when asked for:
//
//	RESERVOIR_KAFKA=4.4.0,0.11.0.3 go test .
//
// The long forms are the commands cmd/matrix and cmd/million. Everything here is a module of its own: what it
// needs never reaches the users of the library.
package integration

import (
	"context"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/kafka-reservoir/producer/integration/kafkarun"
	"github.com/kafka-reservoir/producer/integration/matrix"
	"github.com/kafka-reservoir/producer/integration/million"
)

// versionsEnv names the environment variable that says which releases to test with.
const versionsEnv = "RESERVOIR_KAFKA"

// eachVersion runs the test with a cluster of each release asked for.
func eachVersion(t *testing.T, nodes int, test func(t *testing.T, ctx context.Context, c *kafkarun.Cluster)) {
	versions := os.Getenv(versionsEnv)
	if versions == "" {
		t.Skipf("set %s to the Kafka releases to test with, such as 4.4.0,0.11.0.3", versionsEnv)
	}
	for _, v := range strings.Split(versions, ",") {
		t.Run(v, func(t *testing.T) {
			ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
			defer cancel()
			c, err := kafkarun.Start(ctx, kafkarun.Config{Version: v, Nodes: nodes, Logf: t.Logf})
			require.NoError(t, err)
			defer c.Close()
			test(t, ctx, c)
		})
	}
}

// Every codec, routing and setting of acks, with every kind of record, read back by two consumers.
func TestMatrixIsReadBackUnchanged(t *testing.T) {
	eachVersion(t, 1, func(t *testing.T, ctx context.Context, c *kafkarun.Cluster) {
		res, err := matrix.Run(ctx, c, matrix.Options{Seed: 1, Short: true, Logf: t.Logf})
		require.NoError(t, err)
		assert.Positive(t, res.Records)
		assert.Zero(t, res.Acks, "wrong acknowledgements")
		assert.Zero(t, res.FranzGo, "differences found by franz-go")
		assert.Zero(t, res.Java, "differences found by the Java consumer")
	})
}

func TestManyRecordsArriveOnceAndInOrder(t *testing.T) {
	eachVersion(t, 1, func(t *testing.T, ctx context.Context, c *kafkarun.Cluster) {
		for name, keyed := range map[string]bool{"unkeyed": false, "keyed": true} {
			t.Run(name, func(t *testing.T) {
				requireMillion(t, ctx, c, million.Options{Records: 100_000, Keyed: keyed})
			})
		}
	})
}

// A clean stop, then a power cut, each of another node, while records are sent.
func TestRestartedBrokersLoseAndRepeatNothing(t *testing.T) {
	eachVersion(t, 3, func(t *testing.T, ctx context.Context, c *kafkarun.Cluster) {
		requireMillion(t, ctx, c, million.Options{Records: 200_000, Keyed: true, Rate: 5_000,
			Rounds: []million.Kind{million.Clean, million.Hard}})
	})
}

func requireMillion(t *testing.T, ctx context.Context, c *kafkarun.Cluster, o million.Options) {
	t.Helper()
	o.Logf = t.Logf
	res, err := million.Run(ctx, c, o)
	require.NoError(t, err)
	assert.GreaterOrEqual(t, res.Sent, o.Records)
	assert.Equal(t, res.Sent, res.Acked)
	assert.Empty(t, res.Acks.Shown, "wrong acknowledgements")
	assert.Empty(t, res.FranzGo.Shown, "differences found by franz-go")
	assert.Empty(t, res.Java.Shown, "differences found by the Java consumer")
}
