"""The readers of files from elsewhere, each as a function of a file's bytes.

A reader may refuse whatever it likes, by `RealmError` and by nothing else; it may not hang, and may not take memory
that a few bytes merely ask for. Where a manifest has checksums, these are made to fit: whoever writes hostile files can
do so, too, and chance alone would never get past them.
"""

from __future__ import annotations

import hashlib
import json
import logging
import shutil
import zipfile
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from dataclasses import asdict, dataclass
from datetime import date
from pathlib import Path
from typing import Any

from realm_core.command_line import read_settings
from realm_core.corpus.cleaning import article_of
from realm_core.corpus.mediawiki import MediaWikiSource
from realm_core.corpus.rows import JsonLinesSource, ParquetSource
from realm_core.corpus.sources import ArticleSource
from realm_core.corpus.store import Snapshot
from realm_core.corpus.tokens import open_tokens
from realm_core.corpus.wikitext import to_prose
from realm_core.corpus.work import WorkFolder
from realm_core.documents import docx, html, markdown, pdf  # noqa: F401, readers are imported late otherwise
from realm_core.documents.readers import read_file
from realm_core.documents.records import Limits, from_json, to_json
from realm_core.errors import RealmError
from realm_core.evaluation.predictions import PredictionFile, read_header, read_predictions
from realm_core.index.generation import Generation
from realm_core.model.checkpoint import load_model
from realm_core.model.identity import read_hashes
from realm_core.model.released import import_released
from realm_core.model.torch_file import read_torch_file
from realm_core.questions.formats import FORMATS, read_published
from realm_core.questions.question_file import read_questions
from realm_core.runs.activity import Activity
from realm_core.salient.cache import SalientSpans
from realm_core.tensors import load_tensors
from realm_core.training.ablation import AblationConfig
from realm_core.training.config import PretrainConfig
from tests.core.documents.files import with_member
from tests.fuzz import seeds
from tests.fuzz.seeds import Scene

_DOCUMENT_LIMITS = Limits(unpacked_bytes=32 << 20, pages=50, characters=2_000_000)


@dataclass(frozen=True)
class Target:
    """One reader.

    read:   reads a file of these bytes whole; raises RealmError for what it refuses.
    seeds:  valid files, from which hostile ones are made.
    kind:   their form, of `damage.KINDS`.
    """

    name: str
    read: Callable[[bytes], object]
    seeds: tuple[bytes, ...]
    kind: str

    def survives(self, content: bytes) -> bool:
        """Whether the reader takes the file; False if it refuses it in a sentence."""
        try:
            self.read(content)
        except RealmError as error:
            sentence = str(error)
            assert sentence.strip() and len(sentence) < 5000, f"{self.name}: {sentence[:200]!r}"
            sentence.encode()  # can be printed, sent and kept
            return False
        return True


def targets(scene: Scene) -> dict[str, Target]:
    """All of them by name."""
    made = [*_texts(scene), *_documents(scene), *_snapshots(scene), *_models(scene), *_questions(scene), _backup(scene)]
    return {target.name: target for target in made}


def _texts(scene: Scene) -> Iterator[Target]:
    def prose(content: bytes) -> None:
        text, sections, links = to_prose(content.decode("utf-8", "surrogateescape"))
        places = [section.start for section in sections]
        assert places == sorted(places) and all(0 <= place < len(text) for place in places)
        assert all(0 <= start < end <= len(text) for start, end in links)

    plain = scene.folder("texts")
    yield Target("wikitext", prose, seeds.WIKITEXTS, "text")
    yield Target("dump", _file(plain / "d.xml", lambda path: _articles(MediaWikiSource(path))), seeds.dumps(), "text")
    yield Target(
        "jsonl", _file(plain / "r.jsonl", lambda path: _described(JsonLinesSource(path))), seeds.rows(), "lines"
    )
    yield Target(
        "parquet", _file(plain / "r.parquet", lambda path: _described(ParquetSource(path))), seeds.tables(), "bytes"
    )
    yield Target("toml", _file(plain / "c.toml", lambda path: read_settings(PretrainConfig, path)), seeds.TOMLS, "text")
    yield Target(
        "ablation", _file(plain / "a.toml", lambda path: read_settings(AblationConfig, path)), seeds.ABLATIONS, "text"
    )


