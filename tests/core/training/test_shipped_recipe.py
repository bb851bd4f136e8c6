"""`models/train.sh` makes both shipped models from nothing: each command finds what it reads.

A stand-in for Python notes each command, refuses one that reads what nobody has made, and makes its output, empty. The
options are then parsed by the program itself.
"""

from __future__ import annotations

import os
import re
import shlex
import subprocess
from pathlib import Path

import pytest

from tests.core.running import told

ROOT = Path(__file__).resolve().parents[3]
STAND_IN = r"""#!/usr/bin/env bash
set -euo pipefail
printf '%q ' "$@" >> "$NOTES"; echo >> "$NOTES"
if [ "$1" = - ]; then touch "$5"/{articles,leads,beginnings,squad}.jsonl; exit; fi
activity=$3 output='' name=''
shift 3
while [ $# -gt 0 ]; do
  case $1 in
    --output) output=$2; shift ;;
    --name | --generation) name=$2; shift ;;
    --run) shift ;;
    /* | models/*) [ -e "$1" ] || { echo "$activity reads $1, which is not there" >&2; exit 1; } ;;
  esac
  shift
done
case $activity in
  ingest) mkdir -p "$output/$name/snapshot" ;;
  index) mkdir -p "$output/$name" ;;
  mine) printf '{"answers": ["x"]}\n{"answers": []}\n' > "$output" ;;
  *) mkdir "$output" ;;
esac
"""


class Recipe:
    """The script with the stand-in, in a folder of its own."""

    def __init__(self, folder: Path) -> None:
        self.questions, self.enwiki, self.work = (folder / name for name in ("questions", "enwiki.xz", "work"))
        self._python, self._notes = folder / "python", folder / "notes"
        self.questions.mkdir()
        self._python.write_text(STAND_IN)
        self._python.chmod(0o755)

    def run(self) -> subprocess.CompletedProcess[str]:
        words = [ROOT / "models" / "train.sh", self.questions, self.enwiki, self.work]
        environment = os.environ | {"PYTHON": str(self._python), "NOTES": str(self._notes)}
        return subprocess.run(words, env=environment, capture_output=True, text=True, check=False)

    def commands(self) -> list[list[str]]:
        """The activities that were run since the last call, with their options."""
        notes = self._notes.read_text().splitlines() if self._notes.exists() else []
        self._notes.unlink(missing_ok=True)
        return [words[2:] for words in map(shlex.split, notes) if words[0] == "-m"]


@pytest.fixture
def recipe(tmp_path: Path) -> Recipe:
    recipe = Recipe(tmp_path)
    table = (ROOT / "models" / "recipes" / "README.md").read_text()
    for row in re.findall(r"^\| (`[^|]*`) \| [\d, ]+ \|", table, re.M):
        for name in re.findall("`([^`]+)`", row):
            (recipe.questions / f"{name}.jsonl").write_text('{"question": "Who?", "answers": ["x"]}\n')
    recipe.enwiki.touch()
    return recipe


def test_it_makes_both_models_from_nothing_with_every_recipe(recipe: Recipe) -> None:
    done = recipe.run()
    assert (done.returncode, done.stderr) == (0, "")
    commands = recipe.commands()
    assert (recipe.work / "realm-mini").is_dir() and (recipe.work / "realm-base" / "vectors").is_dir()
    for name, *options in commands:
        if "--run" in options:  # an option of every activity, and of no task
            place = options.index("--run")
            del options[place : place + 2]
        told(name, options)
    whole = " ".join(word for words in commands for word in words)
    assert not re.search(r"models/realm-(mini|base)", whole)  # nothing of what ships is read
    recipes = ROOT.joinpath("models", "recipes").glob("*.toml")
    assert {path.name for path in recipes} == set(re.findall(r"recipes/(\S+)", whole))
    assert recipe.run().returncode == 0
    assert {name for name, *_ in recipe.commands()} == {"ingest", "index"}  # these know what is there


def test_a_missing_file_is_named_before_anything_is_made(recipe: Recipe) -> None:
    (recipe.questions / "mintaka-dev.jsonl").unlink()
    done = recipe.run()
    assert done.returncode == 2 and not recipe.work.exists() and recipe.commands() == []
    assert "mintaka-dev.jsonl is missing; models/recipes/README.md tells what it is." in done.stderr
