"""Files that something cut off or changed a bit of are noticed when they are loaded, each by its name."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from realm_core.corpus.tables import ARTICLES_FILE
from realm_core.errors import RealmError
from realm_core.files import read_json, write_json
from realm_core.serving.engine import Engine
from tests.core.conftest import Deployment
from tests.core.running import activity_of

FILES = (
    *(("model", name) for name in ("model.safetensors", "config.json")),
    *(("index", name) for name in ("vectors-00000.safetensors", "manifest.json")),
    *(
        ("corpus", name)
        for name in ("blocks.arrow", "articles.arrow", "block_prefixes.npy", "block_rows.npy", "manifest.json")
    ),
)


def cut_off(path: Path) -> None:
    with open(path, "r+b") as file:
        file.truncate(path.stat().st_size // 2)


def flip_a_bit(path: Path) -> None:
    content = bytearray(path.read_bytes())
    content[len(content) * 2 // 3] ^= 0x04
    path.write_bytes(content)


@pytest.fixture
def copy(deployment: Deployment, tmp_path: Path) -> dict[str, Path]:
    folders = {"model": deployment.model, "index": deployment.index, "corpus": deployment.corpus}
    for name, folder in folders.items():
        shutil.copytree(folder, tmp_path / name)
    return {name: tmp_path / name for name in folders}


def load(folders: dict[str, Path]) -> Engine:
    return Engine.load(folders["model"], folders["index"], folders["corpus"], device="cpu")


def test_every_file_is_tried(copy: dict[str, Path]) -> None:
    """Those above are all that manifests name; and undamaged copies load."""
    named = {("model", "model.safetensors"), ("model", "config.json"), ("index", "manifest.json")}
    named |= {("index", shard["file"]) for shard in read_json(copy["index"] / "manifest.json")["shards"]}
    named |= {("corpus", name) for name in (*read_json(copy["corpus"] / "manifest.json")["files"], "manifest.json")}
    assert named == set(FILES)
    engine = load(copy)
    assert len(engine.ask("Who?").evidence) == 5
    engine.close()


@pytest.mark.parametrize("damage", [cut_off, flip_a_bit])
@pytest.mark.parametrize(("part", "name"), [pair for pair in FILES if not pair[1].endswith(".json")])
def test_damaged_files_are_not_loaded(
    copy: dict[str, Path], part: str, name: str, damage: Callable[[Path], None]
) -> None:
    damage(copy[part] / name)
    with pytest.raises(RealmError, match=name.replace(".", r"\.")):
        load(copy)


@pytest.mark.parametrize(("part", "name"), [pair for pair in FILES if pair[1].endswith(".json")])
def test_a_manifest_that_was_cut_off_is_not_read(copy: dict[str, Path], part: str, name: str) -> None:
    cut_off(copy[part] / name)
    with pytest.raises(RealmError, match=name.replace(".", r"\.")):
        load(copy)


@pytest.mark.parametrize(("part", "name"), [pair for pair in FILES if pair[1].endswith(".json")])
def test_no_bit_of_a_manifest_can_be_flipped(copy: dict[str, Path], part: str, name: str) -> None:
    """A letter of a name would go into every answer's provenance. Where nothing is noticed, nothing is different."""
    path = copy[part] / name
    content, told = path.read_bytes(), read_json(path)
    noticed = 0
    for at in range(len(content)):
        path.write_bytes(content[:at] + bytes([content[at] ^ 1 << at % 8]) + content[at + 1 :])
        try:
            found = read_json(path)
        except RealmError as error:
            assert str(path) in str(error)
            noticed += 1
        else:  # the letters of a number or of the seal's own key
            assert found.items() >= told.items()
    assert noticed >= len(content) - len("checksum")
    path.write_bytes(content.replace(b'"format": 1', b'"format":  1', 1))
    assert read_json(path) == told  # laid out differently, it says the same


def test_a_flipped_letter_is_not_loaded(copy: dict[str, Path]) -> None:
    path = copy["corpus"] / "manifest.json"
    name = read_json(path)["name"]
    path.write_text(path.read_text(encoding="utf-8").replace(f'"{name}"', f'"{name[:-1]}~"'), encoding="utf-8")
    with pytest.raises(RealmError, match=r"manifest\.json is damaged: its checksum is not that of its content"):
        load(copy)


@pytest.mark.parametrize(
    ("part", "name", "key"),
    [
        ("model", "config.json", "weights_sha256"),
        ("index", "manifest.json", "sha256"),
        ("corpus", "manifest.json", "blocks.arrow"),
    ],
)
def test_a_manifest_of_other_checksums_is_not_believed(copy: dict[str, Path], part: str, name: str, key: str) -> None:
    path = copy[part] / name
    write_json(path, read_json(path))  # without its seal, as before there were any
    text = path.read_text(encoding="utf-8")
    at = text.index(f'"{key}": "') + len(key) + 5
    path.write_text(text[:at] + ("0" if text[at] != "0" else "1") + text[at + 1 :], encoding="utf-8")
    with pytest.raises(RealmError, match=r"checksum"):
        load(copy)


@pytest.mark.parametrize(
    ("activity", "given"),
    [
        ("index", "model corpus"),
        ("spans", "corpus"),
        ("count-wordpieces", "corpus"),
        ("warmstart", "corpus"),
        ("ict", "model corpus"),
        ("mlm", "model corpus"),
        ("pretrain", "model index corpus spans"),
        ("finetune", "model index corpus questions"),
        ("mine", "model index corpus questions"),
        ("train-retriever", "model index questions"),
        ("ablate", "model corpus spans questions dev"),
        ("calibrate", "model index corpus questions unanswerable"),
        ("evaluate", "model index corpus questions"),
    ],
)
def test_nothing_is_made_of_a_damaged_corpus(copy: dict[str, Path], tmp_path: Path, activity: str, given: str) -> None:
    """One letter of a text is another: every length and offset is as it was."""
    questions = tmp_path / "questions.jsonl"
    questions.write_text('{"question": "What is the capital of Bhutan?", "answers": ["Thimphu"]}\n')
    unanswerable = tmp_path / "unanswerable.jsonl"
    unanswerable.write_text('{"question": "Who am I?", "answers": []}\n')
    corpus = tmp_path / "corpora" / "tiny" / read_json(copy["corpus"] / "manifest.json")["snapshot_id"]
    corpus.parent.mkdir(parents=True)
    copy["corpus"].rename(corpus)
    path = corpus / ARTICLES_FILE
    path.write_bytes(path.read_bytes().replace(b"Thimphu", b"Thimpha"))
    folders = {**copy, "corpus": corpus, "spans": tmp_path / "spans"}
    folders |= {"questions": questions, "dev": questions, "unanswerable": unanswerable}
    arguments = [part for name in given.split() for part in (f"--{name}", folders[name])]
    output = tmp_path / "output"
    if activity != "evaluate":
        arguments += ["--output", output]
    with pytest.raises(RealmError, match=r"articles\.arrow is not the file that was published: its checksum differs"):
        activity_of(activity, arguments, run=tmp_path / "run")
    assert not output.exists() or not any(path for path in output.rglob("*") if path.is_file() and path.name != "lock")
