"""What is declared is pinned, and the source is written for the Python that is asked for."""

from __future__ import annotations

import ast
import re
import tomllib
from pathlib import Path

TOP = Path(__file__).resolve().parents[2]
PROJECT = tomllib.loads((TOP / "pyproject.toml").read_text(encoding="utf-8"))
# Modules of the bootstrap that run before the version of Python has been looked at.
RUN_UNDER_ANY_PYTHON = ("workers/__init__.py", "workers/bootstrap.py", "workers/refusal.py")
OLDEST_SYNTAX = (3, 7)


def canonical(requirement: str) -> str:
    return re.sub(r"[-_.]+", "-", re.split(r"[\[<>=!~; ]", requirement)[0]).lower()


def pins() -> dict[str, str]:
    lines = (TOP / "constraints.txt").read_text(encoding="utf-8").splitlines()
    return dict(line.split("==") for line in lines if line and not line.startswith("#"))


def test_every_requirement_is_pinned() -> None:
    project = PROJECT["project"]
    wanted = [
        *project["dependencies"],
        *(line for extra in project["optional-dependencies"].values() for line in extra),
        *PROJECT["tool"]["realm"]["data-packages"],
    ]
    assert sorted(set(map(canonical, wanted)) - set(pins())) == []


def test_parts_of_base_weights_are_exact() -> None:
    for module, one in PROJECT["tool"]["realm"]["joined"].items():
        assert module.isidentifier() and re.fullmatch(r"[0-9a-f]{64}", one["sha256"]) and one["bytes"] > 0
        assert all(re.fullmatch(r"[\w-]+==[\d.]+", part) for part in one["parts"])


def test_torch_is_pinned_once_and_exactly() -> None:
    text = (TOP / "constraints.txt").read_text(encoding="utf-8")
    assert re.findall(r"^torch==\d+\.\d+\.\d+$", text, re.MULTILINE) == [f"torch=={pins()['torch']}"]


def test_an_old_python_can_read_the_refusal() -> None:
    for name in RUN_UNDER_ANY_PYTHON:
        ast.parse((TOP / name).read_text(encoding="utf-8"), name, feature_version=OLDEST_SYNTAX)
