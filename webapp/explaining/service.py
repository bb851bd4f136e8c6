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
_REMOVED: Final = "Its corpus was removed, so it is not known whether another passage holds the answer."
_UNREADABLE: Final = "Its corpus cannot be read, so it is not known whether another passage holds the answer."


@dataclass(frozen=True)
class _Rank:
    """The rank of the best block that holds an answer, in today's corpus. looked_at: 0: ranks are not known.

    edited: whether documents were edited since the answer. unknown: why the rank is not known.
    """

    rank: int | None = None
    looked_at: int = 0
    edited: bool = False
    unknown: str = ""


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
    why, scope = cause_of(answer, [right]), scope_again(asked, access)
    if why.cause == NOT_READ:
        place, detail = _find_right_answer(asked, answer, right, scope)
        return Explained(cause_of(answer, [right], place=place), detail)
    return Explained(why, _sentence(why, answer, right))


def _checked(right_answer: str) -> str:
    from realm_core.questions.answers import normalise_answer

    right = one_line(right_answer)
    if len(right) > LONGEST_ANSWER:
        raise InvalidRequest(too_long("answer", "An answer", right, LONGEST_ANSWER))
    if not normalise_answer(right):
        raise InvalidRequest(FieldError("answer", "Write the right answer: a name, a date or a phrase."))
    return right


def _find_right_answer(asked: AskedAnswer, answer: Answer, right: str, scope: Scope | None) -> tuple[Place | None, str]:
    """(which block holds it, in sentences); None: not known."""
    from realm_core.evaluation.why import Place

    ranked = _rank(asked, answer, right, scope)
    place = Place(True, ranked.rank, ranked.looked_at)
    where = "the corpus" if scope is None else "what was looked in"  # with filters, or without private collections
    quoted, read, not_read = f"“{right}”", len(answer.evidence), f"No passage that was read says “{right}”."
    if ranked.rank is not None and not ranked.edited:
        best = f"the best passage that does has rank {ranked.rank:,}"
        return place, f"The corpus says {quoted}, but {best}; the first {read} were read."

    today = f" Documents changed since then. {_today(ranked)}" if ranked.edited else ""
    was_held = articles.is_in_its_corpus(right, asked, scope)
    if was_held is None:  # such as after a purge, or a fold whose base was removed since
        is_held = ranked.rank is not None or articles.is_in_todays_corpus(right, asked, scope)
        if is_held is None:
            return None, f"{not_read} {_REMOVED if asked.deployment.index.corpus.removed_at else _UNREADABLE}"
        gone = "Documents changed since then, and the corpus as it was then is not kept."
        if is_held:
            return place, f"{not_read} {gone} {_today(ranked)}"
        return None, f"{not_read} {gone} No passage of {where} says it today."
    if was_held is False:
        said = "said" if ranked.edited else "says"
        return Place(False), f"No passage of {where} {said} {quoted}, so it could not be found.{today}"
    if ranked.edited:
        return place, f"The corpus said {quoted}, but in none of the {read} passages that were read.{today}"
    if ranked.looked_at:
        beyond = f"in none of the first {ranked.looked_at:,} passages; {read} were read"
        return place, f"The corpus says {quoted}, but {beyond}."
    return place, f"The corpus says {quoted}, but in no passage that was read. {ranked.unknown}"


def _rank(asked: AskedAnswer, answer: Answer, right: str, scope: Scope | None) -> _Rank:
    from realm_core.evaluation.why import LOOKED_AT

    index = asked.deployment.index
    try:
        with serving() as service:
            engine = service.engine
            if (asked.deployment.model_id, index.latest) != (service.deployment.model_id, service.deployment.index):
                return _Rank(unknown=_OTHER_PAIR)
            answered_from = index.state_after_folds(answer.corpus.partition("+")[2])
            edited = answered_from != (service.deployment.index, engine.corpus_id.partition("+")[2])
            rank = engine.rank_holding(
                answer.read_as or asked.question,
                [right],
                among=LOOKED_AT,
                exclude=asked.exclude,
                scope=scope,
                as_typed=True,
                listens=listens(),
            )
            return _Rank(rank, LOOKED_AT, edited)
    except EngineUnavailable:
        return _Rank(unknown=_NO_ENGINE)


def _today(ranked: _Rank) -> str:
    if ranked.rank is not None:
        return f"In today's corpus the best passage that says it has rank {ranked.rank:,}."
    if ranked.looked_at:
        return f"In today's corpus none of the first {ranked.looked_at:,} passages says it."
    return f"Today's corpus says it. {ranked.unknown}"


def _sentence(why: Why, answer: Answer, right: str) -> str:
    """A cause that the evidence shows."""
    quoted = f"“{right}”"
    match why.cause:
        case "right":
            return f"{quoted} is the answer that was given."
        case "withheld":
            return _withheld(why, answer, quoted)
        case "outweighed":
            return _outweighed(why, answer)
    return _misread(why, answer, quoted)


def _withheld(why: Why, answer: Answer, quoted: str) -> str:
    assert why.right is not None
    if answer.confidence is not None and answer.confidence < answer.min_confidence:
        sure, least = _percent(answer.confidence), _percent(answer.min_confidence)
        return f"{quoted} is the best candidate, but not sure enough to be given: {sure}, and it must be {least}."
    null = why.no_answer_probability
    beside = "" if null is None else f", and that the passages hold no answer has {_percent(null)}"
    has = f"it has {_percent(why.right.probability)}{beside}"
    return f"{quoted} is the best candidate, but too improbable to be given: {has}."


def _outweighed(why: Why, answer: Answer) -> str:
    assert why.chosen is not None and why.right is not None
    right, chosen = f"“{why.right.text}”", f"“{why.chosen.text}”"
    has, weighs = _percent(why.right.probability), _percent(why.chosen.probability)
    if why.right.text in answer.answers[0].also:
        return f"{chosen} names the same as {right}; with all wordings it has {weighs}."
    return (
        f"Passage {_place_of(why.right, answer)} says {right}, which has {has} over all passages; "
        f"{chosen} outweighs it with {weighs}, most of it from passage {_place_of(why.chosen, answer)}."
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
    return f"Passage {_place_of(why.right, answer)} holds {quoted}, but {reads}."


def _place_of(contender: Contender, answer: Answer) -> str:
    """A block as the page calls it."""
    rank = next(block.rank for block in answer.evidence if block.block_id == contender.block_id)
    return f"{rank} ({contender.title})"


def _percent(probability: float) -> str:
    return f"{100 * probability:.1f}\N{NO-BREAK SPACE}%"
