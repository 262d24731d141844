package faultrun

import (
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// TestMain is also the producer's process.
func TestMain(m *testing.M) {
	if os.Getenv(ChildEnv) != "" {
		if err := Child(os.Stdin, os.Stdout); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	os.Exit(m.Run())
}

// A few faults of each group, as short as they can be. All of them take minutes: go run ./internal/faultrun/cmd/faultrun
func TestFaults(t *testing.T) {
	for _, name := range []string{
		"calm", "reset-mid-request", "reset-after-append", "leader-flaps", "broker-back", "other-cluster", "recreated-topic", "expired",
		"error-after-append", "too-large", "first-write", "negative-frame", "wrong-correlation",
	} {
		t.Run(name, func(t *testing.T) { clean(t, name, Options{Seed: 1, Quick: true}) })
	}
	t.Run("closed in the middle", func(t *testing.T) { clean(t, "leaderless", Options{Seed: 1, Quick: true, Forced: true}) })
}

func clean(t *testing.T, name string, o Options) {
	res, err := Run(Find(name), o)
	require.NoError(t, err)
	if err := res.Complaint(); err != nil {
		var journal strings.Builder
		for _, e := range res.Seen {
			fmt.Fprintln(&journal, e)
		}
		t.Errorf("%v\n%s\n%.100000s", err, res.Summary(), journal.String())
	}
	assert.Positive(t, res.Acked)
	var table Table
	table.Add(res)
	require.NoError(t, table.Write(&strings.Builder{}))
}

// Delivery's catalogue has 42 faults.
func TestCatalogueIsWhole(t *testing.T) {
	assert.Len(t, Catalogue, 42)
	names, titles := map[string]bool{}, map[string]bool{}
	for _, f := range Catalogue {
		names[f.Name], titles[f.Title] = true, true
		assert.NotEmpty(t, f.How, f.Name)
		assert.Equal(t, f, Find(f.Name))
	}
	assert.Len(t, names, 42)
	assert.Len(t, titles, 42)
	assert.Nil(t, Find("no such fault"))
}
