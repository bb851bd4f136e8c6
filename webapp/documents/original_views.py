"""The PDF that a document was read from."""

from __future__ import annotations

from csp.constants import SELF, UNSAFE_INLINE
from csp.decorators import csp_update
from django.http import FileResponse, Http404, HttpRequest
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_safe

from webapp.access.collections import access_of
from webapp.access.roles import Action
from webapp.documents import originals
from webapp.pages.guards import allowed
from webapp.serving.engine import EngineUnavailable


# A browser's viewer of PDFs is a plugin with style of its own, which this address's own policy must let in.
@csp_update({"object-src": [SELF], "style-src": [UNSAFE_INLINE]})  # type: ignore[untyped-decorator,unused-ignore]
@allowed(Action.READ)
@never_cache
@require_safe
def original(request: HttpRequest) -> FileResponse:
    """The kept PDF of a document, for those who may read its collection."""
    try:
        found = originals.find(request.GET.get("id", ""), access_of(request.user).hidden)
    except EngineUnavailable:
        found = None
    if found is None:
        raise Http404
    title, path = found
    return FileResponse(open(path, "rb"), filename=f"{title}.pdf", content_type="application/pdf")
