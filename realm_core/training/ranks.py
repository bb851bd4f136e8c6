"""torchrun for several processes of one training on this machine, with their exit status.

    python -m realm_core.training.ranks --processes N COMMAND …

torchrun exits with status 1 whatever happened to its processes. The parent must know whether they refused, were
stopped, or were killed and should be restarted, so this program ends with the status, or by the signal, of the process
that failed first.
"""

from __future__ import annotations

import argparse
import contextlib
import logging
import os
import signal
import sys
import uuid
from collections.abc import Collection

from torch.distributed.elastic.multiprocessing import SignalException
from torch.distributed.elastic.multiprocessing.errors import ChildFailedError, ProcessFailure
from torch.distributed.launcher.api import LaunchConfig, elastic_launch

from realm_core.errors import EXIT_REFUSED, EXIT_STOPPED

_GRACE_S = 6  # for all to reach a safe point; the parent allows slightly more
_AT_ONCE_S = 1  # torchrun's timestamps have whole seconds


def main() -> int:
    """Run the command in every process, each with its RANK, and return the status of all."""
    parser = argparse.ArgumentParser(prog="realm_core.training.ranks")
    parser.add_argument("--processes", type=int, required=True)
    parser.add_argument("command", nargs=argparse.REMAINDER)
    options = parser.parse_args()
    os.environ.setdefault("OMP_NUM_THREADS", "1")  # per process; otherwise each would use all cores
    logging.disable(logging.ERROR)  # torchrun's report would follow the process's own error message
    config = LaunchConfig(
        min_nodes=1,
        max_nodes=1,
        nproc_per_node=options.processes,
        run_id=uuid.uuid4().hex,
        rdzv_backend="c10d",
        rdzv_endpoint="localhost:0",
        max_restarts=0,
        shutdown_timeout=_GRACE_S,
    )
    program, *arguments = options.command
    try:
        elastic_launch(config, program)(*arguments)
    except ChildFailedError as error:
        return cause(error.failures.values())
    except SignalException:  # torchrun has passed it on to every process
        return EXIT_STOPPED
    return 0


def cause(failures: Collection[ProcessFailure]) -> int:
    """The status that explains the others, negative for a signal.

    Processes that lose one to a signal fail at the same moment; torchrun terminates the rest, and kills those that do
    not end.
    """
    first_s = min(failure.timestamp for failure in failures)
    seen = [failure.exitcode for failure in failures if failure.timestamp - first_s <= _AT_ONCE_S]
    killed = [status for status in seen if status < 0 and status != -signal.SIGTERM]
    own_statuses = [status for status in (EXIT_REFUSED, EXIT_STOPPED) if status in seen]
    return [*killed, *own_statuses, *seen][0]


def end_as(status: int) -> None:
    """End this process with a status, or by the signal that a negative status stands for."""
    sys.stdout.flush()
    sys.stderr.flush()
    if status < 0:
        with contextlib.suppress(OSError):  # SIGKILL has no handler
            signal.signal(-status, signal.SIG_DFL)
        os.kill(os.getpid(), -status)
    sys.exit(status)


if __name__ == "__main__":
    end_as(main())
