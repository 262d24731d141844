package sim

import (
	"fmt"
	"io"
	"log/slog"
	"time"
)

// traceLogger logs with simulated times.
func traceLogger(w io.Writer, since func() time.Duration) *slog.Logger {
	return slog.New(slog.NewTextHandler(stamped{w, since}, &slog.HandlerOptions{
		Level: slog.LevelDebug,
		ReplaceAttr: func(_ []string, a slog.Attr) slog.Attr {
			if a.Key == slog.TimeKey {
				return slog.Attr{}
			}
			return a
		},
	}))
}

// stamped writes the simulated time before each line.
type stamped struct {
	w     io.Writer
	since func() time.Duration
}

func (s stamped) Write(b []byte) (int, error) {
	fmt.Fprintf(s.w, "%12v ", s.since())
	return s.w.Write(b)
}

func (r *run) since() time.Duration {
	if r.w == nil {
		return 0
	}
	return r.w.Selector.Since()
}

// journal tells what the brokers saw up to now and was not told yet.
func (r *run) journal() {
	if r.p.Trace == nil {
		return
	}
	for _, e := range r.w.Cluster.Journal(r.told) {
		r.told = e.Number + 1
		fmt.Fprintf(r.p.Trace, "%12v %s\n", e.At.Sub(Start), e.String())
	}
}
