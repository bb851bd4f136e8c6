"""Two machines on one: an index built, and a model trained, in two network namespaces that a cable joins.

python -m benchmarks.two_machines

Each namespace has its own interfaces and addresses, and sees of the other one only what comes over the cable (veth):
10.77.0.1 has PostgreSQL, the broker, an S3-compatible store (moto), the scheduler and a worker; 10.77.0.2 has a worker
with a data folder of its own. The index is built by both, and the second worker is killed while it holds a shard. The
training has a process in each, and a run folder that both see. It needs Linux, `ip`, `unshare` and `nsenter`, and root
or user namespaces; everything goes with the command.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections import defaultdict
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

from benchmarks.inputs import MODEL, TOP
from realm_core.runs.processes import kill_all, start

NAMES = ("first", "second")
ADDRESSES = ("10.77.0.1", "10.77.0.2")
INSIDE = "REALM_TWO_MACHINES"
_LEASE_S = 5
_CABLE = "realm-first"
_WAIT_S = 3600
_PROGRAMS = ("ip", "unshare", "nsenter")


def main() -> int:
    """Show both; status 0 also where namespaces are not permitted, after a sentence that says so."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.two_machines", description=__doc__.split("\n")[0])
    parser.add_argument("--articles", type=int, default=1200, help="short made-up articles in the corpus")
    parser.add_argument("--shard-rows", type=int, default=200, help="blocks of a shard")
    parser.add_argument("--steps", type=int, default=20, help="of the training")
    options = parser.parse_args()
    if os.environ.get(INSIDE) != "1":
        return _enter()
    sys.stdout.reconfigure(line_buffering=True)  # type: ignore[union-attr]
    with tempfile.TemporaryDirectory(prefix="realm-two-") as name, ExitStack() as stack:
        Path(name).chmod(0o755)  # PostgreSQL may run as another user
        second = stack.enter_context(_second_machine())
        folders = _build(Path(name), second, options.articles, options.shard_rows)
        _train(Path(name), second, *folders, options.steps)
    return 0


# ---- namespaces


def _enter() -> int:
    """Run this command in a network namespace of its own, which is the first machine."""
    user = [] if os.geteuid() == 0 else ["--user", "--map-current-user", "--keep-caps"]
    inside = ["unshare", *user, "--net"]
    lacking = [program for program in _PROGRAMS if shutil.which(program) is None]
    if not lacking:
        tried = subprocess.run([*inside, "ip", "link", "set", "lo", "up"], capture_output=True, text=True, check=False)
        if tried.returncode == 0:
            command = [*inside, sys.executable, "-m", "benchmarks.two_machines", *sys.argv[1:]]
            return subprocess.run(command, cwd=TOP, env={**os.environ, INSIDE: "1"}, check=False).returncode
    reason = f"{', '.join(lacking)} is missing" if lacking else " ".join(tried.stderr.split()).rstrip(".")
    print(f"Skipped: this machine does not permit network namespaces ({reason}); root or user namespaces are needed.")
    return 0


@contextmanager
def _second_machine() -> Iterator[list[str]]:
    """A second namespace at the other end of the cable; the words before each command that runs there."""
    holder = start(["unshare", "--net", "sleep", "infinity"])
    try:
        there = ["nsenter", "--target", str(_namespace_of(holder.pid)), "--net"]
        _do("ip", "link", "set", "lo", "up")
        _do("ip", "link", "add", _CABLE, "type", "veth", "peer", "name", "realm-second", "netns", there[2])
        for words, name, address in (([], _CABLE, ADDRESSES[0]), (there, "realm-second", ADDRESSES[1])):
            _do(*words, "ip", "address", "add", f"{address}/24", "dev", name)
            _do(*words, "ip", "link", "set", name, "up")
        _do(*there, "ip", "link", "set", "lo", "up")
        yield there
    finally:
        kill_all(holder)
        holder.wait()


def _namespace_of(pid: int) -> int:
    """The process, as soon as it is in a namespace of its own."""
    until = time.monotonic() + 60
    while Path(f"/proc/{pid}/ns/net").readlink() == Path("/proc/self/ns/net").readlink():
        if time.monotonic() > until:
            raise SystemExit("error: the second network namespace does not begin.")
        time.sleep(0.05)
    return pid


def _do(*command: str) -> None:
    subprocess.run(command, check=True)


