"""Valid files of every kind, small: what hostile ones are made from."""

from __future__ import annotations

import bz2
import gzip
import io
import json
import lzma
import shutil
import tarfile
import zipfile
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, Final

import docx
import pyarrow as pa
import pyarrow.parquet as pq
from safetensors.torch import save_file

from realm_core.corpus.store import Snapshot
from realm_core.corpus.tokens import open_tokens
from realm_core.files import read_json, write_json
from realm_core.index.build import build
from realm_core.model.checkpoint import new_model, save_model
from realm_core.model.config import ModelConfig
from realm_core.runs.activity import Activity
from realm_core.salient.extract import extract
from realm_core.salient.taggers import TaggerOptions
from tests.core.corpus.dumps import dump, page
from tests.core.documents.files import saved
from tests.core.documents.pdfs import column, pdf
from tests.tiny import tiny_snapshot

_ARCHITECTURE: Final = {
    "vocab_size": 30522,
    "hidden_size": 8,
    "num_hidden_layers": 1,
    "num_attention_heads": 2,
    "intermediate_size": 8,
    "hidden_act": "gelu_new",
    "max_position_embeddings": 32,
    "type_vocab_size": 2,
    "layer_norm_eps": 1e-12,
}
_RELEASED: Final = {"model_type": "realm", **_ARCHITECTURE, "retriever_proj_size": 8}

WIKITEXTS: Final = (
    b"'''Ada''' [[Lovelace|of Lovelace]]s was born {{circa|1815}} in [[London, England|]].<ref>A {{cite|b=c}}</ref>\n"
    b"{| class=x\n|-\n| cell || other\n|}\n== Life ==\n* One [http://a.org two] &amp; three\n"
    b":: ''For others, see [[Ada]]''\n"
    b"=== Work ===\n{{convert|5|ft|11|in}} <math>x+1</math> <nowiki>[[</nowiki> __TOC__\n== References ==\nNone.",
    "[[Fichier:a.jpg|vignette|Le [[Nil]]]] {{unité|12|km|2}} {{s|XIX|e}} <!-- rien --> {{lang-fr|l’eau}}".encode(),
)
_HTML: Final = (
    b"<!DOCTYPE html><html lang=en><head><meta charset=utf-8><title>Turku</title></head><body><nav><a href=/>Home</a>"
    b"</nav><article><h1>Turku</h1><p>A <b>city</b> in <a href=https://e.org>Finland</a>.<br>Old.</p>"
    b"<ul><li>castle<li>river</ul><table><tr><th>Year<th>Mayor<tr><td>2017<td>Arve</table><dl><dt>Founded<dd>1229</dl></article></body></html>",
    '<?xml version="1.0" encoding="latin-1"?><html><p>Åbo &amp; &#233; &nbsp;</p></html>'.encode("latin-1"),
)
_MARKDOWN: Final = (
    b"---\ntitle: Turku\nlang: en\n---\n# Turku\n\nA *city* in [Finland](https://e.org).\n\n- castle\n  1. old\n\n"
    b"| Year | Mayor |\n|---|---|\n| 2017 | Arve |\n\n> quoted\n\n```\ncode\n```\n\n<div>html</div>\n\nSights\n------",
)
TOMLS: Final = (b'seed = 3\nsteps = 10\nlearning_rate = 1e-4\nmasking = "span"\nrefresh = "never"\n',)
ABLATIONS: Final = (b'[ict]\nsteps = 5\n[pretrain]\nsteps = 1000\nrefresh = "in-loop"\n[evaluate]\nk = 3\n',)
JOURNAL: Final = (
    b'{"format": 2, "fingerprint": "the same", "complete": false, "parts": [{"number": 0, "position": 3, '
    b'"articles": 3, "blocks": 4}]}'
)
QUESTIONS: Final = (
    b'{"question": "Who?", "answers": ["Ada", "Lovelace"], "title": "Ada", "context": "It was Ada."}\n'
    b'{"question": "When?", "answers": ["18\\\\d\\\\d"], "answer_type": "regex"}\n'
)
PUBLISHED: Final = {
    "own": QUESTIONS,
    "nq": b'{"question": "who sang it", "answer": ["A", "B"]}\n',
    "webq": b'[{"utterance": "who?", "targetValue": "(list (description \\"A\\") (description B))"}]',
    "trec": b"7\tfactoid\tHow high is it?\t8,?848\n",
    "trivia": b'{"Data": [{"Question": "What?", "Answer": {"Value": "A", "Aliases": ["A", "B"]}}]}',
    "squad": b'{"data": [{"title": "Oil_crisis", "paragraphs": [{"context": "In 1973.", "qas": '
    b'[{"question": "When?", "answers": [{"text": "1973"}]}]}]}]}',
    "dpr": b"who sang it\t['A', \"B\"]\n",
    "tsv": b"who sang it\tA\tB\n",
}
PREDICTIONS: Final = (
    b'{"format": 1, "identity": {"model": "x"}, "model": "m", "questions": "q", "n": 1}\n'
    b'{"question": "Who?", "answers": ["A"], "answer_type": "string", "prediction": "A", "probability": 0.5, '
    b'"no_answer_probability": null, "given": true, "right": true, "answer_rank": 1, "blocks": ["T"], "ms": 2.5}\n'
)
# {"x": a tensor of one float32}, instruction by instruction as torch.save writes it.
TORCH_TABLE: Final = (
    b"\x80\x02ccollections\nOrderedDict\n)RX\x01\x00\x00\x00xctorch._utils\n_rebuild_tensor_v2\n"
    b"((X\x07\x00\x00\x00storagectorch\nFloatStorage\nX\x01\x00\x00\x000X\x03\x00\x00\x00cpuK\x01tQ"
    b"K\x00K\x01\x85K\x01\x85\x89ccollections\nOrderedDict\n)RtRs."
)
_ROWS: Final[list[dict[str, Any]]] = [
    {"id": f"i{n}", "title": f"Title {n}", "text": f"Text {n} is é.", "url": f"https://e.org/{n}"}
    | {"language": "en", "date": "2024-05-31", "tags": ["a", "b"], "licence": "CC0", "attribution": "Ada"}
    for n in range(3)
]


