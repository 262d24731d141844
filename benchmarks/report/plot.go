package report

import (
	"fmt"
	"html"
	"html/template"
	"math"
	"slices"
	"strings"
)

// svg is a picture that is being drawn. Colours and fonts are the page's: elements have classes.
type svg struct {
	strings.Builder
	width, height float64
}

func newSVG(width, height float64, label string) *svg {
	s := &svg{width: width, height: height}
	fmt.Fprintf(s, `<svg viewBox="0 0 %g %g" role="img" aria-label="%s">`, width, height, html.EscapeString(label))
	return s
}

func (s *svg) text(x, y float64, class, text string) {
	fmt.Fprintf(s, `<text x="%.1f" y="%.1f" class="%s">%s</text>`, x, y, class, html.EscapeString(text))
}

func (s *svg) line(x1, y1, x2, y2 float64, class string) {
	fmt.Fprintf(s, `<line x1="%.1f" y1="%.1f" x2="%.1f" y2="%.1f" class="%s"/>`, x1, y1, x2, y2, class)
}

func (s *svg) rect(x, y, width, height float64, class, title string) {
	fmt.Fprintf(s, `<rect x="%.1f" y="%.1f" width="%.1f" height="%.1f" rx="2" class="%s"><title>%s</title></rect>`, x, y, width, height, class, html.EscapeString(title))
}

func (s *svg) circle(x, y, r float64, class, title string) {
	fmt.Fprintf(s, `<circle cx="%.1f" cy="%.1f" r="%.1f" class="%s"><title>%s</title></circle>`, x, y, r, class, html.EscapeString(title))
}

func (s *svg) done() template.HTML {
	s.WriteString("</svg>")
	return template.HTML(s.String()) //nolint:gosec // all texts in it are escaped above
}

// class is that of a client's colour: its place in the setup.
func class(clients []string, client string) string {
	for i, c := range clients {
		if c == client {
			return fmt.Sprintf("c%d", i%colours)
		}
	}
	return ""
}

// colours are as many as the page has.
const colours = 7

// bars draws one figure of a row: a bar for each client, with the least and the most as a line over its end.
func (s *section) bars(m *metric, clients []string) template.HTML {
	const width, label, bar, gap, figures = 400.0, 82.0, 17.0, 7.0, 78.0
	var known []*group
	most := 0.0
	for i := range s.groups {
		if g := &s.groups[i]; g.known(m) {
			known = append(known, g)
			most = max(most, g.spread(m).most)
		}
	}
	p := newSVG(width, float64(len(known))*(bar+gap)+gap, s.row.Name+": "+m.title())
	scale := (width - label - figures) / max(most, math.SmallestNonzeroFloat64)
	for i, g := range known {
		y := gap + float64(i)*(bar+gap)
		middle := y + bar/2
		v := g.spread(m)
		p.text(label-8, middle+4, "label", g.client)
		p.rect(label, y, max(v.median*scale, 1), bar, class(clients, g.client), fmt.Sprintf("%s: %s", g.client, v.show(m)))
		if v.least != v.most {
			p.line(label+v.least*scale, middle, label+v.most*scale, middle, "range")
			p.line(label+v.least*scale, middle-4, label+v.least*scale, middle+4, "range")
			p.line(label+v.most*scale, middle-4, label+v.most*scale, middle+4, "range")
		}
		p.text(label+v.most*scale+6, middle+4, "figure", m.show(v.median))
	}
	p.line(label, 0, label, p.height, "axis")
	return p.done()
}

// dots draws one figure of all rows: where each client stands, as a multiple of the best rival, on a scale on which
// twice and half are equally far.
func dots(d *Data, all []section, m *metric) template.HTML {
	const width, label, row, head = 1180.0, 170.0, 26.0, 24.0
	least, most := 1.0, 1.0
	each := func(visit func(i int, client string, ratio float64, v spread)) {
		for i := range all {
			_, best, ok := all[i].bestRival(m)
			for j := range slices.Backward(all[i].groups) { // the first one's dot is on top
				if g := &all[i].groups[j]; ok && best > 0 && g.known(m) {
					visit(i, g.client, g.spread(m).median/best, g.spread(m))
				}
			}
		}
	}
	each(func(_ int, _ string, ratio float64, _ spread) {
		if ratio > 0 {
			least, most = min(least, ratio), max(most, ratio)
		}
	})
	low, high := math.Floor(math.Log2(least*0.95)), math.Ceil(math.Log2(most*1.05))
	x := func(ratio float64) float64 { return label + (math.Log2(ratio)-low)/(high-low)*(width-label-20) }
	p := newSVG(width, head+row*float64(len(all))+4, m.title()+" of all rows, as multiples of the best rival")
	for e := low; e <= high; e++ {
		ratio := math.Exp2(e)
		kind := "grid"
		if e == 0 {
			kind = "axis"
		}
		p.line(x(ratio), head-6, x(ratio), p.height, kind)
		text := fmt.Sprintf("%g×", ratio)
		if e < 0 {
			text = fmt.Sprintf("1/%g×", 1/ratio)
		}
		p.text(x(ratio), head-10, "tick", text)
	}
	for i := range all {
		y := head + row*(float64(i)+0.5)
		p.text(label-16, y+4, "label", all[i].row.Name)
		p.line(label-8, y, width, y, "grid")
	}
	each(func(i int, client string, ratio float64, v spread) {
		if ratio <= 0 {
			return
		}
		size := 5.0
		if client == d.Setup.Clients[0] {
			size = 6
		}
		p.circle(x(ratio), head+row*(float64(i)+0.5), size, class(d.Setup.Clients, client), fmt.Sprintf("%s, %s: %.2f× (%s)", all[i].row.Name, client, ratio, v.show(m)))
	})
	return p.done()
}
