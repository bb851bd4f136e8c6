"""Feedback of askers: right or wrong, the block with the right evidence, a better answer.

Each asker has one feedback per answer, which can be changed and deleted. It is trained on only after a curator has
accepted it, because an open site lets everybody give feedback.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Any, Final

from django.contrib.auth.models import User
from django.db import IntegrityError, transaction
from django.db.models import BooleanField, Case, Count, Q, QuerySet, When
from django.utils import timezone

from realm_core.errors import RealmError
from realm_core.questions.answers import holds_answer, normalise_answer
from webapp.access.collections import CollectionAccess, access_of
from webapp.articles import service as articles
from webapp.asking.history import Asker, answers_without
from webapp.asking.scope import scope_again
from webapp.metrics.middleware import listens
from webapp.models import AskedAnswer, AuditEntry, Deployment, Feedback, Review
from webapp.refusals import FieldError, InvalidRequest, too_long
from webapp.serving.engine import EngineUnavailable, serving
from webapp.text import counted, one_line

if TYPE_CHECKING:
    from realm_core.living.scope import Scope

NEAREST_BLOCKS: Final = 200  # to the question with its right answer; searched where a corpus is too large to scan
LONGEST_ANSWER: Final = 300  # characters; answers are names, dates and short phrases
# There is a better answer, or the given one is right.
TEACHES: Final = ~Q(better_answer="") | Q(right=True, answer__answer_text__isnull=False)


@dataclass(frozen=True)
class NamedBlock:
    """A block named in feedback, or one that holds an answer. rank: among those read; None: it was not read."""

    block_id: str
    title: str
    text: str
    rank: int | None


def give_feedback(
    asker: Asker, answer: AskedAnswer, *, right: bool | None = None, block_id: str = "", better_answer: str = ""
) -> tuple[Feedback, bool]:
    """(feedback, whether it is new); it replaces earlier feedback of this asker.

    right:          whether the answer is right; None: not said. If none was found: whether that is right.
    block_id:       the block with the right evidence: one that was read, or another of the same corpus.
    better_answer:  as in a question file: a name, a date, a phrase.
    InvalidRequest names every wrong field.
    """
    better_answer = one_line(better_answer)
    _check(answer, right, block_id, better_answer, access_of(asker.user).hidden)
    given: dict[str, Any] = {"right": right, "block_id": block_id, "better_answer": better_answer}
    try:
        return _keep(asker, answer, given)
    except IntegrityError:  # the same asker sent feedback at the same moment, from another window
        return _keep(asker, answer, given)


def withdraw(asker: Asker, answer: AskedAnswer) -> bool:
    """Delete their feedback on an answer; False if there is none."""
    deleted, _ = asker.feedback.filter(answer=answer).delete()
    return bool(deleted)


def review(said: Feedback, verdict: Review, *, seen: datetime, was: str, by: User) -> None:
    """Accept or refuse feedback, or reset its review.

    seen, was: `changed_at` and `review` of the feedback that was looked at. RealmError if either has changed since, and
    for accepting feedback that cannot be trained on: there is no right answer, or the corpus does not hold it.
    """
    if verdict == Review.ACCEPTED and not Feedback.objects.filter(TEACHES, pk=said.pk).exists():
        raise RealmError("There is nothing to learn from this: the answer is not right and no better one was given.")
    use = locate_answer(said, access_of(by)) if verdict == Review.ACCEPTED else ""
    waits = verdict == Review.WAITING
    with transaction.atomic():
        changed = Feedback.objects.filter(pk=said.pk, changed_at=seen, review=was).update(
            review=verdict, use=use, reviewed_by=None if waits else by, reviewed_at=None if waits else timezone.now()
        )
        if not changed:
            raise RealmError("This feedback was changed, withdrawn or reviewed in the meantime; look again.")
        AuditEntry.record(
            f"feedback.{_VERBS[verdict]}",
            f"“{said.answer.question}”",
            by=by,
            answer=str(said.answer_id),
            feedback=said.pk,
            right=said.right,
            better_answer=said.better_answer,
            block_id=said.block_id,
            use=use,
        )


def right_answer(said: Feedback) -> str:
    """The better answer, else the given one if it was called right; empty if neither."""
    return said.better_answer.strip() or (said.answer.answer_text or "" if said.right else "")


def evidence_of(said: Feedback, hidden: Collection[str]) -> NamedBlock | None:
    """The block that says the right answer: the one that was named, else the best of those read; None: neither does.

    hidden: collections whose blocks are not found where they were not read.
    """
    answer = [right_answer(said)]
    read = [NamedBlock(one.block_id, one.title, one.text, one.rank) for one in said.answer.evidence.all()]
    read.sort(key=lambda one: one.rank or 0)
    named = [one for one in read if one.block_id == said.block_id] if said.block_id else read
    if (
        said.block_id
        and not named
        and (block := articles.in_its_corpus(said.block_id, said.answer, hidden=hidden)) is not None
    ):
        named = [NamedBlock(block.block_id, block.title, block.text, None)]
    return next((one for one in named if holds_answer(one.text, answer)), None)


def locate_answer(said: Feedback, access: CollectionAccess) -> str:
    """Which blocks hold the right answer, which is what learning from it takes, in a sentence. RealmError: none.

    Looked for where the question was, as far as this access reaches.
    """
    answer, scope = right_answer(said), scope_again(said.answer, access)
    if (block := evidence_of(said, access.hidden)) is not None:
        which = f"passage {block.rank}, which was read" if block.rank is not None else "the passage that was named"
        return f"It is in {which}: {block.title}."[:200]
    unused = "The passage that was named does not say it and is not used. " if said.block_id else ""
    count = articles.count_holding(answer, said.answer, scope)
    if count is None:
        says = f"The corpus is too large to look through at once. {_locate_nearest(answer, said.answer, scope)}"
        return f"{unused}{says}"
    if not count:
        raise RealmError(
            f"“{answer}” is in no passage of the corpus, so nothing could be learnt from it. "
            "Refuse it, or add a text that says it to the corpus first."
        )
    return f"{unused}It is in {counted(count, 'other passage')} of the corpus."


def _locate_nearest(answer: str, asked: AskedAnswer, scope: Scope | None) -> str:
    """Whether a block near to the question with its right answer holds that, by the engine that serves the corpus."""
    snapshot = str(asked.payload.get("corpus", "")).partition("+")[0]
    try:
        with serving() as service:
            engine = service.engine
            if engine.corpus_id.partition("+")[0] != snapshot:
                return "Another one is deployed now, so training will show whether the answer is in it."
            question = f"{asked.payload.get('read_as') or asked.question} {answer}"
            rank = engine.rank_holding(
                question, [answer], among=NEAREST_BLOCKS, scope=scope, as_typed=True, listens=listens()
            )
    except EngineUnavailable:
        return "No model is ready to search it, so training will show whether the answer is in it."
    if rank is None:
        return f"The answer is not among the {NEAREST_BLOCKS} nearest passages."
    return f"The answer is in passage {rank} of the {NEAREST_BLOCKS} nearest."


def all_feedback() -> QuerySet[Feedback]:
    """All feedback, with `teaches`: whether it can be trained on."""
    teaches = Case(When(TEACHES, then=True), default=False, output_field=BooleanField())
    said = Feedback.objects.select_related("answer__deployment__index__corpus", "by", "reviewed_by").defer(
        "answer__payload"
    )
    return said.annotate(teaches=teaches)


@dataclass(frozen=True)
class Judged:
    """Feedback on a deployment's answers. right_share: 0 to 1; None if no feedback says right or wrong."""

    deployment: Deployment
    answers: int
    judged: int
    right: int

    @property
    def right_share(self) -> float | None:
        """Of the feedback that says right or wrong, the share that says right."""
        return self.right / self.judged if self.judged else None


