package report

import (
	"fmt"
	"strings"
	"time"
)

// columns are the figures of a row's table, in its order.
var columns = []*metric{
	cpuPerRecord, perSecond, p50, p99, p999, longest, allocs, allocBytes, gcs, goroutines, rss, recPerBatch, recPerReq, wire, sinkCPU, others, apart,
}

// compared are the figures that a row's table and its plots hold against the best rival's.
var compared = []*metric{cpuPerRecord, perSecond, p99}

// Markdown is the report as tables.
func Markdown(d *Data) string {
	var b strings.Builder
	all := sections(d)
	fmt.Fprintf(&b, "# Kafka producers compared, %s\n\n", d.Setup.Date.Format("2 January 2006, 15:04"))
	writeTable(&b, nil, setupRows(d))
	for _, s := range d.Setup.Left {
		fmt.Fprintf(&b, "\n%s\n", s)
	}
	fmt.Fprintf(&b, "\n%s\n", howToRead(d))
	for _, m := range compared {
		fmt.Fprintf(&b, "\n## %s\n\n", m.title())
		head, rows := overview(d, all, m)
		writeTable(&b, head, rows)
	}
	b.WriteString("\n## Row by row\n")
	for i := range all {
		s := &all[i]
		fmt.Fprintf(&b, "\n### %s\n\n%s\n\n", s.row.Name, s.row.About())
		head, rows := s.table()
		writeTable(&b, head, rows)
		for _, problem := range s.problems() {
			fmt.Fprintf(&b, "\n%s\n", problem)
		}
	}
	return b.String()
}

// howToRead says what the figures are.
func howToRead(d *Data) string {
	return fmt.Sprintf("Medians, in brackets the least and the most of all runs. × is the ratio to the best rival, which is the best of all clients but %s. "+
		"CPU is that of the client's process, the kernel's work for it included. Latency is from when a record was due to its acknowledgement.", d.Setup.Clients[0])
}

func setupRows(d *Data) (rows [][]string) {
	s := &d.Setup
	var versions []string
	for _, c := range s.Clients {
		if v := s.Versions[c]; v != "" {
			versions = append(versions, c+" "+v)
		}
	}
	return [][]string{
		{"machine", s.Machine},
		{"against", s.Against},
		{"clients", strings.Join(versions, ", ")},
		{"built with", s.Go},
		{"a run", fmt.Sprintf("a process of its own; %v of warm-up, %v measured", s.WarmUp.Round(time.Millisecond), s.Measured)},
	}
}

// overview is one figure of all rows and clients.
func overview(d *Data, all []section, m *metric) (head []string, rows [][]string) {
	first := d.Setup.Clients[0]
	head = append(append([]string{"row"}, d.Setup.Clients...), first+" / best rival")
	for i := range all {
		s := &all[i]
		row := []string{s.row.Name}
		for _, c := range d.Setup.Clients {
			cell := "–"
			if g := s.group(c); g != nil && g.known(m) {
				cell = m.show(g.spread(m).median)
			}
			row = append(row, cell)
		}
		row = append(row, s.ratioTo(first, m))
		rows = append(rows, row)
	}
	return head, rows
}

// ratioTo is a client's median as a multiple of the best rival's.
func (s *section) ratioTo(client string, m *metric) string {
	_, best, ok := s.bestRival(m)
	g := s.group(client)
	if !ok || best == 0 || g == nil || !g.known(m) {
		return "–"
	}
	return fmt.Sprintf("%.2f", g.spread(m).median/best)
}

// table is all that is known of a row: a line for each client. Columns of which nothing is known are left out.
func (s *section) table() (head []string, rows [][]string) {
	head = []string{"client", "n"}
	for i := range s.groups {
		g := &s.groups[i]
		rows = append(rows, []string{g.client, fmt.Sprint(len(g.runs))})
	}
	for _, m := range columns {
		if !s.any(m) {
			continue
		}
		against := m == cpuPerRecord || m == perSecond || m == p99
		head = append(head, m.title())
		if against {
			head = append(head, "×")
		}
		for i := range s.groups {
			g := &s.groups[i]
			cell := "–"
			if g.known(m) {
				cell = g.spread(m).show(m)
			}
			rows[i] = append(rows[i], cell)
			if against {
				rows[i] = append(rows[i], s.ratioTo(g.client, m))
			}
		}
	}
	return head, rows
}

// any reports whether any client has such a figure that is not 0.
func (s *section) any(m *metric) bool {
	for i := range s.groups {
		if g := &s.groups[i]; g.known(m) && g.spread(m).most != 0 {
			return true
		}
	}
	return false
}

// show writes the median, and the least and the most where they look different.
func (s spread) show(m *metric) string {
	median, least, most := m.show(s.median), m.show(s.least), m.show(s.most)
	if least == most {
		return median
	}
	return fmt.Sprintf("%s (%s–%s)", median, least, most)
}

// problems says which runs do not count.
func (s *section) problems() (all []string) {
	for i := range s.groups {
		for _, r := range s.groups[i].failed {
			all = append(all, fmt.Sprintf("%s, run %d, does not count: %s", r.Client, r.Repeat, r.Problem))
		}
	}
	return all
}

// writeTable writes a table of Markdown; without a head it has an empty one, because it must have one.
func writeTable(b *strings.Builder, head []string, rows [][]string) {
	width := len(head)
	for _, r := range rows {
		width = max(width, len(r))
	}
	writeRow(b, append(head, make([]string, width-len(head))...))
	b.WriteString("|" + strings.Repeat("---|", width) + "\n")
	for _, r := range rows {
		writeRow(b, r)
	}
}

func writeRow(b *strings.Builder, cells []string) {
	for _, c := range cells {
		b.WriteString("| " + strings.NewReplacer("|", `\|`, "\n", " ").Replace(c) + " ")
	}
	b.WriteString("|\n")
}
