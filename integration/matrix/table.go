package matrix

import (
	"fmt"
	"io"
	"text/tabwriter"
	"time"
)

// WriteTable prints the results, one line for each version.
func WriteTable(w io.Writer, results []Result) {
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(t, "kafka\tcells\trefused\trecords\tMB\tacks wrong\tfranz-go differs\tjava differs\tseconds\tresult\t")
	for _, r := range results {
		verdict := "ok"
		if !r.OK() {
			verdict = "FAILED"
		}
		fmt.Fprintf(t, "%s\t%d\t%d\t%d\t%.1f\t%d\t%d\t%d\t%.1f\t%s\t\n", r.Version, r.Cells, r.Refused, r.Records,
			float64(r.Bytes)/1e6, r.Acks, r.FranzGo, r.Java, r.Elapsed.Round(100*time.Millisecond).Seconds(), verdict)
	}
	_ = t.Flush()
}
