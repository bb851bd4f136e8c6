"""The virtual environment is filled, mended and explained, with a registry that is a folder of two wheels."""

from __future__ import annotations

import shutil
import subprocess
import sys
import zipfile
from collections.abc import Callable
from pathlib import Path

import pytest
import uv

from workers import environment
from workers.environment import Environment
from workers.refusal import Refusal

PROJECT = """
[project]
dependencies = ["first"]
[project.optional-dependencies]
cpu = ["for-cpu"]
gpu = ["for-gpu"]
test = ["second"]
[tool.realm]
first = ["earliest"]
data-packages = ["data"]
joined = {}
"""
PACKAGES = ("earliest", "first", "second", "for_cpu", "for_gpu", "data")


def wheel(wheels: Path, name: str, requires: str = "") -> None:
    """Write a wheel with one module, and its page in an index."""
    folder = wheels / name.replace("_", "-")
    folder.mkdir(parents=True)
    file_name = f"{name}-1.0-py3-none-any.whl"
    (folder / "index.html").write_text(f'<a href="{file_name}">{file_name}</a>')
    files = {
        f"{name}.py": f"NAME = {name!r}\n",
        f"{name}-1.0.dist-info/METADATA": f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n{requires}",
        f"{name}-1.0.dist-info/WHEEL": "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
    }
    record = f"{name}-1.0.dist-info/RECORD"
    with zipfile.ZipFile(folder / file_name, "w") as file:
        for path, text in files.items():
            file.writestr(path, text)
        file.writestr(record, "".join(f"{path},,{len(text)}\n" for path, text in files.items()) + f"{record},,\n")


def project(top: Path) -> Path:
    top.mkdir()
    (top / "pyproject.toml").write_text(PROJECT)
    (top / "constraints.txt").write_text("\n".join(["# pins", *(f"{name}==1.0" for name in PACKAGES)]))
    return top


