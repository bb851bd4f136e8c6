"""Haystack's extractive reader behind gunicorn, for `benchmarks.load`; runs under benchmarks/.venv-peers.

PEER_READER names the folder with its weights, PEER_READINGS a JSON file: each question with the texts of its blocks, so
that retrieval costs it nothing. Answers POST with {"question": …} by the answers that it finds.
"""

from __future__ import annotations

import json
import os
import threading
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import torch
from haystack import Document
from haystack.utils import ComponentDevice
from haystack_integrations.components.readers.transformers import TransformersExtractiveReader

torch.set_num_threads(int(os.environ["OMP_NUM_THREADS"]))
_reader = TransformersExtractiveReader(
    model=os.environ["PEER_READER"],
    device=ComponentDevice.from_str("cpu"),
    token=None,
    model_kwargs={"dtype": os.environ["PEER_DTYPE"]},
)
_reader.warm_up()
_documents = {
    question: [Document(content=text) for text in texts]
    for question, texts in json.loads(Path(os.environ["PEER_READINGS"]).read_text(encoding="utf-8")).items()
}
_one_at_a_time = threading.Lock()  # its tokenizer refuses to be used by two threads ("Already borrowed")


def application(environ: dict[str, Any], start_response: Callable[..., Any]) -> Iterable[bytes]:
    """Answer one request."""
    if environ["REQUEST_METHOD"] == "POST":
        question = json.loads(environ["wsgi.input"].read(int(environ["CONTENT_LENGTH"])))["question"]
        with _one_at_a_time:
            answers = _reader.run(query=question, documents=_documents[question])["answers"]
        body = json.dumps([{"answer": answer.data, "score": answer.score} for answer in answers]).encode()
        start_response("201 Created", [("Content-Type", "application/json"), ("Content-Length", str(len(body)))])
        return [body]
    start_response("200 OK", [("Content-Length", "0")])
    return [b""]
