package sim

import (
	"os"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/kafka-reservoir/producer/accumulator"
	"github.com/kafka-reservoir/producer/internal/testbroker"
)

// seeds is how many worlds a test run plays: SIM_SEEDS if it is set.
func seeds(t *testing.T) int {
	s := os.Getenv("SIM_SEEDS")
	if s == "" {
		switch {
		case raceEnabled:
			return 10
		case testing.Short():
			return 50
		}
		return 300
	}
	n, err := strconv.Atoi(s)
	require.NoError(t, err)
	return n
}

// Delivery 5: whatever brokers, networks and applications do, what the producer says of a record is true. Seeds beyond those
// played here are for the command in cmd/sim.
func TestWorlds(t *testing.T) {
	totals := Swarm{First: 1, Seeds: seeds(t), Each: func(r *Result) bool {
		if len(r.Violations) > 0 {
			small := Shrink(r.Seed, Options{}, Class(r.Violations[0]), 30)
			t.Errorf("seed %d: %v\nrepeat with: go run ./internal/sim/cmd/sim -seed %d%s -trace\n%v",
				r.Seed, r.Violations[0], r.Seed, small.Flags(), Draw(r.Seed, Options{}))
		}
		return !t.Failed()
	}}.Run()
	t.Log(&totals)
	assert.Positive(t, totals.Faults)
	assert.Positive(t, totals.Records)
}

// A seed plays out in the same way each time, in whatever company.
func TestSameSeedSameDigest(t *testing.T) {
	n := 40
	if raceEnabled {
		n = 3
	}
	one := Swarm{First: 1, Seeds: n, Workers: 1}.Run()
	two := Swarm{First: 1, Seeds: n, Workers: 4}.Run()
	require.Equal(t, one, two)
	other := Swarm{First: 2, Seeds: n}.Run()
	require.NotEqual(t, one.Digest, other.Digest)
}

// Seeds that showed a fault once. What came later is left out: the worlds are to be what they were.
func TestWorldsThatFailed(t *testing.T) {
	var later []Kind
	for k := firstLater; k < kinds; k++ {
		later = append(later, k)
	}
	for _, seed := range []uint64{1018112, 1025912, 1026855, 1027047, 1029451, 2201433, 6000708, 6007708, 6011225, 7004904, 7015425, 7017198} {
		assert.Empty(t, Run(Draw(seed, Options{Without: later, Plain: true})).Violations, "seed %d", seed)
	}
}

// Assistants take part in the worlds that have them: what comes for a sender that sleeps is then seen to without waking it.
func TestAssistants(t *testing.T) {
	steps := map[bool]int{}
	for _, assists := range []bool{false, true} {
		cfg := Config{Linger: -1, Seed: 1}
		assisted := 0
		if assists {
			cfg.Assists = func() bool { return true }
		}
		w, err := New(cfg)
		require.NoError(t, err)
		w.Assisted = func() { assisted++ }
		require.NoError(t, w.Cluster.CreateTopic(testbroker.Topic{Name: "t", Partitions: 1}))
		require.NotNil(t, w.Topic("t"))
		told := 0
		for i := range 100 {
			w.Selector.In(time.Duration(i)*10*time.Millisecond, func() {
				assert.NoError(t, w.Append("t", 0, nil, []byte("v"), func(_ accumulator.Result, err error) {
					assert.NoError(t, err)
					told++
				}))
			})
		}
		w.Run(5*time.Second, func() bool { steps[assists]++; return told == 100 })
		require.Equal(t, 100, told)
		if assists {
			assert.Greater(t, assisted, 150, "for most records a caller, and a reader")
		} else {
			assert.Zero(t, assisted)
		}
	}
	assert.Less(t, 5*steps[true], steps[false])
}
