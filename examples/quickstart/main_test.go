package main

import (
	"bytes"
	"errors"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/kafka-reservoir/producer"
	"github.com/kafka-reservoir/producer/internal/testbroker"
)

// As in the README: no flags but a smaller number, an embedded cluster, all partitions in the table, offsets from 0.
func TestQuickstartEmbedded(t *testing.T) {
	var out bytes.Buffer
	require.NoError(t, run(t.Context(), &out, []string{"-records", "20000"}))
	text := out.String()
	assert.Contains(t, text, "producing 20,000 records to topic quickstart")
	assert.Equal(t, 10, strings.Count(text, "  sent "), "progress, ten times")
	assert.Contains(t, text, "sent 20,000  acknowledged ")
	assert.Regexp(t, `20,000 records \([\d,]+ bytes\) acknowledged in .* records/s`, text)

	rows := regexp.MustCompile(`(?m)^ +(\d+) +([\d,]+) +0 +(\d+) +[\d,]+ +yes$`).FindAllStringSubmatch(text, -1)
	require.Len(t, rows, 6, text)
	sum := 0
	for i, row := range rows {
		assert.Equal(t, strconv.Itoa(i), row[1])
		n, err := strconv.Atoi(strings.ReplaceAll(row[2], ",", ""))
		require.NoError(t, err)
		last, err := strconv.Atoi(row[3])
		require.NoError(t, err)
		assert.Equal(t, n-1, last)
		sum += n
	}
	assert.Equal(t, 20000, sum)
}

// With -brokers and -topic: the records really are in the cluster's log.
func TestQuickstartGivenBrokers(t *testing.T) {
	cluster, err := testbroker.Start(testbroker.Config{Partitions: 2})
	require.NoError(t, err)
	defer cluster.Close()
	var out bytes.Buffer
	require.NoError(t, run(t.Context(), &out, []string{"-brokers", strings.Join(cluster.Addrs(), ","), "-topic", "mine", "-records", "500"}))
	n := 0
	for _, p := range cluster.Cluster().AllRecords("mine") {
		for _, r := range p {
			assert.Regexp(t, `^record \d+`, string(r.Value))
			n++
		}
	}
	assert.Equal(t, 500, n)
}

func TestQuickstartBadArguments(t *testing.T) {
	var out bytes.Buffer
	assert.Error(t, run(t.Context(), &out, []string{"-records", "0"}))
	assert.Error(t, run(t.Context(), &out, []string{"-nonsense"}))
	assert.ErrorContains(t, run(t.Context(), &out, []string{"-brokers", "nowhere"}), "BootstrapServers (bootstrap.servers)")
}

func TestTally(t *testing.T) {
	r := newTally()
	r.add(producer.RecordMetadata{Partition: 1, Offset: 5, KeySize: 1, ValueSize: 2}, nil)
	r.add(producer.RecordMetadata{Partition: 1, Offset: 4, KeySize: 1, ValueSize: 2}, nil)
	assert.NoError(t, r.firstError())
	r.add(producer.RecordMetadata{}, errors.New("first"))
	r.add(producer.RecordMetadata{}, errors.New("second"))
	assert.ErrorContains(t, r.firstError(), "2 records failed, the first one with: first")
	var out bytes.Buffer
	r.print(&out, 1e9)
	assert.Regexp(t, `1 +2 +5 +4 +6 +no`, out.String())
	assert.Equal(t, "1 12 123 1,234 1,234,567", strings.Join([]string{thousands(1), thousands(12), thousands(123), thousands(1234), thousands(1234567)}, " "))
}
