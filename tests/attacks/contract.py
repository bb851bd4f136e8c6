"""Made-up requests against a real server, through the whole description: `python -m tests.attacks.contract`.

Schemathesis makes them up, right and wrong ones, and chains of them; it looks at each response (CHECKS). They are sent
as nobody, with an asker's token and with an admin's, each as often; the server's own log says how many came and how
each was answered. Nothing works on the jobs that are started, no address is reached, and questions have no limit.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import urllib.request
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from realm_core.runs.processes import kill_all, start
from tests.served import TOP, Served, served

ROLES = ("nobody", "asker", "admin")
CHECKS = (
    "not_a_server_error",
    "status_code_conformance",
    "content_type_conformance",
    "response_schema_conformance",
    "response_headers_conformance",
    "unsupported_method",
)
SURROUNDINGS = {"LOG_FORMAT": "json", "ASK_RATE": "0", "BROKER_URL": "memory://", "OMP_NUM_THREADS": "1"}
# The wrong values of all settings of all kinds of job are many; a small run leaves them out.
PHASES = "examples,coverage,fuzzing,stateful"
FEW_PHASES = "examples,fuzzing,stateful"
_MOST_ROUNDS = 40  # that many without reaching the number: something else is wrong


@dataclass(frozen=True)
class Outcome:
    """How the requests of one role were answered: status and how often. complaints: what Schemathesis found."""

    role: str
    statuses: Counter[int]
    complaints: str

    @property
    def requests(self) -> int:
        """How many there were."""
        return self.statuses.total()

    def __str__(self) -> str:
        told = ", ".join(f"{status}: {number:,}" for status, number in sorted(self.statuses.items()))
        return f"{self.role:7}{self.requests:7,} requests ({told})"


def run(site: Served, requests: int, *, phases: str = PHASES, examples: int = 25, seed: int = 1) -> list[Outcome]:
    """Send at least `requests` requests for all roles together. examples: most made-up ones an address and round."""
    with tempfile.TemporaryDirectory() as folder, _fetching(site):
        config = Path(folder) / "schemathesis.toml"
        config.write_text(_config(_existing(site)), encoding="utf-8")
        return [_as(site, role, -(-requests // len(ROLES)), config, phases, examples, seed) for role in ROLES]


@contextmanager
def _fetching(site: Served) -> Iterator[None]:
    """Something answers the server's requests for addresses (tests/attacks/fetcher.py)."""
    data = site.log.parent
    environment = {
        **os.environ,
        "DJANGO_SETTINGS_MODULE": "webapp.settings",
        "REALM_DATA": str(data),
        "DATABASE_URL": f"sqlite:///{data}/db.sqlite3",
    }
    with open(data / "fetcher.log", "wb") as output:
        process = start([sys.executable, "-m", "tests.attacks.fetcher"], output=output, environment=environment)
    try:
        yield
        assert process.poll() is None, (data / "fetcher.log").read_text()
    finally:
        kill_all(process)
        process.wait()


def _as(site: Served, role: str, requests: int, config: Path, phases: str, examples: int, seed: int) -> Outcome:
    command = [str(Path(sys.executable).with_name("schemathesis")), f"--config-file={config}", "run"]
    command += [f"--url={site.address}", f"--checks={','.join(CHECKS)}", f"--phases={phases}", "--no-color"]
    command += [f"--max-examples={examples}", "--continue-on-failure", "--generation-database=none", "--warnings=off"]
    command += [] if role == "nobody" else [f"--header=Authorization: Bearer {getattr(site, role)}"]
    start = site.log.stat().st_size
    for number in range(_MOST_ROUNDS):
        done = subprocess.run(
            [*command, f"--seed={seed + number}", str(TOP / "docs" / "openapi.yaml")],
            cwd=config.parent,
            capture_output=True,
            text=True,
            check=False,
        )
        statuses = _statuses(site.log, start)
        if done.returncode or statuses.total() >= requests:
            return Outcome(role, statuses, f"{done.stdout}{done.stderr}" if done.returncode else "")
    raise AssertionError(f"Only {statuses.total()} requests came in {_MOST_ROUNDS} rounds.")


def _statuses(log: Path, start: int) -> Counter[int]:
    """How the requests to the API that the log tells of from there on were answered."""
    found: Counter[int] = Counter()
    with open(log, encoding="utf-8") as file:
        file.seek(start)
        for line in file:
            told = json.loads(line) if line.startswith("{") else {}
            if str(told.get("path", "")).startswith("/api/v1/"):
                found[told["status"]] += 1
    return found


def _existing(site: Served) -> dict[str, list[str | int]]:
    """Ids of what there is, so that not every request is for something that is not there."""
    answer = _post(site, "ask", {"question": "What is the capital of Bhutan?", "k": 3})
    index = {"kind": "index", "parameters": {"model": 1, "corpus": 1}}
    return {
        "answer_id": [answer["id"]],
        "block_id": [block["block_id"] for block in answer["evidence"]],
        "job_id": [_post(site, "jobs", index)["id"]],
        "record_id": [1],
        "deployment_id": [1],
    }


def _post(site: Served, address: str, body: dict[str, Any]) -> dict[str, Any]:
    headers = {"Content-Type": "application/json", "Authorization": f"Bearer {site.admin}"}
    request = urllib.request.Request(f"{site.address}/api/v1/{address}", json.dumps(body).encode(), headers)
    with urllib.request.urlopen(request) as response:
        told: dict[str, Any] = json.load(response)
    return told


def _config(existing: dict[str, list[str | int]]) -> str:
    """Schemathesis' settings: two times out of three an address names something that is there."""
    lines = []
    for name, values in existing.items():
        lines.append(f"[dictionaries.{name}]\nvalues = {json.dumps(values)}\n")
    lines.append("[parameters]")
    lines += [f'"path.{name}" = {{ dictionary = "{name}", probability = 0.67 }}' for name in existing]
    return "\n".join(lines)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--requests", type=int, default=10_000, help="at least so many, for all roles together")
    parser.add_argument("--phases", default=PHASES, help=f"of Schemathesis (default: {PHASES})")
    parser.add_argument("--examples", type=int, default=25, help="most made-up requests to one address in a round")
    parser.add_argument("--seed", type=int, default=1)
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as data, served(Path(data), **SURROUNDINGS) as site:
        outcomes = run(site, given.requests, phases=given.phases, examples=given.examples, seed=given.seed)
    for outcome in outcomes:
        print(outcome.complaints, end="")
    print(*outcomes, sep="\n")
    return 1 if any(outcome.complaints for outcome in outcomes) else 0


if __name__ == "__main__":
    sys.exit(main())
