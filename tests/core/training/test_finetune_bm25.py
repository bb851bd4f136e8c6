"""Fine-tuning a reader on what BM25 finds: whose scores it sees, and which options go together."""

from __future__ import annotations

from pathlib import Path

import pytest

from realm_core.corpus.store import Snapshot
from realm_core.errors import RealmError, Stopped
from realm_core.index.bm25 import SparseRetriever
from realm_core.runs.activity import Activity
from realm_core.training import finetune
from realm_core.training.loop import Loop
from tests.core.conftest import Deployment
from tests.core.running import activity_of
from tests.core.training.material import QUESTIONS, questions, write_lines


def test_a_ranking_is_bm25s_with_scores_to_scale(deployment: Deployment, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(finetune, "_QUESTIONS_AT_ONCE", 5)  # of twelve
    monkeypatch.setattr(finetune, "_RANKED", 4)
    snapshot = Snapshot.open(deployment.corpus)
    texts = [question for question, _, _ in QUESTIONS]
    retriever = SparseRetriever(snapshot)
    rankings = finetune._rankings(retriever, texts, 0.25, Activity(quiet=True))
    rows, scores = retriever.search(texts, 4)
    assert [ranking.rows_R.tolist() for ranking in rankings] == rows
    for ranking, own in zip(rankings, scores, strict=True):
        assert ranking.scores_R.tolist() == pytest.approx([score / 4 for score in own])


def command(deployment: Deployment, folder: Path, *options: object) -> list[object]:
    asked = write_lines(folder / "tiny.jsonl", questions())
    made = ["--model", deployment.model, "--corpus", deployment.corpus, "--output", folder / "tuned"]
    return [*made, "--questions", asked, "--device", "cpu", "--set", "holdout=0.0", *options]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ([], "--index is needed, unless BM25 finds the blocks."),
        (["--retriever", "bm25", "--index", "/no"], "--index is for --retriever dense alone."),
        (["--index", "/no", "--score-scale", "2"], "--score-scale is for --retriever bm25 alone."),
        (["--index", "/no", "--bm25-cache", "/no"], "--bm25-cache is for --retriever bm25 alone."),
        (["--retriever", "bm25", "--score-scale", "0"], "--score-scale must be a number above 0, not 0.0."),
    ],
)
def test_options_that_do_not_go_together_are_refused(
    deployment: Deployment, tmp_path: Path, options: list[str], message: str
) -> None:
    with pytest.raises(RealmError) as refused:
        activity_of("finetune", command(deployment, tmp_path, *options))
    assert str(refused.value) == message


def test_a_run_goes_on_with_the_same_scale_alone(
    deployment: Deployment, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def stop(loop: Loop, *_: object) -> None:
        loop._save({})
        raise Stopped

    with monkeypatch.context() as patch:
        patch.setattr(Loop, "_stop_if_asked", stop)
        with pytest.raises(Stopped):
            activity_of("finetune", command(deployment, tmp_path, "--retriever", "bm25"), run=tmp_path / "run")
    other = command(deployment, tmp_path, "--retriever", "bm25", "--score-scale", 2)
    with pytest.raises(RealmError, match="belongs to other rows or settings than this run's"):
        activity_of("finetune", other, run=tmp_path / "run")
