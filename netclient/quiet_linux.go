package netclient

import (
	"syscall"
	"unsafe"
)

const canBeQuiet = true

// readQuietly reads what there is; not done: there is nothing yet.
func readQuietly(fd uintptr, b []byte) (n int, done bool, err error) {
	for {
		n, errno := sysRead(fd, b)
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

// vectors is what writev is told; kept, since it would be garbage at every write.
type vectors []syscall.Iovec

// writeQuietly writes bufs, or the first part of them; not done: the socket takes nothing for the time being. The first slice must not be empty.
func (v *vectors) writeQuietly(fd uintptr, bufs [][]byte) (n int, done bool, err error) {
	iov := (*v)[:0]
	for _, b := range bufs {
		if len(iov) == maxVectors {
			break
		}
		if len(b) > 0 {
			iov = append(iov, syscall.Iovec{Base: &b[0]})
			iov[len(iov)-1].SetLen(len(b))
		}
	}
	*v = iov
	defer clear(iov) // the slices are the caller's again
	for {
		n, errno := sysWritev(fd, unsafe.Pointer(&iov[0]), len(iov))
		if errno != syscall.EINTR {
			return sorted(n, errno)
		}
	}
}
