"""Requests as plain data, long batches, and when a request is sent again: what both clients share."""

from __future__ import annotations

import json
import random
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Final, Generic, TypedDict, TypeVar
from urllib.parse import parse_qsl, quote, urlsplit
from uuid import uuid4

import httpx

from realm_client import _records as records
from realm_client._errors import ApiError, NotFound, Unreachable, error_from
from realm_client._preview import Preview
from realm_client._reading import record
from realm_client._records import Question

T = TypeVar("T")
Json = dict[str, Any]
Filters = str | int | bool | datetime
File = tuple[str, bytes]  # its name and content

JSON_LINES: Final = "application/jsonl"
PDF: Final = "application/pdf"
TIMEOUT: Final = httpx.Timeout(60.0, connect=10.0)  # seconds; the server refuses questions that would wait longer
PREFIX: Final = "/api/v1"
# Limits of one request of a long batch: the server takes a MiB and ten thousand questions.
_MOST_QUESTIONS: Final = 1000
_MOST_BYTES: Final = 900_000
_LARGEST_PAGE: Final = 500
_PASSING: Final = {429, 503}
_AWAY: Final = {502, 504}  # from a proxy whose server is down, or went down
# Between two attempts: a server that restarts takes some ten seconds.
_FIRST_PAUSE_S: Final = 0.5
_LONGEST_PAUSE_S: Final = 10.0


@dataclass(frozen=True)
class Call(Generic[T]):
    """One request. kind: of the response, None for no content. repeatable: sending it twice has the effect of once.

    files: with one, the body is sent as the fields of a form.
    """

    method: str
    path: str
    kind: type[T] | None
    params: Mapping[str, Any] = field(default_factory=dict)
    body: Json | None = None
    headers: Mapping[str, str] = field(default_factory=dict)
    repeatable: bool = True
    files: Sequence[File | None] = ()

    def arguments(self) -> dict[str, Any]:
        """For httpx."""
        body: Json = {} if self.body is None else {"json": self.body}
        if files := [("file", one) for one in self.files if one is not None]:
            body = {"data": self.body or {}, "files": files}
        return {
            "method": self.method,
            "url": PREFIX + self.path,
            "params": self.params,
            "headers": dict(self.headers),
            **body,
        }


class CollectionChanges(TypedDict, total=False):
    """What is to hold of a collection from now on; what is left out stays. groups: their names.

    more_readers: more people may read a private one than now; otherwise that is refused.
    """

    title: str
    description: str
    private: bool
    groups: Sequence[str]
    more_readers: bool
    weight: float


class ScheduleSettings(TypedDict, total=False):
    """Settings of a schedule. hours: for `every`. at, weekday: for `at`, in UTC; 0 is Monday. model: the id of one.

    ingest: read the source again first, as a new schedule does unless told otherwise. questions: the id of a set that
    it is checked by. deploy: if it answers no worse. enabled: it runs by itself.
    """

    model: int | None
    hours: int | None
    at: str | None
    weekday: int | None
    ingest: bool
    questions: int | None
    deploy: bool
    enabled: bool


class ScheduleChanges(ScheduleSettings, total=False):
    """What is to hold of a schedule from now on; what is left out stays."""

    corpus_name: str
    trigger: str


class RetentionChanges(TypedDict, total=False):
    """What is to hold of the rule of retention from now on; what is left out stays. Days: `RetentionRule`."""

    enabled: bool
    generations: int
    run_days: int
    answer_days: int


