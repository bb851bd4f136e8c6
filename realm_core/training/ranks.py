"""torchrun for the processes of one training, on one machine or several, with their exit status.

    python -m realm_core.training.ranks --processes N COMMAND …
    python -m realm_core.training.ranks --processes N --nodes M --node-rank R --rendezvous HOST:PORT COMMAND …

The second line is run on each of M machines, with R from 0 to M - 1; machine 0, at HOST, has the processes' store at
PORT, and process 0, which writes the model.

torchrun exits with status 1 whatever happened to its processes. The parent must know whether they refused, were
stopped, or were killed and should be restarted, so this program ends with the status, or by the signal, of the process
of this machine that failed first.
"""

from __future__ import annotations

import argparse
import contextlib
import logging
import os
import signal
import socket
import sys
import uuid
from collections.abc import Collection
from typing import Any

import psutil
from torch.distributed import DistError
from torch.distributed.elastic.multiprocessing import SignalException
from torch.distributed.elastic.multiprocessing.errors import ChildFailedError, ProcessFailure
from torch.distributed.launcher.api import LaunchConfig, elastic_launch

from realm_core.errors import EXIT_REFUSED, EXIT_STOPPED, RealmError

_GRACE_S = 6  # for all to reach a safe point; the parent allows slightly more
_AT_ONCE_S = 1  # torchrun's timestamps have whole seconds
_MEET_S = 900  # from the start on the first machine to that on the last one


def main(arguments: list[str] | None = None) -> int:
    """Run the command in every process, each with its RANK, and return the status of all on this machine."""
    parser = argparse.ArgumentParser(prog="python -m realm_core.training.ranks")
    parser.add_argument("--processes", type=int, required=True, help="on this machine")
    parser.add_argument("--nodes", type=int, default=1, help="machines")
    parser.add_argument("--node-rank", type=int, default=0, help="which of them this is, from 0")
    parser.add_argument("--rendezvous", metavar="HOST:PORT", help="machine 0, and a free port there")
    parser.add_argument("command", nargs=argparse.REMAINDER)
    options = parser.parse_args(arguments)
    os.environ.setdefault("OMP_NUM_THREADS", "1")  # per process; otherwise each would use all cores
    logging.disable(logging.ERROR)  # torchrun's report would follow the process's own error message
    program, *rest = options.command
    try:
        meeting = _meeting(options.nodes, options.node_rank, options.rendezvous)
        config = LaunchConfig(
            min_nodes=options.nodes,
            max_nodes=options.nodes,
            nproc_per_node=options.processes,
            max_restarts=0,
            shutdown_timeout=_GRACE_S,
            **meeting,
        )
        elastic_launch(config, program)(*rest)
    except ChildFailedError as error:
        return cause(error.failures.values())
    except SignalException:  # torchrun has passed it on to every process
        return EXIT_STOPPED
    except DistError:
        print(f"error: The machines of the training do not meet at {options.rendezvous}.", file=sys.stderr)
        return EXIT_REFUSED
    except RealmError as error:
        print(f"error: {error}", file=sys.stderr)
        return EXIT_REFUSED
    return 0


def _meeting(nodes: int, node_rank: int, rendezvous: str | None) -> dict[str, Any]:
    """How and where the machines meet, for torchrun; the network that leads there is the one the processes use."""
    if nodes == 1:
        return {"run_id": uuid.uuid4().hex, "rdzv_backend": "c10d", "rdzv_endpoint": "localhost:0"}
    if not 0 <= node_rank < nodes:
        raise RealmError(f"--node-rank must be from 0 to {nodes - 1}, not {node_rank}.")
    host, _, port = (rendezvous or "").rpartition(":")
    if not host or not port.isdecimal():
        raise RealmError("Several machines need --rendezvous HOST:PORT, the same on each.")
    try:
        address, interface = _network(host.strip("[]"), int(port))
    except OSError as error:
        raise RealmError(f"--rendezvous: {host} cannot be reached: {error.strerror}.") from None
    # By themselves they would take the network of the machine's own name, which is often 127.0.1.1.
    os.environ.setdefault("GLOO_SOCKET_IFNAME", interface)
    os.environ.setdefault("NCCL_SOCKET_IFNAME", f"={interface}")
    return {
        "run_id": "training",
        "rdzv_backend": "static",
        "rdzv_endpoint": rendezvous,
        "rdzv_configs": {"rank": node_rank, "timeout": _MEET_S},
        "local_addr": address,
    }


def _network(host: str, port: int) -> tuple[str, str]:
    """(this machine's address, its interface) on the way to a host; `OSError` if there is none."""
    family, kind, _, _, target = socket.getaddrinfo(host, port, type=socket.SOCK_DGRAM)[0]
    with socket.socket(family, kind) as probe:
        probe.connect(target)  # sends nothing
        own = probe.getsockname()[0]
    for name, addresses in psutil.net_if_addrs().items():
        if any(one.address.partition("%")[0] == own for one in addresses):
            return own, name
    raise OSError(0, f"no interface has the address {own}")


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
    """End this process with a status, or by the signal of a negative status."""
    sys.stdout.flush()
    sys.stderr.flush()
    if status < 0:
        with contextlib.suppress(OSError):  # SIGKILL has no handler
            signal.signal(-status, signal.SIG_DFL)
        os.kill(os.getpid(), -status)
    sys.exit(status)


if __name__ == "__main__":
    end_as(main())
