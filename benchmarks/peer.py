"""The other side of the comparison, in a virtual environment of its own: sentence-transformers and Haystack, or the
REALM that transformers once had.

Reads one request a line on standard input, {"do": NAME, …}, and answers each with one JSON line. Only the work that
is compared stands between the two clock readings; neither reading requests nor writing answers does. It is given
texts once and then only told to work on them again, so that a round costs the pipe nothing.

This file runs under benchmarks/.venv-peers or .venv-realm and imports nothing of the project.
"""

from __future__ import annotations

import importlib.metadata
import json
import os
import sys
import time
from typing import Any

import torch

_IGNORED = -100  # a label that costs nothing
Sequences = list[tuple[list[int], list[int]]]  # (ids, segments) of each


class Peer:
    """One method a request; its keyword arguments are the request's other keys, its result the answer."""

    def __init__(self) -> None:
        self._encoders: dict[str, Any] = {}
        self._readers: dict[str, Any] = {}
        self._texts: list[str] = []
        self._readings: list[tuple[str, list[Any]]] = []
        self._scorer: Any = None
        self._encoder: Any = None
        self._batches: list[tuple[dict[str, Any], dict[str, Any]]] = []

    def start(self, threads: int, packages: list[str]) -> dict[str, str]:
        """Use `threads` threads; returns the versions of what is measured."""
        torch.set_num_threads(threads)
        return {package: importlib.metadata.version(package) for package in packages}

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

    def load_realm(self, weights: str, config: dict[str, Any]) -> None:
        """RealmScorer and RealmKnowledgeAugEncoder with the weights in a safetensors file.

        Their embeddings are frozen, as ours are. What of them the file leaves out is what ours has no counterpart of.
        """
        from safetensors.torch import load_file
        from transformers.models.deprecated.realm.configuration_realm import RealmConfig
        from transformers.models.deprecated.realm.modeling_realm import RealmKnowledgeAugEncoder, RealmScorer

        stored = load_file(weights)
        self._scorer, self._encoder = (kind(RealmConfig(**config)) for kind in (RealmScorer, RealmKnowledgeAugEncoder))
        for name, model in (("embedder", self._scorer.embedder), ("encoder", self._encoder)):
            own = {key.removeprefix(f"{name}."): value for key, value in stored.items() if key.startswith(f"{name}.")}
            missing, unexpected = model.load_state_dict(own, strict=False)
            # The decoder is tied; the embedder has a head for words that nothing uses.
            spare = "cls.predictions." if name == "embedder" else "cls.predictions.decoder."
            if unexpected or not all(key.startswith((spare, "realm.pooler.")) for key in missing):
                raise ValueError(f"{name}: {unexpected}, {missing}")
            model.realm.embeddings.requires_grad_(False)

    def give_pretraining(self, batches: list[dict[str, Any]], k: int) -> None:
        """Batches to train on, made ready: padded to their longest sequence, on either side of the marginal."""
        self._batches = [_padded(batch, k) for batch in batches]

    def pretraining_losses(self, scores: list[list[list[float]]]) -> list[float]:
        """The encoder's loss of each batch, given the relevance scores; without dropout."""
        self._encoder.eval()
        with torch.no_grad():
            return [
                self._encoder(**filling, relevance_score=torch.tensor(own)).loss.item()
                for (_, filling), own in zip(self._batches, scores, strict=True)
            ]

    def query_states(self) -> list[list[float]]:
        """The embedder's states at [CLS] of the first batch's sentences; without dropout."""
        self._scorer.eval()
        retrieval = self._batches[0][0]
        with torch.no_grad():
            states = self._scorer.embedder.realm(
                retrieval["input_ids"], retrieval["attention_mask"], retrieval["token_type_ids"]
            )
        rows: list[list[float]] = states.last_hidden_state[:, 0].tolist()
        return rows

    def pretrain(self, dtype: str, first: int) -> float:
        """Seconds of forward and backward over the first batches."""
        models = (self._scorer, self._encoder)
        for model in models:
            model.train()
        taken_s = 0.0
        for retrieval, filling in self._batches[:first]:
            started_at = time.perf_counter()
            with torch.autocast("cpu", dtype=torch.bfloat16, enabled=dtype == "bfloat16"):
                scores = self._scorer(**retrieval).relevance_score
                loss = self._encoder(**filling, relevance_score=scores).loss
            loss.backward()
            taken_s += time.perf_counter() - started_at
            for model in models:
                model.zero_grad(set_to_none=True)
        return taken_s


def _padded(batch: dict[str, Any], k: int) -> tuple[dict[str, Any], dict[str, Any]]:
    """(arguments of the scorer, arguments of the encoder) of one batch: queries, blocks, pairs, masks, targets."""
    count = len(batch["queries"])
    query, block, pair = (_tensors(batch[name]) for name in ("queries", "blocks", "pairs"))
    retrieval = {
        **query,
        **{f"candidate_{name}": tensor.view(count, k, -1) for name, tensor in block.items()},
    }
    filling = {name: tensor.view(count, k, -1) for name, tensor in pair.items()}
    labels = torch.full((count, filling["input_ids"].shape[-1]), _IGNORED)
    for row, (masks, targets) in enumerate(zip(batch["masks"], batch["targets"], strict=True)):
        labels[row, [1 + mask for mask in masks]] = torch.tensor(targets)  # behind [CLS]
    return retrieval, {**filling, "labels": labels, "mlm_mask": (labels != _IGNORED).long()}


def _tensors(sequences: Sequences) -> dict[str, torch.Tensor]:
    longest = max(len(ids) for ids, _ in sequences)
    return {
        name: torch.tensor([row + [0] * (longest - len(row)) for row in rows])
        for name, rows in (
            ("input_ids", [ids for ids, _ in sequences]),
            ("token_type_ids", [segments for _, segments in sequences]),
            ("attention_mask", [[1] * len(ids) for ids, _ in sequences]),
        )
    }


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
