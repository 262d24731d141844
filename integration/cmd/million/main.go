// Command million sends a million records of 100 bytes to a real Kafka with an idempotent producer and shows that
// each is acknowledged, is read back once, and is in order within its partition:
//
//	go run ./cmd/million -version 4.4.0
//	go run ./cmd/million -version 4.4.0 -keyed
//	go run ./cmd/million -version 4.4.0 -nodes 3 -restart -kill
//
// With -restart a node is stopped (SIGTERM) and started again while records are sent, with -kill another one is
// killed (SIGKILL). The exit code is 1 if anything is not as it must be.
package main

import (
	"context"
	"flag"
	"fmt"
	"log"
	"os"
	"os/signal"
	"syscall"
	"text/tabwriter"

	"github.com/kafka-reservoir/producer/integration/kafkarun"
	"github.com/kafka-reservoir/producer/integration/million"
	"github.com/kafka-reservoir/producer/integration/readback"
)

func main() {
	log.SetFlags(log.Ltime)
	log.SetOutput(os.Stdout)
	cfg := kafkarun.Config{Logf: log.Printf}
	flag.StringVar(&cfg.Version, "version", "4.4.0", "Kafka release")
	flag.IntVar(&cfg.Nodes, "nodes", 1, "nodes of the cluster, 1 to 3")
	o := million.Options{Logf: log.Printf}
	flag.IntVar(&o.Records, "records", 1_000_000, "how many records")
	flag.IntVar(&o.Size, "size", 100, "bytes of each value")
	flag.BoolVar(&o.Keyed, "keyed", false, "give the records keys")
	flag.StringVar(&o.Codec, "codec", "none", "none, gzip, snappy, lz4 or zstd")
	flag.BoolVar(&o.Restart, "restart", false, "stop a node with SIGTERM meanwhile and start it again (needs -nodes 3)")
	flag.BoolVar(&o.Kill, "kill", false, "kill a node with SIGKILL meanwhile and start it again (needs -nodes 3)")
	flag.IntVar(&o.Rate, "rate", -1, "records a second; 0 means as fast as it goes (default: 0, or 40000 while nodes are restarted)")
	flag.StringVar(&o.Producer, "producer", "reservoir", "reservoir, or franzgo to check the check")
	flag.Parse()
	if o.Rate < 0 {
		o.Rate = 0
		if o.Restart || o.Kill {
			o.Rate = 40_000
		}
	}
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	defer stop()
	res, err := run(ctx, cfg, o)
	if err != nil {
		log.Print(err)
	}
	show(res, cfg, o, err == nil && res.OK())
	if err != nil || !res.OK() {
		stop()
		os.Exit(1)
	}
}

func run(ctx context.Context, cfg kafkarun.Config, o million.Options) (million.Result, error) {
	c, err := kafkarun.Start(ctx, cfg)
	if err != nil {
		return million.Result{}, err
	}
	defer c.Close()
	return million.Run(ctx, c, o)
}

func show(r million.Result, cfg kafkarun.Config, o million.Options, ok bool) {
	for _, d := range []readback.Differences{r.Acks, r.FranzGo, r.Java} {
		for _, s := range d.Shown {
			fmt.Println(s)
		}
	}
	verdict := "ok"
	if !ok {
		verdict = "FAILED"
	}
	fmt.Println()
	t := tabwriter.NewWriter(os.Stdout, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(t, "kafka\tnodes\trecords\tacked\tacks wrong\tfranz-go differs\tjava differs\tseconds\tresult\t")
	fmt.Fprintf(t, "%s\t%d\t%d\t%d\t%d\t%d\t%d\t%.1f\t%s\t\n", cfg.Version, cfg.Nodes, o.Records, r.Acked,
		r.Acks.Count, r.FranzGo.Count, r.Java.Count, r.Took.Seconds(), verdict)
	_ = t.Flush()
}
