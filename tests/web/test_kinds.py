"""What each kind of job needs: parameters read, refused by name, and written whole."""

from __future__ import annotations

import importlib
import json
from typing import Any

import pytest
from django.apps import apps

from realm_core.settings import flat
from realm_core.tasks import TASKS
from realm_core.training.ablation import ROWS
from realm_core.training.config import FinetuneConfig, MlmConfig
from realm_core.training.tasks import Ablate
from tests.web.console import another_corpus, another_model
from tests.web.operating import ablation, question_set, span_set
from tests.web.pages import stored
from webapp.kinds import KINDS, ParameterError
from webapp.models import IndexGeneration, Job, JobKind, Purpose, QuestionSet

pytestmark = pytest.mark.django_db


def finetuning(**changed: Any) -> dict[str, Any]:
    index = IndexGeneration.objects.get()
    learn = QuestionSet.objects.filter(name="learnt").first() or question_set("learnt", Purpose.LEARN)
    return {"model": index.model_id, "corpus": index.corpus_id, "index": index.pk, "questions": [learn.pk], **changed}


def refused(kind: str, parameters: dict[str, Any]) -> dict[str, str]:
    with pytest.raises(ParameterError) as caught:
        KINDS[kind].read(parameters)
    return caught.value.errors


def test_what_is_read_is_written_with_every_setting() -> None:
    stored.deployment()
    kind = KINDS["finetune"]
    written = kind.written(kind.read(finetuning(epochs=7, repeat={"learnt": 2}, name="mine")))
    assert (written["epochs"], written["repeat"], written["name"]) == (7, {"learnt": 2}, "mine")
    assert written["reader_lr"] == FinetuneConfig().reader_lr
    assert written["questions"] == [QuestionSet.objects.get().pk]
    assert kind.written(kind.read(json.loads(json.dumps(written)))) == written


def test_everything_that_is_wrong_is_named() -> None:
    stored.deployment()
    errors = refused("finetune", finetuning(model=99, epochs=0, batch="16", masking="salient", questions=[]))
    assert errors == {
        "model": "names no model version that can be used: 99.",
        "questions": "is needed.",
        "epochs": "must be at least 1, not 0.",
        "batch": "must be a whole number, not '16'.",
        "masking": "is no parameter of this kind of job.",
    }


def test_settings_that_do_not_go_together_are_named() -> None:
    stored.deployment()
    index = IndexGeneration.objects.get()
    start = {"model": index.model_id, "corpus": index.corpus_id, "index": index.pk, "spans": span_set(index).pk}
    read = KINDS["pretrain"].read({**start, "query_wordpieces": 32, "pair_wordpieces": 64})
    assert flat(read.task)["pair_wordpieces"] == 64  # less than there must be where 96 are the sentence's
    errors = refused("pretrain", {**start, "query_wordpieces": 64, "pair_wordpieces": 64})
    assert list(errors) == ["pair_wordpieces"] and errors["pair_wordpieces"].startswith("must be at least 80, ")
    errors = refused("pretrain", {**start, "steps": 100})  # with the default of 500 for refresh_every
    assert list(errors) == ["refresh_every"] and errors["refresh_every"].startswith("must be less than the 100 steps")
    assert KINDS["pretrain"].read({**start, "steps": 100, "refresh": "never"})


def test_questions_to_measure_by_are_not_learnt_from() -> None:
    stored.deployment()
    measured = question_set("measured", Purpose.MEASURE)
    errors = refused("finetune", finetuning(questions=[measured.pk]))
    assert errors == {"questions": f"must be of a question set to learn from, not of {measured}."}
    assert KINDS[JobKind.EVALUATE].read({"index": IndexGeneration.objects.get().pk, "questions": measured.pk})


def test_an_index_that_does_not_fit_is_refused() -> None:
    stored.deployment()
    index = IndexGeneration.objects.get()
    other = another_model(block_hash="e" * 64)
    errors = refused("finetune", finetuning(model=other.pk))
    assert list(errors) == ["index"] and "embeds blocks differently" in errors["index"]
    assert list(refused("finetune", finetuning(corpus=another_corpus().pk))) == ["index"]
    assert refused("finetune", finetuning(index=None)) == {"index": "is needed, unless BM25 finds the blocks."}
    assert KINDS["finetune"].read(finetuning(index=None, retriever="bm25"))["index"] is None
    assert index.model_id != other.pk
    several = {"model": other.pk, "index": [index.pk], "questions": finetuning()["questions"]}
    errors = refused("train-retriever", several)
    assert list(errors) == ["index"] and errors["index"].startswith(f"{index} was built by ")
    assert KINDS["train-retriever"].read({**several, "model": index.model_id})["index"] == [index]
    assert refused("train-retriever", {**several, "index": []}) == {"index": "is needed."}


