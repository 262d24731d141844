package sim

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// Every kind has a name, which finds it again, and some seed draws it.
func TestKinds(t *testing.T) {
	var drawn [kinds]int
	for seed := range uint64(2000) {
		plan := Draw(seed, Options{})
		for _, k := range plan.On() {
			drawn[k]++
		}
	}
	for k := range kinds {
		got, unknown := ParseKinds(k.String())
		assert.Empty(t, unknown)
		assert.Equal(t, []Kind{k}, got)
		assert.Greater(t, drawn[k], 20, "worlds with %v of 2000", k)
	}
	_, unknown := ParseKinds("leader-move,no-such-thing")
	assert.Equal(t, "no-such-thing", unknown)
}

// What options take away is gone, and all else stays as it was drawn.
func TestOptionsOnlyTakeAway(t *testing.T) {
	for seed := range uint64(200) {
		whole := Draw(seed, Options{})
		kinds := whole.On()
		if len(kinds) == 0 {
			continue
		}
		part := Draw(seed, Options{Without: kinds[:1], Faults: time.Second, Partitions: 1})
		assert.Equal(t, kinds[1:], append([]Kind{}, part.On()...))
		assert.Equal(t, 1, part.Partitions)
		assert.LessOrEqual(t, part.Faults, time.Second)
		part.Callback = whole.Callback
		part.Levels, part.Partitions, part.Topics, part.Faults, part.Spares = whole.Levels, whole.Partitions, whole.Topics, whole.Faults, whole.Spares
		part.Config.Cluster.Nodes, part.Config.WallClock = whole.Config.Cluster.Nodes, whole.Config.WallClock
		require.Equal(t, whole, part)
	}
}

// Delivery 3 and 5.4, fault by fault: what stands for it here.
func TestCatalogue(t *testing.T) {
	named := [kinds]bool{}
	for fault, stand := range map[string][]Kind{
		// Network.
		"reset mid-request":                     {BreakRequest},
		"reset after the append":                {DropAfter, BreakAnswer},
		"answer cut in half":                    {CutAnswer, BreakAnswer},
		"answer one byte at a time":             {Trickle},
		"answer later than the request timeout": {HoldAnswer, LateAnswer},
		"append later than the request timeout": {DelayAppend, LateRequest},
		"request swallowed":                     {Swallow, LoseRequest},
		"accept then close":                     {AcceptClose},
		"silence":                               {Silence, HalfOpen, HangConnect, DeafBroker},
		"slow reader":                           {SlowReader},
		"no connection, or none any more":       {RefuseConnect, DropBefore},
		// Cluster.
		"leader moves":               {LeaderMove},
		"leader flaps":               {LeaderFlap},
		"stale metadata":             {StaleMetadata},
		"leaderless partitions":      {Leaderless},
		"broker down and back":       {BrokerBounce}, // replicated, and not: Config.Cluster.Replicas
		"back at another address":    {OtherAddress},
		"all replaced one by one":    {ReplaceAll},
		"all restart":                {RestartAll},
		"gone for good":              {GoneForGood, AllGone},
		"address of another cluster": {OtherCluster},
		"topic deleted, recreated":   {RecreateTopic},
		"unclean election":           {Unclean},
		"producer state expired":     {ExpireProducer},
		"expired, then a flap":       {ExpireAndFlap},
		// Answers. Batches expire in flight where delivery timeouts are short, see SlowReader in drawLevels; UNKNOWN_PRODUCER_ID is
		// what logs say that have forgotten.
		"random retriable codes":     {AnyRetriable, RefuseCode, PartialCode, MetadataCode},
		"error after the append":     {DoubtCode, PartialCode, HostileAfter},
		"too large":                  {TooLarge},
		"throttle":                   {Throttle},
		"InitProducerId unavailable": {NoProducerID},
		"first write racing":         {FirstWrite},
		"expiry while in flight":     {ExpireProducer, SlowReader},
		"unknown producer id":        {ExpireProducer, Unclean, RecreateTopic},
		"answers of another form":    {OtherOrder, DuplicateCode},
		// Hostile bytes.
		"TLS alert":            {TLSAlert},
		"HTTP answer":          {HTTPAnswer},
		"frame of 2 GB":        {HugeFrame},
		"negative frame":       {NegativeFrame},
		"wrong correlation id": {WrongCorrelation},
		"truncated body":       {TruncatedBody},
		"huge array":           {HugeArray},
		"fuzzed response":      {FuzzedAnswer, FuzzedMetadata},
		// Client.
		"slow callback":       {SlowCallbacks},
		"send from callback":  {SendFromCallback},
		"ctx cancelled":       {Cancel},
		"Close at any moment": {CloseEarly, CloseForced},
		"Flush during outage": {Flush},
		"wall clock jumps":    {WallClockJump},
	} {
		assert.NotEmpty(t, stand, fault)
		for _, k := range stand {
			named[k] = true
		}
	}
	for k := range kinds {
		assert.True(t, named[k], "%v stands for nothing", k)
	}
}
