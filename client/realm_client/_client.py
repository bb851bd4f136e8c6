"""Generated from _async_client.py by `python -m client.generate`: do not edit."""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any, TypeVar, Unpack

import httpx

from realm_client import _ledger as ledger
from realm_client import _operating as operating
from realm_client import _records as records
from realm_client._calls import (
    JSON_LINES,
    PDF,
    TIMEOUT,
    Batch,
    Call,
    CollectionChanges,
    File,
    Filters,
    Json,
    Lines,
    Patience,
    blocks_body,
    checked,
    edit,
    following_page,
    list_call,
    once,
    parsed,
    question_body,
    segment,
)
from realm_client._errors import ApiError
from realm_client._filling import Filling
from realm_client._reading import record
from realm_client._records import NewDocument, Question

T = TypeVar("T")


class Client:
    """A server. A `Client` serves one thread or several, an `AsyncClient` the tasks of one event loop.

    address:  such as https://qa.example.org
    token:    of an account there; without one, the client may do what the server allows everybody.
    patience_s: seconds that a request may wait in all to be sent again, where the server was busy (429, 503) or away,
              the connection was lost, or the same request is under way (409): after growing pauses, no sooner than
              `Retry-After` says. A question is still asked once: `ask` sends an idempotency key.
    retries:  how often at most, without those of 409; None: as often as fits into that time.
    """

    def __init__(
        self,
        address: str,
        *,
        token: str | None = None,
        retries: int | None = None,
        patience_s: float = 120.0,
        timeout: httpx.Timeout = TIMEOUT,
        transport: httpx.BaseTransport | None = None,
    ) -> None:
        headers = {"Authorization": f"Bearer {token}"} if token else {}
        self._http = httpx.Client(base_url=address, headers=headers, timeout=timeout, transport=transport)
        self._patience = partial(Patience, patience_s, retries)

    def __enter__(self) -> Client:
        return self

    def __exit__(self, *_error: object) -> None:
        self.close()

    def close(self) -> None:
        """Close its connections."""
        self._http.close()

    # ---- asking

    def ask(
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
        return self._do(Call("POST", "/ask", records.Answer, body=body, headers=once(idempotency_key)))

    def ask_many(self, questions: Iterable[str | Question], *, k: int | None = None) -> Iterator[records.Result]:
        """Ask any number of questions; what comes of each, as soon as it is known, in order.

        Questions that the server refuses because too many are asked are sent again when it says, and come later then:
        `index` says which one a result belongs to. Where a connection breaks, what had not come back is asked again.
        """
        batch, patience = Batch.of(questions, k), self._patience()
        while batch.waiting:
            call = batch.next()
            try:
                with self._http.stream(**call.arguments()) as response:
                    if not response.is_success:
                        response.read()
                        checked(response)
                    lines = Lines()
                    for piece in response.iter_bytes():
                        for line in lines.of(piece):
                            result = batch.take(line, patience)
                            if result is not None:
                                patience = self._patience()  # it goes on
                                yield result
                time.sleep(batch.end(patience))
            except (ApiError, httpx.TransportError) as error:
                if (result := batch.too_large(error)) is not None:
                    yield result
                else:
                    time.sleep(patience.pause_s(error, call, self._http.base_url))

    def retrieve(
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
        return self._do(Call("POST", "/retrieve", records.Retrieval, body=body))

    def fill(
        self, sentence: str, *, k: int | None = None, exclude: Sequence[str] = (), truth: str | None = None
    ) -> Filling:
        """Fill each [MASK] of a sentence. truth: what stands there, to get its probability, too."""
        body = {"sentence": sentence, "truth": truth, **blocks_body(k, exclude)}
        return self._do(Call("POST", "/fill", Filling, body=body))

    # ---- what is kept

    def answer(self, answer_id: str, *, without: Sequence[str] = ()) -> records.Answer:
        """A kept answer; without: as it were had these blocks not been read."""
        path, params = f"/answers/{segment(answer_id)}", {"without": list(without)}
        return self._do(Call("GET", path, records.Answer, params=params))

    def answers(self, **filters: Filters | None) -> Iterator[records.ListedAnswer]:
        """One's own answers, latest first. Filters: answered, deployment, evidence_changed, since, before, order."""
        return self._list("/answers", records.ListedAnswer, filters)

    def block(self, block_id: str) -> records.Block:
        """A block of a corpus."""
        return self._do(Call("GET", f"/blocks/{segment(block_id)}", records.Block))

    def article(self, block_id: str) -> records.Article:
        """The article of a block."""
        return self._do(Call("GET", f"/blocks/{segment(block_id)}/article", records.Article))

    def feedback(self, answer_id: str) -> records.Feedback:
        """What one said of an answer; NotFound where one said nothing."""
        return self._do(Call("GET", f"/answers/{segment(answer_id)}/feedback", records.Feedback))

    def give_feedback(
        self, answer_id: str, *, right: bool | None = None, block_id: str = "", better_answer: str = ""
    ) -> records.Feedback:
        """Say whether an answer is right, which block is the right evidence, what would be a better answer."""
        body = {"right": right, "block_id": block_id, "better_answer": better_answer}
        return self._do(Call("POST", f"/answers/{segment(answer_id)}/feedback", records.Feedback, body=body))

    def take_feedback_back(self, answer_id: str) -> None:
        """Take back what one said of an answer."""
        self._do(Call("DELETE", f"/answers/{segment(answer_id)}/feedback", None))

    def why(self, answer_id: str, right_answer: str) -> records.Why:
        """Why a kept answer is wrong, given the right one; nothing is kept of it."""
        body = {"answer": right_answer}
        return self._do(Call("POST", f"/answers/{segment(answer_id)}/why", records.Why, body=body))

    # ---- documents of the corpus that answers

    def documents(self, **filters: Filters | None) -> Iterator[records.ListedDocument]:
        """Documents, those that edits touched first. Filters: title, status, collection."""
        return self._list("/documents", records.ListedDocument, filters)

    def collections(self) -> tuple[records.Collection, ...]:
        """The collections that one may look in."""
        return self._do(Call("GET", "/collections", tuple[records.Collection, ...]))

    def collection(self, name: str) -> records.CollectionSettings:
        """What is recorded of a collection. NotFound: nothing, so it is public and has weight 1."""
        return self._do(Call("GET", f"/collections/{segment(name)}", records.CollectionSettings))

    def set_collection(self, name: str, **changes: Unpack[CollectionChanges]) -> records.CollectionSettings:
        """Set what holds of a collection, or of a new one; what is not given stays."""
        body = dict(changes)
        return self._do(Call("PUT", f"/collections/{segment(name)}", records.CollectionSettings, body=body))

    def remove_collection(self, name: str, *, public: bool = False) -> None:
        """Forget what is recorded of a collection. public: needed for a private one, which everybody reads then."""
        self._do(Call("DELETE", f"/collections/{segment(name)}", None, params={"public": public}))

    def document(self, document_id: str) -> records.Document:
        """A document with its text."""
        return self._do(Call("GET", f"/documents/{segment(document_id)}", records.Document))

    def document_original(self, document_id: str) -> bytes:
        """The PDF that a document was read from. NotFound: none is kept."""
        return self._do(Call("GET", f"/originals/{segment(document_id)}", bytes, headers={"Accept": PDF}))

    def add_document(
        self, document: NewDocument, *, file: File | None = None, idempotency_key: str | None = None
    ) -> records.Edit:
        """Add a document. file: one to be read, in place of a text or an address."""
        return self._do(edit("POST", None, document.body(), idempotency_key, files=(file,)))

    def add_documents(self, documents: Sequence[NewDocument], *, idempotency_key: str | None = None) -> records.Edit:
        """Add documents by one edit, all or none."""
        return self._do(edit("POST", "bulk", {"documents": [one.body() for one in documents]}, idempotency_key))

    def add_files(
        self, files: Sequence[File], about: NewDocument | None = None, *, idempotency_key: str | None = None
    ) -> records.Edit:
        """Add up to 100 files by one edit, all or none. about: what is said of all, without text, id, title and url."""
        return self._do(edit("POST", "bulk", about.body() if about else {}, idempotency_key, files=files))

    def change_document(
        self,
        document_id: str,
        document: NewDocument,
        *,
        file: File | None = None,
        idempotency_key: str | None = None,
        if_match: str | None = None,
    ) -> records.Edit:
        """Replace a document as a whole. file: as for `add_document`. if_match: its `version`, if no other will do."""
        return self._do(edit("PUT", document_id, document.body(), idempotency_key, if_match, (file,)))

    def describe_document(
        self, document_id: str, about: NewDocument, *, idempotency_key: str | None = None, if_match: str | None = None
    ) -> records.Edit:
        """Change what is said of a document, not its text. about: without text, address and id. if_match: as above."""
        return self._do(edit("PATCH", document_id, about.body(), idempotency_key, if_match))

    def remove_document(
        self, document_id: str, *, idempotency_key: str | None = None, if_match: str | None = None
    ) -> None:
        """Remove a document. if_match: as for `change_document`."""
        self._do(edit("DELETE", document_id, None, idempotency_key, if_match))

    def document_touched(self, document_id: str, *, most: int = 50) -> ledger.Touched:
        """The kept answers that read a document, and what they would be without it. most: of them listed, up to 500."""
        path = f"/documents/{segment(document_id)}/touched"
        return self._do(Call("GET", path, ledger.Touched, params={"page_size": most}))

    def document_changes(self, **filters: Filters | None) -> Iterator[ledger.DocumentChange]:
        """What edits did to documents, the latest first. Filters: document_id, kind, since, before."""
        return self._list("/document-changes", ledger.DocumentChange, filters)

    def change_answers(self, change_id: int, *, most: int = 50) -> ledger.ChangeAnswers:
        """The kept answers that had read what a change took away. most: as for `document_touched`."""
        path = f"/document-changes/{change_id}/answers"
        return self._do(Call("GET", path, ledger.ChangeAnswers, params={"page_size": most}))

    def purge_documents(self, document_ids: Sequence[str]) -> records.Purge:
        """Forget documents for good, all or none, in kept answers too. If the response is lost, see `purges`."""
        body = {"documents": list(document_ids)}
        return self._do(Call("POST", "/purges", records.Purge, body=body, repeatable=False))

    def purges(self, **filters: Filters | None) -> Iterator[records.Purge]:
        """The receipts of all purges, the latest first. Filters: since, before."""
        return self._list("/purges", records.Purge, filters)

    def purge(self, purge_id: str) -> records.Purge:
        """The receipt of a purge."""
        return self._do(Call("GET", f"/purges/{purge_id}", records.Purge))

    # ---- what operators do

    def job_kinds(self) -> tuple[operating.Kind, ...]:
        """The kinds of job, with what each works on and may be told."""
        return self._do(Call("GET", "/job-kinds", tuple[operating.Kind, ...]))

    def jobs(self, **filters: Filters | None) -> Iterator[operating.Job]:
        """Jobs, the latest first. Filters: state, kind, queue, part, since, before, order."""
        return self._list("/jobs", operating.Job, filters)

    def job(self, job_id: str) -> operating.Job:
        """A job."""
        return self._do(Call("GET", f"/jobs/{segment(job_id)}", operating.Job))

    def start_job(self, kind: str, parameters: Mapping[str, Any], *, settings_of: str | None = None) -> operating.Job:
        """Start a job. settings_of: an earlier one, whose settings hold where `parameters` says nothing."""
        body = {"kind": kind, "parameters": dict(parameters), "settings_of": settings_of}
        return self._do(Call("POST", "/jobs", operating.Job, body=body, repeatable=False))

    def stop_job(self, job_id: str) -> operating.Job:
        """Stop a job, at its next safe point."""
        return self._do(Call("POST", f"/jobs/{segment(job_id)}/stop", operating.Job, repeatable=False))

    def resume_job(self, job_id: str) -> operating.Job:
        """Let a job that failed, was stopped or interrupted go on."""
        return self._do(Call("POST", f"/jobs/{segment(job_id)}/resume", operating.Job, repeatable=False))

    def job_log(self, job_id: str, *, offset: int = 0) -> operating.Log:
        """A piece of a job's log from a byte on; the following one begins at its `next_offset`."""
        return self._do(Call("GET", f"/jobs/{segment(job_id)}/log", operating.Log, params={"offset": offset}))

    def job_metrics(self, job_id: str, *, after: int = 0) -> Iterator[operating.Metric]:
        """What a job has measured, the earliest first. after: the `id` of one, to go on behind it."""
        path, more = f"/jobs/{segment(job_id)}/metrics", True
        while more:
            page = self._do(Call("GET", path, operating.Metrics, params={"after": after}))
            yield from page.rows
            after, more = page.cursor, page.more

    def wait_for(self, job_id: str, *, every_s: float = 2.0) -> operating.Job:
        """The job when it is over, however long that takes."""
        while not (job := self.job(job_id)).is_over:
            time.sleep(every_s)
        return job

    def corpora(self, **filters: Filters | None) -> Iterator[operating.Corpus]:
        """Corpus snapshots. Filters: name, language, since, before, order."""
        return self._list("/corpora", operating.Corpus, filters)

    def corpus(self, corpus_id: int) -> operating.Corpus:
        """A corpus snapshot."""
        return self._do(Call("GET", f"/corpora/{corpus_id}", operating.Corpus))

    def remove_corpus(self, corpus_id: int) -> None:
        """Remove a corpus snapshot that nothing uses."""
        self._do(Call("DELETE", f"/corpora/{corpus_id}", None))

    def models(self, **filters: Filters | None) -> Iterator[operating.Model]:
        """Model versions. Filters: parent, corpus, since, before, order."""
        return self._list("/models", operating.Model, filters)

    def model(self, model_id: int) -> operating.Model:
        """A model version with its card."""
        return self._do(Call("GET", f"/models/{model_id}", operating.Model))

    def remove_model(self, model_id: int) -> None:
        """Remove a model version that nothing uses."""
        self._do(Call("DELETE", f"/models/{model_id}", None))

    def indexes(self, **filters: Filters | None) -> Iterator[operating.Index]:
        """Index generations. Filters: model, corpus, since, before, order."""
        return self._list("/indexes", operating.Index, filters)

    def index(self, index_id: int) -> operating.Index:
        """An index generation, also one whose files were removed."""
        return self._do(Call("GET", f"/indexes/{index_id}", operating.Index))

    def remove_index(self, index_id: int) -> None:
        """Remove an index generation that nothing uses."""
        self._do(Call("DELETE", f"/indexes/{index_id}", None))

    def question_sets(self, **filters: Filters | None) -> Iterator[operating.QuestionSet]:
        """Files of questions. Filters: purpose, since, before, order."""
        return self._list("/question-sets", operating.QuestionSet, filters)

    def question_set(self, question_set_id: int) -> operating.QuestionSet:
        """A file of questions."""
        return self._do(Call("GET", f"/question-sets/{question_set_id}", operating.QuestionSet))

    def remove_question_set(self, question_set_id: int) -> None:
        """Remove a question set that nothing uses."""
        self._do(Call("DELETE", f"/question-sets/{question_set_id}", None))

    def span_sets(self, **filters: Filters | None) -> Iterator[operating.SpanSet]:
        """Salient spans of corpora. Filters: corpus, since, before, order."""
        return self._list("/span-sets", operating.SpanSet, filters)

    def span_set(self, span_set_id: int) -> operating.SpanSet:
        """The salient spans of a corpus."""
        return self._do(Call("GET", f"/span-sets/{span_set_id}", operating.SpanSet))

    def evaluations(self, **filters: Filters | None) -> Iterator[operating.Evaluation]:
        """Measurements. Filters: model, corpus, index, questions, since, before, order."""
        return self._list("/evaluations", operating.Evaluation, filters)

    def evaluation(self, evaluation_id: int) -> operating.Evaluation:
        """A measurement with all its figures."""
        return self._do(Call("GET", f"/evaluations/{evaluation_id}", operating.Evaluation))

    def all_feedback(self, **filters: Filters | None) -> Iterator[operating.Said]:
        """What everybody said of answers. Filters: review, teaches, right, deployment, since, before, order."""
        return self._list("/feedback", operating.Said, filters)

    def feedback_export(self) -> bytes:
        """What was accepted of that, as a file of questions to learn from: JSON lines, perhaps none."""
        return self._do(Call("GET", "/feedback/export", bytes, headers={"Accept": JSON_LINES}))

    def deployments(self, **filters: Filters | None) -> Iterator[operating.Deployment]:
        """What answers, and what did. Filters: model, index, active, since, before, order."""
        return self._list("/deployments", operating.Deployment, filters)

    def deployment(self, deployment_id: int) -> operating.Deployment:
        """A deployment."""
        return self._do(Call("GET", f"/deployments/{deployment_id}", operating.Deployment))

    def deploy(
        self, index: int, *, model: int | None = None, note: str = "", confirm: str = ""
    ) -> operating.Deployment:
        """Let an index and a model answer. Conflict tells `doubts`; its `confirm`, sent back, confirms them."""
        body = {"index": index, "model": model, "note": note, "confirm": confirm}
        return self._do(Call("POST", "/deployments", operating.Deployment, body=body, repeatable=False))

    def activate(self, deployment: int, *, confirm: str = "") -> operating.Deployment:
        """Go back to an earlier deployment; doubts as of `deploy`."""
        path = f"/deployments/{deployment}/activate"
        return self._do(Call("POST", path, operating.Deployment, body={"confirm": confirm}, repeatable=False))

    # ---- sending

    def _do(self, call: Call[T]) -> T:
        patience = self._patience()
        while True:
            try:
                return parsed(call, checked(self._http.request(**call.arguments())))
            except (ApiError, httpx.TransportError) as error:
                if patience.was_done(error, call):
                    return None  # type: ignore[return-value]  # T is None then
                time.sleep(patience.pause_s(error, call, self._http.base_url))

    def _list(self, path: str, kind: type[T], filters: Mapping[str, Filters | None]) -> Iterator[T]:
        call: Call[Json] | None = list_call(path, filters)
        while call is not None:
            page = self._do(call)
            for one in page["results"]:
                yield record(kind, one)
            call = following_page(call, page)
