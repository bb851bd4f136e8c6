"""The peers' virtual environments, made on first use, and a line to the processes that run in them."""

from __future__ import annotations

import hashlib
import json
import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any

from realm_core.errors import RealmError

HERE = Path(__file__).resolve().parent
_ENVIRONMENT = {
    "HF_HUB_OFFLINE": "1",
    "TRANSFORMERS_VERBOSITY": "error",
    "HAYSTACK_TELEMETRY_ENABLED": "False",  # would be a network request within what is measured
    "PIP_DISABLE_PIP_VERSION_CHECK": "1",
}


@dataclass(frozen=True)
class Environment:
    """A virtual environment of its own for libraries that we are compared with.

    title: what it holds, for people. folder: where it is, beside this file. constraints: files of exact versions.
    steps: packages to install; what one step settles, the next cannot change.
    """

    title: str
    folder: str
    constraints: tuple[Path, ...]
    steps: tuple[tuple[str, ...], ...]

    @property
    def path(self) -> Path:
        """Its folder."""
        return HERE / self.folder

    @property
    def log(self) -> Path:
        """What pip and the peers' processes said."""
        return self.path / "log.txt"

    def ensure(self) -> Path:
        """Its Python; installs the environment if it is missing or not what the constraints say."""
        python, stamp = self.path / "bin" / "python", self.path / "realm.txt"
        pinned = [path.read_bytes() for path in self.constraints]
        key = hashlib.sha256(b"".join([sys.version.encode(), repr(self.steps).encode(), *pinned])).hexdigest()
        if stamp.exists() and stamp.read_text(encoding="utf-8") == key:
            return python
        print(f"Installing {self.title} into {self.path} (the first time takes minutes)", flush=True)
        if not _is_whole(python):
            self._run(sys.executable, "-m", "venv", "--clear", str(self.path))
        pins = [word for path in self.constraints for word in ("--constraint", str(path))]
        for packages in self.steps:
            self._run(str(python), "-m", "pip", "install", "--progress-bar=off", "--no-input", *pins, *packages)
        stamp.write_text(key, encoding="utf-8")
        return python

    def _run(self, *command: str) -> None:
        done = subprocess.run(
            command, capture_output=True, text=True, errors="replace", env={**os.environ, **_ENVIRONMENT}, check=False
        )
        if self.path.exists():
            with open(self.log, "a", encoding="utf-8") as log:
                log.write(done.stdout + done.stderr)
        if done.returncode != 0:
            lines = [line for line in (done.stdout + done.stderr).splitlines() if line.strip()]
            raise RealmError(f"The peers' environment could not be made: {lines[-1] if lines else 'no reason given'}")


# torch goes first and alone: what the others would pull along with it is then settled. What both sides use (torch,
# transformers, tokenizers, …) has the project's own versions.
LIBRARIES = Environment(
    "sentence-transformers and Haystack",
    ".venv-peers",
    (HERE.parent / "constraints.txt", HERE / "constraints.txt"),
    (("torch",), ("transformers", "sentence-transformers", "transformers-haystack"), ("gunicorn",)),
)
# The last transformers that has REALM's classes, with the project's torch; it wants older versions of all else.
REALM = Environment(
    "transformers with its REALM", ".venv-realm", (HERE / "constraints-realm.txt",), (("torch",), ("transformers",))
)


def _is_whole(python: Path) -> bool:
    """Whether there is an environment of this Python's version, which pip can bring up to date."""
    program = f"import pip, sys; sys.exit(sys.version_info[:2] != {sys.version_info[:2]})"
    return (
        python.exists()
        and subprocess.run([python, "-I", "-c", program], capture_output=True, check=False).returncode == 0
    )


class PeerProcess:
    """benchmarks/peer.py, running. `peer.call("encode", name=…, first=…)` is `Peer.encode` over there."""

    def __init__(self, environment: Environment) -> None:
        python = environment.ensure()
        self._log = open(environment.log, "a", encoding="utf-8")  # noqa: SIM115  # closed with the process
        self._process = subprocess.Popen(
            [str(python), "-I", str(HERE / "peer.py")],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._log,
            text=True,
            encoding="utf-8",
            env={**os.environ, **_ENVIRONMENT},
        )

    def call(self, do: str, **arguments: Any) -> Any:
        """Ask for something and wait; `RealmError` if the process died of it."""
        assert self._process.stdin is not None and self._process.stdout is not None
        try:
            self._process.stdin.write(json.dumps({"do": do, **arguments}) + "\n")
            self._process.stdin.flush()
            line = self._process.stdout.readline()
        except BrokenPipeError:
            line = ""
        if not line:
            status = self._process.wait()
            raise RealmError(
                f"The peers' process ended with status {status} at {do!r}; its last words are in {self._log.name}."
            )
        return json.loads(line)

    def __enter__(self) -> PeerProcess:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        assert self._process.stdin is not None and self._process.stdout is not None
        self._process.stdin.close()
        try:
            self._process.wait(10)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        self._process.stdout.close()
        self._log.close()
