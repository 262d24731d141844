package netclient

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// FC-129, S-100: whatever bytes come as answers, each request is answered once, with a body or an error, and the
// client can be used afterwards.
func FuzzAnswers(f *testing.F) {
	frm := fakeFrame{}
	frm.header.Key, frm.header.Version = 22, 4
	good := payload(frm, pidAnswer)
	f.Add(good, []byte("HTTP/1.1 400 Bad Request"))
	f.Add([]byte{0, 0, 0, 0, 0}, []byte{0, 0, 0, 1, 1, 0, 1, 7})
	f.Add([]byte{}, good)
	f.Fuzz(func(t *testing.T, first, second []byte) {
		r := newRig(t, Config{}, 1)
		r.connect(1)
		var os [2]outcome
		r.send(1, &os[0])
		r.send(1, &os[1])
		r.sel.write(0, 1)
		r.sel.write(0, 1)
		r.sel.receive(0, 1, first)
		r.sel.receive(0, 1, second)
		r.poll(0)
		if c := r.sel.conns[1]; c != nil && !c.closed {
			r.sel.gone(0, 1, errReset)
		}
		r.poll(0)
		for i := range os {
			resp := os[i].done(t)
			if resp.Err != nil {
				require.ErrorIs(t, resp.Err, ErrDisconnected)
				require.Nil(t, os[i].body)
			}
		}
		require.Zero(t, r.InFlight())
		r.pass(r.PollDelay(1, r.now))
		r.connect(1)
	})
}
