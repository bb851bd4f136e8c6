"""The one thread of a process that computes on its processors, whoever asks, and what may be computed beside it.

    compute(work)          in that thread, behind what was asked for before; returns what `work` returns
    compute_each(works)    within work: what it consists of, a processor to each piece
    compute_aside(work)    long work, as loading a pair, which others shall hardly notice: in a thread of its own
    wait_for_quiet(most)   for what stops all others, and can wait

OpenMP keeps a team for every thread that computes. As soon as all teams together outnumber the processors, each waits
asleep instead of spinning (73 instead of 53 ms a question), and teams that run at once wait for threads which do not
run because the other's do. With one thread there is one team.

A team works on one operation at a time, and each waits at its end for the others: for one that the web server's threads
keep from its processor, for long. Pieces of work, one thread each without a team, wait for each other once, at the end.
"""

from __future__ import annotations

import math
import os
import threading
import time
from collections import deque
from collections.abc import Callable, Generator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait
from contextlib import suppress
from typing import Any, TypeVar

import torch
from torch.overrides import TorchFunctionMode

from realm_core.pace import may_rest, others_first, rest_by

_LOOK_S = 0.005  # between two looks whether others are still computed for
_PAUSE_S = 0.03  # without work, before nobody is thought to need the processors

Result = TypeVar("Result")


class _Task:
    """Work, and where its result goes."""

    def __init__(self, work: Callable[[], Any]) -> None:
        self._work, self.future = work, Future[Any]()

    def do(self) -> None:
        try:
            self.future.set_result(self._work())
        except BaseException as error:  # for whoever asked; the thread goes on
            self.future.set_exception(error)


class _Processors:
    """The thread, which begins with the first work, and the work that waits for it."""

    def __init__(self) -> None:
        self._asked: deque[_Task] = deque()
        self._changed = threading.Condition()
        self._thread: threading.Thread | None = None
        self._working = False
        self._worked_at = -math.inf

    def run(self, work: Callable[[], Result]) -> Result:
        """The result of `work`, or what it raised. Within other work, at once."""
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
        """How many tasks nobody has begun with."""
        return len(self._asked)

    @property
    def needed(self) -> bool:
        """Whether work is being done, or has been a moment ago."""
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
            del task  # and what its result holds


class _RestingAtTorch(TorchFunctionMode):
    """Wherever torch is called, work may rest."""

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        result = func(*args, **(kwargs or {}))
        may_rest()
        return result


_processors = _Processors()


def compute(work: Callable[[], Result]) -> Result:
    """The result of `work`, done in the thread that computes; what it raised."""
    return _processors.run(work)


def compute_aside(work: Callable[[], Result]) -> Result:
    """The result of `work`, done beside the thread that computes, slowly while that one is busy; what it raised.

    By a single thread of torch, which has no team.
    """
    usual = compute(torch.get_num_threads)  # so it has begun, else it would begin with what is said below

    def slowly() -> Result:
        torch.set_num_threads(1)  # of this thread; in part of all, and of those that begin meanwhile
        try:
            with others_first(), _RestingAtTorch():
                return work()
        finally:
            torch.set_num_threads(usual)

    task = _Task(slowly)
    threading.Thread(target=task.do, name="compute-aside", daemon=True).start()
    result: Result = task.future.result()
    return result


def wait_for_quiet(most_s: float) -> None:
    """Return as soon as nothing is computed for anybody, and after `most_s` seconds at the latest."""
    until = time.perf_counter() + most_s
    while _processors.needed and time.perf_counter() < until:
        time.sleep(_LOOK_S)


rest_by(wait_for_quiet)


def compute_each(works: Sequence[Callable[[], Result]]) -> Generator[Result, None, None]:
    """The results of all `works` in their order, each as soon as it is there; what one of them raised.

    As many are done at once as torch takes threads where it is called, each by a single thread. Until the last result
    has been taken, whoever takes them computes with a single thread as well. Works that nobody waits for any more,
    because the iterator has been closed or one has failed, are not begun.
    """
    own, outer = torch.get_num_threads(), getattr(_section, "at_once", 1)
    at_once = max(own, outer)
    if at_once == 1 or len(works) < 2:
        yield from (work() for work in works)
        return
    tasks = [_Task(work) for work in works]
    waiting = deque(tasks)

    def do_some() -> None:
        torch.set_num_threads(1)  # of this thread
        while waiting:
            with suppress(IndexError):  # another has just taken the last
                waiting.popleft().do()

    _section.at_once = at_once
    torch.set_num_threads(1)
    helping: list[Future[None]] = []
    try:
        try:
            for _ in range(at_once):
                helping.append(_helpers.submit(do_some))
        except RuntimeError:  # the process is ending and begins no thread any more; what was asked is still answered
            do_some()
        for task in tasks:
            yield task.future.result()
    finally:
        waiting.clear()
        wait(helping)
        torch.set_num_threads(own)  # a part of it holds for all threads
        _section.at_once = outer


def _new_helpers() -> ThreadPoolExecutor:
    return ThreadPoolExecutor(thread_name_prefix="compute")


_helpers = _new_helpers()
_section = threading.local()  # at_once: what a thread that takes results of `compute_each` had before


def _begin_anew() -> None:
    """Threads do not survive a fork."""
    global _processors, _helpers
    _processors, _helpers = _Processors(), _new_helpers()


os.register_at_fork(after_in_child=_begin_anew)