@dataclass(frozen=True)
class Scene:
    """Folders that fit together, made once below `root`."""

    root: Path
    corpus: Path
    tokens: Path
    spans: Path
    model: Path
    index: Path
    released: Path

    @classmethod
    def make(cls, root: Path) -> Scene:
        quiet = Activity(quiet=True)
        corpus, model, released = tiny_snapshot(root / "made"), root / "made" / "model", root / "made" / "released"
        open_tokens(Snapshot.open(corpus), quiet, root / "made" / "tokens")
        extract(corpus, root / "made" / "spans", quiet, TaggerOptions("dates"))
        made = new_model(ModelConfig(base=json.dumps(_ARCHITECTURE), dimension=8, span_hidden=8, block_wordpieces=32))
        save_model(made, model)
        index = build(model, corpus, root / "made" / "indexes", quiet, device="cpu")
        for sealed in (root / "made").rglob("*.json"):  # else nothing behind a seal would ever be reached
            write_json(sealed, read_json(sealed))
        released.mkdir()
        (released / "config.json").write_text(json.dumps(_RELEASED))
        save_file({"cls.dense.weight": made.block.dense.weight.detach().clone()}, released / "model.safetensors")
        return cls(root, corpus, root / "made" / "tokens", root / "made" / "spans", model, index, released)

    def folder(self, name: str) -> Path:
        """An empty folder for one target."""
        (self.root / "targets" / name).mkdir(parents=True)
        return self.root / "targets" / name

    def copy(self, name: str, source: Path) -> Path:
        """A copy of `source` in a folder of its own, for one target."""
        shutil.copytree(source, self.root / "targets" / name / source.name)
        return self.root / "targets" / name / source.name


def _packed(content: bytes) -> tuple[bytes, ...]:
    return content, bz2.compress(content), gzip.compress(content, mtime=0), lzma.compress(content)


def dumps() -> tuple[bytes, ...]:
    """A dump, plain and compressed in each way."""
    return _packed(dump(page("Ada", WIKITEXTS[0].decode()), page("Talk:Ada", "x", namespace=1), page("B", "#REDIRECT")))


def rows() -> tuple[bytes, ...]:
    """JSON lines, plain and compressed in each way."""
    return _packed("".join(json.dumps(row) + "\n" for row in _ROWS).encode())


def tables() -> tuple[bytes, ...]:
    """Parquet files, with and without dictionaries and compression."""
    made = []
    for compression, dictionary in (("none", False), ("zstd", True)):
        sink = io.BytesIO()
        pq.write_table(pa.Table.from_pylist(_ROWS), sink, compression=compression, use_dictionary=dictionary)
        made.append(sink.getvalue())
    return tuple(made)


@cache
def documents() -> dict[str, tuple[bytes, ...]]:
    """Files that are one document each, by kind."""
    lines = column(["Turku", "", "Turku is a city in Finland. It lies on the south-", "west coast.", "", "It is old."])
    made = docx.Document()
    made.core_properties.title = "Turku"
    made.add_heading("Turku", 1)
    made.add_paragraph("A city.")
    made.add_paragraph("a castle", style="List Bullet")
    made.add_table(2, 2).cell(0, 0).text = "Founded"
    return {
        "pdf": (
            pdf([lines, column(["Its castle."])], title="Turku", language="en", outline=[("Turku", 0), ("Castle", 1)]),
            pdf([lines], link="https://e.org/turku"),
        ),
        "docx": (saved(made),),
        "html": _HTML,
        "markdown": _MARKDOWN,
        "csv": (b'Year,Mayor,Said\n2017,Arve,"He said ""yes"",\nand no"\n', b"\xef\xbb\xbfYear;Mayor\r\n2017;\r\n"),
        "text": (
            "Turku\n=====\n\nA city.\n\n- old\n- large\n".encode("utf-16"),
            "Åbo är en stad.\n\fDen är gammal.".encode(),
        ),
    }


def member(archive: bytes, name: str) -> bytes:
    """A file of a zip archive."""
    with zipfile.ZipFile(io.BytesIO(archive)) as opened:
        return opened.read(name)


def torch_file() -> bytes:
    """A file as torch.save writes it."""
    sink = io.BytesIO()
    with zipfile.ZipFile(sink, "w") as archive:
        archive.writestr("archive/data.pkl", TORCH_TABLE)
        archive.writestr("archive/data/0", bytes(4))
    return sink.getvalue()


def backup() -> bytes:
    """A backup of no rows and one file."""
    files = {
        "about.json": b'{"migrations": ["0001_initial"], "paths": ["questions/a.jsonl", "secret_key"]}',
        "records.jsonl": b"",
        "data/questions/a.jsonl": QUESTIONS,
        "data/secret_key": b"x" * 50,
    }
    sink = io.BytesIO()
    with tarfile.open(fileobj=sink, mode="w") as archive:
        for name, content in files.items():
            member = tarfile.TarInfo(name)
            member.size = len(content)
            archive.addfile(member, io.BytesIO(content))
    return sink.getvalue()