def test_records_that_do_not_fit_are_named_beside_wrong_settings() -> None:
    stored.deployment()
    other = another_model(block_hash="e" * 64)
    errors = refused("finetune", finetuning(model=other.pk, epochs=0, masking="x", repeat={"learnt": -1}))
    assert errors.keys() == {"index", "epochs", "masking", "repeat.learnt"}
    assert "embeds blocks differently" in errors["index"]
    # An index means nothing where BM25 finds the blocks, and a setting that is wrong does not change that.
    assert refused("finetune", finetuning(model=other.pk, epochs=0, retriever="bm25")).keys() == {"epochs"}
    gone = refused("finetune", finetuning(model=other.pk, corpus=99, epochs=0))
    assert gone.keys() == {"index", "corpus", "epochs"} and "embeds blocks differently" in gone["index"]


@pytest.mark.parametrize(
    ("parameters", "name"),
    [
        ({"source": "jsonl"}, "file"),
        ({"source": "vital", "file": "x.jsonl"}, "file"),
        ({"source": "jsonl", "file": "../secret_key"}, "file"),
        ({"source": "jsonl", "file": ".hidden"}, "file"),
        ({"source": "jsonl", "file": "a/b.jsonl"}, "file"),
        ({"source": "http://example.org"}, "source"),
        ({"corpus_name": "a/../../b"}, "corpus_name"),
        ({"corpus_name": "a\x00b"}, "corpus_name"),
    ],
)
def test_a_source_is_a_file_of_its_folder_and_nothing_else(parameters: dict[str, Any], name: str) -> None:
    assert list(refused(JobKind.INGEST, parameters)) == [name]


def test_what_is_wrong_with_an_ablation_is_named_before_it_starts() -> None:
    given = ablation()
    kind = KINDS[JobKind.ABLATE]
    task = kind.read({**given, "ict.steps": 10, "rows": ["realm", "bm25"]}).task
    assert isinstance(task, Ablate) and (task.settings.ict.steps, task.settings.mlm) == (10, MlmConfig())
    wrong = {"ict.steps": 0, "pretrain.masking": "span", "finetune.repeat": {"a": -1}, "steps": 5, "rows": ["best"]}
    assert refused(JobKind.ABLATE, {**given, **wrong}) == {
        "rows": f"must be one or more of {', '.join(ROWS)}, each once, not ['best'].",
        "ict.steps": "must be at least 1, not 0.",
        "finetune.repeat.a": "must be a whole number that is not negative, not -1.",
        "pretrain.masking": "is no parameter of this kind of job.",
        "steps": "is no parameter of this kind of job.",
    }
    for rows in ({}, {"rows": ["realm", "stale"]}):  # 30 × 100 steps between refreshes, of 1,000
        errors = refused(JobKind.ABLATE, {**given, **rows, "pretrain.refresh_every": 100})
        assert list(errors) == ["pretrain.refresh_every"]
        assert "must be less than the 1,000 steps, not 3,000" in errors["pretrain.refresh_every"]
    written = kind.written(kind.read(given))  # with the defaults, every row is what it is called
    assert written["rows"] == list(ROWS) and kind.written(kind.read(json.loads(json.dumps(written)))) == written


@pytest.mark.both_databases
def test_an_ablation_that_was_told_in_one_text_is_told_by_setting() -> None:
    migration = importlib.import_module("webapp.migrations.0010_ablations_by_setting")
    kind, given = KINDS[JobKind.ABLATE], ablation()
    text = '# the budget\n[ict]\nsteps = 7\n[pretrain]\nmasking = "salient"\n[finetune.repeat]\nlearnt = 2\n'
    some = Job.objects.create(kind=JobKind.ABLATE, parameters={**given, "config": text, "rows": "realm bm25"})
    every = Job.objects.create(kind=JobKind.ABLATE, parameters={**given, "config": "", "rows": " "})
    new = Job.objects.create(kind=JobKind.ABLATE, parameters={**given, "mlm.steps": 3, "rows": ["realm"]})
    migration.by_setting(apps, None)
    for job in (some, every, new):
        job.refresh_from_db()
    told = {"ict.steps": 7, "finetune.repeat": {"learnt": 2}, "rows": ["realm", "bm25"]}
    assert some.parameters == given | told and kind.written(kind.read(some.parameters)).items() >= told.items()
    assert every.parameters == given and flat(kind.read(every.parameters).task)["rows"] == list(ROWS)
    assert new.parameters == given | {"mlm.steps": 3, "rows": ["realm"]}


@pytest.mark.parametrize("kind", list(KINDS))
def test_names_of_parameters_do_not_overlap_and_all_are_explained(kind: str) -> None:
    described = KINDS[kind]
    names = [one.name for one in described.inputs] + [one.name for one in described.described()]
    assert len(names) == len(set(names))
    for help_text in [one.help for one in described.inputs] + [one.help for one in described.described()]:
        assert help_text and not help_text.endswith(".")


def test_every_kind_is_known() -> None:
    assert set(KINDS) == {task.kind for task in TASKS if task.queue} >= set(JobKind)
