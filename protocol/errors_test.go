package protocol

import (
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// The whole table is Kafka's: names, texts, what is retriable and what makes metadata invalid, as the
// broker's own classes say (testdata/Golden.java).
func TestErrorTableIsKafkas(t *testing.T) {
	b, err := os.ReadFile("testdata/errors.txt")
	require.NoError(t, err)
	lines := strings.Split(strings.TrimSpace(string(b)), "\n")
	require.Len(t, lines, len(errorTable))
	for _, line := range lines {
		fields := strings.Split(line, "\t")
		require.Len(t, fields, 5)
		n, err := strconv.ParseInt(fields[0], 10, 16)
		require.NoError(t, err)
		c := ErrorCode(n)
		assert.Equal(t, fields[1], c.Name())
		assert.Equal(t, fields[2] == "R", c.Retriable(), c.Name())
		assert.Equal(t, fields[3] == "M", c.InvalidatesMetadata(), c.Name())
		assert.Equal(t, fields[1]+": "+strings.TrimSuffix(fields[4], "."), c.Error())
	}
}

// FC-017: ordinary broker trouble is retriable, with a fetch of metadata where leadership is in doubt;
// refusals are not retriable.
func TestErrorClassification(t *testing.T) {
	for _, c := range []ErrorCode{2, 3, 5, 6, 7, 9, 13, 14, 15, 16, 19, 20, 41, 51, 56, 72, 74, 75, 78, 88, 89, 100, 103} {
		assert.True(t, c.Retriable(), c.Name())
	}
	refresh := map[ErrorCode]bool{3: true, 5: true, 6: true, 9: true, 13: true, 56: true, 72: true, 74: true, 80: true, 83: true, 84: true, 100: true, 103: true}
	for c := ErrorCode(-2); c < 200; c++ {
		assert.Equal(t, refresh[c], c.InvalidatesMetadata(), c.Name())
		if c.InvalidatesMetadata() {
			assert.True(t, c.Retriable(), c.Name())
		}
	}
	for _, c := range []ErrorCode{
		UnknownServerError, None, BrokerNotAvailable, MessageTooLarge, InvalidTopicException, RecordListTooLarge, InvalidRequiredAcks,
		TopicAuthorizationFailed, ClusterAuthorizationFailed, InvalidTimestamp, UnsupportedVersion, InvalidRequest, OutOfOrderSequenceNumber,
		DuplicateSequenceNumber, InvalidProducerEpoch, UnknownProducerID, UnsupportedCompressionType, InvalidRecord, ProducerFenced,
		TransactionAbortable, RebootstrapRequired,
	} {
		assert.False(t, c.Retriable(), c.Name())
	}
}

// FC-017: a code from the future keeps its number, is an error of the same type and is not retriable.
func TestUnknownErrorCode(t *testing.T) {
	for _, c := range []ErrorCode{9999, -2, -32768, 32767, ErrorCode(len(errorTable) - 1)} {
		assert.False(t, c.Retriable())
		assert.False(t, c.InvalidatesMetadata())
		assert.Equal(t, fmt.Sprintf("UNKNOWN(%d)", int16(c)), c.Name())
		assert.Equal(t, fmt.Sprintf("unknown broker error code %d", int16(c)), c.Error())

		var got ErrorCode
		require.ErrorAs(t, fmt.Errorf("produce orders-3: %w", c), &got)
		assert.Equal(t, c, got)
	}
}

func TestErrorCodeAsError(t *testing.T) {
	require.NoError(t, None.Err())
	err := fmt.Errorf("produce orders-3: %w", NotLeaderOrFollower.Err())
	assert.ErrorIs(t, err, NotLeaderOrFollower)
	assert.False(t, errors.Is(err, LeaderNotAvailable))
	assert.Equal(t, "NOT_LEADER_OR_FOLLOWER", NotLeaderOrFollower.Name())
}
