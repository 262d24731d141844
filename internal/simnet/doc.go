// Package simnet is a network in memory for tests: connections that behave like TCP's, over links with
// latency, bandwidth and faults.
//
// It waits only on channels and on timers, so inside a testing/synctest bubble a connection costs no real
// time and a test can say exactly what happens when. It works outside a bubble too.
//
// A Network belongs to one test. Its listeners and connections may be used from any goroutine, like those of
// package net, whose errors they return: refused, reset and timed-out connections are told apart by
// errors.Is with syscall.ECONNREFUSED, syscall.ECONNRESET and os.ErrDeadlineExceeded.
package simnet
