package report

import (
	"bytes"
	"encoding/xml"
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/kafka-reservoir/producer/benchmarks/measure"
	"github.com/kafka-reservoir/producer/benchmarks/workload"
)

var update = flag.Bool("update", false, "write testdata/report.md anew")

// example has three clients in two rows, one run that does not count, and one client that is not Go's.
func example() Data {
	d := Data{Setup: Setup{
		Date: time.Date(2026, 11, 30, 12, 0, 0, 0, time.UTC), Machine: "2 cores", Go: "go1.26", Against: "a sink",
		Clients: []string{"reservoir", "franz-go", "java"}, Versions: map[string]string{"reservoir": "commit 1", "franz-go": "v1", "java": "4.4.0"},
		Left: []string{"Something is left out."}, WarmUp: time.Second / 3, Measured: time.Second,
	}}
	add := func(row, repeat int, client string, cpu float64) {
		r := Run{Row: workload.Short()[row], Client: client, Repeat: repeat, NotGo: client == "java", Requests: 10, Batches: 50, Apart: 55e-9}
		r.Result = measure.Result{
			Total: 2_000_000, Records: 1_000_000, Seconds: cpu, CPU: cpu, PeakRSS: 20 << 20, Allocs: 1000, Goroutines: 12,
			Latency: measure.Latency{Samples: 1000, P50: cpu / 1e3, P99: cpu / 100, P999: cpu / 10, Max: cpu},
		}
		d.Runs = append(d.Runs, r)
	}
	for row := range 2 {
		for repeat, cpu := range []float64{0.2, 0.1, 0.3} {
			add(row, repeat+1, "reservoir", cpu)
			add(row, repeat+1, "franz-go", 2*cpu)
		}
	}
	add(0, 1, "java", 1.6)
	lost := d.Runs[len(d.Runs)-1]
	lost.Repeat, lost.Problem = 2, "2 of 3 <records> were lost"
	d.Runs = append(d.Runs, lost)
	return d
}

func TestMarkdown(t *testing.T) {
	d := example()
	got := Markdown(&d)
	path := filepath.Join("testdata", "report.md")
	if *update {
		require.NoError(t, os.MkdirAll("testdata", 0o755))
		require.NoError(t, os.WriteFile(path, []byte(got), 0o644))
	}
	want, err := os.ReadFile(path)
	require.NoError(t, err)
	assert.Equal(t, string(want), got, "if that is meant: go test ./report -update")
}

func TestHTMLNeedsNothingElse(t *testing.T) {
	d := example()
	page := HTML(&d)
	for _, outside := range []string{"http:", "https:", "<script", "<link", "@import", "url("} {
		assert.NotContains(t, page, outside)
	}
	assert.Contains(t, page, "2 of 3 &lt;records&gt; were lost")
	assert.NotContains(t, page, "ZgotmplZ", "the template package refused something")

	pictures := 0
	for rest := page; ; pictures++ {
		i := strings.Index(rest, "<svg")
		if i < 0 {
			break
		}
		end := strings.Index(rest, "</svg>") + len("</svg>")
		var anything struct{}
		require.NoError(t, xml.Unmarshal([]byte(rest[i:end]), &anything), rest[i:end])
		assert.NotContains(t, rest[i:end], "NaN")
		assert.NotContains(t, rest[i:end], "Inf")
		rest = rest[end:]
	}
	assert.Equal(t, 3+2*3, pictures, "three of all rows, and three for each")
}

func TestReportOfOneClient(t *testing.T) {
	d := example()
	d.Setup.Clients = d.Setup.Clients[:1]
	assert.Contains(t, Markdown(&d), "| 100B | 200 | – |")
	assert.NotContains(t, HTML(&d), "NaN")
}

func TestResultsComeBack(t *testing.T) {
	d := example()
	var file bytes.Buffer
	require.NoError(t, WriteSetup(&file, &d.Setup))
	for i := range d.Runs {
		require.NoError(t, WriteRun(&file, &d.Runs[i]))
	}
	got, err := Read(&file)
	require.NoError(t, err)
	assert.Equal(t, d, got)

	later := d
	later.Setup.Clients, later.Setup.Versions = []string{"franz-go", "sarama"}, map[string]string{"franz-go": "v2", "sarama": "v3"}
	both := d.And(later)
	assert.Equal(t, []string{"reservoir", "franz-go", "java", "sarama"}, both.Setup.Clients)
	assert.Equal(t, map[string]string{"reservoir": "commit 1", "franz-go": "v2", "java": "4.4.0", "sarama": "v3"}, both.Setup.Versions)
	assert.Len(t, both.Runs, 2*len(d.Runs))

	_, err = Read(strings.NewReader("nonsense\n"))
	assert.ErrorContains(t, err, "line 1")
	_, err = Read(strings.NewReader(""))
	assert.ErrorContains(t, err, "nothing was run")
}

func TestSpread(t *testing.T) {
	assert.Equal(t, spread{}, spreadOf(nil))
	assert.Equal(t, spread{3, 3, 3}, spreadOf([]float64{3}))
	assert.Equal(t, spread{2, 1, 9}, spreadOf([]float64{9, 1, 2}))
	assert.Equal(t, spread{2.5, 1, 9}, spreadOf([]float64{9, 1, 2, 3}))
}

func TestBestRival(t *testing.T) {
	d := example()
	s := sections(&d)[0]
	client, best, ok := s.bestRival(cpuPerRecord)
	assert.True(t, ok)
	assert.Equal(t, "franz-go", client)
	assert.InDelta(t, 400, best, 1e-9)
	assert.Equal(t, "0.50", s.ratioTo("reservoir", cpuPerRecord))
	assert.Equal(t, "4.00", s.ratioTo("java", cpuPerRecord))
	_, best, _ = s.bestRival(perSecond)
	assert.InDelta(t, 2_500_000, best, 1e-6, "of records a second more is better")
	_, _, ok = s.bestRival(wire)
	assert.True(t, ok)
}

func TestFigures(t *testing.T) {
	for _, tt := range []struct{ got, want string }{
		{number(0), "0"}, {number(0.1234), "0.12"}, {number(9.994), "9.99"}, {number(9.996), "10.0"}, {number(99.94), "99.9"}, {number(99.96), "100"}, {number(1234567), "1,234,567"}, {number(999.7), "1,000"},
		{fine(0.01234), "0.012"}, {fine(12.34), "12.3"},
		{rate(999), "999"}, {rate(9_994), "9,994"}, {rate(9_996), "10.0 k"}, {rate(999_499), "999 k"}, {rate(7_047_297), "7.05 M"},
		{duration(0), "0"}, {duration(0.0000789), "78.9 µs"}, {duration(0.194), "194 ms"}, {duration(1.5), "1.50 s"},
	} {
		assert.Equal(t, tt.want, tt.got)
	}
}

// A run of which it is not known how far the processors were apart has no part in that figure, and in all others.
func TestSpreadLeavesOutWhatIsNotKnown(t *testing.T) {
	g := group{runs: []Run{{Apart: 55e-9}, {}, {Apart: 60e-9, OtherCores: 1}}}
	s := g.spread(apart)
	assert.InDelta(t, 55, s.least, 0.1)
	assert.InDelta(t, 57.5, s.median, 0.1)
	assert.Equal(t, spread{0, 0, 1}, g.spread(others))
}
