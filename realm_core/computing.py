"""The one thread of a process that computes, for all callers, and computations beside it.

    compute(work)          in that thread, after earlier work; returns the result of `work`
    compute_each(works)    within work: its parts, one processor per part
    in_one_thread()        within work: a small part, for which a pool is not worth its while
    compute_aside(work)    long work, such as loading a pair, that should hardly delay others: in its own thread
    wait_for_quiet(most)   for operations that block all others, and can wait

OpenMP keeps a thread pool for every thread that computes. If all pools together have more threads than there are
processors, idle threads sleep instead of spinning (73 instead of 53 ms per question), and concurrent pools wait for
threads that are not scheduled. With one computing thread there is one pool.

The threads of a pool wait for each other after every operation: for long, if a web server's thread keeps one of them
from its processor. Parts computed by one thread each, without a pool, wait for each other once, at the end.
"""

from __future__ import annotations

import math
import os
import threading
import time
from collections import deque
from collections.abc import Callable, Generator, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait
from contextlib import contextmanager, suppress
from typing import Any, TypeVar

import torch
from torch.overrides import TorchFunctionMode

from realm_core.pace import low_priority, may_rest, set_idle_wait

_LOOK_S = 0.005  # between two checks whether other work is computed
_PAUSE_S = 0.03  # without work, after which the processors count as idle

Result = TypeVar("Result")


class _Task:
    def __init__(self, work: Callable[[], Any]) -> None:
        self._work, self.future = work, Future[Any]()

    def do(self) -> None:
        try:
            self.future.set_result(self._work())
        except BaseException as error:  # passed on to the caller; the thread continues
            self.future.set_exception(error)


class _Processors:
    """The computing thread, started by the first work, and its queue."""

    def __init__(self) -> None:
        self._asked: deque[_Task] = deque()
        self._changed = threading.Condition()
        self._thread: threading.Thread | None = None
        self._working = False
        self._worked_at = -math.inf

    def run(self, work: Callable[[], Result]) -> Result:
        """The result of `work`, or its exception. Inside other work it runs at once."""
        if threading.current_thread() is self._thread:
            return work()
        task = _Task(work)
        with self._changed:
            if self._thread is None:
                self._thread = threading.Thread(target=self._serve, name="compute", daemon=True)
                self._thread.start()
            self._asked.append(task)
            self._changed.notify()
        result: Result = task.future.result()
        return result

    @property
    def waiting(self) -> int:
        """The number of queued tasks."""
        return len(self._asked)

    @property
    def needed(self) -> bool:
        """Whether work is running, or was a moment ago."""
        return self._working or time.perf_counter() - self._worked_at < _PAUSE_S

    def _serve(self) -> None:
        while True:
            with self._changed:
                while not self._asked:
                    self._changed.wait()
                task = self._asked.popleft()
            self._working = True
            task.do()
            self._working, self._worked_at = False, time.perf_counter()
            del task  # and the objects in its result


class _RestAtTorchCalls(TorchFunctionMode):
    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        result = func(*args, **(kwargs or {}))
        may_rest()
        return result


_processors = _Processors()


def compute(work: Callable[[], Result]) -> Result:
    """The result of `work`, run in the computing thread; raises its exception."""
    return _processors.run(work)


def compute_aside(work: Callable[[], Result]) -> Result:
    """The result of `work`, run beside the computing thread, slowly while that is busy; raises its exception.

    By a single thread of torch, without a pool.
    """
    usual = compute(torch.get_num_threads)  # starts that thread now, before the number of threads is changed below

    def slowly() -> Result:
        torch.set_num_threads(1)  # for this thread, partly for all, and for threads started meanwhile
        try:
            with low_priority(), _RestAtTorchCalls():
                return work()
        finally:
            torch.set_num_threads(usual)

    task = _Task(slowly)
    threading.Thread(target=task.do, name="compute-aside", daemon=True).start()
    result: Result = task.future.result()
    return result


def wait_for_quiet(most_s: float) -> None:
    """Return as soon as nothing is computed, and after `most_s` seconds at the latest."""
    until = time.perf_counter() + most_s
    while _processors.needed and time.perf_counter() < until:
        time.sleep(_LOOK_S)


set_idle_wait(wait_for_quiet)


def compute_each(works: Sequence[Callable[[], Result]]) -> Generator[Result, None, None]:
    """The results of all `works` in order, each as soon as it is available; raises the exception of a work.

    As many run at once as torch has threads for the caller, each in a single thread. Until the last result has been
    taken, the caller computes with a single thread as well. After the iterator was closed or a work has failed, the
    remaining works are not started.
    """
    own, outer = torch.get_num_threads(), getattr(_section, "at_once", 1)
    at_once = max(own, outer)
    if at_once == 1 or len(works) < 2:
        yield from (work() for work in works)
        return
    tasks = [_Task(work) for work in works]
    waiting = deque(tasks)

    def do_some() -> None:
        torch.set_num_threads(1)  # for this thread
        while waiting:
            with suppress(IndexError):  # another thread has just taken the last one
                waiting.popleft().do()

    _section.at_once = at_once
    torch.set_num_threads(1)
    helping: list[Future[None]] = []
    try:
        try:
            for _ in range(at_once):
                helping.append(_helpers.submit(do_some))
        except RuntimeError:  # the process is ending and starts no threads any more; the work is completed here
            do_some()
        for task in tasks:
            yield task.future.result()
    finally:
        waiting.clear()
        wait(helping)
        torch.set_num_threads(own)  # partly applies to all threads
        _section.at_once = outer


@contextmanager
def in_one_thread() -> Iterator[None]:
    """Compute without a pool, whose threads would wait for each other longer than they compute.

    Where other processes use the processors, too, they wait for each other ten times as long as on an idle machine.
    For the computing thread: another one, whose first call of torch is in here, keeps a single thread for good.
    """
    usual = torch.get_num_threads()
    torch.set_num_threads(1)  # for this thread, partly for all
    try:
        yield
    finally:
        torch.set_num_threads(usual)


def _new_helpers() -> ThreadPoolExecutor:
    return ThreadPoolExecutor(thread_name_prefix="compute")


_helpers = _new_helpers()
_section = threading.local()  # at_once: the previous number of threads of a caller of `compute_each`


def _reset_after_fork() -> None:
    """Threads do not survive a fork."""
    global _processors, _helpers
    _processors, _helpers = _Processors(), _new_helpers()


os.register_at_fork(after_in_child=_reset_after_fork)
