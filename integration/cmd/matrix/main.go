// Command matrix starts real Kafka brokers of several versions, one after the other, and shows on each that
// every kind of record arrives byte for byte and in order, whatever the codec, the partitioner and acks:
//
//	go run ./cmd/matrix -versions 4.4.0,3.9.1,2.8.2,2.1.1,1.1.1,0.11.0.3
//
// Records are read back with franz-go and with Kafka's own Java consumer. The exit code is 1 if anything differs
// or could not be checked. With -producer franzgo the same is done with franz-go's producer, which checks the check.
package main

import (
	"context"
	"flag"
	"fmt"
	"log"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"

	"github.com/kafka-reservoir/producer/integration/kafkarun"
	"github.com/kafka-reservoir/producer/integration/matrix"
)

func main() {
	log.SetFlags(log.Ltime)
	log.SetOutput(os.Stdout)
	versions := flag.String("versions", "4.4.0,3.9.1,2.8.2,2.1.1,1.1.1,0.11.0.3", "Kafka releases, separated by commas")
	nodes := flag.Int("nodes", 1, "nodes of each cluster, 1 to 3")
	dir := flag.String("dir", "", "folder that keeps the brokers' data and logs, in one of each version (default: a temporary one)")
	o := matrix.Options{Logf: log.Printf}
	flag.StringVar(&o.Producer, "producer", "reservoir", "reservoir, or franzgo to check the check")
	flag.StringVar(&o.Only, "only", "", "run only cells whose name contains this, such as gzip/keyed/acks=1")
	flag.BoolVar(&o.Short, "short", false, "run every seventh cell")
	flag.Uint64Var(&o.Seed, "seed", 1, "seed of the records")
	flag.Parse()

	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	defer stop()
	ok := true
	var results []matrix.Result
	for _, v := range strings.Split(*versions, ",") {
		res, err := run(ctx, kafkarun.Config{Version: v, Nodes: *nodes, Dir: sub(*dir, v), Logf: log.Printf}, o)
		if err != nil {
			log.Print(err)
			ok = false
		}
		ok = ok && res.OK()
		results = append(results, res)
		if ctx.Err() != nil {
			break
		}
	}
	fmt.Println()
	matrix.WriteTable(os.Stdout, results)
	if !ok {
		stop()
		os.Exit(1)
	}
}

// sub is the folder of one version in dir, if there is one.
func sub(dir, version string) string {
	if dir == "" {
		return ""
	}
	return filepath.Join(dir, version)
}

func run(ctx context.Context, cfg kafkarun.Config, o matrix.Options) (matrix.Result, error) {
	c, err := kafkarun.Start(ctx, cfg)
	if err != nil {
		return matrix.Result{Version: cfg.Version}, err
	}
	defer c.Close()
	return matrix.Run(ctx, c, o)
}
