"""`manage.py documents …`: the documents of the deployed corpus, on the command line."""

from __future__ import annotations

import math
import sys
from argparse import ArgumentParser
from collections.abc import Sequence
from datetime import UTC, date, datetime
from pathlib import Path
from typing import Any, Final

from django.template.defaultfilters import pluralize
from django.urls import reverse

from realm_core.errors import RealmError
from webapp.documents import bringing, folding, previewing, restoring
from webapp.documents import service as documents
from webapp.documents.inputs import Address, DocumentInput, File
from webapp.documents.listing import DocumentQuery, listed
from webapp.documents.viewing import ShownDocument, show
from webapp.ledger import service as ledger
from webapp.ledger.touched import Outcome, Touched
from webapp.management.operator import OperatorCommand
from webapp.models import GONE, CorpusChange, DocumentStatus, IndexGeneration, Purge
from webapp.purges import service as purging
from webapp.text import counted

_OUTCOMES: Final = {
    Outcome.SAME: "would stay the same",
    Outcome.OTHER_BLOCK: "would have the same answer from another passage",
    Outcome.OTHER_ANSWER: "would have another answer",
    Outcome.NONE: "would have no answer any more",
    Outcome.GIVEN: "would have an answer where none was found",
}


class Command(OperatorCommand):
    """Add documents to the deployed corpus, remove, restore or purge some, or list them."""

    def add_arguments(self, parser: ArgumentParser) -> None:
        actions = parser.add_subparsers(dest="action", required=True)
        add = actions.add_parser("add", help="add files or addresses, all or none")
        add.add_argument("sources", nargs="+", metavar="FILE_OR_ADDRESS")
        add.add_argument("--id", default="", help="of a single document (default: generated)")
        add.add_argument("--title", default="", help="of a single document (default: from its content)")
        add.add_argument("--url", help="the source of a single document")
        add.add_argument("--licence", help="such as CC0 1.0 (default: what a row of the file states, or not stated)")
        add.add_argument("--attribution", help="whom the text is by (default: the same)")
        add.add_argument("--language", help="such as en (default: from its content or its text, or the corpus's)")
        add.add_argument("--date", type=date.fromisoformat, help="the document's own, such as 2026-01-31")
        add.add_argument("--tag", action="append", dest="tags", help="may be given several times (default: the same)")
        add.add_argument("--collection", help="its name (default: the corpus's own, which is called as the corpus is)")
        add.add_argument("--new-collection", action="store_true", help="make it if it is not there; everybody reads it")
        touches = actions.add_parser(
            "touched", help="say which kept answers read documents, and what they would be without"
        )
        touches.add_argument("ids", nargs="+", metavar="ID")
        touches.add_argument("--count", type=int, default=20, help="of the answers that are listed")
        touches.add_argument("--differing", action="store_true", help="list only those that turn out differently")
        remove = actions.add_parser("remove", help="remove documents, all or none; first it says what that touches")
        remove.add_argument("ids", nargs="+", metavar="ID")
        remove.add_argument("--yes", action="store_true", help="do not ask, on a terminal")
        purge = actions.add_parser("purge", help="forget documents for good, all or none, in kept answers too")
        purge.add_argument("ids", nargs="+", metavar="ID")
        purge.add_argument("--index", type=int, help="id of an index of their corpus (default: the one that answers)")
        restore = actions.add_parser("restore", help="restore removed documents, all or none, as if they had stayed")
        restore.add_argument("ids", nargs="+", metavar="ID")
        restore.add_argument(
            "--new-collection", action="store_true", help="make their collection again; everybody reads it"
        )
        restore.add_argument("--more-readers", action="store_true", help="let others read them than before")
        actions.add_parser("bring", help="bring over what was edited above the index that answered before")
        actions.add_parser("fold", help="start the job that makes one index of the present one and the edits above it")
        show = actions.add_parser("list", help="list documents, the latest edited first")
        show.add_argument("--title", default="", help="a part of it")
        show.add_argument("--status", default="", choices=DocumentStatus.values)
        show.add_argument("--collection", default="", help="of this one only")
        for name, says in (("since", "at or after"), ("before", "before")):
            about = f"that edits added {says} this time, such as 2026-01-31 or 2026-01-31T12:00 (UTC)"
            show.add_argument(f"--added-{name}", type=_time, metavar="TIME", help=about)
        show.add_argument("--count", type=int, default=50)
        show.add_argument("--start", type=int, default=0)

    def handle(self, *_args: Any, action: str, **options: Any) -> None:
        if action == "add":
            edited = documents.add(_given(options), by=None)
            self._print_changes(edited.changes)
            for name in edited.new_collections:
                self.stdout.write(f"“{name}” is a new collection, which everybody who may ask reads.")
        elif action == "touched":
            self._print_touched(options["ids"], max(0, options["count"]), differing=options["differing"])
        elif action == "remove":
            self._remove(options["ids"], sure=options["yes"])
        elif action == "restore":
            confirmed = {name: options[name] for name in ("new_collection", "more_readers")}
            self._print_changes(restoring.restore(options["ids"], by=None, **confirmed).changes)
        elif action == "bring":
            self._print_brought(bringing.bring(by=None))
        elif action == "fold":
            self.stdout.write(f"A worker folds the edits: job {folding.start(by=None).pk}.")
        elif action == "purge":
            self._print_purge(purging.purge(options["ids"], by=None, index=_index(options["index"])))
        else:
            self._list(options)

    def _remove(self, ids: Sequence[str], *, sure: bool) -> None:
        self._print_touched(ids, 0)
        if not sure and sys.stdin.isatty() and input("Remove? [y/N] ").strip().lower() not in ("y", "yes"):
            raise RealmError("Nothing was removed.")
        self._print_changes(documents.remove(ids, by=None).changes)

    def _print_touched(self, ids: Sequence[str], count: int, *, differing: bool = False) -> None:
        shown = [show(one) for one in ids]  # DocumentMissing
        for document in shown:
            if document.status in GONE:
                self._print_gone(document, count, differing=differing)
        if here := [document.document_id for document in shown if document.status not in GONE]:
            self._print_answers(Touched(previewing.of_removal(here)), count, differing=differing)

    def _print_gone(self, document: ShownDocument, count: int, *, differing: bool) -> None:
        """What the ledger says of a document that is not in the corpus any more."""
        assert document.row is not None
        change = document.row.changes.filter(kind=document.status).latest("pk")
        self.stdout.write(
            f"{document.document_id} was {change.kind} on {change.at:%Y-%m-%d}; "
            f"in the ledger: {reverse('manage-document-change-page', args=[change.pk])}"
        )
        touched, purge = ledger.touched_by(change), ledger.receipt(change)
        if purge and not touched.rows.exists():
            self.stdout.write(f"Its passages were taken out of kept answers. The receipt is {purge.pk}.")
        else:
            self._print_answers(touched, count, differing=differing, past=True)

    def _print_answers(self, touched: Touched, count: int, *, differing: bool, past: bool = False) -> None:
        worked_out = touched.worked_out(limit_s=math.inf)
        summary = worked_out.summary
        verb = "had" if past else pluralize(summary.reading, "has,have")
        self.stdout.write(f"{counted(summary.reading, 'kept answer')} {verb} read this.")
        if summary.reading:
            outcomes = ", ".join(f"{number:,} {_OUTCOMES[Outcome(one)]}" for one, number in summary.outcomes.items())
            self.stdout.write(f"Without it {outcomes}.")
        rows = worked_out.differing if differing else touched.rows
        for answer in touched.recomputed(rows[:count]):
            best = answer.without.answer
            self.stdout.write(
                f"{answer.asked.pk}  {answer.posterior:.3f}  {answer.outcome.value}  {answer.asked.question}  "
                f"{answer.asked.answer_text or '–'} → {best.text if best else '–'}"
            )

    def _print_brought(self, brought: bringing.Brought) -> None:
        if brought:
            self._print_changes(brought.changes)
        self.stdout.write(str(brought))
        for sentence in brought.left_out:
            self.stdout.write(sentence)

    def _print_changes(self, changes: Sequence[CorpusChange]) -> None:
        for change in changes:
            document = change.document
            self.stdout.write(
                f"{change.kind}  {document.document_id}  {document.title}  ({counted(document.blocks, 'block')})"
            )
            for sentence in document.warnings:
                self.stdout.write(f"  {sentence}")
        if not changes:
            self.stdout.write("Nothing to change: the corpus has all of it already.")

    def _print_purge(self, purge: Purge) -> None:
        self.stdout.write(
            f"{purge}: {counted(purge.blocks, 'block')}, {counted(len(purge.files), 'file')}, "
            f"{counted(purge.answers, 'kept answer')}."
        )
        self.stdout.write(f"The receipt is {purge.pk}.")
        for folder in purge.remaining:
            self.stdout.write(f"Still held by {folder}, the corpus that it came with.")
        if purge.remaining:
            self.stdout.write(
                "To have no file hold it, fold (manage.py documents fold), then remove that index and its corpus: "
                f"/manage/documents/purges/{purge.pk}/ says how far that is."
            )

    def _list(self, options: dict[str, Any]) -> None:
        page = listed(
            DocumentQuery(
                options["title"],
                options["status"],
                options["collection"],
                added_since=options["added_since"],
                added_before=options["added_before"],
            ),
            start=max(0, options["start"]),
            count=max(0, options["count"]),
        )
        for one in page.documents:
            self.stdout.write(f"{one.document_id}  {one.title}  ({counted(one.blocks, 'block')}, {one.status})")
        self.stdout.write(f"{len(page.documents):,} of {page.total:,}")


def _time(text: str) -> datetime:
    """A time; in UTC if no offset is given."""
    time = datetime.fromisoformat(text)
    return time if time.tzinfo else time.replace(tzinfo=UTC)


def _given(options: dict[str, Any]) -> list[DocumentInput]:
    if len(options["sources"]) > 1 and any(options[name] for name in ("id", "title", "url")):
        raise RealmError("--id, --title and --url are for a single document.")
    about = {
        name: options[name]
        for name in ("title", "url", "licence", "attribution", "language", "date", "collection", "new_collection")
    }
    tags = None if options["tags"] is None else tuple(options["tags"])
    return [DocumentInput(_source(one), document_id=options["id"], tags=tags, **about) for one in options["sources"]]


def _index(pk: int | None) -> IndexGeneration | None:
    found = None if pk is None else IndexGeneration.objects.filter(pk=pk).first()
    if pk is not None and found is None:
        raise RealmError(f"There is no index {pk}.")
    return found


def _source(named: str) -> File | Address:
    if named.startswith(("https://", "http://")):
        return Address(named)
    path = Path(named)
    try:
        return File(path.read_bytes(), path.name)
    except OSError as error:
        raise RealmError(f"{path} cannot be read: {error.strerror}.") from None
