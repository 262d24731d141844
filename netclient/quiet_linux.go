//go:build amd64 || arm64

package netclient

import (
	"syscall"
	"unsafe"
)

// canBeQuiet: the calls below never wait for the peer, whatever mode the socket is in that the user's Dial has made. A quiet one that did would stop the whole process.
const canBeQuiet = true

// receive reads what there is; not done: there is nothing yet.
func receive(fd uintptr, b []byte, quiet bool) (n int, done bool, err error) {
	for {
		n, errno := sysReceive(fd, b, quiet)
		if errno != syscall.EINTR {
			return sorted(n, errno)
		}
	}
}

// sorted tells what a system call returned from what it could not do yet.
func sorted(n int, errno syscall.Errno) (int, bool, error) {
	switch errno {
	case 0:
		return n, true, nil
	case syscall.EAGAIN:
		return 0, false, nil
	}
	return 0, true, errno
}

// vectors is what a system call is told of the slices; kept, since it would be garbage at every write.
type vectors struct {
	iov []syscall.Iovec
	msg syscall.Msghdr
}

// send writes bufs, or the first part of them; not done: the socket takes nothing for the time being. The first slice must not be empty.
func (v *vectors) send(fd uintptr, bufs [][]byte, quiet bool) (n int, done bool, err error) {
	v.iov = v.iov[:0]
	for _, b := range bufs {
		if len(v.iov) == maxVectors {
			break
		}
		if len(b) > 0 {
			v.iov = append(v.iov, syscall.Iovec{Base: &b[0]})
			v.iov[len(v.iov)-1].SetLen(len(b))
		}
	}
	v.msg.Iov = &v.iov[0]
	v.msg.Iovlen = uint64(len(v.iov))
	defer func() { // the slices are the caller's again
		clear(v.iov)
		v.msg.Iov = nil
	}()
	for {
		const flags = syscall.MSG_DONTWAIT | syscall.MSG_NOSIGNAL
		var n uintptr
		var errno syscall.Errno
		if quiet {
			n, _, errno = syscall.RawSyscall(syscall.SYS_SENDMSG, fd, uintptr(unsafe.Pointer(&v.msg)), flags)
		} else {
			n, _, errno = syscall.Syscall(syscall.SYS_SENDMSG, fd, uintptr(unsafe.Pointer(&v.msg)), flags)
		}
		if errno != syscall.EINTR {
			return sorted(int(n), errno)
		}
	}
}
