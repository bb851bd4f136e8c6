"""Starts a command that ends when its parent does.

    python launch.py [--lock FILE] [--nice N] PARENT COMMAND …

The kernel is asked to kill this process when its parent (process id PARENT) ends, however that ends, and then COMMAND
replaces this process; the request survives the exec. Doing this between fork and exec of the parent would not be safe
in a process with threads. Linux only; elsewhere a command outlives a killed parent.

--lock: hold FILE's lock as long as COMMAND or a child with its open files lives; exit at once with status 75
(EX_TEMPFAIL) if another process holds it. --nice: lower the priority by N, also against other sessions.

A COMMAND that is torchrun starts its processes in their own sessions, which a signal to its group does not reach, and
without its open files. They are started with this program, too, each with --one-of-several: it ends with torchrun, the
last COMMAND started in this way (PARENT is 0), and shares its lock.

The lock is flock's, not filelock's, because COMMAND inherits the descriptor, and several processes share the lock.
"""

from __future__ import annotations

import argparse
import ctypes
import fcntl
import os
import signal
import sys
import time

LOCKED_STATUS = os.EX_TEMPFAIL
HELD_ENV = "REALM_LOCK_HELD"  # for COMMAND: the path of the lock that it was started with
_PID_ENV = "REALM_LAUNCHED_PID"  # for processes under torchrun: torchrun's process id
_PR_SET_PDEATHSIG = 1  # from <linux/prctl.h>


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--lock")
    parser.add_argument("--nice", type=int, default=0)
    parser.add_argument("--one-of-several", action="store_true")
    parser.add_argument("parent", type=int)
    parser.add_argument("command", nargs=argparse.REMAINDER)
    options = parser.parse_args()
    parent = options.parent or int(os.environ[_PID_ENV])
    if sys.platform == "linux":
        ctypes.CDLL(None, use_errno=True).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
        if os.getppid() != parent:  # the parent ended before the request
            sys.exit(1)
    os.environ.pop(HELD_ENV, None)  # inherited from the parent
    if options.lock:
        _lock_file(options.lock, alone=not options.one_of_several)
    lower_priority(options.nice)
    if not options.one_of_several:
        os.environ[_PID_ENV] = str(os.getpid())
    os.execvp(options.command[0], options.command)


def _lock_file(path: str, *, alone: bool) -> None:
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT, 0o600)
    try:
        if alone:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)  # waits for no process of an earlier attempt
        # Several processes may share it; until all have ended, no process gets it exclusively.
        fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        print("Another process still works in this folder.", file=sys.stderr)
        sys.exit(LOCKED_STATUS)
    os.set_inheritable(descriptor, True)
    os.environ[HELD_ENV] = os.path.realpath(path)


def lower_priority(niceness: int) -> None:
    """Lower the priority of this process, and of its session.

    With sched_autogroup, the default on Linux desktops, priorities only count among the processes of a session, and all
    sessions are equal: training would get as much time as answering, which then has a thirtieth of its speed, because
    the threads that multiply a matrix together wait for the slowest one.
    """
    niceness = os.nice(niceness)  # limited to 19
    if niceness <= 0 or os.getsid(0) != os.getpid():
        return
    for _ in range(5):
        try:
            with open("/proc/self/autogroup", "w") as file:
                file.write(str(niceness))
            return
        except BlockingIOError:  # limited to ten requests a second for all users
            time.sleep(0.1)
        except OSError:  # not supported here
            return


if __name__ == "__main__":
    main()
