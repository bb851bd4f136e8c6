"""The page that fills masked sentences: without retrieval, from the best block, and from all blocks together; or, of a
model without an encoder, a single gap from what the reader finds in the blocks.

The sentence is part of the address, because nothing is stored: the page can be linked and reloaded. htmx gets only the
content; errors are whole pages, as in asking.views.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import asdict
from typing import TYPE_CHECKING, Any, Final

from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.urls import reverse
from django.utils.http import urlencode
from django.views.decorators.http import require_safe
from django.views.decorators.vary import vary_on_headers

from webapp.access import limits
from webapp.access.collections import access_of
from webapp.access.roles import Action
from webapp.filling import service as filling
from webapp.filling.filled import look_at
from webapp.pages.errors import refused
from webapp.pages.guards import allowed
from webapp.pages.htmx import HtmxRequest
from webapp.refusals import REFUSALS
from webapp.serving import rights
from webapp.serving.engine import EngineUnavailable
from webapp.serving.living import active, answering_view

if TYPE_CHECKING:
    from realm_core.serving.filled import Filling

# A sentence and its masked word. The first is the paper's own (Table 3), which no passage of the default corpus says;
# the shipped models find the others there (docs/results.md).
EXAMPLES: Final = (
    (
        "The paper’s example",
        "An equilateral triangle is easily constructed using a straightedge and compass, because 3 is a [MASK] prime.",
        "Fermat",
    ),
    ("Literature", "The novel Pride and Prejudice was written by [MASK].", "Jane Austen"),
    ("Chemistry", "The chemical element with the symbol Au is [MASK].", "gold"),
    ("Film", "The science fiction film 2001: A Space Odyssey was directed by [MASK].", "Stanley Kubrick"),
    ("Geography", "Mount Kilimanjaro is a dormant volcano in [MASK].", "Tanzania"),
    ("Art", "The Mona Lisa was painted by [MASK].", "Leonardo da Vinci"),
)


@allowed(Action.ASK)
@require_safe
@vary_on_headers("HX-Request")
def fill(request: HtmxRequest) -> HttpResponse:
    """The form; with a `sentence`, and perhaps its `truth`, in the address also the filling."""
    sentence, truth = request.GET.get("sentence", ""), request.GET.get("truth", "")
    typed = {"sentence": sentence, "truth": truth}
    if "sentence" not in request.GET:
        return _box(request, typed)
    try:
        wanted = filling.checked(sentence, truth=truth)
        limits.count_questions(request)
        filled = filling.fill(wanted, asker=request.user)
    except EngineUnavailable as unavailable:
        context = {**typed, "reason": str(unavailable), "retry_s": unavailable.retry_after_s}
        return refused(request, unavailable, "fill/waiting.html", context)
    except REFUSALS as error:
        return _box(request, typed, error)
    whole = not request.htmx or request.htmx.history_restore_request
    context = {"typed": typed, "shown": look_at(filled, _rights(filled, access_of(request.user).hidden))}
    return render(request, "fill/filled.html" if whole else "fill/partial_filled.html", context)


def _rights(filled: Filling, hidden: Collection[str]) -> dict[str, rights.Rights]:
    """Those of blocks whose document has its own, by block id. hidden: as for `rights.of_passages`."""
    index = active().index
    passages = [asdict(block) for block in filled.evidence if block.block_id is not None]
    return rights.on_cards(passages, index, answering_view(), hidden)


def _box(request: HttpRequest, typed: dict[str, str], error: Exception | None = None) -> HttpResponse:
    address = reverse("fill")
    examples = [
        (topic, sentence, f"{address}?{urlencode({'sentence': sentence, 'truth': truth})}")
        for topic, sentence, truth in EXAMPLES
    ]
    by_reader = filling.has_encoder() is False
    context: dict[str, Any] = {"typed": typed, "error": error, "examples": examples, "by_reader": by_reader}
    return refused(request, error, "fill/fill.html", context) if error else render(request, "fill/fill.html", context)
