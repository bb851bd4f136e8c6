"""The one thread of a process that computes on its processors, whoever asks: engines their batches, a pair its loading.

    compute(work)             in that thread, behind what was asked for before; returns what `work` returns
    compute_in_steps(work)    the same for long work: between two steps, whatever others have asked for meanwhile
    compute_each(works)       within work: what it consists of, a processor to each piece

OpenMP keeps a team for every thread that computes. As soon as all teams together outnumber the processors, each waits
asleep instead of spinning (73 instead of 53 ms a question), and teams that run at once wait for threads which do not
run because the other's do. With one thread there is one team.

A team works on one operation at a time, and each waits at its end for the others: for one that the web server's threads
keep from its processor, for long. Pieces of work, one thread each without a team, wait for each other once, at the end.
"""

from __future__ import annotations

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

_STEP_S = 0.01  # of long work, before others have their turn
_GIVES_WAY = 7  # times running, that long work lets others have it before
_NEWEST_WAIT = 0.1  # weight of the newest wait in the usual one

Result = TypeVar("Result")


class _Task:
    """Work, since when somebody waits for it, and where its result goes."""

    def __init__(self, work: Callable[[], Any], since: float | None = None) -> None:
        self._work, self.future = work, Future[Any]()
        self.since = time.perf_counter() if since is None else since

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
        self._usual_wait_s = 0.0

    def run(self, work: Callable[[], Result], since: float | None) -> Result:
        """The result of `work`, or what it raised. Within other work, at once."""
        if threading.current_thread() is self._thread:
            return work()
        task = _Task(work, since)
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

    def let_others(self) -> bool:
        """Within work: do what is waiting by now. Whether there was anything."""
        waiting = len(self._asked)
        for _ in range(waiting):
            self._do(self._asked.popleft())
        return waiting > 0

    def somebody_waits_long(self) -> bool:
        """Whether whoever is next has waited longer than those before them, on the average."""
        return bool(self._asked) and time.perf_counter() - self._asked[0].since > self._usual_wait_s

    def _serve(self) -> None:
        while True:
            with self._changed:
                while not self._asked:
                    self._changed.wait()
                task = self._asked.popleft()
            self._do(task)
            del task  # and what its result holds

    def _do(self, task: _Task) -> None:
        waited_s = time.perf_counter() - task.since
        self._usual_wait_s += _NEWEST_WAIT * (waited_s - self._usual_wait_s)
        task.do()


class _InSteps(TorchFunctionMode):
    """Others have their turn as soon as a few milliseconds have gone into it since they last had.

    And at once when they have waited longer than usual, so that loading makes few wait longer than anybody did before;
    but not always, for the loading shall have an end. Theirs is computed inside the call that ended the step, without
    this mode and those entered within it.
    """

    def __init__(self) -> None:
        super().__init__()
        self._since = time.perf_counter()
        self._gave_way = 0  # times running

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        result = func(*args, **(kwargs or {}))
        full = time.perf_counter() - self._since > _STEP_S
        gives_way = not full and self._gave_way < _GIVES_WAY and _processors.somebody_waits_long()
        if (full or gives_way) and _processors.let_others():
            self._gave_way = self._gave_way + 1 if gives_way else 0
            self._since = time.perf_counter()
        return result


_processors = _Processors()


def compute(work: Callable[[], Result], *, since: float | None = None) -> Result:
    """The result of `work`, done in the thread that computes; what it raised.

    since: of `time.perf_counter`, when somebody began to wait for it; None for now.
    """
    return _processors.run(work, since)


def compute_in_steps(work: Callable[[], Result]) -> Result:
    """As `compute`; what others ask for meanwhile is done between two of its calls of torch."""

    def in_steps() -> Result:
        with _InSteps():
            return work()

    return _processors.run(in_steps, None)


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
    helping = [_helpers.submit(do_some) for _ in range(at_once)]
    try:
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
