"""All calls of the API. `python -m client.generate` derives the synchronous `_client.py` from this file."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterable, Sequence
from typing import TypeVar, Unpack

import httpx

from realm_client import _ledger as ledger
from realm_client import _records as records
from realm_client._async_operators import AsyncOperators
from realm_client._calls import (
    PDF,
    Batch,
    Call,
    CollectionChanges,
    File,
    Filters,
    Json,
    Lines,
    blocks_body,
    checked,
    edit,
    following_page,
    once,
    preview,
    question_body,
    segment,
    touched_call,
)
from realm_client._collections import Collection, CollectionSettings
from realm_client._errors import ApiError
from realm_client._filling import Filling
from realm_client._preview import Preview
from realm_client._reading import record
from realm_client._records import NewDocument, Question

TouchedT = TypeVar("TouchedT", bound=ledger.Touched)


class AsyncClient(AsyncOperators):
    """A server. A `Client` serves one thread or several, an `AsyncClient` the tasks of one event loop.

    address:  such as https://qa.example.org
    token:    of an account there; without one, the client may do what the server allows everybody.
    patience_s: seconds that a request may wait in all to be sent again, where the server was busy (429, 503) or away,
              the connection was lost, or the same request is under way (409): after growing pauses, no sooner than
              `Retry-After` says. A question is still asked once: `ask` sends an idempotency key.
    retries:  how often at most, without those of 409; None: as often as fits into that time.
    """

    # ---- asking

    async def ask(
        self,
        question: str,
        *,
        k: int | None = None,
        exclude: Sequence[str] = (),
        collections: Sequence[str] = (),
        filters: records.DocumentFilter | None = None,
        as_typed: bool = False,
        idempotency_key: str | None = None,
    ) -> records.Answer:
        """Ask a question; the answer is kept. k: how many blocks to read. exclude: ids of blocks not to read.

        collections: names of those to look in; none: all that one may read. filters: which of their documents.
        as_typed: do not correct its spelling.
        """
        body = question_body(Question(question, k, tuple(exclude), tuple(collections), filters, as_typed))
        return await self._do(Call("POST", "/ask", records.Answer, body=body, headers=once(idempotency_key)))

    async def ask_many(
        self, questions: Iterable[str | Question], *, k: int | None = None
    ) -> AsyncIterator[records.Result]:
        """Ask any number of questions; what comes of each, as soon as it is known, in order.

        Questions that the server refuses because too many are asked are sent again when it says, and come later then:
        `index` says which one a result belongs to. Where a connection breaks, what had not come back is asked again.
        """
        batch, patience = Batch.of(questions, k), self._patience()
        while batch.waiting:
            call = batch.next()
            try:
                async with self._http.stream(**call.arguments()) as response:
                    if not response.is_success:
                        await response.aread()
                        checked(response)
                    lines = Lines()
                    async for piece in response.aiter_bytes():
                        for line in lines.of(piece):
                            result = batch.take(line, patience)
                            if result is not None:
                                patience = self._patience()  # it goes on
                                yield result
                await asyncio.sleep(batch.end(patience))
            except (ApiError, httpx.TransportError) as error:
                if (result := batch.too_large(error)) is not None:
                    yield result
                else:
                    await asyncio.sleep(patience.pause_s(error, call, self._http.base_url))

    async def retrieve(
        self,
        question: str,
        *,
        k: int | None = None,
        exclude: Sequence[str] = (),
        collections: Sequence[str] = (),
        filters: records.DocumentFilter | None = None,
        as_typed: bool = False,
    ) -> records.Retrieval:
        """Find blocks without reading them; nothing is kept. Arguments as those of `ask`."""
        body = question_body(Question(question, k, tuple(exclude), tuple(collections), filters, as_typed))
        return await self._do(Call("POST", "/retrieve", records.Retrieval, body=body))

    async def fill(
        self, sentence: str, *, k: int | None = None, exclude: Sequence[str] = (), truth: str | None = None
    ) -> Filling:
        """Fill each [MASK] of a sentence. truth: what stands there, to get its probability, too."""
        body = {"sentence": sentence, "truth": truth, **blocks_body(k, exclude)}
        return await self._do(Call("POST", "/fill", Filling, body=body))

    # ---- what is kept

    async def answer(self, answer_id: str, *, without: Sequence[str] = ()) -> records.Answer:
        """A kept answer; without: as it were had these blocks not been read."""
        path, params = f"/answers/{segment(answer_id)}", {"without": list(without)}
        return await self._do(Call("GET", path, records.Answer, params=params))

    def answers(self, **filters: Filters | None) -> AsyncIterator[records.ListedAnswer]:
        """One's own answers, latest first. Filters: answered, deployment, evidence_changed, since, before, order."""
        return self._list("/answers", records.ListedAnswer, filters)

    async def block(self, block_id: str) -> records.Block:
        """A block of a corpus."""
        return await self._do(Call("GET", f"/blocks/{segment(block_id)}", records.Block))

    async def article(self, block_id: str) -> records.Article:
        """The article of a block."""
        return await self._do(Call("GET", f"/blocks/{segment(block_id)}/article", records.Article))

    async def feedback(self, answer_id: str) -> records.Feedback:
        """One's own feedback on an answer; NotFound where there is none."""
        return await self._do(Call("GET", f"/answers/{segment(answer_id)}/feedback", records.Feedback))

    async def give_feedback(
        self, answer_id: str, *, right: bool | None = None, block_id: str = "", better_answer: str = ""
    ) -> records.Feedback:
        """Say whether an answer is right, which block is the right evidence, what would be a better answer."""
        body = {"right": right, "block_id": block_id, "better_answer": better_answer}
        return await self._do(Call("POST", f"/answers/{segment(answer_id)}/feedback", records.Feedback, body=body))

    async def take_feedback_back(self, answer_id: str) -> None:
        """Delete one's own feedback on an answer."""
        await self._do(Call("DELETE", f"/answers/{segment(answer_id)}/feedback", None))

    async def why(self, answer_id: str, right_answer: str) -> records.Why:
        """Why a kept answer is wrong, given the right one; nothing is kept of it."""
        body = {"answer": right_answer}
        return await self._do(Call("POST", f"/answers/{segment(answer_id)}/why", records.Why, body=body))

    # ---- documents of the corpus that answers

    def documents(self, **filters: Filters | None) -> AsyncIterator[records.ListedDocument]:
        """Documents, those that edits touched first. Filters: title, status, collection, added_since, added_before."""
        return self._list("/documents", records.ListedDocument, filters)

    async def collections(self) -> tuple[Collection, ...]:
        """The collections that one may look in."""
        return await self._do(Call("GET", "/collections", tuple[Collection, ...]))

    async def collection(self, name: str) -> CollectionSettings:
        """What is recorded of a collection. NotFound: nothing, so it is public and has weight 1."""
        return await self._do(Call("GET", f"/collections/{segment(name)}", CollectionSettings))

    async def set_collection(self, name: str, **changes: Unpack[CollectionChanges]) -> CollectionSettings:
        """Set what holds of a collection, or of a new one; what is not given stays."""
        body = dict(changes)
        return await self._do(Call("PUT", f"/collections/{segment(name)}", CollectionSettings, body=body))

    async def remove_collection(self, name: str, *, public: bool = False) -> None:
        """Forget what is recorded of a collection. public: needed for a private one, which everybody reads then."""
        await self._do(Call("DELETE", f"/collections/{segment(name)}", None, params={"public": public}))

    async def document(self, document_id: str) -> records.Document:
        """A document with its text."""
        return await self._do(Call("GET", f"/documents/{segment(document_id)}", records.Document))

    async def document_original(self, document_id: str) -> bytes:
        """The PDF that a document was read from. NotFound: none is kept."""
        return await self._do(Call("GET", f"/originals/{segment(document_id)}", bytes, headers={"Accept": PDF}))

    async def add_document(
        self, document: NewDocument, *, file: File | None = None, idempotency_key: str | None = None
    ) -> records.Edit:
        """Add a document. file: one to be read, in place of a text or an address."""
        return await self._do(edit("POST", None, document.body(), idempotency_key, files=(file,)))

    async def add_documents(
        self, documents: Sequence[NewDocument], *, idempotency_key: str | None = None
    ) -> records.Edit:
        """Add documents by one edit, all or none."""
        return await self._do(edit("POST", "bulk", {"documents": [one.body() for one in documents]}, idempotency_key))

    async def put_documents(
        self, documents: Sequence[NewDocument], *, idempotency_key: str | None = None
    ) -> records.Edit:
        """Add or change documents by one edit, all or none: one whose id is there is changed, any other is added."""
        return await self._do(edit("PUT", "bulk", {"documents": [one.body() for one in documents]}, idempotency_key))

    async def add_files(
        self, files: Sequence[File], about: NewDocument | None = None, *, idempotency_key: str | None = None
    ) -> records.Edit:
        """Add up to 100 files by one edit, all or none. about: what is said of all, without text, id, title and url."""
        return await self._do(edit("POST", "bulk", about.body() if about else {}, idempotency_key, files=files))

    async def change_document(
        self,
        document_id: str,
        document: NewDocument,
        *,
        file: File | None = None,
        idempotency_key: str | None = None,
        if_match: str | None = None,
    ) -> records.Edit:
        """Replace a document as a whole. file: as for `add_document`. if_match: its `version`, if no other will do."""
        return await self._do(edit("PUT", document_id, document.body(), idempotency_key, if_match, (file,)))

    async def describe_document(
        self, document_id: str, about: NewDocument, *, idempotency_key: str | None = None, if_match: str | None = None
    ) -> records.Edit:
        """Change what is said of a document, not its text. about: without text, address and id. if_match: as above."""
        return await self._do(edit("PATCH", document_id, about.body(), idempotency_key, if_match))

    async def remove_document(
        self, document_id: str, *, idempotency_key: str | None = None, if_match: str | None = None
    ) -> None:
        """Remove a document. if_match: as for `change_document`."""
        await self._do(edit("DELETE", document_id, None, idempotency_key, if_match))

    async def remove_documents(self, document_ids: Sequence[str], *, idempotency_key: str | None = None) -> None:
        """Remove documents by one edit, all or none. InvalidRequest names the places of those that are not there."""
        await self._do(edit("POST", "bulk", {"ids": list(document_ids)}, idempotency_key, action="/remove"))

    async def restore_document(
        self,
        document_id: str,
        *,
        new_collection: bool = False,
        more_readers: bool = False,
        idempotency_key: str | None = None,
        if_match: str | None = None,
    ) -> records.Edit:
        """Restore a removed document. Conflict: it is not removed, or not kept any more, or one must be confirmed:

        new_collection, that its collection is made again; more_readers, that others may read it than before.
        if_match: the version that it must have had.
        """
        body = {"new_collection": new_collection, "more_readers": more_readers}
        return await self._do(edit("POST", document_id, body, idempotency_key, if_match, action="/restore"))

    async def document_touched(self, document_id: str, *, most: int = 50, differing: bool = False) -> ledger.Touched:
        """The kept answers that read a document, and what they would be without it.

        most: of them listed, the highest posterior first. differing: list only those that turn out differently.
        """
        return await self._touched(f"/documents/{segment(document_id)}/touched", ledger.Touched, most, differing)

    async def preview_change(
        self, document_id: str, document: NewDocument, *, file: File | None = None, if_match: str | None = None
    ) -> Preview:
        """What a change would do, which is not made. Without text, address and file the text stays. if_match: as above.

        The questions of kept answers that it touches are asked of the corpus as it would be.
        """
        return await self._do(preview(document_id, document.body(), if_match, file))

    def document_changes(self, **filters: Filters | None) -> AsyncIterator[ledger.DocumentChange]:
        """What edits did to documents, the latest first. Filters: document_id, kind, since, before."""
        return self._list("/document-changes", ledger.DocumentChange, filters)

    async def change_answers(self, change_id: int, *, most: int = 50, differing: bool = False) -> ledger.ChangeAnswers:
        """The kept answers that had read what a change took away. most, differing: as for `document_touched`."""
        return await self._touched(f"/document-changes/{change_id}/answers", ledger.ChangeAnswers, most, differing)

    async def _touched(self, path: str, kind: type[TouchedT], most: int, differing: bool) -> TouchedT:
        call: Call[Json] | None = touched_call(path, most, differing)
        results: list[Json] = []
        while call is not None:
            page = await self._do(call)
            results += page["results"]
            call = following_page(call, page) if len(results) < most else None
        return record(kind, {**page, "results": results[:most]})

    async def purge_documents(self, document_ids: Sequence[str], *, index: int | None = None) -> records.Purge:
        """Forget documents for good, all or none, in kept answers too. If the response is lost, see `purges`.

        index: id of an index of their corpus, if that is not the one that answers.
        """
        body = {"documents": list(document_ids), **({} if index is None else {"index": index})}
        return await self._do(Call("POST", "/purges", records.Purge, body=body, repeatable=False))

    def purges(self, **filters: Filters | None) -> AsyncIterator[records.Purge]:
        """The receipts of all purges, the latest first. Filters: since, before."""
        return self._list("/purges", records.Purge, filters)

    async def purge(self, purge_id: str) -> records.Purge:
        """The receipt of a purge."""
        return await self._do(Call("GET", f"/purges/{purge_id}", records.Purge))
