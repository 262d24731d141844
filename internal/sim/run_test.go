package sim

import (
	"fmt"
	"os"
	"strconv"
	"testing"
)

func TestDebug(t *testing.T) {
	from, _ := strconv.Atoi(os.Getenv("SEED"))
	n, _ := strconv.Atoi(os.Getenv("N"))
	for seed := from; seed < from+max(n, 1); seed++ {
		o := Options{}
		if os.Getenv("TRACE") != "" {
			o.Trace = os.Stdout
		}
		p := Draw(uint64(seed), o)
		res := Run(p)
		if len(res.Violations) > 0 {
			t.Errorf("seed %d", seed)
			fmt.Println("SEED", seed, p)
			for _, v := range res.Violations[:min(3, len(res.Violations))] {
				fmt.Println("   ", v)
			}
		}
		fmt.Printf("%d: %v faults %d records %d acked %d failed %d requests %d digest %x\n", seed, res.Time, res.Faults, res.Records, res.Acked, res.Failed, res.Requests, res.Digest)
	}
}
