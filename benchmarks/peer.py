"""The other side of the comparison, in its own virtual environment: sentence-transformers and Haystack.

Reads one request a line on standard input, {"do": NAME, …}, and answers each with one JSON line. Only the work that
is compared stands between the two clock readings; neither reading requests nor writing answers does. It is given
texts once and then only told to work on them again, so that a round costs the pipe nothing.

This file runs under benchmarks/.venv-peers and imports nothing of the project.
"""

from __future__ import annotations

import importlib.metadata
import json
import os
import sys
import time
from typing import Any

import torch

_PACKAGES = ("torch", "transformers", "tokenizers", "sentence-transformers", "haystack-ai", "transformers-haystack")


class Peer:
    """One method a request; its keyword arguments are the request's other keys, its result the answer."""

    def __init__(self) -> None:
        self._encoders: dict[str, Any] = {}
        self._readers: dict[str, Any] = {}
        self._texts: list[str] = []
        self._readings: list[tuple[str, list[Any]]] = []

    def start(self, threads: int) -> dict[str, str]:
        """Use `threads` threads; returns the versions of what is measured."""
        torch.set_num_threads(threads)
        return {package: importlib.metadata.version(package) for package in _PACKAGES}

    def load_encoder(self, name: str, folder: str, dtype: str, max_wordpieces: int) -> None:
        """A SentenceTransformer from `folder`; texts are cut to `max_wordpieces`."""
        from sentence_transformers import SentenceTransformer

        encoder = SentenceTransformer(folder, device="cpu", local_files_only=True, model_kwargs={"dtype": dtype})
        encoder.max_seq_length = max_wordpieces
        self._encoders[name] = encoder

    def give_texts(self, texts: list[str]) -> None:
        """The texts that `encode` works on."""
        self._texts = texts

    def wordpieces(self, name: str) -> list[int]:
        """How many wordpieces each text has as the encoder sees it, special ones counted."""
        tokenizer, limit = self._encoders[name].tokenizer, self._encoders[name].max_seq_length
        return [len(ids) for ids in tokenizer(self._texts, truncation=True, max_length=limit)["input_ids"]]

    def encode(self, name: str, first: int) -> float:
        """Seconds that `encode` takes for the first texts, with its defaults."""
        texts = self._texts[:first]
        started_at = time.perf_counter()
        self._encoders[name].encode(texts)
        return time.perf_counter() - started_at

    def vectors(self, name: str, first: int) -> list[list[float]]:
        """The vectors of the first texts."""
        vectors: list[list[float]] = self._encoders[name].encode(self._texts[:first]).tolist()
        return vectors

    def load_reader(self, name: str, folder: str, dtype: str) -> None:
        """Haystack's reader with the weights in `folder`, everything else as it comes."""
        from haystack.utils import ComponentDevice
        from haystack_integrations.components.readers.transformers import TransformersExtractiveReader

        reader = TransformersExtractiveReader(
            model=folder, device=ComponentDevice.from_str("cpu"), token=None, model_kwargs={"dtype": dtype}
        )
        reader.warm_up()
        self._readers[name] = reader

    def give_readings(self, readings: list[dict[str, Any]]) -> None:
        """Questions, each with the texts of its blocks."""
        from haystack import Document

        self._readings = [
            (reading["question"], [Document(content=text) for text in reading["texts"]]) for reading in readings
        ]

    def reading_wordpieces(self, name: str) -> list[int]:
        """Wordpieces of all pairs of each question, padding not counted."""
        tokenizer = self._readers[name].tokenizer
        return [
            sum(len(tokenizer(question, document.content)["input_ids"]) for document in documents)
            for question, documents in self._readings
        ]

    def read(self, name: str, first: int) -> list[float]:
        """Milliseconds of each of the first questions."""
        reader, times_ms = self._readers[name], []
        for question, documents in self._readings[:first]:
            started_at = time.perf_counter()
            reader.run(query=question, documents=documents)
            times_ms.append((time.perf_counter() - started_at) * 1e3)
        return times_ms


def main() -> None:
    """Answer until standard input ends."""
    # Libraries print now and then; whatever they print must not land between the answers.
    answers = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)
    peer = Peer()
    for line in sys.stdin:
        request = json.loads(line)
        result = getattr(peer, request.pop("do"))(**request)
        print(json.dumps(result), file=answers, flush=True)


if __name__ == "__main__":
    main()