def _documents(scene: Scene) -> Iterator[Target]:
    """Of files that are one document each. In an upload's process any error becomes a sentence; here it counts."""
    plain = scene.folder("documents")
    logging.getLogger("trafilatura").setLevel(logging.CRITICAL)  # a line for every page without text

    def reader(name: str) -> Callable[[bytes], None]:
        return _file(plain / name, lambda path: _document(path, name))

    for kind, name, form in (
        ("pdf", "d.pdf", "bytes"),
        ("docx", "d.docx", "bytes"),
        ("html", "d.html", "text"),
        ("markdown", "d.md", "text"),
        ("csv", "d.csv", "text"),
        ("text", "d.txt", "text"),
    ):
        yield Target(f"document-{kind}", reader(name), seeds.documents()[kind], form)

    (archive, *_), of_archive = seeds.documents()["docx"], reader("body.docx")
    # Chance alone would never make a changed part that is packed, with its checksum.
    for part in ("document", "styles"):
        member = f"word/{part}.xml"
        read = lambda content, member=member: of_archive(with_member(archive, member, content))  # noqa: E731
        yield Target(f"document-docx-{part}", read, (seeds.member(archive, member),), "text")


def _document(path: Path, name: str) -> None:
    for document in read_file(path, name, None, _DOCUMENT_LIMITS, only_one=True):
        assert document.title.strip() and document.sections
        assert all(section.text.strip() for section in document.sections)
        assert from_json(to_json([document]).encode()) == [document]


def _snapshots(scene: Scene) -> Iterator[Target]:
    def everything(folder: Path) -> None:
        snapshot = Snapshot.open(folder)
        snapshot.verify()
        for row in range(len(snapshot)):
            block = snapshot.block(row)
            snapshot.row_of(block.block_id)
            snapshot.links(row)
        for row in range(snapshot.articles):
            snapshot.blocks_of_article(row)
        snapshot.titles_texts(0, len(snapshot))

    corpus = scene.copy("corpus", scene.corpus)
    yield _of_folder("manifest", corpus, "manifest.json", everything, "json")
    for name in ("blocks.arrow", "articles.arrow", "block_prefixes.npy", "block_rows.npy"):
        yield _of_folder(name, scene.copy(name, scene.corpus), name, everything, "bytes", _fit_corpus)

    snapshot, quiet = Snapshot.open(scene.corpus), Activity(quiet=True)
    for name in ("titles.npy", "title_starts.npy", "text_hashes.npy", "manifest.json"):
        tokens = scene.copy(f"tokens-{name}", scene.tokens)
        read = lambda folder: open_tokens(snapshot, quiet, folder)  # noqa: E731
        yield _of_folder(f"tokens-{name}", tokens, name, read, "json" if name.endswith("json") else "bytes")
    for name in ("identity.json", "manifest.json", "spans-00000.npy", "labels-00000.npy"):
        spans = scene.copy(f"spans-{name}", scene.spans)
        read = lambda folder: SalientSpans.open(folder, snapshot)  # noqa: E731
        kind = "json" if name.endswith("json") else "bytes"
        yield _of_folder(f"spans-{name}", spans, name, read, kind, _fit_spans)

    def resume(folder: Path) -> None:
        with WorkFolder(folder.parent, "unfinished", "the same"):
            pass

    work = scene.folder("work") / ".unfinished.partial"
    work.mkdir()
    (work / "journal.json").write_bytes(seeds.JOURNAL)
    yield _of_folder("journal", work, "journal.json", resume, "json")


def _models(scene: Scene) -> Iterator[Target]:
    def model(folder: Path) -> None:
        with suppress(RealmError):
            read_hashes(folder)
        load_model(folder)

    plain = scene.folder("tensors")
    weights = (scene.model / "model.safetensors").read_bytes()
    yield Target("safetensors", _file(plain / "x.safetensors", load_tensors), (weights,), "tensors")
    yield _of_folder("model-config", scene.copy("model-config", scene.model), "config.json", model, "json")
    yield _of_folder("model", scene.copy("model", scene.model), "model.safetensors", model, "tensors", _fit_model)
    index = scene.copy("index", scene.index)
    yield _of_folder("index", index, "manifest.json", Generation.open, "json")
    vectors = scene.copy("vectors", scene.index)
    yield _of_folder("vectors", vectors, "vectors-00000.safetensors", Generation.open, "tensors", _fit_index)
    released = scene.copy("released", scene.released)
    yield _of_folder("released", released, "config.json", import_released, "json")

    def table(content: bytes) -> None:
        path = plain / "table.bin"
        with zipfile.ZipFile(path, "w") as archive:
            archive.writestr("archive/data.pkl", content)
            archive.writestr("archive/data/0", bytes(64))
        read_torch_file(path)

    yield Target("torch", _file(plain / "x.bin", read_torch_file), (seeds.torch_file(),), "bytes")
    yield Target("torch-table", table, (seeds.TORCH_TABLE,), "bytes")


