"""The ledger: each change, the kept answers whose evidence it removed from the corpus, and these asked again."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from typing import Final

from django.contrib.auth.models import AnonymousUser, User
from django.db.models import Case, CharField, Exists, OuterRef, Q, QuerySet, Subquery, Value, When
from django.db.models.fields.json import KT
from django.db.models.functions import Substr

from realm_core.errors import RealmError
from webapp.access.collections import access_of
from webapp.asking import service as asking
from webapp.ledger.touched import Summary, Touched
from webapp.metrics.middleware import listens
from webapp.models import AskedAnswer, ChangeKind, CorpusChange, CorpusState, EvidenceBlock, GoneBlock, Purge
from webapp.refusals import InvalidRequest
from webapp.serving.living import corpus_id

_MOST_IN_LIST: Final = 40  # answers of one change that are recomputed for a list of changes
MOST_AGAIN: Final = 50  # answers that are asked again at once: some seconds of the engine


@dataclass(frozen=True)
class LedgerRow:
    """A change, and what became of the answers affected by it. receipt: of the purge after which none shows it."""

    change: CorpusChange
    summary: Summary
    receipt: Purge | None


@dataclass(frozen=True)
class AskedAgain:
    """Numbers of touched answers: asked again, of these with another answer now, and still waiting."""

    asked: int
    differing: int
    waiting: int


def with_summaries(changes: Iterable[CorpusChange]) -> list[LedgerRow]:
    """Changes for a list; for each only the answers with the highest posterior are recomputed."""
    return [
        LedgerRow(change, touched_by(change).worked_out(_MOST_IN_LIST).summary, receipt(change)) for change in changes
    ]


def receipt(change: CorpusChange) -> Purge | None:
    """The receipt of the purge that took what a change removed out of kept answers, too, so that none had read it."""
    gone = GoneBlock.objects.filter(block_id__in=change.blocks_gone, change__kind=ChangeKind.PURGED)
    block = gone.select_related("change__document").order_by("change").first()
    purged = _purge_of_document(change) if block is None else block.change
    if purged is None:
        return None
    later = Purge.objects.filter(at__gte=purged.at).order_by("at")
    return next((one for one in later if purged.document.document_id in one.document_ids), None)


def _purge_of_document(change: CorpusChange) -> CorpusChange | None:
    """The purge of the document that took what the change removed: if it was added again, the blocks are not gone."""
    taken = set(change.blocks_gone)
    later = CorpusChange.objects.filter(document=change.document_id, kind=ChangeKind.PURGED, pk__gte=change.pk)
    purges = later.select_related("document").order_by("pk") if taken else ()
    return next((one for one in purges if not taken.isdisjoint(one.blocks_gone)), None)


def touched_by(change: CorpusChange) -> Touched:
    """The answers that had read what a change removed."""
    return Touched(change.blocks_gone, _touched(change))


def asked_again(change: CorpusChange) -> AskedAgain:
    """What became of the touched answers that were asked again after the change; the latest answer to each counts."""
    since = AskedAnswer.objects.filter(again_of__in=_touched(change), created_at__gte=change.at).order_by("created_at")
    latest = {
        earlier: (before, now)
        for earlier, before, now in since.values_list("again_of", "again_of__answer_text", "answer_text")
    }
    differing = sum(before != now for before, now in latest.values())
    return AskedAgain(len(latest), differing, _waiting(change).count())


def ask_again(change: CorpusChange, number: int, *, by: User) -> Iterator[AskedAnswer | Exception]:
    """Ask the questions of touched answers again that were not since: the newest `number`; what came of each.

    Use the original asker's access, so only the corpus can change the answer. The answer is `by`'s.
    """
    wanted = [request_again(earlier) for earlier in _waiting(change).select_related("asker")[:number]]
    return asking.ask_many(wanted, asker=by, listens=listens())


def waiting(change: CorpusChange) -> int:
    """How many touched answers can be asked again at once."""
    return min(MOST_AGAIN, _waiting(change).count())


def _touched(change: CorpusChange) -> QuerySet[AskedAnswer]:
    """The answers that read what a change removed, from an earlier state than the one that it made.

    One that was being computed at the change is stored after it, and names the state that it was read from. If there
    was that state again by then, it counts as read from the later one.
    """
    index = change.after.index
    unedited = corpus_id(index, None)
    states = CorpusState.objects.filter(index=index)
    base = Value(states.filter(has_edits=False).values_list("state_id", flat=True).first(), CharField())
    edited = Substr(KT("payload__corpus"), len(unedited) + len("+") + 1)
    read_from = states.filter(state_id=OuterRef("state_id"), created_at__lte=OuterRef("created_at")).order_by("-pk")
    read = EvidenceBlock.objects.filter(block_id__in=change.blocks_gone)
    return (
        AskedAnswer.objects.filter(pk__in=read.order_by().values("answer"))
        .alias(state_id=Case(When(payload__corpus=unedited, then=base), default=edited, output_field=CharField()))
        .alias(state=Subquery(read_from.values("pk")[:1]))
        .filter(Q(created_at__lte=change.at) | Q(deployment__index=index, state__lt=change.after_id))
    )


def _waiting(change: CorpusChange) -> QuerySet[AskedAnswer]:
    again = AskedAnswer.objects.filter(again_of=OuterRef("pk"), created_at__gte=change.at)
    return _touched(change).exclude(Exists(again)).defer("payload").order_by("-created_at", "pk")


def request_again(earlier: AskedAnswer) -> asking.AskRequest | Exception:
    """The question of a kept answer, to be asked again with its asker's access, or why it cannot be."""
    # The original asker's access, so only the corpus can change the answer.
    access = access_of(earlier.asker or AnonymousUser())
    where = {"collections": earlier.collections, "filters": earlier.filters}
    try:
        checked = asking.checked(earlier.question, earlier.k, earlier.exclude, **where, access=access)
    except (InvalidRequest, RealmError) as error:  # its collection is no more
        return error
    return replace(checked, again_of=earlier)