def _carried_mib() -> float:
    """MiB that the cable has carried, in both directions."""
    counters = Path(f"/sys/class/net/{_CABLE}/statistics")
    if not counters.exists():  # /sys shows the namespace that it was mounted in
        return _counted_by_ip() / 2**20
    return sum(int((counters / name).read_text()) for name in ("rx_bytes", "tx_bytes")) / 2**20


def _counted_by_ip() -> int:
    told = subprocess.run(["ip", "-s", "-j", "link", "show", _CABLE], capture_output=True, check=True).stdout
    counted = json.loads(told)[0]["stats64"]
    return int(counted["rx"]["bytes"] + counted["tx"]["bytes"])


# ---- an index


def _build(folder: Path, second: Sequence[str], articles: int, shard_rows: int) -> tuple[Path, Path]:
    """Build the index in both; the folders of its model and corpus."""
    from tests.broker import running_broker
    from tests.postgres import postgres_server
    from tests.s3 import running_s3
    from workers.services import scheduler, worker

    data = [folder / name for name in NAMES]
    with ExitStack() as stack:
        database = stack.enter_context(postgres_server(address=ADDRESSES[0]))
        broker = stack.enter_context(running_broker(host=ADDRESSES[0]))
        s3 = stack.enter_context(running_s3(ADDRESSES[0]))
        os.environ |= s3.environment | broker.urls
        os.environ |= {"DATABASE_URL": database.url, "REALM_DATA": str(data[0]), "JOB_LEASE_S": str(_LEASE_S)}
        os.environ |= {"DJANGO_SETTINGS_MODULE": "webapp.settings", "REALM_DEVICES": "cpu", "OMP_NUM_THREADS": "1"}
        os.environ["JOB_NICENESS"] = "0"  # nobody asks meanwhile
        _do(sys.executable, str(TOP / "manage.py"), "migrate", "--no-input", "--verbosity=0")
        model, corpus = _record(data[0], articles)
        places: list[Sequence[str]] = [(), second]

        def run(command: Sequence[str], machine: int) -> subprocess.Popen[bytes]:
            environment = {**os.environ, "REALM_HOST": NAMES[machine], "REALM_DATA": str(data[machine])}
            environment |= {"WORKER_QUEUES": "index", "WORKER_SLOTS": "1"}
            output = stack.enter_context(open(folder / "log.txt", "ab"))
            process = start([*places[machine], *command], output=output, environment=environment, folder=TOP)
            stack.callback(process.wait)
            stack.callback(kill_all, process)
            return process

        run(scheduler().command, 0)
        workers = [run(worker().command, machine) for machine in range(2)]
        print(f"{ADDRESSES[0]}: database, broker, store, scheduler, a worker; {ADDRESSES[1]}: a worker")
        _wait_for_workers()
        before = _carried_mib()
        job = _start(model, corpus, shard_rows)
        told = _follow(job, lambda: run(worker().command, 1), workers[1])
        print(f"{told}; the cable carried {_carried_mib() - before:.1f} MiB")
        _compare(folder, job, shard_rows)
        return data[0] / model.path, data[0] / corpus.path


def _record(data: Path, articles: int) -> tuple[Any, Any]:
    """Publish and record the model, and a corpus of made-up articles, on the first machine and so in the store."""
    import django

    django.setup()
    from tests.tiny import tiny_snapshot
    from webapp.artefacts.registering import adopt_model, record_corpus

    texts = {
        f"Town {number}": f"Town {number} lies by a river. In {1000 + number} its market burned; "
        f"{number + 7} houses were lost, and it took {number % 50 + 2} years until all of them stood again."
        for number in range(articles)
    }
    return adopt_model(MODEL), record_corpus(tiny_snapshot(data, texts))


def _wait_for_workers() -> None:
    from webapp.models import Worker

    for _ in _waiting("the workers do not begin"):
        hosts = set(Worker.objects.values_list("host", flat=True))
        if hosts == set(NAMES):
            return


def _start(model: Any, corpus: Any, shard_rows: int) -> Any:
    from webapp.jobs import service as jobs
    from webapp.models import JobKind

    return jobs.start(JobKind.INDEX, {"model": model.pk, "corpus": corpus.pk, "shard_rows": shard_rows}, by=None)


