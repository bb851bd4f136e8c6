"""The explanation of a wrong answer, given the right one, from the data stored with the answer.

If no block that was read holds the right answer, the engine that made the answer is asked for ranks, and the corpus is
searched; if that is not possible, the explanation says so.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from webapp.access.collections import CollectionAccess
from webapp.articles import service as articles
from webapp.asking.scope import scope_again
from webapp.feedback.service import LONGEST_ANSWER
from webapp.metrics.middleware import listens
from webapp.models import AskedAnswer
from webapp.refusals import FieldError, InvalidRequest, too_long
from webapp.serving.engine import EngineUnavailable, serving
from webapp.text import one_line

if TYPE_CHECKING:
    from realm_core.evaluation.why import Contender, Place, Why
    from realm_core.living.scope import Scope
    from realm_core.serving.provenance import Answer

_OTHER_PAIR: Final = "Its rank is not known, because another model or index is deployed now."
_NO_ENGINE: Final = "Its rank is not known, because no model is ready; try again later."
_NO_CORPUS: Final = "Its corpus was removed, so it is not known whether another block holds the answer."


@dataclass(frozen=True)
class Explained:
    """The cause with its details, and the same in sentences."""

    why: Why
    detail: str


def explain(asked: AskedAnswer, right_answer: str, access: CollectionAccess) -> Explained:
    """Why `asked` is wrong, or that it is not, when `right_answer` is right, for a caller with this access.

    InvalidRequest for an answer that is empty, too long, or without any word.
    """
    from realm_core.evaluation.why import NOT_READ
    from realm_core.evaluation.why import explain as cause_of
    from realm_core.serving.provenance import Answer

    right = _checked(right_answer)
    answer = Answer.from_dict(asked.payload)
    why, note, scope = cause_of(answer, [right]), "", scope_again(asked, access)
    if why.cause == NOT_READ:
        place, note = _find_right_answer(asked, answer, right, scope)
        why = cause_of(answer, [right], place=place)
    return Explained(why, f"{_sentence(why, answer, right, whole=scope is None)} {note}".strip())


def _checked(right_answer: str) -> str:
    from realm_core.questions.answers import normalise_answer

    right = one_line(right_answer)
    if len(right) > LONGEST_ANSWER:
        raise InvalidRequest(too_long("answer", "An answer", right, LONGEST_ANSWER))
    if not normalise_answer(right):
        raise InvalidRequest(FieldError("answer", "Write the right answer: a name, a date or a phrase."))
    return right


def _find_right_answer(asked: AskedAnswer, answer: Answer, right: str, scope: Scope | None) -> tuple[Place | None, str]:
    """(which block holds it, a note); None: not known."""
    from realm_core.evaluation.why import LOOKED_AT, Place

    rank, looked_at, note = None, 0, ""
    try:
        with serving() as service:
            engine = service.engine
            if (engine.model_id, engine.index_id, engine.corpus_id) == (answer.model, answer.index, answer.corpus):
                rank = engine.rank_holding(
                    answer.read_as or asked.question,
                    [right],
                    among=LOOKED_AT,
                    exclude=asked.exclude,
                    scope=scope,
                    as_typed=True,
                    listens=listens(),
                )
                looked_at = LOOKED_AT
            else:
                note = _OTHER_PAIR
    except EngineUnavailable:
        note = _NO_ENGINE
    if rank is not None:
        return Place(True, rank, looked_at), ""
    is_held = articles.is_in_its_corpus(right, asked, scope)
    if is_held is None:
        return None, _NO_CORPUS
    return Place(is_held, None, looked_at), note if is_held else ""


def _sentence(why: Why, answer: Answer, right: str, *, whole: bool) -> str:
    """whole: whether all of the corpus was looked in, without filters and private collections."""
    where = "the corpus" if whole else "what was looked in"
    quoted, read = f"“{right}”", len(answer.evidence)
    match why.cause:
        case "right":
            return f"{quoted} is the answer that was given."
        case "withheld":
            return _withheld(why, quoted)
        case "outweighed":
            return _outweighed(why, answer)
        case "misread":
            return _misread(why, answer, quoted)
        case "not_retrieved" if why.rank is not None:
            best = f"the best block that does has rank {why.rank:,}"
            return f"The corpus says {quoted}, but {best}; the first {read} were read."
        case "not_retrieved" if why.looked_at:
            return f"The corpus says {quoted}, but in none of the first {why.looked_at:,} blocks; {read} were read."
        case "not_retrieved":
            return f"The corpus says {quoted}, but in no block that was read."
        case "not_in_corpus":
            return f"No block of {where} says {quoted}, so it could not be found."
    return f"No block that was read says {quoted}."


def _withheld(why: Why, quoted: str) -> str:
    assert why.right is not None
    null = why.no_answer_probability
    beside = "" if null is None else f", and that the blocks hold no answer has {_percent(null)}"
    has = f"it has {_percent(why.right.probability)}{beside}"
    return f"{quoted} is the best candidate, but too improbable to be given: {has}."


def _outweighed(why: Why, answer: Answer) -> str:
    assert why.chosen is not None and why.right is not None
    right, chosen = f"“{why.right.text}”", f"“{why.chosen.text}”"
    has, weighs = _percent(why.right.probability), _percent(why.chosen.probability)
    if why.right.text in answer.answers[0].also:
        return f"{chosen} names the same as {right}; with all wordings it has {weighs}."
    return (
        f"Block {_place_of(why.right, answer)} says {right}, which has {has} over all blocks; "
        f"{chosen} outweighs it with {weighs}, most of it from block {_place_of(why.chosen, answer)}."
    )


def _misread(why: Why, answer: Answer, quoted: str) -> str:
    assert why.chosen is not None and why.right is not None
    has = f"no span for {quoted} was likely there"
    if why.right.text is not None:
        has = f"{quoted} has {_percent(why.right.probability)} there"
    chosen, null = _percent(why.chosen.probability), why.no_answer_probability
    if why.chosen.text is None:
        reads = f"was read as most probably holding no answer ({chosen}); {has}"
    else:
        reads = f"was read as saying “{why.chosen.text}” ({chosen}); {has}"
        reads += "" if null is None else f", and that it holds no answer {_percent(null)}"
    return f"Block {_place_of(why.right, answer)} holds {quoted}, but {reads}."


def _place_of(contender: Contender, answer: Answer) -> str:
    """A block as the page calls it."""
    rank = next(block.rank for block in answer.evidence if block.block_id == contender.block_id)
    return f"{rank} ({contender.title})"


def _percent(probability: float) -> str:
    return f"{100 * probability:.1f}\N{NO-BREAK SPACE}%"
