"""Names by any token classifier of transformers: labels B-X/I-X (also E-, S-, L-, U-) or plain, and O for no name.

Each sentence is a sequence, as in the training data of such models. A word has the label of its first wordpiece.
Weights are read only from safetensors.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from realm_core.errors import RealmError
from realm_core.files import sha256_of_file
from realm_core.index.embedding import batches_by_length
from realm_core.model.device import pick_device
from realm_core.salient.spans import OUTSIDE, TaggedSpan, check_labels, joined_words
from realm_core.text.sentences import sentence_spans

_PREFIXED = re.compile(r"([BIESLU])[-_](.+)")
_TOKENS_PER_BATCH = {"cpu": 2048, "cuda": 16384}
_LONGEST = 512  # tokens, if the model has no limit; longer sentences are truncated


class ClassifierTagger:
    """A token classifier, on the GPU if there is one.

    name:    a folder, or a name on the Hugging Face hub.
    labels:  those to keep, without B- and I-; None: all but O.
    """

    def __init__(self, name: str, labels: Sequence[str] | None = None) -> None:
        from transformers import AutoConfig

        self._name = name
        try:
            self._config = AutoConfig.from_pretrained(name)
        except (OSError, ValueError) as error:
            raise RealmError(f"{name} is neither spacy, links, dates nor a token classifier: {_line(error)}") from error
        known = self._config.id2label
        self._label_of = [_split(known[number])[1] for number in range(len(known))]
        self._prefix_of = [_split(known[number])[0] for number in range(len(known))]
        kinds = tuple(dict.fromkeys(label for label in self._label_of if label != OUTSIDE))
        if OUTSIDE not in self._label_of or not kinds:
            raise RealmError(f"{name} does not tag names: its labels are {', '.join(map(str, known.values()))}.")
        check_labels(name, labels, kinds)
        self.labels = tuple(labels or kinds)
        self.description: dict[str, Any] = {
            "tagger": "transformers",
            "model": Path(name).name,
            "weights": _weights(name, self._config),
            "labels": list(self.labels),
        }
        self._loaded: tuple[Any, Any, Any] | None = None

    def spans(self, texts: Sequence[str], rows: Sequence[int] = ()) -> list[list[TaggedSpan]]:
        places = [(number, *place) for number, text in enumerate(texts) for place in sentence_spans(text)]
        found: list[list[TaggedSpan]] = [[] for _ in texts]
        kept = frozenset(self.labels)
        tagged = self._words([texts[number][start:end] for number, start, end in places])
        for (number, offset, _), words in zip(places, tagged, strict=True):
            for span in joined_words(
                (start, end, self._prefix_of[code], self._label_of[code]) for start, end, code in words
            ):
                if span.label in kept:
                    found[number].append(TaggedSpan(offset + span.start, offset + span.end, span.label))
        return found

    def _words(self, sentences: Sequence[str]) -> list[list[tuple[int, int, int]]]:
        """(start, end, label id) of each word of each sentence."""
        import torch

        if not sentences:
            return []
        tokenizer, model, device = self._loaded = self._loaded or self._load()
        encoded = tokenizer(
            list(sentences),
            truncation=True,
            max_length=_longest(tokenizer, self._config),
            return_offsets_mapping=True,
            return_attention_mask=False,
        )
        words: list[list[tuple[int, int, int]]] = [[] for _ in sentences]
        with torch.inference_mode():
            for group in batches_by_length([len(ids) for ids in encoded["input_ids"]], _TOKENS_PER_BATCH[device.type]):
                batch = tokenizer.pad({"input_ids": [encoded["input_ids"][i] for i in group]}, return_tensors="pt")
                codes_BL = model(**batch.to(device)).logits.argmax(2).cpu()
                for i, codes_L in zip(group, codes_BL.tolist(), strict=True):
                    words[i] = _first_tokens(encoded.word_ids(i), encoded["offset_mapping"][i], codes_L)
        return words

    def _load(self) -> tuple[Any, Any, Any]:
        import torch
        from transformers import AutoModelForTokenClassification, AutoTokenizer

        device = pick_device("auto")
        try:
            tokenizer = AutoTokenizer.from_pretrained(self._name, use_fast=True)
            model = AutoModelForTokenClassification.from_pretrained(
                self._name, use_safetensors=True, dtype=torch.bfloat16 if device.type == "cuda" else torch.float32
            )
        except (OSError, ValueError) as error:
            raise RealmError(f"The token classifier {self._name} cannot be loaded: {_line(error)}") from error
        if not tokenizer.is_fast:
            raise RealmError(f"The tokenizer of {self._name} is not a fast one: it has no character offsets.")
        return tokenizer, model.to(device).eval(), device


def _first_tokens(
    word_of_L: Sequence[int | None], place_of_L: Sequence[tuple[int, int]], codes_L: Sequence[int]
) -> list[tuple[int, int, int]]:
    """(start, end, label id of the first token) of each word, without special tokens."""
    words: list[tuple[int, int, int]] = []
    last: int | None = None
    for word, (start, end), code in zip(word_of_L, place_of_L, codes_L, strict=False):
        if word is None:
            last = None
        elif word == last:
            words[-1] = (words[-1][0], end, words[-1][2])
        else:
            words.append((start, end, code))
            last = word
    return words


def _split(label: str) -> tuple[str, str]:
    """Prefix and type of a label: "B-PER" is ("B", "PER"), "PER" is ("", "PER")."""
    match = _PREFIXED.fullmatch(label)
    return (match[1], match[2]) if match else ("", label)


def _longest(tokenizer: Any, config: Any) -> int:
    # RoBERTa's positions start after the padding id, so two of them cannot be used for tokens.
    positions = getattr(config, "max_position_embeddings", None) or _LONGEST
    return int(min(positions - 2, tokenizer.model_max_length, _LONGEST))


def _weights(name: str, config: Any) -> str | None:
    """A fingerprint of the weights: checksums of a folder, or the commit on the hub."""
    folder = Path(name)
    if folder.is_dir():
        return " ".join(sha256_of_file(path)[:16] for path in sorted(folder.glob("*.safetensors")))
    return getattr(config, "_commit_hash", None)


def _line(error: Exception) -> str:
    return str(error).strip().split("\n")[0]