@dataclass
class Patience:
    """How long, and perhaps how often, one request is retried.

    wait_s:  seconds that it may wait in all; a longer Retry-After is an error.
    retries: at most; None: as many as fit into the time.
    """

    wait_s: float
    retries: int | None = None
    _next_s: float = field(default=_FIRST_PAUSE_S, init=False)
    _lost: bool = field(default=False, init=False)  # the response to an attempt that may have been carried out

    def after(self, error: ApiError | httpx.TransportError, call: Call[Any]) -> float | None:
        """Seconds until the next attempt; None: give up."""
        told_s, counts = 0.0, True
        if isinstance(error, ApiError):
            told_s = float(error.retry_after_s or 0)
            under_way = error.status == 409 and error.retry_after_s is not None
            counts = not under_way  # a server that died leaves its questions under way for a minute
            lost = error.status in _AWAY
            if not (error.status in _PASSING or under_way or (lost and call.repeatable)):
                return None
        else:
            lost = not isinstance(error, httpx.ConnectError)
            if lost and not call.repeatable:  # it may have been done
                return None
        pause_s = max(told_s, min(self._next_s * random.uniform(0.8, 1.0), self.wait_s))
        if self.wait_s <= 0 or not self.allows(pause_s, counts=counts):
            return None
        self._lost |= lost
        self._next_s = min(2 * self._next_s, _LONGEST_PAUSE_S)
        self.spend(pause_s, counts=counts)
        return pause_s

    def was_done(self, error: ApiError | httpx.TransportError, call: Call[Any]) -> bool:
        """Whether a removal finds nothing because an attempt whose response was lost has removed it."""
        return call.method == "DELETE" and self._lost and isinstance(error, NotFound)

    def pause_s(self, error: ApiError | httpx.TransportError, call: Call[Any], address: httpx.URL) -> float:
        """Seconds until the next attempt; raises the error where there is none."""
        wait_s = self.after(error, call)
        if wait_s is not None:
            return wait_s
        if isinstance(error, ApiError):
            raise error
        raise Unreachable(f"{address}: {error or type(error).__name__}") from error

    def allows(self, pause_s: float, *, counts: bool = True) -> bool:
        """Whether there is time for this pause, and a retry left. counts: as a retry."""
        return pause_s <= self.wait_s and not (counts and self.retries is not None and self.retries < 1)

    def spend(self, pause_s: float, *, counts: bool = True) -> None:
        """Deduct a pause and, if it counts, a retry."""
        self.wait_s -= pause_s
        if counts and self.retries is not None:
            self.retries -= 1


def checked(response: httpx.Response) -> httpx.Response:
    """The response if it is a success; ApiError otherwise. Its body must have been read."""
    if response.is_success:
        return response
    wait = response.headers.get("Retry-After", "")
    retry_after_s = int(wait) if wait.isdecimal() else None
    try:
        problem = response.json()
        if not isinstance(problem, dict) or "detail" not in problem:
            raise ValueError
    except ValueError:  # not of this server: a proxy in front of it
        problem = {"detail": response.reason_phrase or "The server did not say why."}
    raise error_from({**problem, "status": response.status_code}, retry_after_s)


def parsed(call: Call[T], response: httpx.Response) -> T:
    """The body, as the call's kind."""
    if call.kind is None or response.status_code == 204:
        return None  # type: ignore[return-value]  # T is None then
    if call.kind is bytes:
        return response.content  # type: ignore[return-value]  # T is bytes then
    return record(call.kind, response.json())


def question_body(question: Question) -> Json:
    collections = {"collections": list(question.collections)} if question.collections else {}
    filters = {} if question.filters is None else {"filters": question.filters.body()}
    as_typed = {"as_typed": True} if question.as_typed else {}
    blocks = blocks_body(question.k, question.exclude)
    return {"question": question.question, **blocks, **collections, **filters, **as_typed}


def blocks_body(k: int | None, exclude: Sequence[str]) -> Json:
    return ({} if k is None else {"k": k}) | ({"exclude": list(exclude)} if exclude else {})


def once(idempotency_key: str | None) -> dict[str, str]:
    """The header by which a request that is sent again has the effect of one."""
    return {"Idempotency-Key": idempotency_key or str(uuid4())}


def edit(
    method: str,
    name: str | None,
    body: Json | None,
    idempotency_key: str | None,
    if_match: str | None = None,
    files: Sequence[File | None] = (),
    action: str = "",
) -> Call[records.Edit]:
    """An edit of documents. name, action: the end of its address. if_match: the version that it is made for."""
    path = "/documents" if name is None else f"/documents/{segment(name)}{action}"
    headers = once(idempotency_key) | _made_for(if_match)
    return Call(method, path, records.Edit, body=body, headers=headers, files=files)


def preview(document_id: str, body: Json, if_match: str | None, file: File | None) -> Call[Preview]:
    """What a change of a document would do. if_match: as for `edit`."""
    path = f"/documents/{segment(document_id)}/touched"
    return Call("POST", path, Preview, body=body, headers=_made_for(if_match), files=(file,))


