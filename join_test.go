package producer_test

import (
	"context"
	"fmt"
	"runtime"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/kafka-reservoir/producer"
	"github.com/kafka-reservoir/producer/internal/simnet"
	"github.com/kafka-reservoir/producer/internal/testbroker"
	"github.com/kafka-reservoir/producer/protocol"
)

// Callers that each wait for their record before they send the next one come to share requests: all of them, not half now and half while those are away.
func TestWaitingCallersShareRequests(t *testing.T) {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(1)) // who runs when decides what is shared
	for _, linger := range []time.Duration{producer.NoLinger, 5 * time.Millisecond} {
		for _, callers := range []int{1, 2, 16} {
			t.Run(fmt.Sprint(linger, callers), func(t *testing.T) {
				inLab(t, testbroker.Config{}, func(t *testing.T, l *lab) {
					for _, addr := range l.Addrs() {
						l.network.SetLink(addr, simnet.Link{Latency: time.Millisecond})
					}
					const rounds = 50
					p := l.texts(t, func(c *producer.Config) { c.Linger = linger })
					var wg sync.WaitGroup
					for i := range callers {
						wg.Go(func() {
							time.Sleep(time.Duration(i) * 100 * time.Microsecond) // they do not begin together
							for range rounds {
								_, err := p.Send(context.Background(), producer.Record[string, string]{Topic: "t", Value: "v"}).Wait(context.Background())
								assert.NoError(t, err)
							}
						})
					}
					wg.Wait()
					got := len(requests(l.Cluster(), protocol.KeyProduce))
					require.NotZero(t, got)
					t.Logf("%d requests", got)
					assert.LessOrEqual(t, got, rounds*3/2)
					end(t, p)
				})
			})
		}
	}
}
