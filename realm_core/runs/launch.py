"""Start a command that ends when its parent does.

    python launch.py [--lock FILE] [--nice N] PARENT COMMAND …

The kernel is asked to kill this process when its parent (process id PARENT) ends, however that ends, and then COMMAND
takes this process's place; the request survives that. Done here and not between fork and exec of the parent, because
that is not safe in a process with threads. Linux only; elsewhere a command outlives a parent that is killed outright.

--lock: hold FILE's lock as long as COMMAND or a child with its open files lives; exit at once with status 75
(EX_TEMPFAIL) if another process holds it. --nice: lower the priority by N, also against other sessions.

A COMMAND that is torchrun starts its processes in sessions of their own, where a signal to its group does not reach
them, and without its open files. They are started with this, too, each with --one-of-several: it ends with torchrun,
the last COMMAND that was started so (PARENT is 0), and shares its lock.

The lock is flock's, not filelock's: COMMAND inherits the descriptor, and several processes share the lock.
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
        if os.getppid() != parent:  # it ended before the request was made
            sys.exit(1)
    os.environ.pop(HELD_ENV, None)  # the parent's
    if options.lock:
        _hold(options.lock, alone=not options.one_of_several)
    lower_priority(options.nice)
    if not options.one_of_several:
        os.environ[_PID_ENV] = str(os.getpid())
    os.execvp(options.command[0], options.command)


def _hold(path: str, *, alone: bool) -> None:
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT, 0o600)
    try:
        if alone:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)  # no process of an earlier attempt is left
        # Several may hold it, and as long as one of them does, nobody gets it alone.
        fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        print("Another process still works in this folder.", file=sys.stderr)
        sys.exit(LOCKED_STATUS)
    os.set_inheritable(descriptor, True)
    os.environ[HELD_ENV] = os.path.realpath(path)


def lower_priority(niceness: int) -> None:
    """Lower the priority of this process, and give a session of our own the same.

    With sched_autogroup, the default of Linux on machines for people, priorities count among the processes of a session
    only, and all sessions are equal: training would take as much as answering, which then has a thirtieth of its speed,
    because the threads that multiply a matrix together wait for the one that does not run.
    """
    niceness = os.nice(niceness)  # at most 19, whatever was asked for
    if niceness <= 0 or os.getsid(0) != os.getpid():
        return
    for _ in range(5):
        try:
            with open("/proc/self/autogroup", "w") as file:
                file.write(str(niceness))
            return
        except BlockingIOError:  # ordinary users may ask ten times a second, all together
            time.sleep(0.1)
        except OSError:  # there is no such thing here
            return


if __name__ == "__main__":
    main()
