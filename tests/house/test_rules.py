"""The rules of the house, read off the source: who may import whom, no pickle, files that one can read."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
from collections.abc import Iterator
from functools import cache
from itertools import pairwise
from pathlib import Path
from typing import NamedTuple
from xml.etree import ElementTree

import pytest

TOP = Path(__file__).resolve().parents[2]
PACKAGES = ("realm_core", "webapp", "workers", "client", "tests", "benchmarks")
LONGEST_FILE = 450  # lines
SOURCES = sorted(
    path
    for package in PACKAGES
    for path in (TOP / package).rglob("*.py")
    if ".venv" not in path.relative_to(TOP).as_posix()
)
# Each takes longer to load than all else that an activity needs; the second is torch's compiler.
SLOW = {"transformers", "torch._dynamo"}
HEAVY = {"torch", "faiss", "transformers", "tokenizers"}

# Which packages each of ours may not import, and why that would be wrong.
FORBIDDEN = {
    "realm_core": {"django", "celery", "rest_framework", "webapp", "workers"},  # a library, below everything
    "webapp": {"workers", "tests"},  # hands jobs over by id and name
    "workers": {"torch", "faiss", "transformers", "tests"},  # supervises processes that import them
    "client": {"django", "celery", "torch", "realm_core", "webapp", "workers", "tests"},  # is installed by itself
}
# The rooms of realm_core from the lowest to the highest; each imports from itself and from those before it.
FLOORS = (
    "",  # the modules beside the rooms: files, settings, …
    "runs",
    "object_store",
    "text",
    "questions",
    "corpus",
    "documents",
    "model",
    "index",
    "salient",
    "living",
    "serving",
    "evaluation",
    "training",
    "selfcheck",
    "tasks",  # the list of all tasks
    "__main__",  # the command line
)
# What the subjects of webapp share, from the lowest to the highest; each imports from itself and from those before it.
SHARED = (
    "environment",
    "request_id",
    "refusals",
    "text",
    "models",
    "metrics",
    "storage",
    "kinds",
    "access",
    "serving",
    "rest",
    "templatetags",
    "pages",
    "bodies",
)
# The subjects of webapp, and the other subjects that each imports; those stand before it, so there is no cycle.
SUBJECTS: dict[str, set[str]] = {
    "asking": set(),
    "articles": {"asking"},
    "feedback": {"asking", "articles"},
    "explaining": {"asking", "articles", "feedback"},
    "filling": {"asking"},
    "sources": set(),
    "jobs": {"sources"},
    "evaluations": {"jobs"},
    "questions": {"asking", "feedback"},
    "artefacts": {"evaluations", "feedback", "questions"},
    "ledger": {"asking"},
    "originals": set(),
    "collections": set(),
    "documents": {"jobs", "artefacts", "ledger", "originals", "collections"},
    "purges": {"artefacts", "documents", "ledger", "originals"},
    "mcp": {"asking", "articles", "collections"},
    "deployments": {"documents", "purges", "evaluations", "jobs"},
    "schedules": {"jobs", "evaluations", "deployments", "artefacts"},
    "accounts": set(),
    "operations": {"feedback", "jobs", "sources"},
}
# Packages in which a public name of a class or type has one meaning, and the names that Django demands of many classes.
NAMED = ("realm_core", "webapp", "workers")
_TYPE_NAME = re.compile("[A-Z][a-z][A-Za-z0-9]*")
NAMED_BY_DJANGO = {"Meta", "Command", "Migration"}
# Modules that read or write pickles, and calls that do so inside other libraries.
PICKLE_MODULES = {"pickle", "cPickle", "_pickle", "cloudpickle", "dill", "joblib", "shelve", "marshal"}
PICKLE_CALLS = {"torch.save", "torch.load", "numpy.save", "np.save", "numpy.load", "np.load", "pandas.read_pickle"}
PICKLE_NAMES = {name.rpartition(".")[2] for name in PICKLE_CALLS}
_PERHAPS_UNPICKLING = re.compile("|".join(["allow_pickle", *(name.replace(".", r"\s*\.\s*") for name in PICKLE_CALLS)]))


class Source(NamedTuple):
    """What the rules look at in a file; its whole tree is not kept, because the collector would go through all of them.

    imported: each module, the line, and the names that are taken from it. unpickling: lines, and what is done there.
    classes: names and lines, nested classes and aliases of types included.
    """

    lines: int
    docstring: str | None
    imported: list[tuple[str, int, list[str]]]
    unpickling: list[tuple[int, str]]
    classes: list[tuple[str, int]]


@cache
def read(path: Path) -> Source:
    """A file, read once."""
    text = path.read_text(encoding="utf-8")
    tree = ast.parse(text, str(path))
    package = path.relative_to(TOP).parent.parts
    imported: list[tuple[str, int, list[str]]] = []
    unpickling: list[tuple[int, str]] = []
    classes: list[tuple[str, int]] = []
    if _PERHAPS_UNPICKLING.search(text):  # to go through all expressions takes most of the time
        calls = (node for node in ast.walk(tree) if isinstance(node, ast.Call))
        unpickling += [(node.lineno, what) for node in calls for what in _unpickling(node)]
    for node in _statements(tree):
        if isinstance(node, ast.Import):
            imported += [(alias.name, node.lineno, []) for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            base = ".".join(package[: len(package) - node.level + 1]) if node.level else ""
            module = ".".join(part for part in (base, node.module) if part)
            imported.append((module, node.lineno, [alias.name for alias in node.names]))
        elif isinstance(node, ast.ClassDef):
            classes.append((node.name, node.lineno))
        elif isinstance(node, ast.Assign) and (name := _alias(node)):
            classes.append((name, node.lineno))
    return Source(len(text.rstrip().splitlines()), ast.get_docstring(tree), imported, unpickling, classes)


def _alias(node: ast.Assign) -> str:
    """The name that a module gives to a type; empty for others, and for type variables, which mean nothing outside."""
    name = node.targets[0]
    if node.col_offset or not isinstance(name, ast.Name) or not _TYPE_NAME.fullmatch(name.id):
        return ""
    return "" if isinstance(node.value, ast.Call) and ast.unparse(node.value.func) == "TypeVar" else name.id


def _statements(node: ast.AST) -> Iterator[ast.stmt]:
    """All statements in a module or in another statement, without going through expressions."""
    for name in ("body", "orelse", "finalbody", "handlers", "cases"):
        for part in getattr(node, name, ()):
            if isinstance(part, ast.stmt):
                yield part
            yield from _statements(part)


def _unpickling(call: ast.Call) -> Iterator[str]:
    """What a call does that reads or writes pickles."""
    if getattr(call.func, "attr", "") in PICKLE_NAMES:  # to unparse all calls takes seconds
        name = ast.unparse(call.func)
        if name in PICKLE_CALLS and not _refuses_pickle(call):
            yield f"calls {name}"
    for keyword in call.keywords:
        if keyword.arg == "allow_pickle" and ast.unparse(keyword.value) != "False":
            yield "allows pickle"


def imports(path: Path, *, with_names: bool = False) -> Iterator[tuple[str, int]]:
    """Full names of the modules that a file imports, with the line; with_names: and of what it takes from each."""
    for module, line, names in read(path).imported:
        yield module, line
        if with_names:
            yield from ((f"{module}.{name}", line) for name in names)


def place(path: Path, line: int) -> str:
    return f"{path.relative_to(TOP)}:{line}"


@pytest.mark.parametrize("package", sorted(FORBIDDEN))
def test_imports_point_downwards(package: str) -> None:
    wrong = [
        f"{place(path, line)} imports {module}"
        for path in SOURCES
        if path.relative_to(TOP).parts[0] == package
        for module, line in imports(path)
        if module.partition(".")[0] in FORBIDDEN[package]
    ]
    assert not wrong, "\n".join(wrong)


def floor(module: str) -> int:
    """The number of the room that a module or a name of realm_core is in."""
    first = module.split(".")[1] if "." in module else ""
    return FLOORS.index(first) if first in FLOORS else FLOORS.index("")


def test_floors_of_realm_core_are_straight() -> None:
    assert {path.name for path in (TOP / "realm_core").iterdir() if (path / "__init__.py").exists()} < set(FLOORS)
    upwards = [
        f"{place(path, line)} imports {name}"
        for path in SOURCES
        if path.relative_to(TOP).parts[0] == "realm_core"
        for name, line in imports(path, with_names=True)
        if name.partition(".")[0] == "realm_core"
        and floor(name) > floor(".".join(path.relative_to(TOP).with_suffix("").parts))
    ]
    assert not upwards, "\n".join(upwards)


class Drawing(NamedTuple):
    """docs/images/rooms.svg. boxes: each part of the code and its box. arrows: between boxes, without the dashed one
    for a subprocess. upwards: arrows that do not point down all the way. description: what a screen reader says.
    """

    boxes: dict[str, str]
    arrows: set[tuple[str, str]]
    upwards: list[str]
    description: str


def drawing() -> Drawing:
    svg = "{http://www.w3.org/2000/svg}"
    root = ElementTree.parse(TOP / "docs" / "images" / "rooms.svg").getroot()
    names = [text for text in root.iter(f"{svg}text") if "name" in text.attrib["class"].split()]
    rects = [rect for rect in root.iter(f"{svg}rect") if "box" in rect.attrib["class"].split()]
    height = 54  # of every box, with the few pixels between it and an arrow
    places = {}
    for name, rect in zip(names, rects, strict=True):  # each box is followed by its name
        left, width, top = (float(rect.attrib[side]) for side in ("x", "width", "y"))
        places[str(name.text)] = (left, left + width, top)
    boxes = {part.strip("/ ").removesuffix(".py"): name for name in places for part in name.split(",")}
    boxes[""] = boxes.pop("beside the rooms")
    arrows, upwards = set(), []
    for path in root.iter(f"{svg}path"):
        if path.attrib["class"] != "arrow":
            continue
        points = [(float(x), float(y)) for x, y in re.findall(r"[ML](\d+) (\d+)", path.attrib["d"])]
        if any(lower <= upper for (_, upper), (_, lower) in pairwise(points)):
            upwards.append(path.attrib["d"])
        first, last = (
            next(name for name, (left, right, top) in places.items() if left <= x <= right and -4 <= y - top <= height)
            for x, y in (points[0], points[-1])
        )
        if "stroke-dasharray" not in path.attrib:
            arrows.add((first, last))
    return Drawing(boxes, arrows, upwards, str(root.findtext(f"{svg}desc")))


def part_of(module: str) -> str | None:
    """What a module or name is in, as the drawing has it: a room, or webapp or workers."""
    package = module.partition(".")[0]
    if package == "realm_core":
        return FLOORS[floor(module)]
    return package if package in ("webapp", "workers") else None


def test_the_drawing_of_the_rooms_has_the_arrows_of_the_imports() -> None:
    """Each import between two boxes that does not follow from others, and no more."""
    boxes, arrows, upwards, description = drawing()
    assert boxes.keys() == {*FLOORS, "webapp", "workers"} and not upwards
    imported: dict[str, set[str]] = {box: set() for box in boxes.values()}
    for path in SOURCES:
        importing = part_of(".".join(path.relative_to(TOP).with_suffix("").parts))
        if importing is not None:
            found = {part for name, _ in imports(path, with_names=True) if (part := part_of(name)) is not None}
            imported[boxes[importing]] |= {boxes[part] for part in found} - {boxes[importing]}

    @cache
    def reached(box: str) -> frozenset[str]:
        return frozenset(imported[box]).union(*map(reached, imported[box]))

    expected = {
        (box, other)
        for box, others in imported.items()
        for other in others
        if not any(other in reached(between) for between in others)
    }
    assert arrows == expected
    for box, other in arrows - {(box, boxes[""]) for box in imported}:
        names = [name.partition(",")[0].strip("/") for name in (box, other)]
        assert re.search(rf"\b{names[0]} imports (\S+ and )?{names[1]}( and \S+)?\.( |$)", description), names


def unnamed_in_child_processes(names: set[str]) -> list[str]:
    """Those that this chapter of the architecture does not name."""
    text = (TOP / "docs" / "architecture.md").read_text(encoding="utf-8")
    chapter = text.split("### Child processes\n")[1].split("\n## ")[0]
    return [name for name in sorted(names) if f"`{name}`" not in chapter]


def test_the_architecture_names_every_module_that_may_start_a_process() -> None:
    starting = {
        path.relative_to(TOP).as_posix().removeprefix("realm_core/")
        for path in SOURCES
        if path.relative_to(TOP).parts[0] in ("realm_core", "webapp", "workers")
        if path.parent != TOP / "realm_core" / "runs"
        if any(module == "subprocess" for module, _ in imports(path))
    }
    assert starting and not unnamed_in_child_processes(starting)


def test_the_architecture_names_every_file_that_a_worker_adds_to_a_run_folder() -> None:
    files = {
        name.replace("{number}", "0")
        for path in (TOP / "workers").glob("*.py")
        for name in re.findall(r'(?:run_dir|folder\.path) / f?"([^"]+)"', path.read_text(encoding="utf-8"))
    }
    assert files and not unnamed_in_child_processes(files)


def imports_of_room(room: str) -> Iterator[tuple[str, str]]:
    """Each other part of webapp that a module or package of it imports, with the place."""
    for path in SOURCES:
        parts = path.relative_to(TOP).with_suffix("").parts
        if parts[:2] != ("webapp", room):
            continue
        for name, line in imports(path, with_names=True):
            first, *rest = name.split(".")
            if first == "webapp" and rest and rest[0] != room:
                yield rest[0], f"{place(path, line)} imports {name}"


def test_subjects_of_webapp_import_what_is_allowed() -> None:
    before: set[str] = set()
    for subject, others in SUBJECTS.items():
        assert others <= before, f"{subject} imports what stands behind it"
        before.add(subject)
        imported = {room for room, _ in imports_of_room(subject)} - set(SHARED)
        assert imported == others, "\n".join(where for room, where in imports_of_room(subject) if room not in others)


def test_what_subjects_of_webapp_share_imports_no_subject() -> None:
    for number, room in enumerate(SHARED):
        wrong = [where for other, where in imports_of_room(room) if other not in SHARED[:number]]
        assert not wrong, "\n".join(wrong)


def test_every_package_of_webapp_is_a_subject_or_shared() -> None:
    packages = {path.parent.name for path in (TOP / "webapp").glob("*/__init__.py")}
    assert packages - {"admin", "management", "migrations"} == (SUBJECTS.keys() | set(SHARED)) & packages
    assert packages >= SUBJECTS.keys()


@pytest.mark.parametrize(
    ("program", "forbidden"),
    [
        (
            "import workers.app, workers.tasks, workers.executions, workers.supervisor\n"
            "import importlib, pkgutil, django; django.setup(); import webapp\n"
            "from django.contrib import admin; admin.autodiscover()\n"
            "for module in pkgutil.walk_packages(webapp.__path__, 'webapp.'): importlib.import_module(module.name)",
            {"safetensors", *HEAVY},
        ),
        (
            "import importlib, pkgutil, sys, realm_core.selfcheck.command\n"
            "assert not {'pyarrow', 'faiss'} & sys.modules.keys(), 'of the self-check, which needs neither'\n"
            "for module in pkgutil.walk_packages(realm_core.__path__, 'realm_core.'):\n"
            "    if not module.name.endswith('__main__'): importlib.import_module(module.name)\n"
            "from pathlib import Path\n"
            "from realm_core.model.checkpoint import load_model\n"
            "load_model(Path('models/realm-mini'))",
            {"django", "celery", "webapp", "workers", *SLOW},
        ),
    ],
    ids=["webapp and workers", "realm_core, and loading a model"],
)
def test_what_an_import_loads(program: str, forbidden: set[str]) -> None:
    """Proved in a process of its own, because everything is loaded here already."""
    report = f"import sys\n{program}\nprint(*sorted({forbidden!r} & set(sys.modules)))"
    done = subprocess.run([sys.executable, "-c", report], cwd=TOP, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stdout.split() == []


def test_no_pickle() -> None:
    wrong = []
    for path in SOURCES:
        for module, line in imports(path):
            if module.partition(".")[0] in PICKLE_MODULES:
                wrong.append(f"{place(path, line)} imports {module}")
        wrong += [f"{place(path, line)} {what}" for line, what in read(path).unpickling]
    assert not wrong, "\n".join(wrong)


def _refuses_pickle(call: ast.Call) -> bool:
    """numpy's functions say so by an argument; torch's have no such word that would hold for what they write."""
    return any(word.arg == "allow_pickle" and ast.unparse(word.value) == "False" for word in call.keywords)


def test_files_are_short_enough_to_read() -> None:
    long = [
        f"{path.relative_to(TOP)} has {lines} lines"
        for path in SOURCES
        if path.parent.name != "migrations"  # written by Django
        if (lines := read(path).lines) > LONGEST_FILE
    ]
    assert not long, "\n".join(long)


def test_a_public_name_of_a_class_or_type_is_given_once() -> None:
    places: dict[str, list[str]] = {}
    for path in SOURCES:
        if path.relative_to(TOP).parts[0] in NAMED:
            for name, line in read(path).classes:
                if not name.startswith("_") and name not in NAMED_BY_DJANGO:
                    places.setdefault(name, []).append(place(path, line))
    twice = [f"{name}: {', '.join(where)}" for name, where in places.items() if len(where) > 1]
    assert not twice, "\n".join(twice)


def test_nothing_lies_loose_at_the_top() -> None:
    loose = {path.name for path in TOP.iterdir() if path.is_file() and not path.name.startswith(".")}
    texts = {"README.md", "CHANGELOG.md", "CONTRIBUTING.md", "SECURITY.md", "LICENSE", "constraints.txt"}
    assert loose <= texts | {"Dockerfile", "Makefile", "compose.yaml", "manage.py", "pyproject.toml"}


def test_every_module_says_what_it_is() -> None:
    silent = [
        str(path.relative_to(TOP))
        for path in SOURCES
        if read(path).lines and "migrations" not in path.parts and read(path).docstring is None
    ]
    assert not silent, "\n".join(silent)
