"""Ask a REALM question answering server.

    from realm_client import Client

    with Client("http://127.0.0.1:8000") as realm:
        print(realm.ask("Who directed 2001: A Space Odyssey?").text)

`AsyncClient` is the same with `await`.
"""

from realm_client._async_client import AsyncClient
from realm_client._client import Client
from realm_client._errors import (
    ApiError,
    Conflict,
    FieldError,
    InvalidRequest,
    NotAllowed,
    NotFound,
    TooManyRequests,
    Unavailable,
    Unreachable,
)
from realm_client._operating import (
    Corpus,
    Deployment,
    Evaluation,
    Index,
    Input,
    Job,
    Kind,
    Limit,
    Log,
    Metric,
    Model,
    QuestionSet,
    Said,
    Setting,
    SpanSet,
)
from realm_client._records import (
    Answer,
    Article,
    Block,
    Candidate,
    Contender,
    Evidence,
    Feedback,
    Filling,
    FillingEvidence,
    Guess,
    ListedAnswer,
    Place,
    Question,
    RankedAnswer,
    Result,
    Retrieval,
    RetrievedBlock,
    Why,
)

__all__ = [
    "Answer",
    "ApiError",
    "Article",
    "AsyncClient",
    "Block",
    "Candidate",
    "Client",
    "Conflict",
    "Contender",
    "Corpus",
    "Deployment",
    "Evaluation",
    "Evidence",
    "Feedback",
    "FieldError",
    "Filling",
    "FillingEvidence",
    "Guess",
    "Index",
    "Input",
    "InvalidRequest",
    "Job",
    "Kind",
    "Limit",
    "ListedAnswer",
    "Log",
    "Metric",
    "Model",
    "NotAllowed",
    "NotFound",
    "Place",
    "Question",
    "QuestionSet",
    "RankedAnswer",
    "Result",
    "Retrieval",
    "RetrievedBlock",
    "Said",
    "Setting",
    "SpanSet",
    "TooManyRequests",
    "Unavailable",
    "Unreachable",
    "Why",
]
