package report

import (
	_ "embed"
	"html/template"
	"strings"
)

//go:embed page.html
var pageText string

var page = template.Must(template.New("page").Parse(pageText))

// pageData is what page.html shows.
type pageData struct {
	Date     string
	Setup    [][]string
	Left     []string
	Read     string
	Legend   []legend
	Overview []overviewPlot
	Rows     []pageRow
}

type legend struct{ Class, Client string }

type overviewPlot struct {
	Title, Better string
	Plot          template.HTML
	Table         pageTable
}

type pageTable struct {
	Head []string
	Rows [][]string
}

type pageRow struct {
	Name, About string
	Plots       []rowPlot
	Table       pageTable
	Problems    []string
}

type rowPlot struct {
	Title, Better string
	Plot          template.HTML
}

// HTML is the report as a page with plots. All that it shows is in it.
func HTML(d *Data) string {
	all := sections(d)
	data := pageData{
		Date: d.Setup.Date.Format("2 January 2006, 15:04"), Setup: setupRows(d), Left: d.Setup.Left, Read: howToRead(d),
	}
	for _, c := range d.Setup.Clients {
		data.Legend = append(data.Legend, legend{class(d.Setup.Clients, c), c})
	}
	for _, m := range compared {
		head, rows := overview(d, all, m)
		data.Overview = append(data.Overview, overviewPlot{m.title(), m.better(), dots(d, all, m), pageTable{head, rows}})
	}
	for i := range all {
		s := &all[i]
		row := pageRow{Name: s.row.Name, About: s.row.About(), Problems: s.problems()}
		for _, m := range compared {
			if s.any(m) {
				row.Plots = append(row.Plots, rowPlot{m.title(), m.better(), s.bars(m, d.Setup.Clients)})
			}
		}
		row.Table.Head, row.Table.Rows = s.table()
		data.Rows = append(data.Rows, row)
	}
	var b strings.Builder
	if err := page.Execute(&b, data); err != nil {
		panic(err) // the template does not fit the data, which the tests would show
	}
	return b.String()
}

func (m *metric) better() string {
	if m.higher {
		return "more is better"
	}
	return "less is better"
}