def _questions(scene: Scene) -> Iterator[Target]:
    plain = scene.folder("questions")
    yield Target("questions", _file(plain / "q.jsonl", read_questions), (seeds.QUESTIONS,), "lines")
    for name in FORMATS:
        read = lambda path, name=name: read_published(path, name)  # noqa: E731
        kind = "text" if name in ("trec", "dpr", "tsv") else "lines"
        yield Target(f"questions-{name}", _file(plain / f"{name}.txt", read), (seeds.PUBLISHED[name],), kind)

    def predictions(path: Path) -> None:
        with suppress(RealmError):
            for one in read_predictions(path):
                json.dumps(one.question)
        with PredictionFile(path, read_header(path)):
            pass

    yield Target("predictions", _file(plain / "predictions.jsonl", predictions), (seeds.PREDICTIONS,), "lines")


def _backup(scene: Scene) -> Target:
    from webapp.operations.backups import unpack

    place, outside = scene.folder("backup") / "inner" / "unpacked", scene.folder("outside")

    def read(path: Path) -> None:
        shutil.rmtree(place, ignore_errors=True)
        place.mkdir(parents=True)
        try:
            unpack(path, place)
        finally:
            assert [one.name for one in place.parent.iterdir()] == ["unpacked"], "something was written beside"

    return Target("backup", _file(outside / "backup.tar", read), (seeds.backup(),), "bytes")


def _described(source: JsonLinesSource | ParquetSource) -> None:
    """As ingesting and uploads read it."""
    with suppress(RealmError):
        _articles(source)
    for stated in (raw.stated for raw in source.articles(0)):
        json.dumps(asdict(stated), ensure_ascii=False).encode()
        assert not stated.date or date.fromisoformat(stated.date)


def _articles(source: ArticleSource) -> None:
    source.fingerprint()
    for raw in source.articles(0):
        cleaned = article_of(raw)
        if cleaned is not None:
            article, links = cleaned
            "".join((article.id, article.title, article.url, article.text)).encode()
            assert all(0 <= start < end <= len(article.text) for start, end in links)


def _file(path: Path, read: Callable[[Path], object]) -> Callable[[bytes], None]:
    """A reader of one file, as a function of its bytes."""

    def run(content: bytes) -> None:
        path.unlink(missing_ok=True)  # rather than written over: another may still have it mapped
        path.write_bytes(content)
        result = read(path)
        if isinstance(result, Iterator):
            for _ in result:
                pass

    return run


def _of_folder(
    name: str,
    folder: Path,
    file: str,
    read: Callable[[Path], object],
    kind: str,
    fit: Callable[[Path], None] | None = None,
) -> Target:
    """A reader of a folder of which one file is hostile. fit: makes the manifest's checksums those of the files."""

    def run(path: Path) -> None:
        if fit is not None:
            fit(folder)
        read(folder)

    return Target(name, _file(folder / file, run), ((folder / file).read_bytes(),), kind)


def _changed(path: Path, change: Callable[[Any], object]) -> None:
    """Change the value of a JSON file, if it has one that can be changed so."""
    with suppress(ValueError, TypeError, KeyError, AttributeError, IndexError, RecursionError):
        value = json.loads(path.read_bytes())
        change(value)
        path.write_text(json.dumps(value))


def _sha256(paths: Iterable[Path]) -> list[str]:
    return [hashlib.sha256(path.read_bytes()).hexdigest() for path in paths]


def _fit_corpus(folder: Path) -> None:
    def change(manifest: Any) -> None:
        for name in manifest["files"]:
            (manifest["files"][name],) = _sha256([folder / name])

    _changed(folder / "manifest.json", change)


def _fit_spans(folder: Path) -> None:
    files = _sha256([folder / "spans-00000.npy", folder / "labels-00000.npy"])
    _changed(folder / "manifest.json", lambda manifest: manifest.update(files=[files]))


def _fit_model(folder: Path) -> None:
    (weights,) = _sha256([folder / "model.safetensors"])
    _changed(folder / "config.json", lambda record: record.update(weights_sha256=weights))


def _fit_index(folder: Path) -> None:
    (vectors,) = _sha256([folder / "vectors-00000.safetensors"])
    _changed(folder / "manifest.json", lambda manifest: manifest["shards"][0].update(sha256=vectors))
