"""Feedback on answers, for curators: accept it to learn from, or refuse it."""

from __future__ import annotations

from collections.abc import Collection
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Final

from django.contrib import messages
from django.db.models import Count, Q
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect
from django.shortcuts import get_object_or_404, render
from django.urls import reverse
from django.utils import timezone
from django.utils.dateparse import parse_datetime
from django.utils.http import url_has_allowed_host_and_scheme

from realm_core.errors import RealmError
from webapp.access.collections import access_of
from webapp.articles import service as articles
from webapp.asking.history import answers_without
from webapp.feedback import service as feedback
from webapp.models import Deployment, EvidenceBlock, Feedback, Review
from webapp.pages.guards import curator_action, curator_page, staff_member
from webapp.pages.paging import numbered_page

if TYPE_CHECKING:
    from realm_core.corpus.records import Block

_LATEST_DEPLOYMENTS: Final = 10
_NEVER: Final = datetime(1970, 1, 1, tzinfo=UTC)
# What a list shows; the first is shown unless another is asked for.
_SHOWS: Final = {
    "waiting": Q(feedback.TEACHES, review=Review.WAITING),
    "accepted": Q(review=Review.ACCEPTED),
    "refused": Q(review=Review.REFUSED),
    "all": Q(),
}


@curator_page
def feedback_list(request: HttpRequest) -> HttpResponse:
    """What waits for a curator, or what was accepted, refused or given at all; the newest first."""
    show = request.GET.get("show", "")
    show = show if show in _SHOWS else "waiting"
    readable = answers_without(access_of(request.user).hidden)
    said = feedback.all_feedback().filter(_SHOWS[show], answer__in=readable)
    page = numbered_page(request, said)
    counts = Feedback.objects.filter(answer__in=readable).aggregate(
        **{name: Count("pk", filter=which) for name, which in _SHOWS.items()}
    )
    context = {
        "page": page,
        "rows": _with_blocks(list(page), access_of(request.user).hidden),
        "show": show,
        "tabs": [(name, counts[name]) for name in _SHOWS],
        "accepted": feedback.accepted_count(),
        "deployments": feedback.by_deployment(
            Deployment.objects.select_related("model", "index")[:_LATEST_DEPLOYMENTS]
        ),
    }
    return render(request, "manage/feedback.html", context)


@curator_action
def review(request: HttpRequest, pk: int) -> HttpResponse:
    """Accept or refuse feedback, as the curator saw it; or let it wait again."""
    readable = Feedback.objects.filter(answer__in=answers_without(access_of(request.user).hidden))
    said = get_object_or_404(readable.select_related("answer"), pk=pk)
    verdict = request.POST.get("verdict", "")
    if verdict in Review.values:
        try:
            was = request.POST.get("was", "")
            feedback.review(said, Review(verdict), seen=_seen(request), was=was, by=staff_member(request))
        except RealmError as error:
            messages.error(request, str(error))
    back = request.POST.get("back", "")
    # `redirect` would take a word for the name of a view.
    return HttpResponseRedirect(back if url_has_allowed_host_and_scheme(back, None) else reverse("manage-feedback"))


def _seen(request: HttpRequest) -> datetime:
    """`changed_at` of the feedback that the curator looked at; an unreadable time is that of none."""
    try:
        seen = parse_datetime(request.POST.get("seen", ""))
    except ValueError:
        return _NEVER
    return seen if seen is not None and timezone.is_aware(seen) else _NEVER


def _with_blocks(said: list[Feedback], hidden: Collection[str]) -> list[tuple[Feedback, EvidenceBlock | Block | None]]:
    """Each feedback, and the block that it names, which need not be one that was read."""
    ids = {one.block_id for one in said if one.block_id}
    answers = [one.answer_id for one in said]
    pointed_at = EvidenceBlock.objects.filter(answer__in=answers, block_id__in=ids).select_related("answer")
    blocks = {(block.answer_id, block.block_id): block for block in pointed_at}
    return [(one, blocks.get((one.answer_id, one.block_id)) or _not_read(one, hidden)) for one in said]


def _not_read(said: Feedback, hidden: Collection[str]) -> Block | None:
    return articles.in_its_corpus(said.block_id, said.answer, hidden=hidden) if said.block_id else None
