"""The PDF that a document was read from."""

from __future__ import annotations

from csp.constants import SELF, UNSAFE_INLINE
from csp.decorators import csp_update
from django.http import Http404, HttpRequest, HttpResponse
from django.utils.http import content_disposition_header
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_safe

from webapp.access.collections import access_of
from webapp.access.roles import Action
from webapp.originals import service as originals
from webapp.pages.guards import allowed
from webapp.serving.engine import EngineUnavailable


# A browser's viewer of PDFs is a plugin with style of its own, which this address's own policy must let in.
@csp_update({"object-src": [SELF], "style-src": [UNSAFE_INLINE]})  # type: ignore[untyped-decorator,unused-ignore]
@allowed(Action.READ)
@never_cache
@require_safe
def original(request: HttpRequest) -> HttpResponse:
    """The kept PDF of a document, for those who may read its collection."""
    try:
        found = originals.find(request.GET.get("id", ""), access_of(request.user).hidden)
    except EngineUnavailable:
        found = None
    if found is None:
        raise Http404
    return pdf_response(*found)


def pdf_response(title: str, content: bytes) -> HttpResponse:
    """A PDF that a browser shows by itself, and saves under its title."""
    shown = content_disposition_header(as_attachment=False, filename=f"{title}.pdf")
    return HttpResponse(content, content_type="application/pdf", headers={"Content-Disposition": shown})
