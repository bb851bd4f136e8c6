"""Kept answers whose every number is worked out here, by plain arithmetic on a few blocks.

Nothing is imported from the code that computes them for the site, so that the two can disagree.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import log
from typing import Any

from realm_core.corpus.records import block_id
from realm_core.serving.provenance import Answer
from webapp.models import AskedAnswer, CorpusSnapshot, Deployment, EvidenceBlock, IndexGeneration, ModelVersion


@dataclass(frozen=True)
class Read:
    """A block that was read. `offers`: likelihood by answer, each a stretch of the text."""

    title: str
    text: str
    prior: float
    offers: dict[str, float]
    null: float | None = None
    section: str = ""
    url: str = "https://en.wikipedia.org/wiki/Example"

    @property
    def block_id(self) -> str:
        return block_id(self.title, self.text)


ODYSSEY = (
    Read(
        "2001: A Space Odyssey",
        "2001: A Space Odyssey is a 1968 epic science fiction film produced and directed by Stanley Kubrick. The "
        "screenplay was written by Kubrick and science fiction author Arthur C. Clarke.",
        0.5,
        {"Stanley Kubrick": 0.8, "Arthur C. Clarke": 0.1},
        0.05,
    ),
    Read(
        "Stanley Kubrick",
        "Stanley Kubrick was an American filmmaker and photographer. Widely considered one of the greatest "
        "filmmakers of all time, his films were nearly all adaptations of novels or short stories, "
        "spanning a number of genres.",
        0.2,
        {"Stanley Kubrick": 0.6},
        0.35,
        section="Career › Breakthrough",
    ),
    Read(
        "Arthur C. Clarke",
        "Sir Arthur Charles Clarke was an English science fiction writer, science writer, futurist and inventor. He "
        "co-wrote the screenplay for the 1968 film with Arthur C. Clarke's usual care.",
        0.2,
        {"Arthur C. Clarke": 0.7},
        0.2,
    ),
    Read("HAL 9000", "HAL 9000 is a fictional artificial intelligence character.", 0.06, {"fictional": 0.01}, 0.98),
    Read(
        "Ridley Scott", "Sir Ridley Scott is an English film director and producer.", 0.04, {"Ridley Scott": 0.3}, 0.6
    ),
)


def marginals(blocks: tuple[Read, ...]) -> dict[str, float]:
    """p(y|x) of every answer, from the definition: Σ prior · likelihood, the priors renormalised."""
    total = sum(block.prior for block in blocks)
    sums: dict[str, float] = {}
    for block in blocks:
        for text, likelihood in block.offers.items():
            sums[text] = sums.get(text, 0.0) + block.prior / total * likelihood
    return dict(sorted(sums.items(), key=lambda item: -item[1]))


def without(blocks: tuple[Read, ...], *titles: str) -> tuple[Read, ...]:
    return tuple(block for block in blocks if block.title not in titles)


def payload(
    blocks: tuple[Read, ...] = ODYSSEY,
    question: str = "Who directed 2001: A Space Odyssey?",
    normalisation: str = "block+null",
    min_probability: float = 0.0,
    explains: str = "answer",
) -> dict[str, Any]:
    """What the engine would have said, as plain JSON."""
    answers = [
        {
            "text": text,
            "probability": probability,
            "also": [],
            "likelihood": max(block.offers.get(text, 0.0) for block in blocks),
        }
        for text, probability in marginals(blocks).items()
    ]
    has_null = normalisation == "block+null"
    no_answer = sum(block.prior * (block.null or 0.0) for block in blocks)
    evidence = []
    for block in blocks:
        if explains == "no_answer":
            likelihood, total, best = block.null or 0.0, no_answer, ""
        else:
            best = str(answers[0]["text"])
            likelihood, total = block.offers.get(best, 0.0), float(answers[0]["probability"])
        posterior = block.prior * likelihood / total
        start = block.text.find(best) if likelihood and best else -1
        evidence.append(
            {
                "rank": 0,
                "block_id": block.block_id,
                "title": block.title,
                "text": block.text,
                "section": block.section,
                "url": block.url,
                "start": start if start >= 0 else None,
                "end": start + len(best) if start >= 0 else None,
                "prior": block.prior,
                "likelihood": likelihood,
                "posterior": posterior,
                "support": posterior - block.prior,
                "retriever_score": log(block.prior),
                "retriever_prior": block.prior,
                "no_answer_likelihood": block.null if has_null else None,
                "collection": "vital-en",
                "opens": True,
                "candidates": [
                    {
                        "key": text.lower(),
                        "text": text,
                        "likelihood": offered,
                        "start": max(block.text.find(text), 0),
                        "end": max(block.text.find(text), 0) + len(text),
                    }
                    for text, offered in block.offers.items()
                ],
            }
        )
    evidence.sort(key=lambda item: (-item["posterior"], -item["prior"]))
    for rank, item in enumerate(evidence, start=1):
        item["rank"] = rank
    return {
        "question": question,
        "answer": answers[0] if explains == "answer" else None,
        "no_answer_probability": no_answer if has_null else None,
        "answers": answers,
        "evidence": evidence,
        "explains": explains,
        "normalisation": normalisation,
        "min_probability": min_probability,
        "model": "realm-mini",
        "index": "gen-1",
        "corpus": "0123456789abcdef",
        "latency_ms": 231.0,
        "timings_ms": {"embed": 11.0, "search": 4.0, "read": 213.0, "marginalise": 3.0},
    }


def deployment(snapshot_path: str = "corpora/vital-en/0123456789abcdef", note: str = "") -> Deployment:
    """The active deployment; a new one over another generation when there is one already."""
    number = Deployment.objects.count() + 1
    model, _ = ModelVersion.objects.get_or_create(
        model_hash="m" * 16, defaults={"name": "realm-mini", "version": "1", "path": "models/realm-mini"}
    )
    corpus, _ = CorpusSnapshot.objects.get_or_create(
        snapshot_id="0123456789abcdef",
        defaults={
            "name": "vital-en",
            "path": snapshot_path,
            "source": "vital",
            "language": "en",
            "articles": 10033,
            "blocks": 21000,
            "licence": "CC BY-SA 4.0",
            "attribution": "Text from Wikipedia, by Wikipedia contributors.",
        },
    )
    index = IndexGeneration.objects.create(
        generation=f"gen-{number}", model=model, corpus=corpus, path=f"indexes/gen-{number}", rows=21000, dim=128
    )
    return Deployment.activate(index, note=note)


def store(value: dict[str, Any] | None = None, *, session_key: str = "", asker: Any = None) -> AskedAnswer:
    """Keep an answer as asking does."""
    value = payload() if value is None else value
    asked = AskedAnswer.objects.create(
        question=value["question"],
        asker=asker,
        session_key=session_key,
        k=max(len(value["evidence"]), 1),
        answer_text=value["answer"]["text"] if value["answer"] else None,
        probability=value["answer"]["probability"] if value["answer"] else None,
        no_answer_probability=value["no_answer_probability"],
        confidence=Answer.from_dict(value).confidence if value["answer"] else None,
        payload=value,
        deployment=Deployment.active() or deployment(),
        latency_ms=value["latency_ms"],
    )
    names = ("rank", "block_id", "collection", "prior", "likelihood", "posterior", "support")
    for item in value["evidence"]:
        EvidenceBlock.objects.create(answer=asked, **{name: item[name] for name in names})
    return asked
