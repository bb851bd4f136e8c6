"""One masked sentence on the command line: `python -m realm_core fill`."""

from __future__ import annotations

import json
from collections.abc import Iterator

from realm_core.index.corpus_of import corpus_of
from realm_core.runs.activity import Activity
from realm_core.serving.engine import Engine
from realm_core.serving.filled import Filling, Guess, MaskWords
from realm_core.serving.tasks import Fill
from realm_core.text.masked import fill_masks

_EXCERPT = 160  # characters of a block


def main(task: Fill, activity: Activity) -> None:
    """Print the filling, as tables or as JSON."""
    engine = Engine.load(task.model, task.index, corpus_of(task.index, task.corpus))
    try:
        filling = engine.fill(task.sentence, k=task.k, truth=task.truth)
    finally:
        engine.close()
    if task.as_json:
        print(json.dumps(filling.as_dict(), ensure_ascii=False, indent=1))
    else:
        print("\n".join(_lines(filling)))


def _lines(filling: Filling) -> Iterator[str]:
    yield "".join(text for text, _ in fill_masks(filling.sentence, filling.explained.words))
    yield ""
    yield f"{'':30}{'without retrieval':>24}{'best block':>24}{'marginal':>24}"
    for guess in filling.guesses:
        yield _row(guess, guess.text)
    if filling.truth is not None:
        yield _row(filling.truth, f"truth: {filling.truth.text}")
    for number, mask in enumerate(filling.masks, start=1):
        yield ""
        yield f"[MASK] {number}"
        yield from _columns(mask)
    for block in filling.evidence:
        title = "The null block" if block.block_id is None else block.title
        best = ", the best block" if block.block_id and block.block_id == filling.best_block_id else ""
        yield ""
        yield f"{block.rank}. {title}{best}   {block.url}".rstrip()
        yield (
            f"   prior {block.prior:.3f}   likelihood {block.likelihood:.3g}   posterior {block.posterior:.3f}   "
            f"utility {'–' if block.utility is None else f'{block.utility:+.2f}'}"
        )
        if block.text:
            text = block.text.replace("\n", " ")
            yield f"   {text[:_EXCERPT]}{'…' if len(text) > _EXCERPT else ''}"
    yield ""
    yield f"{filling.model} · {filling.index} · {filling.corpus} · {filling.latency_ms:.0f} ms"


def _row(guess: Guess, name: str) -> str:
    values = (guess.without_retrieval, guess.best_block, guess.marginal)
    return f"{name:30}" + "".join(f"{'–' if value is None else f'{value:.3g}':>24}" for value in values)


def _columns(mask: MaskWords) -> Iterator[str]:
    for row in range(len(mask.marginal)):
        words = [column[row] if column else None for column in (mask.without_retrieval, mask.best_block, mask.marginal)]
        yield " " * 30 + "".join(
            f"{'–' if word is None else f'{word.text} {word.probability:.3g}':>24}" for word in words
        )