@pytest.fixture
def checkout(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    wheels = tmp_path / "wheels"
    for name in PACKAGES:
        wheel(wheels, name, requires="Requires-Dist: nowhere-to-be-found\n" if name == "data" else "")
    top = project(tmp_path / "checkout")
    settings = {"PIP_CONFIG_FILE": "/dev/null", "PIP_FIND_LINKS": "", "UV_NO_CACHE": "1", "UV_NO_CONFIG": "1"}
    for name, value in settings.items():
        monkeypatch.setenv(name, value)
    for name in ("PIP_INDEX_URL", "UV_DEFAULT_INDEX"):
        monkeypatch.setenv(name, wheels.as_uri())
    monkeypatch.setattr(environment, "_ROOM_BYTES", 0)
    return top


@pytest.fixture(scope="session")
def empty(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A virtual environment with uv alone, which takes seconds to make."""
    made = Environment(project(tmp_path_factory.mktemp("empty") / "checkout"), "cpu")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(environment, "_ROOM_BYTES", 0)
        made._create()
    (made.folder / "bin" / "uv").symlink_to(Path(sys.executable).with_name("uv"))
    (made._site / "uv").symlink_to(Path(uv.__file__).parent)
    return made.folder


@pytest.fixture
def made_at_once(empty: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """An environment is made by copying an empty one."""

    def copy(self: Environment) -> None:
        shutil.rmtree(self.folder, ignore_errors=True)
        shutil.copytree(empty, self.folder, symlinks=True)

    monkeypatch.setattr(Environment, "_create", copy)


@pytest.fixture
def pip_calls(monkeypatch: pytest.MonkeyPatch) -> list[tuple[str, ...]]:
    calls: list[tuple[str, ...]] = []
    pip: Callable[..., None] = Environment._pip

    def counted(self: Environment, *arguments: str) -> None:
        calls.append(arguments)
        pip(self, *arguments)

    monkeypatch.setattr(Environment, "_pip", counted)
    return calls


def has(env: Environment, *modules: str) -> bool:
    done = subprocess.run([env.python, "-c", f"import {', '.join(modules)}"], capture_output=True, check=False)
    return done.returncode == 0


def test_it_is_made_once_extended_and_mended(
    checkout: Path, made_at_once: None, pip_calls: list[tuple[str, ...]]
) -> None:
    env = Environment(checkout, "cpu")
    env.ensure([])
    assert has(env, "first", "data")
    assert not has(env, "second")

    site = env._site
    (site / "first.py").unlink()  # a file
    (site / "data.py").write_text("")  # half a file
    shutil.rmtree(site / "for_cpu-1.0.dist-info")  # a package
    (site / "for_cpu.py").unlink()
    env.ensure(["test"])
    assert has(env, "first", "for_cpu", "second")
    assert (site / "data.py").read_text() == "NAME = 'data'\n"

    pip_calls.clear()
    env.ensure(["test"])
    env.ensure([])  # fewer extras take nothing away
    assert pip_calls == []

    env.python.unlink()
    env.ensure([])
    assert has(env, "first", "data")


@pytest.mark.nightly
@pytest.mark.parametrize("uv_finds_them", [True, False])
def test_uv_installs_what_pip_need_not(
    uv_finds_them: bool,
    checkout: Path,
    made_at_once: None,
    pip_calls: list[tuple[str, ...]],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    if not uv_finds_them:
        monkeypatch.setenv("UV_OFFLINE", "1")
        monkeypatch.setenv("UV_DEFAULT_INDEX", "http://127.0.0.1:9/simple")
    Environment(checkout, "cpu").ensure([])
    assert has(Environment(checkout, "cpu"), "earliest", "first", "for_cpu", "data")
    by_pip = [arguments[-1] for arguments in pip_calls]
    assert by_pip == (["earliest"] if uv_finds_them else ["earliest", "for-cpu", "data"])


@pytest.mark.nightly
def test_other_hardware_starts_afresh(checkout: Path, made_at_once: None, pip_calls: list[tuple[str, ...]]) -> None:
    Environment(checkout, "cpu").ensure([])
    pip_calls.clear()
    env = Environment(checkout, "gpu")
    env.ensure([])
    assert pip_calls
    assert has(env, "first", "for_gpu")
    assert not has(env, "for_cpu")


def test_a_registry_out_of_reach(checkout: Path, made_at_once: None, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in {"INDEX_URL": "http://127.0.0.1:9/simple", "RETRIES": "1"}.items():
        monkeypatch.setenv(f"PIP_{name}", value)
    with pytest.raises(Refusal, match="The package registry is out of reach"):
        Environment(checkout, "cpu").ensure([])


def test_a_package_that_does_not_exist(checkout: Path, made_at_once: None) -> None:
    (checkout / "pyproject.toml").write_text(PROJECT.replace('"earliest"', '"third"'))
    with pytest.raises(Refusal, match="pip could not install the packages: ERROR: No matching distribution"):
        Environment(checkout, "cpu").ensure([])


def test_a_python_without_venv(checkout: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    program = checkout / "python"
    program.write_text(
        "#!/bin/sh\necho 'The virtual environment was not created: ensurepip is not available'; exit 1\n"
    )
    program.chmod(0o755)
    monkeypatch.setattr(sys, "executable", str(program))
    with pytest.raises(Refusal, match="apt-get install python3-venv"):
        Environment(checkout, "cpu").ensure([])


@pytest.mark.nightly  # the first test extends one
def test_an_older_checkout_takes_what_a_newer_one_has_extended(checkout: Path, made_at_once: None) -> None:
    told = checkout / "pyproject.toml"
    older = told.read_text()
    told.write_text(older.replace("test =", "later = []\ntest ="))
    Environment(checkout, "cpu").ensure(["later"])
    told.write_text(older)
    Environment(checkout, "cpu").ensure([])
    assert has(Environment(checkout, "cpu"), "first")
