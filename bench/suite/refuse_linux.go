package main

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"unsafe"

	"golang.org/x/sys/unix"
)

// refuseCommand runs the rest of its command line without sched_setattr(2): the call returns EPERM.
const refuseCommand = "refuse-sched-setattr"

func refuse(line []string) error {
	if len(line) == 0 {
		return errors.New(refuseCommand + ": no command")
	}
	path, err := exec.LookPath(line[0])
	if err != nil {
		return err
	}
	runtime.LockOSThread() // the filter holds for this thread and what it executes
	if err := unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0); err != nil {
		return fmt.Errorf("no_new_privs: %w", err)
	}
	// Load the system call's number; the one that asks for a placement fails, all others pass (seccomp(2)).
	filter := []unix.SockFilter{
		{Code: unix.BPF_LD | unix.BPF_W | unix.BPF_ABS, K: 0},
		{Code: unix.BPF_JMP | unix.BPF_JEQ | unix.BPF_K, Jf: 1, K: unix.SYS_SCHED_SETATTR},
		{Code: unix.BPF_RET | unix.BPF_K, K: unix.SECCOMP_RET_ERRNO | uint32(unix.EPERM)},
		{Code: unix.BPF_RET | unix.BPF_K, K: unix.SECCOMP_RET_ALLOW},
	}
	program := unix.SockFprog{Len: uint16(len(filter)), Filter: &filter[0]}
	if err := unix.Prctl(unix.PR_SET_SECCOMP, unix.SECCOMP_MODE_FILTER, uintptr(unsafe.Pointer(&program)), 0, 0); err != nil {
		return fmt.Errorf("seccomp filter: %w", err)
	}
	return unix.Exec(path, line, os.Environ())
}
