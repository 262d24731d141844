// Command kafka runs a real Apache Kafka cluster until it is interrupted, to try things by hand:
//
//	go run ./cmd/kafka -version 4.4.0 -nodes 3
//
// It prints the bootstrap servers on standard output once the cluster is ready.
package main

import (
	"context"
	"flag"
	"fmt"
	"log"
	"os/signal"
	"strings"
	"syscall"

	"github.com/kafka-reservoir/producer/integration/kafkarun"
)

func main() {
	log.SetFlags(log.Ltime)
	cfg := kafkarun.Config{Logf: log.Printf}
	flag.StringVar(&cfg.Version, "version", "4.4.0", "Kafka release")
	flag.IntVar(&cfg.Nodes, "nodes", 1, "number of nodes, 1 to 3")
	flag.StringVar(&cfg.Dir, "dir", "", "folder for data and logs (default: a temporary one)")
	flag.Parse()

	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	defer stop()
	c, err := kafkarun.Start(ctx, cfg)
	if err != nil {
		log.Fatal(err)
	}
	defer c.Close()
	log.Printf("data and logs in %s; interrupt to stop", c.Dir())
	fmt.Println(strings.Join(c.Bootstrap(), ","))
	<-ctx.Done()
}