def _made_for(if_match: str | None) -> dict[str, str]:
    return {} if if_match is None else {"If-Match": f'"{if_match}"'}


def segment(text: str) -> str:
    """Any text as one segment of a path."""
    return quote(text, safe="")


# ---- batches


class Lines:
    """JSON lines out of the chunks of a stream; only a line feed ends one.

    httpx's own lines also end at characters that JSON may have within a text, such as U+0085.
    """

    def __init__(self) -> None:
        self._begun = b""

    def of(self, piece: bytes) -> list[bytes]:
        """The lines that end in this piece."""
        *whole, self._begun = (self._begun + piece).split(b"\n")
        return whole


@dataclass
class Batch:
    """A long batch under way: which questions wait, and which the current request has."""

    questions: list[Any]
    k: int | None
    waiting: list[int] = field(init=False)  # positions of the questions that are still to be answered
    sent: list[int] = field(default_factory=list)
    _lines: int = 0  # of the response that have come
    _pause_s: float = 0.0  # until those of them that were refused may be asked again

    @classmethod
    def of(cls, questions: Iterable[str | Question], k: int | None) -> Batch:
        """The questions, as the server takes them."""
        return cls([one if isinstance(one, str) else question_body(one) for one in questions], k)

    def __post_init__(self) -> None:
        self.waiting = list(range(len(self.questions)))

    def next(self) -> Call[records.Result]:
        """The next request."""
        size, self.sent, self._lines, self._pause_s = 0, [], 0, 0.0
        for position in self.waiting[:_MOST_QUESTIONS]:
            size += len(json.dumps(self.questions[position])) + 1
            if self.sent and size > _MOST_BYTES:
                break
            self.sent.append(position)
        body = {"questions": [self.questions[position] for position in self.sent], **blocks_body(self.k, ())}
        headers = {"Accept": JSON_LINES}
        return Call("POST", "/ask/batch", records.Result, body=body, headers=headers)

    def take(self, line: bytes, patience: Patience) -> records.Result | None:
        """A line of the response; None: there is patience enough to send this question again."""
        told = json.loads(line)
        position = self.sent[told["index"]]
        self._lines += 1
        error = error_from(told["problem"]) if "problem" in told else None
        if error is not None and error.status in _PASSING:
            pause_s = float(error.retry_after_s or 1)
            if patience.allows(pause_s):
                self._pause_s = max(self._pause_s, pause_s)
                return None
        self.waiting.remove(position)
        answer = record(records.Answer, told["answer"]) if error is None else None
        return records.Result(position, answer, error)

    def too_large(self, error: Exception) -> records.Result | None:
        """The result of a question so long that the server takes no request with it; None: the error is another one."""
        if not (isinstance(error, ApiError) and error.status == 413 and len(self.sent) == 1):
            return None
        self.waiting.remove(self.sent[0])
        return records.Result(self.sent[0], None, error)

    def end(self, patience: Patience) -> float:
        """The response is over: seconds to wait before what was refused is sent again."""
        if self._lines < len(self.sent):
            raise httpx.RemoteProtocolError("The response ended before its last line.")
        if self._pause_s:
            patience.spend(self._pause_s)
        return self._pause_s


# ---- lists


def list_call(path: str, filters: Mapping[str, Filters | None]) -> Call[Json]:
    """A page of a list; the filters that are not None."""
    params = {name: _parameter(value) for name, value in filters.items() if value is not None}
    return Call("GET", path, dict, params=params)


def touched_call(path: str, most: int, differing: bool) -> Call[Json]:
    """A page of kept answers that read some blocks. differing: only those that turn out differently."""
    params = {"page_size": max(1, min(most, _LARGEST_PAGE))} | ({"differing": "true"} if differing else {})
    return Call("GET", path, dict, params=params)


def following_page(call: Call[Json], page: Json) -> Call[Json] | None:
    """The page after this one; None: there is none. Of its address only the parameters are used."""
    if page["next"] is None:
        return None
    return Call("GET", call.path, dict, params=dict(parse_qsl(urlsplit(page["next"]).query)))


def _parameter(value: Filters) -> str:
    if isinstance(value, datetime):
        return value.astimezone().isoformat()
    return str(value).lower() if isinstance(value, bool) else str(value)
