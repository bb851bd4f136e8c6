"""Who measures an index beside what answers measures it with the documents that were edited there, as a schedule does.

Questions may be about them: without them an index would be found to answer worse than it does once they are brought
over. Importing this module registers it for the jobs that people start, by page and by REST alike.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from django.contrib.auth.models import User

from realm_core.errors import RealmError
from webapp.deployments import service as deploying
from webapp.jobs.service import PREPARATIONS
from webapp.models import IndexGeneration, JobKind
from webapp.serving.states import EditConflict


def bring_edits(index: IndexGeneration, *, by: User) -> None:
    """Bring the edits of the corpus that answers over to `index`; nothing if it is of another corpus, or has them.

    RealmError if they cannot be: then it is not measured.
    """
    try:
        deploying.bring_edits(index, by=by)
    except EditConflict:
        raise RealmError("Documents are being edited at this moment; measure again.") from None


def _prepare(parameters: Mapping[str, Any], by: User) -> None:
    index = IndexGeneration.objects.select_related("corpus").filter(pk=parameters["index"]).first()
    if index is not None:  # BM25 reads a corpus
        bring_edits(index, by=by)


PREPARATIONS[JobKind.EVALUATE] = _prepare