def by_deployment(deployments: QuerySet[Deployment]) -> list[Judged]:
    """Each deployment, in the given order, with the feedback on its answers."""
    deployments_of = list(deployments)
    ids = [deployment.pk for deployment in deployments_of]
    asked = AskedAnswer.objects.filter(deployment__in=ids).order_by().values_list("deployment")
    answers = dict(asked.annotate(number=Count("pk")))
    said = Feedback.objects.filter(answer__deployment__in=ids, right__isnull=False).order_by()
    counted = said.values_list("answer__deployment").annotate(all=Count("pk"), good=Count("pk", filter=Q(right=True)))
    judged = {deployment: (all_of_them, right) for deployment, all_of_them, right in counted}
    return [Judged(one, answers.get(one.pk, 0), *judged.get(one.pk, (0, 0))) for one in deployments_of]


def waiting_count() -> int:
    """How much feedback that can be trained on waits for a review."""
    return Feedback.objects.filter(TEACHES, review=Review.WAITING).count()


def accepted_count(hidden: Collection[str] = ()) -> int:
    """How much accepted feedback can be trained on. hidden: collections; on answers from them it does not count."""
    return Feedback.objects.filter(TEACHES, review=Review.ACCEPTED, answer__in=answers_without(hidden)).count()


_VERBS: Final = {Review.ACCEPTED: "accept", Review.REFUSED: "refuse", Review.WAITING: "reopen"}


def _check(answer: AskedAnswer, right: bool | None, block_id: str, better_answer: str, hidden: Collection[str]) -> None:
    errors = []
    if right is None and not block_id and not better_answer:
        errors.append(FieldError("", "Say at least one thing: right or wrong, the right passage, or a better answer."))
    read = set(answer.evidence.values_list("block_id", flat=True)) if block_id else set()
    if block_id and block_id not in read and articles.in_its_corpus(block_id, answer, hidden=hidden) is None:
        says = "This is not one of the passages of the corpus that this was answered from."
        errors.append(FieldError("block_id", says))
    if len(better_answer) > LONGEST_ANSWER:
        errors.append(too_long("better_answer", "An answer", better_answer, LONGEST_ANSWER))
    better = normalise_answer(better_answer)
    if right is False and better and better == normalise_answer(answer.answer_text or ""):
        errors.append(FieldError("better_answer", "This is the answer that was given; is it right after all?"))
    if errors:
        raise InvalidRequest(*errors)


@transaction.atomic
def _keep(asker: Asker, answer: AskedAnswer, given: dict[str, Any]) -> tuple[Feedback, bool]:
    who = {"by": asker.user, "session_key": ""} if isinstance(asker.user, User) else {"session_key": asker.session_key}
    said = asker.feedback_on(answer)
    if said is None:
        return Feedback.objects.create(answer=answer, **who, **given), True
    unchanged = all(getattr(said, name) == value for name, value in given.items())
    fresh = {} if unchanged else {"review": Review.WAITING, "reviewed_by": None, "reviewed_at": None, "use": ""}
    for name, value in (who | given | fresh).items():
        setattr(said, name, value)
    if not unchanged or said.by_id != asker.user.pk:
        said.save()
    return said, False