def _follow(job: Any, restart: Any, doomed: subprocess.Popen[bytes]) -> str:
    """Watch the job to its end, and kill the second worker once it embeds; what ran where."""
    seen: defaultdict[int, list[str]] = defaultdict(list)
    started_at = time.monotonic()
    killed = ""
    for _ in _waiting("the index is not built"):
        for part in job.parts.exclude(lease_owner="").defer("log"):
            number, owner = part.parameters["shard"], part.lease_owner.partition("/")[0]
            if owner in NAMES and seen[number][-1:] != [owner]:
                seen[number].append(owner)
            if not killed and owner == NAMES[1] and part.progress.get("done"):
                kill_all(doomed)
                killed = f"the second worker was killed with {part.progress['done']} blocks of shard {number} embedded"
                restart()
        job.refresh_from_db()
        if not job.is_active:
            break
    if job.state != "succeeded":
        raise SystemExit(f"error: the index was not built: {job.error or job.state}")
    elapsed_s = time.monotonic() - started_at
    print(f"index: {job.result['rows']:,} blocks in {len(seen)} shards, {elapsed_s:.1f} s from start to record")
    for part in job.parts.order_by("created_at"):
        number, took_s = part.parameters["shard"], (part.finished_at - part.started_at).total_seconds()
        print(f"  shard {number} on {' → '.join(seen[number])}, {took_s:.1f} s")
    return killed or "the second worker embedded nothing before all was done, so it was not killed"


def _compare(folder: Path, job: Any, shard_rows: int) -> None:
    """RealmError, or the sentence that the shards are those of a build in one process."""
    from realm_core.object_store import get_folder
    from webapp.models import IndexGeneration
    from webapp.storage.places import resolve

    index = IndexGeneration.objects.get(job=job)
    made, paths = get_folder(resolve(index.path)), (resolve(index.model.path), resolve(index.corpus.path))
    build = ["-m", "realm_core", "index", "--quiet", f"--model={paths[0]}", f"--corpus={paths[1]}", "--device=cpu"]
    _do(sys.executable, *build, f"--output={folder / 'alone'}", "--generation=alone", f"--shard-rows={shard_rows}")
    names = sorted(path.name for path in made.glob("vectors-*"))
    equal = sum((made / name).read_bytes() == (folder / "alone" / "alone" / name).read_bytes() for name in names)
    print(f"  {equal} of {len(names)} shards are byte for byte those of a build in one process")


# ---- a training


def _train(folder: Path, second: Sequence[str], model: Path, corpus: Path, steps: int) -> None:
    """Train in both, by the command of docs/training.md."""
    settings = {"steps": steps, "batch": 32, "at_once": 16, "holdout": 0.05, "metrics_every": max(steps // 2, 1)}
    command = [
        *(sys.executable, "-m", "realm_core", "ict", f"--model={model}", f"--corpus={corpus}", "--device=cpu"),
        *(f"--output={folder / 'trained'}", f"--run={folder / 'run'}"),
        *(f"--set={key}={value}" for key, value in settings.items()),
    ]
    ranks = ["-m", "realm_core.training.ranks", "--processes=1", "--nodes=2", f"--rendezvous={ADDRESSES[0]}:29500"]
    before, started_at = _carried_mib(), time.monotonic()
    with open(folder / "training.txt", "ab") as output:
        machines = [
            start(
                [*place, sys.executable, *ranks, f"--node-rank={rank}", *command],
                output=output,
                environment={name: value for name, value in os.environ.items() if name != "REALM_STORE"},
                folder=TOP,
            )
            for rank, place in enumerate(((), second))
        ]
        statuses = [machine.wait() for machine in machines]
    if statuses != [0, 0]:
        raise SystemExit(f"error: the training ended with {statuses}:\n{(folder / 'training.txt').read_text()[-2000:]}")
    elapsed_s = time.monotonic() - started_at
    rows = [json.loads(line) for line in (folder / "run" / "metrics.jsonl").read_text().splitlines()]
    losses = [row["ict.loss"] for row in rows if "ict.loss" in row]
    print(f"training: {steps} steps of 32 sentences in a process on each, {elapsed_s:.1f} s with starting and saving")
    print(f"  loss {losses[0]:.3f} → {losses[-1]:.3f}; the cable carried {_carried_mib() - before:.1f} MiB")


def _waiting(otherwise: str) -> Iterator[None]:
    """Again and again, for an hour; then an error."""
    until = time.monotonic() + _WAIT_S
    while time.monotonic() < until:
        yield
        time.sleep(0.1)
    raise SystemExit(f"error: {otherwise}.")


if __name__ == "__main__":
    sys.exit(main())
