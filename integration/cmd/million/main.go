// Command million sends a million records of 100 bytes to a real Kafka with an idempotent producer and shows that
// each is acknowledged, is read back once, and is in order within its partition:
//
//	go run ./cmd/million -version 4.4.0
//	go run ./cmd/million -version 4.4.0 -keyed
//	go run ./cmd/million -version 4.4.0 -keyed -bounce clean,hard,move -rounds 30
//
// With -bounce leaders are taken from their nodes while records are sent, on a cluster of three: clean stops a node
// (SIGTERM) and starts it again, hard kills it (SIGKILL), move moves all leaders while all nodes run. The exit code is
// 1 if anything is not as it must be.
package main

import (
	"cmp"
	"context"
	"flag"
	"fmt"
	"log"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"text/tabwriter"
	"time"

	"github.com/kafka-reservoir/producer/integration/kafkarun"
	"github.com/kafka-reservoir/producer/integration/million"
	"github.com/kafka-reservoir/producer/integration/readback"
)

func main() {
	log.SetFlags(log.Ltime)
	log.SetOutput(os.Stdout)
	cfg := kafkarun.Config{Logf: log.Printf}
	flag.StringVar(&cfg.Version, "version", "4.4.0", "Kafka release")
	flag.IntVar(&cfg.Nodes, "nodes", 0, "nodes of the cluster, 1 to 3 (default: 1, or 3 with -bounce)")
	o := million.Options{Logf: log.Printf}
	flag.IntVar(&o.Records, "records", 1_000_000, "how many records; with -bounce more, if the rounds take longer")
	flag.IntVar(&o.Size, "size", 100, "bytes of each value")
	flag.BoolVar(&o.Keyed, "keyed", false, "give the records keys")
	flag.StringVar(&o.Codec, "codec", "none", "none, gzip, snappy, lz4 or zstd")
	bounce := flag.String("bounce", "", "kinds of rounds, taken in turn: clean, hard, move (default: no rounds)")
	rounds := flag.Int("rounds", 0, "how many rounds (default: one of each kind)")
	flag.IntVar(&o.Rate, "rate", -1, "records a second; 0 means as fast as it goes (default: 0, or 3000 with -bounce)")
	flag.IntVar(&o.BatchSize, "batch", 0, "bytes of a batch (default: the producer's, or 512 with -bounce, so that a burst has several)")
	flag.StringVar(&o.Producer, "producer", "reservoir", "reservoir, or franzgo to check the check")
	flag.Parse()
	cfg.Nodes = cmp.Or(cfg.Nodes, 1)
	if *bounce != "" {
		cfg.Nodes, o.BatchSize = 3, cmp.Or(o.BatchSize, 512)
		if o.Rate < 0 {
			o.Rate = 3000
		}
		var err error
		if o.Rounds, err = inTurn(strings.Split(*bounce, ","), *rounds); err != nil {
			log.Fatal(err)
		}
	}
	o.Rate = max(o.Rate, 0)
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	defer stop()
	res, err := run(ctx, cfg, o)
	if err != nil {
		log.Print(err)
	}
	show(res, cfg, err == nil && res.OK())
	if err != nil || !res.OK() {
		stop()
		os.Exit(1)
	}
}

// inTurn is so many rounds of these kinds.
func inTurn(kinds []string, rounds int) ([]million.Kind, error) {
	var all []million.Kind
	for i := range cmp.Or(rounds, len(kinds)) {
		k, err := million.ParseKind(kinds[i%len(kinds)])
		if err != nil {
			return nil, err
		}
		all = append(all, k)
	}
	return all, nil
}

func run(ctx context.Context, cfg kafkarun.Config, o million.Options) (million.Result, error) {
	c, err := kafkarun.Start(ctx, cfg)
	if err != nil {
		return million.Result{}, err
	}
	defer c.Close()
	return million.Run(ctx, c, o)
}

func show(r million.Result, cfg kafkarun.Config, ok bool) {
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
	if len(r.Rounds) > 0 {
		ms := func(d time.Duration) int64 { return d.Milliseconds() }
		fmt.Fprintln(t, "round\tkind\tnode\tleaders\tunacked\telection ms\trecovery ms\tgap ms\tothers' gap ms\tslowest ms\tfailed\t")
		for i, b := range r.Rounds {
			fmt.Fprintf(t, "%d\t%s\t%d\t%d\t%d\t%d\t%d\t%d\t%d\t%d\t%d\t\n", i+1, b.Kind, b.Node, b.Leaders, b.Unacked,
				ms(b.Election), ms(b.Recovery), ms(b.Gap), ms(b.Others), ms(b.Slowest), b.Failed)
		}
		_ = t.Flush()
		fmt.Println()
	}
	fmt.Fprintln(t, "kafka\tnodes\trecords\tacked\tsent again\tacks wrong\tfranz-go differs\tjava differs\tseconds\tresult\t")
	fmt.Fprintf(t, "%s\t%d\t%d\t%d\t%d\t%d\t%d\t%d\t%.1f\t%s\t\n", cfg.Version, cfg.Nodes, r.Sent, r.Acked, r.Retried,
		r.Acks.Count, r.FranzGo.Count, r.Java.Count, r.Took.Seconds(), verdict)
	_ = t.Flush()
}
