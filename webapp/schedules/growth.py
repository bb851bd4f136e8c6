"""How a corpus grows that answers part by part: how many articles each part has, and which of them may answer.

A part has eight times as many articles as the one before, and more than what answers: a site never answers from less
than before. Entries of the dictionary do not count: each is a line, and tens of thousands of them would put off a part
that tells more. What a person deploys between two parts stays.
"""

from __future__ import annotations

from typing import Final

from webapp.models import CorpusSnapshot, Deployment, Schedule

FIRST_ARTICLES: Final = 2000
_GROWTH: Final = 8  # so what is embedded again is a seventh of the whole


def first_articles(corpus_name: str) -> int:
    """Number of articles of the first part of a new corpus; 0: all at once, because an earlier whole one answers."""
    active = Deployment.active()
    if active is not None and active.index.corpus.name == corpus_name and active.index.corpus.share == 1:
        return 0
    return _above(FIRST_ARTICLES, active)


def next_articles(articles: int, share: float, active: Deployment | None) -> int:
    """Number of articles for the next part; 0: the whole source."""
    larger = _above(articles * _GROWTH, active)
    return 0 if share * larger / articles >= 1 else larger


def _above(articles: int, active: Deployment | None) -> int:
    """Multiply by 8 until above the deployed corpus's article count."""
    while active is not None and articles <= _articles(active.index.corpus):
        articles *= _GROWTH
    return articles


def is_larger(corpus: CorpusSnapshot, active: Deployment | None) -> bool:
    """Whether a corpus may answer: all of its source may, a part if it has more articles than what answers."""
    return corpus.share == 1 or active is None or _articles(corpus) > _articles(active.index.corpus)


def deployed_by_others(schedule: Schedule) -> Deployment | None:
    """The active deployment if someone else deployed since this run began. Folding its index does not count."""
    known = schedule.answering
    later = Deployment.objects.filter(pk__gt=known.pk if known else 0).select_related("index")
    for deployment in later.order_by("pk"):
        if known is None or (deployment.index_id, deployment.model_id) != (known.index.folded_into_id, known.model_id):
            return Deployment.active()
        known = deployment
    return None


def _articles(corpus: CorpusSnapshot) -> int:
    """Number of articles without entries of the dictionary."""
    return corpus.articles - corpus.dictionary_entries
